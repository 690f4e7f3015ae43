"""An error bound: devices and formats of nodes that predict the least time, and runs that prove the bound."""

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.accuracy.compare import compare_prepared
from graph_runtime.accuracy.side_by_side import latency
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.errors import InputError, PlanError
from graph_runtime.ir.model import Model

pytestmark = pytest.mark.core
RNG = np.random.default_rng(23)


def array(*shape, size=1.0):
    return (RNG.standard_normal(shape) * size / np.sqrt(shape[0])).astype(np.float32)


WEIGHTS = [array(256, 256, size=size) for size in (1.0, 0.01, 1.0)]


def network(rows=16):
    """Three products in a chain, the middle one beside a shortcut, where it is a small part of the sum."""
    b = gr.GraphBuilder()
    x = b.input("x", (rows, 256))
    first = b.op("matmul", x, b.param("w0", WEIGHTS[0]), name="first")
    middle = b.op("matmul", first, b.param("w1", WEIGHTS[1]), name="middle")
    b.output(b.op("matmul", b.op("add", first, middle, name="sum"), b.param("w2", WEIGHTS[2]), name="last"))
    return Model.from_builder(b)


def stored(prepared):
    """Names of the products whose weight is in bf16."""
    graph = prepared.plan.graph
    calls = (graph.node(nid) for nid in np.flatnonzero(graph.func_id >= 0).tolist())
    return [c.name for c in calls if c.op == "dense" and c.input_types[1].dtype == "bfloat16"]


def far(prepared):
    plan = prepared.plan
    return {plan.graph.names[nid] for nid in np.flatnonzero(plan.did == 1) if plan.graph.func_id[nid] >= 0}


def said(prepared):
    return [note.text for note in prepared.notes if note.rule == "error_bound"]


def nmse(prepared):
    return compare_prepared(prepared, nodes=False).outputs[0].nmse


def test_a_loose_bound_takes_the_fastest_formats_and_a_tight_one_none():
    loose, tight = (prepare(network(), "cpu:0", error_bound=f"nmse={limit}") for limit in (1e-3, 1e-11))
    assert len(stored(loose)) == 3
    assert stored(tight) == []
    assert latency(loose, ["x"]) < latency(tight, ["x"])
    assert nmse(loose) < 1e-3
    assert nmse(tight) < 1e-11


def test_what_is_between_keeps_exact_what_would_break_the_bound_and_the_notes_say_why():
    whole = nmse(prepare(network(), "cpu:0", formats={"cpu": "bf16"}))
    made = prepare(network(), "cpu:0", error_bound=f"nmse={0.8 * whole}")
    assert 0 < len(stored(made)) < 3
    assert 0 < nmse(made) <= 0.8 * whole
    first, *more = said(made)
    assert "in a run on random inputs" in first
    assert any("in bf16: saves" in text for text in more)
    assert any("stay f32: bf16 would save" in text for text in more)


def test_a_simulated_device_is_taken_where_it_is_exact_enough():
    devices = ["cpu:0", "tt:0"]
    loose = prepare(network(512), devices, error_bound="pcc=0.99", fallback="host")
    assert far(loose)
    assert "tt:0 in bf" in " ".join(said(loose))
    exact = prepare(network(512), devices, error_bound="nmse=1e-10", fallback="host")
    assert "in bf" not in " ".join(text for text in said(exact) if "tt:0" in text)
    assert nmse(exact) <= 1e-10
    assert latency(loose, ["x"]) <= latency(exact, ["x"])
    where = {row["node"]: row["why"] for row in loose.plan.placement.report()}
    assert any("mincut within pcc=0.99: " in why for why in where.values())


def test_formats_that_the_caller_names_stay():
    made = prepare(network(), "cpu:0", error_bound="nmse=1e-3", formats={"cpu": "f32"})
    assert stored(made) == []
    made = prepare(network(), "cpu:0", error_bound="nmse=1e-3", layouts={"first": "f32"})
    assert "first" not in stored(made)


def test_create_takes_it_with_inputs_of_the_caller(tmp_path):
    x = array(16, 256)
    np.save(tmp_path / "x.npy", x)
    for value in (x, str(tmp_path / "x.npy")):
        module = gr.create(network(), None, "cpu:0", error_bound="max_abs=0.5", bound_inputs={"x": value})
        module.run(x=x)
        right = (x @ WEIGHTS[0] + x @ WEIGHTS[0] @ WEIGHTS[1]) @ WEIGHTS[2]
        error = np.abs(module.get_output(0).numpy() - right).max()
        assert 1e-4 < error < 0.5  # float32 alone would be nearer


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ({"error_bound": "ppc=0.9"}, InputError, "is not a goal"),
        ({"error_bound": "nmse=1e-30"}, PlanError, "the most exact placement on these devices has nmse="),
        ({"error_bound": "pcc=0.9", "fuse": False}, InputError, "give fuse=True"),
        ({"error_bound": "pcc=0.9", "bound_inputs": {"y": [1]}}, InputError, "no input 'y'"),
        ({"error_bound": "pcc=0.9", "bound_inputs": {"x": [1]}}, InputError, "got"),
        ({"error_bound": "pcc=0.9", "bound_inputs": {"x": "none.npy"}}, InputError, "cannot read none.npy"),
    ],
)
def test_what_cannot_be_is_refused(words, error, says):
    with pytest.raises(error, match=says):
        prepare(network(), "cpu:0", **words)


def test_a_layout_names_the_format_of_single_nodes_of_a_host():
    made = prepare(network(), "cpu:0", layouts={"first": "bf16"})
    assert stored(made) == ["first"]
    made = prepare(network(), "cpu:0", formats={"cpu": "bf16"}, layouts={"first": "f32"})
    assert stored(made) == ["sum", "last"]
    assert compare_prepared(made).ok
