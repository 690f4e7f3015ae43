"""The packer in C as planning wants it (plan/offsets.Packer): plan() takes ``packing.pack`` as an
argument."""
from __future__ import annotations

import numpy as np

from .core import check, ffi, lib
from .errors import InputError
from .plan.offsets import FITS, IMPOSSIBLE, UNKNOWN

__all__ = ["pack", "pack_thoroughly"]

_EACH, _LEAST, _THOROUGH = 4, 2000, 4_000_000

_RESULTS = {lib.GR_PACK_FITS: FITS, lib.GR_PACK_IMPOSSIBLE: IMPOSSIBLE, lib.GR_PACK_UNKNOWN: UNKNOWN}


def pack(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, capacity: int, *,
         max_nodes: int = 0, seconds: float = 60.0, threads: int = 1) -> tuple[str, np.ndarray | None]:
    """("fits", offsets int64 [buffers]), or "impossible" or "unknown" and None.

    Buffer i, int64 ``size[i]`` bytes, lives at lower[i] <= time < upper[i] (int64, any unit). ``max_nodes``:
    placements that may be tried, by default a few for each buffer, which takes milliseconds; the result
    depends on it, but not on ``threads`` (1 or 2). ``seconds``: a guard, beyond which the result is
    "unknown". Raises InputError for buffers that cannot be.
    """
    columns = [np.ascontiguousarray(c, np.int64) for c in (lower, upper, size)]
    if len({len(c) for c in columns}) > 1:
        raise InputError(f"a packing's columns have {' and '.join(str(len(c)) for c in columns)} elements: "
                         "give one of each a buffer")
    max_nodes = max_nodes or _EACH * len(columns[0]) + _LEAST
    offset, result = np.zeros(len(columns[0]), np.int64), ffi.new("int32_t *")
    if ((columns[0] >= columns[1]) | (columns[2] < 1)).any():
        at = int(np.flatnonzero((columns[0] >= columns[1]) | (columns[2] < 1))[0])
        raise InputError(f"buffer {at} of a packing lives from {columns[0][at]} to {columns[1][at]} and has "
                         f"{columns[2][at]} B: give a time to live and at least 1 B", got=at)
    pointers = [ffi.cast("const int64_t *", c.ctypes.data) for c in columns]
    problem = ffi.new("gr_pack_problem *", [len(offset), *pointers, int(capacity), max_nodes,
                                            int(seconds * 1e9), threads])
    check(lib.gr_pack(problem, ffi.cast("int64_t *", offset.ctypes.data), result))
    status = _RESULTS[result[0]]
    return status, offset if status == FITS else None


def pack_thoroughly(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, capacity: int
                    ) -> tuple[str, np.ndarray | None]:
    """pack() for who plans once and runs often: up to some seconds on two threads."""
    return pack(lower, upper, size, capacity, max_nodes=_THOROUGH, threads=2)
