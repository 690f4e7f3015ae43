"""LaidOutGraph -> Plan: the storage id of each entry, and the offset of each storage in its device's memory.

The file's storage_id is followed; where a pin, an inserted copy or a relayout makes it unsafe, storage is
planned anew:

    serial   for one order of all nodes: the smallest peak; queues wait for each other
    safe     bytes are used again only by what data and queue order put after all their users: no waits
    off      every value has bytes of its own
"""

from __future__ import annotations

import numpy as np

from ...base.errors import InputError, did_you_mean
from ...base.options import Options
from ...base.unique import unique_values
from ...ir.graph import Graph
from ..lifetimes import Values, find_values, inplace_slots, take_over
from ..queues.happens import happens, take_over_in_order
from ..types import OFF, REUSE, SAFE, SERIAL, LaidOutGraph, Plan, Storage, Supplies
from .buffers import Allocation, Buffers
from .capacity import check_capacity
from .file_storage import follow_ids, is_unsafe, was_unsafe
from .offsets import Packer
from .order import best_order
from .pools import lay_out
from .sizes import Sizes, entry_sizes

__all__ = ["assign_storage", "require_reuse"]


def require_reuse(reuse: str) -> None:
    """Raises InputError for a mode that is none."""
    if reuse not in REUSE:
        raise InputError(
            f"reuse is {', '.join(REUSE)}, not {reuse!r}{did_you_mean(str(reuse), REUSE)}", got=reuse
        )


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

    ``options``: how memory is reused, and the packer, else that of the ``supplies``, which looks for offsets
    where blocks that are used in turn leave a gap to the lower bound. An output takes over the buffer of an
    input that dies there, as the op registry or ``supplies.inplace`` allows. ``loaded``: the graph as the
    file has it, if passes or pins may have changed it since: then the file's storage ids are followed only
    where they are still safe. ``reorder``: take another order of the nodes where it needs less memory; only
    for a serial order that is planned anew. ``capacity``: refuse what does not fit.

    Raises CapacityError, before anything is allocated, if a device has too little memory; PlanError for a
    storage column that says two things; InputError for a mode that is none.
    """
    reuse = options.reuse or SERIAL
    require_reuse(reuse)
    packer = supplies.packer
    if options.packer is not None:
        from .packers import find_packer

        packer = find_packer(options.packer)
    use_hints = use_hints and laid_out.placed.graph.hints.storage_id is not None
    if reorder and reuse == SERIAL and not use_hints:
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
            warnings = (
                *warnings,
                "the file's storage_id does not fit the devices and copies chosen here: planned anew",
            )
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


def _allocate(
    laid_out: LaidOutGraph,
    values: Values,
    donor: np.ndarray,
    sizes: Sizes,
    buffers: Buffers,
    reuse: str,
    packer: Packer | None,
) -> Allocation:
    """Storage that is planned anew."""
    placed = laid_out.placed
    if reuse == OFF:
        return Buffers.join(placed.graph, values, np.arange(len(donor)), sizes).apart()
    users, order = None, happens(placed, values) if reuse == SAFE else None
    if order is not None and order.count > 1:  # with one queue the order is serial
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
    for which in unique_values(storage.did.astype(np.int64) * 16 + storage.memory).tolist():
        mine = (storage.did == which // 16) & (storage.memory == which % 16)
        peak[which // 16, which % 16] = int(ends[mine].max(initial=0))
    bound = {}
    for r, live in most.items():  # with the padding after the last buffer, which is not in the peak
        memory = int(sizes.region_did[r]), int(sizes.region_memory[r])
        bound[memory] = min(live, peak[memory])
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
