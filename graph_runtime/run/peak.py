"""What this machine can do at its best, measured in this process by all threads of its pool: what profiles
compare kernels with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from ..binding import core

__all__ = ["Peak", "machine_peak"]

# Sizes of what is moved: within a core's first cache, its second, a shared one, and memory
_SIZES = (32 << 10, 512 << 10, 4 << 20, 64 << 20)
_ROUNDS, _MOVED = 100_000, 4 << 20  # some 100 us
_SECONDS, _TRIES = 0.03, 4


@dataclass(frozen=True, slots=True)
class Peak:
    """In 1e9 a second: ``gflop_per_s`` operations of products in float32, ``bf16_gflop_per_s`` of bfloat16,
    ``int8_gflop_per_s`` of bytes, by the instructions that kernels use; bytes that are read and written.

    ``moves``: (bytes, rate) by rising size of what lies in a cache, the last of memory."""

    gflop_per_s: float
    bf16_gflop_per_s: float
    int8_gflop_per_s: float
    moves: tuple[tuple[int, float], ...]

    @property
    def gb_per_s(self) -> float:
        """Of memory."""
        return self.moves[-1][1]

    def moved(self, nbytes: int) -> float:
        """The rate of a node that reads and writes so many bytes, which may lie in a cache."""
        return next((rate for size, rate in self.moves if nbytes <= size), self.gb_per_s)

    def as_dict(self) -> dict[str, float | list[tuple[int, float]]]:
        return {
            "gflop_per_s": self.gflop_per_s,
            "bf16_gflop_per_s": self.bf16_gflop_per_s,
            "int8_gflop_per_s": self.int8_gflop_per_s,
            "gb_per_s": self.gb_per_s,
            "cached_gb_per_s": list(self.moves[:-1]),
        }


def machine_peak() -> Peak:
    """Measured once for each number of threads that the pool has."""
    return _measured(core.pool_threads())


@cache
def _measured(threads: int) -> Peak:
    lib = core.lib
    kinds = lib.GR_PEAK_FLOATS, lib.GR_PEAK_PAIRS_OF_BF16, lib.GR_PEAK_BYTES
    made = [_best(partial(lib.gr_peak_products, kind, _ROUNDS)) for kind in kinds]
    moves: list[tuple[int, float]] = []
    for size in reversed(_SIZES):
        rate = _moved(size * threads)
        moves.insert(0, (size * threads, max(rate, moves[0][1] if moves else 0.0)))
    return Peak(made[0], max(made[:2]), max(made[0], made[2]), tuple(moves))


def _moved(nbytes: int) -> float:
    """Bytes a ns of reading so many, or of copying half of them to the other half, whichever is faster."""
    memory = core.ffi.new("char[]", nbytes)
    core.ffi.memmove(memory, bytes(nbytes), nbytes)  # pages that nothing wrote are one page
    half, times = nbytes // 2, max(1, _MOVED // nbytes)

    def read() -> float:
        core.check(core.lib.gr_peak_moves(core.ffi.NULL, memory, nbytes, times))
        return nbytes * times

    def copy() -> float:
        core.check(core.lib.gr_peak_moves(memory + half, memory, half, times))
        return 2 * half * times

    return max(_best(read), _best(copy))


def _best(work: Callable[[], float]) -> float:
    """What ``work`` returns, a ns: the best of a few calls, as others may use the machine."""
    rates: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(rates) <= _TRIES or time.perf_counter() < end:
        start = time.perf_counter_ns()
        amount = work()
        rates.append(amount / max(1, time.perf_counter_ns() - start))
    return max(rates[1:])
