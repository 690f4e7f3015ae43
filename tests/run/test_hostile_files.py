"""Files made to be slow, large or misread: each loads, plans and binds in time and memory that grow with its
size, or is refused with a typed error.
"""

from __future__ import annotations

import json
import tracemalloc

import pytest

import graph_runtime as gr
from graph_runtime.base.machine import devices
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.plan import plan
from graph_runtime.plan.record import record


def with_metadata(text: str, **ours) -> str:
    return json.dumps(json.loads(text) | {"metadata": {"graph_runtime": {"version": 1, **ours}}})


@pytest.mark.parametrize("text", ["cpu:" + "9" * 5000, "tt:99999999999", "cpu:\u0663"])
def test_an_ordinal_that_no_device_has_is_refused_with_a_typed_error(text):
    with pytest.raises(gr.GraphRuntimeError, match="cannot read device"):
        devices.parse(text)


def many_layouts(document, count: int) -> str:
    heads = [document.input(f"x{i}", dtype=f"int8x{i + 2}", shape=(0, i + 1)) for i in range(count)]
    layouts = [{"memory": "host", "layout": "row_major", "format": f"int8x{i + 2}"} for i in range(count)]
    text = document.json(*heads, device_index=[1] * count)
    return with_metadata(text, layouts=layouts, layout=list(range(count)))


def test_memory_of_a_session_grows_with_types_and_layouts_not_with_their_product(document):
    planned = plan(load_graph(many_layouts(document, 3000)), ["cpu:0"])
    tracemalloc.start()
    gr.create(planned)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20  # a table of all pairs takes 280 MB


def test_a_plan_with_many_layouts_is_written_as_it_stands(document):
    planned = plan(load_graph(many_layouts(document, 300)), ["cpu:0"])
    hints = record(planned).hints
    assert [hints.layouts[row] for row in hints.layout] == [planned.layout(eid) for eid in range(300)]


def test_an_alias_looks_at_its_own_node_only(document, monkeypatch):
    """Each output written into an input that its node reads: permissions are asked for one argument each."""
    from graph_runtime.plan.checker import facts as known

    asked, original = [], known.Facts.may_overwrite

    def counting(facts, slots):
        asked.append(len(slots))
        return original(facts, slots)

    monkeypatch.setattr(known.Facts, "may_overwrite", counting)
    count = 50
    inputs = [document.input(f"x{i}") for i in range(count)]
    heads = [document.call("relu", x, op="relu") for x in inputs]
    text = with_metadata(document.json(*heads), aliases=[[i, i] for i in range(count)])
    planned = plan(load_graph(text), ["cpu:0"])
    assert planned.aliases == tuple((i, i) for i in range(count))
    assert max(asked) <= count
    assert sum(asked) <= 3 * count


def test_an_alias_of_a_planned_file_is_followed_through_a_reshape(document):
    x = document.input("x", (2, 2))
    y = document.call("relu", x, op="relu", shape=(2, 2))
    head = document.call("__nop", y, op="reshape", shape=(2, 2))
    document.nodes[-1]["attrs"]["gr.shape"] = "[2,2]"
    text = with_metadata(document.json(head, storage_id=[0, 1, 1]), aliases=[[0, 0]])
    planned = plan(load_graph(text), ["cpu:0"])
    assert len(set(planned.sid.tolist())) == 1


def test_a_device_file_without_an_end_is_no_document():
    with pytest.raises(gr.GraphRuntimeError, match="it is a device"):
        load_graph("/dev/zero")


@pytest.mark.parametrize("threads", [0, -1, -(2**70), 257, 2**31, 2**63, 1.5, "2"])
def test_a_pool_of_an_impossible_size_is_refused_with_a_typed_error(document, threads):
    text = document.json(document.input("x"))
    with pytest.raises(gr.GraphRuntimeError, match="thread"):
        gr.create(text, threads=threads)


def test_an_error_about_an_endless_name_is_short_and_still_says_where(document):
    x = document.input("x" * 200_000)
    document.call("relu", x, op="relu", shape=(5,), name="y" * 200_000)
    with pytest.raises(gr.GraphRuntimeError) as refused:
        load_graph(document.json([1, 0]))
    assert len(str(refused.value)) < 5000
    assert "$.nodes[1]" in str(refused.value)
    assert len(refused.value.node) == 200_000


@pytest.mark.parametrize(
    "call",
    [
        lambda: gr.load(None),
        lambda: gr.create("{}", 5),
        lambda: gr.read_params(7),
        lambda: gr.load_library(3.5),
    ],
)
def test_what_is_no_path_is_said_to_be_none(call):
    with pytest.raises(gr.InputError, match="is given by a path"):
        call()


def test_a_file_that_is_no_library_is_named_as_the_caller_named_it():
    with pytest.raises(gr.LibraryError) as caught:
        gr.load_library("/bin/ls")
    assert "//" not in str(caught.value)
