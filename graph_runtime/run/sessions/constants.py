"""Constants in a device's own memory: each is held once, whatever number of programs, bundles and sessions
use it, and goes with the last of them.

    share(session, values)   graph inputs, and the copies made of them when they are set, live where all that
                             use the same values have them
    own(session, index)      an input has memory of the session's own again, before it is written
    hold(home, index, value) the same memory, for a caller that submits without a session

A constant is known by what it holds, the sha256 of its type and bytes as they were read, and by how it is
stored. No name and no hash that a file records is asked.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...base import dtypes
from ...base.errors import DeviceMemoryError
from ...base.locks import new_rlock
from ...base.machine.layout import HOST, Layout
from ...binding.circular import l1_number, of_instructions
from ...binding.programs.program import Program
from ...binding.programs.slots import extent_of, memory_of
from ...ir.graph import Graph, TensorType
from ...plan.types import Plan
from ..device_handles import DeviceHandle
from ..queues.buffer import Buffer
from ..tensors.eviction import block_need, evicting
from ..tensors.host_values import ALIGNMENT, as_array
from ..tensors.tensor import Tensor
from .bind import Bound, Lease

__all__ = ["can_share", "constants", "digest", "fits", "hold", "own", "share"]


class _Key(NamedTuple):
    """``rounded``: the formats that the values had on their way to this layout, where they may have lost
    something."""

    handle: DeviceHandle
    memory: int
    layout: Layout
    type: TensorType
    digest: bytes
    rounded: tuple[str, ...]


_held: weakref.WeakValueDictionary[_Key, Buffer] = weakref.WeakValueDictionary()
_lock = new_rlock()  # while a constant is made: a thread that wants the same one waits


class Shared(Lease):
    """What tensors of a constant hold: others read there, so the session leaves before it writes."""

    __slots__ = ("_index", "_session")

    def __init__(self, buffer: Buffer, session: Owner, index: int):
        super().__init__(buffer)
        self._session, self._index = weakref.ref(session), index

    def leave(self, tensor: Tensor) -> None:
        """``tensor`` shows the constant and is about to be written: it leads elsewhere from now on."""
        session = self._session()
        if session is not None:
            own(session, self._index)
        if tensor._owner is self:  # of a session that is gone, or has other values now
            tensor.settle(_private(tensor, "constant"))


def constants(handle: DeviceHandle, memory: int) -> list[Buffer]:
    """The constants that one memory of a device holds now."""
    with _lock:
        found = [(key, buffer) for key, buffer in _held.items()]
    return [buffer for key, buffer in found if key.handle is handle and key.memory == memory]


def digest(array: np.ndarray) -> bytes:
    """What an array holds, as a hash."""
    import hashlib  # takes 3 ms, and few graphs need it

    made = hashlib.sha256(repr((array.dtype.str, array.dtype.name, array.shape)).encode())
    made.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return made.digest()


# **************** sharing ****************


class Home(Protocol):
    """An owner of constants: a Session, or what else submits a program."""

    plan: Plan
    program: Program
    name: str

    @property
    def handles(self) -> Sequence[DeviceHandle]:
        """One a device of the plan."""


class Owner(Home, Protocol):
    """A home whose memory this module may move: a Session."""

    bound: Bound
    sharing: set[int]

    def tensor(self, eid: int) -> Tensor:
        """A tensor that shows an entry."""

    def rehome(self, homes: Mapping[int, tuple[int, object]], *, copies: bool) -> None:
        """Let entries live elsewhere: {entry: address and owner}."""


class HeldConstant(NamedTuple):
    """Where an entry of a constant lives: in ``memory``, a Buffer, or an array of the host that stays;
    whether others may read it there, too."""

    memory: Any
    shared: bool


def can_share(home: Home, index: int) -> bool:
    """Whether a part of this graph input would live where others read it: some of it is in a device's own
    memory, and nothing of it is written by the graph."""
    eids = _chain(home, index)
    types = {home.plan.graph.entry_type(eid) for eid in eids}
    return (
        all(to != index for _, to in home.plan.aliases)
        and len(types) == 1
        and any(home.plan.layout(eid).memory != HOST for eid in eids)
    )


def share(
    session: Owner,
    values: Iterable[tuple[int, Any]],
    digests: Mapping[int, bytes] | None = None,
    staying: bool = False,
) -> dict[int, bytes]:
    """Let graph inputs, (index, values), live apart from the session's memory, with the copies that are made
    of them when they are set: in a device's memory where all that use the same values have them.

    ``digests`` {index: what digest said of exactly these values}; returns all that were needed. ``staying``
    as hold, whose errors it raises.
    """
    homes: dict[int, tuple[int, object]] = {}
    found: dict[int, bytes] = dict(digests or {})
    for index, value in values:
        for eid, (memory, shared) in hold(session, index, value, found, staying).items():
            if isinstance(memory, np.ndarray):
                homes[eid] = memory.ctypes.data, memory
            else:
                homes[eid] = memory.addr, Shared(memory, session, index) if shared else Lease(memory)
        session.sharing.add(index)
    session.rehome(homes, copies=False)
    return found


def hold(
    home: Home, index: int, value: Any, digests: dict[int, bytes], staying: bool = False
) -> dict[int, HeldConstant]:
    """{entry: where it lives} of a graph input with these values, and of the copies that are made of it when
    it is set: each on its device, made if it is not there yet. It stays there while the answer is kept.

    ``digests`` {index: hash of these very values}, which is added where it is needed. ``staying``: the value
    is an array that stays where it is, unchanged, so that an input on the host, if it fits, lives in it.
    Raises InputError for a value that does not fit, DeviceMemoryError.
    """
    plan, graph = home.plan, home.plan.graph
    eid, can_be_shared = int(graph.input_eids[index]), can_share(home, index)
    what = f"input {graph.names[graph.inputs[index]]!r}"
    given = as_array(value.numpy() if isinstance(value, Tensor) else value, graph.entry_type(eid), what)
    sources: dict[int, Any] = {eid: given}
    rounded: dict[int, tuple[str, ...]] = {eid: ()}
    found: dict[int, HeldConstant] = {}
    for made in _chain(home, index):
        source, layout = eid if made == eid else _source(graph, made), plan.layout(made)
        if made == eid and staying and fits(home, index, given):
            found[eid] = HeldConstant(given, False)
            continue
        shared = can_be_shared and layout.memory != HOST
        if shared:
            if index not in digests:
                digests[index] = digest(given)
            key = _Key(
                home.handles[int(plan.entry_did()[made])],
                memory_of(plan, made),
                layout,
                graph.entry_type(made),
                digests[index],
                rounded[source],
            )
            with _lock:
                buffer = _held.get(key)
                if buffer is None:
                    buffer = _held[key] = _filled(home, made, sources[source], what)
        else:
            buffer = _filled(home, made, sources[source], what)
        found[made] = HeldConstant(buffer, shared)
        sources[made] = _view(plan, made, buffer)
        rounded[made] = rounded[source] + ((layout.format,) if layout.memory != HOST else ())
    return found


def fits(home: Home, index: int, array: np.ndarray) -> bool:
    """Whether a graph input on the host may live in an array: it is not written, and the array is as an input
    is."""
    eid = int(home.plan.graph.input_eids[index])
    type_ = home.plan.graph.entry_type(eid)
    return (
        home.plan.layout(eid).memory == HOST
        and all(to != index for _, to in home.plan.aliases)
        and bool(array.nbytes)
        and array.shape == type_.shape
        and array.dtype == dtypes.to_numpy(type_.dtype)
        and array.flags.c_contiguous
        and array.ctypes.data % ALIGNMENT == 0
    )


def _chain(home: Home, index: int) -> list[int]:
    """The entry of a graph input, then those of the copies that run when it is set, sources first."""
    graph = home.plan.graph
    first, last = home.program.at_input.get(index, (0, 0))
    return [int(graph.input_eids[index]), *graph.row_ptr[home.program.nid[first:last]].tolist()]


def _source(graph: Graph, eid: int) -> int:
    """The entry, a maker's own, that a copy reads."""
    source = int(graph.in_eid[graph.in_ptr[graph.entry_nid[eid]]])
    return int(graph.row_ptr[graph.maker(source)])


def _filled(home: Home, eid: int, source: Any, what: str) -> Buffer:
    """A new block with the values of ``source`` as an entry is stored; a reshape, which has no kernel, may be
    between the two."""
    plan, shape = home.plan, home.plan.graph.entry_type(eid).shape
    if tuple(source.shape) != shape:
        source = (source.numpy() if isinstance(source, Tensor) else source).reshape(shape)
    did = int(plan.entry_did()[eid])
    circular = of_instructions(home.program).get(did, 0)
    buffer = _block(home.handles[did], memory_of(plan, eid), extent_of(plan, eid), home.name, circular)
    _view(plan, eid, buffer).copy_from(source, what)
    return buffer


def _block(handle: DeviceHandle, memory: int, extent: int, holder: str, circular: int = 0) -> Buffer:
    """A new block, for which tensors that are in the way leave L1; there, above so many bytes of circular
    buffers of its readers, for it does not move. Raises DeviceMemoryError."""
    needs = block_need(handle, memory, extent, circular)

    def alloc() -> Buffer:
        made = Buffer.alloc(handle, memory, extent, holder, lasting=True, for_host=True)
        if memory_is_l1 and made.addr < needs[0].end:
            raise DeviceMemoryError(
                f"Out of Memory: in the L1 of {handle.device} only address {made.addr} is left for {extent} "
                f"B of a constant of {holder}, and circular buffers of its nodes need all up to "
                f"{needs[0].end}: give up tensors in L1, or move them to DRAM",
                device=str(handle.device),
            )
        return made

    memory_is_l1 = bool(needs) and memory == l1_number(handle.device)
    return evicting(alloc, lambda: needs)


def _view(plan: Plan, eid: int, buffer: Buffer) -> Tensor:
    handle = buffer.handle
    return Tensor(
        handle.device, handle, plan.graph.entry_type(eid), plan.layout(eid), buffer.addr, Lease(buffer)
    )


# **************** leaving ****************


def own(session: Owner, index: int) -> None:
    """Give a session memory of its own for a graph input, and for the copies made of it, with the values that
    they have. All tensors that show them lead there. Nothing happens where it shares none."""
    owners = session.bound.owners
    eids = [eid for eid in _chain(session, index) if isinstance(owners.get(eid), Shared)]
    made = {eid: _private(session.tensor(eid), session.name) for eid in eids}
    moved = {owners[eid]: tensor for eid, tensor in made.items()}
    session.sharing.discard(index)
    if not moved:
        return
    session.rehome({eid: (tensor._addr, tensor._owner) for eid, tensor in made.items()}, copies=False)
    for handle in {tensor._handle for tensor in made.values()}:
        for tensor in handle.tensors.alive():
            if tensor._owner in moved:
                tensor.settle(moved[tensor._owner])


def _private(tensor: Tensor, holder: str) -> Tensor:
    """A copy of what a tensor shows, in a block of its own, of whose end only its tensors are told."""
    spec = tensor.spec
    buffer = _block(spec.handle, spec.memory, spec.extent, holder)
    made = Tensor(spec.device, spec.handle, spec.type, spec.layout, buffer.addr, Lease(buffer))
    made.copy_from(tensor)
    return made
