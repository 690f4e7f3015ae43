"""The placement policies by name, and those from outside: ``package.module:function``.

One is ``policy(problem) -> int array [nodes]`` of device indices. All but ``single`` end in a local
search from their own answer and the best single device, so that none is worse than that device alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...base.errors import CapacityError, InputError, PlanError, did_you_mean
from ...base.outside import find_outside, name_of
from .cuts import best_cut, priced
from .exact import solve
from .heft import heft as heft_order
from .problem import UNSUPPORTED, PlacementProblem
from .schedule import NO_ROOM, evaluate
from .search import fill, refine, singles
from .shortages import no_room

__all__ = ["PLACEMENT_POLICIES", "PlacementPolicy", "decide", "find_policy", "wanted_room"]

PlacementPolicy = Callable[[PlacementProblem], np.ndarray]
_TILTS = (0.25, 0.5, 0.8, 1.25, 2.0, 4.0)  # a device is made dearer, so that cuts share work out
_FEW = 4  # devices, more of which would be too many tilts: contiguous cuts serve those better
_SEARCHED = 60  # nodes of a graph that is searched for a placement that fits where a policy has none
_MANY = 3000  # nodes from which fewer cuts are tried


def single(problem: PlacementProblem) -> np.ndarray:
    """Everything that it can run and has room for on one device, the best for the objective; the rest on a
    host, or where there is room."""
    rows = singles(problem)
    if problem.room.binds:
        rows = np.stack([*rows, fill(problem, rows)])
    return rows[np.argmin(evaluate(problem, rows))]


def greedy(problem: PlacementProblem) -> np.ndarray:
    """Node by node, each where it and the copies of what it reads take least; then local search."""
    allowed = np.where(problem.allowed, problem.cost, UNSUPPORTED)
    did = np.argmin(allowed, 1).astype(np.int16)
    first = np.searchsorted(problem.use_nid, np.arange(problem.num_nodes + 1))
    there = np.zeros((len(problem.eid), problem.num_devices), bool)
    for nid in range(problem.num_nodes):
        values = problem.use_value[first[nid] : first[nid + 1]]
        ways = problem.copy[values, did[problem.owner[values]]]  # 0 where it lies already
        did[nid] = np.argmin(allowed[nid] + np.where(there[values], 0, ways).sum(0))
        there[values, did[nid]] = True
    return refine(problem, [did])


def mincut(problem: PlacementProblem) -> np.ndarray:
    """Least serial time, by cuts: exact for two devices. For other objectives cuts with one device made
    dearer, then local search."""
    starts = singles(problem)
    if problem.num_devices > _FEW:  # most are equal
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
    """Longest way to the end first, each where it is over earliest; then local search."""
    return refine(problem, [heft_order(problem)])


def optimal(problem: PlacementProblem) -> np.ndarray:
    """The best there is, by branch and bound, for graphs of about 20 nodes; of larger ones the best seen."""
    return solve(problem, _start(problem)).did


def _start(problem: PlacementProblem) -> np.ndarray:
    rows = np.stack([mincut(problem), heft(problem)])
    return rows[np.argmin(evaluate(problem, rows))]


PLACEMENT_POLICIES: dict[str, PlacementPolicy] = {
    "single": single,
    "greedy": greedy,
    "mincut": mincut,
    "heft": heft,
    "optimal": optimal,
}


# **************** use ****************


def find_policy(name: str | PlacementPolicy) -> PlacementPolicy:
    """The policy of that name, of ``package.module:function``, or a function itself.

    Raises InputError for a name that there is not, PlanError for a module that cannot be imported.
    """
    if callable(name):
        return name
    if not isinstance(name, str):
        raise InputError(
            f"a placement is a policy's name or a function, got {type(name).__name__}",
            got=type(name).__name__,
            wanted=[*PLACEMENT_POLICIES],
        )
    if ":" not in name:
        if name not in PLACEMENT_POLICIES:
            raise InputError(
                f"unknown placement policy {name!r}{did_you_mean(name, PLACEMENT_POLICIES)}; one of your "
                "own is package.module:function",
                got=name,
                wanted=[*PLACEMENT_POLICIES],
            )
        return PLACEMENT_POLICIES[name]
    return find_outside("placement policy", name)


def decide(problem: PlacementProblem, policy: str | PlacementPolicy) -> np.ndarray:
    """int32 [nodes]: what a policy says, checked. Raises PlanError where that is no placement, CapacityError
    where devices have no room for its parameters; a small graph is searched for one that fits before."""
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
        did = solve(problem, did.astype(np.int16)).did.astype(np.int32)  # some other placement may fit
        if not problem.room.excess(did[None])[0]:
            return did
    room = problem.room
    if (room.parameters(did[None])[0] + room.buffers(did[None])[0] <= room.available).all():
        return did  # outputs that take over inputs, and another order, need less: the plan's own count judges
    raise no_room(problem, did, name)


def wanted_room(problem: PlacementProblem) -> CapacityError | None:
    """What is missing for the placement that ``mincut`` would choose if memory were no matter; None where
    there is room for it."""
    room = problem.room
    if not room.binds:
        return None
    endless = replace(room, available=np.full_like(room.available, np.iinfo(np.int64).max >> 1))
    did = decide(replace(problem, room=endless), "mincut")
    return no_room(problem, did, "mincut") if room.excess(did[None])[0] else None


def _checked(problem: PlacementProblem, said: object, name: str) -> np.ndarray:
    count, k = problem.num_nodes, problem.num_devices
    try:
        did = np.asarray(said)
    except ValueError as error:  # rows of several lengths
        raise PlanError(
            f"placement policy {name} returned no array: {error}; a policy returns integers "
            f"[{count}], a device index of each node",
            got=type(said).__name__,
            wanted=f"int[{count}]",
        ) from None
    if did.shape != (count,) or did.dtype.kind not in "iu":
        raise PlanError(
            f"placement policy {name} returned {did.dtype}{list(did.shape)}: a policy returns "
            f"integers [{count}], a device index of each node",
            got=str(did.dtype),
            wanted=f"int[{count}]",
        )
    bad = np.flatnonzero((did < 0) | (did >= k))
    if len(bad):
        node = problem.graph.names[bad[0]]
        raise PlanError(
            f"placement policy {name} put node {node!r} on device {int(did[bad[0]])}: there are 0 to {k - 1}",
            node=node,
            got=int(did[bad[0]]),
            wanted=k - 1,
        )
    did = np.where(problem.graph.func_id < 0, problem.pin, did).astype(np.int32)
    bad = np.flatnonzero(~problem.allowed[np.arange(count), did])
    if len(bad):
        nid, device = int(bad[0]), problem.devices[did[bad[0]]]
        node, pin = problem.graph.names[nid], int(problem.pin[nid])
        reason = (
            f"it is pinned to {problem.devices[pin]}"
            if pin >= 0 and pin != did[nid]
            else problem.reasons.get(
                (int(problem.graph.func_id[nid]), int(did[nid])), "the device cannot run it"
            )
        )
        raise PlanError(
            f"placement policy {name} put node {node!r} on {device}: {reason}; choose among problem.allowed",
            node=node,
            device=str(device),
            reason=reason,
        )
    return did
