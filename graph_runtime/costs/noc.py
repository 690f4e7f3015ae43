"""The network on chip: transactions of one initiator, multicasts, and whole reshards with contention on
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

# NoC coordinates of Wormhole: columns and rows that have Tensix tiles, and the DRAM tile of each channel
COLUMNS, ROWS = (1, 2, 3, 4, 6, 7, 8, 9), (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)
DRAM = ((0, 1), (0, 11), (0, 5), (0, 7), (5, 1), (5, 11), (5, 2), (5, 9), (5, 8), (5, 3), (5, 5), (5, 7))
WIDTH, HEIGHT = 10, 12
_MOST_GROUPS = 1024  # most pages, or groups of pages that travel together, for which loads are counted
Node = tuple[int, int]
Shards = tuple[str, tuple[int, int]]  # (kind of a Shard, (rows, columns) of its grid of cores)


def unicast(w: Mapping[str, float], x: Mapping[str, Any]) -> Any:
    """Latency of n transactions of ``b`` bytes. The first arrives after ``latency`` and the time of its
    bytes, each further one after ``gap`` or the time of its bytes, whichever is longer. Arguments are arrays
    or numbers."""
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
    """Cycles until ``transactions`` of ``nbytes`` each have arrived, from one initiating core, without
    contention.

    ``direction`` "read" | "write" as the initiator sees it; ``memory`` "l1" of another core or "dram"
    (interleaved); ``same_axis``: whether both ends are in one row or column; ``rates``: rates of the board.
    Raises PlanError for an unknown architecture.
    """
    table = load("noc")["unicast"]
    axis = "same" if same_axis else "diff"
    # an unmeasured case uses the numbers of a measured case: first of ends in different rows and columns,
    # then of Wormhole
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
    """Cycles to send ``nbytes`` from one core to a rectangle of cores; ``linked``: whether multicasts reuse
    the path of the one before."""
    if arch == "grayskull":
        return Cost(nbytes / 16, "assumed", "half of a 32 B link, as Buda's balancer")
    rates = load("noc")["multicast"][arch]
    name = "linked" if linked else "single"
    latency = load("noc")["unicast"][f"{arch}/write/l1/diff"]["weights"]["latency"]
    return Cost(latency + nbytes / rates[name], "fitted", f"{arch} multicast at {rates[name]} B/cycle")


def reshard_cycles(
    *,
    source: Shards | None,
    target: Shards,
    shape: tuple[int, int],
    page_bytes: int,
    rates: BoardRates = FITTED,
) -> Cost:
    """Cycles from the first to the last event of a kernel in which each core of ``target`` reads its pages of
    a tensor of ``shape`` (rows, columns) pages, from the shards of ``source`` or, if None, from interleaved
    DRAM. Wormhole.

    Readers of shards use both NoCs, for half of the pages each; readers of DRAM use one.
    """
    name = "dram" if source is None else "l1"
    x = dict(zip(("link", "sent", "received"), _loads(source, target, _coarse(shape)), strict=True))
    scale = rates.noc if source is not None else min(rates.noc, rates.dram)
    per_page = shape[0] * shape[1] * page_bytes / scale
    cycles = reshard(load("noc")["reshard"][name]["weights"], {k: v * per_page for k, v in x.items()})
    return Cost(float(cycles), "fitted", f"busiest link, sender and receiver of a reshard from {name}")


def reshard(w: Mapping[str, float], x: Mapping[str, Any]) -> Any:
    """Cycles of a reshard. ``x`` has link (bytes on the busiest link), sent (bytes from the busiest sender)
    and received (bytes to the busiest receiver)."""
    busy = (x[part] / w[part] for part in ("link", "sent", "received"))
    return w["start"] + pnorm(1 + w["overlap"], *busy)


def _most(counts: Counter[Any]) -> int:
    return max(counts.values(), default=0)


def loads(source: Shards | None, target: Shards, shape: tuple[int, int]) -> tuple[float, float, float]:
    """The shares of all bytes that pass the busiest link, leave the busiest sender and reach the busiest
    receiver; each NoC is counted apart."""
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
    """The shape reduced to at most _MOST_GROUPS pages: neighbouring pages then travel together, which hardly
    changes the results of loads()."""
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
    """Links of the torus on the way from ``start`` to ``end``: NoC 0 goes right, then down; NoC 1 goes up,
    then left."""
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
