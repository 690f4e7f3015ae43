"""Forks that join again in one epoch: the short branch must hold the data that the long branch takes in
before it gives its first block, or both wait for ever.

Amounts are counted in shares of the fork's result. An op that reads its input in the order in which it
streams gives its first block after 1 / t of the input, any other op after all of it. A branch holds as much
as all its buffers together. If a branch holds too little, the buffer in front of the join grows. If the L1 of
the join's cores has no room, the edge into the join becomes a queue in DRAM.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from ...base.errors import PlanError
from .network import Network

_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Buffering:
    """Allowed remedies against a deadlock: a larger buffer in L1, a queue in DRAM."""

    l1: bool = True
    dram: bool = True


@dataclass(frozen=True, slots=True)
class Shortage:
    """A fork and its join that block each other: the buffers of ``edge``, which leads into the join, are too
    small by ``tiles`` per core."""

    fork: int
    join: int
    edge: int
    tiles: int
    bytes: int


def settle_forks(
    network: Network, model: np.ndarray, resident: np.ndarray, buffering: Buffering
) -> tuple[np.ndarray, frozenset[int]]:
    """Pair of the bytes of L1 added on each core of an op (int64 [ops]) and the edges that became queues in
    DRAM. Raises PlanError for a deadlock that no allowed remedy removes."""
    extra, queued, resident = np.zeros(len(network.ops), np.int64), set(), resident.copy()
    grown: dict[int, float] = {}
    while (short := next(iter(shortages(network, model, resident, grown)), None)) is not None:
        op = short.join
        room = network.chip.l1_budget - int(network.columns[op].l1_bytes[model[op]]) - int(extra[op])
        if buffering.l1 and short.bytes <= room:
            extra[op] += short.bytes
            grown[short.edge] = grown.get(short.edge, 0) + short.tiles
        elif buffering.dram:
            queued.add(short.edge)
            resident[short.edge] = False
        else:
            raise _deadlock(network, short, room, buffering)
    return extra, frozenset(queued)


def _deadlock(network: Network, short: Shortage, room: int, buffering: Buffering) -> PlanError:
    fork, join = network.name(short.fork), network.name(short.join)
    lacks = max(short.bytes - room, 0) if buffering.l1 else short.bytes
    return PlanError(
        f"fork-join of {fork!r} and {join!r} deadlocks: the branch {network.edge_name(short.edge)} must hold "
        f"{short.bytes} bytes a core more before the other branch gives its first block, and "
        f"{room} bytes of L1 are free; allow a queue in DRAM, or stream {fork!r} in fewer blocks",
        node=network.ops[short.join].node,
        path=network.ops[short.join].path,
        short=lacks,
        reasons={"ForkJoinDeadlock": 1},
    )


def shortages(network: Network, model: np.ndarray, resident: np.ndarray, grown: dict[int, float]):
    """Yields each Shortage; ``grown``: {edge: tiles per core that the edge holds beyond the buffers of its
    model}."""
    alive = [[e for e in into if resident[e]] for into in network.into]
    for fork in range(len(network.ops)):
        if sum(bool(resident[e]) for e in network.out_of[fork]) > 1:
            yield from _of_fork(network, model, alive, fork, grown)


def _of_fork(network: Network, model: np.ndarray, alive, fork: int, grown: dict[int, float]):
    """Yields the Shortages of one fork. need[v]: share of the fork's result that goes in before v gives its
    first block; hold[v]: share that the branch to v holds, including v's output."""
    need = {fork: 1 / network.columns[fork].pieces[model[fork]]}
    hold = {fork: _held_out(network, model, fork)}
    for op in _after(network, alive, fork):
        edges = [e for e in alive[op] if network.edges[e].producer in need]
        kept = {e: hold[network.edges[e].producer] + _held_in(network, model, e, grown) for e in edges}
        if len(edges) > 1:
            yield from _blocked(network, model, fork, op, kept, need)
        need[op] = max(max(need[network.edges[e].producer], _taken(network, model, e)) for e in edges)
        hold[op] = min(kept.values()) + _held_out(network, model, op)


def _after(network: Network, alive, fork: int):
    """Yields, in order, the ops of the epoch that the fork's data reaches."""
    found, ahead = {fork}, [fork]
    while ahead:
        op = heapq.heappop(ahead)
        if op != fork:
            yield op
        for e in network.out_of[op]:
            reader = network.edges[e].consumer
            if reader not in found and e in alive[reader]:
                found.add(reader)
                heapq.heappush(ahead, reader)


def _blocked(network: Network, model: np.ndarray, fork: int, join: int, kept, need):
    for edge, held in kept.items():
        wanted = max(need[network.edges[e].producer] for e in kept if e != edge)
        if held + _CLOSE < wanted:
            operand = network.ops[join].op.operands[network.edges[edge].port]
            tiles = math.ceil(
                (wanted - held) * math.prod(operand.source_shape) / _sharers(network, model, edge)
            )
            yield Shortage(fork, join, edge, tiles, tiles * network.chip.tile_bytes(operand.format))


def _sharers(network: Network, model: np.ndarray, edge: int) -> int:
    """Number of different parts of an operand on the consumer's cores. Each core has a part of its own,
    except that all cores of a row (or column) of a product get the same part."""
    _, op, port = network.edges[edge]
    m, kind = network.columns[op].models[model[op]], network.ops[op].op.kind
    if kind == "matmul" and port < 2:
        return m.grid.r if port == 0 else m.grid.c
    return m.grid.c if kind == "sparse_matmul" else m.cores


def _taken(network: Network, model: np.ndarray, edge: int) -> float:
    """Share of an operand that its reader needs for its first block."""
    _, op, port = network.edges[edge]
    what, m = network.ops[op].op, network.columns[op].models[model[op]]
    if what.kind in ("sparse_matmul", "embedding"):
        return 1.0
    if what.kind == "matmul" and port < 2 and m.stream.by_rows != (port == 0):
        return 1.0
    return 1 / m.stream.pieces


def _held_out(network: Network, model: np.ndarray, op: int) -> float:
    m = network.columns[op].models[model[op]]
    return sum(b.tiles for b in m.outputs) * m.cores / math.prod(network.ops[op].op.out)


def _held_in(network: Network, model: np.ndarray, edge: int, grown: dict[int, float]) -> float:
    _, op, port = network.edges[edge]
    m = network.columns[op].models[model[op]]
    tiles = sum(b.tiles for b in m.inputs if b.operand == port) + grown.get(edge, 0)
    return tiles * _sharers(network, model, edge) / math.prod(network.ops[op].op.operands[port].source_shape)
