"""The data of a page is what plans, timelines and comparisons say; no browser is asked."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

import graph_runtime as gr
from graph_runtime.accuracy.compare import compare
from graph_runtime.base.errors import CapacityError
from graph_runtime.plan import plan
from graph_runtime.simulation.estimate import bounds
from graph_runtime.simulation.simulation import simulate
from graph_runtime.testing.graphs import random_graph
from graph_runtime.views.page.addresses import peak_of
from graph_runtime.views.page.answers import without_numbers
from graph_runtime.views.page.cores import utilisation
from graph_runtime.views.page.data import page_data
from graph_runtime.views.page.shown import Shown
from graph_runtime.views.page.tensors import tensor_data
from graph_runtime.views.tensor_numbers import TensorNumbers

pytestmark = pytest.mark.core

DEVICES = ["cpu:0", "tt:0", "tt:1"]


def shown_of(graph, devices=DEVICES, runs=1, **options) -> Shown:
    planned = plan(graph, devices, **options)
    return Shown("net", planned, {"simulated": simulate(planned, runs=runs)})


def data_of(*shown: Shown) -> dict:
    return orjson.loads(orjson.dumps(page_data("title", *shown)))


def sharded():
    b = gr.GraphBuilder()
    x = b.input("x", (300, 200), device="cpu:0")
    h = b.op("matmul", x, b.input("w", (200, 128)), name="mm", device="tt:0")
    b.output(b.op("relu", h, name="act", device="tt:0"))
    return gr.load_graph(b.to_json())


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_those_of_the_plan_and_its_timeline(seed):
    shown = shown_of(random_graph(np.random.default_rng(seed), DEVICES, nodes=25), runs=2)
    planned, timeline, (found,) = shown.plan, shown.timeline, data_of(shown)["plans"]
    texts, nodes, edges = found["texts"], found["graph"]["nodes"], found["graph"]["edges"]
    count = planned.graph.num_nodes
    assert {len(nodes[key]) for key in ("name", "kind", "op", "device", "cause", "layout", "ns")} == {count}
    assert [texts[i] for i in nodes["cause"]] == [planned.causes[i] for i in planned.cause_id.tolist()]
    assert nodes["device"] == planned.did.tolist()
    assert edges["to"] == sorted(edges["to"])
    assert len(edges["from"]) == len(planned.graph.in_eid)
    (line,) = found["timelines"]
    assert line["events"]["nid"] == timeline.nid.tolist()
    assert line["events"]["ns"] == timeline.duration.tolist()
    for begin, end, kind in line["flows"]:
        assert timeline.end[begin] <= timeline.start[end]
        assert kind in (0, 1, 2)
    bound = bounds(timeline)
    assert {nid: texts[nodes["bound"][nid]] for nid in bound} == bound
    told = found["answers"]["placement"]["devices"]
    assert sum(row["nodes"] for row in told) == int((shown.kinds == 0).sum())


@pytest.mark.parametrize("seed", range(3))
def test_pools_hold_what_the_plan_holds(seed):
    shown = shown_of(random_graph(np.random.default_rng(seed), DEVICES, nodes=25))
    for pool, told in zip(data_of(shown)["plans"][0]["pools"], shown.plan.peak.items(), strict=True):
        (did, _), peak = told
        assert (pool["did"], pool["peak"]) == (did, peak)
        values = pool["values"]
        assert (
            max((o + e for o, e in zip(values["offset"], values["extent"], strict=True)), default=0) <= peak
        )
        assert 0 <= pool["most_live"] <= peak
        assert pool["bound"] <= peak


def test_the_peak_counts_a_shared_storage_once():
    values = {
        "begin": [0, 10, 10],
        "end": [10, 20, 30],
        "extent": [100, 100, 7],
        "sid": [1, 1, 2],
    }
    ns, most, rows = peak_of(values)
    assert (ns, most, rows.tolist()) == (10, 107, [1, 2])
    values["end"][0] = 15  # the same bytes, handed over in place
    assert peak_of(values)[1] == 107
    assert peak_of({"begin": [], "end": [], "extent": [], "sid": []})[:2] == (0, 0)


def test_sharded_values_say_their_cores():
    (found,) = data_of(shown_of(sharded(), layouts={"act": "l1/height[1x5]"}))["plans"]
    (pool,) = (pool for pool in found["pools"] if pool["memory"] == "l1")
    at = pool["values"]["nid"].index(found["graph"]["nodes"]["name"].index("act"))
    assert pool["values"]["cores"][at] == [0, 0, 0, 4]
    assert pool["grid"][0] * pool["grid"][1] == pool["banks"]


def test_epochs_have_their_ops_and_cores():
    shown = shown_of(sharded(), ["cpu:0", "tt:0=e150"], policy="nlp")
    (device,) = data_of(shown)["plans"][0]["cores"]
    ops = [op for epoch in device["epochs"] for op in epoch["ops"]]
    assert device["policy"] == "nlp"
    assert len(ops) == len(shown.plan.balanced[0].network.ops)
    assert all(0 <= op["at"][0] <= op["at"][2] < device["grid"][0] for op in ops)
    assert all(0 < op["cycles"] <= epoch["cycles"] for epoch in device["epochs"] for op in epoch["ops"])


def test_utilisation_is_a_share_and_falls_with_time():
    planned = plan(sharded(), DEVICES)
    nid = planned.graph.names.index("mm")
    assert 0 < utilisation(planned, nid, 40_000) < utilisation(planned, nid, 20_000) <= 1
    assert utilisation(planned, 0, 10) == 0


def test_points_of_the_roofline_lie_below_it():
    (found,) = data_of(shown_of(sharded()))["plans"]
    (device,) = (one for one in found["roofline"] if one["device"] == "tt:0")
    points = device["points"]
    assert len(points["nid"]) == 2
    peak = max(rate for _, rate in device["roofs"])
    for flops, ns in zip(points["flops"], points["ns"]["simulated"], strict=True):
        assert 0 < flops / ns < peak


def test_two_plans_say_what_moved_and_what_it_cost():
    one, two = shown_of(sharded()), shown_of(sharded(), place={"act": "cpu:0"})
    moved = data_of(one, two)["moved"]
    rows = {row["name"]: row for row in moved["rows"]}
    assert rows["act"]["what"] == "device"
    assert rows["act"]["device"] == ["tt:0", "cpu:0"]
    assert rows["act"]["delta"] == rows["act"]["ns"][1] - rows["act"]["ns"][0] != 0
    assert rows["mm"]["what"] == ""
    assert moved["counts"]["device"] == 1
    assert moved["counts"]["only in B"] == sum(row["nids"][0] is None for row in rows.values()) == 1
    totals = {row["what"]: row["values"] for row in moved["totals"]}
    assert totals["latency"] == [one.timeline.latency_ns, two.timeline.latency_ns]
    assert totals["copies of every run"] == [0, 1]


def test_a_comparison_is_on_its_nodes():
    compared = compare(sharded(), None, DEVICES, formats={"tt": "bf16"}, nodes=True)
    planned = plan(sharded(), DEVICES, formats={"tt": "bf16"})
    shown = Shown("net", planned, {"simulated": simulate(planned)}, comparison=compared.as_dict())
    (found,) = data_of(shown)["plans"]
    rows = {row["name"]: row for row in found["accuracy"]["nodes"]}
    assert rows["mm"]["nid"] == planned.graph.names.index("mm")
    assert rows["mm"]["alone"]["nmse"] > 0
    assert rows["mm"]["alone"]["max_ulp"] > 0
    worst = rows["mm"]["alone"]["worst"][0]
    assert abs(worst["got"] - worst["wanted"]) == pytest.approx(rows["mm"]["alone"]["max_abs"])
    assert len(worst["at"]) == 2


def test_numbers_are_those_of_what_a_run_kept():
    module = gr.create(sharded(), None, DEVICES)
    x = np.ones((300, 200), np.float32)
    x[0, :3] = np.nan, np.inf, 0
    module.run(x=x, w=np.zeros((200, 128), np.float32))
    planned = module.session.plan
    (eid,) = (int(eid) for eid in planned.graph.outputs)
    (of_x,) = (
        int(eid)
        for name, eid in zip(planned.graph.input_names, planned.graph.input_eids, strict=True)
        if name == "x"
    )
    kept = {of_x: x, eid: module.get_output(0).numpy()}
    shown = Shown("net", planned, {"simulated": simulate(planned)}, kept=kept)
    (found,) = data_of(shown)["plans"]
    t = found["tensors"]
    assert [found["graph"]["nodes"]["name"][nid] for nid in t["nid"]] == ["x", t["name"][1]]
    assert [t[key][0] for key in ("size", "min", "max", "nan", "inf", "zeros")] == [60000, 0, 1, 1, 1, 1]
    assert t["mean"][0] == pytest.approx(1 - 1 / 59998, rel=1e-5)
    assert t["first"][0] == ["nan", "inf", 0, 1, 1, 1, 1, 1]
    assert t["nan"][1] == 128
    assert t["left_out"] == 0
    assert data_of(shown_of(sharded()))["plans"][0]["tensors"] is None


def test_numbers_of_nodes_come_from_a_comparison():
    rng = np.random.default_rng(0)
    inputs = {"x": rng.normal(3, 2, (300, 200)).astype(np.float32), "w": np.eye(200, 128, dtype=np.float32)}
    compared = compare(sharded(), None, DEVICES, inputs=inputs, nodes=True).as_dict()
    found = tensor_data(["mm", "act"], compared)
    assert set(zip(found["name"], found["run"], strict=True)) == {
        (name, run) for name in ("mm", "act") for run in ("added up", "alone")
    }
    at = found["name"].index("mm")
    wanted = inputs["x"][:, :128]
    assert found["mean"][at] == pytest.approx(wanted.mean(), rel=1e-3)
    assert found["std"][at] == pytest.approx(wanted.std(), rel=1e-3)
    assert found["first"][at] == pytest.approx(wanted[0, :8].tolist(), rel=1e-3)
    outputs = tensor_data(["act"], compare(sharded(), None, DEVICES, inputs=inputs).as_dict())
    assert outputs["run"] == ["compared"]
    assert tensor_data(["other"], compared) is None


def test_numbers_of_a_node_with_two_outputs_say_which():
    b = gr.GraphBuilder()
    for value in b.op("topk", b.input("x", (4, 8)), k=2, axis=1, name="top"):
        b.output(value)
    module = gr.create(b.build(), None, ["cpu:0"])
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    module.run(x=x)
    planned = module.session.plan
    eids = [int(eid) for eid in planned.graph.outputs]
    kept = {eid: module.get_output(at).numpy() for at, eid in enumerate(eids)}
    shown = Shown("net", planned, {"simulated": simulate(planned)}, kept=kept)
    t = data_of(shown)["plans"][0]["tensors"]
    assert t["name"] == ["top:0", "top:1"]
    assert t["first"] == [[7, 6, 15, 14, 23, 22, 31, 30], [7, 6] * 4]
    compared = tensor_data(planned.graph.names, compare(b.build(), None, ["cpu:0"], nodes=True).as_dict())
    assert set(compared["name"]) == {"top:0", "top:1"}
    assert set(compared["nid"]) == set(t["nid"])


def test_numbers_of_many_tensors_are_cut():
    row = {"numbers": TensorNumbers.of(np.array([1 / 3, -1e30], np.float32)).as_dict()}
    names = [f"n{at}" for at in range(9000)]
    compared = {"accumulated": [{"name": name, **row} for name in names], "isolated": []}
    found = tensor_data(names, compared)
    assert (len(found["nid"]), found["left_out"]) == (8000, 1000)
    assert found["first"][0] == [0.333333, -1e30]
    assert len(orjson.dumps(found)) < 200 * 8000


def test_a_plan_that_does_not_fit_comes_with_its_error():
    b = gr.GraphBuilder()
    x = b.input("x", (8192, 1024), device="tt:0")
    big = [b.op(op, x, name=f"big{at}", device="tt:0") for at, op in enumerate(("relu", "exp", "tanh"))]
    for one, two in ((0, 1), (1, 2), (2, 0)):
        b.output(b.op("add", big[one], big[two], device="tt:0"))
    with pytest.raises(CapacityError) as error:
        plan(gr.load_graph(b.to_json()), ["tt:0"], layouts={"big*": "l1"})
    planned = error.value.plan
    shown = Shown("net", planned, {"simulated": simulate(planned)}, problem=str(error.value))
    (found,) = data_of(shown)["plans"]
    (pool,) = (pool for pool in found["answers"]["memory"] if pool["memory"] == "l1")
    assert not pool["fits"]
    assert {planned.graph.names[row["nid"]] for row in pool["holders"]} >= {"big0", "big1", "big2"}
    assert "big0" in found["problem"]


def test_causes_that_differ_in_numbers_are_one():
    assert without_numbers("mincut: tt:0 21.4 us; cpu:0 2.122 ms, and adds 0.124 ms of copies") == (
        "mincut: tt:0 …; cpu:0 …, and adds … of copies"
    )
    assert without_numbers("as tt:1 has it") == "as tt:1 has it"


def test_kernels_have_their_code():
    (found,) = data_of(shown_of(sharded()))["plans"]
    codes = found["graph"]["codes"]
    assert {kernel.split("/")[0] for kernel in codes} == {"tt"}
    assert all(code["text"] and code["file"].startswith("native/kernels/") for code in codes.values())
