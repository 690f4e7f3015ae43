"""Local search: nodes change their device, alone or in groups that belong together, while the objective
falls. A round tries all moves. It then makes the gaining moves that do not conflict, best first: as many as
give the best result together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice

import numpy as np

from .bounds import lower_bound
from .pipeline import contiguous, reseat
from .problem import PlacementProblem
from .schedule import copy_changes, evaluate, scores

_SMALL = 16  # most nodes of a graph in which every pair and triple is tried
_MOST_CELLS = 12_000_000  # most (assignment, node) pairs that a search evaluates, in 1 to 2 s
_MOST_ROWS = 4096  # most single nodes and groups moved in a round
_NEVER = np.iinfo(np.int64).max
_SERIAL, _SOFT = 1, 2  # columns of schedule.scores
_STARTS = 3  # number of assignments that are improved


def singles(problem: PlacementProblem) -> np.ndarray:
    """int16 [k, nodes]: one assignment per device. In a device's row, the device has every node that it can
    run; the other nodes are where PlacementProblem.elsewhere puts them. A device that can run nothing has the
    same row as the first device that can run something."""
    allowed, other = problem.allowed, problem.elsewhere
    running = problem.running.tolist() or [0]
    chosen = [d if d in running else running[0] for d in range(problem.num_devices)]
    return np.stack([np.where(allowed[:, d], d, other) for d in chosen]).astype(np.int16)


def refine(problem: PlacementProblem, starts: Sequence[np.ndarray]) -> np.ndarray:
    """The best result of local search from ``starts`` and from the best single device; no start is better."""
    alone = singles(problem)
    rows = np.stack([*starts, *alone]).astype(np.int16)
    if problem.objective == "throughput" or problem.room.binds:
        cuts = contiguous(problem)
        seated = [other for cut in cuts for other in reseat(problem, cut)]
        rows = np.stack([*rows, *cuts, *seated])
    if problem.room.binds:
        rows = np.stack([*rows, fill(problem, starts), fill(problem, alone)])
    rows = np.unique(rows, axis=0)
    times = evaluate(problem, rows)
    proved = bool(times.min() <= lower_bound(problem))  # then only the serial time can fall
    best = rows[np.argsort(times, kind="stable")[: 1 if proved else _STARTS]]
    groups = _groups(problem)
    cells = _MOST_CELLS // len(best)
    if problem.objective == "throughput" and not proved:  # plateaus are wide: shorten all queues first
        best = np.stack([improve(problem, row, groups, cells, by=_SOFT) for row in best])
    found = np.stack([improve(problem, row, groups, cells) for row in best])
    serial = scores(problem, found)[:, _SERIAL]
    at = np.lexsort((serial, evaluate(problem, found)))[0]
    if problem.objective == "serial":
        return found[at]
    within = int(scores(problem, found[[at]])[0, 0])
    less = improve(problem, found[at], groups, cells, by=_SERIAL, within=within)
    both = np.stack([less, found[at], best[0]])
    return both[np.argmin(evaluate(problem, both))]


def fill(problem: PlacementProblem, starts: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """The best of ``starts`` after nodes have moved, the last node first, from devices without room to the
    device with most room. If no assignment fits, the result is the assignment that lacks the fewest bytes."""
    rows = np.stack([_spill(problem, start.astype(np.int16)) for start in starts])
    return rows[np.argmin(evaluate(problem, rows))]


def _spill(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    room, allowed, did = problem.room, problem.allowed, did.copy()
    free = (problem.graph.func_id >= 0) & (allowed.sum(1) > 1)
    for device in range(problem.num_devices):
        if not room.missing(did[None])[0][device] > 0:
            continue
        mine = np.flatnonzero(free & (did == device))[::-1]
        for other in np.argsort(room.missing(did[None])[0], kind="stable").tolist():
            able = mine[allowed[mine, other] & (did[mine] == device)]
            if other == device or not len(able):
                continue
            low, high = 0, len(able)  # bisect the number of nodes to move
            while low < high:
                middle = (low + high) // 2
                trial = did.copy()
                trial[able[:middle]] = other
                missing = room.missing(trial[None])[0]
                if missing[device] > 0 and missing[other] <= 0:
                    low = middle + 1
                else:
                    high = middle
            for count in (low, low - 1):
                trial = did.copy()
                trial[able[: max(count, 0)]] = other
                if room.excess(trial[None])[0] < room.excess(did[None])[0]:
                    did = trial
                    break
            if not room.missing(did[None])[0][device] > 0:
                break
    return did


def improve(
    problem: PlacementProblem,
    did: np.ndarray,
    groups: list[np.ndarray],
    cells: int,
    by: int = 0,
    within: int = _NEVER,
) -> np.ndarray:
    """``did`` int16 [nodes] after local search over at most ``cells`` pairs of assignment and node. ``by``:
    the column of schedule.scores that is minimised, while the objective stays at most ``within`` ns."""

    def score(rows: np.ndarray) -> np.ndarray:
        found = scores(problem, rows)
        return np.where(found[:, 0] <= within, found[:, by], _NEVER)

    best = int(score(did[None])[0])
    while True:
        moves = _moves(problem, did, groups, min(_MOST_ROWS, cells // (2 * problem.num_nodes)))
        if not len(moves):
            return did
        times = score(moves)
        cells -= 2 * moves.size
        gains = np.flatnonzero(times < best)
        if not len(gains):
            return did
        order = gains[np.argsort(times[gains], kind="stable")]
        together = _together(did, moves[order])
        times = score(together)
        did, best = together[np.argmin(times)], int(times.min())


def _together(did: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Assignments: the first of ``moves`` (best first), the first two together, and so on. A move of nodes
    that an earlier move has changed is left out."""
    found, now, changed = [], did.copy(), np.zeros(len(did), bool)
    for move in moves:
        differs = move != did
        if not (differs & changed).any():
            now = np.where(differs, move, now)
            changed |= differs
            found.append(now)
    return np.stack(found)


def _moves(problem: PlacementProblem, did: np.ndarray, groups: list[np.ndarray], most: int) -> np.ndarray:
    """int16 [rows, nodes]: at most ``most`` assignments with one group moved to one device, and the swaps;
    single nodes come first, by their gain in serial time."""
    allowed, k, calls = problem.allowed, problem.num_devices, np.flatnonzero(problem.graph.func_id >= 0)
    free = allowed & (np.arange(k) != did[:, None]) & (problem.graph.func_id >= 0)[:, None]
    gain = problem.cost - problem.cost[np.arange(len(did)), did][:, None] + copy_changes(problem, did)
    nid, target = np.nonzero(free)
    order = np.argsort(gain[nid, target], kind="stable")
    rows = [(np.array([n]), d) for n, d in zip(nid[order].tolist(), target[order].tolist(), strict=True)]
    half = rows if len(rows) <= most // 2 else rows[: most // 2]
    wide = [(group[free[group, d]], d) for group in groups for d in range(k)]
    chosen = half + [(group, d) for group, d in wide if len(group)][: most - len(half)]
    moves = np.repeat(did[None], len(chosen), 0)
    for row, (group, d) in enumerate(chosen):
        moves[row, group] = d
    moves = np.concatenate([moves, _swaps(allowed, did, calls)])
    return np.unique(moves, axis=0) if len(moves) else moves


def _swaps(allowed: np.ndarray, did: np.ndarray, calls: np.ndarray) -> np.ndarray:
    """int16 [swaps, nodes]: assignments with two nodes of different devices exchanged; no rows for large
    graphs."""
    if len(calls) > _SMALL:
        return np.zeros((0, len(did)), did.dtype)
    pairs = [
        (a, b)
        for a, b in combinations(calls.tolist(), 2)
        if did[a] != did[b] and allowed[a, did[b]] and allowed[b, did[a]]
    ]
    rows = np.repeat(did[None], len(pairs), 0)
    for row, (a, b) in enumerate(pairs):
        rows[row, [a, b]] = did[[b, a]]
    return rows


def _groups(problem: PlacementProblem) -> list[np.ndarray]:
    """Sets of nodes that may move together: a node with all nodes that depend on it alone (a branch), a
    producer with a reader, and in small graphs any two or three nodes."""
    calls = np.flatnonzero((problem.graph.func_id >= 0) & (problem.allowed.sum(1) > 1)).tolist()
    owner, reader, _ = problem.edges.T
    found = {tuple(branch) for branch in _branches(problem, calls) if len(branch) > 1}
    found |= {(a, b) for a, b in zip(owner.tolist(), reader.tolist(), strict=True)}
    if len(calls) <= _SMALL:
        found |= {*combinations(calls, 2), *combinations(calls, 3)}
    ordered = sorted(found, key=lambda group: (-len(group), group))
    return [np.array(group) for group in ordered]


def _branches(problem: PlacementProblem, calls: list[int]) -> list[list[int]]:
    """For each node: the node, then the nodes that read only its outputs or outputs of nodes already in the
    list."""
    sources: list[set[int]] = [set() for _ in range(problem.num_nodes)]
    readers: list[list[int]] = [[] for _ in range(problem.num_nodes)]
    for owner, nid, _ in problem.edges.tolist():
        if nid > owner and owner not in sources[nid]:
            sources[nid].add(owner)
            readers[owner].append(nid)
    budget, found = 50 * problem.num_nodes, []
    for root in islice(calls, _MOST_ROWS):
        branch, missing = [root], dict[int, int]()
        for node in branch:
            for nid in readers[node]:
                missing[nid] = missing.get(nid, len(sources[nid])) - 1
                if missing[nid] == 0:
                    branch.append(nid)
        found.append(branch)
        budget -= len(branch)
        if budget < 0:
            break
    return found
