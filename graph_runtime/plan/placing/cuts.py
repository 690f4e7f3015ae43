"""Placement by minimum cuts. For two devices the serial time, with one copy counted per value and
destination, is exactly a cut (Stone 1977; one auxiliary node for each value and direction). For more devices,
each device in turn may take nodes of all others by one such cut (alpha-expansion), until no device gains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .maxflow import FlowNetwork
from .problem import UNSUPPORTED, PlacementProblem
from .schedule import serial_ns

_PRICES = 14  # most prices of a byte that are tried
_WEIGHTS = 1024  # sum of the weights of all devices
_PARTS = (0.02, 0.1, 0.4)  # parts of _WEIGHTS that are given to the queues of copies


def best_cut(
    problem: PlacementProblem, starts: Sequence[np.ndarray] | np.ndarray, cost: np.ndarray | None = None
) -> np.ndarray:
    """int16 [nodes]: the assignment of least serial time that cuts reach from ``starts``; for two devices the
    optimum. ``cost`` int64 [nodes, k]: node times, by default those of the problem."""
    cost = problem.cost if cost is None else cost
    cost = np.where(problem.allowed, cost, UNSUPPORTED)
    if problem.num_devices == 2:
        return expand(problem, cost, np.zeros(problem.num_nodes, np.int16), 1)
    if len(problem.running) == 2:  # cuts are exact, too, if inputs stay on a third device
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
    """``did`` after the most gainful set of nodes has moved to device ``target``. This is exact if all other
    nodes are on one device; else the cut minimises an upper bound for values that would come nearer to a
    third device."""
    count = problem.num_nodes
    network = FlowNetwork(count)
    stay = cost[np.arange(count), did]
    excess = np.where(did == target, -UNSUPPORTED, cost[:, target] - stay)  # these stay with the source
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
    """Add the copies of one value to the network: a copy to ``target`` if the value's owner stays and a
    reader moves; a copy to another device if a reader stays there and the owner is elsewhere."""
    home, stayers = where[owner], defaultdict(list)
    for nid in nids:
        stayers[where[nid]].append(nid)
    stayers.pop(target, None)
    if home != target and copy[home][target]:
        network.arc(owner, _any(network, nids, sink=True), copy[home][target])
    for device, staying in stayers.items():
        kept, moved = copy[home][device], copy[target][device]  # 0 if ``home`` is the device
        if not (kept or moved):
            continue
        some = _any(network, staying, sink=False)
        if kept:
            network.terminal(some, -kept)
        if moved > kept:
            network.arc(some, owner, moved - kept)


def _any(network: FlowNetwork, nids: list[int], *, sink: bool) -> int:
    """A node of the network that stands for "any of ``nids``". If ``sink`` is true, the node is on the sink's
    side if any of ``nids`` is; else it is on the source's side if any of them is."""
    if len(nids) == 1:
        return nids[0]
    node = network.node()
    for nid in nids:
        network.arc(*((node, nid) if sink else (nid, node)), UNSUPPORTED)
    return node


def priced(problem: PlacementProblem, starts: np.ndarray) -> tuple[list[np.ndarray], int]:
    """Pair (cuts, bound). The cuts are made with a price on the bytes of devices that lack room; the price is
    bisected until the cut fits. ``bound``, for two devices only, is a lower bound in ns of all assignments
    with room: the time of a cut at any price, less the price of all the room (a Lagrange bound)."""
    room, k = problem.room, problem.num_devices
    owned = np.bincount(room.resident_uses[:, 1], minlength=len(room.resident)) == 1
    nid, which = room.resident_uses[owned[room.resident_uses[:, 1]]].T
    weight = np.zeros((problem.num_nodes, k), np.int64)  # bytes of a node's inputs that no other node needs
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
        low, high = (price, high) if missing.any() else (low, price)
        price = (low + high) / 2 if high else price * 4
    return found, bound


def _short(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [k]: bytes that each device lacks in its main memory."""
    room, k = problem.room, problem.num_devices
    held = room.parameters(did[None])[0] + room.activations(did[None])[0]
    return np.maximum(held - room.available, 0)[:k]


def _pairs(
    problem: PlacementProblem, cost: np.ndarray, copy: np.ndarray, every: bool
) -> Iterator[PlacementProblem]:
    """Problems of two devices: each host (or, with ``every``, each device) against all others joined as one,
    with the best times and the total room of the joined devices."""
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
        if key not in seen:  # equal devices have equal bounds
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
    """Lower bound in ns of the serial time on two devices."""
    start = np.zeros((1, pair.num_nodes), np.int16)
    if pair.room.binds and pair.on_host[0]:
        return priced(pair, start)[1]
    return serial_ns(pair, best_cut(pair, start))


def pair_bound(problem: PlacementProblem) -> int:
    """Lower bound in ns of the serial time on three or more devices: the largest of the bounds for one device
    against all others joined as one."""
    cost = np.where(problem.allowed, problem.cost, UNSUPPORTED)
    return max((_least(pair) for pair in _pairs(problem, cost, problem.copy, True)), default=0)


def shared_bound(problem: PlacementProblem) -> int:
    """Lower bound in ns of the busiest queue's work. Any weighted mean of all queues' work is such a bound,
    and is a serial time at other prices; it is computed with each host against all other devices joined as
    one. The longer a device would take for all nodes, the smaller is its weight; queues of copies get a part
    of the weight."""
    cost = np.where(problem.allowed, problem.cost, UNSUPPORTED)
    running, best = problem.running, 0
    able = np.where(cost < UNSUPPORTED, cost, 0).sum(0)[running]
    weight = np.zeros(problem.num_devices)
    weight[running] = able.max(initial=1) / np.maximum(able, 1)
    balanced = np.maximum(np.round(weight / weight.sum() * _WEIGHTS), 1).astype(np.int64)
    heavy = np.where(problem.on_host, _WEIGHTS, 1)  # hosts get the nodes for which other devices lack room
    queues = len(running) + int((~problem.on_host[running]).sum())
    tries = [(balanced, max(round(part * _WEIGHTS / queues), 1)) for part in _PARTS]
    for whole, each in [*tries, (heavy, 1)] if problem.room.binds else tries:
        scaled = np.where(cost < UNSUPPORTED, np.minimum(cost * whole, UNSUPPORTED >> 8), UNSUPPORTED)
        copy = np.minimum(problem.copy * each, UNSUPPORTED >> 8)
        total = int(whole[running].sum()) + each * queues
        for pair in _pairs(problem, scaled, copy, False):
            best = max(best, -(-_least(pair) // total))
    return best
