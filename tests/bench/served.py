"""Servers for the benches of serving: bundles, ``graph-runtime serve`` in a process, the load of http_load.c,
and what processes take of processors and memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import graph_runtime as gr

IMAGE = (3, 224, 224)
_TICKS = os.sysconf("SC_CLK_TCK")


def build_images(path: Path, sizes: tuple[int, ...]) -> Path:
    """Convolutions of images float32 [n, 3, 224, 224]: 0.36 GFLOP each, about as MobileNetV2."""
    rng = np.random.default_rng(0)
    layers = [(64, 3, 4), (128, 64, 2), (128, 128, 1)]  # channels, of how many, stride
    weights = [rng.standard_normal((m, n, 3, 3)).astype(np.float32) / (3 * n) for m, n, _ in layers]

    def program(rows: int) -> gr.GraphBuilder:
        builder = gr.GraphBuilder()
        x = builder.input("x", (rows, *IMAGE))
        for at, (weight, (_, _, stride)) in enumerate(zip(weights, layers, strict=True)):
            w = builder.param(f"w{at}", weight)
            x = builder.op("relu", builder.op("conv2d", x, w, strides=[stride] * 2, pads=[1, 1, 1, 1]))
        builder.output(builder.op("mean", x, axes=[2, 3], keepdims=False))
        return builder

    return gr.build_bundle({f"b{size}": program(size) for size in sizes}, "cpu:0", path, fuse=True)


def build(path: Path, sizes: tuple[int, ...], width: int, layers: int) -> Path:
    """A chain of dense layers, float32 [n, width]."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((width, width)).astype(np.float32) / width for _ in range(layers)]

    def program(rows: int) -> gr.GraphBuilder:
        builder = gr.GraphBuilder()
        x = builder.input("x", (rows, width))
        for at, weight in enumerate(weights):
            x = builder.op("relu", builder.op("matmul", x, builder.param(f"w{at}", weight)))
        builder.output(x)
        return builder

    return gr.build_bundle({f"b{size}": program(size) for size in sizes}, "cpu:0", path, fuse=True)


class Process:
    """A command that says when it serves. ``port``: where."""

    def __init__(self, command: list[str], folder: Path, port: int | None = None):
        self.log = folder / f"{id(self)}.log"
        environ = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, *command], env=environ, stdout=log, stderr=log)
        self.port = wait_for_port(self.process, self.log) if port is None else port
        if port is not None:
            wait_for_port(self.process, self.log)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:  # Ray's own end waits for its processes
            self.process.kill()
            self.process.wait()

    def family(self) -> dict[int, str]:
        """{pid: command} of it and all that it has started."""
        rows = [line.split(None, 2) for line in os.popen("ps -wweo pid,ppid,args").read().splitlines()[1:]]
        found = {self.process.pid: "serve"}
        while more := {
            int(pid): args for pid, parent, args in rows if int(parent) in found and int(pid) not in found
        }:
            found |= more
        return found

    def replicas(self) -> list[int]:
        return [pid for pid, args in self.family().items() if "ServeReplica:" in args]

    def processor_seconds(self) -> dict[str, float]:
        """What its processes have taken so far: replicas, the server's own, Ray's."""
        found = {"replicas": 0.0, "server": 0.0, "ray": 0.0}
        for pid, args in self.family().items():
            kind = "replicas" if "ServeReplica:" in args else "server" if pid == self.process.pid else "ray"
            found[kind] += processor_seconds(pid)
        return found


def processor_seconds(pid: int) -> float:
    try:
        row = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(row[11]) + int(row[12])) / _TICKS


def wait_for_port(process: subprocess.Popen, log: Path) -> int:
    while not (found := re.search(r"serving on(?: http://[\w.]+:(\d+))?", log.read_text())):
        if process.poll() is not None:
            sys.exit(log.read_text())
        time.sleep(0.2)
    return int(found[1] or 0)


def serve(bundle: Path, folder: Path, replicas: int, *more: str) -> Process:
    """A server on this machine, with all its replicas."""
    command = ["-m", "graph_runtime.cli", "serve", f"m={bundle}", "--replicas", str(replicas), "--port", "0"]
    made = Process([*command, "--threads", "1", *more], folder)
    while len(made.replicas()) < replicas:
        time.sleep(0.5)
    time.sleep(3)  # in which the last one opens its bundle
    return made


class Load:
    """http_load.c, compiled into ``folder``."""

    def __init__(self, folder: Path):
        self.program = folder / "http_load"
        source = Path(__file__).with_name("http_load.c")
        command = [os.environ.get("CC", "cc"), "-O2", "-D_GNU_SOURCE", "-o", str(self.program), str(source)]
        subprocess.run([*command, "-lpthread"], check=True)

    def request(self, shape: tuple[int, ...], path: str = "/v2/models/m/infer") -> Path:
        """A file with the bytes of a request of random float32."""
        array = np.random.default_rng(0).random(shape, np.float32)
        tensor = {"name": "x", "shape": list(shape), "datatype": "FP32"}
        tensor["parameters"] = {"binary_data_size": array.nbytes}
        text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text) + array.nbytes}\r\n"
        head += f"Inference-Header-Content-Length: {len(text)}\r\n\r\n"
        file = self.program.with_name(f"{'x'.join(map(str, shape))}{path.replace('/', '_')}.request")
        file.write_bytes(head.encode() + text + array.tobytes())
        return file

    def command(self, port: int, clients: int, seconds: float, request: Path, *more: str) -> list[str]:
        return [str(self.program), str(port), str(clients), str(seconds), str(request), *more]

    def run(self, port: int, clients: int, seconds: float, request: Path, *more: str) -> dict:
        """What it measured."""
        command = self.command(port, clients, seconds, request, *more)
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
