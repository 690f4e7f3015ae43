"""Weights of a host in bfloat16: what is stored so, what it computes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base import dtypes
from graph_runtime.base.errors import PlanError
from graph_runtime.ir.model import Model
from graph_runtime.ir.ops import registry
from graph_runtime.ir.ops.products.cells import CELLS
from graph_runtime.ir.ops.products.packed import pair, paired_type, panel_type, unpair
from graph_runtime.ir.ops.rules import narrow

pytestmark = pytest.mark.core
RNG = np.random.default_rng(23)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def rounded(x):
    """To bfloat16 and back."""
    return narrow(x, "bfloat16").astype(np.float32)


def network():
    """A convolution, one of two groups, one of channels, a product."""
    b = gr.GraphBuilder()
    x = b.input("x", (2, 8, 9, 7))
    y = b.op("conv2d", x, b.param("w1", array(40, 8, 3, 3)), pads=(1, 1, 1, 1), name="conv")
    y = b.op("conv2d", y, b.param("w2", array(40, 20, 1, 1)), group=2, name="groups")
    y = b.op("conv2d", y, b.param("w3", array(40, 1, 3, 3)), group=40, name="channels")
    y = b.op("flatten", y)
    b.output(b.op("dense", y, b.param("w4", array(5, 40 * 7 * 5)), name="product"))
    return Model.from_builder(b)


def weights(prepared):
    """dtype of the weight of each product, in order."""
    graph = prepared.plan.graph
    found = []
    for nid, fid in enumerate(graph.func_id.tolist()):
        if fid >= 0 and graph.funcs[fid].op in ("conv2d", "dense", *CELLS):
            found.append(graph.entry_type(int(graph.in_eid[graph.in_ptr[nid] + 1])).dtype)
    return found


def test_products_are_stored_so_but_of_few_channels_a_group_and_the_notes_say_it():
    made = prepare(network(), "cpu:0", formats={"cpu": "bf16"})
    assert weights(made) == ["bfloat16", "bfloat16", "float32", "bfloat16"]
    assert [n.text for n in made.model.notes if n.rule == "store_weights"] == [
        "weights of 3 products on cpu are stored in bf16"
    ]
    assert weights(prepare(network(), "cpu:0")) == ["float32"] * 4
    assert weights(prepare(network(), "cpu:0", formats={"cpu": "f32"})) == ["float32"] * 4


@pytest.mark.parametrize(
    ("image", "weight", "wanted"),
    [
        ((1, 17, 32, 32), (16, 17, 3, 3), "float32"),  # rows would be gathered
        ((1, 17, 32, 32), (96, 17, 3, 3), "bfloat16"),
        ((1, 3, 32, 32), (16, 3, 3, 3), "bfloat16"),  # channels become even (pair_channels)
        ((1, 32, 8, 8), (16, 32, 1, 1), "bfloat16"),
        ((1, 8, 8, 8), (16, 8, 1, 1), "float32"),
        ((1, 64, 8, 8), (16, 64, 3, 3), "bfloat16"),  # too long to be read where they lie
    ],
)
def test_small_products_for_which_it_does_not_pay_keep_float32(image, weight, wanted):
    b = gr.GraphBuilder()
    x = b.input("x", image)
    b.output(b.op("conv2d", x, b.param("w", array(*weight)), strides=(2, 2)))
    assert weights(prepare(Model.from_builder(b), "cpu:0", formats={"cpu": "bf16"})) == [wanted]


@pytest.mark.parametrize("op", CELLS)
def test_recurrent_weights_are_stored_so_and_multiplied(op):
    b, hidden, columns = gr.GraphBuilder(), 40, CELLS[op].gates * 40
    gates = b.input("gates", (5, 3, columns))
    states = [b.input(f"h{i}", (1, 3, hidden)) for i in range(CELLS[op].states)]
    made = b.op(op, gates, b.param("w", array(1, columns, hidden) / 6), *states)
    b.output(made[0])
    model, results = Model.from_builder(b), []
    values = {"gates": array(5, 3, columns)} | {f"h{i}": array(1, 3, hidden) for i in range(len(states))}
    for formats in ({}, {"cpu": "bf16"}):
        module = gr.create(model, devices="cpu:0", formats=formats, compile=False)
        module.run(**values)
        results.append(module.get_output(0).numpy())
    assert weights(prepare(model, "cpu:0", formats={"cpu": "bf16"})) == ["bfloat16"]
    assert 0 < np.abs(results[1] - results[0]).max() < 0.02 * np.abs(results[0]).max()


@pytest.mark.parametrize(("fast", "wanted"), [(("bf16",), "bfloat16"), ((), "float32")])
def test_where_bf16_is_fast_windows_are_preferred_to_winograds_tiles(monkeypatch, fast, wanted):
    """Of convolutions that are to be stored in bf16, and of one group, as those of more stay in float32."""
    monkeypatch.setattr("graph_runtime.binding.tiles.tile_products", lambda: fast)
    b = gr.GraphBuilder()
    y = b.op("conv2d", b.input("x", (1, 32, 16, 16)), b.param("w", array(32, 32, 3, 3)), name="one")
    b.output(b.op("conv2d", y, b.param("v", array(16, 16, 3, 3)), group=2, name="groups"))
    made = prepare(Model.from_builder(b), "cpu:0", formats={"cpu": "bf16"})
    assert weights(made) == [wanted, "float32"]
    tiles = [bool(f.attrs.get("winograd")) for f in made.plan.graph.funcs if f.op == "conv2d"]
    assert sorted(tiles) == sorted([wanted == "float32", True])


@pytest.mark.parametrize(
    ("feature", "size", "wanted"),
    [("avx512_bf16", 14, True), ("avx2", 14, False), ("avx512_bf16", 28, False)],
)
def test_where_vectors_multiply_bf16_windows_are_preferred_to_few_tiles(monkeypatch, feature, size, wanted):
    monkeypatch.setattr("graph_runtime.binding.tiles.tile_products", lambda: ())
    monkeypatch.setattr("graph_runtime.artifacts.prepare.host_features", lambda: frozenset([feature]))
    b = gr.GraphBuilder()
    w = b.param("w", np.zeros((96, 96, 3, 3), np.float32))
    b.output(b.op("conv2d", b.input("x", (1, 96, size, size)), w, pads=(1, 1, 1, 1), name="one"))
    made = prepare(Model.from_builder(b), "cpu:0", formats={"cpu": "bf16"})
    assert weights(made) == ["bfloat16" if wanted else "float32"]


def attention_and_product():
    """Attention, a product of what it makes with itself, and one of a single row."""
    b = gr.GraphBuilder()
    q, k, v = (b.input(name, (2, 40, 24)) for name in "qkv")
    y = b.op("attention", q, k, v, name="attention")
    y = b.op("matmul", y, v, transpose_b=True, name="product")
    row = b.op("slice", y, starts=(0, 0, 0), ends=(2, 1, 40))
    b.output(b.op("matmul", row, v, name="row"))
    return Model.from_builder(b)


def test_products_of_activations_round_where_the_format_says_so():
    def kernels(**options):
        graph = prepare(attention_and_product(), "cpu:0", **options).plan.graph
        named = (graph.funcs[f].attrs for f in graph.func_id.tolist() if f >= 0)
        return [attrs["kernel"] for attrs in named if "kernel" in attrs]

    assert kernels() == ["attention_panels", "matmul_panels"]
    assert kernels(formats={"cpu": "bf16"}) == ["attention_pairs", "matmul_pairs"]
    assert kernels(layouts={"product": "bf16"}) == ["attention_panels", "matmul_pairs"]
    made = prepare(attention_and_product(), "cpu:0", formats={"cpu": "bf16"})
    assert [n.text for n in made.model.notes if n.rule == "store_weights"] == [
        "2 products of activations on cpu round to bf16"
    ]
    values = {name: array(2, 40, 24) for name in "qkv"}
    found = []
    for fmt in ("f32", "bf16"):
        module = gr.create(attention_and_product(), devices="cpu:0", formats={"cpu": fmt})
        module.run(**values)
        found.append(module.get_output(0).numpy())
    assert np.abs(found[1] - found[0]).max() < 2.0**-6 * np.abs(found[0]).max()


def test_products_of_few_bits_keep_them_and_round_what_they_read():
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(4)
    data = rng.integers(0, 256, (70, 3, 16), dtype=np.uint8)
    scales = rng.random((70, 3)).astype(np.float32) + 0.1
    weights_of = [onnx.numpy_helper.from_array(data, "w"), onnx.numpy_helper.from_array(scales, "s")]
    node = onnx.helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=96, N=70, bits=4, block_size=32
    )
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [40, n])
        for name, n in (("x", 96), ("y", 70))
    ]
    graph = onnx.helper.make_graph([node], "few", ends[:1], ends[1:], weights_of)
    opsets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    x = array(40, 96)
    nibbles = np.stack([data & 15, data >> 4], -1).reshape(70, 3, 32)
    wanted = x.astype(np.float64) @ ((nibbles - 8.0) * scales[..., None]).reshape(70, 96).T
    for fmt, rounds in (("bf16", True), ("f32", False)):
        made = prepare(model, "cpu:0", formats={"cpu": fmt})
        (product,) = (f for f in made.plan.graph.funcs if f.op == "dense")
        assert bool(product.attrs.get("rounded")) == rounds
        assert tuple(product.attrs["levels"]) == (4, 32)
        module = gr.create(model, devices="cpu:0", formats={"cpu": fmt})
        module.run(x=x)
        error = np.abs(module.get_output(0).numpy() - wanted).max() / np.abs(wanted).max()
        assert error < (2.0**-8 if rounds else 1e-6)


def test_a_devices_own_entry_comes_before_its_kinds():
    made = prepare(network(), ["cpu:0"], formats={"cpu": "bf16", "cpu:0": "f32"})
    assert weights(made) == ["float32"] * 4


def test_products_that_the_model_has_in_bfloat16_are_stored_so_and_round_what_they_read_themselves():
    """As autocast makes them: casts in front of and behind a product."""
    b = gr.GraphBuilder()
    x, w = b.input("x", (3, 24)), rounded(array(7, 24)).astype(dtypes.to_numpy("bfloat16"))
    y = b.op("dense", b.op("cast", x, to="bfloat16"), b.param("w", w), name="y")
    b.output(b.op("cast", y, to="float32"))
    model = Model.from_builder(b)
    made = prepare(model, "cpu:0")
    graph = made.plan.graph
    assert weights(made) == ["bfloat16"]
    assert [graph.funcs[f].op for f in graph.func_id.tolist() if f >= 0] == ["dense", "cast", "cast"]
    module, value = gr.create(model, devices="cpu:0"), array(3, 24)
    module.run(x=value)
    wanted = rounded(rounded(value).astype(np.float64) @ w.astype(np.float64).T)
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=2.0**-7)
    assert weights(prepare(model, "cpu:0", layouts={"y": "f32"})) == ["float32"]


def test_other_devices_keep_their_own_formats():
    made = prepare(
        network(), ["cpu:0", "tt:0"], formats={"cpu": "bf16", "tt": "bf16"}, place={"conv": "tt:0"}
    )
    assert weights(made)[0] == "float32"  # stored in tt's format, in the dtype of the graph
    assert weights(made)[-1] == "bfloat16"
    plan = made.plan
    conv = plan.graph.names.index("conv")
    assert plan.layout(int(plan.graph.row_ptr[conv])).format == "bf16"


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 33),
    k=st.integers(0, 900),
    n=st.integers(1, 70),
    special=st.sampled_from((None, np.inf, np.nan, 3.4e38, 1e-41)),
)
def test_a_product_rounds_both_operands_and_sums_in_float32(rows, k, n, special):
    assume(n > 16 or k >= 16)  # smaller ones keep float32
    rng = np.random.default_rng([rows, k, n])
    x, w = (rng.standard_normal((count, k)).astype(np.float32) for count in (rows, n))
    if special is not None and k:
        x[0, k - 1] = special
    b = gr.GraphBuilder()
    b.output(b.op("dense", b.input("x", x.shape), b.param("w", w), name="y"))
    module = gr.create(Model.from_builder(b), devices="cpu:0", formats={"cpu": "bf16"})
    module.run(x=x)
    got = module.get_output(0).numpy()
    with np.errstate(all="ignore"):
        wanted = rounded(x).astype(np.float64) @ rounded(w).astype(np.float64).T
        size = np.abs(rounded(x).astype(np.float64)) @ np.abs(rounded(w).astype(np.float64)).T
    finite = np.isfinite(wanted) & (np.abs(wanted) < 3e38)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    # each of k products and sums rounds once; values below the normal ones may count as zero
    error = np.abs(got[finite] - wanted[finite])
    assert (error <= (k + 2) * 2.0**-23 * size[finite] + 1e-36).all()


@given(k=st.integers(0, 9), n=st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_pairs_hold_what_panels_do(k, n):
    panels = RNG.standard_normal(panel_type(n, k).shape).astype(np.float32)
    pairs = pair(panels)
    assert pairs.shape == paired_type(panel_type(n, k)).shape
    np.testing.assert_array_equal(unpair(pairs, k), rounded(panels))


def test_a_bundle_holds_them_and_is_half_as_large(tmp_path):
    b = gr.GraphBuilder()
    y = b.input("x", (3, 256))
    for i in range(3):
        y = b.op("relu", b.op("dense", y, b.param(f"w{i}", array(256, 256) / 16), name=f"d{i}"))
    b.output(y)
    model = Model.from_builder(b)
    sizes, x, results = [], array(3, 256), []
    for name, formats in (("plain", {}), ("bf16", {"cpu": "bf16"})):
        gr.build_bundle(model, "cpu:0", tmp_path / name, formats=formats)
        sizes.append(sum(p.stat().st_size for p in (tmp_path / name).rglob("*") if p.is_file()))
        module = gr.load(tmp_path / name)
        module.run(x=x)
        results.append(module.get_output(0).numpy())
    assert sizes[1] < 0.6 * sizes[0]
    assert 0 < np.abs(results[0] - results[1]).max() < 0.02 * np.abs(results[0]).max()


@pytest.mark.parametrize(
    ("formats", "says"),
    [
        ({"cpu": "bf61"}, r"f32 or bf16 \(did you mean 'bf16'"),
        ({"cpu": "bfp8_b"}, "f32 or bf16"),
        ({"cpu:3": "bf16"}, "no such device"),
    ],
)
def test_other_formats_are_refused(formats, says):
    with pytest.raises(PlanError, match=says):
        prepare(network(), "cpu:0", formats=formats)


def test_a_graph_that_is_run_as_it_is_written_refuses_it():
    with pytest.raises(PlanError, match="where a model is rewritten"):
        prepare(network(), "cpu:0", formats={"cpu": "bf16"}, fuse=False)


def test_a_weight_of_pairs_has_the_type_that_its_product_says():
    op = registry.require("dense")
    from graph_runtime.base.errors import GraphError
    from graph_runtime.ir.graph import TensorType

    x, attrs = TensorType("float32", (2, 5)), op.decode({"packed": 3})
    assert op.infer([x, TensorType("bfloat16", (1, 3, 64))], attrs)[0].shape == (2, 3)
    for wrong in (TensorType("bfloat16", (1, 5, 32)), TensorType("float16", (1, 3, 64))):
        with pytest.raises(GraphError):
            op.infer([x, wrong], attrs)
    pairs = TensorType("bfloat16", (1, 3, 64))
    assert op.infer([TensorType("bfloat16", (2, 5)), pairs], attrs)[0].dtype == "bfloat16"
    with pytest.raises(GraphError, match="the bias beside a packed weight is float32"):
        op.infer([x, pairs, TensorType("bfloat16", (3,))], attrs)
    with pytest.raises(GraphError, match="does not take float16"):
        op.infer([TensorType("float16", (2, 5)), pairs], attrs)
