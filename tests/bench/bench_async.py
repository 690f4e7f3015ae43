"""Asynchronous execution, as JSON lines, each beside its bound from the same run.

    python tests/bench/bench_async.py [--runs 100] [--stage-us 1000]

handoff     one step of a queue to the next of another, both busy; and from submit to the first step when the
            workers sleep. Microseconds.
pipeline    a chain of 8 stages on two devices, --runs of it in flight; a stage sleeps, so that the cores do
            not bound it. The bound: the slower queue always busy.
copies      a copy in and a computation in every run; the bound: the longer of both, always busy.
submit      what one submission costs the caller: an op of eager mode, a run of a session. Microseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from chains import graph_json

import graph_runtime as gr
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.binding.programs.program import ARG, SLOT, STEP, Kernel, arg_record
from graph_runtime.ir.graph import TensorType
from graph_runtime.run.device_handles import DeviceHandle, open_device
from graph_runtime.run.queues.buffer import Buffer
from graph_runtime.run.queues.run import Run
from graph_runtime.run.queues.template import COMPUTE, COPY_IN, Template, one_kernel

SOURCE = r"""
#include <time.h>
#include "gr_abi.h"
/* attrs: nanoseconds */
int32_t stage(const gr_call *call) {
  struct timespec t = {call->attrs[0] / 1000000000, call->attrs[0] % 1000000000};
  return nanosleep(&t, 0);
}
/* attrs: address of an int64: when it was called */
int32_t stamp(const gr_call *call) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  *(int64_t *)call->attrs[0] = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  return 0;
}
"""
Queue = tuple[DeviceHandle, int]


def kernels(folder: Path) -> tuple[int, int]:
    """Addresses of stage and stamp."""
    include = Path(__file__).resolve().parents[2] / "native" / "include"
    (folder / "k.c").write_text(SOURCE)
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", folder / "k.c", "-o", folder / "k.so"], check=True
    )
    library = core.library_open(folder / "k.so")
    return core.library_symbol(library, "stage"), core.library_symbol(library, "stamp")


def chain(queues: Sequence[Queue], fn: int, words: np.ndarray) -> Template:
    """Steps one after another, each on its queue, each waiting for the one before. ``words`` [steps]."""
    lanes = list(dict.fromkeys(queues))
    steps = np.zeros(len(queues), STEP)
    steps["fn"], steps["attrs"] = fn, words.ctypes.data + 8 * np.arange(len(queues))
    steps["env"] = [core.address_of(handle.env) for handle, _ in queues]
    steps["lane"] = [lanes.index(queue) for queue in queues]
    steps["num_waits"][1:] = [a != b for a, b in pairwise(queues)]
    steps["first_wait"] = np.maximum(np.arange(len(queues)) - 1, 0)
    return Template(
        steps,
        np.zeros(0, ARG),
        np.zeros(0, np.int32),
        np.arange(len(queues)),
        lanes,
        np.zeros(0, SLOT),
        owners=(words,),
    )


def submit(template: Template) -> Run:
    return Run(template.submit(core.ffi.new("gr_buffer *[]", 1)))


def seconds_of(template: Template, runs: int) -> float:
    """From the first submission to the end of the last, all in flight."""
    submit(template).wait()
    begin = time.perf_counter()
    flying = [submit(template) for _ in range(runs)]
    for run in flying:
        run.wait()
    return time.perf_counter() - begin


def handoff(stamp: int, queues: Sequence[Queue]) -> dict:
    steps = 2000
    times = np.zeros(steps, np.int64)
    words = times.ctypes.data + 8 * np.arange(steps)
    template = chain([queues[i % 2] for i in range(steps)], stamp, words)
    busy, idle = [], []
    for _ in range(9):
        submit(template).wait()
        busy += np.diff(times).tolist()
    for _ in range(15):
        time.sleep(0.005)
        begin = time.monotonic_ns()
        submit(template).wait()
        idle.append(times[0] - begin)
    return {
        "bench": "handoff",
        "us": statistics.median(busy) / 1e3,
        "least_us": min(busy) / 1e3,
        "p90_us": float(np.percentile(busy, 90)) / 1e3,
        "wanted_us": 3,
        "idle_us": statistics.median(idle) / 1e3,
    }


def pipeline(stage: int, queues: Sequence[Queue], runs: int, stage_ns: int) -> list[dict]:
    rows, words = [], np.full(8, stage_ns, np.int64)
    one = seconds_of(chain([queues[0]] * 4, stage, words[:4]), runs)  # one queue, always busy
    for name, order in (("halves", [0] * 4 + [1] * 4), ("alternating", [0, 1] * 4)):
        took = seconds_of(chain([queues[i] for i in order], stage, words), runs)
        rows.append(
            {
                "bench": "pipeline",
                "order": name,
                "runs": runs,
                "stage_us": stage_ns / 1e3,
                "s": took,
                "bound_s": one,
                "of_bound": one / took,
                "wanted": 0.9,
            }
        )
    return rows


def copies(stage: int, handle: DeviceHandle, runs: int, stage_ns: int) -> list[dict]:
    rows, copy_in, compute = [], (handle, COPY_IN), (handle, COMPUTE)
    for factor in (0.5, 1.0, 2.0):
        words = np.array([int(stage_ns * factor), stage_ns], np.int64)
        alone = [
            seconds_of(chain([queue], stage, words[i : i + 1]), runs)
            for i, queue in enumerate((copy_in, compute))
        ]
        took = seconds_of(chain([copy_in, compute], stage, words), runs)
        rows.append(
            {
                "bench": "copies",
                "copy_of_compute": factor,
                "runs": runs,
                "s": took,
                "bound_s": max(alone),
                "of_bound": max(alone) / took,
                "wanted": 0.9,
            }
        )
    return rows


def submissions() -> list[dict]:
    handle, type_ = open_device(gr.cpu(0)), TensorType("float32", (16,))
    args = np.array([arg_record(type_, Layout("host", "row_major", "f32"), (16,))] * 3)
    kernel = Kernel("add", core.generic_kernels()["cpu/add/f32"])
    template = one_kernel(handle, kernel, args, np.array([16], np.int64), 0, 64)
    a = Buffer.alloc(handle, 0, 64)

    def op() -> None:
        Buffer(handle, 0, 64, template.call(a.pointer, a.pointer))

    session = gr.create(graph_json("chain", 3), None).session
    session.set_input(0, np.zeros(16, np.float32))
    session.set_input(1, np.zeros(16, np.float32))
    rows = []
    for name, call, count in (("op", op, 2000), ("session", session.submit, 400)):
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            for _ in range(count):
                call()
            times.append((time.perf_counter() - begin) / count * 1e6)
        rows.append({"bench": "submit", "what": name, "us": statistics.median(times), "least_us": min(times)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--stage-us", type=int, default=1000)
    options = parser.parse_args()
    handles = [open_device(device) for device in (gr.cpu(0), gr.cpu(1), gr.tt(0))]
    with tempfile.TemporaryDirectory() as folder:
        stage, stamp = kernels(Path(folder))
        queues = [(handles[0], COMPUTE), (handles[1], COMPUTE)]
        rows = [
            handoff(stamp, queues),
            *pipeline(stage, queues, options.runs, options.stage_us * 1000),
            *copies(stage, handles[2], options.runs, options.stage_us * 1000),
            *submissions(),
        ]
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
