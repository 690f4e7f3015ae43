"""Why a policy put each node where it is, in one sentence with numbers."""

from __future__ import annotations

import numpy as np

from .deltas import copy_changes
from .problem import UNSUPPORTED, PlacementProblem

__all__ = ["sentences", "time_text"]


def sentences(problem: PlacementProblem, did: np.ndarray, nids: np.ndarray, policy: str) -> list[str]:
    """One for each of ``nids``: its time where it is, and what the next best device would cost, with the
    copies that it would add."""
    change = copy_changes(problem, did)
    able = problem.cost < UNSUPPORTED
    able[np.arange(len(did)), did] = False
    other = np.argmin(np.where(able, problem.cost + change, np.iinfo(np.int64).max), 1)
    has_choice = np.asarray(able.any(1))
    names, head = [str(d) for d in problem.devices], _head(problem, policy)
    rows = zip(
        nids.tolist(), did[nids].tolist(), other[nids].tolist(), has_choice[nids].tolist(), strict=True
    )
    return [
        head
        + (
            _compared(problem, change, names, nid, here, there)
            if choice
            else _no_choice(problem, names, nid, here)
        )
        for nid, here, there, choice in rows
    ]


def _head(problem: PlacementProblem, policy: str) -> str:
    return f"{policy}: " if problem.objective == "serial" else f"{policy} ({problem.objective}): "


def _compared(
    problem: PlacementProblem, change: np.ndarray, names: list[str], nid: int, here: int, there: int
) -> str:
    copies = int(change[nid, there])
    moved = (
        f"{time_text(abs(copies))} of copies {'more' if copies > 0 else 'less'}"
        if copies
        else "no other copies"
    )
    text = f"{time_text(int(problem.cost[nid, here]))} here, {time_text(int(problem.cost[nid, there]))}"
    text = f"{text} and {moved} on {names[there]}"
    gain = int(problem.cost[nid, there] - problem.cost[nid, here]) + copies
    if gain >= 0:
        return text
    return f"{text}: alone it would gain {time_text(-gain)} there, at the cost of the whole"


def _no_choice(problem: PlacementProblem, names: list[str], nid: int, here: int) -> str:
    fid = int(problem.graph.func_id[nid])
    reasons = [
        f"{names[d]}: {problem.reasons[fid, d]}" for d in range(len(names)) if (fid, d) in problem.reasons
    ]
    return f"only {names[here]} can run it" + (f" ({'; '.join(reasons)})" if reasons else "")


def time_text(ns: int) -> str:
    """ "4.7 us", "0.120 ms"."""
    return f"{ns / 1000:.1f} us" if ns < 100_000 else f"{ns / 1e6:.3f} ms"
