"""Models served on two machines, which are network namespaces: the link is cut, a machine leaves, its disk
is full. Nothing is lost or wrong. The long form is tests/bench/cluster_faults.py."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
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


def test_faults_of_the_second_machine_lose_nothing(tmp_path):
    if why := why_not():
        pytest.skip(why)
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 3
    np.save(tmp_path / "w.npy", w)
    builder = gr.GraphBuilder()
    x = builder.input("x", (2, 8))
    builder.output(builder.op("tanh", builder.op("matmul", x, builder.param("w", w))))
    gr.build_bundle({"main": builder}, "cpu:0", tmp_path / "net.bundle", compile=False)
    with TwoNodes(tmp_path / "nodes") as nodes:
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
