"""Latency of ONNX models here and in other runtimes, in one run, as JSON lines.

    python tests/bench/bench_peers.py --models DIR [--names mlp,resnet50,...] [--threads 1,2] [--seconds 20]
        [--peers onnxruntime,openvino]

DIR has NAME.onnx beside NAME.npz, whose arrays in_<input> are what is run. Each runtime and number of threads
is a process of its own, pinned before its libraries load: 1 thread to the first core, n to the first n. They
take short turns, so that what disturbs the machine disturbs all of them. A turn is runs one after the other,
the first of them not timed, while the other processes are stopped: threads that spin for work after a run (in
ONNX Runtime for 20 ms) would else take a core from the process that comes next. A line has the median and the
least ms of each, our ratios to the others (of medians, and of least), and how far our outputs are from the
first peer's, relative to its greatest value.

A peer that is not installed is left out. With one thread the clock is the thread's own (what a busy machine
takes away does not count), with more the wall's; ``clock`` says which.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

NAMES = "mlp,mobilenetv2,resnet50,bert,gpt2step"
OURS = "graph_runtime"
TURN = 0.02  # seconds of a turn, or one run


# **************** one runtime in a process ****************


def _ours(model: Path, inputs: dict[str, np.ndarray], threads: int) -> Callable[[], list[np.ndarray]]:
    from graph_runtime.codegen.build import cached_library

    from graph_runtime.build.prepare import prepare
    from graph_runtime.run import core
    from graph_runtime.run.factory import create, set_constants
    from graph_runtime.run.library import load_library

    core.pool_set_threads(threads)
    prepared = prepare(model, ["cpu:0"])
    built = cached_library([prepared.plan])
    module = create(prepared.plan, [load_library(built)] if built else None)
    set_constants(module, prepared.model.constants)
    count = module.get_num_outputs()

    def run() -> list[np.ndarray]:
        module.run(**inputs)
        return [module.get_output(i).numpy() for i in range(count)]

    return run


def _onnxruntime(model: Path, inputs: dict[str, np.ndarray], threads: int) -> Callable[[], list[np.ndarray]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def _openvino(model: Path, inputs: dict[str, np.ndarray], threads: int) -> Callable[[], list[np.ndarray]]:
    import openvino

    options = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(str(model)), "CPU", options)
    request = compiled.create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array))

    def run() -> list[np.ndarray]:
        request.infer()
        return [request.get_tensor(output).data for output in compiled.outputs]

    return run


MAKERS = {OURS: _ours, "onnxruntime": _onnxruntime, "openvino": _openvino}


def _work(runtime: str, model: Path, threads: int) -> None:
    """Answer each line of stdin: "run" with the seconds of each run of a turn, a path with the outputs
    written there."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    with np.load(model.with_suffix(".npz")) as file:
        inputs = {key.removeprefix("in_"): file[key] for key in file.files if key.startswith("in_")}
    run = MAKERS[runtime](model, inputs, threads)
    clock = time.thread_time if threads == 1 else time.perf_counter
    for _ in range(3):
        run()
    print("ready", file=answer, flush=True)
    for line in sys.stdin:
        if line.strip() != "run":
            np.savez(line.strip(), *run())
            print("saved", file=answer, flush=True)
            continue
        run()
        seconds, end = [], time.perf_counter() + TURN
        while not seconds or time.perf_counter() < end:
            start = clock()
            run()
            seconds.append(clock() - start)
        print(json.dumps(seconds), file=answer, flush=True)


# **************** all of them in turn ****************


class Worker:
    """A process that runs one model in one runtime."""

    def __init__(self, runtime: str, model: Path, threads: int):
        self.runtime, self.seconds = runtime, []
        command = [
            sys.executable,
            __file__,
            "--work",
            runtime,
            "--models",
            str(model),
            "--threads",
            str(threads),
        ]
        cores = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        self.process.stdout.readline()
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, line: str) -> str:
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def time(self) -> None:
        self.seconds += json.loads(self.ask("run"))

    def outputs(self, path: Path) -> list[np.ndarray]:
        self.ask(str(path))
        with np.load(path) as file:
            found = [file[key] for key in file.files]
        path.unlink()
        return found

    def close(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def compare(model: Path, peers: list[str], threads: int, seconds: float, scratch: Path) -> dict:
    """One line of the result."""
    workers = [Worker(runtime, model, threads) for runtime in (OURS, *peers)]
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(workers[0].seconds) < 3:
            for worker in workers:
                worker.time()
        scratch.mkdir(parents=True, exist_ok=True)
        results = [w.outputs(scratch / f"{os.getpid()}_{i}.npz") for i, w in enumerate(workers[:2])]
    finally:
        for worker in workers:
            worker.close()
    line = {
        "model": model.stem,
        "threads": threads,
        "clock": "thread" if threads == 1 else "wall",
        "runs": len(workers[0].seconds),
    }
    for worker in workers:
        line[worker.runtime] = {
            "median_ms": round(statistics.median(worker.seconds) * 1e3, 4),
            "least_ms": round(min(worker.seconds) * 1e3, 4),
        }
    for peer in peers:
        line[f"ratio_to_{peer}"] = {
            key: round(line[OURS][key] / line[peer][key], 3) for key in ("median_ms", "least_ms")
        }
    if peers:
        line["greatest_difference"] = max(
            float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in zip(*results, strict=True)
        )
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--names", default=NAMES)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--peers", default="onnxruntime,openvino")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp"))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        _work(given.work, given.models, int(given.threads))
        return
    peers = [peer for peer in given.peers.split(",") if peer and find_spec(peer)]
    for name in given.names.split(","):
        for threads in map(int, given.threads.split(",")):
            line = compare(given.models / f"{name}.onnx", peers, threads, given.seconds, given.scratch)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
