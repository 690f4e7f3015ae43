"""Graphs over machines without Ray: workers are threads here, and end when a test says so."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.config import config
from graph_runtime.cluster.graphs.connecting import Cluster
from graph_runtime.cluster.graphs.fleet import ThreadFleet
from graph_runtime.cluster.graphs.remote_session import RemoteSession
from graph_runtime.cluster.graphs.remote_tensor import RemoteTensor
from graph_runtime.cluster.graphs.worker import encode_error
from graph_runtime.cluster.transport import limits
from graph_runtime.cluster.transport.messages import Message, read_message, write_message
from graph_runtime.ir.model import Model

pytestmark = pytest.mark.slow
SIZE = 48
ON = ["node0/cpu:0", "node1/cpu:0"]
SECOND = {"*": "node0/cpu:0", "matmul_1": "node1/cpu:0", "tanh_1": "node1/cpu:0"}
rng = np.random.default_rng(3)
X = rng.standard_normal((8, SIZE)).astype(np.float32)
WEIGHTS = [rng.standard_normal((SIZE, SIZE)).astype(np.float32) / 7 for _ in range(3)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(ThreadFleet(("node0", "node1", "node2"), tmp_path / "bundles"), deadline=20)
    yield made
    made.close()


def layers(count: int = 3) -> Model:
    builder = gr.GraphBuilder()
    value = builder.input("x", (8, SIZE))
    for i in range(count):
        value = builder.op("tanh", builder.op("matmul", value, builder.param(f"w{i}", WEIGHTS[i])))
    builder.output(value)
    return Model.from_builder(builder)


def expected(x: np.ndarray, count: int = 3) -> np.ndarray:
    for weight in WEIGHTS[:count]:
        x = np.tanh(x @ weight)
    return x


def total() -> gr.GraphBuilder:
    """total += x; shown = 2 total + x"""
    builder = gr.GraphBuilder()
    x, state = builder.input("x", (4,)), builder.input("total", (4,))
    added = builder.op("add", x, state, name="added")
    doubled = builder.op("add", added, added, name="doubled")
    builder.output(added, builder.op("add", doubled, x, name="shown"))
    builder.alias(added, state)
    return builder


def open_chain(cluster: Cluster, **words: Any) -> Any:
    return cluster.create(layers(), ON, place=SECOND, fuse=False, compile=False, **words)


def end(cluster: Cluster, node: str, why: str = "killed") -> None:
    """The worker of a node ends, as by kill -9: calls that run give no answer."""
    member: Any = cluster.fleet.member(node)
    cluster.fleet.calls.lost(member, why)
    member.worker.endpoint.close()


# **************** running ****************


def test_a_graph_over_two_machines_is_that_of_one(cluster: Cluster) -> None:
    module = open_chain(cluster)
    module.run(x=X)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(X), rtol=2e-5, atol=1e-6)
    module.set_input("x", -X)
    module.run()
    np.testing.assert_allclose(module.get_output("tanh_2"), expected(-X), rtol=2e-5, atol=1e-6)
    module.load_params({"x": -X})
    assert (module.get_num_inputs(), module.get_num_outputs()) == (4, 1)
    np.testing.assert_array_equal(module.get_input("x").numpy(), -X)
    out = np.empty((8, SIZE), np.float32)
    assert module.get_output(0, out) is out
    assert out[0, 0] == module.get_output(0).numpy()[0, 0]


def test_runs_in_flight(cluster: Cluster) -> None:
    module = open_chain(cluster, max_in_flight=4)
    runs = [module.run_async(x=X * i) for i in range(25)]
    values = gr.gather([run.outputs[0] for run in runs])
    for i, value in enumerate(values):
        np.testing.assert_allclose(value, expected(X * i), rtol=2e-5, atol=1e-6)
    assert all(run.done() for run in runs)


@pytest.mark.parametrize("width", [64, 1 << 19])  # run in the asking thread, and queued
def test_what_a_run_is_given_holds_for_that_run(cluster: Cluster, width: int) -> None:
    builder = gr.GraphBuilder()
    x, y = builder.input("x", (width,)), builder.input("y", (width,))
    builder.output(builder.op("subtract", x, y))
    module = cluster.create(builder, ["node0/cpu:0"], fuse=False, compile=False)
    value = np.ones(width, np.float32)
    module.set_input(x=value, y=value)
    for i in range(3):
        runs = [module.run_async(x=value + i), module.run_async(y=value - 1), module.run_async()]
        for run, more in zip(runs, (i, 1, 0), strict=True):
            np.testing.assert_array_equal(run.outputs[0].numpy(), np.full(width, more, np.float32))
    with pytest.raises(gr.InputError):
        module.run_async(x=value[:3])
    module.run()
    assert not module.get_output(0).numpy().any()


def test_inputs_that_a_run_sets_are_there_for_one_that_overtakes_it(cluster: Cluster) -> None:
    builder = gr.GraphBuilder()
    x, y = builder.input("x", (4,)), builder.input("y", (4,))
    builder.output(builder.op("subtract", x, y))
    module = cluster.create(builder, ["node0/cpu:0"], fuse=False, compile=False)
    part: Any = next(iter(cluster.fleet.member("node0").worker._parts.values()))  # type: ignore[attr-defined]
    plain, overtaken = part.run, threading.Event()

    def late(run: int, *words: Any, **more: Any) -> Any:
        if run % 2 == 0:
            overtaken.wait(10)
            time.sleep(0.05)  # in which the other one would run
        else:
            overtaken.set()
        return plain(run, *words, **more)

    part.run = late
    for value in (3, 5):
        overtaken.clear()
        module.set_input(x=np.full(4, value, np.float32), y=np.zeros(4, np.float32))
        runs = [module.run_async(), module.run_async(y=np.ones(4, np.float32))]
        assert [run.outputs[0].numpy()[0] for run in runs] == [value, value - 1]


def test_inputs_of_a_run_that_never_came_are_set_by_the_next(cluster: Cluster, monkeypatch: Any) -> None:
    module = open_chain(cluster, deadline=0.5)
    module.run(x=X)
    endpoint = cluster.fleet.own.endpoint
    plain, swallowed = endpoint.send, list[int]()

    def lossy(to: Any, header: Any, *words: Any) -> None:
        if header.get("run") == 1:
            swallowed.append(1)
        else:
            plain(to, header, *words)

    monkeypatch.setattr(endpoint, "send", lossy)
    module.set_input("x", -X)
    first, second = module.run_async(), module.run_async()
    with pytest.raises(gr.WorkerLost, match="gave no answer"):
        first.wait()
    with pytest.raises((gr.RunCancelledError, gr.WorkerLost), match=r"should have set inputs|gave no answer"):
        second.wait()  # never with what x was before
    assert swallowed
    np.testing.assert_allclose(module.run_async().outputs[0].numpy(), expected(-X), rtol=2e-5, atol=1e-6)


def test_the_callers_own_devices_are_a_machine(cluster: Cluster) -> None:
    place = {"*": "cpu:0", "matmul_1": "node1/tt:0", "tanh_1": "node1/tt:0"}
    module = cluster.create(layers(), ["cpu:0", "node1/tt:0"], place=place, fuse=False, compile=False)
    module.run(x=X)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(X), rtol=1e-2, atol=1e-2)


def test_large_outputs_stay_until_they_are_asked_for(cluster: Cluster) -> None:
    builder = gr.GraphBuilder()
    x = builder.input("x", (200, 200))
    builder.output(builder.op("relu", x), builder.op("tanh", x))
    module = cluster.create(builder, ["node0/cpu:0"], fuse=False, compile=False)
    x_value = rng.standard_normal((200, 200)).astype(np.float32)
    run = module.run_async(x=x_value).wait()
    first, second = run.outputs
    assert isinstance(first, RemoteTensor)
    assert not first.is_here
    again = module.run_async(x=first)  # it is read where it lies
    np.testing.assert_allclose(
        again.outputs[1].numpy(), np.tanh(np.maximum(x_value, 0)), rtol=1e-5, atol=1e-6
    )
    assert not first.is_here
    both = gr.gather([first, second])
    np.testing.assert_array_equal(both[0], np.maximum(x_value, 0))
    assert first.is_here
    assert first.shape == (200, 200)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(first) + 1, both[0] + 1)


def test_a_bundle_on_one_machine(cluster: Cluster, tmp_path: Path) -> None:
    path = gr.build_bundle(layers(), "cpu:0", tmp_path / "net.bundle", compile=False)
    module = cluster.load(path, ["node1/cpu:0"])
    local = gr.load(path)
    for one in (module, local):
        one.run(x=X)
    np.testing.assert_array_equal(module.get_output(0).numpy(), local.get_output(0).numpy())
    assert module.get_input_info() == local.get_input_info()
    again = cluster.load(path, ["cpu:0", "node0/cpu:0"])  # several machines: its graph is planned
    again.run(x=X)
    np.testing.assert_allclose(again.get_output(0).numpy(), expected(X), rtol=2e-5, atol=1e-6)


def test_words_that_are_wrong(cluster: Cluster) -> None:
    with pytest.raises(gr.DeviceError, match=r"no node 'node9'.*did you mean 'node"):
        cluster.create(layers(), ["node9/cpu:0"])
    with pytest.raises(gr.InputError, match="deadline must be a positive number of seconds"):
        open_chain(cluster, deadline=0)
    module = open_chain(cluster)
    with pytest.raises(gr.InputError, match="'x' of module was never set"):
        module.run()
    with pytest.raises(gr.InputError, match=r"did you mean 'x'|no input|there are"):
        module.run_async(xx=X)
    with pytest.raises(gr.InputError, match="the graph says"):
        module.run(x=X[:2])
    with pytest.raises(gr.InputError, match="constant"):
        module.set_input("w0", WEIGHTS[0])
    with pytest.raises(gr.InputError, match="zero copy"):
        module.set_input_zero_copy("x", X)


def test_without_a_cluster_the_error_says_how() -> None:
    with pytest.raises(gr.ClusterError, match=r"gr.cluster.connect\('local'"):
        gr.create(layers(), devices=["node0/cpu:0"])


def test_a_kernel_that_refuses_fails_its_run_alone(cluster: Cluster) -> None:
    builder = gr.GraphBuilder()
    x, at = builder.input("x", (4, 2)), builder.input("at", (3,), "int64")
    builder.output(
        builder.op("relu", builder.op("take", builder.op("tanh", x), at, name="taken"), name="last")
    )
    place = {"*": "node0/cpu:0", "last": "node1/cpu:0"}
    module = cluster.create(builder, ON, place=place, fuse=False, compile=False)
    x_value = np.ones((4, 2), np.float32)
    bad = module.run_async(x=x_value, at=np.array([0, 9, 1]))
    good = module.run_async(x=x_value, at=np.array([0, 3, 1]))
    with pytest.raises(gr.KernelError, match="taken"):
        bad.wait()
    assert good.outputs[0].numpy().shape == (3, 2)


# **************** losses ****************


def test_runs_are_run_again_when_a_machine_is_lost(cluster: Cluster) -> None:
    module = open_chain(cluster)
    module.run(x=X)
    runs = [module.run_async(x=X * i) for i in range(6)]
    end(cluster, "node1")
    runs += [module.run_async(x=X * i) for i in range(6, 12)]
    for i, value in enumerate(gr.gather([run.outputs[0] for run in runs])):
        np.testing.assert_allclose(value, expected(X * i), rtol=2e-5, atol=1e-6)
    end(cluster, "node0")  # between runs
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(X), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("known", [True, False])
def test_a_graph_is_opened_where_a_worker_ended_before(
    cluster: Cluster, monkeypatch: Any, known: bool
) -> None:
    first: Any = cluster.fleet.member("node1")
    if known:
        end(cluster, "node1")
    else:  # it ends when it is asked
        plain = first.start

        def dies(data: bytes) -> Any:
            monkeypatch.setattr(first, "start", plain)
            end(cluster, "node1")
            return plain(data)

        monkeypatch.setattr(first, "start", dies)
    module = open_chain(cluster)
    np.testing.assert_allclose(module.run_async(x=X).outputs[0].numpy(), expected(X), rtol=2e-5, atol=1e-6)
    assert cluster.fleet.member("node1") is not first


def test_a_run_that_ends_each_machine_fails_with_its_name(cluster: Cluster, monkeypatch: Any) -> None:
    module = open_chain(cluster)
    fleet: Any = cluster.fleet
    make = fleet.make

    def doomed(node: str) -> Any:
        made = make(node)
        plain = made.worker.answer

        def answer(message: Message) -> Message:
            if message.header["do"] == "run":
                fleet.calls.lost(made, "out of memory")
            return plain(message)

        made.worker.answer = answer
        return made

    monkeypatch.setattr(fleet, "make", doomed)
    end(cluster, "node1")
    run = module.run_async(x=X)
    with pytest.raises(gr.WorkerLost, match="worker of node1 was lost: out of memory") as caught:
        run.wait()
    assert caught.value.worker == "node1"
    assert caught.value.cause == "out of memory"
    assert caught.value.requests == ("module#0",)


def test_another_node_takes_the_part_of_one_that_is_gone(cluster: Cluster, monkeypatch: Any) -> None:
    module = open_chain(cluster)
    fleet: Any = cluster.fleet
    make, made = fleet.make, list[str]()

    def elsewhere(node: str) -> Any:
        member = make(node)
        if not made:
            member.gone = "its node is gone, which is not known yet"
        made.append(node)
        return member

    monkeypatch.setattr(fleet, "make", elsewhere)
    monkeypatch.setattr(fleet, "nodes", lambda: ("node0",))
    end(cluster, "node1")
    runs = [module.run_async(x=X * i) for i in range(4)]
    for i, run in enumerate(runs):
        np.testing.assert_allclose(run.outputs[0].numpy(), expected(X * i), rtol=2e-5, atol=1e-6)
    assert made == ["node1", "node1"]
    with pytest.raises(gr.DeviceError, match="no node 'node2'"):
        fleet.member("node2")


def test_no_answer_before_the_deadline_is_a_loss(cluster: Cluster) -> None:
    module = open_chain(cluster, deadline=0.3)
    member: Any = cluster.fleet.member("node1")
    let_go, plain = threading.Event(), member.worker.answer

    def slow(message: Message) -> Message:
        if message.header["do"] == "run":
            let_go.wait(10)
        return plain(message)

    member.worker.answer = slow
    start = time.monotonic()
    with pytest.raises(gr.WorkerLost, match="node1 gave no answer"):
        module.run(x=X)
    assert time.monotonic() - start < 5
    let_go.set()
    member.worker.answer = plain
    module.run(x=X)


def test_runs_with_state_go_on_after_one_that_never_came(cluster: Cluster) -> None:
    module = totals(cluster, deadline=0.5)
    member: Any = cluster.fleet.member("node0")
    plain, swallowed = member.worker.answer, threading.Event()

    def slow(message: Message) -> Message:
        if message.header["do"] == "run" and message.header["run"] == 1:
            swallowed.wait(10)
            return Message({"error": encode_error(gr.ClusterError("swallowed"))})
        return plain(message)

    member.worker.answer = slow
    runs = [step(module, i) for i in (1, 2, 4)]
    assert runs[0].outputs[0].numpy()[0] == 1
    with pytest.raises(gr.WorkerLost, match="state 'total' may or may not have advanced"):
        runs[1].wait()
    swallowed.set()
    assert step(module, 8).outputs[0].numpy()[0] in (9, 13)  # the third run may have waited too long


def test_outputs_that_stayed_on_a_lost_machine(cluster: Cluster) -> None:
    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (200, 200))))
    module = cluster.create(builder, ["node0/cpu:0"], fuse=False, compile=False)
    run = module.run_async(x=np.ones((200, 200), np.float32)).wait()
    end(cluster, "node0")
    with pytest.raises(gr.WorkerLost, match="node0"):
        run.outputs[0].numpy()


def quick(monkeypatch: Any) -> None:
    """Calls are asked after soon."""
    monkeypatch.setattr(limits, "TURN", 0.02)
    monkeypatch.setattr(limits, "LONG", 0.05)


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_what_is_lost_with_a_link_is_asked_for_again(cluster: Cluster, monkeypatch: Any, lost: str) -> None:
    quick(monkeypatch)
    module = totals(cluster)
    step(module, 1).wait()
    member: Any = cluster.fleet.member("node0")
    end_ = member.worker.endpoint if lost == "answer" else cluster.fleet.own.endpoint
    plain, dropped = end_.send, list[str]()

    def lossy(to: Any, header: Any, *words: Any) -> None:
        if not dropped and ("answer" if lost == "answer" else "call") in header:
            dropped.append(lost)  # it went into a buffer of the system's, and no further
        else:
            plain(to, header, *words)

    monkeypatch.setattr(end_, "send", lossy)
    begin = time.monotonic()
    assert [step(module, i).outputs[0].numpy()[0] for i in (2, 4)] == [3, 7]
    assert dropped
    assert time.monotonic() - begin < 10  # not at the deadline


def test_a_long_run_is_no_lost_one(cluster: Cluster, monkeypatch: Any) -> None:
    quick(monkeypatch)
    module, runs = open_chain(cluster), list[int]()
    member: Any = cluster.fleet.member("node1")
    plain = member.worker.answer

    def slow(message: Message) -> Message:
        if message.header["do"] == "run":
            runs.append(message.header["attempt"])
            time.sleep(0.6)
        return plain(message)

    member.worker.answer = slow
    module.run(x=X)
    assert runs == [0]


def test_a_cluster_that_is_closed_in_flight_fails_its_runs(cluster: Cluster, caplog: Any) -> None:
    module = open_chain(cluster)
    member: Any = cluster.fleet.member("node1")
    arrived, let_go, plain = threading.Event(), threading.Event(), member.worker.answer

    def held(message: Message) -> Message:
        if message.header["do"] == "run":
            arrived.set()
            let_go.wait(10)
        return plain(message)

    member.worker.answer = held
    runs = [module.run_async(x=X) for _ in range(3)]
    assert arrived.wait(10)
    cluster.close()
    for run in runs:
        with pytest.raises(gr.WorkerLost, match="the cluster was closed"):
            run.wait(5)
    with pytest.raises(gr.GraphRuntimeError, match="the cluster was closed"):
        module.run_async(x=X).wait(5)
    let_go.set()
    assert caplog.records == []  # nothing was lost


def test_a_link_takes_runs_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    member: Any = cluster.fleet.member("node0")
    end_of_wait = time.monotonic() + 5
    for header in ({"do": "open"}, {"do": "store", "hash": "0" * 64}, {"do": "close"}, {}):
        with pytest.raises(gr.ClusterError, match="is not for links"):
            member.send(header, None, end_of_wait).result(5)
    with pytest.raises(gr.ClusterError, match="was closed"):
        member.send({"do": "run", "module": "none"}, None, end_of_wait).result(5)


@pytest.mark.parametrize(
    "header",
    [
        {"call": "x"},
        {"call": None, "do": "run"},
        {"call": 1 << 60, "do": ["run"]},
        {"call": 10**6, "do": "run", "seconds": "soon"},
        {"call": 10**6, "do": "fetch", "module": {}, "values": 7},
        {"answer": {}},
        {"answer": 10**9},
        {"key": []},
        {"key": ["m", "x", 0, "", 0]},
        {"probe": 1, "back": {}},
        {"file": 3},
        {},
    ],
    ids=str,
)
def test_messages_of_a_link_that_are_none_change_nothing(
    cluster: Cluster, header: dict[str, Any], monkeypatch: Any
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    module = open_chain(cluster)
    for node in ("node0", "node1"):
        with contextlib.suppress(gr.ClusterError):
            cluster.fleet.own.endpoint.send(cluster.fleet.member(node).address, header)
    for i in range(3):
        value = module.run_async(x=X * i).outputs[0].numpy()
        np.testing.assert_allclose(value, expected(X * i), rtol=2e-5, atol=1e-6)
    assert raised == []


# **************** state ****************


def totals(cluster: Cluster, **words: Any) -> Any:
    place = {"*": "node0/cpu:0", "shown": "node1/cpu:0"}
    module = cluster.create(total(), ON, place=place, fuse=False, compile=False, **words)
    module.set_input("total", np.zeros(4, np.float32))
    return module


def step(module: Any, value: float) -> Any:
    return module.run_async(x=np.full(4, value, np.float32))


def test_state_goes_on_from_run_to_run(cluster: Cluster) -> None:
    module = totals(cluster)
    runs = [step(module, i) for i in range(1, 11)]
    shown = [float(run.outputs[1].numpy()[0]) for run in runs]
    sums = np.cumsum(np.arange(1, 11))
    assert shown == [2 * s + i for i, s in enumerate(sums.tolist(), 1)]
    assert module.get_input("total").numpy()[0] == 55
    module.set_input("total", np.full(4, 100, np.float32))
    assert step(module, 1).outputs[0].numpy()[0] == 101


def test_state_is_lost_by_name(cluster: Cluster) -> None:
    module = totals(cluster)
    step(module, 1).wait()
    end(cluster, "node0")
    with pytest.raises(gr.WorkerLost, match=r"node0 was lost: killed; with it state 'total'"):
        step(module, 1).wait()
    with pytest.raises(gr.WorkerLost, match=r"state 'total' was lost .*set it before the next run"):
        step(module, 1)
    module.set_input("total", np.zeros(4, np.float32))
    assert step(module, 5).outputs[0].numpy()[0] == 5


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("node", ["node0", "node1"])
def test_checkpoints_keep_state(cluster: Cluster, every: int, node: str) -> None:
    module = totals(cluster, checkpoint_every=every)
    made = []
    for i in range(1, 13):
        run = step(module, i)
        if i % 5 == 0:
            end(cluster, node)
        made.append(run)
    values = [float(run.outputs[0].numpy()[0]) for run in made]
    assert values == np.cumsum(np.arange(1, 13)).tolist()
    assert [float(run.outputs[1].numpy()[0]) for run in made] == [2 * v + i for i, v in enumerate(values, 1)]
    session: RemoteSession = module.session
    assert len(session._flights._log) <= every + 1


def test_another_machines_loss_does_not_change_state_twice(cluster: Cluster) -> None:
    module = totals(cluster)
    member: Any = cluster.fleet.member("node1")
    plain = member.worker.answer

    def dies(message: Message) -> Message:
        if message.header["do"] == "run":
            time.sleep(0.1)  # node0 has changed its state by then
            end(cluster, "node1")
        return plain(message)

    member.worker.answer = dies
    assert step(module, 3).outputs[1].numpy()[0] == 9
    assert step(module, 4).outputs[0].numpy()[0] == 7


# **************** joining, and what may run ****************


def test_a_bundles_code_is_judged_where_it_would_run(cluster: Cluster, tmp_path: Path) -> None:
    with config(TRUST_DIR=str(tmp_path / "trust")):
        judged(cluster, tmp_path)


def judged(cluster: Cluster, tmp_path: Path) -> None:
    builder = gr.GraphBuilder()
    builder.output(builder.op("softmax", builder.input("x", (8, SIZE))))
    path = gr.build_bundle(builder, "cpu:0", tmp_path / "compiled.bundle", compile=True)
    module = cluster.load(path, ["node0/cpu:0"])
    module.run(x=X)
    gr.untrust(path)
    with pytest.raises(gr.UntrustedLibraryError, match="trust"):
        cluster.load(path, ["node1/cpu:0"])
    again = cluster.load(path, ["node1/cpu:0"], libraries=False)
    again.run(x=X)
    np.testing.assert_allclose(again.get_output(0).numpy(), module.get_output(0).numpy(), rtol=1e-5)


def test_another_installation_is_refused(cluster: Cluster) -> None:
    member: Any = cluster.fleet.member("node0")
    header = {"do": "hello", "installation": "graph_runtime 0.0.1 (ABI 1, riscv)"}
    said = read_message(member.worker.call(write_message(header))).header
    assert "node0 has graph_runtime" in said["error"]["text"]
    assert "0.0.1" in said["error"]["text"]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"do": "eval"},
        {"do": "store", "hash": "../../etc"},
        {"do": "store", "hash": "0" * 64, "files": {"../x": "0" * 64}},
        {"do": "open", "hash": "0" * 64, "sheet": {}},
        {"do": "run", "module": "none", "run": 0, "attempt": 0},
        {"do": "fetch", "module": "none", "values": []},
    ],
)
def test_requests_that_are_none_get_an_error(cluster: Cluster, header: dict[str, Any]) -> None:
    member: Any = cluster.fleet.member("node0")
    said = read_message(member.worker.call(write_message({**header, "seconds": 0.1})))
    assert said.header["error"]["text"]
    assert "error" in read_message(member.worker.call(b"\x80\x04")).header


def test_measured_links(cluster: Cluster) -> None:
    found = cluster.measure(["node0", "node1"])
    assert set(found.links) == {
        (a, b) for a in ("", "node0", "node1") for b in ("", "node0", "node1") if a != b
    }
    assert all(0 < one.latency_ns < 1e9 and one.gb_per_s > 0.01 for one in found.links.values())
