"""Device cycles of ttnn's elementwise ops over a whole grid, tensors interleaved in DRAM.

Tiles are dealt out evenly to all cores. A reader waits for the tiles of all operands, then hands them on; a
writer waits for its tile; both have room for two. So a tile has a wait and its bytes, at rates of the
program: more operands are more bytes on the way. Meanwhile the SFPU runs through the kernel's blocks
(sfpu_blocks.py); the two overlap, the less sharply the shallower the buffers are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..base.dtypes import FORMATS
from ..base.errors import PlanError
from .grid import tile_bytes
from .rates import FITTED, BoardRates
from .sfpu_blocks import EltwiseProgram, blocks_of, programs_of
from .types import Cost
from .weights_file import load

__all__ = ["eltwise", "eltwise_columns", "eltwise_cycles", "program_ns"]

Values = Mapping[str, Any]
_STANDS_FOR = {"grayskull": "wormhole_b0"}
_CLOCK = {"wormhole_b0": 1000, "blackhole": 1350}  # MHz, of the boards that were measured
_CORES = {"wormhole_b0": 64, "blackhole": 130}
_ALONE = 0.1  # of the time of a byte where all cores read: where few do, their own links bound them


def program_ns(w: Values, x: Values, program: EltwiseProgram) -> float:
    """ns that one core takes for a tile of a program: its blocks and its transport, overlapped."""
    arch = x["arch"]
    moved = w["transport"][arch][program.kind]
    transport = moved["wait"] + x["bytes"] * moved["per_byte"] * x["busy"] / x["dram"]
    if x["in_place"]:
        transport *= w["in_place"]
    counts = blocks_of(program.kernel, x["wide"])
    slots = sum(
        count * w["blocks"]["wide" if x["wide"] else "narrow"][name] for name, count in counts.items()
    )
    compute = slots * w["pace"][arch] * 1000 / _CLOCK[arch]
    sharp = w["sharp"][arch]
    least, most = sorted((transport, compute))
    return most * (1 + (least / most) ** sharp) ** (1 / sharp)


def eltwise(w: Values, x: Values) -> float:
    """ns of an op: all its programs, of each the start and the busiest core's tiles."""
    return sum(p.count * (w["start"] + program_ns(w, x, p) * x["turns"]) for p in x["programs"])


def eltwise_columns(
    op: str,
    arch: str,
    *,
    tiles: int,
    inputs: int = 1,
    format: str = "bf16",
    in_place: bool = False,
    cores: int = 0,
    rates: BoardRates = FITTED,
) -> dict[str, Any]:
    """What eltwise() takes; arguments as eltwise_cycles. Raises PlanError."""
    known = _STANDS_FOR.get(arch, arch)
    if known not in _CLOCK:
        raise PlanError(f"there are no elementwise kernels of architecture {arch!r}", got=arch)
    cores = cores or _CORES[known]
    wide = tile_bytes(format) > 2048 and FORMATS[format].kind == "float"
    return {
        "arch": known,
        "programs": programs_of(op.removesuffix("_"), inputs, wide),
        "wide": wide,
        "bytes": tile_bytes(format),
        "in_place": in_place or op.endswith("_"),
        "turns": math.ceil(tiles / cores),
        "busy": max(min(tiles, cores) / _CORES[known], _ALONE),
        "dram": rates.dram,
    }


@lru_cache(maxsize=1 << 14)
def eltwise_cycles(
    op: str,
    arch: str,
    *,
    tiles: int,
    inputs: int = 1,
    format: str = "bf16",
    in_place: bool = False,
    cores: int = 0,
    clock_mhz: int = 0,
    rates: BoardRates = FITTED,
) -> Cost:
    """Device cycles of an elementwise op by its name in ttnn ("gelu", "add_", "asin_bw").

    ``tiles`` of its result; ``inputs``: tensors of that size that it reads; ``format`` of all of them.
    ``cores`` and ``clock_mhz``: of the board, 0: of the one that was measured. Raises PlanError for an
    architecture without Tensix cores and for an unknown format.
    """
    x = eltwise_columns(
        op, arch, tiles=tiles, inputs=inputs, format=format, in_place=in_place, cores=cores, rates=rates
    )
    clock = clock_mhz or _CLOCK[x["arch"]]
    ns = eltwise(load("eltwise")["weights"], x)
    basis = "fitted" if arch == x["arch"] and format in ("bf16", "f32") else "extrapolated"
    if arch != x["arch"]:
        basis = "assumed"
    return Cost(ns * clock / 1000, basis, f"ttnn's {op} by blocks")
