"""Where nodes run and which copies that takes: remarks R1 to R13 of the review of TVM's #1695, pins,
fallbacks, same-type devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import CheckError, InputError, PlanError, UnsupportedOpError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.ir.graph import COPY, TensorType
from graph_runtime.plan import plan
from graph_runtime.plan.passes import place
from graph_runtime.plan.transfers import insert_transfers
from graph_runtime.testing.graphs import GraphMaker, random_graph

F4 = TensorType("float32", (4,))
DEVICE_LISTS = (["cpu:0", "tt:0"], ["tt:0", "cpu:0"], ["tt:1", "tt:0"], ["cpu:1", "cpu:0", "tt:0"])


def simplex(types=(12, 12, 12, 1, 1, 1), sids=(3, 4, 0, 1, 5, 2), copy=True):
    """(A + B) on the first device, - C on the second; storage ids as in #1695. ``copy``: with its __copy."""
    maker = GraphMaker()
    a, b = maker.input(F4), maker.input(F4)
    total = maker.op("add", [a, b])
    moved = maker.call(COPY, [total], [F4]) if copy else total
    c = maker.input(F4)
    out = maker.op("subtract", [moved, c])
    hints = {}
    if types:
        hints["device_type"] = np.array(types)
    if sids:
        hints["storage_id"] = np.array(sids)
    return maker.graph([out], **hints)


def duplex():
    """The network of reference 5.1 that goes there and back: storage 0 is used twice, both times on the first
    device."""
    maker = GraphMaker()
    a, b = maker.input(F4), maker.input(F4)
    there = maker.call(COPY, [maker.op("add", [a, b])], [F4])
    c = maker.input(F4)
    back = maker.call(COPY, [maker.op("subtract", [there, c])], [F4])
    d = maker.input(F4)
    return maker.graph(
        [maker.op("add", [back, d])],
        device_type=np.array([12, 12, 12, 1, 1, 1, 12, 12, 12]),
        storage_id=np.array([4, 5, 0, 1, 6, 2, 0, 7, 3]),
    )


def names_on(planned) -> list[str]:
    return [str(planned.devices[d]) for d in planned.did]


@pytest.mark.parametrize("devices", DEVICE_LISTS[:2])
def test_simplex_and_duplex_run_as_written(devices):
    for graph, where in (
        (simplex(), ["tt:0"] * 3 + ["cpu:0"] * 3),
        (duplex(), ["tt:0"] * 3 + ["cpu:0"] * 3 + ["tt:0"] * 3),
    ):
        planned = plan(graph, devices)
        assert names_on(planned) == where
        assert planned.graph is graph, "a file that has its copies runs as written"
        assert np.array_equal(planned.sid, graph.hints.storage_id)
        assert not planned.at_input.any()
        assert not planned.warnings


def test_r1_the_callers_device_order_is_kept():
    for devices in DEVICE_LISTS:
        placement = place(simplex(None, None), parse_list(devices))
        assert [str(d) for d in placement.devices] == devices
        assert not placement.did.any(), "no column: everything is on the first"


def test_r2_the_fallback_is_the_first_of_the_list():
    planned = plan(simplex(types=(2, 2, 2, 1, 1, 1)), ["tt:0", "cpu:0"])
    assert names_on(planned)[:3] == ["tt:0"] * 3
    assert len(planned.warnings) == 1
    assert "device_index 2 (cuda)" in planned.warnings[0]
    planned = plan(simplex(types=(12, 12, 12, 1, 1, 1)), ["tt:0", "cpu:0"])
    assert planned.causes[planned.cause_id[0]] == "device_index 12 (tt), device_id 0: tt:0"


def test_r3_one_storage_id_belongs_to_one_device():
    with pytest.raises(
        CheckError, match="The same pool entry cannot be assigned to multiple devices"
    ) as caught:
        plan(simplex(sids=(3, 4, 0, 0, 5, 2)), ["cpu:0", "tt:0"])
    assert caught.value.path == "$.attrs.storage_id[1][3]"
    assert caught.value.rule == "storage"


def test_r4_the_pool_is_indexed_by_storage_id_and_may_have_gaps():
    planned = plan(simplex(sids=(3, 4, 0, 1, 9, 2)), ["cpu:0", "tt:0"])
    assert planned.storage.count == 10
    assert planned.storage.nbytes.tolist() == [32, 16, 16, 32, 32, 0, 0, 0, 0, 16]


def test_r5_the_device_is_a_column_and_without_it_the_first_device():
    planned = plan(simplex(None, None), ["tt:0", "cpu:0"])
    assert set(names_on(planned)) == {"tt:0"}
    assert all("no device column" in planned.causes[c] for c in planned.cause_id)


def test_r7_the_planner_shares_storage_within_a_device_only():
    planned = plan(duplex(), ["cpu:0", "tt:0"], use_storage_hints=False)
    for sid in range(planned.storage.count):
        assert len(set(planned.entry_did()[planned.sid == sid])) == 1


@pytest.mark.parametrize("devices", [["tt:0"], ["tt:1", "tt:0"]])
def test_r11_no_cpu_needs_to_be_in_the_list(devices):
    planned = plan(simplex(), devices)
    assert planned.devices[0].kind == "tt"
    assert set(names_on(planned)) <= set(devices)


def test_r13_a_device_hosts_many_subgraphs():
    planned = plan(duplex(), ["cpu:0", "tt:0"])
    switches = [n for n in range(1, 9) if planned.did[n] != planned.did[n - 1]]
    assert switches == [3, 6]


def test_two_devices_of_one_kind_follow_device_id():
    maker = GraphMaker()
    x = maker.input(F4, 0)
    y = maker.op("relu", [x], 1)
    graph = maker.graph([maker.op("relu", [y], 2)], devices=parse_list(["tt:0", "tt:1", "cpu:0"]))
    assert names_on(plan(graph, ["cpu:0", "tt:0", "tt:1"])) == ["tt:0", "tt:1", "tt:1", "cpu:0", "cpu:0"]
    swapped = plan(graph, ["tt:5", "cpu:3", "tt:2"])
    assert {str(d) for d in swapped.devices} == {"tt:5", "cpu:3", "tt:2"}
    assert names_on(swapped) == ["tt:5", "tt:2", "tt:2", "cpu:3", "cpu:3"]


def test_an_ordinal_that_the_list_lacks_falls_to_the_first_of_its_type():
    graph = GraphMaker()
    graph.op("relu", [graph.input(F4, 1)], 1)
    graph = graph.graph([1], devices=parse_list(["tt:0", "tt:1"]))
    planned = plan(graph, ["cpu:0", "tt:0"])
    assert names_on(planned) == ["tt:0", "tt:0"]
    assert "device_id 1" in planned.warnings[0]
    with pytest.raises(PlanError, match="strict") as caught:
        plan(graph, ["cpu:0", "tt:0"], strict=True)
    assert caught.value.path == "$.attrs.device_index"


def test_device_map_names_what_the_file_calls_opencl():
    graph = simplex(types=(4, 4, 4, 1, 1, 1))
    for key in ("opencl", "4"):
        planned = plan(graph, ["cpu:0", "tt:0"], device_map={key: "tt:0"}, strict=True)
        assert names_on(planned) == ["tt:0"] * 3 + ["cpu:0"] * 3
    with pytest.raises(PlanError, match="did you mean 'opencl'"):
        plan(graph, ["cpu:0", "tt:0"], device_map={"openc": "tt:0"})
    with pytest.raises(PlanError, match="tt:1 is not in the device list"):
        plan(graph, ["cpu:0", "tt:0"], device_map={"opencl": "tt:1"})


def test_pins_go_by_node_op_and_function_and_the_last_wins():
    graph = simplex(None, None, copy=False)
    by_op = plan(graph, ["cpu:0", "tt:0"], place={"subtract": "tt:0"})
    by_func = plan(graph, ["cpu:0", "tt:0"], place={"subtract_*": "tt:0"})
    by_name = plan(graph, ["cpu:0", "tt:0"], place={"*": "cpu:0", graph.names[-1]: "tt:0"})
    for planned in (by_op, by_func, by_name):
        assert names_on(planned)[-1] == "tt:0"
        assert COPY in [planned.graph.node(n).op for n in range(planned.graph.num_nodes)]
    assert names_on(plan(graph, ["cpu:0", "tt:0"], place={"*": "tt:0", "subtract": "cpu:0"}))[-1] == "cpu:0"
    with pytest.raises(PlanError, match="did you mean 'subtract'"):
        plan(graph, ["cpu:0"], place={"subtrac": "cpu:0"})


def test_an_input_without_a_column_goes_to_its_first_consumer():
    planned = plan(simplex(None, None, copy=False), ["cpu:0", "tt:0"], place={"add": "tt:0"})
    assert names_on(planned) == ["tt:0", "tt:0", "tt:0", "cpu:0", "cpu:0", "cpu:0"]
    assert "first consumer" in planned.causes[planned.cause_id[0]]


def test_an_op_without_a_kernel_names_node_op_and_device():
    maker = GraphMaker()
    x = maker.input(TensorType("float64", (2, 2)))
    graph = maker.graph([maker.op("softmax", [x])])
    with pytest.raises(UnsupportedOpError, match=r"softmax.*tt:0.*float64") as caught:
        plan(graph, ["tt:0"])
    assert (caught.value.node, caught.value.op, caught.value.device) == ("n1", "softmax", "tt:0")
    assert plan(graph, ["null:0"]).did.tolist() == [0, 0], "null accepts everything"


def test_outputs_of_a_node_lie_on_one_device():
    maker = GraphMaker()
    maker.call("pair", [maker.input(F4)], [F4, F4])
    with pytest.raises(PlanError, match="outputs of node 'n1' are on cpu:0 and tt:0") as caught:
        plan(maker.graph([2], device_type=np.array([1, 1, 12])), ["cpu:0", "tt:0"])
    assert caught.value.path == "$.attrs.device_index[1][2]"


# **************** copies ****************


def test_one_copy_serves_every_consumer_and_nothing_is_copied_back():
    maker = GraphMaker()
    x = maker.input(F4, 0)
    a = maker.op("relu", [x], 0)
    b = maker.op("add", [a, a], 1)
    c = maker.op("add", [b, a], 1)
    d = maker.op("add", [maker.call(COPY, [a], [F4], 1), a], 0)  # reads a copy of a, where a lives
    graph = maker.graph([d, maker.op("add", [c, d], 0)], devices=parse_list(["cpu:0", "tt:0"]))
    planned = plan(graph, ["cpu:0", "tt:0"])
    inserted = np.flatnonzero(planned.origin < 0)
    assert [planned.graph.names[n] for n in inserted] == ["n1_copy_tt0", "n3_copy_cpu0"]
    assert planned.graph.node(int(inserted[0]) + 1).name == "n2", "right before its first consumer"
    last_add = planned.graph.node(planned.graph.names.index("n5"))
    assert last_add.inputs[0] == last_add.inputs[1], "a itself, not a copy of its copy"
    cause = planned.causes[planned.cause_id[inserted[0]]]
    assert cause == "'n2' on tt:0 reads 'n1', which lives on cpu:0; move host -> dram"


def test_a_copy_of_the_file_is_reused():
    maker = GraphMaker()
    x = maker.op("relu", [maker.input(F4, 0)], 0)
    maker.call(COPY, [x], [F4], 1)
    graph = maker.graph([maker.op("relu", [x], 1)], devices=parse_list(["cpu:0", "tt:0"]))
    planned = plan(graph, ["cpu:0", "tt:0"])
    assert (planned.origin >= 0).all()
    assert planned.graph.in_eid[-1] == 2


def test_copies_of_inputs_run_when_they_are_set_unless_an_output_is_written_there():
    maker = GraphMaker()
    x, w = maker.input(F4, 0), maker.input(F4, 0)
    y = maker.op("add", [x, w], 1)
    out = maker.call(COPY, [y], [F4], 0)
    for aliases, expected in (((), [True, True]), (((0, 0),), [False, True])):
        planned = plan(
            maker.graph([out], devices=parse_list(["cpu:0", "tt:0"]), aliases=aliases), ["cpu:0", "tt:0"]
        )
        assert planned.at_input[planned.origin < 0].tolist() == expected
        assert planned.aliases == aliases


def test_names_of_copies_are_unique():
    maker = GraphMaker()
    x = maker.op("relu", [maker.input(F4, 0)], 0)
    maker.op("relu", [x], 1)
    maker.names[0] = "n1_copy_tt0"
    planned = plan(maker.graph([2], devices=parse_list(["cpu:0", "tt:0"])), ["cpu:0", "tt:0"])
    assert planned.graph.names == ("n1_copy_tt0", "n1", "n1_copy_tt0_2", "n2")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(DEVICE_LISTS), st.booleans())
def test_every_input_lies_on_its_nodes_device_and_the_graph_is_the_same(seed, devices, columns):
    graph = random_graph(np.random.default_rng(seed), devices, nodes=20, columns=columns, library=True)
    placed = insert_transfers(place(graph, parse_list(devices)))
    new, did = placed.graph, np.repeat(placed.did, np.diff(placed.graph.row_ptr))
    for nid in range(new.num_nodes):
        view = new.node(nid)
        assert view.op == COPY or all(did[eid] == placed.did[nid] for eid in view.inputs)
        assert all(eid < new.row_ptr[nid] for eid in view.inputs)
        if placed.origin[nid] >= 0:
            old = graph.node(int(placed.origin[nid]))
            assert (old.name, old.func, old.input_types, old.output_types) == (
                view.name,
                view.func,
                view.input_types,
                view.output_types,
            )
    kept = placed.origin[placed.origin >= 0]
    assert np.array_equal(kept, np.arange(graph.num_nodes))
    pairs = [(new.node(n).inputs[0], placed.did[n]) for n in np.flatnonzero(placed.origin < 0)]
    assert len(set(pairs)) == len(pairs), "one copy an entry and device"
    assert len(set(new.names)) == len(set(graph.names)) + len(pairs)
    assert [new.names[n] for n in new.inputs] == list(graph.input_names)


def test_what_nothing_reads_moves_with_the_nodes():
    maker = GraphMaker()
    x = maker.op("relu", [maker.input(F4, 0)], 0)
    y = maker.op("relu", [x], 1)
    graph = maker.graph([y], devices=parse_list(["cpu:0", "tt:0"]), storage_scope=("", "", "global"))
    graph = replace(
        graph,
        extra_columns={"dtype": ("list_int", (7, 8, 9)), "count": ("size_t", 3)},
        control_deps={2: (1, 0)},
    )
    new = plan(graph, ["cpu:0", "tt:0"]).graph
    assert new.extra_columns == {"dtype": ("list_int", (7, 8, 0, 9)), "count": ("size_t", 3)}
    assert new.control_deps == {3: (1, 0)}
    assert new.hints.storage_scope == ("", "", "", "global")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"formats": "bf16"}, "formats is a mapping, as {'tt': 'bf16'}; got 'bf16'"),
        ({"numerics": "LoFi"}, "numerics is a mapping"),
        ({"place": ["tt:0"]}, "place is a mapping"),
        ({"numerics": {"tt": "LoFi"}}, "numerics of tt is a mapping, as {'fidelity': 'HiFi2'}"),
        ({"layouts": "l1"}, "layouts is a mapping"),
    ],
)
def test_options_of_another_type_are_told(options, says):
    maker = GraphMaker()
    graph = maker.graph([maker.op("relu", [maker.input(F4)])])
    with pytest.raises(InputError) as caught:
        plan(graph, ["tt:0"], **options)
    assert says in str(caught.value)


def test_what_is_no_graph_is_told():
    with pytest.raises(InputError, match=r"plan takes a Graph, got GraphMaker.*load_graph"):
        plan(GraphMaker(), ["cpu:0"])
