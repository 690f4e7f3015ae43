"""From a plan to a library that runs: compiled kernels give the bits that the generic kernels give."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from graph_runtime.codegen.build import build_bundle, build_library

import graph_runtime as gr
from graph_runtime.base import dtypes
from graph_runtime.base.config import config
from graph_runtime.base.errors import CompileError, DocumentError, KernelError, UnsupportedOpError, WriteError
from graph_runtime.ir.graph import Func, Graph, TensorType
from graph_runtime.ir.ops import all_ops
from graph_runtime.ir.ops.inputs import cases_on
from graph_runtime.ir.ops.registry import Case, Op
from graph_runtime.plan import plan
from graph_runtime.run.library import load_library
from graph_runtime.run.sessions.session import Session


@pytest.fixture(autouse=True)
def _cache_of_this_run(kernel_cache):
    with config(CACHE_DIR=kernel_cache):
        yield


class Calls:
    """A graph of calls that have nothing to do with each other; all their outputs are the graph's."""

    def __init__(self):
        self.names, self.func_id, self.funcs, self.entries = [], [], [], []
        self.num_outputs, self.in_ptr, self.in_eid, self.inputs, self.outputs = [], [0], [], [], []
        self.types: list[TensorType] = []
        self.arrays: list[np.ndarray] = []

    def _node(self, name: str, fid: int, inputs: Sequence[int], types: Sequence[TensorType]) -> list[int]:
        eids = list(range(len(self.types), len(self.types) + len(types)))
        self.names.append(name)
        self.func_id.append(fid)
        self.in_eid += inputs
        self.in_ptr.append(len(self.in_eid))
        self.num_outputs.append(len(types))
        self.types += types
        return eids

    def add(self, name: str, op: Op, attrs: dict, arrays: Sequence[np.ndarray]) -> None:
        types = [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in arrays]
        eids = []
        for i, t in enumerate(types):
            self.inputs.append(len(self.names))
            eids += self._node(f"{name}_in{i}", -1, [], [t])
        outputs = op.infer(types, attrs)
        self.outputs += self._node(name, len(self.funcs), eids, outputs)
        self.funcs.append(Func(name, op.name, attrs, len(types), len(outputs)))
        self.arrays += arrays

    def graph(self) -> Graph:
        distinct = tuple(dict.fromkeys(self.types))
        return Graph(
            names=tuple(self.names),
            func_id=np.array(self.func_id, np.int32),
            funcs=tuple(self.funcs),
            row_ptr=np.cumsum([0, *self.num_outputs], dtype=np.int64),
            in_ptr=np.array(self.in_ptr, np.int64),
            in_eid=np.array(self.in_eid, np.int64),
            types=distinct,
            type_id=np.array([distinct.index(t) for t in self.types], np.int32),
            inputs=np.array(self.inputs, np.int64),
            outputs=np.array(self.outputs, np.int64),
        )


def _draw(rng: np.random.Generator, case: Case) -> list[np.ndarray]:
    arrays = []
    for i, (dtype, shape) in enumerate(case.inputs):
        how, target = case.make[i] if i < len(case.make) else "normal", dtypes.to_numpy(dtype)
        if how.startswith("index:"):
            values = rng.integers(0, int(how[6:]), shape)
        elif target.kind in "iub":
            values = rng.integers(1, 2 if target.kind == "b" else 6, shape)
        else:
            values = abs(rng.standard_normal(shape)) if how == "positive" else rng.standard_normal(shape)
        arrays.append(np.asarray(values).astype(target))
    return arrays


def _outputs(planned, arrays, libraries) -> list[np.ndarray]:
    session = Session(planned, libraries)
    for i, array in enumerate(arrays):
        session.set_input(i, array)
    session.run()
    return [session.output(i).numpy().copy() for i in range(len(planned.graph.outputs))]


def _sampled(cases: list[tuple[Op, Case]]) -> list[tuple[Op, Case]]:
    """One of COMPILED cases, drawn by SEED, in their order; without COMPILED all."""
    seed, part = int(os.environ.get("SEED", "0")), int(os.environ.get("COMPILED", "1"))
    drawn = np.random.default_rng(seed).permutation(len(cases))[: -(-len(cases) // part)]
    return [cases[at] for at in sorted(drawn.tolist())]


def _compare(tmp_path, kind: str, cases: list[tuple[Op, Case]]) -> int:
    rng, calls = np.random.default_rng(7), Calls()
    for number, (op, case) in enumerate(cases):
        calls.add(f"{op.name}_{number}", op, op.decode(case.attrs), _draw(rng, case))
    planned = plan(calls.graph(), [f"{kind}:0"])
    library = load_library(build_library([planned], tmp_path / "kernels.so"))
    assert {name for name, _ in library.kernels} == {f.name for f in planned.graph.funcs if f.op}
    generic, compiled = (_outputs(planned, calls.arrays, libraries) for libraries in ([], [library]))
    for i, (a, b) in enumerate(zip(generic, compiled, strict=True)):
        name = planned.graph.names[planned.graph.entry_nid[planned.graph.outputs[i]]]
        assert a.dtype == b.dtype, name
        bits = [np.frombuffer(x.tobytes(), np.uint8) for x in (a, b)]  # a NaN equals itself, -0 is not 0
        np.testing.assert_array_equal(*bits, err_msg=name)
    return len(generic)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpu", "tt"])
def test_compiled_kernels_give_the_bits_of_the_generic_ones_in_every_case(tmp_path, kind, few_units):
    cases = [(op, case) for op in all_ops().values() if not op.is_nop for case in cases_on(op, kind)]
    assert len(cases) > 200
    _compare(tmp_path, kind, _sampled(cases))


def test_a_unit_has_the_steps_that_its_programs_run(tmp_path):
    """On tt others are left out of it; a code is of an op and how it approximates."""
    op = all_ops()["dense"]
    types = (("float32", (5, 6)), ("float32", (4, 6)))
    steps = [["gelu", [-1], {"approximate": "tanh"}], ["maximum", [-2, -1], {}]]
    assert _compare(tmp_path, "tt", [(op, Case("steps", types, {"epilogue": steps}))]) == 1


# ---------------------------------------------------------------- plans
def _adds(*names: str, shape=(2, 3), op: str | None = "add") -> Graph:
    calls, add = Calls(), all_ops()["add"]
    for name in names:
        calls.add(name, add, {}, [np.ones(shape, np.float32)] * 2)
    if op is None:
        calls.funcs = [Func(f.name, None, {}, 2, 1) for f in calls.funcs]
    return calls.graph()


def test_r8_one_library_serves_several_plans_and_device_kinds(tmp_path):
    graph = _adds("a", "b")
    plans = [
        plan(graph, "cpu:0"),
        plan(graph, "tt:0"),
        plan(graph, ["cpu:0", "tt:0"], place={"b": "tt:0"}),
        plan(graph, "null:0"),
    ]
    library = load_library(build_library(plans, tmp_path / "kernels.so"))
    assert set(library.kernels) == {("a", "cpu"), ("a", "tt"), ("b", "cpu"), ("b", "tt")}
    for planned in plans[:3]:
        outputs = _outputs(planned, [np.full((2, 3), 2, np.float32)] * 4, [library])
        assert [(y == 4).all() for y in outputs] == [True, True]


def test_one_name_for_two_things_is_refused(tmp_path):
    plans = [plan(_adds("a"), "cpu:0"), plan(_adds("a", shape=(5,)), "cpu:0")]
    with pytest.raises(CompileError, match=r"'a' names two kernels, .*float32\[2, 3\].*float32\[5\]"):
        build_library(plans, tmp_path / "kernels.so")


def test_functions_without_op_are_named(tmp_path):
    with pytest.raises(UnsupportedOpError, match=r"functions without gr\.op: a on cpu \(node a\), b on cpu"):
        build_library([plan(_adds("a", "b", op=None), "cpu:0")], tmp_path / "kernels.so")
    assert not (tmp_path / "kernels.so").exists()


def test_a_compiled_kernel_that_fails_says_why(tmp_path):
    calls = Calls()
    calls.add("quotient", all_ops()["divide"], {}, [np.ones(4, np.int32), np.zeros(4, np.int32)])
    planned = plan(calls.graph(), "cpu:0")
    library = load_library(build_library([planned], tmp_path / "kernels.so"))
    with pytest.raises(KernelError, match=r"'quotient' \(divide on cpu:0\) failed: .*zero"):
        _outputs(planned, calls.arrays, [library])
    calls.arrays[1][:] = 1
    assert (_outputs(planned, calls.arrays, [library])[0] == 1).all()


# ---------------------------------------------------------------- bundles
def _foreign(tmp_path, name: str = "theirs"):
    """A library that others made, with one packed function."""
    source = tmp_path / "theirs.c"
    source.write_text(f"int {name}(void *args, int *codes, int n) {{ return !args || !codes || n == 0; }}\n")
    path = tmp_path / "theirs.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    return path


@pytest.mark.parametrize("name", ["net.bundle", "net.zip"])
def test_a_bundle_has_plan_kernels_and_parameters(tmp_path, name):
    graph, a, b = _adds("a", "b"), np.full((2, 3), 5, np.float32), np.full((2, 3), 7, np.float32)
    out = build_bundle(
        graph, ["cpu:0", "tt:0"], tmp_path / name, place={"b": "tt:0"}, params={"a_in0": a, "b_in1": b}
    )
    mod = gr.load(out)
    assert [str(d) for d in mod.session.plan.devices] == ["cpu:0", "tt:0"]
    origins = {k.name: Path(k.origin).name for k in mod.session.program.kernels}
    assert origins == {"a": "kernels.so", "b": "kernels.so"}
    mod.run(a_in1=a, b_in0=b)
    assert (mod.get_output(0).numpy() == 10).all()
    assert (mod.get_output(1).numpy() == 14).all()


@pytest.mark.parametrize("change", [{"params": {}}, {"inputs": []}, {"inputs": ["x", "z"]}])
def test_a_bundle_whose_index_leaves_an_input_without_a_value_is_refused(tmp_path, change):
    b = gr.GraphBuilder()
    b.output(b.op("relu", b.op("add", b.input("x", (3,)), b.param("w", np.ones(3, np.float32)))))
    out = tmp_path / "out.bundle"
    build_bundle(b, ["cpu:0"], out)
    index = json.loads((out / "bundle.json").read_text())
    index["programs"][0] |= change
    (out / "bundle.json").write_text(json.dumps(index))
    with pytest.raises(DocumentError, match=r"are not the inputs of its graph: [wxz]"):
        gr.load(out)


def test_equal_inputs_give_equal_bundles(tmp_path):
    params = {"a_in0": np.ones((2, 3), np.float32)}
    outs = [tmp_path / folder / "net.zip" for folder in "xy"]
    made = [build_bundle(_adds("a"), "cpu:0", out, params=params) for out in outs]
    assert made[0].read_bytes() == made[1].read_bytes()


def test_functions_of_given_libraries_go_into_the_bundle_and_are_not_generated(tmp_path):
    theirs = _foreign(tmp_path)
    graph = _adds("theirs", op=None)
    with pytest.raises(UnsupportedOpError, match="theirs on cpu"):
        build_bundle(graph, "cpu:0", tmp_path / "net.bundle")
    with pytest.raises(UnsupportedOpError, match="theirs on tt"):
        build_bundle(graph, "tt:0", tmp_path / "net.bundle", libraries=[theirs])
    assert not (tmp_path / "net.bundle").exists()
    mod = gr.load(build_bundle(graph, "cpu:0", tmp_path / "net.bundle", libraries=[theirs]))
    mod.run(theirs_in0=np.ones((2, 3), np.float32), theirs_in1=np.ones((2, 3), np.float32))
    ours = build_library([plan(_adds("a"), "cpu:0")], tmp_path / "ours.so")
    out = build_bundle(_adds("a", "b"), "cpu:0", tmp_path / "two.bundle", libraries=[ours])
    origins = {k.name: Path(k.origin).name for k in gr.load(out).session.program.kernels}
    assert origins == {"a": "0_ours.so", "b": "kernels.so"}


def test_a_bundle_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CompileError, match="no C compiler"):
        build_bundle(_adds("a"), "cpu:0", tmp_path / "net.bundle")
    assert not (tmp_path / "net.bundle").exists()


def test_a_pipe_or_device_is_not_replaced_by_a_library(tmp_path):
    os.mkfifo(tmp_path / "null")
    with pytest.raises(WriteError, match="not replaced"):
        build_library([plan(_adds("a"), "cpu:0")], tmp_path / "null")
    assert (tmp_path / "null").is_fifo()


def test_parameters_without_an_input_are_left_out_with_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="no inputs for were left out: w"):
        out = build_bundle(_adds("a"), "cpu:0", tmp_path / "net.bundle", params={"w": np.ones(3, np.float32)})
    assert not (out / "params.bin").exists()


def test_a_library_compiled_anew_to_the_same_place_is_the_new_one(tmp_path):
    """dlopen knows an open library by its path: the old code would run under the new manifest."""
    held = []
    for size in (3, 40, 500):
        builder = gr.GraphBuilder()
        builder.output(builder.op("relu", builder.input("x", (size,)), func_name="f"))
        module = gr.load(build_bundle(builder, ["cpu:0"], tmp_path / "same.bundle"))
        x = np.linspace(-1, 1, size, dtype="f4")
        module.run(x=x)
        np.testing.assert_array_equal(module.get_output(0).numpy(), np.maximum(x, 0))
        held.append((module, x))
    for module, x in held:
        module.run(x=x)
        np.testing.assert_array_equal(module.get_output(0).numpy(), np.maximum(x, 0))
