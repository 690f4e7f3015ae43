"""Constants in a device's own memory. Each constant is held once for all programs, bundles and sessions that
use it, and freed with the last of them.

    set_parameters           sets a session's constants, each held once on a device
    share(session, values)   moves graph inputs, and the copies made of them when they are set, to the memory
                             that all users of the same values share
    own(session, index)      moves an input back to the session's own memory, before it is written
    hold(home, index, value) the shared memory, for a caller that submits without a session

A constant is identified by the sha256 of its type and bytes as they were read, and by how it is stored. Names
are not used, nor are hashes that a file records."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...base import dtypes
from ...base.errors import DeviceMemoryError
from ...base.locks import new_rlock
from ...base.machine.layout import HOST, Layout
from ...binding.circular import l1_number
from ...binding.programs.program import Program
from ...binding.programs.slots import extent_of, memory_of
from ...ir.graph import Graph, TensorType
from ...ir.model import Constant
from ...plan.types import Plan
from ..device_handles import DeviceHandle
from ..queues.buffer import Buffer
from ..tensors.eviction import block_need, evicting
from ..tensors.tensor import ALIGNMENT, Tensor, as_array
from .bind import Bound, Lease


class _Key(NamedTuple):
    """Identity of a held constant. ``rounded``: the formats in which the values were stored on the way to
    this memory; each may have rounded them."""

    handle: DeviceHandle
    memory: int
    layout: Layout
    type: TensorType
    digest: bytes
    rounded: tuple[str, ...]


_held: weakref.WeakValueDictionary[_Key, Buffer] = weakref.WeakValueDictionary()
_lock = new_rlock()  # held while a constant is made, so that a thread that wants the same constant waits


class Shared(Lease):
    """Owner of a constant's tensors. Other sessions read the same memory, so a session moves to memory of its
    own before it writes."""

    __slots__ = ("_index", "_session")

    def __init__(self, buffer: Buffer, session: Owner, index: int):
        super().__init__(buffer)
        self._session, self._index = weakref.ref(session), index

    def leave(self, tensor: Tensor) -> None:
        """Move ``tensor``, which shows the constant and is about to be written, to other memory."""
        session = self._session()
        if session is not None:
            own(session, self._index)
        if tensor._owner is self:  # so the session is gone, or has other values now
            tensor.settle(_private(tensor, "constant"))


def constants(handle: DeviceHandle, memory: int) -> list[Buffer]:
    """The constants that one memory of a device holds now."""
    with _lock:
        found = [(key, buffer) for key, buffer in _held.items()]
    return [buffer for key, buffer in found if key.handle is handle and key.memory == memory]


def digest(array: np.ndarray) -> bytes:
    """A hash of an array's type and values."""
    import hashlib  # the import takes 3 ms, and few graphs need it

    made = hashlib.sha256(repr((array.dtype.str, array.dtype.name, array.shape)).encode())
    made.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return made.digest()


# **************** sharing ****************


class Home(Protocol):
    """An owner of constants: a Session, or another object that submits a program."""

    plan: Plan
    program: Program
    name: str

    @property
    def handles(self) -> Sequence[DeviceHandle]: ...


class Owner(Home, Protocol):
    """A home whose memory this module may move: a Session. Session explains these methods."""

    bound: Bound
    sharing: set[int]

    def tensor(self, eid: int) -> Tensor: ...
    def set_input(self, index: int, value: Any) -> None: ...
    def release(self) -> bool: ...
    def reserve(self) -> None: ...
    def rehome(self, homes: Mapping[int, tuple[int, object]], *, copies: bool) -> None: ...


class HeldConstant(NamedTuple):
    """Memory of a constant's entry. ``memory`` is a Buffer, or an array on the host that stays in place;
    ``shared``: whether other sessions may read the memory, too."""

    memory: Any
    shared: bool


def can_share(home: Home, index: int) -> bool:
    """Whether a part of this graph input could be shared: some of the input's copies are in a device's own
    memory, and the graph does not write the input."""
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
    """Move graph inputs, given as (index, values), out of the session's memory, with the copies made of them
    when they are set. On a device they move to where all users of the same values have them.

    ``digests`` {index: digest of exactly these values}; the result has all digests that were needed.
    ``staying`` and errors as in hold."""
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
    """{entry: its memory} of a graph input with these values, and of the copies made of the input when it is
    set. Each memory is on the entry's device, and is filled if the values are not there yet. The memory stays
    while the result is kept.

    ``digests`` {index: hash of exactly these values}; a hash that was needed is added. ``staying``: the value
    is an array that stays where it is, unchanged, so that an input on the host lives in the array if it fits.
    Raises InputError for a value that does not fit, DeviceMemoryError."""
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
            handle, type_ = home.handles[int(plan.entry_did()[made])], graph.entry_type(made)
            key = _Key(handle, memory_of(plan, made), layout, type_, digests[index], rounded[source])
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
    """Whether a graph input on the host may live in an array: the graph does not write the input, and the
    array has the input's dtype, shape and alignment."""
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
    """The entry of a graph input, then the entries of the copies that run when the input is set, sources
    first."""
    graph = home.plan.graph
    first, last = home.program.at_input.get(index, (0, 0))
    return [int(graph.input_eids[index]), *graph.row_ptr[home.program.nid[first:last]].tolist()]


def _source(graph: Graph, eid: int) -> int:
    """The entry that a copy reads, behind reshapes that move nothing."""
    source = int(graph.in_eid[graph.in_ptr[graph.entry_nid[eid]]])
    return int(graph.row_ptr[graph.maker(source)])


def _filled(home: Home, eid: int, source: Any, what: str) -> Buffer:
    """A new block with the values of ``source``, in the layout and format of entry ``eid``. The shapes of the
    two may differ by a reshape that needs no kernel."""
    plan, shape = home.plan, home.plan.graph.entry_type(eid).shape
    if tuple(source.shape) != shape:
        source = (source.numpy() if isinstance(source, Tensor) else source).reshape(shape)
    did = int(plan.entry_did()[eid])
    circular = home.program.circular_of().get(did, 0)
    buffer = _block(home.handles[did], memory_of(plan, eid), extent_of(plan, eid), home.name, circular)
    _view(plan, eid, buffer).copy_from(source, what)
    return buffer


def _block(handle: DeviceHandle, memory: int, extent: int, holder: str, circular: int = 0) -> Buffer:
    """A new block. Tensors in the way leave L1. The block itself does not move, so it must lie above
    ``circular`` bytes of its readers' circular buffers. Raises DeviceMemoryError."""
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
        handle.constants.add(made)
        return made

    memory_is_l1 = bool(needs) and memory == l1_number(handle.device)
    return evicting(alloc, lambda: needs)


def _view(plan: Plan, eid: int, buffer: Buffer) -> Tensor:
    handle = buffer.handle
    return Tensor(
        handle.device, handle, plan.graph.entry_type(eid), plan.layout(eid), buffer.addr, Lease(buffer)
    )


# **************** leaving shared memory ****************


def own(session: Owner, index: int) -> None:
    """Give a session memory of its own for a graph input and for the copies made of it, with their present
    values; all tensors that show them move along. Does nothing if the session shares none of them."""
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
    """A copy of a tensor in a block of its own, whose owner is a plain Lease, not Shared."""
    spec = tensor.spec
    buffer = _block(spec.handle, spec.memory, spec.extent, holder)
    made = Tensor(spec.device, spec.handle, spec.type, spec.layout, buffer.addr, Lease(buffer))
    made.copy_from(tensor)
    return made


def set_parameters(
    session: Owner,
    values: Mapping[int, Any],
    *,
    staying: bool = False,
    digests: Mapping[int, bytes] | None = None,
    reserve: bool = True,
) -> dict[int, bytes]:
    """Set graph inputs, {index: array, Tensor or Constant}, that will hardly be set again. A device with
    memory of its own holds their values once for all sessions that use them (share). If a caller has already
    seen memory of the session, they are set like any other input.

    ``staying``: the values are arrays that stay where they are, so that inputs on the host live in these
    arrays for good if they can. ``digests`` and result: as in share. ``reserve`` False: the session takes
    memory for these values only. Raises InputError for a value that cannot be set, DeviceMemoryError, and the
    errors of reading a Constant."""
    found: dict[int, bytes] = {}
    apart: list[int] = []
    if session.release():
        apart = [
            index
            for index, value in values.items()
            if not reserve or can_share(session, index) or (staying and fits(session, index, value))
        ]
        if apart:
            found = share(session, ((index, _read(values[index])) for index in apart), digests, staying)
        if reserve:
            session.reserve()
    for index in values.keys() - set(apart):
        session.set_input(index, _read(values[index]))
    return found


def _read(value: Any) -> Any:
    """The values of an input; a Constant is read now, so that only one constant at a time is in memory."""
    return value.read() if isinstance(value, Constant) else value
