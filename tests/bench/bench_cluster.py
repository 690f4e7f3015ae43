"""What serving costs, as JSON lines: beside Ray Serve's empty deployment, and beside processes without Ray.

    python tests/bench/bench_cluster.py [--seconds 5] [--replicas 2] [--model FILE.onnx] [--faults SECONDS]

Needs the extra ``cluster`` and a C compiler. overhead: ms of one request after the other over HTTP, of the
smallest model here and of an empty deployment over Ray's own proxy, alternating; of a batch to a replica by
its connection, of an empty actor call of Ray. throughput: images a second of three convolutions, or an ONNX
file with an input x of one image, by N replicas under 16 clients, and by N processes that are pinned to a
core each and run alone, in batches of 8 and one by one, in turns. The clients are http_load.c, on the same
cores: what they take is in the line, and what Ray's processes take. cpu_ratio: processor seconds of an
image in the pinned processes by those of all processes that serve it, the clients left out, and without
those of Ray. idle_cores: what all take while no client asks, which counts for more where other work
leaves less images a second. bound_with_clients: what two replicas could reach of the pinned processes where
clients, server and Ray take from their cores, if an image cost them no more than those; share_of_bound: what
they reach of that, by processor time; replicas_ratio: with cores of their own. The first pixel: a model that
does nothing with an image, so all is overhead.
memory: of 1, 2 and 4 replicas, MiB that the system says are theirs (Rss), their shares (Pss), and the part of
the 64 MiB of parameters in each. faults: cluster_faults.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cluster_faults
import numpy as np
from machine import machine
from served import IMAGE, Load, Process, build, build_images, serve

import graph_runtime as gr
from graph_runtime.artifacts.door import open_model
from graph_runtime.base.options import Options

SIZE, LAYERS = 2048, 4  # 64 MiB of weights
CLIENTS = 16
IDLE = 5.0  # seconds in which no client asks
EMPTY = """
import ray, signal, sys, time
from ray import serve
from starlette.responses import Response
ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
@serve.deployment
class Empty:
    async def __call__(self, request):
        return Response(await request.body())  # which has a Content-Length
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
serve.run(Empty.bind())
print("serving on", flush=True)
signal.pause()
"""


def overhead(folder: Path, load: Load, number: int) -> None:
    """One request after the other; then a batch to a replica beside Ray's empty call."""
    bundle, port = build(folder / "small.bundle", (1,), 16, 1), 18741
    found: dict[str, list[dict]] = {"serve": [], "empty Ray Serve": []}
    with serve(bundle, folder, 1) as ours, Process(["-c", EMPTY, str(port)], folder, port):
        requests = {"serve": load.request((1, 16)), "empty Ray Serve": load.request((1, 16), "/")}
        for _ in range(number):
            for (name, request), at in zip(requests.items(), (ours.port, port), strict=True):
                found[name].append(load.run(at, 1, 1.0, request))
    for name, runs in found.items():
        p50 = [run["p50_ms"] for run in runs]
        line = {"bench": "overhead", "what": f"HTTP, {name}", "least_p50_ms": min(p50), "p50_ms": sorted(p50)}
        print(json.dumps({**line, "errors": sum(run["errors"] for run in runs)}), flush=True)
    calls(bundle, 200 * number)


def calls(bundle: Path, number: int) -> None:
    """ms of a batch to a replica in another process and back, and of Ray's empty actor call, alternating."""

    from graph_runtime.cluster.batcher import RowBatch
    from graph_runtime.cluster.dispatcher import Dispatcher
    from graph_runtime.cluster.ray import rays
    from graph_runtime.cluster.runner import Runner, ServedSource
    from graph_runtime.cluster.transport.shared_memory import SharedMemory

    ray = rays.join(cores=1)
    runner = Runner(ServedSource(str(bundle), threads=1))
    batch = RowBatch(("a",), 1, 1, ({"x": np.zeros((1, 16), np.float32)},))

    @ray.remote
    class Empty:
        def call(self) -> None:
            pass

    async def both() -> dict[str, list[float]]:
        dispatcher = Dispatcher(SharedMemory.where_possible(1 << 20))
        await dispatcher.open()
        workers = dispatcher.workers("m")
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_replica, args=(dispatcher.door, str(bundle)), daemon=True)
        process.start()
        await workers.first()
        actor = Empty.remote()
        await actor.call.remote()
        times: dict[str, list[float]] = {
            "in this process": [],
            "by its connection": [],
            "Ray's empty call": [],
        }
        for at in range(number + 50):
            begin = time.perf_counter()
            runner.run(batch)
            middle = time.perf_counter()
            answered = asyncio.get_running_loop().create_future()
            workers.start(batch, answered.set_result)
            await answered
            end = time.perf_counter()
            await actor.call.remote()
            if at >= 50:
                row = (middle - begin, end - middle, time.perf_counter() - end)
                for name, took in zip(times, row, strict=True):
                    times[name].append(1e3 * took)
        process.kill()
        await dispatcher.close()
        return times

    for name, took in asyncio.run(both()).items():
        quartiles = statistics.quantiles(took, n=4)
        line = {
            "bench": "overhead",
            "what": f"a run {name}",
            "least_ms": min(took),
            "quartiles_ms": quartiles,
        }
        print(json.dumps(line), flush=True)
    rays.leave()


def _replica(door, bundle: str) -> None:
    from graph_runtime.cluster.replica import Replica
    from graph_runtime.cluster.runner import Runner, ServedSource

    Replica(Runner(ServedSource(bundle, threads=1)), door, "m")
    threading.Event().wait()


def alone(bundle: str, core: int, rows: int, seconds: float, made: multiprocessing.Queue) -> None:
    """Rows that a process does which is pinned to a core, a second; and seconds of a core for one."""
    os.sched_setaffinity(0, {core})
    module = gr.load(bundle, program=f"b{rows}", threads=1)
    x = np.random.default_rng(0).random((rows, *IMAGE), np.float32)
    module.run(x=x)
    count, begin, used = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() < begin + seconds:
        module.run(x=x)
        module.get_output(0).numpy()
        count += rows
    made.put((count / (time.perf_counter() - begin), (time.process_time() - used) / count))


def run_alone(bundle: Path, replicas: int, rows: int, seconds: float) -> tuple[float, float]:
    """Rows a second of all, and seconds of a core for one."""
    context = multiprocessing.get_context("spawn")
    made: multiprocessing.Queue = context.Queue()
    cores = sorted(os.sched_getaffinity(0))
    tasks = [
        context.Process(target=alone, args=(str(bundle), cores[at % len(cores)], rows, seconds, made))
        for at in range(replicas)
    ]
    for task in tasks:
        task.start()
    found = [made.get() for _ in tasks]
    for task in tasks:
        task.join()
    return sum(rate for rate, _ in found), statistics.mean(used for _, used in found)


def build_model(model: Path | None, path: Path, sizes: tuple[int, ...]) -> Path:
    if model is None:
        return build_images(path, sizes)
    programs = {f"b{size}": open_model(model, Options(batch=size)) for size in sizes}
    return gr.build_bundle(programs, "cpu:0", path, fuse=True)


def build_pixel(path: Path) -> Path:
    builder = gr.GraphBuilder()
    x = builder.input("x", (1, *IMAGE))
    builder.output(builder.op("slice", x, axes=[1, 2, 3], starts=[0, 0, 0], ends=[1, 1, 1]))
    return gr.build_bundle({"b1": builder}, "cpu:0", path)


def throughput(folder: Path, load: Load, model: Path | None, replicas: int, seconds: float) -> None:
    kinds = [("the first pixel", build_pixel(folder / "pixel.bundle"), 1)]
    for name, sizes in (("batches of 8", (1, 8)), ("one by one", (1,))):
        kinds.append((name, build_model(model, folder / f"{len(sizes)}.bundle", sizes), sizes[-1]))
    for name, bundle, rows in kinds:
        request = load.request((1, *IMAGE))
        with serve(bundle, folder, replicas) as server:
            load.run(server.port, CLIENTS, 2.0, request)
            for _ in range(3):
                _throughput(name, server, load, request, bundle, rows, replicas, seconds)


def _throughput(
    name: str,
    server: Process,
    load: Load,
    request: Path,
    bundle: Path,
    rows: int,
    replicas: int,
    seconds: float,
) -> None:
    """One turn: the pinned processes, and the server."""
    time.sleep(2)  # in which the last requests end
    idle = _taken(server, lambda: time.sleep(IDLE))[1]
    rate, each = run_alone(bundle, replicas, rows, seconds)
    found, took = _taken(server, lambda: load.run(server.port, CLIENTS, seconds, request))
    answers, clients = found["answers"], found.pop("cpu_seconds")
    served = answers / found["seconds"]
    cores = len(os.sched_getaffinity(0))
    line = {"bench": "throughput", "what": name, "replicas": replicas, "rows_per_s": served}
    line |= {"pinned_rows_per_s": rate, "ratio": served / rate}
    line["ratio_beside_clients"] = line["ratio"] / (1 - clients / found["seconds"] / cores)
    line["cpu_ratio"] = each * answers / sum(took.values())
    line["cpu_ratio_without_ray"] = each * answers / (took["replicas"] + took["server"])
    # on cores that clients, server and Ray take from, too, replicas that cost no more than a pinned process
    others = clients + took["server"] + took["ray"]
    line["bound_with_clients"] = each * answers / (each * answers + others)
    line["share_of_bound"] = (each * answers + others) / (took["replicas"] + others)
    line["replicas_ratio"] = each * answers / took["replicas"]
    line |= {"pinned_ms_of_a_core": 1e3 * each, "clients_ms": 1e3 * clients / answers}
    line |= {f"{kind}_ms": 1e3 * used / answers for kind, used in took.items()}
    line["idle_cores"] = {kind: round(used / IDLE, 4) for kind, used in idle.items()}
    print(json.dumps({**line, "p99_ms": found["p99_ms"], "errors": found["errors"]}), flush=True)


def _taken(server: Process, during: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What came of something, and the processor seconds of the server's processes meanwhile."""
    before = server.processor_seconds()
    found = during()
    return found, {kind: used - before[kind] for kind, used in server.processor_seconds().items()}


def memory(folder: Path, load: Load) -> None:
    bundle = build(folder / "large.bundle", (1,), SIZE, LAYERS)
    for replicas in (1, 2, 4):
        with serve(bundle, folder, replicas) as server:
            load.run(server.port, 8, 2.0, load.request((1, SIZE)))
            rows = [_memory(pid) for pid in server.replicas()]
        line = {"bench": "memory", "replicas": replicas}
        print(json.dumps(line | {key: [row[key] for row in rows] for key in rows[0]}), flush=True)


def _memory(pid: int) -> dict[str, float]:
    """MiB of a process, and of the parameters in it."""
    text = Path(f"/proc/{pid}/smaps").read_text()
    mapped = "".join(re.findall(r"params\.bin\n(.*?)(?=^[0-9a-f]+-|\Z)", text, re.M | re.S))
    found = {}
    for name, part in (("", text), ("parameters_", mapped)):
        for key in ("Rss", "Pss", "Private_Dirty"):
            kib = sum(map(int, re.findall(rf"^{key}: +(\d+)", part, re.M)))
            found[f"{name}{key.lower()}_mib"] = round(kib / 1024, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--faults", type=float, default=30, help="seconds of kills; 300 is the long form")
    parser.add_argument("--only", choices=("overhead", "throughput", "memory", "faults"))
    asked = parser.parse_args()
    print(json.dumps({"bench": "cluster", **machine("ray", "uvloop")}), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder, load = Path(name), Load(Path(name))
        if asked.only in (None, "overhead"):
            overhead(folder, load, 5)
        if asked.only in (None, "throughput"):
            throughput(folder, load, asked.model, asked.replicas, asked.seconds)
        if asked.only in (None, "memory"):
            memory(folder, load)
        if asked.only in (None, "faults"):
            cluster_faults.run_all(folder, load, asked.replicas, asked.faults)


if __name__ == "__main__":
    main()
