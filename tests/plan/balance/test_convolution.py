"""From a node to the ops that the balancer sees: convolutions, pools, and what every other op becomes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import PlanError
from graph_runtime.base.machine import devices
from graph_runtime.costs import NonZero
from graph_runtime.ir import ops
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.plan import plan
from graph_runtime.plan.balance import (
    LEGAL,
    Grid,
    Settings,
    Stream,
    Tiles,
    Tm,
    legal_models,
    part_models,
    require_legal,
    view_of,
)
from graph_runtime.plan.balance.convolution import fold, geometry
from graph_runtime.plan.balance.parts import maker_of, parts_of
from graph_runtime.plan.balance.sparse import MOST_BITS, Window, encoding
from graph_runtime.testing.graphs import GraphMaker

E150 = devices.parse("tt:0=e150")


def _has_elements(op, case):
    types = [TensorType(*type_) for type_ in case.inputs]
    return all(t.size for t in (*types, *op.infer(types, op.decode(case.attrs))))


ON_TT = [
    (op, case)
    for op in ops.all_ops().values()
    for case in draws.cases_on(op, "tt")
    if case.inputs and _has_elements(op, case)
]


def conv_graph(x, w, bias=False, op="conv2d", dtype="bfloat16", **attrs):
    b = GraphBuilder()
    inputs = [b.input("x", x, dtype)]
    if w:
        inputs.append(b.param("w", w, dtype))
    if bias:
        inputs.append(b.param("b", (w[0],), dtype))
    b.output(b.op(op, *inputs, name="conv", **attrs))
    return load_graph(b.to_json())


def parts_of_conv(*args, **kwargs):
    graph = conv_graph(*args, **kwargs)
    return {p.name: p for p in parts_of(view_of(graph), graph.names.index("conv"), E150)}


FIRST = {
    "x": (1, 3, 224, 224),
    "w": (64, 3, 7, 7),
    "strides": (2, 2),
    "pads": (3, 3, 3, 3),
    "fidelity": "HiFi3",
}


# **************** the published convolution, from its node ****************


def test_the_first_convolution_of_resnet50_becomes_the_published_matmul():
    graph = conv_graph(**FIRST)
    derived = legal_models(graph, graph.names.index("conv"), E150)
    b = GraphBuilder()
    x, w = b.input("x", (12544, 128), "bfloat16"), b.param("w", (128, 64), "bfloat16")
    b.output(b.op("matmul", x, w, name="mm", fidelity="HiFi3", stream_dirs=["R"]))
    given_ = load_graph(b.to_json())
    wanted = legal_models(given_, given_.names.index("mm"), E150)
    assert derived.part == "row 0: dense"
    assert derived.tried == wanted.tried
    assert derived.counts == wanted.counts
    assert (derived.counts["legal"], derived.counts["base_legal"]) == (201, 67)


def test_direction_r_comes_from_the_access_pattern():
    part = parts_of_conv(**FIRST)["row 0: dense"]
    assert part.op.operands[0].tms == (Tm("vslice", 4), Tm("hstack", 4))
    assert part.op.operands[0].sparse
    assert part.op.out == Tiles(1, 392, 2)


def test_the_rows_are_four_pairs_and_their_sums():
    parts = parts_of_conv(**FIRST, bias=True)
    assert [*parts] == [f"row {i}: {kind}" for i in range(4) for kind in ("sparse", "dense")] + [
        "sum 0",
        "sum 1",
        "sum 2",
        "bias",
    ]
    assert [p.name for p in parts.values() if p.principal] == ["row 0: dense"]
    assert parts["row 2: sparse"].op.out == Tiles(1, 4 * 392, 1)
    assert {len(p.op.operands) for n, p in parts.items() if "dense" in n} == {2}


# **************** folding ****************


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(*[st.integers(1, 5)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.tuples(*[st.integers(5, 9)] * 2),
    st.integers(1, 4),
)
def test_a_folded_convolution_is_the_same_sum(kernel, strides, pads, image, channels):
    """The taps of the folded window, gathered and multiplied, against the op's own reference."""
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (1, channels, *image)).astype(np.float32)
    w = rng.integers(-4, 5, (3, channels, *kernel)).astype(np.float32)
    attrs = {"strides": strides, "pads": pads}
    op = ops.require("conv2d")
    (wanted,) = op.reference([x, w], op.decode(attrs))
    graph = conv_graph(x.shape, w.shape, **attrs)
    g = geometry(graph.node(graph.names.index("conv")), kernel)
    f = fold(g)
    assert f.out == g.out
    if f.folded:
        x, w = _folded(x, w, g, f)
    got = np.zeros((3, *f.out), np.float32)
    for p in range(f.kernel[0]):
        window = f.window([(p, q) for q in range(f.kernel[1])])
        for q, (dy, dx) in enumerate(window.taps):
            got += np.einsum("chw,oc->ohw", _picked(x[0], window, dy, dx), w[:, :, p, q])
    np.testing.assert_array_equal(got, wanted[0])


def _folded(x, w, g, f):
    """The image with strides x strides pixels in its channels, and the weights in the same order."""
    (sh, sw), c = g.strides, x.shape[1]
    image = np.zeros((1, c, f.image[0] * sh, f.image[1] * sw), np.float32)
    image[:, :, : g.image[0], : g.image[1]] = x
    shift = [-b % s for b, s in zip(g.begin, g.strides, strict=True)]
    taps = np.zeros((len(w), c, f.kernel[0] * sh, f.kernel[1] * sw), np.float32)
    taps[:, :, shift[0] : shift[0] + w.shape[2], shift[1] : shift[1] + w.shape[3]] = w
    return (_into_channels(image, sh, sw), _into_channels(taps, sh, sw))


def _into_channels(a, sh, sw):
    n, c, h, w = a.shape
    split = a.reshape(n, c, h // sh, sh, w // sw, sw).transpose(0, 3, 5, 1, 2, 4)
    return split.reshape(n, -1, h // sh, w // sw)


def _picked(x, window, dy, dx):
    """[channels, rows, columns] of the pixels that one tap picks, 0 outside of the image."""
    (h, w), (oh, ow) = window.image, window.out
    y = np.arange(oh) * window.strides[0] - window.begin[0] + dy
    z = np.arange(ow) * window.strides[1] - window.begin[1] + dx
    inside = ((y >= 0) & (y < h))[:, None] & ((z >= 0) & (z < w))[None, :]
    return np.where(inside, x[:, np.clip(y, 0, h - 1)][:, :, np.clip(z, 0, w - 1)], 0)


@pytest.mark.parametrize(
    ("x", "w", "attrs", "names"),
    [
        ((1, 64, 56, 56), (64, 64, 1, 1), {}, ["dense"]),
        ((1, 64, 56, 56), (64, 64, 3, 3), {"pads": (1, 1, 1, 1)}, ["sparse", "dense"]),
        ((1, 64, 56, 56), (128, 64, 1, 1), {"strides": (2, 2)}, ["sparse", "dense"]),
        ((1, 32, 56, 56), (32, 1, 3, 3), {"pads": (1, 1, 1, 1), "group": 32}, ["sparse", "depthwise"]),
        ((1, 64, 14, 14), (64, 32, 3, 3), {"pads": (1, 1, 1, 1), "group": 2}, ["sparse", "dense"]),
        ((1, 8, 14, 14), (64, 8, 2, 2), {"strides": (2, 2)}, ["dense"]),
        ((1, 3, 224, 224), (768, 3, 16, 16), {"strides": (16, 16)}, ["dense"]),
        (
            (1, 3, 224, 224),
            (32, 3, 3, 3),
            {"strides": (2, 2), "pads": (1, 1, 1, 1)},
            ["row 0: sparse", "row 0: dense", "row 1: sparse", "row 1: dense", "sum 0"],
        ),
    ],
)
def test_what_a_convolution_becomes(x, w, attrs, names):
    assert [*parts_of_conv(x, w, **attrs)] == names


def test_a_window_of_many_taps_is_split_so_that_its_pixels_fit():
    graph = conv_graph((1, 32, 64, 64), (32, 32, 15, 15), pads=(7, 7, 7, 7))
    parts = part_models(graph, graph.names.index("conv"), E150)
    assert sum(p.part.endswith("dense") for p in parts) == 15
    for part in parts:
        require_legal(part, E150)


@pytest.mark.parametrize(
    ("x", "w", "attrs", "names"),
    [  # GoogLeNet's pool, MobileNetV3's depthwise convolution, a product whose column of cores is alone
        ((1, 832, 7, 7), None, {"pads": (1,) * 4}, ["row 0: sparse", "row 0: reduce z", "sum 0", "sum 1"]),
        ((1, 480, 14, 14), (480, 1, 5, 5), {"group": 480, "pads": (2,) * 4}, ["row 0: depthwise", "sum 3"]),
        ((1, 416, 7, 7), (64, 416, 3, 3), {"pads": (1,) * 4}, ["row 0: dense", "row 2: dense", "sum 1"]),
        ((1, 1184, 8, 8), (64, 1184, 3, 3), {"pads": (1,) * 4}, ["tap 0: dense", "tap 8: dense", "sum 7"]),
    ],
)
def test_a_window_without_a_legal_model_is_split(x, w, attrs, names):
    b = GraphBuilder()
    image = b.input("x", x, "float32")
    if w is None:
        b.output(b.op("max_pool2d", image, kernel_shape=(3, 3), name="conv", **attrs))
    else:
        b.output(b.op("conv2d", image, b.param("w", w, "float32"), name="conv", **attrs))
    graph = b.build()
    nid = graph.names.index("conv")
    whole = parts_of(view_of(graph), nid, E150)
    parts = part_models(graph, nid, E150)
    assert len(whole) == 2
    assert set(names) <= {c.part for c in parts}
    assert all(c.models for c in parts)
    assert [c.principal for c in parts].count(True) == 1
    joins = [c for c in parts if c.part.startswith("sum")]
    assert {c.op.cycles_op for c in joins} == {"maximum" if w is None else "add"}
    assert joins[-1].op.users == whole[-1].op.users


@pytest.mark.parametrize(
    ("x", "w", "attrs", "k"),
    [
        ((1, 64, 56, 56), (64, 64, 3, 3), {"pads": (1, 1, 1, 1)}, 9 * 2),
        ((1, 64, 56, 56), (128, 64, 1, 1), {"strides": (2, 2)}, 2),
        ((1, 64, 56, 56), (128, 64, 3, 3), {"strides": (2, 2)}, 9 * 2),
        ((1, 32, 56, 56), (32, 1, 3, 3), {"group": 32}, 9),
        ((1, 64, 14, 14), (64, 32, 3, 3), {"group": 2}, 9),
        ((1, 3, 224, 224), (768, 3, 16, 16), {"strides": (16, 16)}, 24),
        ((1, 3, 224, 224), (32, 3, 3, 3), {"strides": (2, 2), "pads": (1, 1, 1, 1)}, 2),
    ],
)
def test_the_inner_dimension_of_a_convolution(x, w, attrs, k):
    (main,) = (p for p in parts_of_conv(x, w, **attrs).values() if p.principal)
    assert main.op.k == k


# **************** the sparse operand ****************


@settings(max_examples=20, deadline=None)
@given(
    st.tuples(*[st.integers(3, 20)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.integers(1, 2),
    st.integers(0, 1),
    st.sampled_from([1, 2, 4]),
)
def test_nonzero_tiles_are_those_of_the_written_out_matrix(image, kernel, stride, pad, u_kt):
    out = tuple((n + 2 * pad - k) // stride + 1 for n, k in zip(image, kernel, strict=True))
    taps = tuple((p, q) for p in range(kernel[0]) for q in range(kernel[1]))
    found = encoding(Window(image, out, taps, (stride, stride), (pad, pad)))
    each, wide = -(-math.prod(out) // 32), -(-math.prod(image) // 32)
    matrix = np.zeros((len(taps) * each * 32, wide * 32), bool)
    for tap, (p, q) in enumerate(taps):
        for i, j in np.ndindex(out):
            y, x = i * stride - pad + p, j * stride - pad + q
            if 0 <= y < image[0] and 0 <= x < image[1]:
                matrix[tap * each * 32 + i * out[1] + j, y * image[1] + x] = True
    tile = matrix.reshape(len(taps) * each, 32, wide, 32).any((1, 3))
    np.testing.assert_array_equal(np.argwhere(tile), np.stack([found.rows, found.cols], 1))
    cut = matrix.reshape(len(taps) * each, 32, wide, 32).transpose(0, 2, 1, 3)[tile]
    assert found.distinct == len(np.unique(cut.reshape(len(cut), -1), axis=0))
    strips = sum(tile[:, at : at + u_kt].any() for at in range(0, wide, u_kt))
    rows = sum(tile[:, at : at + u_kt].any(1).sum() for at in range(0, wide, u_kt))
    assert found.worst_core(Grid(1, 1), Stream("RZ", 1, 1), 1, u_kt) == NonZero(tile.sum(), rows, strips)


def test_the_worst_core_has_at_least_its_share():
    found = encoding(parts_window())
    total = found.worst_core(Grid(1, 1), Stream("RZ", 1, 1), 1, 1)
    for r in (2, 4, 7, 8):
        one = found.worst_core(Grid(r, 1), Stream("RZ", 1, 1), 1, 1)
        assert total.tiles / r <= one.tiles <= total.tiles
    assert found.bits(1, 1) == (found.distinct - 1).bit_length() <= MOST_BITS
    assert found.most_deep(8) == 1 << (MOST_BITS - found.bits(8, 1))


def parts_window():
    graph = conv_graph(**FIRST)
    folded = fold(geometry(graph.node(graph.names.index("conv")), (7, 7)))
    return folded.window(folded.groups(0)[0])


def test_an_encoding_of_too_many_bits_is_refused(monkeypatch):
    from graph_runtime.plan.balance import models

    graph = conv_graph((1, 32, 14, 14), (32, 32, 3, 3), pads=(1, 1, 1, 1))
    sparse = part_models(graph, graph.names.index("conv"), E150)[0]
    assert sparse.models
    monkeypatch.setattr(models, "MOST_BITS", 1)
    models.enumerate_models.cache_clear()
    refused = part_models(graph, graph.names.index("conv"), E150)[0]
    models.enumerate_models.cache_clear()
    assert refused.counts["reasons"]["IllegalSparseMatmul"] > 0
    assert not refused.models


# **************** every op ****************


def test_every_op_with_a_tt_kernel_has_a_maker():
    assert [n for n, op in ops.all_ops().items() if "tt" in op.bodies and not maker_of(n)] == []
    assert [n for n, op in ops.all_ops().items() if op.parts and "tt" not in op.bodies] == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("op", "case"),
    [pytest.param(*each, marks=[pytest.mark.slow] if i % 3 else []) for i, each in enumerate(ON_TT)],
    ids=lambda x: x.name,
)
def test_every_case_of_every_op_has_legal_models(op, case):
    maker = GraphMaker()
    eids = [maker.input(TensorType(*type_)) for type_ in case.inputs]
    maker.op(op.name, eids, **case.attrs)
    graph = maker.graph([len(eids)])  # its first result
    parts = part_models(graph, graph.num_nodes - 1, E150, Settings(enumerate_u_kt=False))
    assert sum(p.principal for p in parts) == 1
    for part in parts:
        require_legal(part, E150)
        assert all(c.model.l1_bytes <= part.budget for c in part.tried if c.verdict == LEGAL)
    last = parts[-1].op
    elements = math.prod(last.out) * 1024
    assert elements >= graph.entry_type(len(eids)).size
    assert last.users[-1].kind == "output"


def test_images_have_pixels_as_rows_between_convolutions():
    b = GraphBuilder()
    x = b.input("x", (1, 64, 56, 56), "bfloat16")
    w = b.param("w", (64, 64, 1, 1), "bfloat16")
    scale = b.param("scale", (1, 64, 1, 1), "bfloat16")
    y = b.op("multiply", b.op("relu", b.op("conv2d", x, w, name="conv"), name="relu"), scale, name="scaled")
    b.output(b.op("softmax", b.op("matmul", y, y, name="mm", transpose_b=True), axis=-1, name="soft"))
    graph = load_graph(b.to_json())
    view = view_of(graph)
    op = {name: parts_of(view, graph.names.index(name), E150)[0].op for name in ("relu", "scaled", "soft")}
    assert op["relu"].out == op["scaled"].out == Tiles(1, 98, 2)
    assert op["scaled"].operands[1].tms == (Tm("broadcast", 98, dim="r"),)
    assert op["soft"].out == Tiles(64, 2, 2)


def test_an_input_that_is_read_as_a_weight_waits_in_dram():
    b = GraphBuilder()
    x, w = b.input("x", (64, 64), "bfloat16"), b.param("w", (64, 64), "bfloat16")
    b.output(b.op("matmul", b.op("matmul", x, w, name="first"), x, name="second"))
    graph = load_graph(b.to_json())
    view = view_of(graph)
    sources = [
        [o.source for o in parts_of(view, graph.names.index(n), E150)[0].op.operands]
        for n in ("first", "second")
    ]
    assert sources == [["queue", "parameter"], ["op", "parameter"]]


def test_a_user_that_reads_across_keeps_the_op_from_streaming():
    b = GraphBuilder()
    x = b.input("x", (256, 256), "bfloat16")
    y = b.op("relu", x, name="relu")
    b.output(b.op("matmul", y, y, name="mm", transpose_b=True))
    graph = load_graph(b.to_json())
    tried = legal_models(graph, graph.names.index("relu"), E150).tried
    assert {c.verdict for c in tried if c.model.t > 1} == {"UserAccessPreventsStreaming"}
    assert {c.verdict for c in tried if c.model.t == 1} == {LEGAL}


def test_harvested_rows_are_not_used():
    graph = conv_graph((1, 64, 64, 80), (64, 64, 1, 1))
    rows = {
        text: max(m.grid.r for m in legal_models(graph, 2, devices.parse(text)).models)
        for text in ("tt:0=e150", "tt:0=e150[rows=5]", "tt:0=wormhole_b0/buda")
    }
    assert rows == {"tt:0=e150": 10, "tt:0=e150[rows=5]": 5, "tt:0=wormhole_b0/buda": 10}


def test_formats_and_numerics_of_a_plan_decide_dst_and_bytes():
    from graph_runtime.ir.ops.numerics import Numerics

    graph = conv_graph((1, 64, 56, 56), (64, 64, 1, 1))
    nid = graph.names.index("conv")
    plain = legal_models(graph, nid, E150)
    assert (plain.op.dst_bits, plain.op.fidelity, plain.op.format) == (16, "HiFi4", "bf16")
    view = view_of(graph, formats=["bfp8_b"] * graph.num_entries, numerics=Numerics("LoFi", "fp32"))
    other = legal_models(graph, nid, E150, view=view)
    assert (other.op.dst_bits, other.op.fidelity, other.op.format) == (32, "LoFi", "bfp8_b")
    assert {b.tile_bytes for m in other.models for b in m.outputs} == {1120}


@pytest.mark.parametrize(
    ("op", "attrs"), [("conv2d", {"pads": [1, 1, 1, 1]}), ("max_pool2d", {"kernel_shape": [3, 3]})]
)
def test_an_image_too_large_to_be_encoded_is_told_at_once(op, attrs):
    b = GraphBuilder()
    x = b.input("x", (1, 3, 4001, 4003))
    b.output(b.op(op, x, *([b.input("w", (7, 3, 3, 3))] if op == "conv2d" else []), name="wide", **attrs))
    with pytest.raises(PlanError, match=r"node 'wide': 9 taps over .*cut the image.*nodes\[") as caught:
        plan(b.build(), ["tt:0=e150"], policy="nlp")
    assert caught.value.node == "wide"
