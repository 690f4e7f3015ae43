"""Device memory: placement against a model in Python, out-of-memory texts, circular buffers."""

from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from graph_runtime.base.errors import DeviceError, DeviceMemoryError, GraphRuntimeError
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle


def small_device(base: int, top_down: bool) -> devices.Device:
    device = devices.tt()
    dram, l1 = device.descriptor.memories
    change = {"banks": 3, "bank_bytes": 20_000, "base": base, "alignment": 32, "top_down": top_down}
    return devices.Device(
        "tt", 0, dataclasses.replace(device.descriptor, memories=(dataclasses.replace(dram, **change), l1))
    )


class Allocator(RuleBasedStateMachine):
    """A sorted list of (address, extent) is the whole model: first gap in order that is large enough."""

    @initialize(base=st.sampled_from([0, 32, 100, 1024]), top_down=st.booleans(), guard=st.booleans())
    def open(self, base, top_down, guard):
        self.handle = DeviceHandle(small_device(base, top_down))
        self.handle.set_guard(guard)
        self.base, self.top_down = -(-base // 32) * 32, top_down
        self.usable = 20_000 - base
        self.held: dict[int, int] = {}

    def gaps(self) -> list[tuple[int, int]]:
        edges = [(self.base, self.base), *sorted((a, a + n) for a, n in self.held.items()), (20_000, 20_000)]
        return [(end, start) for (_, end), (start, _) in itertools.pairwise(edges)]

    def place(self, extent: int) -> int | None:
        for begin, end in reversed(self.gaps()) if self.top_down else self.gaps():
            if end - begin >= extent:
                return end - extent if self.top_down else begin
        return None

    @rule(extent=st.one_of(st.integers(0, 600), st.integers(0, 21_000)))
    def alloc(self, extent):
        rounded = max(32, -(-extent // 32) * 32)
        wanted = self.place(rounded)
        if wanted is None:
            with pytest.raises(DeviceMemoryError) as caught:
                self.handle.alloc(0, extent, "model")
            size = int(re.search(r"each bank needs to store (\d+) B", str(caught.value))[1])
            assert size in (extent, rounded)
            return
        got = self.handle.alloc(0, extent, "model")
        assert got == wanted
        self.held[got] = rounded

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def free(self, data):
        addr = data.draw(st.sampled_from(sorted(self.held)))
        self.handle.free(0, addr)
        del self.held[addr]

    @rule(addr=st.integers(0, 2**64 - 1))
    def free_nothing(self, addr):
        if addr not in self.held:
            with pytest.raises(GraphRuntimeError, match="nothing is allocated"):
                self.handle.free(0, addr)

    @rule(on=st.booleans())
    def guard(self, on):
        self.handle.set_guard(on)

    @invariant()
    def accounts_agree(self):
        if not hasattr(self, "handle"):
            return
        stats = self.handle.stats(0)
        assert stats.allocations == len(self.held)
        assert stats.allocated == sum(self.held.values())
        assert stats.free == self.usable - stats.allocated
        assert stats.largest_free == max(end - begin for begin, end in self.gaps())

    def teardown(self):
        if hasattr(self, "handle"):
            self.handle.close()


TestAllocator = Allocator.TestCase
TestAllocator.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(
    ("memory", "word", "banks", "usable"),
    [(0, "DRAM", 12, 1073741824 - 1024), (1, "L1", 64, 1499136 - 103712)],
)
def test_out_of_memory_names_sizes_and_holders(tt, memory, word, banks, usable):
    for i in range(7):
        tt.handle.alloc(memory, 1000 * (i + 1), f"holder {i}")
    with pytest.raises(DeviceMemoryError) as caught:
        tt.handle.alloc(memory, usable, "the last straw")
    stats = tt.handle.stats(memory)
    text = str(caught.value)
    rounded = -(-usable // tt.memories[memory].alignment) * tt.memories[memory].alignment
    assert (
        f"Out of Memory: Not enough space to allocate {rounded * banks} B {word} buffer "
        f"across {banks} banks, where each bank needs to store {rounded} B, but bank size is {usable} B "
        f"(allocated: {stats.allocated} B, free: {stats.free} B, "
        f"largest free block: {stats.largest_free} B)"
    ) in text
    assert re.findall(r"holder (\d)", text) == ["6", "5", "4", "3", "2"]
    assert text.endswith("and 2 more")
    assert isinstance(caught.value, MemoryError)
    assert caught.value.device == "tt:0"


def test_sizes_beyond_all_memory_do_not_overflow(tt):
    with pytest.raises(DeviceMemoryError, match=f"allocate {2**64 - 1} B DRAM"):
        tt.handle.alloc(0, 2**64 - 1, "x")


def test_fragmentation_shows_in_the_text(make_tt):
    bench = make_tt(banks=2, bank_bytes=1024 * 100, base=0, alignment=32, top_down=False)
    addresses = [bench.handle.alloc(0, 10_240, str(i)) for i in range(10)]
    for addr in addresses[::2]:
        bench.handle.free(0, addr)
    with pytest.raises(DeviceMemoryError, match=r"free: 51200 B, largest free block: 10240 B"):
        bench.handle.alloc(0, 10_272, "x")
    assert bench.handle.alloc(0, 10_240, "x") == addresses[0]


def test_a_device_takes_the_addresses_that_it_uses(tt):
    """A memory of gigabytes costs what is allocated in it, and gives that back when it is freed."""
    before = mapped()
    with DeviceHandle(devices.tt()) as handle:
        assert mapped() - before < 1 << 20
        banks, at = handle.device.descriptor.memories[0].banks, mapped()
        addr = handle.alloc(0, 1 << 20, "x")
        assert 0 <= mapped() - at - (banks << 20) <= banks * (136 << 10)
        assert handle.stats(0).allocated == 1 << 20
        large = handle.alloc(0, 16 << 20, "y")
        handle.free(0, large)
        handle.free(0, addr)
        assert mapped() - at < 65 << 20  # what stays for the next allocation


def mapped() -> int:
    """Bytes of address space of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * 4096


def test_closed_devices_and_unknown_memories_are_errors(tt):
    with pytest.raises(GraphRuntimeError, match="memories 0 to 1, not 2"):
        tt.handle.alloc(2, 1, "x")
    tt.handle.close()
    with pytest.raises(DeviceError, match="closed"):
        tt.handle.alloc(0, 1, "x")
    tt.handle.free(0, 1024)


CORES = """
#include "gr_abi.h"
int32_t open_core(const gr_env *env, int64_t index, uint64_t bytes, gr_core *core) {
  return env->core_open(env, index, bytes, core);
}
int32_t read_pages(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first, int64_t count,
                   int64_t at) {
  return env->page_read(env, core, arg, first, count, core->l1 + at);
}
int32_t write_pages(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first, int64_t count,
                    int64_t at) {
  return env->page_write(env, core, arg, first, count, core->l1 + at);
}
"""


@pytest.fixture(scope="module")
def cores(load_c):
    symbol = load_c(CORES)
    move = "int32_t (*)(const gr_env *, const gr_core *, const gr_arg *, int64_t, int64_t, int64_t)"
    return (
        symbol("open_core", "int32_t (*)(const gr_env *, int64_t, uint64_t, gr_core *)"),
        symbol("read_pages", move),
        symbol("write_pages", move),
    )


def test_circular_buffers_end_below_l1_tensors(tt, cores):
    open_core, core_ = cores[0], core.ffi.new("gr_core *")
    usable = 1499136 - 103712
    core.check(open_core(tt.handle.env, 63, usable, core_))
    assert (core_.index, core_.l1_bytes, core.address_of(core_.l1) % 64) == (63, usable, 0)
    with pytest.raises(
        DeviceMemoryError, match=r"grow to 1499137 B which is beyond max L1 size of 1499136 B"
    ):
        core.check(open_core(tt.handle.env, 0, usable + 1, core_))
    addr = tt.handle.alloc(1, 4096, "activations")
    assert addr == 1499136 - 4096
    core.check(open_core(tt.handle.env, 0, usable - 4096, core_))
    with pytest.raises(DeviceMemoryError) as caught:
        core.check(open_core(tt.handle.env, 7, usable - 4095, core_))
    assert (
        "Statically allocated circular buffers clash with L1 buffers on core 7 of tt:0. "
        f"L1 buffer allocated at {addr} and static circular buffer region ends at {addr + 1}"
    ) in str(caught.value)
    tt.handle.free(1, addr)
    core.check(open_core(tt.handle.env, 7, usable, core_))
    with pytest.raises(DeviceError, match="core 64 is not one of the 64 cores"):
        core.check(open_core(tt.handle.env, 64, 64, core_))


@pytest.mark.parametrize("which", [1, 2])
def test_page_moves_are_bounds_checked(tt, cores, which):
    move, core_ = cores[which], core.ffi.new("gr_core *")
    arg = tt.tensor("float32", (64, 96), Layout("dram", "tile", "bf16"))  # 6 pages of 2048 B
    core.check(cores[0](tt.handle.env, 0, 8192, core_))
    core.check(move(tt.handle.env, core_, arg.pointer, 2, 4, 0))
    core.check(move(tt.handle.env, core_, arg.pointer, 6, 0, 8192))
    for first, count, at in [
        (0, 7, 0),
        (6, 1, 0),
        (-1, 1, 0),
        (0, -1, 0),
        (2**62, 2**62, 0),
        (0, 4, 1),
        (0, 1, 8192),
        (0, 1, -2048),
        (0, 2**60, 0),
    ]:
        with pytest.raises(DeviceError, match=r"are not in a tensor|do not fit"):
            core.check(move(tt.handle.env, core_, arg.pointer, first, count, at))
    arg.pointer.addr = 1073741824 - 2048 + 32
    with pytest.raises(DeviceError, match="are not in a tensor"):
        core.check(move(tt.handle.env, core_, arg.pointer, 0, 1, 0))


def test_pages_are_interleaved_over_banks(tt, cores):
    arg = tt.tensor(
        "int32", (30, 5), Layout("dram", "row_major", "int32")
    )  # 30 pages of 20 B, 32 apart, 12 banks
    tt.upload(arg, np.arange(150, dtype=np.int32).reshape(30, 5))
    second_row = core.tensor_arg(arg.pointer.addr + 32, "int32", (6, 5), Layout("dram", "row_major", "int32"))
    np.testing.assert_array_equal(tt.download(second_row, (6, 5), np.int32), np.arange(60, 90).reshape(6, 5))
    assert tt.handle.stats(0).bytes_in == 600
    core_ = core.ffi.new("gr_core *")
    core.check(cores[0](tt.handle.env, 0, 4096, core_))
    core.check(cores[1](tt.handle.env, core_, arg.pointer, 11, 3, 0))
    got = np.frombuffer(core.ffi.buffer(core_.l1, 60), np.int32)
    np.testing.assert_array_equal(got, np.arange(55, 70))
    assert tt.handle.stats(0).pages_read == 3
