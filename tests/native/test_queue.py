"""Queues, templates and buffers by hand: order, failures, reuse of memory, closing, threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import DeviceError, GraphRuntimeError, KernelError, RunCancelledError
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.binding.programs.program import ARG, SLOT, STEP, Kernel, arg_record
from graph_runtime.ir.graph import TensorType
from graph_runtime.run.device_handles import DeviceHandle, open_device
from graph_runtime.run.queues.buffer import Buffer
from graph_runtime.run.queues.limbo import sweep
from graph_runtime.run.queues.run import Run
from graph_runtime.run.queues.template import COMPUTE, COPY_IN, COPY_OUT, Template, copy, one_kernel

SOURCE = """
#include <time.h>
#include "gr_abi.h"

/* attrs: address of a log of int64, its length first; what to write; nanoseconds to sleep before */
int32_t note(const gr_call *call) {
  struct timespec t = {0, call->attrs[2]};
  if (call->attrs[2]) nanosleep(&t, 0);
  int64_t *log = (int64_t *)call->attrs[0];
  log[__atomic_add_fetch(log, 1, __ATOMIC_SEQ_CST)] = call->attrs[1];
  return 0;
}
int32_t fail(const gr_call *call) { return call->env->set_error(call->env, "the disk is on fire"); }
/* float32[n]: out = 2 a + b, now and then after a sleep */
int32_t mix(const gr_call *call) {
  static int64_t calls;
  struct timespec t = {0, 100000};
  if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 5 == 0) nanosleep(&t, 0);
  const float *a = (const float *)call->args[0].addr, *b = (const float *)call->args[1].addr;
  float *out = (float *)call->args[2].addr;
  for (int64_t i = 0; i < call->args[0].shape[0]; ++i) out[i] = 2 * a[i] + b[i];
  return 0;
}
"""
TYPE, ROWS = TensorType("float32", (64,)), Layout("host", "row_major", "f32")
Step = tuple[int, int, list[int], Sequence[int]]  # lane, kernel, steps it waits for, attribute words


@pytest.fixture(scope="module")
def c(load_c):
    return load_c(SOURCE)


@pytest.fixture
def two() -> list[DeviceHandle]:
    return [open_device(devices.cpu(i)) for i in range(2)]


def template(lanes, steps: Sequence[Step]) -> Template:
    """Steps without arguments."""
    table, words = np.zeros(len(steps), STEP), np.zeros((len(steps), 4), np.int64)
    waits = []
    for at, (lane, fn, before, attrs) in enumerate(steps):
        words[at, : len(attrs)] = attrs
        table[at]["fn"], table[at]["attrs"] = fn, words[at:].ctypes.data
        table[at]["env"], table[at]["lane"] = core.address_of(lanes[min(lane, len(lanes) - 1)][0].env), lane
        table[at]["first_wait"], table[at]["num_waits"] = len(waits), len(before)
        waits += before
    return Template(
        table,
        np.zeros(0, ARG),
        np.zeros(0, np.int32),
        np.array(waits, np.int64),
        lanes,
        np.zeros(0, SLOT),
        owners=(words,),
    )


def submit(made: Template) -> Run:
    return Run(made.submit(core.ffi.new("gr_buffer *[]", 1)))


# **************** lanes ****************


def test_lanes_go_in_order_and_wait_for_each_other(c, two):
    log = np.zeros(100, np.int64)
    lanes = [(two[0], COMPUTE), (two[1], COMPUTE), (two[1], COPY_IN)]
    steps = [(0, [], 2_000_000), (1, [0], 0), (2, [1], 1_000_000), (0, [2], 0), (1, [3], 0)]
    made = template(
        lanes,
        [(lane, c("note"), before, (log.ctypes.data, at, ns)) for at, (lane, before, ns) in enumerate(steps)],
    )
    for _ in range(20):
        log[:] = 0
        submit(made).wait(10)
        assert log[:6].tolist() == [5, 0, 1, 2, 3, 4]


def test_a_run_that_waits_is_overtaken(c, two):
    log = np.zeros(10, np.int64)
    lanes = [(two[0], COMPUTE), (two[1], COMPUTE)]
    slow = template(
        lanes,
        [(0, c("note"), [], (log.ctypes.data, 1, 30_000_000)), (1, c("note"), [0], (log.ctypes.data, 2, 0))],
    )
    quick = template([lanes[1]], [(0, c("note"), [], (log.ctypes.data, 3, 0))])
    runs = [submit(slow), submit(quick)]
    for run in runs:
        run.wait(10)
    assert log[:4].tolist() == [3, 3, 1, 2]


def test_a_failure_stops_its_lane_and_who_waits_for_it_but_nobody_else(c, two):
    log = np.zeros(10, np.int64)
    lanes = [(two[0], COMPUTE), (two[1], COMPUTE), (two[1], COPY_OUT)]
    steps = [
        (0, "note", []),
        (0, "fail", []),
        (0, "note", []),
        (1, "note", [0]),
        (2, "note", [1]),
        (1, "note", []),
        (1, "note", [4]),
    ]
    run = submit(
        template(
            lanes,
            [
                (lane, c(kernel), before, (log.ctypes.data, at, 0))
                for at, (lane, kernel, before) in enumerate(steps)
            ],
        )
    )
    with pytest.raises(KernelError, match="the disk is on fire") as caught:
        run.wait(10)
    assert caught.value.device == "cpu:0"
    assert sorted(log[1 : 1 + log[0]].tolist()) == [0, 3, 5]


def test_a_template_that_cannot_be_is_refused(c, two):
    lanes = [(two[0], COMPUTE)]
    with pytest.raises(GraphRuntimeError, match="does not come before"):
        template(lanes, [(0, c("fail"), [0], ())])
    with pytest.raises(GraphRuntimeError, match="step 0"):
        template(lanes, [(1, c("fail"), [], ())])
    with pytest.raises(GraphRuntimeError, match="step 0"):
        template(lanes, [(0, 0, [], ())])
    with pytest.raises(GraphRuntimeError, match="role"):
        template([(two[0], 9)], [(0, c("fail"), [], ())])


def test_a_template_without_steps_is_over_at_once():
    assert submit(template([], [])).done()


# **************** buffers ****************


def test_a_buffer_that_was_freed_raises_and_its_memory_comes_back(two):
    buffer = Buffer.alloc(two[0], 0, 54321, "test")
    assert (buffer.ready, buffer.failure, buffer.version) == (True, None, 0)
    addr, number = buffer.addr, buffer.id
    buffer.free()
    for use in (lambda: buffer.addr, lambda: buffer.free(), lambda: buffer.wait(), lambda: buffer.ready):
        with pytest.raises(DeviceError, match="was freed"):
            use()
    buffer.free(force=True)
    again = Buffer.alloc(two[0], 0, 54321, "test")
    assert again.addr == addr
    assert again.id != number


def test_a_call_keeps_the_memory_that_another_thread_frees_meanwhile(two):
    """C uses the gr_buffer * that it was given; Python's Buffer may be gone by then."""
    buffer = Buffer.alloc(two[0], 0, 98765, "test")
    given, addr, number = buffer.live(), buffer.addr, buffer.id
    buffer.free()
    other = Buffer.alloc(two[0], 0, 98765, "test")
    assert other.addr != addr
    assert core.lib.gr_buffer_id(given) == number
    del given
    assert Buffer.alloc(two[0], 0, 98765, "test").addr == addr


def test_borrowed_memory_is_kept_until_the_last_queued_use(two):
    class Owner:
        pass

    import weakref

    owner, data = Owner(), np.arange(64, dtype=np.float32)
    gone = weakref.ref(owner)
    source = Buffer.borrow(two[0], data.ctypes.data, data.nbytes, (owner, data))
    targets = [Buffer.alloc(two[1], 0, data.nbytes) for _ in range(200)]
    for target in targets:
        copy(source, ROWS, target, ROWS, TYPE)
    del source, owner
    targets[-1].wait(10)
    sweep()
    assert gone() is None
    view = np.frombuffer(core.ffi.buffer(core.ffi.cast("char *", targets[-1].addr), data.nbytes), np.float32)
    np.testing.assert_array_equal(view, data)


def mixers(c, handles) -> list[Template]:
    args = np.array([arg_record(TYPE, ROWS, TYPE.shape)] * 3)
    return [
        one_kernel(handle, Kernel("mix", c("mix")), args, np.array(TYPE.shape, np.int64), 0, TYPE.nbytes)
        for handle in handles
    ]


def upload(handle, values: np.ndarray) -> Buffer:
    with Buffer.to_write(handle, 0, values.nbytes, "test") as turn:
        core.ffi.memmove(core.ffi.cast("char *", turn.buffer.addr), values.tobytes(), values.nbytes)
    return turn.buffer


def read(buffer: Buffer) -> np.ndarray:
    buffer.wait(20)
    raw = core.ffi.buffer(core.ffi.cast("char *", buffer.addr), TYPE.nbytes)
    return np.frombuffer(raw, np.float32).copy()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_memory_that_is_dropped_and_used_again_never_holds_two_values(c, two, seed):
    """A random program of ops, copies and the host's writes on two devices; handles are dropped as soon as
    they are not needed, so that nearly every buffer is one that queued work still uses."""
    rng = np.random.default_rng(seed)
    made = mixers(c, two)
    start = rng.standard_normal((2, 64)).astype(np.float32)
    live = [[(upload(handle, row), row)] for handle, row in zip(two, start, strict=True)]
    for _ in range(120):
        side = int(rng.integers(2))
        kind = rng.random()
        if kind < 0.2:
            row = rng.standard_normal(64).astype(np.float32)
            live[side].append((upload(two[side], row), row))
        elif kind < 0.4:
            source, value = live[1 - side][int(rng.integers(len(live[1 - side])))]
            target = Buffer.alloc(two[side], 0, TYPE.nbytes)
            copy(source, ROWS, target, ROWS, TYPE)
            live[side].append((target, value))
        else:
            (a, x), (b, y) = (live[side][int(i)] for i in rng.integers(0, len(live[side]), 2))
            result = Buffer(two[side], 0, TYPE.nbytes, made[side].call(a.pointer, b.pointer))
            with np.errstate(over="ignore", invalid="ignore"):
                live[side].append((result, 2 * x + y))
        if len(live[side]) > 4:
            live[side].pop(int(rng.integers(len(live[side]))))
    for buffer, value in (pair for rows in live for pair in rows):
        np.testing.assert_array_equal(read(buffer), value)


def test_many_threads_submit(c, two):
    made, errors = mixers(c, two), []

    def work(number: int) -> None:
        try:
            x = np.full(64, number, np.float32)
            buffer, zero = upload(two[number % 2], x), upload(two[number % 2], np.zeros(64, np.float32))
            for _ in range(50):
                buffer = Buffer(
                    two[number % 2], 0, TYPE.nbytes, made[number % 2].call(zero.pointer, buffer.pointer)
                )
            np.testing.assert_array_equal(read(buffer), x)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_more_than_a_queue_takes_waits_and_memory_stays_bounded(c, two):
    made = mixers(c, two)[0]
    before = two[0].stats(0).allocated
    buffer = zero = upload(two[0], np.zeros(64, np.float32))
    for _ in range(5000):
        buffer = Buffer(two[0], 0, TYPE.nbytes, made.call(zero.pointer, buffer.pointer))
    assert two[0].stats(0).allocated - before < 100 * 1024
    assert read(buffer)[0] == 0


@pytest.mark.skipif(bool(os.environ.get("GR_BUILD")), reason="sanitizers keep what was freed for a while")
def test_failed_runs_do_not_pile_up_in_a_buffer_that_they_read(c, two):
    args = np.array([arg_record(TYPE, ROWS, TYPE.shape)] * 2)
    made = one_kernel(two[0], Kernel("fail", c("fail")), args, np.array(TYPE.shape, np.int64), 0, TYPE.nbytes)
    source = upload(two[0], np.zeros(64, np.float32))

    def fail(times: int) -> int:
        for _ in range(times):
            made_buffer = Buffer(two[0], 0, TYPE.nbytes, made.call(source.pointer))
        with pytest.raises(KernelError, match="on fire"):
            made_buffer.wait(20)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # how many wait in the queue at a time differs from round to round; what piles up does so in each
    sizes = [fail(3000) for _ in range(5)]
    assert min(b - a for a, b in pairwise(sizes)) < 1 << 20


# **************** closing ****************


def test_closing_a_device_cancels_what_is_queued_and_later_use_says_so(c):
    handle = DeviceHandle(devices.cpu(7))
    log = np.zeros(100, np.int64)
    steps = [(0, c("note"), [], (log.ctypes.data, i, 5_000_000)) for i in range(40)]
    made = template([(handle, COMPUTE)], steps)
    buffer = Buffer.alloc(handle, 0, 64)
    run = submit(made)
    handle.close()
    assert run.done()
    assert isinstance(run.exception(), RunCancelledError)
    assert log[0] < 40
    with pytest.raises(GraphRuntimeError, match="closed"):
        submit(made)
    with pytest.raises(DeviceError, match="closed"):
        Buffer.alloc(handle, 0, 64)
    del buffer
