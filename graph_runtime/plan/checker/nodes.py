"""The checker's rules about nodes: order, devices, layouts, copies, reshapes."""

from __future__ import annotations

import math

import numpy as np

from ...base import dtypes
from ...base.machine.layout import HOST, ROW_MAJOR, TILE, Layout, Shard
from ...base.unique import unique_values
from ...ir.graph import TensorType
from .facts import Facts, refuse

__all__ = ["check_copies", "check_devices", "check_layouts", "check_nops", "check_order"]


def check_order(facts: Facts) -> None:
    """Every input is made by an earlier node."""
    graph = facts.plan.graph
    late = facts.maker[graph.in_eid] >= facts.reader
    if late.any():
        slot = int(np.flatnonzero(late)[0])
        eid, nid = int(graph.in_eid[slot]), int(facts.reader[slot])
        raise refuse(
            facts.plan,
            "order",
            f"node {graph.names[nid]!r} reads entry {eid} before {facts.name(eid)} writes it",
            nid=nid,
            entries=(eid,),
        )


def check_devices(facts: Facts) -> None:
    """Every node but a __copy reads entries of its own device."""
    plan, graph = facts.plan, facts.plan.graph
    away = (facts.entry_did[graph.in_eid] != plan.did[facts.reader]) & ~facts.copies[facts.reader]
    if away.any():
        slot = int(np.flatnonzero(away)[0])
        eid, nid = int(graph.in_eid[slot]), int(facts.reader[slot])
        here, there = plan.devices[plan.did[nid]], plan.devices[facts.entry_did[eid]]
        raise refuse(
            plan,
            "device",
            f"node {graph.names[nid]!r} on {here} reads {facts.name(eid)}, which lives on {there}, "
            f"without a __copy",
            nid=nid,
            entries=(eid,),
            device=str(here),
            got=str(there),
            wanted=str(here),
        )


def check_layouts(facts: Facts) -> None:
    """Memory, layout and format exist on the device and can hold the logical dtype."""
    plan = facts.plan
    for row, (type_, layout, did) in enumerate(facts.kinds):
        reason = _layout_fault(type_, layout, plan.devices[did].descriptor)
        if reason:
            eid = int(np.flatnonzero(facts.kind == row)[0])
            raise refuse(
                plan,
                "layout",
                f"{facts.name(eid)} is {type_} in {layout} on {plan.devices[did]}: {reason}",
                nid=int(facts.maker[eid]),
                entries=(eid,),
                device=str(plan.devices[did]),
                got=str(layout),
            )


def _layout_fault(type_: TensorType, layout: Layout, descriptor) -> str | None:
    memories = [m.name for m in descriptor.memories]
    native = dtypes.format_of(type_.dtype)
    own = native.name if native else type_.dtype
    if layout.memory not in memories:
        return f"the device has no memory {layout.memory} (it has {', '.join(memories)})"
    if layout.layout not in descriptor.layouts:
        return f"the device has no layout {layout.layout} (it has {', '.join(descriptor.layouts)})"
    if layout.shard is not None and layout.memory != "l1":
        return f"sharded tensors lie in l1, not in {layout.memory}"
    if layout.nd is not None:
        return f"a plan's shards lie on a rectangle of cores, not as {layout.nd}"
    if layout.memory == HOST:
        return None if layout.format == own else f"host memory stores it as {own}"
    if layout.format not in descriptor.formats:
        return f"the device has no format {layout.format} (it has {', '.join(descriptor.formats)})"
    if layout.format != own and not (type_.dtype in dtypes.TILED and layout.format in dtypes.CONVERTED):
        return f"a {type_.dtype} cannot be stored as {layout.format}"
    if dtypes.FORMATS[layout.format].shared_exponent and layout.layout != TILE:
        return f"block format {layout.format} exists in tiles only"
    return None if layout.shard is None else _shard_fault(type_, layout, layout.shard, descriptor.grid)


def _shard_fault(type_: TensorType, layout: Layout, shard: Shard, grid: tuple[int, int]) -> str | None:
    """Every element lies in exactly one shard, every shard on a core of its own."""
    tiled = layout.layout == TILE
    step = 32 if tiled else 1
    rows, cols = (1, 1, *type_.shape)[-2:]
    rows = math.prod(type_.shape[:-2]) * -(-rows // step) * step
    cols = -(-cols // step) * step
    (top, left), (bottom, right) = shard.grid
    high, wide = shard.shape
    if not (0 <= top <= bottom < grid[0] and 0 <= left <= right < grid[1]):
        return f"its cores are not all among the {grid[0]}x{grid[1]} cores of the device"
    if not rows * cols or high < 1 or wide < 1 or high % step or wide % step:
        return f"shards of {high}x{wide} elements cannot hold a {rows}x{cols} matrix" + " of tiles" * tiled
    if (shard.kind == "height" and wide != cols) or (shard.kind == "width" and high != rows):
        return f"a {shard.kind} shard of {high}x{wide} does not span the {rows}x{cols} matrix"
    down, across = -(-rows // high), -(-cols // wide)
    room = (bottom - top + 1, right - left + 1)
    room = room if shard.orientation == "row" else room[::-1]
    if (down > room[0] or across > room[1]) if shard.kind == "block" else down * across > room[0] * room[1]:
        return f"{down}x{across} shards need more cores than the {room[0]}x{room[1]} that are named"
    return None


def check_copies(facts: Facts) -> None:
    """A __copy keeps the dtype and the number of elements, or reinterprets equal bytes between host row-major
    tensors."""
    for nid, (a, la, b, lb) in _pairs(facts, facts.copies, "copy"):
        host = all(x.memory == HOST and x.layout == ROW_MAJOR for x in (la, lb))
        if a.dtype == b.dtype and math.prod(a.shape) == math.prod(b.shape):
            continue
        if a.dtype == b.dtype:
            reason = f"{math.prod(a.shape)} elements do not fill {math.prod(b.shape)}"
        elif not host:
            reason = "dtypes differ, and only a copy between host tensors reinterprets bytes; use a cast"
        elif _bytes(a) != _bytes(b):
            reason = f"{_bytes(a)} bytes cannot be reinterpreted as {_bytes(b)}"
        else:
            continue
        raise refuse(
            facts.plan, "copy", f"{facts.plan.graph.names[nid]!r} copies {a} to {b}: {reason}", nid=nid
        )


def _bytes(type_: TensorType) -> int:
    return math.prod(type_.shape) * dtypes.parse(type_.dtype).itemsize


def check_nops(facts: Facts) -> None:
    """A __nop's output is its input's storage, and the bytes mean the same in both shapes."""
    graph, sid = facts.plan.graph, facts.plan.sid
    pairs = list(_pairs(facts, facts.nops, "nop"))  # also checks that they have one input and one output
    nids = np.flatnonzero(facts.nops)
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    apart = np.flatnonzero(sid[made] != sid[source])
    if len(apart):
        nid, eids = int(nids[apart[0]]), (int(source[apart[0]]), int(made[apart[0]]))
        raise refuse(
            facts.plan,
            "nop",
            f"nothing writes the output of {graph.names[nid]!r}: a __nop shares its input's "
            f"storage, but storage ids are {int(sid[eids[0]])} and {int(sid[eids[1]])}",
            nid=nid,
            entries=eids,
        )
    for nid, (a, la, b, lb) in pairs:
        if not _means_the_same(a, la, b, lb):
            raise refuse(
                facts.plan,
                "nop",
                f"{graph.names[nid]!r} presents {a} in {la} as {b} in {lb}, whose bytes lie "
                f"elsewhere; make it a __copy",
                nid=nid,
            )


def _means_the_same(a: TensorType, la: Layout, b: TensorType, lb: Layout) -> bool:
    """True where the bytes of a in la, read as b in lb, are the reshaped tensor."""
    if la.memory == HOST:
        return lb.memory == HOST and _bytes(a) == _bytes(b)  # as TVM: the bytes are read anew
    if a.dtype != b.dtype or la != lb or math.prod(a.shape) != math.prod(b.shape):
        return False
    if a.shape == b.shape:
        return True
    (a_rows, a_cols), (b_rows, b_cols) = (((1, 1, *s)[-2:]) for s in (a.shape, b.shape))
    if a_cols != b_cols:
        return False
    return la.layout == ROW_MAJOR or a_rows == b_rows or (a_rows % 32 == 0 and b_rows % 32 == 0)


def _pairs(facts: Facts, mask: np.ndarray, rule: str):
    """(a nid, (input type, its layout, output type, its layout)) for each distinct combination among the
    masked nodes.

    Raises CheckError for a node that has not one input and one output.
    """
    plan, graph = facts.plan, facts.plan.graph
    nids = np.flatnonzero(mask)
    odd = nids[(np.diff(graph.in_ptr)[nids] != 1) | (np.diff(graph.row_ptr)[nids] != 1)]
    if len(odd):
        raise refuse(
            plan, rule, f"{graph.names[int(odd[0])]!r} must have one input and one output", nid=int(odd[0])
        )
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    key = facts.kind[source] * len(facts.kinds) + facts.kind[made]
    distinct = unique_values(key)
    example = np.zeros(len(distinct), np.int64)
    example[np.searchsorted(distinct, key)] = nids
    for nid, k in zip(example.tolist(), distinct.tolist(), strict=True):
        (a, la, _), (b, lb, _) = facts.kinds[k // len(facts.kinds)], facts.kinds[k % len(facts.kinds)]
        yield nid, (a, la, b, lb)
