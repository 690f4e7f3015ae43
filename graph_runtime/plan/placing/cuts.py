"""Placement by minimum cuts. For two devices the serial time, one copy per value and destination counted, is
exactly a cut (Stone 1977; one auxiliary node for each value and direction); for more, each device in turn may
take nodes of all others by one such cut (alpha-expansion), until none gains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from .deltas import serial_ns
from .maxflow import FlowNetwork
from .problem import UNSUPPORTED, PlacementProblem

__all__ = ["best_cut", "expand"]


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
