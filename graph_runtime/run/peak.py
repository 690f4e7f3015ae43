"""Peak rates of this machine, measured in this process on all threads of its pool. Profiles compare kernels
with these rates."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from ..binding import core

# bytes of data to move, for data in a core's first cache, in its second cache, in a shared cache, and in
# memory
_SIZES = (32 << 10, 512 << 10, 4 << 20, 64 << 20)
_ROUNDS, _MOVED = 100_000, 4 << 20  # rounds, and bytes moved, of one measurement of some 100 us
_SECONDS, _TRIES = 0.03, 4


@dataclass(frozen=True, slots=True)
class Peak:
    """Rates in 1e9 a second, with the instructions that kernels use. ``gflop_per_s``: rate of operations in
    float32 products; ``bf16_gflop_per_s``: the same rate for bfloat16; ``int8_gflop_per_s``: the same rate
    for int8. ``moves``: pairs (bytes of data, rate of bytes read and written), by rising size of the data;
    the last pair is for data in memory, all others are for data in a cache."""

    gflop_per_s: float
    bf16_gflop_per_s: float
    int8_gflop_per_s: float
    moves: tuple[tuple[int, float], ...]

    @property
    def gb_per_s(self) -> float:
        """Rate of main memory."""
        return self.moves[-1][1]

    def moved(self, nbytes: int) -> float:
        """The rate of moving data for a node that reads and writes ``nbytes``, which may lie in a cache."""
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
    """The Peak for the present number of threads of the pool, measured once for each number of threads."""
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
    """Rate in bytes a ns of reading ``nbytes``, or of copying one half to the other, whichever is faster."""
    memory = core.ffi.new("char[]", nbytes)
    core.ffi.memmove(memory, bytes(nbytes), nbytes)  # unwritten pages would all be one page
    half, times = nbytes // 2, max(1, _MOVED // nbytes)

    def read() -> float:
        core.check(core.lib.gr_peak_moves(core.ffi.NULL, memory, nbytes, times))
        return nbytes * times

    def copy() -> float:
        core.check(core.lib.gr_peak_moves(memory + half, memory, half, times))
        return 2 * half * times

    return max(_best(read), _best(copy))


def _best(work: Callable[[], float]) -> float:
    """The best rate of a few calls of ``work``: the amount that it returns, divided by its time in ns."""
    rates: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(rates) <= _TRIES or time.perf_counter() < end:
        start = time.perf_counter_ns()
        amount = work()
        rates.append(amount / max(1, time.perf_counter_ns() - start))
    return max(rates[1:])
