"""Which graph inputs have no values yet: a run that would read one is refused.

The set of a session is looked at while it is not empty only, so runs cost no more when all inputs are set. An
input that nothing reads needs no value.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...base.errors import InputError, did_you_mean
from ...ir.graph import Graph

__all__ = ["ALLOW", "REFUSE", "refuse", "unset_of"]

REFUSE, ALLOW = "refuse", "allow"


def unset_of(graph: Graph, mode: str) -> set[int]:
    """The inputs that need a value before a run, none where the mode is "allow": TVM's, where such inputs
    are whatever the memory holds. Raises InputError for a mode that is neither."""
    if mode not in (REFUSE, ALLOW):
        near = did_you_mean(mode, (REFUSE, ALLOW))
        raise InputError(f"unset_inputs is {REFUSE!r} or {ALLOW!r}, not {mode!r}{near}", got=mode)
    if mode == ALLOW:
        return set()
    read = np.zeros(graph.num_entries, bool)
    read[graph.in_eid] = True
    read[graph.outputs] = True
    return {
        i for i, eid in enumerate(graph.input_eids.tolist()) if read[eid] and graph.entry_type(eid).nbytes
    }


def refuse(
    graph: Graph,
    unset: Collection[int],
    holder: str,
    aliases: Collection[tuple[int, int]],
    lost: Collection[int] = (),
) -> None:
    """Raise InputError that names these inputs, if there are any; ``lost``: whose contents are undefined
    since a run failed while it wrote them."""
    if not unset:
        return
    names = [graph.names[graph.inputs[i]] for i in sorted(unset)]
    state = sorted({graph.names[graph.inputs[to]] for _, to in aliases if to in unset and to not in lost})
    gone = sorted(graph.names[graph.inputs[i]] for i in lost if i in unset)
    shown = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    also = f" ({', '.join(map(repr, state[:20]))}: state that runs update, which needs a first value)"
    shown += also if state else ""
    since = f" ({', '.join(map(repr, gone[:20]))}: undefined since a run failed that had begun to write it)"
    shown += since if gone else ""
    raise InputError(
        f"{holder} has no values of {shown}: give them to run(), set_input, load_params or "
        "set_input_zero_copy, or let unset inputs compute as TVM does by "
        'unset_inputs="allow"',
        got=[],
        wanted=names,
    )
