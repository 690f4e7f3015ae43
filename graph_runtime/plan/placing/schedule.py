"""Times of assignments of nodes to devices in a problem's objective, many assignments at a time; and the
serial time of one assignment, with its changes if a node moves."""

from __future__ import annotations

import numpy as np

from ...base.errors import InputError, did_you_mean
from .problem import PlacementProblem
from .times import Times, periods

OBJECTIVES = ("serial", "makespan", "throughput")
_MOST_CELLS = 1 << 22  # most int64 numbers of arrival times that are in memory at once
NO_ROOM = 1 << 60  # ns of an assignment without room, plus one for each missing byte


def measure(problem: PlacementProblem, did: np.ndarray) -> Times:
    """The Times of the assignments ``did`` int [rows, nodes]."""
    times = Times(problem, len(did))
    times.did[:] = did
    for nid in range(problem.num_nodes):
        times.step(nid, did[:, nid])
    return times


def evaluate(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [rows]: ns of each assignment of ``did`` int [rows, nodes] in the problem's objective; NO_ROOM
    plus the missing bytes for an assignment that does not fit."""
    found = [
        periods(problem, part) if problem.objective == "throughput" else _aim(problem, measure(problem, part))
        for part in _parts(problem, did)
    ]
    missing = problem.room.excess(did)
    return np.where(missing > 0, NO_ROOM + missing, np.concatenate([np.zeros(0, np.int64), *found]))


def scores(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [rows, 3], for a search. Columns: the objective as in evaluate, but Times.period for throughput;
    the serial time; a soft maximum of the work of all queues (and, for throughput, of the objective)."""
    found = np.zeros((0, 3), np.int64)
    for part in _parts(problem, did):
        times = measure(problem, part)
        aim = _aim(problem, times)
        soft = _soft_most(np.c_[times.load, aim] if problem.objective == "throughput" else times.load)
        found = np.concatenate([found, np.c_[aim, times.serial, soft]])
    missing = problem.room.excess(did)[:, None]
    return np.where(missing > 0, NO_ROOM + missing, found)


def _parts(problem: PlacementProblem, did: np.ndarray) -> list[np.ndarray]:
    """``did`` in slices of rows that keep within _MOST_CELLS."""
    cells = max(problem.num_nodes, len(problem.eid) * problem.num_devices, 1)
    step = max(_MOST_CELLS // cells, 1)
    return [did[at : at + step] for at in range(0, len(did), step)]


def _aim(problem: PlacementProblem, times: Times) -> np.ndarray:
    if problem.objective == "throughput":
        return times.period
    return times.serial if problem.objective == "serial" else times.makespan


def _soft_most(load: np.ndarray) -> np.ndarray:
    """int64 [rows]: the sixth norm of each row, which also falls if the largest element stays and others
    fall."""
    most = np.maximum(load.max(1, initial=0), 1)
    return (most * ((load / most[:, None]) ** 6).sum(1) ** (1 / 6)).astype(np.int64)


def require_objective(objective: str) -> None:
    """Raises InputError for an unknown objective."""
    if objective not in OBJECTIVES:
        text = f"unknown objective {objective!r}{did_you_mean(objective, OBJECTIVES)}"
        raise InputError(text, got=objective, wanted=list(OBJECTIVES))


def serial_ns(problem: PlacementProblem, did: np.ndarray, cost: np.ndarray | None = None) -> int:
    """ns of all nodes and copies, one after the other. ``cost`` int64 [nodes, k]: node times, by default the
    problem's ``cost``."""
    cost = problem.cost if cost is None else cost
    nodes = cost[np.arange(problem.num_nodes), did].sum()
    return int(nodes + copy_table(problem, did).sum())


def copy_table(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [values, k]: ns of the copy of each value to each device that reads the value and does not hold
    it."""
    reads = _readers(problem, did) > 0
    home = did[problem.owner]
    rows = np.arange(len(home))
    reads[rows, home] = False
    return problem.copy[rows, home] * reads


def _readers(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [values, k]: number of the nodes on each device that read each value."""
    k = problem.num_devices
    keys = problem.use_value * k + did[problem.use_nid]
    return np.bincount(keys, minlength=len(problem.eid) * k).reshape(-1, k)


def copy_changes(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [nodes, k]: change in ns of all copies' time if only the row's node moved to the column's
    device."""
    k, readers = problem.num_devices, _readers(problem, did)
    change = np.zeros((problem.num_nodes, k), np.int64)
    home = did[problem.owner]
    every = np.arange(k)
    # a moved node needs copies of its inputs if no other node reads them there, and saves the copies that it
    # alone reads
    value, nid = problem.use_value, problem.use_nid
    at, source = did[nid], home[value]
    row = problem.copy[value, source]  # ns [uses, k]
    brings = row * ((readers[value] == 0) & (every != source[:, None]))
    alone = (readers[value, at] == 1) & (at != source)
    saves = np.where(alone, row[np.arange(len(value)), at], 0)
    np.add.at(change, nid, brings - saves[:, None] * (every != at[:, None]))
    # a moved node sends its own values from its new device
    read = readers > 0
    sent = np.einsum("vsd,vd->vs", problem.copy, read)  # copy[d, d] is 0, so the source itself adds nothing
    rows = np.arange(len(home))
    np.add.at(change, problem.owner, sent - sent[rows, home][:, None])
    change[np.arange(problem.num_nodes), did] = 0
    return change
