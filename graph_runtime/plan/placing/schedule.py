"""What assignments of nodes to devices would take in a problem's objective, many at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.errors import InputError, did_you_mean
from .problem import PlacementProblem
from .runs import periods
from .times import Times

__all__ = ["NO_ROOM", "OBJECTIVES", "evaluate", "measure", "require_objective", "scores"]

OBJECTIVES = ("serial", "makespan", "throughput")
_MOST_CELLS = 1 << 22  # int64 of arrival times that are held at once
NO_ROOM = 1 << 60  # ns of an assignment that devices have no room for, and one more for each byte missing


def measure(problem: PlacementProblem, did: np.ndarray) -> Times:
    """The times of assignments ``did`` int [rows, nodes]."""
    times = Times(problem, len(did))
    times.did[:] = did
    for nid in range(problem.num_nodes):
        times.step(nid, did[:, nid])
    return times


def evaluate(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [rows]: ns of each assignment of ``did`` int [rows, nodes] in the problem's objective; from
    NO_ROOM on where it does not fit, with the bytes that are missing."""
    found = [
        periods(problem, part) if problem.objective == "throughput" else _aim(problem, measure(problem, part))
        for part in _parts(problem, did)
    ]
    missing = problem.room.excess(did)
    return np.where(missing > 0, NO_ROOM + missing, np.concatenate([np.zeros(0, np.int64), *found]))


def scores(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [rows, 3], for a search: as evaluate, but Times.period for throughput; the serial time; the
    objective and the busiest queue's work, and a little of all others'."""
    found = np.zeros((0, 3), np.int64)
    for part in _parts(problem, did):
        times = measure(problem, part)
        aim = _aim(problem, times)
        soft = _soft_most(np.c_[times.load, aim] if problem.objective == "throughput" else times.load)
        found = np.concatenate([found, np.c_[aim, times.serial, soft]])
    missing = problem.room.excess(did)[:, None]
    return np.where(missing > 0, NO_ROOM + missing, found)


def _parts(problem: PlacementProblem, did: np.ndarray) -> list[np.ndarray]:
    """As many rows of ``did`` as may be held at once."""
    cells = max(problem.num_nodes, len(problem.eid) * problem.num_devices, 1)
    step = max(_MOST_CELLS // cells, 1)
    return [did[at : at + step] for at in range(0, len(did), step)]


def _aim(problem: PlacementProblem, times: Times) -> np.ndarray:
    if problem.objective == "throughput":
        return times.period
    return times.serial if problem.objective == "serial" else times.makespan


def _soft_most(load: np.ndarray) -> np.ndarray:
    """int64 [rows]: the sixth norm of each row: it falls where the largest stays and others fall."""
    most = np.maximum(load.max(1, initial=0), 1)
    return (most * ((load / most[:, None]) ** 6).sum(1) ** (1 / 6)).astype(np.int64)


def require_objective(objective: str, known: Sequence[str] = OBJECTIVES) -> None:
    """Raises InputError for what is no objective."""
    if objective not in known:
        raise InputError(
            f"unknown objective {objective!r}{did_you_mean(objective, known)}",
            got=objective,
            wanted=list(known),
        )
