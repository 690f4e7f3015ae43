"""Addresses that stand for a device's memory in another framework: no two alike, told once when dropped."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from graph_runtime.binding import core

ffi, lib = core.ffi, core.lib


def export(shape, strides=None, bits=32):
    dims = ffi.new("int64_t[]", shape) if shape else ffi.NULL
    steps = ffi.NULL if strides is None else ffi.new("int64_t[]", strides)
    return lib.gr_handle_export(1, 2, bits, len(shape), dims, steps)


def collected():
    out, found = ffi.new("uint64_t[3]"), []
    while count := lib.gr_handles_collect(out, 3):
        found.extend(out[i] for i in range(count))
    return found


@pytest.fixture(autouse=True)
def _clean():
    collected()


def test_live_ranges_do_not_overlap_and_come_back_once():
    sizes = [0, 1, 16, 17, 1000, 1 << 20, 1 << 30]
    made = [export((n,)) for n in sizes]
    spans = sorted((lib.gr_handle_address(m), 4 * n) for m, n in zip(made, sizes, strict=True))
    assert all(a + max(n, 1) <= b for (a, n), (b, _) in pairwise(spans))
    live = lib.gr_handles_live()
    for handle in made:
        lib.gr_handle_drop(handle)
    assert lib.gr_handles_live() == live - len(made)
    assert sorted(collected()) == [a for a, _ in spans]
    assert collected() == []


def test_an_address_is_not_used_again_before_it_was_collected():
    first = export((64,))
    address = lib.gr_handle_address(first)
    lib.gr_handle_drop(first)
    second = export((64,))
    assert lib.gr_handle_address(second) != address
    assert collected() == [address]
    third = export((64,))
    assert lib.gr_handle_address(third) == address
    lib.gr_handle_drop(second), lib.gr_handle_drop(third)
    assert len(collected()) == 2


def test_extents_that_cannot_be_are_refused():
    for shape, strides in (((1 << 62, 4), None), ((4,), (1 << 62,)), ((-1,), None), ((1 << 50,), None)):
        assert export(shape, strides) == 0
        assert core.last_error()
    assert lib.gr_handle_export(0, 2, 32, 65, ffi.new("int64_t[65]"), ffi.NULL) == 0
    assert "65 dimensions" in core.last_error()


def test_threads_drop_while_others_collect():
    found = []

    def work():
        for _ in range(200):
            lib.gr_handle_drop(export((8, 8)))
            found.extend(collected())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.extend(collected())
    assert len(found) == 800
