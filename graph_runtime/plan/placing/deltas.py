"""The serial time of an assignment, and what moving each node alone would change in it."""

from __future__ import annotations

import numpy as np

from .problem import PlacementProblem

__all__ = ["copy_changes", "copy_table", "serial_ns"]


def serial_ns(problem: PlacementProblem, did: np.ndarray, cost: np.ndarray | None = None) -> int:
    """ns of all nodes and copies, one after the other. ``cost`` int64 [nodes, k]: other times than the
    problem's."""
    cost = problem.cost if cost is None else cost
    nodes = cost[np.arange(problem.num_nodes), did].sum()
    return int(nodes + copy_table(problem, did).sum())


def copy_table(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [values, k]: ns of the copy of each value to each device that reads it and does not hold it."""
    reads = _readers(problem, did) > 0
    home = did[problem.owner]
    rows = np.arange(len(home))
    reads[rows, home] = False
    return problem.copy[rows, home] * reads


def _readers(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [values, k]: how many nodes of each device read each value."""
    k = problem.num_devices
    keys = problem.use_value * k + did[problem.use_nid]
    return np.bincount(keys, minlength=len(problem.eid) * k).reshape(-1, k)


def copy_changes(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [nodes, k]: by how much the copies would grow if that node alone went to that device."""
    k, readers = problem.num_devices, _readers(problem, did)
    change = np.zeros((problem.num_nodes, k), np.int64)
    home = did[problem.owner]
    every = np.arange(k)
    # a node that moves brings what it reads to a device without a copy, and saves a copy that it alone reads
    value, nid = problem.use_value, problem.use_nid
    at, source = did[nid], home[value]
    row = problem.copy[value, source]  # [uses, k]
    brings = row * ((readers[value] == 0) & (every != source[:, None]))
    alone = (readers[value, at] == 1) & (at != source)
    saves = np.where(alone, row[np.arange(len(value)), at], 0)
    np.add.at(change, nid, brings - saves[:, None] * (every != at[:, None]))
    # a node that moves sends its own values from its new device
    read = readers > 0
    sent = np.einsum("vsd,vd->vs", problem.copy, read)  # copy[d, d] is 0
    rows = np.arange(len(home))
    np.add.at(change, problem.owner, sent - sent[rows, home][:, None])
    change[np.arange(problem.num_nodes), did] = 0
    return change
