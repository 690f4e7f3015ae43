"""Guard mode: a kernel that reaches device memory around the rules dies, a clean one does not notice.

A subprocess each, as death is what is looked for. The cheats know the simulator's inside; nothing in gr_abi.h
would let them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from graph_runtime.base import config
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle

SOURCE = """
#include "tt.h"

static volatile uint8_t *kept, sink;

/* a tt kernel within the rules: reads a page, keeps no pointer that it uses later */
int32_t clean(const gr_call *call) {
  gr_core core;
  int32_t status = call->env->core_open(call->env, 0, 4096, &core);
  if (!status) status = call->env->page_read(call->env, &core, call->args, 0, 1, core.l1);
  if (!status) status = call->env->page_write(call->env, &core, call->args, 0, 1, core.l1);
  return status;
}
/* the same, and keeps its circular buffer's address */
int32_t keep_l1(const gr_call *call) {
  gr_core core;
  int32_t status = call->env->core_open(call->env, 0, 4096, &core);
  kept = core.l1;
  return status;
}
/* keeps where the tensor lies in the simulator */
int32_t keep_dram(const gr_call *call) {
  const gr_device *device = call->env->impl;
  kept = gr_tt_of(device)->banks[0].space + call->args[0].addr;
  sink = *kept;                                          /* does not kill: the device's own kernel runs */
  return 0;
}
/* a cpu kernel */
int32_t read_kept(const gr_call *call) { (void)call; sink = *kept; return 0; }
int32_t write_kept(const gr_call *call) { (void)call; *kept = 1; return 0; }
/* a cpu kernel that is given a tt tensor and takes its address for a pointer */
int32_t dereference(const gr_call *call) { sink = *(volatile uint8_t *)call->args[0].addr; return 0; }
"""

RUN = """
import sys
import numpy as np
from graph_runtime.base.machine import devices
from graph_runtime.binding import core
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding.programs.program import INSTR
from graph_runtime.run.device_handles import open_device
tt, cpu = open_device(devices.tt()), open_device(devices.cpu())
arg = core.tensor_arg(tt.alloc(0, 8192, "x"), "float32", (32, 32), Layout("dram", "tile", "f32"))
core.copy(None, core.host_arg(np.zeros((32, 32), np.float32)), tt, arg)
library = core.library_open(sys.argv[1])
rows = []
for word in sys.argv[2:]:
    device, kernel = word.split("/")
    env = {"tt": tt, "cpu": cpu}[device].env
    call = (1, 1, core.address_of(arg.pointer), 0, 0, core.address_of(env))
    rows.append((core.library_symbol(library, kernel), call))
instrs = np.array(rows, INSTR)
span = core.ffi.new("gr_span *", {"last": len(rows)})
core.check(core.lib.gr_program_run(core.program_create(instrs.ctypes.data, len(rows)), span))
out = np.ones((32, 32), np.float32)
core.copy(tt, arg, None, core.host_arg(out))
assert (out == 0).all()
print("alive")
"""


@pytest.fixture(scope="module")
def run(compile_c):
    library = compile_c(SOURCE)

    def in_subprocess(*kernels: str, guard: int = 1) -> subprocess.CompletedProcess:
        # the sanitizers' own handlers would turn the signal into an exit code
        quiet = {
            name: os.environ.get(name, "") + ":handle_segv=0" for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")
        }
        return subprocess.run(
            [sys.executable, "-P", "-c", RUN, str(library), *kernels],
            text=True,
            timeout=60,
            capture_output=True,
            env={**os.environ, **quiet, "GR_GUARD": str(guard)},
        )

    return in_subprocess


@pytest.mark.parametrize("guard", [0, 1])
def test_clean_kernels_do_not_notice(run, guard):
    done = run("tt/clean", "tt/keep_l1", "tt/clean", "tt/clean", guard=guard)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


@pytest.mark.parametrize(
    "kernels",
    [
        ("tt/keep_l1", "cpu/read_kept"),
        ("tt/keep_l1", "cpu/write_kept"),
        ("tt/keep_dram", "cpu/read_kept"),
        ("tt/keep_dram", "tt/clean", "cpu/write_kept"),
        ("cpu/dereference",),
    ],
    ids="+".join,
)
def test_a_cheating_kernel_dies(run, kernels):
    done = run(*kernels)
    assert done.returncode == -signal.SIGSEGV, (done.stdout, done.stderr)
    assert "alive" not in done.stdout


def test_without_guard_the_cheat_would_pass(run):
    """So it is the guard that the tests above see."""
    assert run("tt/keep_dram", "cpu/read_kept", guard=0).stdout == "alive\n"


# **************** host memory that queued work uses ****************

HOST = """
import ctypes, sys
import numpy as np
import graph_runtime as gr
from graph_runtime.base.machine import devices
from graph_runtime.binding import core
from graph_runtime.run.device_handles import open_device
from graph_runtime.run.queues.buffer import Buffer

cpu = open_device(devices.cpu())

def round_it(case):
    if case == "fresh":
        block = Buffer.alloc(cpu, 0, 4096, "the victim")
        addr = block.addr
    elif case == "closed":
        with Buffer.to_write(cpu, 0, 4096, "the victim") as turn:
            ctypes.memset(turn.buffer.addr, 1, 4096)
        addr = turn.buffer.addr
    elif case == "a view":
        tensor = gr.array(np.zeros(1024, np.float32))
        tensor._host_view().base[...] = 1           # not the read-only array, but the memory under it
        return
    elif case == "others open blocks":
        import threading, time
        with Buffer.to_write(cpu, 0, 4096, "the victim") as turn:
            victim, addr = turn.buffer, turn.buffer.addr
        with Buffer.to_write(cpu, 0, 64 << 20, "another") as turn:
            large = turn.buffer
            ctypes.memset(large.addr, 1, 64 << 20)
        def open_and_close():
            while True:                              # most of the time in mprotect, under the guard's lock
                large.writing().close()
        for _ in range(3):
            threading.Thread(target=open_and_close, daemon=True).start()
        time.sleep(0.05)
    elif case == "queued readers":
        with Buffer.to_write(cpu, 0, 64 << 20, "the victim") as turn:
            ctypes.memset(turn.buffer.addr, 1, 64 << 20)
        block, addr = turn.buffer, turn.buffer.addr
        from graph_runtime.ir.graph import TensorType
        from graph_runtime.base.machine.layout import host_layout
        from graph_runtime.run.queues.template import copy
        type_ = TensorType("uint8", (64 << 20,))
        target = Buffer.alloc(cpu, 0, 64 << 20, "the target")
        for _ in range(8):                           # 10 ms each, which a busy machine may take from us
            copy(block, host_layout("uint8"), target, host_layout("uint8"), type_)
        del block, turn                              # it is idle now, and still read
    ctypes.memset(addr, 7, 64)

def rules():
    x = np.arange(4096, dtype=np.float32).reshape(64, 64)
    tensors = gr.scatter([x + i for i in range(40)], "tt:0") + gr.scatter([x + i for i in range(40)], "cpu:0")
    for i, array in enumerate(gr.gather(tensors)):
        assert (array == x + i % 40).all()
    b = gr.GraphBuilder()
    a = b.op("relu", b.input("a", x.shape), device="cpu:0")
    b.output(b.op("add", a, b.input("b", x.shape), device="tt:0"))
    mod = gr.create(b, None, ["cpu:0", "tt:0"])
    mod.set_input("b", x)
    for i in range(5):
        runs = [mod.run_async(a=x + k) for k in range(12)]
        for k, run in enumerate(runs):
            assert (run.wait().outputs[0].numpy() == 2 * x + k).all()
        mod.run(a=x + i)
        assert (mod.get_output(0).numpy() == 2 * x + i).all()
    host = gr.array(x)
    view = np.from_dlpack(host)
    view[...] = 5                                    # a view is open as long as it lives
    assert (host.numpy() == 5).all()
    del view
    host.copy_from(x)
    assert ((host + host).numpy() == 2 * x).all()
    print("alive")

rules() if sys.argv[1] == "rules" else round_it(sys.argv[1])
"""


def on_host(case: str, guard: int = 1, tsan: str = "") -> subprocess.CompletedProcess:
    quiet = {
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0",
        "TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":handle_segv=0" + tsan,
    }
    return subprocess.run(
        [sys.executable, "-P", "-c", HOST, case],
        text=True,
        timeout=120,
        capture_output=True,
        env={**os.environ, **quiet, "GR_GUARD": str(guard)},
    )


@pytest.mark.parametrize("case", ["fresh", "closed", "a view", "queued readers", "others open blocks"])
def test_a_host_write_that_did_not_wait_dies_and_is_named(case):
    done = on_host(case)
    assert done.returncode == -signal.SIGSEGV, (done.stdout, done.stderr)
    holder = "tensor float32[1024]" if case == "a view" else "the victim"
    assert f"in the block of '{holder}'" in done.stderr
    assert "only Buffer.writing() opens a block" in done.stderr
    # Without the guard the write goes through; TSan may see it race the copy that still reads the block.
    assert on_host(case, guard=0, tsan=":report_bugs=0").returncode == 0


@pytest.mark.parametrize("guard", [0, 1])
def test_writes_that_waited_do_not_notice(guard):
    done = on_host("rules", guard)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


@pytest.mark.parametrize("memory", ["dram", "l1"])
def test_fresh_memory_holds_nans(make_tt, memory):
    with config.config(GUARD=1):
        bench = make_tt(banks=4)
    layout = Layout(memory, "tile", "f32")
    arg = bench.tensor("float32", (100, 100), layout)
    assert np.isnan(bench.download(arg, (100, 100), np.float32)).all()
    bench.upload(arg, np.zeros((100, 100), np.float32))
    bench.handle.free(["dram", "l1"].index(memory), arg.pointer.addr)
    assert np.isnan(bench.download(bench.tensor("float32", (100, 100), layout), (100, 100), np.float32)).all()


def test_fresh_host_memory_holds_nans():
    with config.config(GUARD=1), DeviceHandle(devices.cpu()) as handle:
        for size in (64, 4 << 20):
            data = core.ffi.buffer(core.ffi.cast("char *", handle.alloc(0, size, "x")), size)
            assert np.isnan(np.frombuffer(data, np.float32)).all()


def test_guard_can_be_switched(tt):
    arg = tt.tensor("float32", (64, 64), Layout("l1", "tile", "bf16"))
    array = np.arange(4096, dtype=np.float32).reshape(64, 64) % 256
    for on in (True, False, True, True, False):
        tt.handle.set_guard(on)
        tt.upload(arg, array)
        np.testing.assert_array_equal(tt.download(arg, (64, 64), np.float32), array)
