"""Graphs over the nodes of a Ray on this machine: workers are processes, and are killed and paused as such.

Needs the extra ``cluster``.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(170),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra cluster is not installed"),
]

SCRIPT = """
import json, os, signal, sys, time
import numpy as np
import graph_runtime as gr
from graph_runtime.ir.model import Model

rng = np.random.default_rng(0)
X = rng.standard_normal((8, 64)).astype(np.float32)
W = [rng.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(4)]
found = {}


def layers():
    builder = gr.GraphBuilder()
    value = builder.input("x", (8, 64))
    for i, weight in enumerate(W):
        value = builder.op("tanh", builder.op("matmul", value, builder.param(f"w{i}", weight)))
    builder.output(value)
    return Model.from_builder(builder)


def expected(x):
    for weight in W:
        x = np.tanh(x @ weight)
    return x


def wrong(value, x):
    return float(np.abs(value - expected(x)).max())


def pid_of(cluster, node):
    import ray
    return ray.get(cluster.fleet.member(node).actor.pid.remote())


with gr.cluster.connect("local", nodes=2, deadline=60) as cluster:
    found["nodes"], found["devices"] = cluster.nodes, cluster.devices
    found["links"] = len(cluster.interconnect.links)
    second = {"*": "node0/cpu:0", "matmul_[23]": "node1/tt:0", "tanh_[23]": "node1/tt:0"}
    module = gr.create(layers(), devices=["node0/cpu:0", "node1/tt:0"], place=second, fuse=False)
    module.run(x=X)
    found["mixed"] = wrong(module.get_output(0).numpy(), X)
    second = {name: device.replace("tt", "cpu") for name, device in second.items()}
    module = gr.create(layers(), devices=["node0/cpu:0", "node1/cpu:0"], place=second, fuse=False)
    path = gr.build_bundle(layers(), "cpu:0", sys.argv[1] + "/net.bundle")
    whole = gr.load(path, devices=["node1/cpu:0"])
    whole.run(x=X)
    found["whole"] = wrong(whole.get_output(0).numpy(), X)

    killed, done, error, longest = 0, 0, 0.0, 0.0
    for turn in range(6):  # kill -9 under load
        runs = [(module.run_async(x=X * i), i) for i in range(8)]
        if turn % 2:
            os.kill(pid_of(cluster, f"node{killed % 2}"), signal.SIGKILL)
            killed += 1
        start = time.monotonic()
        for run, i in runs:
            error = max(error, wrong(run.outputs[0].numpy(), X * i))
            done += 1
        longest = max(longest, time.monotonic() - start)
    found |= {"killed": killed, "done": done, "error": error, "longest": longest}

    short = cluster.create(layers(), ["node0/cpu:0", "node1/cpu:0"], place=second, fuse=False, deadline=2)
    short.run(x=X)
    pid = pid_of(cluster, "node1")
    os.kill(pid, signal.SIGSTOP)  # neither dead nor alive
    start = time.monotonic()
    try:
        short.run(x=X)
        found["paused"] = "no error"
    except gr.WorkerLost as lost:
        found["paused"] = [lost.worker, lost.cause, list(lost.requests), time.monotonic() - start]
    os.kill(pid, signal.SIGCONT)
    found["resumed"] = wrong(gr.gather([short.run_async(x=X).outputs[0]])[0], X)
    found["token"] = os.environ["RAY_AUTH_TOKEN"]
    module.run_async(x=X)
    print("FOUND " + json.dumps(found), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("machines")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environ |= {"GR_TRUST_DIR": str(folder / "trust"), "GR_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], env=environ, capture_output=True, text=True, timeout=160
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(lines[0].removeprefix("FOUND "))
    return said


def test_nodes_are_listed_with_their_devices_and_links(found: dict[str, Any]) -> None:
    assert found["nodes"] == ["node0", "node1"]
    assert found["devices"] == ["node0/cpu:0", "node0/tt:0", "node1/cpu:0", "node1/tt:0"]
    assert found["links"] == 6


def test_graphs_over_nodes_compute_what_one_machine_does(found: dict[str, Any]) -> None:
    assert found["whole"] < 1e-5
    assert found["mixed"] < 0.02  # a tt device's numbers


def test_killed_workers_lose_no_run(found: dict[str, Any]) -> None:
    assert (found["killed"], found["done"]) == (3, 48)
    assert found["error"] < 1e-5
    assert found["longest"] < 60


def test_a_paused_worker_is_named_at_the_deadline(found: dict[str, Any]) -> None:
    worker, cause, requests, seconds = found["paused"]
    assert "node1" in worker
    assert cause
    assert len(requests) == 1
    assert seconds < 6
    assert found["resumed"] < 1e-5


def processes_of(token: str) -> list[str]:
    """Those that have this token of Ray's in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and token.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
    return found


def test_a_caller_that_is_killed_leaves_no_process(found: dict[str, Any]) -> None:
    """Its workers, and the Ray that it started, end by themselves; two agents of Ray's do a minute later."""
    end = time.monotonic() + 60
    while left := [name for name in processes_of(found["token"]) if "Agent" not in name]:
        assert time.monotonic() < end, left
        time.sleep(0.5)
