"""Formulas of single-core cycles. Weights are arguments: the fits (tests/tools) pass arrays of rows, the
runtime passes numbers.

``w`` holds weights by name. ``x`` holds the blocking: t (number of blocks), mm, mn (macro block in ublocks),
rt, ct (ublock in tiles), mk, uk (inner dimension), f (multiplier phases), z (depth that reduce_z reduces),
and for sparse products nt, nu, ns (nonzero tiles, ublocks, strips).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Values = Mapping[str, Any]
# cycles of a 32x32x32 tile product for each phase (16 MVMUL instructions; Grayskull's FPU has half the width)
PRODUCT = {"wormhole_b0": 16.0, "blackhole": 16.0, "grayskull": 32.0}
_SHARP = 10.0  # exponent for almost perfect overlap


def pnorm(p: float, *terms: Any) -> Any:
    """(sum of terms^p)^(1/p): time of overlapping terms. With p = 1 the terms run one after the other; with p
    towards infinity only the slowest term counts. ``terms``: numbers or arrays; at least one term must be
    positive."""
    arrays = any(isinstance(t, np.ndarray) for t in terms)
    top = np.maximum.reduce(np.broadcast_arrays(*terms)) if arrays else max(terms)
    return top * sum((t / top) ** p for t in terms) ** (1.0 / p)


def _larger(a: Any, b: Any) -> Any:
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)


def matmul(w: Values, x: Values) -> Any:
    """Cycles of a matmul. In each step along k, and for each ublock, the multiplier computes products u_kt
    tiles deep, or waits for the unpackers or for a spill to the intermediate buffer. Partial sums are
    reloaded in each step but the first, or once if the packer accumulates in L1. Meanwhile results drain and
    strips of input 0 arrive."""
    u, steps = x["rt"] * x["ct"], x["mk"] * x["mm"] * x["mn"]
    ublocks = x["mm"] * x["mn"]
    math = w["start"] + x["uk"] * (u * (w["product"] * x["f"] + w["issue"]) + w["k_tile"])
    math = _larger(math, x["uk"] * x["rt"] * (1 + x["ct"]) * w["unpack"])
    step = pnorm(_SHARP, math, w["spill"] + w["spill_tile"] * u)
    later = x["mk"] > 1
    reloads = later if w["l1_acc"] else x["mk"] - 1
    work = (steps - ublocks) * step + ublocks * (math + reloads * (w["reload"] + w["reload_tile"] * u))
    drain = ublocks * (w["out"] + w["out_tile"] * u)
    strips = w["strip_tile"] * x["mk"] * x["mm"] * x["rt"] * x["uk"]
    return x["t"] * (w["input"] + pnorm(w["overlap"], work, drain, strips))


def streamed(w: Values, x: Values) -> Any:
    """Cycles of unary and binary ops. Each ublock takes the larger of two times: the time of unpacking,
    packing and their handshakes, and the time of the math."""
    u = x["rt"] * x["ct"]
    ublock = _larger(w["floor"] + w["floor_tile"] * u, w["math"] + w["math_tile"] * u)
    return x["t"] * (w["input"] + x["mm"] * x["mn"] * ublock)


def sparse(w: Values, x: Values) -> Any:
    """Cycles of a sparse matmul: decoding of strips and nonzero tiles, products, reloads of partial sums,
    packing of all results."""
    u, columns = x["rt"] * x["ct"], x["mn"] * x["ct"]
    return (
        w["input"]
        + w["strip"] * x["ns"] * x["mm"] * x["mn"]
        + x["nt"] * (w["tile"] + w["tile_column"] * x["mn"] + w["product"] * columns * x["f"])
        + (x["mk"] > 1) * w["reload_tile"] * x["nu"] * x["mn"] * u
        + w["pack_tile"] * x["t"] * x["mm"] * x["mn"] * u
    )


def reduce_z(w: Values, x: Values) -> Any:
    """Cycles of reduce_z: each depth but the first reads and adds all tiles again; if there is just one
    ublock, each addition waits for the result of the one before."""
    u, ublocks = x["rt"] * x["ct"], x["mm"] * x["mn"]
    one = w["step"] + w["step_tile"] * u
    first = ublocks * (w["first"] + w["first_tile"] * u)
    drain = ublocks * (w["out"] + w["out_tile"] * u)
    again = (x["z"] - 1) * _larger(ublocks * one, one + w["wait"])
    return x["t"] * (w["input"] + pnorm(_SHARP, first + again, drain))


def reduce(w: Values, x: Values) -> Any:
    """Cycles to reduce rows or columns of a block: a cost per tile, per ublock and per column of tiles."""
    ublocks = x["mm"] * x["mn"]
    return x["t"] * (w["input"] + ublocks * (w["ublock"] + x["ct"] * (w["column"] + x["rt"] * w["tile"])))


def depthwise(w: Values, x: Values) -> Any:
    """Cycles of a depthwise convolution: a tile product per channel tile and tap."""
    products = x["mk"] * x["uk"] * x["mm"] * x["mn"] * x["rt"] * x["ct"]
    return x["t"] * (w["input"] + products * w["product"])


FORMULAS: dict[str, Callable[[Values, Values], Any]] = {
    "matmul": matmul,
    "streamed": streamed,
    "sparse": sparse,
    "reduce_z": reduce_z,
    "reduce": reduce,
    "depthwise": depthwise,
}
