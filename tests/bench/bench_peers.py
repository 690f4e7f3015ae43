"""Latency of ONNX models here and in other runtimes, in one run, as JSON lines.

    python tests/bench/bench_peers.py --models DIR [--names mlp,resnet50,...] [--threads 1,2] [--seconds 20]
        [--peers onnxruntime,openvino] [--format bf16] [--clock cpu]
    python tests/bench/bench_peers.py --zoo DIR ...      every NAME.onnx of DIR, and a line that sums them up

DIR has NAME.onnx beside NAME.npz, whose arrays in_<input> are what is run. Each runtime and number of threads
is a process of its own, pinned before its libraries load: 1 thread to the first core, n to the first n. They
take short turns, so that what disturbs the machine disturbs all of them. A turn is runs one after the other,
the first of them not timed, while the other processes are stopped: threads that spin for work after a run (in
ONNX Runtime for 20 ms) would else take a core from the process that comes next. The clock is the wall's, or
with --clock cpu the processor time of all threads of a process: what one thread takes on a machine that
others use, too. For more threads it is no latency.

Every line has the machine: CPU family and model, instruction set, load at that time, versions. A line of a
model has the median and the least ms of each runtime, our ratios to the others (of medians, of least, and
the 95 % interval of the mean ratio of turns next to each other), and how far our outputs are from the first
peer's, relative to its greatest value. The last line of a zoo has the median and the worst of the ratios to
the fastest peer. With --format bf16 we store weights in bf16 (``formats={"cpu": "bf16"}``), OpenVINO computes
in it, and ONNX Runtime, which has no arithmetic in bf16, in float32; ``error`` has how far each is from it
then. A peer that is not installed is left out; a model that a runtime refuses is a line that says
so.
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
from machine import machine

NAMES = "mlp,mobilenetv2,resnet50,bert,gpt2step"
OURS = "graph_runtime"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
TURN = 0.02  # seconds of a turn, or one run


# **************** one runtime in a process ****************


def _ours(
    model: Path, inputs: dict[str, np.ndarray], threads: int, format: str
) -> Callable[[], list[np.ndarray]]:
    from graph_runtime.codegen.build import cached_library

    from graph_runtime.artifacts.prepare import prepare
    from graph_runtime.binding import core
    from graph_runtime.run.factory import create, set_constants
    from graph_runtime.run.library import load_library

    core.pool_set_threads(threads)
    prepared = prepare(model, ["cpu:0"], formats={"cpu": format})
    built = cached_library([prepared.plan])
    module = create(prepared.plan, [load_library(built)] if built else None)
    set_constants(module, prepared.model.constants)
    count = module.get_num_outputs()

    def run() -> list[np.ndarray]:
        module.run(**inputs)
        return [module.get_output(i).numpy() for i in range(count)]

    return run


def _onnxruntime(
    model: Path, inputs: dict[str, np.ndarray], threads: int, format: str
) -> Callable[[], list[np.ndarray]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def _openvino(
    model: Path, inputs: dict[str, np.ndarray], threads: int, format: str
) -> Callable[[], list[np.ndarray]]:
    import openvino

    options = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": format,
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


def _work(runtime: str, model: Path, threads: int, format: str, clock: Callable[[], float]) -> None:
    """Answer each line of stdin: "run" with the seconds of each run of a turn, a path with the outputs
    written there."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    with np.load(model.with_suffix(".npz")) as file:
        inputs = {key.removeprefix("in_"): file[key] for key in file.files if key.startswith("in_")}
    run = MAKERS[runtime](model, inputs, threads, format)
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
    """A process that runs one model in one runtime. Raises RuntimeError where it does not take the model."""

    def __init__(self, runtime: str, model: Path, threads: int, format: str, clock: str):
        self.runtime, self.turns = runtime, list[list[float]]()
        command = [
            sys.executable,
            __file__,
            "--work",
            runtime,
            "--models",
            str(model),
            "--threads",
            str(threads),
            "--format",
            format,
            "--clock",
            clock,
        ]
        cores = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        if self.process.stdout.readline().strip() != "ready":
            said = self.process.communicate()[1].strip().splitlines() or ["no word"]
            raise RuntimeError(f"{runtime}: {said[-1][:300]}")
        self.process.send_signal(signal.SIGSTOP)

    @property
    def seconds(self) -> list[float]:
        """Of every run."""
        return [each for turn in self.turns for each in turn]

    def ask(self, line: str) -> str:
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def time(self) -> None:
        self.turns.append(json.loads(self.ask("run")))

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


def compare(
    model: Path,
    peers: list[str],
    threads: int,
    seconds: float,
    scratch: Path,
    format: str = "f32",
    clock: str = "wall",
) -> dict:
    """One line of the result."""
    line = {"model": model.stem, "threads": threads, "format": format, "clock": clock}
    workers, refused = [], {}
    try:
        for runtime in (OURS, *peers):
            try:
                workers.append(Worker(runtime, model, threads, format, clock))
            except RuntimeError as error:
                refused[runtime] = str(error)
        if refused:
            line["refused"] = refused
        if OURS in refused:
            return line
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(workers[0].turns) < 3:
            for worker in workers:
                worker.time()
        scratch.mkdir(parents=True, exist_ok=True)
        results = [w.outputs(scratch / f"{os.getpid()}_{i}.npz") for i, w in enumerate(workers)]
    finally:
        for worker in workers:
            worker.close()
    line["runs"] = len(workers[0].seconds)
    for worker in workers:
        line[worker.runtime] = {
            "median_ms": round(statistics.median(worker.seconds) * 1e3, 4),
            "least_ms": round(min(worker.seconds) * 1e3, 4),
        }
    for worker in workers[1:]:
        line[f"ratio_to_{worker.runtime}"] = _ratios(line, workers[0], worker)
    if len(workers) > 1:
        line["greatest_difference"] = max(map(_difference, *results[:2]), default=0.0)
        if format != "f32" and workers[1].runtime == "onnxruntime":
            line["error"] = {
                worker.runtime: max(map(_difference, result, results[1]), default=0.0)
                for worker, result in zip(workers, results, strict=True)
                if worker is not workers[1]
            }
        line["ratio_to_fastest"] = max(line[f"ratio_to_{w.runtime}"]["least_ms"] for w in workers[1:])
    return line


def _ratios(line: dict, ours: Worker, theirs: Worker) -> dict[str, object]:
    """Ours to theirs: of medians, of least, and the interval of the mean ratio of neighbouring turns."""
    pairs = [min(a) / min(b) for a, b in zip(ours.turns, theirs.turns, strict=True)]
    mean, half = statistics.fmean(pairs), 1.96 * statistics.stdev(pairs) / len(pairs) ** 0.5
    keys = ("median_ms", "least_ms")
    made = {key: round(line[OURS][key] / line[theirs.runtime][key], 3) for key in keys}
    return made | {"turns_95": [round(mean - half, 3), round(mean + half, 3)]}


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Relative to the greatest value of theirs; 0 of what is no number."""
    if not theirs.size or not np.issubdtype(theirs.dtype, np.number):
        return 0.0
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def summed(lines: list[dict]) -> dict:
    """The last line of a zoo, by number of threads."""
    made = {}
    for threads in sorted({line["threads"] for line in lines}):
        of = sorted(
            (line["ratio_to_fastest"], line["model"])
            for line in lines
            if line["threads"] == threads and "ratio_to_fastest" in line
        )
        if of:
            made[threads] = {
                "models": len(of),
                "median": statistics.median(ratio for ratio, _ in of),
                "above_1.15": [[name, ratio] for ratio, name in of if ratio > 1.15][::-1],
            }
    return {"zoo": made}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path)
    parser.add_argument("--zoo", type=Path)
    parser.add_argument("--names", default="")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--peers", default="onnxruntime,openvino")
    parser.add_argument("--format", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--scratch", type=Path, default=Path("/tmp"))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        _work(given.work, given.models, int(given.threads), given.format, CLOCKS[given.clock])
        return
    if (given.models is None) == (given.zoo is None):
        parser.error("one of --models and --zoo")
    folder = given.models or given.zoo
    named = given.names or ("" if given.zoo else NAMES)
    names = named.split(",") if named else sorted(p.stem for p in folder.glob("*.onnx"))
    peers = [peer for peer in given.peers.split(",") if peer and find_spec(peer)]
    packages = ("graph-runtime", "numpy", *peers)
    print(json.dumps({"machine": machine(*packages)}), flush=True)
    lines = []
    for name in names:
        for threads in map(int, given.threads.split(",")):
            line = compare(
                folder / f"{name}.onnx",
                peers,
                threads,
                given.seconds,
                given.scratch,
                given.format,
                given.clock,
            )
            line["machine"] = machine(*packages)
            lines.append(line)
            print(json.dumps(line), flush=True)
    if given.zoo:
        print(json.dumps({**summed(lines), "machine": machine(*packages)}), flush=True)


if __name__ == "__main__":
    main()
