"""Serve the digit network by three replicas, and send all held-out images at once in many small requests.

    python examples/digits/serve.py        needs the extra: pip install -e '.[cluster]'

The bundle has programs for 1, 8 and 32 images, so waiting requests are run together. Requests are the plain
JSON of the Open Inference Protocol, by Python's own HTTP client. Exits with 1 if fewer than 97 % of the
images are read right, or if a request gets no answer. One replica is killed meanwhile.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from dataset import HERE, held_out
from network import digit_network

import graph_runtime as gr

SIZES, CLIENTS, LEAST = (1, 8, 32), 8, 0.97
_connections = threading.local()


def make_bundle(path: Path) -> Path:
    """A bundle with a program for each batch size; the programs share the parameters."""
    programs = {f"batch{size}": digit_network(size) for size in SIZES}
    return gr.build_bundle(programs, "cpu:0", path, params=HERE / "params.bin")


def start(bundle: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """(a server with three replicas, its host and port), once it accepts requests."""
    command = [sys.executable, "-m", "graph_runtime.cli", "serve", f"digits={bundle}", "--replicas", "3"]
    with log.open("wb") as file:
        server = subprocess.Popen([*command, "--threads", "1", "--port", "0"], stdout=file, stderr=file)
    while not (found := re.search(r"serving on http://(\S+)", log.read_text())):
        if server.poll() is not None:
            sys.exit(log.read_text())
        time.sleep(0.2)
    return server, found[1]


def ask(address: str, images: np.ndarray) -> np.ndarray:
    """The digits read from a request's images [n, 1, 8, 8], int64 [n]."""
    if not hasattr(_connections, "one"):
        _connections.one = http.client.HTTPConnection(address, timeout=90)
    tensor = {
        "name": "image",
        "shape": images.shape,
        "datatype": "FP32",
        "data": images.reshape(-1).tolist(),
    }
    _connections.one.request("POST", "/v2/models/digits/infer", json.dumps({"inputs": [tensor]}))
    answer = _connections.one.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {text.decode()}")
    output = json.loads(text)["outputs"][0]
    return np.array(output["data"]).reshape(output["shape"]).argmax(1)


def replicas_of(address: str) -> int:
    """Number of replicas that answer now."""
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", "/v2/cluster")
    return int(json.loads(connection.getresponse().read())["models"][0]["workers"])


def kill_one(server: int) -> None:
    """Kill a replica of the server, as the system does when memory runs out."""
    rows = [line.split(None, 2) for line in os.popen("ps -wweo pid,ppid,args").read().splitlines()[1:]]
    raylets = {pid for pid, parent, args in rows if parent == str(server) and "/raylet " in args}
    replicas = [int(p) for p, parent, args in rows if parent in raylets and "ServeReplica:digits" in args]
    os.kill(replicas[0], signal.SIGKILL)


def send_all(address: str, server: int) -> tuple[Sequence[np.ndarray], float]:
    """(the answers to the held-out images, sent three per request; the seconds taken). One replica is killed
    meanwhile."""
    images, _ = held_out()
    requests = np.split(images, len(images) // 3)
    begin = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = [pool.submit(ask, address, one) for one in requests]
        answers[len(answers) // 3].result()
        kill_one(server)
        found = [answer.result() for answer in answers]
    return found, time.perf_counter() - begin


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bundle = make_bundle(Path(folder) / "digits.bundle")
        server, address = start(bundle, Path(folder) / "serve.log")
        try:
            while replicas_of(address) < 3:
                time.sleep(0.5)
            found, seconds = send_all(address, server.pid)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    _, labels = held_out()
    right = float((np.concatenate(found) == labels).mean())
    print(f"{len(found)} requests of 3 images in {seconds:.2f} s, one of 3 replicas killed meanwhile")
    print(f"{right:.1%} of {len(labels)} right")
    if right < LEAST:
        sys.exit(1)


if __name__ == "__main__":
    main()
