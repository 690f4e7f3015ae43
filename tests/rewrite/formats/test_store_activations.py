"""Tensors between nodes of a host in bfloat16: which are, what they cost, and what is computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.ir.model import Model
from graph_runtime.run.factory import create, set_constants

pytestmark = pytest.mark.core
RNG = np.random.default_rng(24)


def array(*shape):
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)


def bottlenecks(count, channels, size, heads=5, silu=None):
    """Blocks of 1 x 1, depthwise 3 x 3 and 1 x 1 taps with a residual, a pool of all, and a product."""
    b = gr.GraphBuilder()
    y = b.input("x", (1, channels, size, size))
    for i in range(count):
        wide = b.op("conv2d", y, b.param(f"a{i}", array(3 * channels, channels, 1, 1)), name=f"wide{i}")
        wide = b.op("relu", wide, name=f"bound{i}")
        own = b.param(f"b{i}", array(3 * channels, 1, 3, 3))
        deep = b.op("conv2d", wide, own, group=3 * channels, pads=(1, 1, 1, 1), name=f"deep{i}")
        deep = b.op("silu" if i == silu else "relu", deep, name=f"act{i}")
        thin = b.op("conv2d", deep, b.param(f"c{i}", array(channels, 3 * channels, 1, 1)), name=f"thin{i}")
        y = b.op("add", thin, y, name=f"sum{i}")
    y = b.op("flatten", b.op("global_avg_pool2d", y, name="pool"))
    b.output(b.op("dense", y, b.param("w", array(heads, channels)), name="product"))
    return Model.from_builder(b)


def made(prepared):
    """dtype of what each node makes, by name."""
    graph = prepared.plan.graph
    return {
        graph.names[nid]: graph.entry_type(int(graph.row_ptr[nid])).dtype
        for nid, fid in enumerate(graph.func_id.tolist())
        if fid >= 0
    }


def casts(prepared):
    """How many nodes only change the type."""
    graph = prepared.plan.graph
    return sum(graph.funcs[f].op == "cast" for f in graph.func_id.tolist() if f >= 0)


def test_what_convolutions_hand_over_is_stored_so():
    prepared = prepare(bottlenecks(3, 24, 40), "cpu:0", formats={"cpu": "bf16"})
    types = made(prepared)
    images = {t for name, t in types.items() if name.startswith(("bound", "act", "sum"))}
    assert images == {"bfloat16"}
    assert types["product"] == "float32"  # an output of the graph
    assert casts(prepared) == 2  # where the image comes in, and in front of the last product
    assert any(n.rule == "store_activations" for n in prepared.model.notes)
    assert not casts(prepare(bottlenecks(3, 24, 40), "cpu:0"))


def test_single_nodes_and_small_tensors_keep_float32():
    alone = prepare(bottlenecks(3, 24, 40), "cpu:0", layouts={"sum1": "bf16"})
    assert not casts(alone)  # casts on both sides would move more
    small = prepare(bottlenecks(2, 8, 4), "cpu:0", formats={"cpu": "bf16"})
    assert not casts(small)


def test_nodes_that_only_move_elements_do_not_ask_for_casts():
    b = gr.GraphBuilder()
    x = b.op("dense", b.input("x", (256, 64)), b.param("w", array(192, 64)), name="product")
    parts = [b.op("slice", x, starts=(0, 64 * i), ends=(256, 64 * i + 64)) for i in range(3)]
    turned = [b.op("transpose", b.op("reshape", p, shape=(8, 32, 64)), perm=(0, 2, 1)) for p in parts]
    b.output(b.op("softmax", b.op("concatenate", *turned, axis=1)))
    assert not casts(prepare(Model.from_builder(b), "cpu:0", formats={"cpu": "bf16"}))


@settings(max_examples=8, deadline=None)
@given(count=st.integers(1, 3), channels=st.integers(3, 40), size=st.integers(20, 50))
def test_results_are_those_of_float32_to_some_roundings(count, channels, size):
    model = bottlenecks(count, channels, size, silu=1)
    x = RNG.standard_normal((1, channels, size, size)).astype(np.float32)
    results = []
    for formats in ({}, {"cpu": "bf16"}):
        module = gr.create(model, devices="cpu:0", formats=formats, compile=False)
        module.run(x=x)
        results.append(module.get_output(0).numpy().astype(np.float64))
    wanted, got = results
    assert module.get_output(0).numpy().dtype == np.float32
    assert np.abs(got - wanted).max() <= 0.05 * np.abs(wanted).max() + 1e-3


@pytest.mark.parametrize(
    ("channels", "steps", "pads", "window"),
    [
        (3, (2, 2), (1, 1, 1, 1), (3, 3)),
        (3, (2, 2), (3, 3, 3, 3), (7, 7)),
        (1, (1, 4), (0, 2, 1, 0), (2, 5)),
        (3, (4, 4), (0, 0, 0, 0), (4, 4)),
        (5, (2, 1), (0, 2, 1, 0), (3, 2)),
    ],
)
def test_an_odd_number_of_channels_becomes_even(channels, steps, pads, window):
    b = gr.GraphBuilder()
    w, bias = b.param("w", array(40, channels, *window)), b.param("bias", array(40))
    x = b.input("x", (2, channels, 33, 71))
    b.output(b.op("relu", b.op("conv2d", x, w, bias, strides=steps, pads=pads, name="stem"), name="bound"))
    model = Model.from_builder(b)
    prepared, plain = prepare(model, "cpu:0", formats={"cpu": "bf16"}), prepare(model, "cpu:0")
    rules = [[n.rule for n in made.model.notes].count("pair_channels") for made in (prepared, plain)]
    assert rules == [1, 0]
    x = RNG.standard_normal((2, channels, 33, 71)).astype(np.float32)
    results = []
    for made in (plain, prepared):
        module = create(made.plan, None)
        set_constants(module, made.model.constants)
        module.run(x=x)
        results.append(module.get_output(0).numpy())
    wanted, got = results
    assert np.abs(got - wanted).max() <= 0.02 * np.abs(wanted).max()


def test_windows_of_pairs_read_images_in_bf16_also_alone():
    """What they would have to gather and round is more than the casts around them move; an image that stays
    in float32, because of what follows, keeps its odd channels."""
    b = gr.GraphBuilder()
    w = b.param("w", array(64, 3, 3, 3))
    y = b.op("conv2d", b.input("x", (1, 3, 64, 64)), w, strides=(2, 2), pads=(1, 1, 1, 1), name="stem")
    b.output(b.op("softmax", y, name="after"))
    prepared = prepare(Model.from_builder(b), "cpu:0", formats={"cpu": "bf16"})
    assert made(prepared)["stem"] == "bfloat16"
    b = gr.GraphBuilder()
    w = b.param("w", array(16, 3, 3, 3))
    y = b.op("conv2d", b.input("x", (1, 3, 64, 64)), w, strides=(2, 2), pads=(1, 1, 1, 1), name="stem")
    b.output(b.op("hard_swish", y, name="after"))
    prepared = prepare(Model.from_builder(b), "cpu:0", formats={"cpu": "bf16"})
    assert not [n for n in prepared.model.notes if n.rule == "pair_channels"]
