"""The packer in C, with the interface that planning asks for (plan/storage/offsets.Packer): plan() takes
``packing.pack`` as an argument."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..plan.storage.offsets import FITS, IMPOSSIBLE, UNKNOWN, Groups
from .core import check, ffi, lib

_EACH, _LEAST, _THOROUGH = 4, 2000, 4_000_000
_QUICK = 100_000  # number of placements, which take well below a second
_TICK = 0.1  # seconds between two looks for Ctrl-C

_RESULTS = {lib.GR_PACK_FITS: FITS, lib.GR_PACK_IMPOSSIBLE: IMPOSSIBLE, lib.GR_PACK_UNKNOWN: UNKNOWN}


def pack(
    groups: Groups,
    size: np.ndarray,
    capacity: int,
    *,
    max_nodes: int = 0,
    seconds: float = 60.0,
    threads: int = 1,
) -> tuple[str, np.ndarray | None]:
    """("fits", offsets int64 [buffers]), ("impossible", None) or ("unknown", None).

    Buffer i has int64 ``size[i]`` bytes; no two buffers of a group may share a byte. ``max_nodes``: number of
    placements that may be tried, by default a few for each buffer, which takes milliseconds. The result
    depends on ``max_nodes``, but not on ``threads`` (1 or 2). ``seconds``: time limit, after which the result
    is "unknown". Ctrl-C ends a search within a second. Raises InputError for impossible buffers."""
    size, width, ptr = (np.ascontiguousarray(c, np.int64) for c in (size, groups.width, groups.ptr))
    member = np.ascontiguousarray(groups.member, np.int32)
    if len(width) != len(size):
        text = f"a packing's columns have {len(width)} and {len(size)} elements: give one of each a buffer"
        raise InputError(text, got=len(width), wanted=len(size))
    if (size < 1).any():
        at = int(np.argmax(size < 1))
        raise InputError(f"buffer {at} of a packing has {size[at]} B: give at least 1 B", got=int(size[at]))
    max_nodes = max_nodes or _EACH * len(size) + _LEAST
    offset, result, stop = np.zeros(len(size), np.int64), ffi.new("int32_t *"), ffi.new("int32_t *")
    columns = [len(size), _pointer(size), _pointer(width), len(ptr) - 1, _pointer(ptr), _pointer(member)]
    limits = [int(capacity), max_nodes, int(seconds * 1e9), stop, threads]
    problem = ffi.new("gr_pack_problem *", [*columns, *limits])

    def search(_kept: tuple[Any, ...] = (size, width, ptr, member, stop)) -> None:  # C reads these arrays
        check(lib.gr_pack(problem, _pointer(offset), result))

    if max_nodes <= _QUICK:
        search()
    else:
        _aside(search, stop)
    status = _RESULTS[result[0]]
    return status, offset if status == FITS else None


def pack_thoroughly(groups: Groups, size: np.ndarray, capacity: int) -> tuple[str, np.ndarray | None]:
    """As pack(), with more placements and on two threads: up to some seconds, for a caller that plans once
    and runs often."""
    return pack(groups, size, capacity, max_nodes=_THOROUGH, threads=2)


def _pointer(column: np.ndarray) -> Any:
    kind = "int32_t" if column.dtype == np.int32 else "int64_t"
    return ffi.cast(f"{kind} *", column.ctypes.data)


def _aside(search: Callable[[], None], stop: Any) -> None:
    """Run a search in another thread, so that this thread notices Ctrl-C and can end the search. Thread.join
    is not used, because after an interrupt it takes a running thread for ended."""
    failed: list[Exception] = []
    over = threading.Event()

    def run() -> None:
        try:
            search()
        except Exception as error:  # raised again in the caller's thread
            failed.append(error)
        over.set()

    threading.Thread(target=run, name="gr-pack").start()
    try:
        while not over.wait(_TICK):
            pass
    finally:
        lib.gr_pack_stop(stop)
        over.wait()
    if failed:
        raise failed.pop()  # popped, so that this frame does not hold the error
