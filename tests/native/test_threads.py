"""A fault in a thread of ours reaches the handlers that are there, so that faulthandler tells of it.

A subprocess each, because a fault ends it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

SOURCE = """
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "gr_abi.h"

static int *volatile nowhere = (int *)64;      /* UBSan would tell of NULL itself */

static int32_t fault(const char *how) {
  if (*how == 'a') abort();
  *nowhere = 1;
  return 0;
}
/* the caller waits for a worker, which has the other index */
static int32_t share(void *how, int64_t index) {
  (void)index;
  if (gettid() != getpid()) return fault(how);
  for (int i = 0; i < 3000; ++i) usleep(10000);
  return 0;
}
int32_t null_on_queue(const gr_call *call) { (void)call; return fault("null"); }
int32_t abort_on_queue(const gr_call *call) { (void)call; return fault("abort"); }
int32_t null_on_pool(const gr_call *call) { return call->env->parallel_for(call->env, 2, share, "null"); }
int32_t abort_on_pool(const gr_call *call) { return call->env->parallel_for(call->env, 2, share, "abort"); }
"""

START = """
import faulthandler, os, sys
from pathlib import Path
import numpy as np
import graph_runtime as gr
from graph_runtime.binding import core
from graph_runtime.binding.programs import program

def module(op, shape):
    builder = gr.GraphBuilder()
    builder.output(builder.op(op, builder.input("x", shape)))
    return gr.create(builder, None, "cpu:0")
"""

FAULT = (
    START
    + """
real, opened = program.built_in_kernel, core.library_open(sys.argv[1])
kernel = program.Kernel(sys.argv[2], core.library_symbol(opened, sys.argv[2]))
program.built_in_kernel = lambda func, *rest: kernel if func.op == "exp" else real(func, *rest)
one, x = module("exp", (4,)), np.ones(4, np.float32)
faulthandler.enable()
if sys.argv[2].endswith("queue"):
    one.run_async(x=x).wait()
else:
    one.run(x=x)
"""
)

MASKS = (
    START
    + """
tasks = lambda: set(os.listdir("/proc/self/task"))
before, x = tasks(), np.ones((1024, 1024), np.float32)
one = module("exp", x.shape)
one.run(x=x)
one.run_async(x=x).wait()
for task in tasks() - before:
    status = Path("/proc/self/task", task, "status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk")))
"""
)


def run(script: str, *args: str) -> subprocess.CompletedProcess:
    # the sanitizers' own handlers would turn the signal into an exit code
    quiet = {name: os.environ.get(name, "") + ":handle_segv=0" for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}
    env = {**os.environ, **quiet, "GR_NUM_THREADS": "2"}
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *args], text=True, timeout=60, capture_output=True, env=env
    )


@pytest.mark.parametrize("thread", ["queue", "pool"])
@pytest.mark.parametrize(
    ("kernel", "number", "said"),
    [("null", signal.SIGSEGV, "Segmentation fault"), ("abort", signal.SIGABRT, "Aborted")],
)
def test_a_fault_on_a_worker_is_told_by_the_handler_that_is_there(compile_c, thread, kernel, number, said):
    done = run(FAULT, str(compile_c(SOURCE, "-D_GNU_SOURCE")), f"{kernel}_on_{thread}")
    assert done.returncode == -number, (done.stdout, done.stderr)
    assert f"Fatal Python error: {said}" in done.stderr


@pytest.mark.skipif(os.environ.get("GR_BUILD") == "tsan", reason="libtsan's own thread blocks all signals")
def test_workers_leave_signals_to_the_application_but_for_faults():
    done = run(MASKS)
    assert done.returncode == 0, done.stderr
    masks = [int(line, 16) for line in done.stdout.split()]
    assert len(masks) >= 2
    faults = {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGSYS,
    }
    never = {signal.SIGKILL, signal.SIGSTOP}
    for mask in masks:
        assert {n for n in signal.Signals if not mask >> (n - 1) & 1} == faults | never
