"""The placement policies by name, and policies from outside: ``package.module:function``.

A policy is ``policy(problem) -> int array [nodes]`` of device indices. All policies except ``single`` end in
a local search, which starts from their own answer and from the best single device, so that no policy is worse
than the best device alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...base.errors import CapacityError, InputError, PlanError, did_you_mean
from ...base.outside import find_outside, name_of
from .cuts import best_cut, priced
from .exact import solve
from .problem import UNSUPPORTED, PlacementProblem
from .schedule import NO_ROOM, evaluate
from .search import fill, refine, singles
from .shortages import no_room


def heft_order(problem: PlacementProblem) -> np.ndarray:
    """int16 [nodes]: the assignment of HEFT (Topcuoglu, Hariri and Wu, 2002). The node with the longest way
    to the end comes first, and each node goes to the device where it ends earliest, in a gap if it fits.
    Copies take their time but occupy no queue."""
    allowed, count = problem.allowed, problem.num_nodes
    reads: list[list[int]] = [[] for _ in range(count)]
    for nid, value in zip(problem.use_nid.tolist(), problem.use_value.tolist(), strict=True):
        reads[nid].append(value)
    did, over = [-1] * count, [0] * count
    busy: list[list[tuple[int, int]]] = [[] for _ in problem.devices]
    owner, ready = problem.owner.tolist(), problem.ready.tolist()
    copy, cost = problem.copy.tolist(), problem.cost.tolist()
    options = [np.flatnonzero(row).tolist() for row in allowed]
    for nid in _by_rank(problem):
        best: tuple[int, int, int] | None = None  # (end, device, start) of the earliest end
        for device in options[nid]:
            begin = 0
            for value in reads[nid]:
                source = did[owner[value]]
                there = copy[value][source][device] if source >= 0 else 0
                begin = max(begin, there + (over[ready[value]] if ready[value] >= 0 else 0))
            start = _gap(busy[device], begin, cost[nid][device])
            if best is None or start + cost[nid][device] < best[0]:
                best = (start + cost[nid][device], device, start)
        assert best is not None  # some device can run every node
        over[nid], did[nid], start = best
        if over[nid] > start:
            slots = busy[did[nid]]
            slots.insert(bisect_left(slots, (start, over[nid])), (start, over[nid]))
    return np.array(did, np.int16)


def _by_rank(problem: PlacementProblem) -> list[int]:
    """Nodes in order of the mean time from a node's beginning to the end of all nodes that depend on it,
    longest first."""
    k = problem.num_devices
    able = problem.cost < UNSUPPORTED
    mean = np.where(able, problem.cost, 0).sum(1) / np.maximum(able.sum(1), 1)
    moved = problem.copy.sum((1, 2)) / max(k * (k - 1), 1)
    rank = mean.copy()
    for nid, value in zip(problem.use_nid[::-1].tolist(), problem.use_value[::-1].tolist(), strict=True):
        maker = problem.ready[value]
        if maker >= 0:
            rank[maker] = max(rank[maker], mean[maker] + moved[value] + rank[nid])
    return np.lexsort((np.arange(len(rank)), -rank)).tolist()


def _gap(busy: list[tuple[int, int]], begin: int, ns: int) -> int:
    """The earliest start, not before ``begin``, of a span of ``ns`` between the busy times."""
    at = bisect_left(busy, (begin, 0))
    if at:
        begin = max(begin, busy[at - 1][1])
    for start, end in busy[at:]:
        if begin + ns <= start:
            return begin
        begin = max(begin, end)
    return begin


PlacementPolicy = Callable[[PlacementProblem], np.ndarray]
_TILTS = (0.25, 0.5, 0.8, 1.25, 2.0, 4.0)  # factors of one device's times, tried so that cuts divide the work
_FEW = 4  # most devices whose times are tilted; with more, contiguous cuts are better
_SEARCHED = 60  # most nodes of a graph that is searched for a placement with room if a policy finds none
_MANY = 3000  # from this number of nodes on, fewer cuts are tried


def single(problem: PlacementProblem) -> np.ndarray:
    """The best device for the objective takes all nodes that it can run and has room for; the other nodes go
    to a host, or to a device with room."""
    rows = singles(problem)
    if problem.room.binds:
        rows = np.stack([*rows, fill(problem, rows)])
    return rows[np.argmin(evaluate(problem, rows))]


def greedy(problem: PlacementProblem) -> np.ndarray:
    """Nodes in order: each node goes to the device where the node and the copies of its inputs take the least
    time; then local search."""
    allowed = np.where(problem.allowed, problem.cost, UNSUPPORTED)
    did = np.argmin(allowed, 1).astype(np.int16)
    first = np.searchsorted(problem.use_nid, np.arange(problem.num_nodes + 1))
    there = np.zeros((len(problem.eid), problem.num_devices), bool)
    for nid in range(problem.num_nodes):
        values = problem.use_value[first[nid] : first[nid + 1]]
        ways = problem.copy[values, did[problem.owner[values]]]  # ns; 0 if the value is there already
        did[nid] = np.argmin(allowed[nid] + np.where(there[values], 0, ways).sum(0))
        there[values, did[nid]] = True
    return refine(problem, [did])


def mincut(problem: PlacementProblem) -> np.ndarray:
    """Least serial time, by cuts: exact for two devices. Other objectives also try cuts with one device's
    times multiplied by a factor. A local search follows."""
    starts = singles(problem)
    if problem.num_devices > _FEW:  # then most of the devices are equal
        starts = starts[np.argsort(evaluate(problem, starts), kind="stable")[:2]]
    plain = best_cut(problem, starts)
    fits = evaluate(problem, plain[None])[0] < NO_ROOM
    found = [plain] if fits else priced(problem, starts)[0]
    if problem.objective == "serial":
        return plain if fits and len(problem.running) <= 2 else refine(problem, found)
    for device in range(problem.num_devices if problem.num_devices <= _FEW else 0):
        for tilt in _TILTS if problem.num_nodes < _MANY else _TILTS[1::3]:
            cost = problem.cost.copy()
            able = cost[:, device] < UNSUPPORTED
            cost[able, device] = (cost[able, device] * tilt).astype(np.int64)
            found.append(best_cut(problem, starts, cost))
    return refine(problem, found)


def heft(problem: PlacementProblem) -> np.ndarray:
    """HEFT: the node with the longest way to the end comes first, and each node goes to the device where it
    ends earliest; then local search."""
    return refine(problem, [heft_order(problem)])


def optimal(problem: PlacementProblem) -> np.ndarray:
    """The optimum, by branch and bound, for graphs of about 20 nodes; for larger graphs the best assignment
    found."""
    rows = np.stack([mincut(problem), heft(problem)])
    return solve(problem, rows[np.argmin(evaluate(problem, rows))]).did


PLACEMENT_POLICIES: dict[str, PlacementPolicy] = {
    "single": single,
    "greedy": greedy,
    "mincut": mincut,
    "heft": heft,
    "optimal": optimal,
}


def find_policy(name: str | PlacementPolicy) -> PlacementPolicy:
    """The policy with this name, the function of ``package.module:function``, or the given function itself.

    Raises InputError for an unknown name, PlanError for a module or function that cannot be found.
    """
    if callable(name):
        return name
    if not isinstance(name, str):
        text = f"a placement is a policy's name or a function, got {type(name).__name__}"
        raise InputError(text, got=type(name).__name__, wanted=[*PLACEMENT_POLICIES])
    if ":" not in name:
        if name not in PLACEMENT_POLICIES:
            raise InputError(
                f"unknown placement policy {name!r}{did_you_mean(name, PLACEMENT_POLICIES)}; write "
                "your own policy as package.module:function",
                got=name,
                wanted=[*PLACEMENT_POLICIES],
            )
        return PLACEMENT_POLICIES[name]
    return find_outside("placement policy", name)


def decide(problem: PlacementProblem, policy: str | PlacementPolicy) -> np.ndarray:
    """int32 [nodes]: the checked answer of a policy; if it lacks room, a small graph is searched for a
    placement with room. Raises PlanError for an answer that is no placement, CapacityError if devices lack
    room for its parameters and circular buffers."""
    name = name_of(policy)
    try:
        said = find_policy(policy)(problem)
    except (InputError, PlanError):
        raise
    except Exception as error:
        if name in PLACEMENT_POLICIES:
            raise
        raise PlanError(
            f"placement policy {name} failed: {type(error).__name__}: {error}", got=name
        ) from error
    did = _checked(problem, said, name)
    if not problem.room.excess(did[None])[0]:
        return did
    if name in PLACEMENT_POLICIES and (problem.graph.func_id >= 0).sum() <= _SEARCHED:
        did = solve(problem, did.astype(np.int16)).did.astype(np.int32)  # another assignment may fit
        if not problem.room.excess(did[None])[0]:
            return did
    room = problem.room
    if (room.parameters(did[None])[0] + room.buffers(did[None])[0] <= room.available).all():
        return did  # the plan's own check decides: overwritten inputs or another order may save the rest
    raise no_room(problem, did, name)


def wanted_room(problem: PlacementProblem) -> CapacityError | None:
    """The shortage of the placement that ``mincut`` would choose if memories had no limits; None if there is
    room for that placement."""
    room = problem.room
    if not room.binds:
        return None
    endless = replace(room, available=np.full_like(room.available, np.iinfo(np.int64).max >> 1))
    did = decide(replace(problem, room=endless), "mincut")
    return no_room(problem, did, "mincut") if room.excess(did[None])[0] else None


def _checked(problem: PlacementProblem, said: object, name: str) -> np.ndarray:
    count, k = problem.num_nodes, problem.num_devices
    wanted = f"a policy returns integers [{count}], the device index of each node"
    try:
        did = np.asarray(said)
    except ValueError as error:  # rows of different lengths
        text = f"placement policy {name} returned no array: {error}; {wanted}"
        raise PlanError(text, got=type(said).__name__, wanted=f"int[{count}]") from None
    if did.shape != (count,) or did.dtype.kind not in "iu":
        text = f"placement policy {name} returned {did.dtype}{list(did.shape)}: {wanted}"
        raise PlanError(text, got=str(did.dtype), wanted=f"int[{count}]")
    bad = np.flatnonzero((did < 0) | (did >= k))
    if len(bad):
        node, at = problem.graph.names[bad[0]], int(did[bad[0]])
        text = f"placement policy {name} put node {node!r} on device {at}: there are 0 to {k - 1}"
        raise PlanError(text, node=node, got=at, wanted=k - 1)
    did = np.where(problem.graph.func_id < 0, problem.pin, did).astype(np.int32)
    bad = np.flatnonzero(~problem.allowed[np.arange(count), did])
    if len(bad):
        nid, at = int(bad[0]), int(did[bad[0]])
        node, device, pin = problem.graph.names[nid], str(problem.devices[at]), int(problem.pin[nid])
        reason = problem.reasons.get((int(problem.graph.func_id[nid]), at), "the device cannot run it")
        if pin >= 0 and pin != at:
            reason = f"it is pinned to {problem.devices[pin]}"
        text = (
            f"placement policy {name} put node {node!r} on {device}: {reason}; choose among problem.allowed"
        )
        raise PlanError(text, node=node, device=device, reason=reason)
    return did
