"""gr_program_run on handmade programs: order, failure, interruption, busy sessions, TVM's packed ABI."""

from __future__ import annotations

import platform
import threading

import numpy as np
import pytest

from graph_runtime.base.errors import GraphRuntimeError, KernelError, SessionBusyError
from graph_runtime.base.machine import devices, isa
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.binding.programs.program import CALL, INSTR
from graph_runtime.run.device_handles import DeviceHandle

SOURCE = """
#include <time.h>
#include "gr_abi.h"

/* attrs: address of a log, address of its length, what to write */
int32_t append(const gr_call *call) {
  int64_t *log = (int64_t *)call->attrs[0], *length = (int64_t *)call->attrs[1];
  log[(*length)++] = call->attrs[2];
  return 0;
}
int32_t fail_with_text(const gr_call *call) { return call->env->set_error(call->env, "the disk is on fire"); }
int32_t fail_silently(const gr_call *call) { (void)call; return 77; }
int32_t say_interrupted(const gr_call *call) { (void)call; return GR_INTERRUPTED; }
int32_t sleep_1ms(const gr_call *call) {
  struct timespec t = {0, 1000000};
  (void)call;
  return nanosleep(&t, 0);
}
/* attrs: a flag it raises, a flag it waits for */
int32_t wait_for_flag(const gr_call *call) {
  __atomic_store_n((int64_t *)call->attrs[0], 1, __ATOMIC_SEQ_CST);
  while (!__atomic_load_n((int64_t *)call->attrs[1], __ATOMIC_SEQ_CST)) sleep_1ms(call);
  return 0;
}
/* TVM's packed ABI: adds one to the first value, fails if told more than one argument */
int packed(int64_t *values, int *codes, int n, int64_t *ret, int *ret_code, void *resource) {
  (void)resource;
  *ret = 1;
  *ret_code = 0;
  if (n != 1 || codes[0] != 7) return -1;
  values[0] += 1;
  return 0;
}
"""


@pytest.fixture(scope="module")
def c(load_c):
    return load_c(SOURCE)


class Script:
    """A program made by hand: add(kernel address, attribute words), then run."""

    def __init__(self, env=None):
        self.log, self.length = np.full(20_000, -1, np.int64), np.zeros(1, np.int64)
        self.env, self.rows, self.words, self.keep = core.address_of(env or core.ffi.NULL), [], [], []

    def add(self, fn: int, words: tuple[int, ...] = ()):
        self.words.append(np.array(words, np.int64))
        self.rows.append((fn, (1, 0, 0, self.words[-1].ctypes.data, 0, self.env)))
        return self

    def note(self, c, value: int):
        return self.add(c("append"), (self.log.ctypes.data, self.length.ctypes.data, value))

    def build(self):
        self.instrs = np.array(self.rows, INSTR)
        self.program = core.program_create(self.instrs.ctypes.data, len(self.rows))
        return self

    def run(self, first=0, last=None, budget_ns=0) -> tuple[int, int]:
        last = len(self.rows) if last is None else last
        span = core.ffi.new("gr_span *", {"first": first, "last": last, "budget_ns": budget_ns})
        return core.lib.gr_program_run(self.program, span), span.stopped_at

    @property
    def written(self) -> list[int]:
        return self.log[: self.length[0]].tolist()


def test_records_are_those_of_c():
    assert INSTR.itemsize == core.ffi.sizeof("gr_instr")
    assert CALL.itemsize == core.ffi.sizeof("gr_call")
    for name in CALL.names:
        assert CALL.fields[name][1] == core.ffi.offsetof("gr_call", name)


def test_runs_in_order(c):
    script = Script()
    for i in range(100):
        script.note(c, i)
    assert script.build().run() == (0, 100)
    assert script.written == list(range(100))
    assert script.run(first=40, last=43) == (0, 43)
    assert script.written[100:] == [40, 41, 42]


def test_ten_thousand_instructions_that_do_nothing():
    script = Script()
    for _ in range(10_000):
        script.add(core.null_kernel())
    assert script.build().run(budget_ns=10**12) == (0, 10_000)


def test_an_empty_program():
    assert Script().build().run() == (0, 0)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        ("fail_with_text", "the disk is on fire"),
        ("fail_silently", "the kernel returned 77 and gave no text"),
        ("say_interrupted", "the kernel returned 6 and gave no text"),
    ],
)
def test_a_failure_says_where_and_the_program_runs_again(c, tt, kernel, text):
    script = Script(tt.handle.env)
    for i in range(5):
        script.note(c, i)
    script.add(c(kernel)).note(c, 99).build()
    for _ in range(2):
        status, at = script.run(budget_ns=10**12)
        assert at == 5
        with pytest.raises(KernelError) as caught:
            core.check(status)
        assert str(caught.value) == text
    assert script.run(last=5) == (0, 5)
    assert script.written == [0, 1, 2, 3, 4] * 3


def test_a_silent_failure_does_not_show_an_older_text(c, tt):
    Script(tt.handle.env).add(c("fail_with_text")).build().run()
    assert core.last_error() == "the disk is on fire"
    status, _ = Script(tt.handle.env).add(c("fail_silently")).build().run()
    assert status == core.lib.GR_ERR_KERNEL
    assert "disk" not in core.last_error()


def test_interrupted_and_resumed(c):
    script = Script()
    for i in range(100):
        script.note(c, i).add(c("sleep_1ms"))
    script.build()
    stops, at = [], 0
    while True:
        status, at = script.run(first=at, budget_ns=10_000_000)
        stops.append(at)
        if status != core.lib.GR_INTERRUPTED:
            break
    assert status == 0
    assert len(stops) > 2
    assert stops == sorted(set(stops))
    assert script.written == list(range(100))


def test_a_second_thread_is_told_that_the_session_is_busy(c):
    raised, go = np.zeros(1, np.int64), np.zeros(1, np.int64)
    script = Script().add(c("wait_for_flag"), (raised.ctypes.data, go.ctypes.data)).build()
    results = []
    thread = threading.Thread(target=lambda: results.append(script.run()))
    thread.start()
    while not raised[0]:
        pass
    status, at = script.run()
    go[0] = 1
    thread.join()
    with pytest.raises(SessionBusyError, match="another thread"):
        core.check(status)
    assert at == 0
    assert results == [(0, 1)]
    assert script.run() == (0, 1)


def test_many_programs_in_many_threads(c):
    def work(scripts):
        for script in scripts:
            for _ in range(50):
                assert script.run(budget_ns=10**9) == (0, 20)

    groups = [[Script() for _ in range(3)] for _ in range(4)]
    for script in (s for group in groups for s in group):
        for i in range(20):
            script.note(c, i)
        script.build()
    threads = [threading.Thread(target=work, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(s.written == list(range(20)) * 50 for group in groups for s in group)


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (0, 3), (2, 1), (2**62, 2**63 - 1)])
def test_ranges_outside_of_the_program(c, first, last):
    script = Script().note(c, 0).note(c, 1).build()
    status, _ = script.run(first, last)
    with pytest.raises(GraphRuntimeError, match="are not in a program of 2"):
        core.check(status)
    assert script.written == []


def test_programs_that_cannot_be():
    with pytest.raises(GraphRuntimeError, match="instruction 0 has no kernel"):
        Script().add(0).build()
    script = Script().add(core.null_kernel())
    script.rows[0] = (script.rows[0][0], (9, *script.rows[0][1][1:]))
    with pytest.raises(GraphRuntimeError, match="kernel ABI 9, this core has ABI 1"):
        script.build()


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize(("nargs", "status"), [(1, 0), (2, 1)])
def test_packed_functions(c, nargs, status, guarded):
    values, codes = np.array([41, 0], np.int64), np.array([7, 7], np.int32)
    record = core.ffi.new(
        "gr_packed_call *",
        {
            "fn": core.ffi.cast("void *", c("packed")),
            "values": core.ffi.cast("void *", values.ctypes.data),
            "codes": core.ffi.cast("int32_t *", codes.ctypes.data),
            "nargs": nargs,
        },
    )
    script = Script()
    script.rows.append((core.packed_kernel(), (1, nargs, 0, core.address_of(record), 0, 0)))
    with DeviceHandle(devices.tt()) as handle:
        handle.set_guard(guarded)
        assert script.build().run() == (status, 1 - status)
    assert values[0] == 42 - status
    if status:
        assert core.last_error() == "the packed function returned -1"


def test_copy_is_a_kernel(tt):
    array = np.random.default_rng(0).standard_normal((33, 65)).astype(np.float32)
    out = np.zeros_like(array)
    device = tt.tensor("float32", array.shape, Layout("dram", "tile", "f32"))
    script, envs, tensors = Script(), [], (core.host_arg(array), device, core.host_arg(out))
    for src, dst, src_env, dst_env in [
        (tensors[0], tensors[1], core.ffi.NULL, tt.handle.env),
        (tensors[1], tensors[2], tt.handle.env, core.ffi.NULL),
    ]:
        args = core.ffi.new("gr_arg[]", [src.pointer[0], dst.pointer[0]])
        envs += [args, core.ffi.new("gr_copy_envs *", {"src": src_env, "dst": dst_env})]
        script.rows.append(
            (core.copy_kernel(), (1, 2, core.address_of(args), core.address_of(envs[-1]), 0, 0))
        )
    assert script.build().run() == (0, 2)
    np.testing.assert_array_equal(out, array)


def test_the_table_of_generic_kernels():
    table = core.generic_kernels()
    assert len(table) == core.lib.gr_generic_count()
    assert all(name.split("/")[0] in ("cpu", "tt") and address for name, address in table.items())
    assert core.lib.gr_generic_name(-1) == core.ffi.NULL
    assert core.lib.gr_generic_fn(len(table)) == core.ffi.NULL
    assert core.lib.gr_generic_plain_fn(-1) == core.ffi.NULL
    plain = core.generic_kernels(plain=True)
    assert plain.keys() == table.keys()
    wanted = {"avx2", "fma", "f16c", "bmi1", "bmi2"}
    has_avx2 = platform.machine() == "x86_64" and wanted.issubset(isa.host_features() or ())
    assert (plain["cpu/add/f32"] != table["cpu/add/f32"]) == has_avx2


def test_a_library_that_is_not_there():
    with pytest.raises(GraphRuntimeError, match=r"cannot open library /nowhere/lib.so: .*No such file"):
        core.library_open("/nowhere/lib.so")
