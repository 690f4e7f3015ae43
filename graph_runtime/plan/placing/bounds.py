"""What no assignment of a problem goes below, without a search."""

from __future__ import annotations

import numpy as np

from .problem import UNSUPPORTED, PlacementProblem

__all__ = ["least_times", "lower_bound"]

_STEPS = 100  # towards the weights of devices that bound a share best
_SCALE = 4096  # of weights in integers
_TRIES = 24  # of a time that the longest chain may not allow
_STARTS = 8  # first nodes of it that are tried
_LONGEST = 1500  # nodes of a chain that is looked at


def least_times(problem: PlacementProblem) -> tuple[np.ndarray, np.ndarray]:
    """int64 [nodes]: each node's least time; and that of the longest chain after it."""
    least = np.where(problem.allowed, problem.cost, UNSUPPORTED).min(1)
    tail = np.zeros(problem.num_nodes, np.int64)
    for nid, value in zip(problem.use_nid[::-1].tolist(), problem.use_value[::-1].tolist(), strict=True):
        maker = problem.ready[value]
        if maker >= 0:
            tail[maker] = max(tail[maker], least[nid] + tail[nid])
    return least, tail


def lower_bound(problem: PlacementProblem) -> int:
    """ns that no assignment goes below, whether it has room or not, with free copies: every node on its
    fastest device (serial); the longest chain, or the work shared out (makespan); the work shared out, the
    longest node, what dear copies join, or how many devices the longest chain asks for (throughput)."""
    least, tail = least_times(problem)
    if problem.objective == "serial":
        return int(least.sum())
    alone = (
        int((least + tail).max(initial=0)) if problem.objective == "makespan" else int(least.max(initial=0))
    )
    found = max(_share(problem), alone)
    if problem.objective == "throughput":
        found = max(found, _clustered(problem))
        found = max(found, _stretched(problem, found))
    return found


def _clustered(problem: PlacementProblem) -> int:
    """ns of the busiest queue: for it to be less than a value's copy takes, that value's node and its readers
    have to be on one device, which then has the work of all that are so joined. Values are joined from the
    dearest copy down; the bound is the least, over how many are joined, of the dearest copy left and of the
    most work that is joined."""
    calls, running = problem.graph.func_id >= 0, problem.running
    if len(running) < 2:
        return 0
    cost = np.where(problem.allowed, problem.cost, UNSUPPORTED)[:, running]
    cost[~calls] = 0
    apart = ~np.eye(len(running), dtype=bool)
    copy = problem.copy[:, running][:, :, running][:, apart].min(1)
    most = int(cost.min(1).max(initial=0))
    edges = problem.edges[calls[problem.owner[problem.use_value]]]
    edges = edges[np.argsort(-copy[edges[:, 2]], kind="stable")]
    root, best, before = list(range(problem.num_nodes)), UNSUPPORTED, -1
    for owner, reader, value in edges.tolist():
        ns = int(copy[value])
        if ns != before:
            best, before = min(best, max(ns, most)), ns
        if ns == 0 or most >= best:
            return best
        a, b = _root(root, owner), _root(root, reader)
        if a != b:
            root[b] = a
            cost[a] = np.minimum(cost[a] + cost[b], UNSUPPORTED)
            most = max(most, int(cost[a].min()))
    return min(best, most)


def _root(root: list[int], nid: int) -> int:
    while root[nid] != nid:
        root[nid] = nid = root[root[nid]]
    return nid


def _share(problem: PlacementProblem) -> int:
    """ns that the busiest device takes at least: for any weights of the devices that sum to one the busiest
    takes no less than their weighted mean, in which each node is no less than on the device that is best for
    it so weighted. The weights follow the loads that this gives."""
    running = problem.running
    cost = np.where(problem.allowed, problem.cost, UNSUPPORTED)[problem.graph.func_id >= 0][:, running]
    if not cost.size:
        return 0
    weight, best, rows = np.full(len(running), 1.0 / len(running)), 0, np.arange(len(cost))
    for step in range(_STEPS):
        whole = np.maximum(np.floor(weight * _SCALE), 1).astype(np.int64)
        scaled = np.where(cost < UNSUPPORTED, cost * whole, np.iinfo(np.int64).max)
        at = np.argmin(scaled, 1)
        total = sum(scaled[rows, at].tolist())
        best = max(best, -(-total // int(whole.sum())))
        load = np.bincount(at, cost[rows, at], len(running))
        weight = weight * np.exp((load / max(load.max(), 1) - 1) / (step + 1) ** 0.5)
        weight /= weight.sum()
    return best


# **************** chains ****************


def _stretched(problem: PlacementProblem, known: int) -> int:
    """ns from run to run, at least: a queue takes runs one after another, so two nodes of a chain on one
    device are no further apart, from the beginning of the first to the end of the second, than that time. And
    what that device reads of nodes further away, or of nodes that therefore are elsewhere, it has to receive
    in that time. Times for which more nodes exclude each other than there are devices cannot be. ``known``:
    a bound."""
    chain = _Chain(problem)
    low, high = known, int(chain.until[-1])
    if len(chain.nodes) > _LONGEST or not len(chain.nodes):
        return known
    for _ in range(_TRIES):
        if low >= high:
            break
        middle = (low + high) // 2
        if chain.fits(middle):
            high = middle
        else:
            low = middle + 1
    return low


class _Chain:
    """``nodes``: the longest chain by least times. ``until`` int64 [nodes + 1]: ns of those before each."""

    def __init__(self, problem: PlacementProblem):
        self.devices = len(problem.running)
        least, tail = least_times(problem)
        self.nodes = [
            nid for nid in _longest(problem, least, tail) if least[nid]
        ]  # others may be no instruction
        self.until = np.concatenate([[0], np.cumsum(least[self.nodes])]).astype(np.int64)
        place = {nid: at for at, nid in enumerate(self.nodes)}
        # of each the values that it reads from the chain: (place of their node, value, ns of the copy)
        self.reads: list[list[tuple[int, int, int]]] = [[] for _ in self.nodes]
        running = problem.running
        if problem.on_host[running].any() or len(running) < 2:
            return  # what a device sends to a host is on a queue of its own
        apart = ~np.eye(len(running), dtype=bool)
        ways = problem.copy[:, running][:, :, running][:, apart].min(1)
        for nid, value in zip(problem.use_nid.tolist(), problem.use_value.tolist(), strict=True):
            maker = int(problem.ready[value])
            if nid in place and maker in place and problem.owner[value] == maker:
                self.reads[place[nid]].append((place[maker], value, int(ways[value])))

    def fits(self, ns: int) -> bool:
        """Whether so many devices may be enough for that time from run to run."""
        return all(
            len(self._apart(start, ns)) <= self.devices for start in range(min(_STARTS, len(self.nodes)))
        )

    def _apart(self, start: int, ns: int) -> list[int]:
        """Nodes of which no two can be on one device, from one on, each the next that there is."""
        found = [start]
        for at in range(start + 1, len(self.nodes)):
            if all(self._exclude(other, at, ns) for other in reversed(found)):
                found.append(at)
        return found

    def _exclude(self, first: int, second: int, ns: int) -> bool:
        until = self.until
        if until[second + 1] - until[first] > ns:
            return True
        received = {
            value: copy
            for reader in (first, second)
            for maker, value, copy in self.reads[reader]
            if maker < first and until[second + 1] - until[maker] > ns
        }
        return sum(received.values()) > ns


def _longest(problem: PlacementProblem, least: np.ndarray, tail: np.ndarray) -> list[int]:
    """The nodes of the longest chain, in their order."""
    readers: list[list[int]] = [[] for _ in range(problem.num_nodes)]
    for nid, value in zip(problem.use_nid.tolist(), problem.use_value.tolist(), strict=True):
        maker = int(problem.ready[value])
        if maker >= 0:
            readers[maker].append(nid)
    calls = problem.graph.func_id >= 0
    if not calls.any():
        return []
    found = [int(np.argmax(np.where(calls, least + tail, -1)))]
    while readers[found[-1]]:
        found.append(max(readers[found[-1]], key=lambda nid: (least[nid] + tail[nid], -nid)))
    return found
