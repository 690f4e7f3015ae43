"""Random graphs whose values lie anywhere: interleaved and sharded, in DRAM and L1, as rows and tiles, with
the devices' memory guarded. Results are the interpreter's, and a plan that is written and read again is the
same."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.accuracy.compare import compare, random_inputs
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.base.dtypes import CONVERTED, FORMATS
from graph_runtime.base.errors import CapacityError, PlanError
from graph_runtime.base.machine import devices
from graph_runtime.binding import circular
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.graph import TensorType
from graph_runtime.plan import plan
from graph_runtime.plan.record import record
from graph_runtime.run.device_handles import open_device
from graph_runtime.testing.graphs import GraphMaker, random_graph

PLACES = ["dram", "l1", "height", "width", "block", "block[2x3@1x2]", "height[1x7@4x1:col]"]
LISTS = [["tt:0"], ["cpu:0", "tt:0"], ["tt:0=e150"], ["tt:0=p150", "cpu:0", "tt:1=n300"]]


@contextmanager
def guarded(names):
    """GR_GUARD for the devices of this process that a test uses."""
    handles = [open_device(devices.parse(name)) for name in names]
    for handle in handles:
        handle.set_guard(True)
    try:
        yield
    finally:
        for handle in handles:
            handle.set_guard(False)


def random_layouts(rng, graph, names) -> dict[str, str]:
    """A wish for about two thirds of the nodes, such that the node can follow it."""
    wishes: dict[str, str] = {}
    for name in graph.names:
        if rng.random() < 0.3:
            continue
        words = str(rng.choice(PLACES)), str(rng.choice(["row_major", "tile", ""]))
        wish = {**wishes, name: "/".join(filter(None, words))}
        try:
            circular.planned(plan(graph, names, layouts=wish))
            wishes = wish
        except CapacityError:
            continue
        except PlanError as error:  # other reasons are none
            if not any(text in str(error) for text in ("host only", "more cores", "one element")):
                raise
    return wishes


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), names=st.sampled_from(LISTS))
@example(seed=14443, names=["tt:0=e150"])  # a wish for L1 that leaves no room for circular buffers
def test_values_do_not_depend_on_layouts(seed, names):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, names, nodes=8)
    wishes = random_layouts(rng, graph, names)
    values = random_inputs(graph, seed)
    with guarded(names):
        module = gr.create(graph, None, names, layouts=wishes)
        for _ in range(2):
            module.run(**values)
            got = [module.get_output(i).numpy() for i in range(module.get_num_outputs())]
            for a, b in zip(got, heads(graph, interpret(graph, values)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=str(wishes))
    planned = plan(graph, names, layouts=wishes)
    again = plan(load_graph(graph_to_json(record(planned))), names)
    entries = range(planned.graph.num_entries)
    assert [str(again.layout(e)) for e in entries] == [str(planned.layout(e)) for e in entries]
    assert again.storage.offset.tolist() == planned.storage.offset.tolist()


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    names=st.sampled_from(LISTS[:3]),
    fmt=st.sampled_from(CONVERTED),
)
def test_where_a_value_lies_changes_no_bit_of_it(seed, names, fmt):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, names, nodes=8)
    formats = {"tt": fmt}
    wishes = {name: words.split("/")[0] for name, words in random_layouts(rng, graph, names).items()}
    values, results = random_inputs(graph, seed), []
    for layouts in ({}, wishes):
        module = gr.create(graph, None, names, formats=formats, layouts=layouts)
        module.run(**values)
        results.append([module.get_output(i).numpy() for i in range(module.get_num_outputs())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=str(wishes))


def test_block_formats_are_stored_and_computed_with():
    maker = GraphMaker()
    a, b = (maker.input(TensorType("float32", shape)) for shape in ((96, 256), (256, 64)))
    graph = maker.graph([maker.op("relu", [maker.op("matmul", [a, b])])])
    layouts = {"x0": "height", "x1": "l1", "matmul": "block[3x2]"}
    worst = [compare(graph, None, ["tt:0"], formats={"tt": fmt}, layouts=layouts).worst for fmt in CONVERTED]
    assert worst == sorted(worst)
    assert dict(zip(CONVERTED, worst, strict=True))["bfp4_b"] < 0.1
    assert all(error < max(FORMATS[fmt].bounds) for fmt, error in zip(CONVERTED, worst, strict=True))
