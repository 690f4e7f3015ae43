"""The storage ids that a file has: followed, where pins, copies and relayouts left them safe."""

from __future__ import annotations

import numpy as np

from ...ir.graph import Graph
from ..lifetimes import Values, find_values
from .buffers import alias_entries
from .sizes import Sizes

__all__ = ["follow_ids", "is_unsafe", "was_unsafe"]


def follow_ids(graph: Graph, values: Values) -> np.ndarray:
    """The hinted sids: fresh ones for new entries, an alias output on its input, a reshape of a new copy on
    that copy."""
    hinted = np.asarray(graph.hints.storage_id, np.int64)
    sid = hinted.copy()
    new = np.flatnonzero(hinted < 0)
    sid[new] = max(int(hinted.max(initial=-1)), len(graph.hints.storage or ()) - 1) + 1 + np.arange(len(new))
    rewired = (hinted[values.of] < 0) & (hinted >= 0)
    sid[rewired] = sid[values.of[rewired]]
    into = np.full(len(sid), -1, np.int64)
    for out, entry in alias_entries(graph):
        into[values.of[out]] = sid[entry]
    return np.where(into[values.of] >= 0, into[values.of], sid)


def is_unsafe(sid: np.ndarray, values: Values, donor: np.ndarray, sizes: Sizes) -> bool:
    """True where a sid has entries in two memories, or two values that live at once."""
    first = np.zeros(int(sid.max(initial=-1)) + 1, np.int64)
    first[sid] = np.arange(len(sid))
    return bool((sizes.region != sizes.region[first[sid]]).any()) or _overlap(sid, values, donor)


def _overlap(sid: np.ndarray, values: Values, donor: np.ndarray | None) -> bool:
    """Two values on one sid live at once. ``donor`` None: believe every in-place use."""
    firsts = values.firsts
    born, last = 2 * values.born, 2 * values.last
    if donor is None:
        last = np.maximum(last - 1, born)
    else:
        taken = firsts[donor[firsts] != firsts]
        taken = taken[sid[taken] == sid[donor[taken]]]
        last[donor[taken]] -= 1  # written over as it is read for the last time
    order = firsts[np.lexsort((born[firsts], sid[firsts]))]
    return bool(((sid[order][1:] == sid[order][:-1]) & (last[order][:-1] >= born[order][1:])).any())


def was_unsafe(loaded: Graph) -> bool:
    """True where the file contradicts itself before any pass changed it: then it is followed, for the check
    to refuse."""
    sid, hints = np.asarray(loaded.hints.storage_id, np.int64), loaded.hints
    at_input = np.zeros(loaded.num_nodes, bool)
    at_input[list(hints.at_input)] = True
    values = find_values(loaded, at_input)
    first = np.zeros(int(sid.max(initial=-1)) + 1, np.int64)
    first[sid] = np.arange(len(sid))
    for column in (hints.device_type, hints.device_id):
        if column is not None and (column != column[first[sid]]).any():
            return True
    return False if hints.aliases else _overlap(sid, values, None)
