"""Why a policy put each node where it is, in one sentence with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .deltas import copy_changes
from .problem import UNSUPPORTED, PlacementProblem
from .schedule import NO_ROOM, evaluate

__all__ = ["sentences", "time_text"]

_MOST_MOVES = 64  # whole assignments with one node moved that are timed


class _Move(NamedTuple):
    """A node alone on another device, ns: ``cost`` there, ``copies`` more, ``gain`` by the sum of both."""

    to: int
    cost: int
    copies: int
    gain: int


def sentences(problem: PlacementProblem, did: np.ndarray, nids: np.ndarray, policy: str) -> list[str]:
    """One for each of ``nids``: its time where it is, and what the next best device would cost, with the
    copies that it would add; where that would gain, what the objective would be then."""
    change = copy_changes(problem, did)
    able = problem.cost < UNSUPPORTED
    able[np.arange(len(did)), did] = False
    other = np.argmin(np.where(able, problem.cost + change, np.iinfo(np.int64).max), 1)
    moves: dict[int, _Move] = {}
    for nid in nids[able[nids].any(1)].tolist():
        to, copies = int(other[nid]), int(change[nid, other[nid]])
        cost = int(problem.cost[nid, to])
        moves[nid] = _Move(to, cost, copies, int(problem.cost[nid, did[nid]]) - cost - copies)
    wholes = _wholes(problem, did, moves)
    names, head = [str(d) for d in problem.devices], _head(problem, policy)
    found = []
    for nid in nids.tolist():
        here = int(did[nid])
        if (move := moves.get(nid)) is None:
            found.append(head + _no_choice(problem, names, nid, here))
            continue
        text = f"{head}{time_text(int(problem.cost[nid, here]))} here, {_there(move, names)}"
        found.append(text + (_gain(problem, move, wholes.get(nid), names[move.to]) if move.gain > 0 else ""))
    return found


def _head(problem: PlacementProblem, policy: str) -> str:
    return f"{policy}: " if problem.objective == "serial" else f"{policy} ({problem.objective}): "


def _there(move: _Move, names: list[str]) -> str:
    copies = "no other copies"
    if move.copies:
        copies = f"{time_text(abs(move.copies))} of copies {'more' if move.copies > 0 else 'less'}"
    return f"{time_text(move.cost)} and {copies} on {names[move.to]}"


def _wholes(problem: PlacementProblem, did: np.ndarray, moves: Mapping[int, _Move]) -> dict[int, int]:
    """{node: ns that the objective would take more} of those that would gain most, each moved alone; from
    NO_ROOM / 2 on where it would not fit."""
    gains = {nid: move.gain for nid, move in moves.items() if move.gain > 0}
    if problem.objective == "serial" and not problem.room.binds:
        return {nid: -gain for nid, gain in gains.items()}  # a sum
    gaining = sorted(gains, key=lambda nid: -gains[nid])[:_MOST_MOVES]
    if not gaining:
        return {}
    rows = np.repeat(did[None], len(gaining) + 1, 0)
    for row, nid in enumerate(gaining, 1):
        rows[row, nid] = moves[nid].to
    times = evaluate(problem, rows)
    if times[0] >= NO_ROOM:
        return {}
    return dict(zip(gaining, (times[1:] - times[0]).tolist(), strict=True))


def _gain(problem: PlacementProblem, move: _Move, whole: int | None, there: str) -> str:
    """What a move that gains by itself does to the whole; None: that was not timed."""
    text = f": alone it would gain {time_text(move.gain)} there"
    if whole is None:
        return text
    if whole >= NO_ROOM // 2:
        return f"{text}, but {there} has no room for it"
    if whole == -move.gain:
        return f"{text}, and so would the whole"
    change = f"{time_text(abs(whole))} {'more' if whole > 0 else 'less'}" if whole else "as long as now"
    return f"{text}, and the whole ({problem.objective}) would take {change}"


def _no_choice(problem: PlacementProblem, names: list[str], nid: int, here: int) -> str:
    fid = int(problem.graph.func_id[nid])
    reasons = [
        f"{names[d]}: {problem.reasons[fid, d]}" for d in range(len(names)) if (fid, d) in problem.reasons
    ]
    return f"only {names[here]} can run it" + (f" ({'; '.join(reasons)})" if reasons else "")


def time_text(ns: int) -> str:
    """ "4.7 us", "0.120 ms"."""
    return f"{ns / 1000:.1f} us" if ns < 100_000 else f"{ns / 1e6:.3f} ms"
