"""Device cycles of ttnn ops over a whole grid of cores: GEMM, height-sharded matmul, unary ops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.dtypes import FORMATS
from ..base.errors import PlanError, did_you_mean
from ..base.machine.descriptors import boards
from ..base.machine.layout import L1
from . import buda
from .formulas import PRODUCT, pnorm
from .rates import FITTED, BoardRates
from .types import Cost, worst
from .weights_file import load

Values = Mapping[str, Any]
_SHARP = 8.0  # exponent of the overlap of math, unpacking, strips and DRAM
_WIDEST_SUBBLOCK = 8  # number of 16-bit tiles that fit half of Dst
_STANDS_FOR = {"grayskull": "wormhole_b0"}


def tile_bytes(name: str) -> int:
    """Bytes of a headerless 32x32 tile. Raises PlanError for an unknown format."""
    if name not in FORMATS:
        raise PlanError(f"unknown format {name!r}{did_you_mean(name, FORMATS)}", got=name)
    return FORMATS[name].tile_bytes


def gemm(w: Values, x: Values) -> Any:
    """Cycles of a GEMM. ``x`` has mt, kt, nt (sizes in tiles), rows, columns (of cores), f (phases), bytes
    (of a tile of input 0) and, if different, weight_bytes (of input 1) and out_bytes (of the output), sharded
    (1: input 0 and output are in the L1 of the cores; 0: all tensors are in DRAM) and spread (1: every core
    gets all rows of input 0 and computes its own columns).

    Each core multiplies or waits for its unpackers; strips of both inputs are multicast along rows and
    columns; tensors that are not in L1 move from and to DRAM. The transfers of the first strips and of the
    last results do not overlap with anything.
    """
    work, strips, stored, out = gemm_parts(w, x)
    return w["start"] + pnorm(_SHARP, work, strips, stored) + out


def gemm_parts(w: Values, x: Values) -> tuple[Any, Any, Any, Any]:
    """The cycles that gemm combines: of products, of strips on the NoC, of DRAM, and of the last results."""
    cores = x["rows"] * x["columns"]
    weight, out = x.get("weight_bytes", x["bytes"]), x.get("out_bytes", x["bytes"])
    m = np.where(x["spread"], x["mt"], np.ceil(x["mt"] / x["rows"]))
    n = np.where(x["spread"], np.ceil(x["nt"] / cores), np.ceil(x["nt"] / x["columns"]))
    product = pnorm(_SHARP, w["product"] * x["f"] + w["issue"], np.maximum(x["bytes"], weight) / w["unpack"])
    work = m * n * x["kt"] * product
    rows, columns = (w["gap"] + nbytes / w["multicast"] for nbytes in (x["bytes"], weight))
    strips = x["kt"] * np.where(x["spread"], x["mt"] * rows, n * columns + m * w["strip"])
    weights, others = x["kt"] * x["nt"] * weight, x["mt"] * (x["kt"] * x["bytes"] + x["nt"] * out)
    stored = np.where(x["sharded"], weights, weights + others)
    return work, strips, stored / w["dram"], m * n * out / w["out"]


@lru_cache(maxsize=1 << 14)
def gemm_cycles(
    arch: str,
    m: int,
    k: int,
    n: int,
    *,
    format: str = "bf16",
    fidelity: str = "HiFi2",
    grid: tuple[int, int] = (8, 8),
    sharded: bool = False,
    tuned: bool = True,
    rates: BoardRates = FITTED,
    weight: str | None = None,
    out: str | None = None,
) -> Cost:
    """Device cycles of an m x k by k x n product (elements) on a grid (rows, columns) of cores.

    ``format``: format of all tensors; ``weight`` and ``out`` give another format of input 1 and of the
    output. ``sharded``: whether input 0 and the output are sharded in L1; else all tensors are in DRAM.
    ``tuned``: whether the caller gives a program configuration; without one the library spreads short
    matrices over all cores. ``rates``: rates of the board. Raises PlanError for an unknown architecture,
    format or fidelity.
    """
    buda.known_ops(arch)
    x = gemm_columns(m=m, k=k, n=n, format=format, fidelity=fidelity, grid=grid, sharded=sharded, tuned=tuned)
    x |= {"weight_bytes": tile_bytes(weight or format), "out_bytes": tile_bytes(out or format)}
    weights = gemm_weights(arch, rates)
    basis = "assumed" if arch in _STANDS_FOR else "fitted" if fidelity != "HiFi3" else "extrapolated"
    if {weight or format, out or format} != {format}:
        basis = worst(basis, "extrapolated")  # all tensors of the measurements have one format
    return Cost(float(gemm(weights, x)), basis, f"whole-grid GEMM on {grid[0]}x{grid[1]} {arch} cores")


def gemm_weights(arch: str, rates: BoardRates = FITTED) -> dict[str, float]:
    """The fitted weights of gemm for an architecture, with the rates of a board. The last results leave the
    cores through the NoC to DRAM, at the slower of the two rates."""
    found = load("grid")["gemm"][_STANDS_FOR.get(arch, arch)]["weights"]
    scaled = {
        "dram": found["dram"] * rates.dram,
        "multicast": found["multicast"] * rates.noc,
        "out": found["out"] * min(rates.dram, rates.noc),
    }
    return {**found, **scaled, "product": PRODUCT[arch]}


def gemm_columns(
    *, m: int, k: int, n: int, format: str, fidelity: str, grid: tuple[int, int], sharded: bool, tuned: bool
) -> dict[str, Any]:
    """The ``x`` of gemm() for the arguments of gemm_cycles."""
    mt, kt, nt = (math.ceil(d / 32) for d in (m, k, n))
    # ttnn spreads if core rows have at most two tile rows, and half of the cores get a tile column each:
    # measured on 8x8
    spread = not tuned and grid == (8, 8) and mt <= 2 * grid[0] and 2 * nt >= grid[0] * grid[1]
    sizes = {"mt": mt, "kt": kt, "nt": nt, "rows": grid[0], "columns": grid[1]}
    kind = {"f": buda.phases(fidelity), "bytes": tile_bytes(format), "sharded": sharded, "spread": spread}
    return {**sizes, **kind}


def passes(rows: int, kt: int, nt: int, nbytes: int = 2048) -> int:
    """The smallest number of blocks into which a core's rows must be cut so that the core's buffers fit L1;
    ``rows`` if no number of blocks suffices. The buffers are the shards of input 0 and output, and two
    buffers each for input 1, for a block of input 0 and for a block of the output."""
    budget = boards()["n150"].memory(L1).usable
    for count in (d for d in range(1, rows + 1) if rows % d == 0):
        block = rows // count
        if (rows * kt + 2 * kt * nt + 2 * block * kt + rows * nt + 2 * block * nt) * nbytes <= budget:
            return count
    return rows


def sharded_matmul(w: Values, x: Values) -> Any:
    """Cycles of a sharded matmul. ``x`` has rows (of tiles, on a core), kt, nt, passes, width (of a subblock)
    and cores. Input 1 is multicast once per pass, before the products. The products unpack a tile of input 0
    for each subblock, and a tile of input 1 for each tile product."""
    tiles = x["rows"] * x["nt"]
    return (
        w["start"]
        + w["core"] * x["cores"]
        + w["pass"] * x["passes"]
        + w["multicast"] * x["passes"] * x["kt"] * x["nt"]
        + tiles * x["kt"] * (w["product"] + w["subblock"] / x["width"])
        + tiles * (w["pack"] + w["pack_subblock"] / x["width"])
        + w["strip"] * x["rows"] * x["kt"]
    )


@lru_cache(maxsize=1 << 14)
def sharded_matmul_cycles(m: int, k: int, n: int, cores: int, rates: BoardRates = FITTED) -> Cost:
    """Device cycles of a bf16 matmul on Wormhole whose input 0 and output are height-sharded over ``cores``;
    input 1 comes from DRAM over the NoC."""
    x = sharded_columns(m=m, k=k, n=n, cores=cores)
    weights = load("grid")["sharded_matmul"]["weights"]
    multicast = weights["multicast"] / min(rates.dram, rates.noc)
    cycles = sharded_matmul({**weights, "multicast": multicast}, x)
    return Cost(float(cycles), "fitted", f"height-sharded matmul on {cores} cores")


def sharded_columns(*, m: int, k: int, n: int, cores: int) -> dict[str, float]:
    """The ``x`` of sharded_matmul() for the arguments of sharded_matmul_cycles."""
    kt, nt = math.ceil(k / 32), math.ceil(n / 32)
    rows = math.ceil(math.ceil(m / 32) / cores)
    # subblocks of a sharded output are as wide as the output if that fits Dst, else one tile wide
    width = nt if nt <= _WIDEST_SUBBLOCK else 1
    return dict(rows=rows, kt=kt, nt=nt, passes=passes(rows, kt, nt), width=width, cores=cores)


def unary(w: Values, x: Values) -> Any:
    """Cycles of a unary op. ``x`` has tiles (of the busiest core), bytes (of a tile) and dram (1 or 0).
    Reading and writing overlap with the math."""
    traffic = x["bytes"] / np.where(x["dram"], w["dram"], w["l1"])
    start = np.where(x["dram"], w["start_dram"], w["start_l1"])
    return start + x["tiles"] * pnorm(_SHARP, w["tile"], traffic)


@lru_cache(maxsize=1 << 14)
def grid_unary_cycles(shape: tuple[int, ...], *, format: str = "bf16", memory: str = "dram") -> Cost:
    """Device cycles of exp over an interleaved tensor on Wormhole (an n150 with 56 worker cores)."""
    x = unary_columns(shape=shape, format=format, memory=memory)
    cycles = unary(load("grid")["unary"]["weights"], x)
    return Cost(float(cycles), "fitted", f"interleaved exp, {x['tiles']} tiles on the busiest core")


def unary_columns(*, shape: tuple[int, ...], format: str, memory: str, cores: int = 56) -> dict[str, float]:
    """The ``x`` of unary() for the arguments of grid_unary_cycles."""
    rows, columns = (1, *shape)[-2:] if shape else (1, 1)
    tiles = math.prod(shape[:-2]) * math.ceil(rows / 32) * math.ceil(columns / 32)
    return {"tiles": math.ceil(tiles / cores), "bytes": tile_bytes(format), "dram": memory == "dram"}
