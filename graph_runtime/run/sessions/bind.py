"""Program + opened devices -> Bound: memory for the plan, and the program's flat arrays with all addresses
filled in.

A Bound owns the memory that C points into. Nothing runs here; session.py runs it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DeviceMemoryError
from ...base.unique import unique_values
from ...binding import core
from ...binding.programs.program import ARG, INSTR, Program, struct
from ...binding.programs.slots import Slots, closed_up
from ...ir.graph import COPY
from ...plan.types import Plan
from ..device_handles import DeviceHandle
from ..queues.buffer import Buffer, reserved
from .arena import Arena, ArenaBlock, passing

# struct gr_copy_envs, struct gr_packed_call, and DLTensor of dlpack.h
COPY_ENVS = struct("u8 src dst")
PACKED_CALL = struct("u8 fn values codes", "i4 nargs reserved")
DLTENSOR = struct(
    "u8 data", "i4 device_type device_id ndim", "u1 code bits", "u2 lanes", "u8 shape strides byte_offset"
)
_TVM_DLTENSOR_HANDLE = 7
_SCRATCH_ALIGNMENT = 64


class Region:
    """A block of a device's memory, given back when no session and no tensor holds the Region any more."""

    __slots__ = ("__weakref__", "addr", "extent")

    extent: int
    addr: int

    def __init__(self, handle: DeviceHandle, memory: int, extent: int, holder: str):
        self.extent = extent
        found = handle.try_alloc(memory, extent, holder)
        self.addr = reserved(handle, memory, extent, holder) if found is None else found
        # not at exit: a daemon thread may still be running kernels on the block then
        weakref.finalize(self, handle.free, memory, self.addr).atexit = False


class Lease:
    """Owner of the memory of one entry's tensors, used in place of the region. While the Lease is alive, a
    caller may read that memory.

    ``region``: a Region, or a Buffer if the entry has memory of its own. ``events``: the Buffer that queued
    runs use for the same memory, None if there is none. ``on_write``, if any, is called before a tensor of
    the entry is written."""

    __slots__ = ("__weakref__", "_buffer", "on_write", "region")

    region: object

    def __init__(self, region: object):
        self.region = region
        self.on_write: Callable[[], object] | None = None
        self._buffer: weakref.ref[Any] | None = None
        if isinstance(region, Buffer):
            self.events = region

    def renewed(self, buffer: Buffer) -> None:
        """Use another Buffer of the same memory."""
        self.events = buffer
        if isinstance(self.region, Buffer):
            self.region = buffer

    @property
    def events(self) -> Any:
        return self._buffer and self._buffer()

    @events.setter
    def events(self, buffer: Any) -> None:
        self._buffer = weakref.ref(buffer)  # a weak reference, because the Buffer may hold the lease


def _scratch(extent: int, handles: Sequence[DeviceHandle]) -> np.ndarray:
    try:
        return np.empty(extent, np.uint8)
    except MemoryError:
        names = ", ".join(str(handle.device) for handle in handles)
        text = (
            f"Out of Memory: the host gives no {extent} B of scratch memory for kernels of {names}: it has "
            "no more, or this process may not (ulimit -v); free tensors, or use fewer or smaller ones"
        )
        raise DeviceMemoryError(text, device=names, got=extent) from None


class Bound:
    """The arrays of one session.

    ``holder``: the session's name; ``handles``: its devices; ``instrs`` INSTR [instrs], ``args`` ARG [args],
    ``tensors`` DLTENSOR [args] if the program calls TVM's functions (else None), ``regions`` {(did, memory):
    Region}, ``entry_addr`` uint64 [entries]: address of each entry. An entry lies in a region, or where
    rehome put it if it is in ``owners`` {eid: owner of the memory}; with an ``arena`` intermediate values lie
    in the arena. ``tags`` uint64 [entries]: the bits above a sharded entry's address. ``reserved``: whether
    regions were taken (reserve); if not, only the addresses of entries in ``owners`` are valid, which is
    enough if each submission brings all buffers.
    """

    holder: str
    program: Program
    handles: Sequence[DeviceHandle]
    entry_addr: np.ndarray
    args: np.ndarray
    tags: np.ndarray
    instrs: np.ndarray
    reserved: bool

    def __init__(
        self, program: Program, handles: Sequence[DeviceHandle], holder: str, arena: Arena | None = None
    ):
        plan = program.plan
        self.program, self.handles, self.holder = program, handles, holder
        self.owners: dict[int, object] = {}
        self._leases: weakref.WeakValueDictionary[int, Lease] = weakref.WeakValueDictionary()
        self.regions: dict[tuple[int, int], Region] = {}
        self.reserved = False
        self._arena, self._blocks = arena, dict[tuple[int, int], ArenaBlock]()
        self.passing = np.zeros(len(plan.sid), bool) if arena is None else passing(plan)
        self._offset = plan.storage.offset  # offset of each storage in its region
        self.entry_addr = np.zeros(len(plan.sid), np.uint64)
        self.args = program.args.view(np.uint64).copy().view(ARG)  # numpy copies words faster than records
        self.args["shape"] += np.uint64(program.shapes.ctypes.data)
        self.tags = _shard_tags(plan, handles)
        envs = np.array([core.address_of(handle.env) for handle in handles], np.uint64)
        extent = program.scratch + _SCRATCH_ALIGNMENT
        self._scratch = _scratch(extent, handles) if arena is None else arena.scratch_for(self, extent)
        self.instrs = self._instructions(envs)
        self._copies = self._bind_copies(envs)
        self.tensors: np.ndarray | None = None
        self._packed: tuple[np.ndarray, ...] = ()
        self._bind_packed()

    def reserve(self) -> None:
        """Take memory for all entries that have none yet: one region in each memory, without gaps for entries
        that live elsewhere. After a DeviceMemoryError, no memory was taken."""
        plan, offset, extents = self.program.plan, self.program.plan.storage.offset, self.program.plan.peak
        at_home = ~self.passing
        if self.owners:
            at_home[list(self.owners)] = False
        if not at_home.all():
            offset, extents = closed_up(plan, at_home)
        regions = {key: self.new_region(key, extent) for key, extent in extents.items() if extent}
        if self._arena is not None:
            self._passing_offset, needed = closed_up(plan, self.passing)
            self._blocks = self._arena.join(self, needed)
        self.regions, self._offset, self.reserved = regions, offset, True
        self._place(at_home, regions, offset)
        if self._arena is not None:
            self._place(self.passing, self._blocks, self._passing_offset)
        self.args["addr"] = (self.entry_addr | self.tags)[self.program.eid]
        if self.tensors is not None:
            self.tensors["data"] = self.args["addr"]

    def new_scratch(self, extent: int) -> np.ndarray:
        """New scratch memory on the host for kernels. Raises DeviceMemoryError."""
        return _scratch(extent, self.handles)

    def new_region(self, key: tuple[int, int], extent: int) -> Region:
        """A new block of the memory ``key``, (did, number). Raises DeviceMemoryError."""
        return Region(self.handles[key[0]], key[1], extent, self.holder)

    def _place(
        self, entries: np.ndarray, regions: Mapping[tuple[int, int], ArenaBlock], offset: np.ndarray
    ) -> None:
        """Set the addresses of ``entries``: each entry is at its storage's ``offset`` in a region."""
        plan = self.program.plan
        home = _base(plan, regions)[plan.storage.did, plan.storage.memory] + offset.astype(np.uint64)
        self.entry_addr[entries] = home[plan.sid][entries]

    def follow(self, blocks: Mapping[tuple[DeviceHandle, int], ArenaBlock]) -> None:
        """Move intermediate values to the arena's present blocks. No run may be under way."""
        if not self.reserved:
            return
        self._blocks = {(did, memory): blocks[self.handles[did], memory] for did, memory in self._blocks}
        self._place(self.passing, self._blocks, self._passing_offset)
        eids = np.flatnonzero(self.passing)
        for eid in eids.tolist():
            self._leases.pop(eid, None)
        self.move(eids, None)

    def release(self) -> None:
        """Give up the regions, with the values in them; entries that live elsewhere keep theirs."""
        self.regions, self._blocks, self.reserved = {}, {}, False
        self._leases.clear()

    def _instructions(self, envs: np.ndarray) -> np.ndarray:
        program = self.program
        instrs = np.zeros(program.count, INSTR)
        if not program.count:
            return instrs
        call = instrs["call"]
        instrs["fn"] = np.array([k.fn for k in program.kernels], np.uint64)[program.kid]
        call["abi"] = core.lib.GR_ABI_VERSION
        call["nargs"] = np.diff(program.arg_ptr)
        call["args"] = self.args.ctypes.data + ARG.itemsize * program.arg_ptr[:-1]
        call["attrs"] = program.words.ctypes.data + 8 * program.word_ptr[program.kid]
        self._show_scratch(instrs)
        call["env"] = envs[program.plan.did[program.nid]]
        return instrs

    def _show_scratch(self, instrs: np.ndarray) -> None:
        scratch = -(-self._scratch.ctypes.data // _SCRATCH_ALIGNMENT) * _SCRATCH_ALIGNMENT
        wanting = np.array([scratch if k.scratch else 0 for k in self.program.kernels], np.uint64)
        instrs["call"]["scratch"] = wanting[self.program.kid]

    def use_scratch(self, scratch: np.ndarray) -> None:
        """Use this scratch memory for kernels from now on. No run may be under way."""
        self._scratch = scratch
        if self.program.count:
            self._show_scratch(self.instrs)

    def _bind_copies(self, envs: np.ndarray) -> np.ndarray:
        """Make the attrs of copies: each points to the envs of source and target, one gr_copy_envs for each
        pair of devices."""
        program, count = self.program, len(envs)
        pairs = np.zeros(count * count, COPY_ENVS)
        pairs["src"], pairs["dst"] = np.repeat(envs, count), np.tile(envs, count)
        copies = np.flatnonzero(self._where(lambda kernel: kernel.name == COPY))
        entry_did = program.plan.entry_did().astype(np.int64)
        source, to = (entry_did[program.eid[program.arg_ptr[copies] + i]] for i in (0, 1))
        self.instrs["call"]["attrs"][copies] = pairs.ctypes.data + COPY_ENVS.itemsize * (source * count + to)
        return pairs

    def _bind_packed(self) -> None:
        """Make the arguments of TVM's packed functions, once. Each value of these arguments points to the
        DLTensor of a tensor."""
        program = self.program
        rows = np.flatnonzero(self._where(lambda kernel: kernel.packed))
        if not len(rows):
            return
        self.tensors = tensors = _dltensors(program, self.args)
        values = tensors.ctypes.data + DLTENSOR.itemsize * np.arange(len(self.args))
        codes = np.full(len(self.args), _TVM_DLTENSOR_HANDLE, np.int32)
        calls = np.zeros(len(rows), PACKED_CALL)
        self._packed = values, codes, calls
        calls["fn"] = self.instrs["fn"][rows]
        calls["values"] = values.ctypes.data + 8 * program.arg_ptr[rows]
        calls["codes"] = codes.ctypes.data + 4 * program.arg_ptr[rows]
        calls["nargs"] = np.diff(program.arg_ptr)[rows]
        self.instrs["fn"][rows] = core.packed_kernel()
        self.instrs["call"]["attrs"][rows] = calls.ctypes.data + PACKED_CALL.itemsize * np.arange(len(rows))

    def pointed_at(self) -> tuple[object, ...]:
        """Memory that instructions point to, except the entries' memory, which queued work has as Buffers."""
        return self._copies, self._packed, self.tensors

    def _where(self, test) -> np.ndarray:
        """bool [instrs]: whether the instruction's kernel passes the test."""
        return np.array([test(k) for k in self.program.kernels] or [False], bool)[self.program.kid]

    def owner(self, eid: int) -> object:
        """The owner that keeps an entry's memory alive. It is the same object in every call, as long as a
        caller holds it."""
        if eid in self.owners:
            return self.owners[eid]
        lease = self._leases.get(eid)
        if lease is None:
            plan = self.program.plan
            sid, storage = plan.sid[eid], plan.storage
            regions = self._blocks if self.passing[eid] else self.regions
            region = regions.get((int(storage.did[sid]), int(storage.memory[sid])))
            lease = self._leases[eid] = Lease(region)
        return lease

    def rehome(self, homes: Mapping[int, tuple[int, object]]) -> None:
        """Move entries to memory of other owners for good. ``homes`` {eid: (address, owner)} has whole
        values, with all their aliases. The entries' own memory goes back to the system if no other entry uses
        it and no tensor shows it."""
        free = [eid for eid in homes if self.reserved and eid not in self.owners and eid not in self._leases]
        for eid, (addr, owner) in homes.items():
            self.entry_addr[eid], self.owners[eid] = addr, owner
        self.move(list(homes), None)
        self._discard(free)

    def _discard(self, eids: Sequence[int]) -> None:
        plan, storage = self.program.plan, self.program.plan.storage
        kept = np.ones(len(plan.sid), bool)
        kept[list(self.owners)] = False
        kept[list(self._leases)] = True
        used, end = unique_values(plan.sid[kept]), storage.offset + storage.extent
        for sid in unique_values(plan.sid[list(eids)]).tolist():
            near = (storage.did[used] == storage.did[sid]) & (storage.memory[used] == storage.memory[sid])
            overlaps = near & (storage.offset[used] < end[sid]) & (storage.offset[sid] < end[used])
            if not storage.extent[sid] or overlaps.any():
                continue
            did, memory = int(storage.did[sid]), int(storage.memory[sid])
            addr = self.regions[did, memory].addr + int(self._offset[sid])
            self.handles[did].discard(memory, addr, int(storage.extent[sid]))

    def move(self, eids: Sequence[int] | np.ndarray, addr: int | None) -> None:
        """Set the address of these entries in every argument. ``addr``: the address; None: the address of
        each entry's own memory."""
        moved = np.zeros(len(self.entry_addr), bool)
        moved[list(eids)] = True
        rows = np.flatnonzero(moved[self.program.eid])
        shown = self.program.eid[rows]
        home = self.entry_addr[shown] if addr is None else np.uint64(addr)
        self.args["addr"][rows] = self.tags[shown] | home
        if self.tensors is not None:
            self.tensors["data"][rows] = self.args["addr"][rows]


def borrowed(bound: Bound, slots: Slots, at: int, array: np.ndarray | None = None) -> Buffer:
    """A Buffer over the memory that a kept value has in the session, or over the array to which the value is
    bound."""
    eid = int(slots.eid[at])
    addr, owner = int(bound.entry_addr[eid]), bound.owner(eid)
    if array is not None:
        addr, owner = array.ctypes.data, array
    if isinstance(owner, Lease) and owner.events is not None and owner.events.addr == addr:
        return owner.events  # the Buffer of the other session that shares its parameters
    buffer = Buffer.borrow(
        bound.handles[int(slots.did[at])], addr, int(slots.extent[at]), owner, int(slots.memory[at])
    )
    if isinstance(owner, Lease):
        owner.events = buffer
    return buffer


def _base(plan: Plan, regions: Mapping[tuple[int, int], ArenaBlock]) -> np.ndarray:
    """uint64 [devices, memories]: address of each region, 0 for a memory without a region."""
    memories = max((len(d.descriptor.memories) for d in plan.devices), default=1)
    base = np.zeros((len(plan.devices), memories), np.uint64)
    for key, region in regions.items():
        base[key] = region.addr
    return base


def _shard_tags(plan: Plan, handles: Sequence[DeviceHandle]) -> np.ndarray:
    """uint64 [entries]: the bits above the bank address of sharded entries, 0 for others."""
    tags = np.zeros(len(plan.sid), np.uint64)
    sharded = np.array([layout.shard is not None for layout in plan.layouts], bool)[plan.layout_id]
    entry_did = plan.entry_did()
    for eid in np.flatnonzero(sharded).tolist():
        tags[eid] = handles[entry_did[eid]].shard_tag(plan.layout(eid), plan.graph.entry_type(eid).shape)
    return tags


def _dltensors(program: Program, args: np.ndarray) -> np.ndarray:
    """A DLTensor for each argument, compact (strides NULL), with the shape in ``args``."""
    plan = program.plan
    parsed = [dtypes.parse(t.dtype) for t in plan.graph.types]
    type_id, did = plan.graph.type_id[program.eid], plan.entry_did()[program.eid]
    tensors = np.zeros(len(args), DLTENSOR)
    tensors["data"], tensors["ndim"], tensors["shape"] = args["addr"], args["ndim"], args["shape"]
    for name in ("code", "bits", "lanes"):
        tensors[name] = np.array([getattr(t, name) for t in parsed])[type_id]
    tensors["device_type"] = np.array([d.dl_type for d in plan.devices])[did]
    tensors["device_id"] = np.array([d.ordinal for d in plan.devices])[did]
    return tensors
