"""Placement by minimum cuts. For two devices the serial time, one copy per value and destination counted, is
exactly a cut (Stone 1977; one auxiliary node for each value and direction); for more, each device in turn may
take nodes of all others by one such cut (alpha-expansion), until none gains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .deltas import serial_ns
from .maxflow import FlowNetwork
from .problem import UNSUPPORTED, PlacementProblem

__all__ = ["best_cut", "expand", "pair_bound", "priced", "shared_bound"]

_PRICES = 14  # of a byte that are tried
_WEIGHTS = 1024  # what all devices weigh together
_PARTS = (0.02, 0.1, 0.4)  # of it that queues of copies weigh


def best_cut(
    problem: PlacementProblem, starts: Sequence[np.ndarray] | np.ndarray, cost: np.ndarray | None = None
) -> np.ndarray:
    """The assignment int16 [nodes] of least serial time that cuts reach from ``starts``: for two devices the
    least there is. ``cost`` int64 [nodes, k]: other times of the nodes than the problem's."""
    cost = problem.cost if cost is None else cost
    cost = np.where(problem.allowed, cost, UNSUPPORTED)
    if problem.num_devices == 2:
        return expand(problem, cost, np.zeros(problem.num_nodes, np.int16), 1)
    if len(problem.running) == 2:  # inputs stay on a third, which is exact, too
        one, other = problem.running.tolist()
        begin = np.where(problem.graph.func_id < 0, problem.pin, one).astype(np.int16)
        return expand(problem, cost, begin, other)
    found = [_expansions(problem, cost, start) for start in starts]
    return min(found, key=lambda did: serial_ns(problem, did, cost))


def _expansions(problem: PlacementProblem, cost: np.ndarray, did: np.ndarray) -> np.ndarray:
    least, idle, target = serial_ns(problem, did, cost), 0, 0
    while idle < problem.num_devices:
        moved = expand(problem, cost, did, target)
        ns = serial_ns(problem, moved, cost)
        idle += 1
        if ns < least:
            did, least, idle = moved, ns, 0
        target = (target + 1) % problem.num_devices
    return did


def expand(problem: PlacementProblem, cost: np.ndarray, did: np.ndarray, target: int) -> np.ndarray:
    """``did`` with those nodes moved to device ``target`` that together gain most (exactly so where all
    others are on one device; an upper bound is minimised where a value would come nearer to a third)."""
    count = problem.num_nodes
    network = FlowNetwork(count)
    stay = cost[np.arange(count), did]
    excess = np.where(did == target, -UNSUPPORTED, cost[:, target] - stay)  # source's side: stays
    for node in np.flatnonzero(excess).tolist():
        network.terminal(node, int(excess[node]))
    readers: list[list[int]] = [[] for _ in range(len(problem.eid))]
    for nid, value in zip(problem.use_nid.tolist(), problem.use_value.tolist(), strict=True):
        readers[value].append(nid)
    where, copy = did.tolist(), problem.copy.tolist()
    for value, (owner, nids) in enumerate(zip(problem.owner.tolist(), readers, strict=True)):
        if nids:
            _add_value(network, owner, nids, where, copy[value], target)
    stays = np.array(network.sources()[:count], bool)
    return np.where(stays, did, target).astype(np.int16)


def _add_value(
    network: FlowNetwork, owner: int, nids: list[int], where: list[int], copy: list[list[int]], target: int
) -> None:
    """The copies of one value: to ``target`` if its owner stays and a reader moves; to any other device if a
    reader stays there and the owner is elsewhere."""
    home, stayers = where[owner], defaultdict(list)
    for nid in nids:
        stayers[where[nid]].append(nid)
    stayers.pop(target, None)
    if home != target and copy[home][target]:
        network.arc(owner, _any(network, nids, sink=True), copy[home][target])
    for device, staying in stayers.items():
        kept, moved = copy[home][device], copy[target][device]  # 0 where home is the device
        if not (kept or moved):
            continue
        some = _any(network, staying, sink=False)
        if kept:
            network.terminal(some, -kept)
        if moved > kept:
            network.arc(some, owner, moved - kept)


def _any(network: FlowNetwork, nids: list[int], *, sink: bool) -> int:
    """A node that is on the sink's side if any of ``nids`` is (``sink``), or on the source's."""
    if len(nids) == 1:
        return nids[0]
    node = network.node()
    for nid in nids:
        if sink:
            network.arc(node, nid, UNSUPPORTED)
        else:
            network.arc(nid, node, UNSUPPORTED)
    return node


# **************** bytes and bounds ****************


def priced(problem: PlacementProblem, starts: np.ndarray) -> tuple[list[np.ndarray], int]:
    """Cuts where bytes on devices that lack room have a price, which doubles and halves until the cut fits;
    and, for two devices, ns that no assignment with room goes below: a cut's time at any price, less what all
    the room would cost (a Lagrange bound)."""
    room, k = problem.room, problem.num_devices
    owned = np.bincount(room.resident_uses[:, 1], minlength=len(room.resident)) == 1
    nid, which = room.resident_uses[owned[room.resident_uses[:, 1]]].T
    weight = np.zeros((problem.num_nodes, k), np.int64)  # bytes that a node alone brings
    np.add.at(weight, nid, room.resident[which, :k])
    found, exact = [best_cut(problem, starts)], len(problem.running) <= 2
    bound = serial_ns(problem, found[0]) if exact else 0
    short = _short(problem, found[0]).astype(bool)
    if not short.any():
        return found, bound
    low, high = 0.0, 0.0
    price = float(problem.cost[problem.cost < UNSUPPORTED].max(initial=1)) / max(weight.max(initial=1), 1)
    for _ in range(_PRICES):
        extra = np.minimum(weight * (short * price), UNSUPPORTED // 16).astype(np.int64)
        cost = np.where(problem.cost < UNSUPPORTED, problem.cost + extra, UNSUPPORTED)
        did = best_cut(problem, starts, cost)
        found.append(did)
        if exact:
            paid = int(np.ceil((room.available[:k] * short * price).sum()))
            bound = max(bound, serial_ns(problem, did, cost) - paid)
        missing = _short(problem, did)
        short |= missing > 0
        if missing.any():
            low = price
            price = (low + high) / 2 if high else price * 4
        else:
            high = price
            price = (low + high) / 2
    return found, bound


def _short(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [k]: bytes that each device lacks in its main memory, whose bytes have the price."""
    room, k = problem.room, problem.num_devices
    held = room.parameters(did[None])[0] + room.activations(did[None])[0]
    return np.maximum(held - room.available, 0)[:k]


def _pairs(
    problem: PlacementProblem, cost: np.ndarray, copy: np.ndarray, every: bool
) -> Iterator[PlacementProblem]:
    """Each host, and with ``every`` each device, against all others as one, on which nodes and copies take
    what they take on the best of them, with the room of all of them together."""
    room = problem.room
    seen: set[bytes] = set()
    for device in problem.running.tolist():
        others = [d for d in range(problem.num_devices) if d != device]
        if not (others and (every or problem.on_host[device])):
            continue
        two = np.stack([cost[:, device], cost[:, others].min(1)], 1)
        ways = np.zeros((len(problem.eid), 2, 2), np.int64)
        ways[:, 0, 1] = copy[:, device, others].min(1)
        ways[:, 1, 0] = copy[:, others, device].min(1)
        key = two.tobytes() + ways.tobytes() + room.available[device].tobytes()
        if key not in seen:  # equal devices, equal bounds
            seen.add(key)
            yield replace(
                problem,
                devices=(problem.devices[device], problem.devices[others[0]]),
                cost=two,
                pin=np.where(problem.pin < 0, -1, problem.pin != device).astype(np.int32),
                copy=ways,
                on_host=problem.on_host[[device, others[0]]],
                room=room.pooled(device, others),
                objective="serial",
            )


def _least(pair: PlacementProblem) -> int:
    """ns of serial time that no assignment of two devices goes below."""
    start = np.zeros((1, pair.num_nodes), np.int16)
    if pair.room.binds and pair.on_host[0]:
        return priced(pair, start)[1]
    return serial_ns(pair, best_cut(pair, start))


def pair_bound(problem: PlacementProblem) -> int:
    """ns of serial time that no assignment to three or more devices goes below: each device in turn against
    all others as one."""
    cost = np.where(problem.allowed, problem.cost, UNSUPPORTED)
    return max((_least(pair) for pair in _pairs(problem, cost, problem.copy, True)), default=0)


def shared_bound(problem: PlacementProblem) -> int:
    """ns that the busiest queue takes at least: no less than any weighted mean of all queues, which is a
    serial time with other prices; each host against all others as one. Devices weigh the less the longer they
    would take for all, and queues of copies a part of that."""
    cost = np.where(problem.allowed, problem.cost, UNSUPPORTED)
    running, best = problem.running, 0
    able = np.where(cost < UNSUPPORTED, cost, 0).sum(0)[running]
    weight = np.zeros(problem.num_devices)
    weight[running] = able.max(initial=1) / np.maximum(able, 1)
    balanced = np.maximum(np.round(weight / weight.sum() * _WEIGHTS), 1).astype(np.int64)
    heavy = np.where(problem.on_host, _WEIGHTS, 1)  # hosts have what others have no room for
    queues = len(running) + int((~problem.on_host[running]).sum())
    tries = [(balanced, max(round(part * _WEIGHTS / queues), 1)) for part in _PARTS]
    for whole, each in [*tries, (heavy, 1)] if problem.room.binds else tries:
        scaled = np.where(cost < UNSUPPORTED, np.minimum(cost * whole, UNSUPPORTED >> 8), UNSUPPORTED)
        copy = np.minimum(problem.copy * each, UNSUPPORTED >> 8)
        total = int(whole[running].sum()) + each * queues
        for pair in _pairs(problem, scaled, copy, False):
            best = max(best, -(-_least(pair) // total))
    return best
