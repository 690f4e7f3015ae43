"""Inputs of a session that live in memory of others: another session's parameters, or constants of a library.

    share_inputs     moves entries to the other session's memory, and gives their own memory back
    link_constants   moves null nodes to parameters linked into a TVM 0.8 library (`_lookup_linked_param`)

The memory stays alive: the array, the other session, or the library object may be deleted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...base.errors import InputError
from ...base.machine.devices import cpu
from ...base.machine.layout import HOST, host_layout
from ...binding import core
from ...ir.graph import Graph
from ..device_handles import open_device
from ..tensors.tensor import Tensor
from .constants import own
from .session import Session

if TYPE_CHECKING:
    from ..library import Library

_LOOKUP = "_lookup_linked_param"


def share_inputs(session: Session, other: Session, names: Sequence[str]) -> None:
    """Let the inputs called ``names`` live in the memory in which ``other`` has them.

    From then on both sessions read the same values, and set_input of either session writes them. Names of no
    input of ``session`` are skipped with a warning, as in load_params. Raises InputError, before any change,
    if ``other`` lacks an input, if type, device or layout differ, or if an input is bound by zero copy or
    written by its graph."""
    if session is other:
        raise InputError("a session cannot share parameters with itself")
    mine, theirs = _by_name(session.graph), _by_name(other.graph)
    if skipped := [name for name in names if name not in mine]:
        listed = ", ".join(map(repr, skipped[:10])) + (" ..." if len(skipped) > 10 else "")
        warnings.warn(f"parameters that the graph has no inputs for were not shared: {listed}", stacklevel=3)
    pairs = [(name, mine[name]) for name in names if name in mine]
    for name, index in pairs:
        if name not in theirs:
            text = f"the other module has no input {name!r} to share"
            raise InputError(text, got=name, wanted=sorted(theirs))
        _check_alike(name, session, index, other, theirs[name])
    for name, index in pairs:  # only these two sessions may share memory that both write
        own(session, index)
        own(other, theirs[name])
    session.rehome(
        {
            int(session.graph.input_eids[index]): other.home(int(other.graph.input_eids[theirs[name]]))
            for name, index in pairs
        }
    )


def _by_name(graph: Graph) -> dict[str, int]:
    return {name: i for i, name in enumerate(graph.input_names)}


def _check_alike(name: str, session: Session, index: int, other: Session, other_index: int) -> None:
    a, b = session.input(index), other.input(other_index)
    if a.type != b.type or a.device != b.device or a.layout != b.layout:
        text = (
            f"parameter {name!r} is {a.type} on {a.device} ({a.layout}), the other module has "
            f"{b.type} on {b.device} ({b.layout}): type, device and layout must be equal"
        )
        raise InputError(text, got=str(b.type), wanted=str(a.type), device=str(a.device))
    for whose, which in ((session, index), (other, other_index)):
        if whose.is_bound(which):
            raise InputError(
                f"parameter {name!r} is bound to an array by zero copy in {whose.name}: call "
                "reset_zero_copy first",
                got=name,
            )
        if any(to == which for _, to in whose.plan.aliases):
            raise InputError(
                f"parameter {name!r} is written by the graph of {whose.name} (an output lives "
                "in it): it cannot be shared",
                got=name,
            )


# **************** linked parameters ****************


def link_constants(session: Session, graph: Graph, libraries: Sequence[Library]) -> None:
    """Let null nodes live in the constants that a library has for their storage ids. ``graph`` is the graph
    that was planned: the library was compiled for its storage_id column. A node in a device's own memory gets
    a copy. Raises LibraryError if the library's lookup function returns no pointer."""
    sids = graph.hints.storage_id
    lookups = [library for library in libraries if library.manifest is None and library.has(_LOOKUP, "cpu")]
    if sids is None or not lookups:
        return
    plan = session.plan
    for nid in np.flatnonzero((plan.graph.func_id < 0) & (plan.origin >= 0)).tolist():
        sid = int(sids[graph.row_ptr[plan.origin[nid]]])
        for library in lookups:
            addr = core.tvm_pointer(library.kernel(_LOOKUP, "cpu").fn, sid)
            if addr:
                _link(session, nid, addr, library)
                break


def _link(session: Session, nid: int, addr: int, library: Library) -> None:
    eid = int(session.graph.row_ptr[nid])
    target = session.tensor(eid)
    if target.layout.memory == HOST:
        session.rehome({eid: (addr, library)}, readonly=True)
        return
    host, layout = cpu(0), host_layout(target.type.dtype)
    value = Tensor(host, open_device(host), target.type, layout, addr, library, readonly=True)
    inputs = np.flatnonzero(session.graph.inputs == nid)
    if len(inputs):
        session.set_input(int(inputs[0]), value)
    else:
        target.copy_from(value)
