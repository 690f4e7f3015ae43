"""LaidOutGraph -> Plan: the storage id of each entry, and the offset of each storage in its device's memory.

The file's storage_id is followed, unless a pin, an inserted copy or a relayout makes it unsafe. Otherwise
storage is planned anew, in one of three ways:

    mode     how bytes are reused
    serial   bytes are reused for one order of all nodes: the smallest peak, but queues wait for each other
    safe     bytes are reused only if data and queue order put the new user after all old users: no waits
    off      bytes are never reused: every value has its own
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...base.errors import CapacityError, InputError, did_you_mean
from ...base.machine.layout import L1, Layout
from ...base.options import Options
from ...ir.graph import Graph
from ..columns import Values, find_values, inplace_slots, slot_nid
from ..queues.happens import happens, take_over_in_order
from ..supports import circular_room, too_large
from ..types import OFF, REUSE, SAFE, SERIAL, LaidOutGraph, PlacedGraph, Plan, Storage, Supplies
from .buffers import Allocation, Buffers, Sizes, entry_sizes, out_of_memory, remedy, round_up, take_over
from .file_storage import follow_ids, is_moved, is_unsafe, storage_of_file, was_unsafe
from .offsets import Packer
from .order import best_order

_TVM_ELEMENT = 4  # TVM's pools are arrays of float32: sizes are multiples of 4 bytes


def require_reuse(reuse: str) -> None:
    """Raises InputError for an unknown mode."""
    if reuse not in REUSE:
        text = f"reuse is {', '.join(REUSE)}, not {reuse!r}{did_you_mean(str(reuse), REUSE)}"
        raise InputError(text, got=reuse)


def assign_storage(
    laid_out: LaidOutGraph,
    options: Options,
    supplies: Supplies,
    *,
    loaded: Graph | None = None,
    use_hints: bool = True,
    reorder: bool = True,
    capacity: bool = True,
) -> Plan:
    """Give every entry a storage id and every storage an offset.

    ``options``: options that say how memory is reused and name the packer (by default the packer of
    ``supplies``). The packer searches for offsets if blocks used in turn do not reach the lower bound. A
    node's output takes over the buffer of an input whose last reader is the node, if the op registry or
    ``supplies.inplace`` allows that. ``loaded``: the graph of the file, if passes or pins may have changed
    the graph since; the file's storage ids are then followed only if they are still safe. ``reorder``:
    whether to take an order of the nodes that needs less memory; this applies only to reuse "serial" if
    storage is planned anew. ``capacity``: whether to refuse a plan that does not fit.

    Raises CapacityError, before anything is allocated, if a device has too little memory; PlanError for a
    storage column that contradicts itself; InputError for an unknown mode.
    """
    reuse = options.reuse or SERIAL
    require_reuse(reuse)
    packer = supplies.packer
    if options.packer is not None:
        from .offsets import find_packer

        packer = find_packer(options.packer)
    use_hints = use_hints and laid_out.placed.graph.hints.storage_id is not None
    if reorder and reuse == SERIAL and not use_hints and _has_choice(laid_out.placed):
        laid_out = best_order(laid_out, supplies.inplace)
    placed, graph = laid_out.placed, laid_out.placed.graph
    sizes = entry_sizes(laid_out)
    values = find_values(graph, placed.at_input)
    slots = inplace_slots(graph, supplies.inplace)
    donor = take_over(laid_out, values, slots)
    warnings, sid, hinted = placed.warnings, None, False
    if use_hints:
        sid, hinted = follow_ids(graph, values), True
        if loaded is not None and is_unsafe(sid, values, donor, sizes) and not was_unsafe(loaded):
            sid, hinted = None, False
            text = "the file's storage_id does not fit the devices and copies chosen here: planned anew"
            warnings = (*warnings, text)
    buffers, offset = Buffers.join(graph, values, donor, sizes), None
    bound = buffers.most_live()
    if sid is None:
        shared = _allocate(laid_out, values, donor, sizes, buffers, reuse, packer)
        sid, offset, bound = shared.sid, shared.offset, {**bound, **shared.bound}
    storage = lay_out(laid_out, sid, sizes, hinted and loaded is None, offset)
    plan = _make_plan(laid_out, sid, storage, bound, sizes, warnings)
    if capacity:
        check_capacity(plan)
    return plan


def _has_choice(placed: PlacedGraph) -> bool:
    """Whether some node need not wait for the node before it; otherwise there is only one order of the
    nodes."""
    graph = placed.graph
    calls = np.flatnonzero((graph.func_id >= 0) & ~placed.at_input)
    before = np.full(graph.num_nodes, -1)
    before[calls[1:]] = calls[:-1]
    reader = slot_nid(graph)
    waits = np.zeros(graph.num_nodes, bool)
    waits[reader[graph.entry_nid[graph.in_eid] == before[reader]]] = True
    return not waits[calls[1:]].all()


def _allocate(
    laid_out: LaidOutGraph,
    values: Values,
    donor: np.ndarray,
    sizes: Sizes,
    buffers: Buffers,
    reuse: str,
    packer: Packer | None,
) -> Allocation:
    """The allocation of storage that is planned anew."""
    placed = laid_out.placed
    if reuse == OFF:
        return Buffers.join(placed.graph, values, np.arange(len(donor)), sizes).apart()
    users, order = None, happens(placed, values) if reuse == SAFE else None
    if order is not None and order.count > 1:  # with a single queue, the order is serial
        donor = take_over_in_order(placed, values, donor, order)
        buffers = Buffers.join(placed.graph, values, donor, sizes)
        kept = buffers.last >= placed.graph.num_nodes
        users = order.users(placed, buffers.of, buffers.born, kept)
    return buffers.share(packer, users)


def _make_plan(
    laid_out: LaidOutGraph,
    sid: np.ndarray,
    storage: Storage,
    most: dict[int, int],
    sizes: Sizes,
    warnings: tuple[str, ...],
) -> Plan:
    placed = laid_out.placed
    peak: dict[tuple[int, int], int] = {}
    ends = storage.offset + storage.extent
    for did, memory in sorted({*zip(storage.did.tolist(), storage.memory.tolist(), strict=True)}):
        mine = (storage.did == did) & (storage.memory == memory)
        peak[did, memory] = int(ends[mine].max(initial=0))
    bound = {}
    for r, live in most.items():  # ``live`` includes padding after the last buffer, the peak does not
        where = int(sizes.region_did[r]), int(sizes.region_memory[r])
        bound[where] = min(live, peak[where])
    return Plan(
        placed.graph,
        placed.devices,
        placed.did,
        placed.origin,
        placed.at_input,
        placed.cause_id,
        placed.causes,
        laid_out.layouts,
        laid_out.layout_id,
        sid.astype(np.int32),
        storage,
        placed.graph.hints.aliases,
        peak,
        bound,
        laid_out.layout_causes,
        warnings,
    )


def lay_out(
    laid_out: LaidOutGraph, sid: np.ndarray, sizes: Sizes, as_file: bool, offset: np.ndarray | None = None
) -> Storage:
    """The Storage of a plan. The size of a sid is the maximum over its entries. ``offset`` int64 [sids]:
    offsets to use; None: offsets that put one sid after another. ``as_file``: whether to use the offsets of
    the file, if they still apply."""
    hints = laid_out.placed.graph.hints
    count = max(int(sid.max(initial=-1)) + 1, len(hints.storage or ()) if as_file else 0)
    extent, nbytes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.maximum.at(extent, sid, round_up(sizes.extent, _TVM_ELEMENT))
    np.maximum.at(nbytes, sid, round_up(sizes.nbytes, _TVM_ELEMENT))
    region = np.zeros(count, np.int64)
    region[sid[::-1]] = sizes.region[::-1]  # the first entry of a sid decides on the region
    storage = Storage(
        sizes.region_did[region].astype(np.int32),
        sizes.region_memory[region].astype(np.int32),
        _offsets(region, extent, sizes) if offset is None else offset,
        extent,
        nbytes,
    )
    if not as_file or hints.storage is None or is_moved(laid_out):
        return storage
    return storage_of_file(laid_out, hints.storage, sid, storage)


def _offsets(region: np.ndarray, extent: np.ndarray, sizes: Sizes) -> np.ndarray:
    """int64 [sids]: offsets that put each sid after the sid before it in its region, aligned."""
    offset = np.zeros(len(extent), np.int64)
    for which in range(len(sizes.region_did)):
        mine = np.flatnonzero(region == which)
        taken = round_up(extent[mine], sizes.alignment[which])
        offset[mine] = taken.cumsum() - taken
    return offset


# **************** whether it fits ****************

_HOLDERS = 5


def check_capacity(plan: Plan) -> None:
    """Raises CapacityError if the peak of a memory is beyond its room for tensors, with ``plan``, ``device``,
    ``memory``, ``node`` (the first that does not fit), ``needed``, ``available`` and ``holders``, the five
    largest [(node, bytes)]. ``parameters`` (with other inputs) and ``activations`` are the two parts of
    ``needed``. All numbers are bytes of one bank, except the sizes of ``holders`` on tt, which are those of
    all banks; every bank holds the same ranges."""
    for (did, index), needed in plan.peak.items():
        if needed > plan.devices[did].descriptor.memories[index].available:
            raise _too_much(plan, did, index, needed)


def room_beside(plan: Plan, did: int) -> int:
    """Bytes of a core's L1 that the plan's tensors leave to circular buffers. Kernels are checked, and op
    models are made, for this room."""
    device, tensors = plan.devices[did], 0
    for index, memory in enumerate(device.descriptor.memories):
        if memory.name == L1:
            tensors = int(round_up(plan.peak.get((did, index), 0), memory.alignment))
    return max(circular_room(device) - tensors, 0)


def check_circular(plan: Plan, needs: np.ndarray) -> None:
    """Raises CapacityError if a node's circular buffers do not fit below the plan's tensors, with ``plan``,
    ``node``, ``needed`` (bytes of a core's L1), ``available`` and ``holders`` as in check_capacity. ``needs``
    int64 [nodes]: bytes of circular buffers that each node opens."""
    for did in range(len(plan.devices)):
        mine = np.where(plan.did == did, needs, 0)
        most = int(mine.max(initial=0))
        if most and most > (room := room_beside(plan, did)):
            raise _no_room(replace(plan, circular=needs), did, int(mine.argmax()), most, room)


def _held(plan: Plan, did: int, index: int, column: np.ndarray) -> tuple[np.ndarray, list[tuple[str, int]]]:
    """Pair of the sids of a memory, largest first, and (node, number in ``column``) of the _HOLDERS largest
    sids."""
    storage = plan.storage
    mine = np.flatnonzero((storage.did == did) & (storage.memory == index))
    mine = mine[np.argsort(-storage.extent[mine], kind="stable")]
    return mine, [(_holder(plan, sid), int(column[sid])) for sid in mine[:_HOLDERS].tolist()]


def _listed(holders: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {size} B" for name, size in holders)


def _no_room(plan: Plan, did: int, nid: int, needed: int, room: int) -> CapacityError:
    device, graph = plan.devices[did], plan.graph
    memory = device.descriptor.memory(L1)
    index = device.descriptor.memories.index(memory)
    largest, holders = _held(plan, did, index, plan.storage.extent)
    node, tensors = graph.names[nid], plan.peak.get((did, index), 0)
    text = f"node {node!r} ({graph.node(nid).op} on {device}) {too_large(needed, device)}"
    if tensors:
        change = remedy(device, memory, _layout(plan, int(largest[0])), holders[0][0].strip("'"))
        text += (
            f", and the plan's tensors take {tensors} B of it, held by {_listed(holders)}: at most "
            f"{max(circular_room(device) - needed, 0)} B of tensors fit beside; {change}"
        )
    else:
        text += f": cut node {node!r} into smaller ones, or place it elsewhere"
    fields = {"needed": needed, "available": room, "holders": holders, "node": node, "plan": plan}
    return CapacityError(text, device=str(device), memory=L1, **fields)


def _too_much(plan: Plan, did: int, index: int, needed: int) -> CapacityError:
    device, storage = plan.devices[did], plan.storage
    memory = device.descriptor.memories[index]
    sids, holders = _held(plan, did, index, storage.nbytes)
    mine = np.sort(sids)
    ends = storage.offset[mine] + storage.extent[mine]
    first = int(mine[np.flatnonzero(ends > memory.available)[0]])
    taken = int(ends[ends <= memory.available].max(initial=0))
    text = out_of_memory(device, memory, int(storage.nbytes[first]), int(storage.extent[first]), taken)
    node, layout, parameters = _holder(plan, first).strip("'"), _layout(plan, first), _parameters(plan, mine)
    each = "" if memory.banks == 1 else " of each bank"
    text += (
        f" for {node!r}; the plan needs {needed} B{each}, parameters and inputs {parameters} B of them and "
        f"activations {needed - parameters} B, held by {_listed(holders)}"
    )
    text += f"; {remedy(device, memory, layout, node)}" if layout else ""
    fields = {"available": memory.available, "holders": holders, "node": node, "plan": plan}
    parts = {"needed": needed, "parameters": parameters, "activations": needed - parameters}
    return CapacityError(text, device=str(device), memory=memory.name, **parts, **fields)


def _parameters(plan: Plan, sids: np.ndarray) -> int:
    """Bytes of a bank in the storages among ``sids`` that hold inputs, or copies made when inputs are set."""
    early = (plan.graph.func_id < 0) | plan.at_input
    of_input = np.unique(plan.sid[early[plan.graph.entry_nid]])
    return int(plan.storage.extent[np.intersect1d(sids, of_input)].sum())


def _layout(plan: Plan, sid: int) -> Layout | None:
    """The layout of the first entry on a sid; None if no entry uses the sid."""
    entries = np.flatnonzero(plan.sid == sid)
    return plan.layout(int(entries[0])) if len(entries) else None


def _holder(plan: Plan, sid: int) -> str:
    """The name of the node whose entry is the largest on a sid; the name of the storage itself if no entry
    uses the sid."""
    graph, entries = plan.graph, np.flatnonzero(plan.sid == sid)
    if not len(entries):
        return f"storage {sid}"
    largest = max(entries.tolist(), key=lambda eid: graph.entry_type(eid).nbytes)
    return repr(graph.names[graph.maker(largest)])


Modes = Mapping[str, Mapping[tuple[int, int], int]]  # {reuse mode: {(did, memory): peak}}


def peaks(plan: Plan, supplies: Supplies) -> Modes:
    """{reuse mode: {(did, memory): peak in bytes of a bank}} for the plan's nodes in the plan's order; a peak
    may exceed the memory's size."""
    placed = PlacedGraph(
        plan.graph, plan.devices, plan.did, plan.origin, plan.at_input, plan.cause_id, plan.causes
    )
    laid_out = LaidOutGraph(placed, plan.layouts, plan.layout_id, plan.layout_causes)
    return {
        mode: assign_storage(
            laid_out, Options(reuse=mode), supplies, use_hints=False, reorder=False, capacity=False
        ).peak
        for mode in REUSE
    }
