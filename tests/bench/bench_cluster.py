"""What serving costs, as JSON lines: beside Ray Serve's empty deployment, and beside processes without Ray.

    python tests/bench/bench_cluster.py [--seconds 5] [--replicas 2] [--faults SECONDS]

Needs the extra ``cluster``. overhead: ms of one request after the other over HTTP, of the smallest model here
and of an empty deployment over Ray's own proxy, alternating; quartiles. throughput: images a second of three
convolutions by N replicas under 16 clients, and by N processes that are pinned to a core each and run alone,
in batches of 8 and one by one. memory: KiB of the parameters, 64 MiB, in the memory of each replica, and its
part of what all share. faults: a replica is killed every 2 s under load: answers, losses, wrong ones, the
longest waits.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from machine import machine

import graph_runtime as gr

SIZE, LAYERS = 2048, 4  # 64 MiB of weights
IMAGE, CLIENTS = (3, 224, 224), 16
INFER = "/v2/models/m/infer"
EMPTY = """
import ray, signal, sys, time
from ray import serve
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
@serve.deployment
class Empty:
    async def __call__(self, request):
        return await request.body()
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
serve.run(Empty.bind())
print("serving on", flush=True)
signal.pause()
"""


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
        while not (found := re.search(r"serving on(?: http://127.0.0.1:(\d+))?", self.log.read_text())):
            if self.process.poll() is not None:
                sys.exit(self.log.read_text())
            time.sleep(0.2)
        self.port = port or int(found[1])

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def replicas(self) -> list[int]:
        rows = [line.split(None, 2) for line in os.popen("ps -wweo pid,ppid,args").read().splitlines()[1:]]
        own = str(self.process.pid)
        raylets = {pid for pid, parent, args in rows if parent == own and "/raylet " in args}
        return [int(pid) for pid, parent, args in rows if parent in raylets and "ServeReplica:" in args]


def serve(bundle: Path, folder: Path, replicas: int) -> Process:
    command = ["-m", "graph_runtime.cli", "serve", f"m={bundle}", "--replicas", str(replicas), "--port", "0"]
    made = Process([*command, "--threads", "1"], folder)
    while len(made.replicas()) < replicas:
        time.sleep(0.5)
    return made


class Client:
    """Posts one body again and again."""

    def __init__(self, port: int, path: str, shape: tuple[int, ...]):
        array = np.random.default_rng(0).random(shape, np.float32)
        tensor = {"name": "x", "shape": list(shape), "datatype": "FP32"}
        tensor["parameters"] = {"binary_data_size": array.nbytes}
        text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        self.body, self.path = text + array.tobytes(), path
        self.headers = {"Inference-Header-Content-Length": str(len(text))}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)

    def ask(self) -> bytes:
        self.connection.request("POST", self.path, self.body, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {text[:200]!r}")
        return text


def overhead(folder: Path, number: int) -> None:
    bundle, port = build(folder / "small.bundle", (1,), 16, 1), 18741
    empty_command = ["-c", EMPTY, str(port)]
    with serve(bundle, folder, 1) as ours, Process(empty_command, folder, port) as empty:
        clients = {
            "serve": Client(ours.port, INFER, (1, 16)),
            "empty Ray Serve": Client(empty.port, "/", (1, 16)),
        }
        times: dict[str, list[float]] = {name: [] for name in clients}
        for at in range(number + 50):
            for name, client in clients.items():
                begin = time.perf_counter()
                client.ask()
                if at >= 50:
                    times[name].append((time.perf_counter() - begin) * 1e3)
    for name, found in times.items():
        quartiles = statistics.quantiles(found, n=4)
        line = {"bench": "overhead", "what": name, "least_ms": min(found), "quartiles_ms": quartiles}
        print(json.dumps(line), flush=True)


def alone(bundle: str, core: int, rows: int, seconds: float, made: multiprocessing.Queue) -> None:
    """Rows that a process does which is pinned to a core."""
    os.sched_setaffinity(0, {core})
    module = gr.load(bundle, program=f"b{rows}", threads=1)
    x = np.random.default_rng(0).random((rows, *IMAGE), np.float32)
    module.run(x=x)
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        module.run(x=x)
        module.get_output(0).numpy()
        count += rows
    made.put(count)


def run_alone(bundle: Path, replicas: int, rows: int, seconds: float) -> float:
    context = multiprocessing.get_context("spawn")
    made: multiprocessing.Queue = context.Queue()
    cores = sorted(os.sched_getaffinity(0))
    tasks = [
        context.Process(target=alone, args=(str(bundle), cores[at % len(cores)], rows, seconds, made))
        for at in range(replicas)
    ]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    return sum(made.get() for _ in tasks) / seconds


def load(
    port: int, shape: tuple[int, ...], seconds: float, during=lambda: None
) -> tuple[int, list[float], list[str]]:
    """(answers, their seconds, errors) of all clients."""
    times: list[float] = []
    errors: list[str] = []
    end = time.perf_counter() + seconds

    def work() -> None:
        client = Client(port, INFER, shape)
        first = client.ask()
        while time.perf_counter() < end:
            begin = time.perf_counter()
            try:
                if not close(client.ask(), first):
                    errors.append("another answer")
            except Exception as error:
                errors.append(repr(error))
            times.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    while time.perf_counter() < end:
        during()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    return len(times), times, errors


def close(text: bytes, other: bytes) -> bool:
    """Whether the outputs are equal, but for what programs of other sizes add in another order."""
    a, b = (np.frombuffer(one[one.index(b"}]}") + 3 :], np.float32) for one in (text, other))
    return len(a) > 0 and bool(np.allclose(a, b, 1e-4, 1e-6))


def throughput(folder: Path, replicas: int, seconds: float) -> None:
    batched = build_images(folder / "batched.bundle", (1, 8))
    single = build_images(folder / "single.bundle", (1,))
    for name, bundle, rows, size in (("batches of 8", batched, 1, 8), ("one by one", single, 1, 1)):
        before = run_alone(bundle, replicas, size, seconds)
        with serve(bundle, folder, replicas) as server:
            load(server.port, (rows, *IMAGE), 1.0)
            answers, times, errors = load(server.port, (rows, *IMAGE), seconds)
        after = run_alone(bundle, replicas, size, seconds)
        line = {
            "bench": "throughput",
            "what": name,
            "replicas": replicas,
            "rows_per_s": answers * rows / seconds,
        }
        line |= {"pinned_processes": [before, after], "ratio": line["rows_per_s"] / max(before, after)}
        print(
            json.dumps({**line, "p99_ms": 1e3 * np.quantile(times, 0.99), "errors": errors[:3]}), flush=True
        )


def memory(folder: Path, replicas: int) -> None:
    with serve(build(folder / "large.bundle", (1,), SIZE, LAYERS), folder, replicas) as server:
        load(server.port, (1, SIZE), 1.0)
        found = server.replicas()
        _print_memory(found)


def _print_memory(replicas: list[int]) -> None:
    for pid in replicas:
        text = Path(f"/proc/{pid}/smaps").read_text()
        mapped = re.findall(r"params\.bin\n(.*?)(?=^[0-9a-f]+-|\Z)", text, re.M | re.S)
        sizes = {"Rss": 0, "Pss": 0, "Private_Dirty": 0}
        for block in mapped:
            for key in sizes:
                sizes[key] += int(re.search(rf"^{key}: +(\d+)", block, re.M)[1])
        print(json.dumps({"bench": "memory", "what": "parameters of a replica, KiB", **sizes}), flush=True)


def faults(folder: Path, replicas: int, seconds: float) -> None:
    rng, killed, last = np.random.default_rng(0), 0, time.perf_counter()
    with serve(build(folder / "faults.bundle", (1, 8), SIZE, LAYERS), folder, replicas) as server:

        def kill() -> None:
            nonlocal killed, last
            if time.perf_counter() - last > 2 and (found := server.replicas()):
                os.kill(int(rng.choice(found)), signal.SIGKILL)
                killed, last = killed + 1, time.perf_counter()

        answers, times, errors = load(server.port, (1, SIZE), seconds, kill)
    line = {"bench": "faults", "seconds": seconds, "killed": killed, "answers": answers, "errors": errors[:3]}
    waits = {"p50_ms": 1e3 * np.quantile(times, 0.5), "p99_ms": 1e3 * np.quantile(times, 0.99)}
    print(json.dumps({**line, **waits, "longest_ms": 1e3 * max(times), "lost": len(errors)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--faults", type=float, default=30)
    parser.add_argument("--only", choices=("overhead", "throughput", "memory", "faults"))
    asked = parser.parse_args()
    print(json.dumps({"bench": "cluster", **machine("ray", "uvicorn")}), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.only in (None, "overhead"):
            overhead(folder, 500)
        if asked.only in (None, "throughput"):
            throughput(folder, asked.replicas, asked.seconds)
        if asked.only in (None, "memory"):
            memory(folder, asked.replicas)
        if asked.only in (None, "faults"):
            faults(folder, asked.replicas, asked.faults)


if __name__ == "__main__":
    main()
