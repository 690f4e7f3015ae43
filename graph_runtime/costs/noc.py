"""The network on chip: one initiator's transactions, multicasts, and whole reshards with contention on
links."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.errors import PlanError, did_you_mean
from .buda import ARCHES
from .formulas import pnorm
from .rates import FITTED, BoardRates
from .types import Cost
from .weights_file import load

__all__ = ["loads", "multicast_cycles", "noc_cycles", "reshard", "reshard_cycles", "unicast"]

# NoC coordinates of Wormhole: columns and rows of Tensix tiles, and the DRAM tile of each channel
COLUMNS, ROWS = (1, 2, 3, 4, 6, 7, 8, 9), (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)
DRAM = ((0, 1), (0, 11), (0, 5), (0, 7), (5, 1), (5, 11), (5, 2), (5, 9), (5, 8), (5, 3), (5, 5), (5, 7))
WIDTH, HEIGHT = 10, 12
_MOST_GROUPS = 1024  # of pages that travel as one in the count of loads
Node = tuple[int, int]
Shards = tuple[str, tuple[int, int]]  # kind of a Shard, grid (rows, columns)


def unicast(w: Mapping[str, float], x: Mapping[str, Any]) -> Any:
    """Latency of n transactions of ``b`` bytes: the first arrives after ``latency`` and its bytes, each
    further one after ``gap`` or its bytes. Arrays or numbers."""
    wire = x["b"] / w["bandwidth"]
    return w["latency"] + wire + (x["n"] - 1) * np.maximum(w["gap"], wire)


def noc_cycles(
    arch: str,
    *,
    nbytes: int,
    transactions: int = 1,
    direction: str = "read",
    memory: str = "l1",
    same_axis: bool = False,
    rates: BoardRates = FITTED,
) -> Cost:
    """Cycles until ``transactions`` of ``nbytes`` each have arrived, one initiating core, no contention.

    ``direction`` "read" | "write" as the initiator sees it; ``memory`` "l1" of another core or "dram"
    (interleaved); ``same_axis``: both ends in one row or column; ``rates``: of the board. Raises PlanError
    for an unknown architecture.
    """
    table = load("noc")["unicast"]
    axis = "same" if same_axis else "diff"
    # a case that was not measured takes the numbers of its nearest: the other axis, then Wormhole
    tries = ((arch, axis), (arch, "diff"), ("wormhole_b0", "diff"))
    keys = [f"{a}/{direction}/{memory}/{ends}" for a, ends in tries]
    if arch not in ARCHES:
        raise PlanError(f"unknown architecture {arch!r}{did_you_mean(arch, ARCHES)}", got=arch)
    key = next(k for k in keys if k in table)
    basis = table[key].get("basis", "fitted") if key == keys[0] else "assumed"
    weights = table[key]["weights"]
    weights = {**weights, "bandwidth": weights["bandwidth"] * rates.noc}
    cycles = float(unicast(weights, {"n": transactions, "b": nbytes}))
    return Cost(cycles, basis, f"NoC {key}")


def multicast_cycles(arch: str, nbytes: int, *, linked: bool = True) -> Cost:
    """Cycles to send ``nbytes`` from one core to a rectangle of cores; ``linked`` multicasts keep their
    path."""
    if arch == "grayskull":
        return Cost(nbytes / 16, "assumed", "half of a 32 B link, as Buda's balancer")
    rates = load("noc")["multicast"][arch]
    name = "linked" if linked else "single"
    latency = load("noc")["unicast"][f"{arch}/write/l1/diff"]["weights"]["latency"]
    return Cost(latency + nbytes / rates[name], "fitted", f"{arch} multicast at {rates[name]} B/cycle")


# ---------------------------------------------------------------- reshards


def reshard_cycles(
    *,
    source: Shards | None,
    target: Shards,
    shape: tuple[int, int],
    page_bytes: int,
    rates: BoardRates = FITTED,
) -> Cost:
    """Cycles from the first to the last event of a kernel in which each core of ``target`` reads its pages
    of a tensor of ``shape`` (rows, columns) pages, from the shards of ``source`` or from interleaved DRAM
    (None). Wormhole.

    Readers of shards use both NoCs, half of the pages each; readers of DRAM one.
    """
    name = "dram" if source is None else "l1"
    x = dict(zip(("link", "sent", "received"), _loads(source, target, _coarse(shape)), strict=True))
    scale = rates.noc if source is not None else min(rates.noc, rates.dram)
    per_page = shape[0] * shape[1] * page_bytes / scale
    cycles = reshard(load("noc")["reshard"][name]["weights"], {k: v * per_page for k, v in x.items()})
    return Cost(float(cycles), "fitted", f"busiest link, sender and receiver of a reshard from {name}")


def reshard(w: Mapping[str, float], x: Mapping[str, Any]) -> Any:
    """``x``: bytes on the busiest link, from the busiest sender, to the busiest receiver."""
    busy = (x[part] / w[part] for part in ("link", "sent", "received"))
    return w["start"] + pnorm(1 + w["overlap"], *busy)


def _most(counts: Counter[Any]) -> int:
    return max(counts.values(), default=0)


def loads(source: Shards | None, target: Shards, shape: tuple[int, int]) -> tuple[float, float, float]:
    """Shares of all bytes: on the busiest link, from the busiest sender, to the busiest receiver (of one
    NoC)."""
    wanted: dict[Node, list[Node]] = defaultdict(list)
    for row in range(shape[0]):
        for column in range(shape[1]):
            bank = DRAM[(row * shape[1] + column) % len(DRAM)]
            at = bank if source is None else _owner(source, row, column, shape)
            wanted[_owner(target, row, column, shape)].append(at)
    link: Counter[tuple[int, str, int, int]] = Counter()
    sent: Counter[tuple[Node, int]] = Counter()
    received: Counter[tuple[Node, int]] = Counter()
    for reader, owners in wanted.items():
        for i, owner in enumerate(owners):
            noc = 0 if source is None else int(2 * i >= len(owners))
            received[reader, noc] += 1
            if owner != reader:
                sent[owner, noc] += 1
                link.update(_route(noc, owner, reader))
    pages = shape[0] * shape[1]
    return _most(link) / pages, _most(sent) / pages, _most(received) / pages


_loads = lru_cache(maxsize=4096)(loads)


def _coarse(shape: tuple[int, int]) -> tuple[int, int]:
    """The shape with at most _MOST_GROUPS pages: shares hardly change when neighbours travel together."""
    rows, columns = shape
    while rows * columns > _MOST_GROUPS:
        rows, columns = (-(-rows // 2), columns) if rows >= columns else (rows, -(-columns // 2))
    return rows, columns


def _owner(shards: Shards, row: int, column: int, shape: tuple[int, int]) -> Node:
    kind, (lines, columns) = shards
    if kind == "height":
        core = row * lines * columns // shape[0]
        line, across = core // columns, core % columns
    elif kind == "width":
        core = column * lines * columns // shape[1]
        line, across = core // columns, core % columns
    else:
        line, across = row * lines // shape[0], column * columns // shape[1]
    return COLUMNS[across % len(COLUMNS)], ROWS[line % len(ROWS)]


def _route(noc: int, start: Node, end: Node) -> Iterable[tuple[int, str, int, int]]:
    """Links of the torus: NoC 0 goes right, then down; NoC 1 up, then left."""
    x, y = start
    if noc == 0:
        while x != end[0]:
            yield noc, "x", x, y
            x = (x + 1) % WIDTH
        while y != end[1]:
            yield noc, "y", x, y
            y = (y + 1) % HEIGHT
        return
    while y != end[1]:
        yield noc, "y", x, y
        y = (y - 1) % HEIGHT
    while x != end[0]:
        yield noc, "x", x, y
        x = (x - 1) % WIDTH
