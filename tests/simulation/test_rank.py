"""What place predicts of a placement and what simulate says of its plan: one rule for inputs, one order."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_runtime import GraphBuilder
from graph_runtime.plan import plan
from graph_runtime.plan.passes import place
from graph_runtime.simulation.simulation import simulate

BENCH = Path(__file__).resolve().parents[1] / "bench"
LISTS = (["tt:0"], ["cpu:0", "tt:0"], ["tt:0=n150", "tt:1=p150"], ["tt:0", "cpu:0"])


with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(BENCH))
    import bench_rank as bench


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("objective", ["serial", "makespan"])
@pytest.mark.parametrize("devices", bench.LISTS, ids="-".join)
@pytest.mark.parametrize("model", bench.MODELS)
def test_predictions_order_random_placements_as_simulations_do(model, devices, objective):
    found = bench.measure(model, devices, 25, objective)
    assert found["rank"] >= 0.98, found


@pytest.mark.parametrize("streamed", [False, True])
def test_predictions_of_many_runs_order_placements_as_simulations_do(streamed):
    for devices, topology in ((bench.LISTS[0], None), *bench.CABLED[:2]):
        if streamed and not devices[0].startswith("cpu"):
            continue
        for model in ("branches", "residual", "attention"):
            found = bench.measure(model, devices, 6, "throughput", topology=topology, streamed=streamed)
            assert found["rank"] >= 0.98, found
            assert found["worst"] <= 0.2, found


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("objective", ["serial", "makespan", "throughput"])
@pytest.mark.parametrize(("devices", "topology"), bench.CABLED, ids=[name for _, name in bench.CABLED])
@pytest.mark.parametrize("model", bench.MODELS)
def test_predictions_order_placements_on_cabled_chips(model, devices, topology, objective):
    for streamed in {False, devices[0].startswith("cpu")}:
        found = bench.measure(model, devices, 40, objective, topology=topology, streamed=streamed)
        assert found["rank"] >= 0.98, found


@pytest.mark.parametrize("devices", LISTS, ids=str)
def test_an_input_that_is_set_anew_is_charged_by_both(devices):
    b = GraphBuilder()
    x = b.input("x", (512, 2048))
    b.output(b.op("relu", b.op("matmul", x, b.param("w", (2048, 2048)))))
    graph = b.build()
    times = {}
    for inputs in ((), ("x",)):
        placed = place(graph, devices, placement="single", inputs=inputs)
        serial, makespan, _ = placed.summary()["predictions"]
        timeline = simulate(plan(graph, devices, placed=placed))
        assert serial["ns"] == timeline.duration.sum()
        assert makespan["ns"] == timeline.latency_ns
        times[inputs] = timeline.latency_ns
    assert times["x",] > times[()]
    names = [row["name"] for row in timeline.nodes()]
    assert len(names) == 3
    assert timeline.summary()["queues"]
