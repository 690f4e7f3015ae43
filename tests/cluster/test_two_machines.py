"""Two machines, which are network namespaces, with Ray's token and TLS. A graph over both: the link is cut,
the second machine is lost. Models served: the link is cut, its disk is full, the machine leaves. Nothing is
lost or wrong. The long form is tests/bench/cluster_faults.py."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from two_nodes import TwoNodes, why_not

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(170),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra cluster is not installed"),
]
ADD_ONE = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {
            "op": "tvm_op",
            "name": "y",
            "inputs": [[0, 0, 0]],
            "attrs": {"func_name": "myadd", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"},
        },
    ],
    "arg_nodes": [0],
    "heads": [[1, 0, 0]],
    "attrs": {
        "dltype": ["list_str", ["float32", "float32"]],
        "shape": ["list_shape", [[4], [4]]],
        "storage_id": ["list_int", [0, 1]],
    },
    "node_row_ptr": [0, 1, 2],
}
# asks again and again on the first machine; says how often, and what was wrong
CLIENT = """
import json, sys, threading, time, urllib.request
import numpy as np
url, end, w = sys.argv[1], time.monotonic() + float(sys.argv[2]), np.load(sys.argv[3])
answers, wrong, longest = [], [], [0.0]
def work(seed):
    rng = np.random.default_rng(seed)
    while time.monotonic() < end:
        x = rng.standard_normal((2, 8)).astype(np.float32)
        one = {"name": "x", "datatype": "FP32", "shape": [2, 8], "data": x.reshape(-1).tolist()}
        begin = time.monotonic()
        try:
            asked = urllib.request.Request(url, json.dumps({"inputs": [one]}).encode())
            got = json.loads(urllib.request.urlopen(asked, timeout=60).read())["outputs"][0]["data"]
            right = np.allclose(np.reshape(got, (2, 8)), np.tanh(x @ w), 1e-4, 1e-5)
            (answers if right else wrong).append(1)
        except Exception as error:
            wrong.append(repr(error))
        longest[0] = max(longest[0], time.monotonic() - begin)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps({"answers": len(answers), "wrong": wrong[:3], "longest": longest[0]}), flush=True)
"""


# a graph over both machines, on the first one; says a word where a fault is to come, and waits for a line
GRAPH = """
import json, ssl, sys, time
import numpy as np
import graph_runtime as gr
from graph_runtime.compat import tvm
from graph_runtime.compat.tvm.contrib import graph_executor
from graph_runtime.ir.model import Model

def fault(name):
    print(name, flush=True)
    sys.stdin.readline()

def layers():
    builder = gr.GraphBuilder()
    value = builder.input("x", (2, 8))
    for i in range(2):
        value = builder.op("tanh", builder.op("matmul", value, builder.param(f"w{i}", W[i])))
    builder.output(value)
    return Model.from_builder(builder)

def wrong(run, i):
    return float(np.abs(run.outputs[0].numpy() - np.tanh(np.tanh(i * X @ W[0]) @ W[1])).max())

def lost(call):
    start = time.monotonic()
    try:
        call()
    except gr.WorkerLost as error:
        return [error.worker, error.cause, list(error.requests), str(error), time.monotonic() - start]

rng = np.random.default_rng(0)
W, X = rng.standard_normal((2, 8, 8)).astype(np.float32), rng.standard_normal((2, 8)).astype(np.float32)
host, port = sys.argv[1].split(":")
remote = tvm.rpc.connect(host, int(port), session_timeout=40)
cluster = gr.cluster.connected()
found = {"nodes": cluster.nodes, "device": str(remote.cpu(0))}
remote.upload(sys.argv[2])
module = graph_executor.create(sys.argv[3], remote.load_module("packed.so"), remote.cpu(0))
module.set_input("x", np.arange(4, dtype=np.float32))
module.run()
found["rpc"] = module.get_output(0).numpy().tolist()

place = {"*": "node0/cpu:0", "matmul_1": "node1/cpu:0", "tanh_1": "node1/cpu:0"}
words = {"place": place, "fuse": False, "compile": False}
module = cluster.create(layers(), ["node0/cpu:0", "node1/cpu:0"], **words)
short = cluster.create(layers(), ["node0/cpu:0", "node1/cpu:0"], name="short", deadline=3, **words)
found["error"] = wrong(module.run_async(x=X), 1) + wrong(short.run_async(x=X), 1)
links = [link for link in cluster.fleet.own.endpoint._out.values() if "node1" in link._to["name"]]
found["tls"] = [isinstance(link._connection._socket, ssl.SSLSocket) for link in links]

fault("pause")
found["silent"] = lost(lambda: short.run(x=X))
fault("go on")
found["after the pause"] = wrong(short.run_async(x=X), 1)

fault("cut")
runs = [module.run_async(x=i * X) for i in range(4)]
fault("whole")
found["after the cut"] = max(wrong(run, i) for i, run in enumerate(runs))

cluster.close()  # where the link was cut another machine may run the part by now
cluster = gr.cluster.connect(sys.argv[1], deadline=40)
module = cluster.create(layers(), ["node0/cpu:0", "node1/cpu:0"], **words)
module.run(x=X)
builder = gr.GraphBuilder()
total, x = builder.input("total", (4,)), builder.input("x", (4,))
added = builder.op("add", total, x)
builder.output(added)
builder.alias(added, total)
state = cluster.create(builder, ["node1/cpu:0"], name="sums", fuse=False, compile=False)
state.set_input(total=np.zeros(4, np.float32))
state.run(x=np.ones(4, np.float32))
runs = [module.run_async(x=i * X) for i in range(4)]
import ray
pid = ray.get(cluster.fleet.member("node1").actor.pid.remote())
fault(f"lose {pid}")
runs += [module.run_async(x=i * X) for i in range(4, 8)]
found["after the loss"] = max(wrong(run, i) for i, run in enumerate(runs))
found["state"] = lost(lambda: state.run(x=np.ones(4, np.float32)))
cluster.close()
print("FOUND " + json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    if why := why_not():
        pytest.skip(why)
    with TwoNodes(tmp_path_factory.mktemp("nodes") / "nodes") as made:
        yield made


def test_a_graph_over_two_machines_outlives_a_cut_link_and_a_lost_machine(nodes, tmp_path, packed_library):
    script = tmp_path / "graph.py"
    script.write_text(GRAPH)
    log = tmp_path / "graph.err"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with log.open("w") as errors:
        command = [sys.executable, str(script), nodes.address, packed_library, json.dumps(ADD_ONE)]
        process = nodes.first(command, **pipes, stderr=errors)

    def until(word: str) -> str:
        for line in process.stdout:
            if line.startswith(word):
                return line.removeprefix(word)
        pytest.fail(f"it ended before {word!r}: {log.read_text()}")

    for word, act in (
        ("pause", lambda: nodes.pause_second(True)),
        ("go on", lambda: nodes.pause_second(False)),
        ("cut", lambda: nodes.cut(True)),
        ("whole", lambda: (time.sleep(3), nodes.cut(False))),
        ("lose", nodes.kill_second),
    ):
        said = until(word)
        if said.strip():
            ours = int(said) in nodes.second()
        act()
        process.stdin.write("\n")
        process.stdin.flush()
    found = json.loads(until("FOUND "))
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert (found["nodes"], found["device"]) == (["node0", "node1"], "node1/cpu:0")
    assert found["rpc"] == [1, 2, 3, 4]
    assert found["tls"]
    assert all(found["tls"])
    assert found["error"] < 1e-5
    worker, cause, requests, text, seconds = found["silent"]
    assert "node1" in worker
    assert "node1" in text
    assert cause
    assert requests == ["short#1"]
    assert seconds < 6
    assert found["after the pause"] < 1e-5
    assert found["after the cut"] < 1e-5
    assert found["after the loss"] < 1e-5
    assert ours, "the worker of node1 was on the first machine"
    worker, cause, requests, text, _ = found["state"]
    assert (worker, requests) == ("node1", ["sums#1"])
    assert cause
    assert "state 'total'" in text
    nodes.start_second()


def test_faults_of_the_second_machine_lose_nothing(nodes, tmp_path):
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 3
    np.save(tmp_path / "w.npy", w)
    builder = gr.GraphBuilder()
    x = builder.input("x", (2, 8))
    builder.output(builder.op("tanh", builder.op("matmul", x, builder.param("w", w))))
    gr.build_bundle({"main": builder}, "cpu:0", tmp_path / "net.bundle", compile=False)
    log = tmp_path / "serve.log"
    command = [sys.executable, "-m", "graph_runtime.cli", "serve", f"m={tmp_path / 'net.bundle'}"]
    command += ["--replicas", "2", "--threads", "1", "--port", "0", "--address", nodes.address]
    server = nodes.first(command, log=log)
    port = int(wait_for(lambda: re.search(r"serving on http://[\d.]+:(\d+)", log.read_text()), log)[1])
    wait_for(lambda: second_replicas(nodes), log)
    time.sleep(2)  # in which it opens its bundle
    out = tmp_path / "client.out"
    url = f"http://127.0.0.1:{port}/v2/models/m/infer"
    client = nodes.first([sys.executable, "-c", CLIENT, url, "15", str(tmp_path / "w.npy")], log=out)
    time.sleep(2)
    nodes.cut(True)
    time.sleep(5)
    nodes.cut(False)
    time.sleep(2)
    nodes.fill_disk()
    for pid in second_replicas(nodes):
        os.kill(pid, signal.SIGKILL)
    time.sleep(2)
    nodes.end_second()
    assert client.wait(60) == 0, out.read_text()
    found = json.loads(out.read_text().splitlines()[-1])
    assert found["wrong"] == []
    assert found["answers"] > 20
    assert found["longest"] < 30
    server.send_signal(signal.SIGINT)
    assert server.wait(60) == 0, log.read_text()


def second_replicas(nodes: TwoNodes) -> list[int]:
    found = []
    for pid in nodes.second():
        with contextlib.suppress(OSError):
            if b"ServeReplica" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def wait_for(what, log: Path, seconds: float = 90):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)
    return found
