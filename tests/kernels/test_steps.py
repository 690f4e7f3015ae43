"""Programs of steps: what C and Python agree on, each step against its op alone, random programs against
numpy, and programs that cannot be."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.base.errors import GraphError
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import steps

KERNELS = Path(__file__).resolve().parents[2] / "native/kernels"
HEADER, FUNCTIONS = (KERNELS / "steps.h").read_text(), (KERNELS / "functions.h").read_text()
PARAMETERS = {
    "clip": {"min": -0.5, "max": 0.75},
    "leaky_relu": {"alpha": 0.2},
    "hard_sigmoid": {"alpha": 0.3, "beta": 0.4},
    "elu": {"alpha": 0.7},
    "selu": {"alpha": 2.0, "gamma": 3.0},
    "celu": {"alpha": 2.0},
}
OPS = list(steps.codes())
F32 = TensorType("float32", (2, 3, 40))


def run(op, arrays, device="cpu:0", **attrs):
    b = gr.GraphBuilder()
    values = [b.input(f"x{i}", a.shape, str(a.dtype)) for i, a in enumerate(arrays)]
    b.output(b.op(op, *values, **attrs))
    session = gr.create(b.build(), None, [device])
    for i, a in enumerate(arrays):
        session.set_input(f"x{i}", a)
    session.run()
    return session.get_output(0).numpy()


def test_c_and_python_have_the_same_codes_and_limits():
    found = re.findall(r"GR_STEP_(\w+) = (\d+)", HEADER)
    found += re.findall(r"^GR_STEP_(?:FUNCTION|NUMBER)\((\w+), (\d+)", FUNCTIONS, re.M)
    codes = {name.lower(): int(code) for name, code in found}
    assert len(codes) == len(found)
    assert codes.pop("load") == 0
    assert codes.pop("gelu_tanh") == steps.code_of("gelu") + 1
    assert codes == steps.codes()
    assert f"GR_STEPS_REGISTERS {steps.MOST_REGISTERS} " in HEADER
    most = max(op.arity[1] for op in ops.all_ops().values() if any(a.name == "epilogue" for a in op.attrs))
    assert f"GR_STEPS_ARGS {most + 1} " in HEADER


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_gives_the_bits_of_its_op_alone_on_cpu(name, dtype):
    rng = np.random.default_rng(5)
    arity, attrs = ops.require(name).arity[0], PARAMETERS.get(name, {})
    arrays = [rng.standard_normal((3, 1031)).astype(dtype) * 2 for _ in range(arity)]
    arrays[0].flat[:4] = [np.nan, np.inf, -np.inf, -0.0]
    arrays = [np.abs(a) for a in arrays] if name in ("sqrt", "log") else arrays
    body = [[name, list(range(arity)), attrs]]
    alone, step = run(name, arrays, **attrs), run("fused", arrays, body=body)
    np.testing.assert_array_equal(step, alone)
    numbers = ~np.isnan(alone)
    assert step[numbers].tobytes() == alone[numbers].tobytes()


@pytest.mark.parametrize("name", OPS)
def test_a_step_is_close_to_the_reference_on_tt(name):
    rng = np.random.default_rng(6)
    op, attrs = ops.require(name), PARAMETERS.get(name, {})
    arrays = [rng.uniform(0.5, 2, (3, 40, 70)).astype(np.float32) for _ in range(op.arity[0])]
    arrays = arrays if name in ("sqrt", "log", "divide", "reciprocal") else [1 - a for a in arrays]
    made = run("fused", arrays, "tt:0", body=[[name, list(range(len(arrays))), attrs]])
    (wanted,) = op.reference(arrays, op.decode(attrs))
    np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=1e-6)


@st.composite
def programs(draw):
    """Steps that read inputs and earlier steps at will, some results several times, some never."""
    count, inputs = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    body = [["add", [k, (k + 1) % inputs], {}] for k in range(inputs)]  # every input is read
    for j in range(inputs, inputs + count):
        name = draw(st.sampled_from(["add", "subtract", "multiply", "maximum", "relu", "tanh", "sigmoid"]))
        reads = [draw(st.integers(-j, inputs - 1)) for _ in range(ops.require(name).arity[0])]
        body.append([name, reads, {}])
    return [*body, ["add", [-len(body), -1], {}]], inputs


@settings(max_examples=40, deadline=None)
@given(programs(), st.sampled_from([(5,), (3, 1100), (2, 3, 40)]), st.data())
def test_random_programs_agree_with_numpy(program, shape, data):
    body, count = program
    rng, shapes = np.random.default_rng(8), [shape, (1,) * len(shape), shape[-1:], (*shape[:-1], 1), ()]
    drawn = [shape, *(data.draw(st.sampled_from(shapes)) for _ in range(count - 1))]
    arrays = [rng.uniform(-1, 1, s).astype(np.float32) for s in drawn]
    types = [TensorType("float32", a.shape) for a in arrays]
    try:
        made = ops.require("fused").infer(types, {"body": steps_of(body)})
    except GraphError:
        return  # the last step is smaller than the inputs
    wanted = steps.run(steps_of(body), arrays)
    assert made == [TensorType("float32", wanted.shape)]
    for device in ("cpu:0", "tt:0"):
        np.testing.assert_allclose(run("fused", arrays, device, body=body), wanted, rtol=1e-4, atol=1e-4)


def steps_of(body):
    return ops.require("fused").decode({"body": body})["body"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ([], "no steps"),
        ([["softmax", [0], {}]], "'softmax' cannot be a step"),
        ([["rel", [0], {}]], "did you mean 'relu'"),
        ([["relu", [1], {}]], "reads 1, which is neither"),
        ([["relu", [-1], {}]], "reads -1, which is neither"),
        ([["add", [0], {}]], "has 1 inputs, it takes 2"),
        ([["relu", [0], {"alpha": 1}]], "no attribute 'alpha'"),
        ([["relu", [0], {}]] * 25, "at most 24 steps"),
    ],
)
def test_programs_that_cannot_be_are_told(body, text):
    with pytest.raises(GraphError, match=text):
        ops.require("fused").infer([F32], ops.require("fused").decode({"body": body}))


@pytest.mark.parametrize(
    "body", [3, [1], [["relu", 0, {}]], [["relu", [0.5], {}]], [["relu", [0], []]], [[[], [0], {}]]]
)
def test_what_is_no_list_of_steps_is_told(body):
    with pytest.raises(GraphError, match="attribute 'body' must be steps"):
        ops.require("fused").decode({"body": body})


def test_an_epilogue_that_does_not_fit_is_told():
    dense = ops.require("dense")
    x, w = TensorType("float32", (2, 3, 8)), TensorType("float32", (4, 8))
    for other, text in (
        (TensorType("float32", (3, 4)), "neither as the output"),
        (TensorType("float32", (5, 2, 3, 4)), "they must be equal"),
    ):
        with pytest.raises(GraphError, match=text):
            dense.infer([x, w, other], dense.decode({"epilogue": [["add", [-1, 2], {}]]}))
    with pytest.raises(GraphError, match="come after the op's own"):
        dense.infer([x, w], dense.decode({"epilogue": [["add", [-1, 1], {}]]}))


def test_a_program_needs_few_registers_however_long_it_is():
    body = [["relu", [0], {}]]
    for _ in range(20):
        body.append(["tanh", [-len(body)], {}])
    found = steps.words(steps_of(body), False)
    rows = [found[2 + 6 * i : 8 + 6 * i] for i in range(found[0])]
    assert max(row[1] for row in rows) <= 1
