"""Inputs of a session that live in memory of others: another session's parameters, constants of a library.

    set_parameters constants, each once a device; arrays in a mapped file, as a bundle has its parameters
    share_inputs   the entries become the other session's memory, the duplicate goes back to the system
    link_constants `_lookup_linked_param` of a TVM 0.8 library: parameters that were linked into it

All keep the other's memory alive: the array, the other session, or the library object may go.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import InputError
from ...base.machine.devices import cpu
from ...base.machine.layout import HOST, host_layout
from ...binding import core
from ...ir.graph import Graph
from ...ir.model import Constant
from ..device_handles import open_device
from ..tensors.tensor import Tensor
from .constants import can_share, fits, own, share
from .session import Session

if TYPE_CHECKING:
    from ..library import Library

__all__ = ["link_constants", "set_parameters", "share_inputs"]

_LOOKUP = "_lookup_linked_param"


def set_parameters(
    session: Session,
    values: Mapping[int, Any],
    *,
    staying: bool = False,
    digests: Mapping[int, bytes] | None = None,
    reserve: bool = True,
) -> dict[int, bytes]:
    """Set graph inputs, {index: array, Tensor or Constant}, that will hardly be set again: what devices with
    memory of their own have of them is held once, whatever number of sessions use the same values
    (constants.share). In a session whose memory was seen already they are set as any input is.

    ``staying``: the values are arrays that stay where they are, so that inputs on the host live in them for
    good, where they can. ``digests``, and what is returned: constants.share. ``reserve`` False: the session
    takes no other memory than for these values. Raises InputError for a value that cannot be set,
    DeviceMemoryError, and what reading a Constant raises.
    """
    found: dict[int, bytes] = {}
    apart: list[int] = []
    if session.release():
        apart = [
            index
            for index, value in values.items()
            if not reserve or can_share(session, index) or (staying and fits(session, index, value))
        ]
        found = share(session, ((index, _read(values[index])) for index in apart), digests, staying)
        if reserve:
            session.reserve()
    for index in values.keys() - set(apart):
        session.set_input(index, _read(values[index]))
    return found


def _read(value: Any) -> Any:
    """The values of a Constant, of which one is in memory at a time."""
    return value.read() if isinstance(value, Constant) else value


def share_inputs(session: Session, other: Session, names: Sequence[str]) -> None:
    """Let the inputs called ``names`` live in the memory that ``other`` has them in.

    From then on both read, and set_input on either writes, the same values. Names that ``session`` has no
    input for are skipped with a warning, as load_params does. Raises InputError, before anything is changed,
    where ``other`` lacks one, where type, device or layout differ, where one is bound by zero copy, or is
    written by its graph.
    """
    if session is other:
        raise InputError("a session cannot share parameters with itself")
    mine, theirs = _by_name(session.graph), _by_name(other.graph)
    if skipped := [name for name in names if name not in mine]:
        listed = ", ".join(map(repr, skipped[:10])) + (" ..." if len(skipped) > 10 else "")
        warnings.warn(f"parameters that the graph has no inputs for were not shared: {listed}", stacklevel=3)
    pairs = [(name, mine[name]) for name in names if name in mine]
    for name, index in pairs:
        if name not in theirs:
            raise InputError(
                f"the other module has no input {name!r} to share", got=name, wanted=sorted(theirs)
            )
        _check_alike(name, session, index, other, theirs[name])
    for name, index in pairs:  # what both write shall be of these two alone
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
        raise InputError(
            f"parameter {name!r} is {a.type} on {a.device} ({a.layout}), the other module has "
            f"{b.type} on {b.device} ({b.layout}): only equal ones are shared",
            got=str(b.type),
            wanted=str(a.type),
            device=str(a.device),
        )
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
    """Let null nodes live in the constants that a library has for their storage ids.

    ``graph`` is the one that was planned: its storage_id column is what the library was compiled for. A node
    on a device of its own memory gets a copy. Raises LibraryError for a lookup function that answers
    nonsense.
    """
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
    host = cpu(0)
    value = Tensor(
        host,
        open_device(host),
        target.type,
        host_layout(target.type.dtype),
        addr,
        library,
        readonly=True,
    )
    inputs = np.flatnonzero(session.graph.inputs == nid)
    if len(inputs):
        session.set_input(int(inputs[0]), value)
    else:
        target.copy_from(value)
