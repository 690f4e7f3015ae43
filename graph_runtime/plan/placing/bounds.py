"""Lower bounds of the time of every assignment of a problem, without a search."""

from __future__ import annotations

import numpy as np

from .problem import UNSUPPORTED, PlacementProblem

_STEPS = 100  # steps that improve the device weights of the bound in _share
_SCALE = 4096  # device weights are rounded to integers at this scale
_TRIES = 24  # bisection steps for the least time from run to run that the longest chain allows
_STARTS = 8  # first nodes of the chain from which sets of nodes that exclude each other are sought
_LONGEST = 1500  # most nodes of a chain that is examined


def least_times(problem: PlacementProblem) -> tuple[np.ndarray, np.ndarray]:
    """(int64 [nodes], int64 [nodes]): each node's least time, and the time of the longest chain after the
    node."""
    least = np.where(problem.allowed, problem.cost, UNSUPPORTED).min(1)
    tail = np.zeros(problem.num_nodes, np.int64)
    for nid, value in zip(problem.use_nid[::-1].tolist(), problem.use_value[::-1].tolist(), strict=True):
        maker = problem.ready[value]
        if maker >= 0:
            tail[maker] = max(tail[maker], least[nid] + tail[nid])
    return least, tail


def lower_bound(problem: PlacementProblem) -> int:
    """Lower bound in ns of all assignments, including assignments that do not fit the memories. Serial: every
    node takes the time of its fastest device, and copies are free. Makespan: the larger of the longest chain
    and the work divided among devices. Throughput: the largest of the divided work, the longest node, the
    nodes joined by expensive copies, and the time for which the longest chain needs no more devices than
    there are."""
    least, tail = least_times(problem)
    if problem.objective == "serial":
        return int(least.sum())
    if problem.objective == "makespan":
        return max(_share(problem), int((least + tail).max(initial=0)))
    found = max(_share(problem), int(least.max(initial=0)), _clustered(problem))
    return max(found, _stretched(problem, found))


def _clustered(problem: PlacementProblem) -> int:
    """Lower bound in ns of the busiest queue's work. An assignment either makes the copy of some value, or
    has the value's node and its readers on one device, which then has the work of all nodes joined in this
    way. Values are joined in order of falling copy times. Each number of joins gives two numbers: the time of
    the most expensive copy that is left, and the largest joined work. The result is the least, over all
    numbers of joins, of the larger of these two."""
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
    """Lower bound in ns of the busiest device's work. For any weights of the devices that sum to 1, that work
    is at least the weighted mean of all devices' work, in which each node counts at least as much as on the
    device where its weighted time is least. The weights are adapted step by step to the loads of such an
    assignment."""
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


def _stretched(problem: PlacementProblem, known: int) -> int:
    """Lower bound in ns of the time from run to run, by bisection from a known bound (``known``). A queue
    takes runs one after another. If two nodes of a chain are on one device, the time from run to run is
    therefore at least that from the beginning of the first node to the end of the second. Within this time
    the device also receives all values that the two nodes read from earlier nodes too far away to be on the
    same device. A time is impossible if more nodes exclude each other than there are devices."""
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
    """The longest chain by least times: ``nodes``, and ``until`` int64 [nodes + 1], the ns of the nodes
    before each node."""

    def __init__(self, problem: PlacementProblem):
        self.devices = len(problem.running)
        least, tail = least_times(problem)
        longest = _longest(problem, least, tail)
        self.nodes = [nid for nid in longest if least[nid]]  # nodes that take no time may be no instructions
        self.until = np.concatenate([[0], np.cumsum(least[self.nodes])]).astype(np.int64)
        place = {nid: at for at, nid in enumerate(self.nodes)}
        # for each node, the values that it reads from the chain: (place of the value's node, value, ns of the
        # copy)
        self.reads: list[list[tuple[int, int, int]]] = [[] for _ in self.nodes]
        running = problem.running
        if problem.on_host[running].any() or len(running) < 2:
            return  # copies from a device to a host have their own queue
        apart = ~np.eye(len(running), dtype=bool)
        ways = problem.copy[:, running][:, :, running][:, apart].min(1)
        for nid, value in zip(problem.use_nid.tolist(), problem.use_value.tolist(), strict=True):
            maker = int(problem.ready[value])
            if nid in place and maker in place and problem.owner[value] == maker:
                self.reads[place[nid]].append((place[maker], value, int(ways[value])))

    def fits(self, ns: int) -> bool:
        """Whether the devices may suffice for a time of ``ns`` from run to run."""
        starts = range(min(_STARTS, len(self.nodes)))
        return all(len(self._apart(start, ns)) <= self.devices for start in starts)

    def _apart(self, start: int, ns: int) -> list[int]:
        """Places of nodes of which no two can be on one device: ``start``, then each later node that cannot
        share a device with any node found before."""
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
