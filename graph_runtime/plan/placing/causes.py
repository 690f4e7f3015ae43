"""The reason why a policy placed each node where it is, in one sentence with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .problem import UNSUPPORTED, PlacementProblem
from .schedule import NO_ROOM, copy_changes, evaluate

_MOST_MOVES = 64  # most assignments with one node moved that are timed


class _Move(NamedTuple):
    """A move of one node to device ``to``, in ns: ``cost``, the node's time there; ``copies``, the added time
    of copies; ``gain``, the time that the move saves."""

    to: int
    cost: int
    copies: int
    gain: int


def sentences(problem: PlacementProblem, did: np.ndarray, nids: np.ndarray, policy: str) -> list[str]:
    """A sentence for each of ``nids``: the node's time on its device and on the next best device, with the
    copies that a move there would add or save. If the move would gain by itself, the sentence also has the
    change of the objective."""
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
        text = f"{head}{names[here]} {time_text(int(problem.cost[nid, here]))}; {_there(move, names)}"
        found.append(text + (_gain(problem, move, wholes.get(nid), names[move.to]) if move.gain > 0 else ""))
    return found


def _head(problem: PlacementProblem, policy: str) -> str:
    return f"{policy}: " if problem.objective == "serial" else f"{policy} ({problem.objective}): "


def _there(move: _Move, names: list[str]) -> str:
    text = f"{names[move.to]} {time_text(move.cost)}"
    if not move.copies:
        return text
    how = "and adds" if move.copies > 0 else "but saves"
    return f"{text}, {how} {time_text(abs(move.copies))} of copies"


def _wholes(problem: PlacementProblem, did: np.ndarray, moves: Mapping[int, _Move]) -> dict[int, int]:
    """{node: change of the objective in ns} for the nodes whose move would gain most, each moved alone; the
    change is NO_ROOM / 2 or more if the node would not fit."""
    gains = {nid: move.gain for nid, move in moves.items() if move.gain > 0}
    if problem.objective == "serial" and not problem.room.binds:
        return {nid: -gain for nid, gain in gains.items()}  # the serial time is a sum, so gains are exact
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
    """Text about the effect on the objective of a move that gains by itself; ``whole``: the change of the
    objective in ns, None if it was not computed."""
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
    known = [(name, problem.reasons.get((fid, d))) for d, name in enumerate(names)]
    reasons = [f"{name}: {reason}" for name, reason in known if reason is not None]
    return f"only {names[here]} can run it" + (f" ({'; '.join(reasons)})" if reasons else "")


def time_text(ns: int) -> str:
    """A time for people: "4.7 us", "0.120 ms"."""
    return f"{ns / 1000:.1f} us" if ns < 100_000 else f"{ns / 1e6:.3f} ms"
