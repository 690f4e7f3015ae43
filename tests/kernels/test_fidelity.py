"""The fast kernels of the matrix unit against numpy models of what they say they compute, bit for bit where
the order of sums is theirs to choose; and that a chosen op model is what runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from graph_runtime.codegen.build import build_library
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.base.errors import CapacityError, KernelError
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.ir import ops
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.ir.ops.numerics import FIDELITIES
from graph_runtime.plan import plan
from graph_runtime.plan.balance import legal_models
from graph_runtime.run.device_handles import open_device
from graph_runtime.run.library import load_library
from graph_runtime.run.sessions.session import Session

MODES = [(f, d) for f in FIDELITIES for d in ("fp32", "bf16")]


# **************** numpy models ****************


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def cut(x: np.ndarray, keep: int) -> np.ndarray:
    """x with its first ``keep`` mantissa bits, denormals zero."""
    word = bits(x) & np.uint32(0xFFFFFFFF << (23 - keep) & 0xFFFFFFFF)
    return np.where(word & 0x7F800000, word, 0).astype(np.uint32).view(np.float32)


def parts(in0: np.ndarray, in1: np.ndarray):
    """(high, low) of in0, which goes to SrcB, and of in1, which goes to SrcA."""
    b, a = cut(in0, 10), cut(in1, 9)
    return (cut(b, 6), b - cut(b, 6)), (cut(a, 4), a - cut(a, 4))


def phases_of(fidelity: str) -> list[tuple[int, int]]:
    """(part of in0, part of in1) of each phase: 0 high, 1 low."""
    return [(0, 0), (0, 1), (1, 0), (1, 1)][: FIDELITIES.index(fidelity) + 1]


def round16(x: np.ndarray) -> np.ndarray:
    """To bf16: nearest, ties away from zero, denormals to +0."""
    word = (bits(x) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
    return np.where(word & 0x7F800000, word, 0).astype(np.uint32).view(np.float32)


def chain(start: np.ndarray, in0: np.ndarray, in1: np.ndarray) -> np.ndarray:
    """start + in0 @ in1, one product after the other, each sum rounded once to float32."""
    total = start.astype(np.float32)
    for k in range(in0.shape[1]):
        total = (total + np.outer(in0[:, k].astype(np.float64), in1[k])).astype(np.float32)
    return total


def dst16_product(in0: np.ndarray, in1: np.ndarray, fidelity: str, steps: int = 32) -> np.ndarray:
    """The model of a 16-bit Dst: K tile by K tile, phase by phase, 16 products at a time."""
    high_low0, high_low1 = parts(in0, in1)
    dst = np.zeros((in0.shape[0], in1.shape[1]), np.float32)
    for k in range(0, in0.shape[1], steps):
        for of0, of1 in phases_of(fidelity):
            for half in range(k, min(k + steps, in0.shape[1]), 16):
                span = slice(half, half + 16)
                term = chain(np.zeros_like(dst), high_low0[of0][:, span], high_low1[of1][span])
                dst = round16(dst + term)
    return dst


def exact_sum(in0: np.ndarray, in1: np.ndarray, fidelity: str) -> np.ndarray:
    """The sum of all phases in float64."""
    high_low0, high_low1 = parts(in0, in1)
    return sum(high_low0[i].astype(np.float64) @ high_low1[j] for i, j in phases_of(fidelity))


def normal(rng, *shape) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def run(op: str, arrays, fmt: str | tuple[str, ...] = "f32", layout: str = "tile", tt=None, **attrs):
    """(result, reference by the op's rule) of the op on arrays as the device holds them."""
    formats = (fmt,) * (len(arrays) + 1) if isinstance(fmt, str) else fmt
    layouts = [
        Layout("dram", layout if a is None or a.ndim > 1 else "row_major", f)
        for a, f in zip([*arrays, None], formats, strict=True)
    ]
    return tt.run(ops.require(op), attrs, arrays, layouts)


# **************** fidelity and Dst ****************


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_16_bit_dst_is_the_model_bit_for_bit(tt, fidelity):
    rng = np.random.default_rng(1)
    in0, in1 = normal(rng, 40, 100), normal(rng, 100, 50)
    got, _ = run("matmul", [in0, in1], fidelity=fidelity, dst="bf16", tt=tt)
    np.testing.assert_array_equal(got, dst16_product(in0, in1, fidelity))


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_32_bit_dst_sums_the_phases(tt, fidelity):
    rng = np.random.default_rng(2)
    in0, in1 = normal(rng, 70, 129), normal(rng, 129, 33)
    got, _ = run("matmul", [in0, in1], fidelity=fidelity, dst="fp32", tt=tt)
    model = exact_sum(in0, in1, fidelity)
    assert np.abs(got - model).max() < 2e-6 * (np.abs(in0) @ np.abs(in1)).max()
    others = [np.abs(exact_sum(in0, in1, f) - model).max() for f in FIDELITIES if f != fidelity]
    assert min(others) > 10 * np.abs(got - model).max()  # the model tells fidelities apart


def test_the_sides_of_the_multiplier_are_not_alike(tt):
    rng = np.random.default_rng(3)
    in0, in1 = normal(rng, 32, 64), normal(rng, 64, 32)
    ways = []
    for a, b, turn in ((in0, in1, False), (in1.T.copy(), in0.T.copy(), True)):
        got, _ = run("matmul", [a, b], fidelity="LoFi", tt=tt)
        ways.append(got.T if turn else got)
    assert (ways[0] != ways[1]).mean() > 0.5


@pytest.mark.parametrize(("fidelity", "dst"), MODES)
def test_bfp_operands_are_whole_after_two_phases(tt, fidelity, dst):
    """7 bits are two phases' worth: HiFi3 and HiFi4 are HiFi2 on block floats."""
    rng = np.random.default_rng(4)
    arrays = [normal(rng, 64, 96), normal(rng, 96, 32)]
    fmts = ("bfp8_b", "bfp8_b", "f32")
    got, _ = run("matmul", arrays, fmts, fidelity=fidelity, dst=dst, tt=tt)
    same, _ = run("matmul", arrays, fmts, fidelity="HiFi2", dst=dst, tt=tt)
    assert np.array_equal(got, same) == (fidelity != "LoFi")
    if fidelity == "LoFi":
        coarse, wanted = run("matmul", arrays, ("bfp4_b", "bfp4_b", "f32"), fidelity=fidelity, dst=dst, tt=tt)
        fine, _ = run("matmul", arrays, ("bfp4_b", "bfp4_b", "f32"), fidelity="HiFi4", dst=dst, tt=tt)
        np.testing.assert_array_equal(coarse, fine)  # 3 bits are one phase's
        assert draws.nmse(fine, wanted) < (1e-11 if dst == "fp32" else 2e-4)


def test_naming_nothing_is_hifi4_on_short_formats(tt):
    rng = np.random.default_rng(5)
    arrays = [normal(rng, 100, 300), normal(rng, 300, 70)]
    for fmt in ("bf16", "bfp8_b"):
        named, _ = run("matmul", arrays, (fmt, fmt, "f32"), fidelity="HiFi4", tt=tt)
        default, _ = run("matmul", arrays, (fmt, fmt, "f32"), tt=tt)
        np.testing.assert_array_equal(default, named)


def test_float32_is_exact_until_a_fidelity_is_named(tt):
    rng = np.random.default_rng(6)
    arrays = [normal(rng, 33, 65), normal(rng, 65, 40)]
    default, wanted = run("matmul", arrays, tt=tt)
    named, _ = run("matmul", arrays, fidelity="HiFi4", tt=tt)
    assert draws.nmse(default, wanted) < 1e-12 < draws.nmse(named, wanted)


@pytest.mark.parametrize(("fidelity", "dst"), MODES)
def test_a_convolution_is_its_product(tt, fidelity, dst):
    """Weights are in1 and the image is in0; K runs over channel, row, column of the weight."""
    rng = np.random.default_rng(7)
    x, w = normal(rng, 1, 5, 9, 8), normal(rng, 20, 5, 3, 3)
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    columns = np.stack(
        [padded[c, p : p + 9, q : q + 8].reshape(-1) for c in range(5) for p in range(3) for q in range(3)],
        axis=1,
    )
    got, _ = run("conv2d", [x, w], ("f32",) * 3, pads=(1, 1, 1, 1), fidelity=fidelity, dst=dst, tt=tt)
    flat, _ = run("matmul", [columns, w.reshape(20, -1).T.copy()], fidelity=fidelity, dst=dst, tt=tt)
    np.testing.assert_array_equal(got.reshape(20, -1), flat.T)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_convolution_by_any_fidelity(tt, data):
    """Strides, dilations, pads, groups: values of 3 bits, so that every fidelity is the reference."""
    ints = lambda a, b: data.draw(st.integers(a, b))  # noqa: E731
    group, kh, kw = ints(1, 3), ints(1, 4), ints(1, 4)
    attrs = {
        "group": group,
        "strides": (ints(1, 4), ints(1, 4)),
        "dilations": (ints(1, 3), ints(1, 3)),
        "pads": tuple(ints(0, 3) for _ in range(4)),
    }
    extent = [(k - 1) * d + 1 for k, d in zip((kh, kw), attrs["dilations"], strict=True)]
    rng = np.random.default_rng(ints(0, 99))
    pixels = (extent[0] + ints(0, 30), extent[1] + ints(0, 70))
    x = rng.integers(-7, 8, (ints(1, 2), group * ints(1, 3), *pixels)).astype(np.float32)
    w = rng.integers(-7, 8, (group * ints(1, 5), x.shape[1] // group, kh, kw)).astype(np.float32)
    layout, fmt = (data.draw(st.sampled_from(some)) for some in (["tile", "row_major"], ["f32", "bf16"]))
    attrs["fidelity"] = data.draw(st.sampled_from(("", *FIDELITIES)))
    got, wanted = run("conv2d", [x, w], (fmt, fmt, "f32"), layout, tt=tt, **attrs)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("fidelity", "dst"), MODES)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
def test_elementwise_by_the_matrix_unit(tt, op, fidelity, dst):
    rng = np.random.default_rng(8)
    a, b = normal(rng, 40, 70), normal(rng, 40, 1)
    got, _ = run(op, [a, b], fidelity=fidelity, dst=dst, tt=tt)
    if op == "multiply":  # in0 in SrcA here
        high_low_b, high_low_a = parts(np.broadcast_to(b, a.shape), a)
        model = np.zeros_like(a)
        for of_b, of_a in phases_of(fidelity):
            model = model + high_low_a[of_a] * high_low_b[of_b]
            model = round16(model) if dst == "bf16" else model
        model = model if dst == "bf16" or fidelity == "LoFi" else None
    else:
        model = cut(a, 10) + cut(b, 10) if op == "add" else cut(a, 10) - cut(b, 10)
        model = round16(model) if dst == "bf16" else model
    if model is not None:
        np.testing.assert_array_equal(got, model)
    np.testing.assert_allclose(got, ops.require(op).reference([a, b], {})[0], rtol=0.1, atol=0.01)


def test_a_bias_is_added_after_the_sums(tt):
    rng = np.random.default_rng(9)
    x, w, bias = normal(rng, 33, 64), normal(rng, 40, 64), normal(rng, 40)
    got, _ = run("dense", [x, w, bias], fidelity="HiFi2", dst="bf16", tt=tt)
    np.testing.assert_array_equal(got, round16(dst16_product(x, w.T, "HiFi2") + cut(bias, 10)))


# **************** a chosen op model is what runs ****************


@dataclass(frozen=True)
class Model:
    """What a balancer chooses: sizes in tiles."""

    grid: tuple[int, int]
    t: int
    dir: str
    mblock: tuple[int, int]
    ublock: tuple[int, int]
    u_kt: int
    l1_bytes: int = 400_000


def chosen(model: Model | None, arrays, fmt="bf16", op="matmul", numerics=None, libraries=(), **attrs):
    """(output, what the run took of the cores) of a graph of one op whose node has that model."""
    builder = gr.GraphBuilder(device="tt:0")
    inputs = [builder.input(f"x{i}", a.shape) for i, a in enumerate(arrays)]
    builder.output(builder.op(op, *inputs, **attrs))
    made = plan(builder.build(), ["tt:0"], formats={"tt": fmt}, numerics={"tt": numerics or {}})
    if model is not None:
        of = np.array([f.op == op for f in made.graph.funcs] + [False])[made.graph.func_id]
        made = replace(made, models=(model,), model_id=np.where(of, 0, -1).astype(np.int32))
    session = Session(made, list(libraries))
    for i, array in enumerate(arrays):
        session.set_input(i, array)
    handle = open_device(made.devices[0])
    handle.cores(reset=True)
    session.run()
    return session.output(0).numpy().copy(), handle.cores()


PRODUCT = [normal(np.random.default_rng(10), 256, 192), normal(np.random.default_rng(11), 192, 128)]
MODELS = [
    Model((1, 1), 1, "R", (8, 4), (1, 1), 6),
    Model((2, 1), 2, "R", (1, 2), (2, 2), 6),
    Model((2, 2), 2, "C", (2, 1), (2, 1), 6),
    Model((4, 2), 1, "R", (1, 1), (2, 2), 6),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize(
    "numerics", [{}, {"fidelity": "HiFi3"}, {"fidelity": "HiFi2", "dst": "bf16"}], ids=str
)
def test_grid_and_blocks_never_change_a_sum(model, numerics):
    got, took = chosen(model, PRODUCT, numerics=numerics)
    np.testing.assert_array_equal(got, chosen(None, PRODUCT, numerics=numerics)[0])
    assert (took.opened, took.different) == (model.grid[0] * model.grid[1],) * 2


def test_models_of_the_balancer_are_taken_as_they_are():
    """Every tenth legal model of a product of two planes: the same bits, on as many cores as it says."""
    arrays = [normal(np.random.default_rng(12), 2, 256, 128), normal(np.random.default_rng(13), 2, 128, 96)]
    builder = gr.GraphBuilder(device="tt:0=e150")
    builder.output(builder.op("matmul", *(builder.input(f"x{i}", a.shape) for i, a in enumerate(arrays))))
    graph = builder.build()
    found = legal_models(graph, 2, devices.parse("tt:0=e150"))
    wanted, _ = chosen(None, arrays)
    for model in found.models[::10]:
        got, took = chosen(model, arrays)
        np.testing.assert_array_equal(got, wanted, str(model))
        assert (took.different, took.most_bytes > 0) == (model.cores, True)


@pytest.mark.parametrize("numerics", [{}, {"fidelity": "HiFi2", "dst": "bf16"}], ids=str)
@pytest.mark.parametrize("op", ["add", "multiply"])
def test_elementwise_models_are_taken_too(op, numerics):
    arrays = [PRODUCT[0], normal(np.random.default_rng(14), 256, 1)]
    got, took = chosen(Model((2, 3), 2, "R", (1, 1), (2, 2), 1), arrays, op=op, numerics=numerics)
    np.testing.assert_array_equal(got, chosen(None, arrays, op=op, numerics=numerics)[0])
    assert (took.opened, took.different) == (6, 6)


@pytest.mark.slow
def test_a_compiled_library_follows_the_words_of_each_call(tmp_path):
    """Fidelity and blocks are no constants of its kernels: one library serves all."""
    builder = gr.GraphBuilder(device="tt:0")
    builder.output(builder.op("matmul", *(builder.input(f"x{i}", a.shape) for i, a in enumerate(PRODUCT))))
    library = load_library(build_library([plan(builder.build(), ["tt:0"])], tmp_path / "kernels.so"))
    for numerics in ({}, {"fidelity": "LoFi"}, {"dst": "bf16", "numerics": "exact"}):
        for model in (None, MODELS[2]):
            got, took = chosen(model, PRODUCT, numerics=numerics, libraries=[library])
            np.testing.assert_array_equal(got, chosen(model, PRODUCT, numerics=numerics)[0])
            assert model is None or numerics.get("numerics") or took.different == 4


def test_steps_of_a_convolution_spill_in_the_outputs_format():
    x, w = normal(np.random.default_rng(0), 1, 32, 33, 40), normal(np.random.default_rng(1), 33, 32, 3, 3)
    exact = ops.require("conv2d").reference([x, w], ops.require("conv2d").decode({}))[0]
    errors = [
        draws.nmse(
            chosen(
                Model((2, 2), 1, "R", (1, 1), (1, 1), u_kt),
                [x, w],
                "bfp8_b",
                "conv2d",
                {"fidelity": "HiFi2", "dst": "bf16"},
            )[0],
            exact,
        )
        for u_kt in (9, 1)
    ]
    assert errors[0] < errors[1] < 0.05


def test_the_l1_of_a_model_is_what_its_cores_take():
    for l1_bytes in (100_032, 400_000):
        for m, k in ((1, 1), (4, 6)):
            model = Model((1, 1), 8 // m, "R", (m, 4), (1, 1), k, l1_bytes)
            got, took = chosen(model, PRODUCT)
            assert took.most_bytes == l1_bytes
            np.testing.assert_array_equal(got, chosen(None, PRODUCT)[0])


def test_k_blocks_spill_in_the_outputs_format():
    """A 16-bit Dst that leaves for L1 between K blocks is a block float there; a 32-bit one loses nothing."""
    steps = [Model((2, 1), 1, "R", (4, 4), (1, 1), u_kt) for u_kt in (6, 3, 1)]
    narrow = [chosen(m, PRODUCT, "bfp8_b", numerics={"fidelity": "HiFi2", "dst": "bf16"})[0] for m in steps]
    wide = [chosen(m, PRODUCT, "bfp8_b", numerics={"fidelity": "HiFi2"})[0] for m in steps]
    assert all(np.array_equal(wide[0], x) for x in wide[1:])
    exact = PRODUCT[0].astype(np.float64) @ PRODUCT[1]
    errors = [draws.nmse(x, exact) for x in narrow]
    assert errors[0] < errors[1] < errors[2]
    again, _ = chosen(
        replace(steps[2], grid=(1, 1), t=2), PRODUCT, "bfp8_b", numerics={"fidelity": "HiFi2", "dst": "bf16"}
    )
    np.testing.assert_array_equal(again, narrow[2])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"u_kt": 4}, "u_kt of the chosen op model does not divide K"),
        ({"mblock": (1, 1)}, "does not cover the output"),
        ({"grid": (80, 80)}, "more cores than the device"),
        ({"mblock": (0, 1)}, "a size below 1"),
    ],
)
def test_a_model_that_does_not_fit_its_node_is_an_error(change, text):
    with pytest.raises(KernelError, match=text):
        chosen(replace(MODELS[0], **change), PRODUCT)


def test_a_model_beyond_l1_is_refused_when_it_is_planned():
    arrays = [normal(np.random.default_rng(0), 32 * 24, 32), normal(np.random.default_rng(0), 32, 32 * 24)]
    text = r"node .matmul. \(matmul on tt:0\) opens 1600000 B of circular buffers on a core, whose L1 "
    with pytest.raises(CapacityError, match=text):
        chosen(Model((1, 1), 1, "R", (24, 24), (1, 1), 1, 1_600_000), arrays)


def test_a_convolutions_model_says_cores_and_steps():
    x, w = normal(np.random.default_rng(0), 1, 8, 70, 70), normal(np.random.default_rng(1), 64, 8, 3, 3)
    model = Model((3, 2), 1, "R", (1, 1), (1, 1), 1)
    got, took = chosen(model, [x, w], op="conv2d", pads=[1, 1, 1, 1])
    np.testing.assert_array_equal(got, chosen(None, [x, w], op="conv2d", pads=[1, 1, 1, 1])[0])
    assert took.different == 6


# **************** hosts ****************


@pytest.fixture
def threads():
    before = core.pool_threads()
    yield core.pool_set_threads
    core.pool_set_threads(before)


def test_more_simulated_cores_are_spread_over_more_host_threads(threads):
    arrays = [normal(np.random.default_rng(0), 1024, 1024), normal(np.random.default_rng(1), 1024, 1024)]
    seen, used = [], []
    for count in (1, 2):
        threads(count)
        for _ in range(20):  # a worker may come too late for a run
            got, took = chosen(Model((4, 4), 1, "R", (2, 2), (4, 4), 4), arrays)
            seen.append(got)
            if took.threads == count:
                break
        used.append(took.threads)
    assert used == [1, 2]
    assert all(np.array_equal(seen[0], x) for x in seen[1:])
