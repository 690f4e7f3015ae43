"""Facts that the checker derives from a plan before it applies its rules, the error that refuses a plan, and
the rules about nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...base import dtypes
from ...base.errors import CheckError
from ...base.machine.devices import Memory
from ...base.machine.layout import HOST, ROW_MAJOR, TILE, Layout, Shard
from ...ir.graph import COPY, NOP, TensorType
from ...ir.ops import registry
from ..types import Plan

CORRECT_STORAGE = "; correct storage_id and metadata.graph_runtime.storage, or leave both out"
_ADVICE = {  # {rule: advice to the user} for a plan that comes from a file
    "order": "; list nodes after the nodes that they read",
    "device": "; insert a __copy, or leave the device columns out",
    "storage": CORRECT_STORAGE,
    "alias": "; drop the alias, or correct its output and input",
    "at_input": "; drop the node from at_input",
}


def refuse(
    plan: Plan,
    rule: str,
    text: str,
    *,
    nid: int | None = None,
    entries: tuple[int, ...] = (),
    path: str | None = None,
    **fields,
) -> CheckError:
    """The error that refuses a plan, with the advice for its rule. ``nid``: node that the error names, with
    its path in the file; ``entries``: eids that the error names."""
    if nid is not None:
        fields["node"] = plan.graph.names[nid]
        if path is None and plan.origin[nid] >= 0:
            path = f"$.nodes[{int(plan.origin[nid])}]"
    if path is not None:
        fields["path"] = path
    text = f"plan refused ({rule}): {text}{_ADVICE.get(rule, '')}"
    return CheckError(text, rule=rule, entries=tuple(map(int, entries)), **fields)


def storage_path(plan: Plan, eid: int) -> str | None:
    """Path in the file of an entry's storage id; None for an entry that the file does not have."""
    of_file = np.repeat(plan.origin >= 0, np.diff(plan.graph.row_ptr))
    return f"$.attrs.storage_id[1][{int(of_file[:eid].sum())}]" if of_file[eid] else None


def check_columns(plan: Plan) -> None:
    """Check that every column has its length and every id is in range, so that the other rules can use ids as
    indices."""
    graph, storage = plan.graph, plan.storage
    n, entries, slots = graph.num_nodes, graph.num_entries, len(graph.in_eid)
    memories = np.array([len(d.descriptor.memories) for d in plan.devices])
    big = np.iinfo(np.int64).max // 4
    columns = [
        ("row_ptr steps", np.diff(graph.row_ptr), n, 0, big),
        ("in_ptr steps", np.diff(graph.in_ptr), n, 0, big),
        ("func_id", graph.func_id, n, -1, len(graph.funcs)),
        ("type_id", graph.type_id, entries, 0, len(graph.types)),
        ("inputs", graph.in_eid, slots, 0, entries),
        ("heads", graph.outputs, None, 0, entries),
        ("arg_nodes", graph.inputs, None, 0, n),
        ("did", plan.did, n, 0, len(plan.devices)),
        ("origin", plan.origin, n, -1, big),
        ("at_input", plan.at_input, n, 0, 2),
        ("cause_id", plan.cause_id, n, 0, len(plan.causes)),
        ("layout_id", plan.layout_id, entries, 0, len(plan.layouts)),
        ("sid", plan.sid, entries, 0, storage.count),
        ("storage.did", storage.did, None, 0, len(plan.devices)),
    ]
    for name, column, length, low, high in columns:
        _check_range(plan, name, column, length, low, high)
    for name in ("memory", "offset", "extent", "nbytes"):
        _check_range(plan, f"storage.{name}", getattr(storage, name), storage.count, 0, big)
    if (storage.memory >= memories[storage.did]).any():
        raise refuse(plan, "columns", "a storage lies in a memory that its device does not have")
    if slots != graph.in_ptr[-1] or (graph.func_id[graph.inputs] >= 0).any():
        text = "the graph's inputs are not its null nodes, or in_ptr does not fit them"
        raise refuse(plan, "columns", text)


def _check_range(plan: Plan, name: str, column: np.ndarray, length: int | None, low: int, high: int) -> None:
    if length is not None and len(column) != length:
        raise refuse(plan, "columns", f"column {name} has {len(column)} elements, must have {length}")
    if len(column) and not (low <= column.min() and column.max() < high):
        at = int(np.flatnonzero((column < low) | (column >= high))[0])
        text = f"column {name} has {int(column[at])} at {at}, must be from {low} to {high - 1}"
        raise refuse(plan, "columns", text)


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """A plan with columns derived from it. ``copies``, ``nops`` and ``null`` are masks over nodes. ``maker``
    int64 [entries] and ``reader`` int64 [slots]: nids of the nodes that make an entry and read a slot;
    ``entry_did`` [entries]: each entry's device; ``same_layout`` [layouts]: index of the first layout that is
    equal; ``kinds``: the distinct (type, layout, did); ``kind`` [entries]: each entry's row in ``kinds``."""

    plan: Plan
    inplace: Mapping[str, tuple[int, ...]]
    copies: np.ndarray
    nops: np.ndarray
    null: np.ndarray
    maker: np.ndarray
    reader: np.ndarray
    entry_did: np.ndarray
    same_layout: np.ndarray
    kinds: list[tuple[TensorType, Layout, int]]
    kind: np.ndarray

    @classmethod
    def of(cls, plan: Plan, inplace: Mapping[str, tuple[int, ...]]) -> Facts:
        """The facts of a plan whose columns have been checked (check_columns); ``inplace``: permissions to
        overwrite inputs, as in check."""
        graph, nl, nd = plan.graph, len(plan.layouts), len(plan.devices)
        names = [f.name for f in graph.funcs]
        entry_did = np.repeat(plan.did, np.diff(graph.row_ptr))
        key = (graph.type_id.astype(np.int64) * nl + plan.layout_id) * nd + entry_did
        distinct = np.array(sorted({*key.tolist()}), np.int64)
        kinds = [(graph.types[k // (nl * nd)], plan.layouts[k // nd % nl], k % nd) for k in distinct.tolist()]
        nodes = np.arange(graph.num_nodes)
        first = {layout: at for at, layout in reversed(list(enumerate(plan.layouts)))}
        return cls(
            plan,
            inplace,
            np.array([n == COPY for n in names] + [False])[graph.func_id],
            np.array([n == NOP for n in names] + [False])[graph.func_id],
            graph.func_id < 0,
            np.repeat(nodes, np.diff(graph.row_ptr)),
            np.repeat(nodes, np.diff(graph.in_ptr)),
            entry_did,
            np.array([first[layout] for layout in plan.layouts], np.int64),
            kinds,
            np.searchsorted(distinct, key),
        )

    def name(self, eid: int) -> str:
        return repr(self.plan.graph.names[int(self.maker[eid])])

    def may_overwrite(self, slots: np.ndarray) -> np.ndarray:
        """bool [slots]: whether the op allows output 0 to be written over this input."""
        graph = self.plan.graph
        reader = self.reader[slots]
        position = slots - graph.in_ptr[reader]
        called, row = np.unique(graph.func_id[reader], return_inverse=True)
        by_position: dict[int, list[int]] = {}
        for number, fid in enumerate(called.tolist()):
            func = graph.funcs[fid]
            op = registry.get(func.op) if func.op else None
            granted = self.inplace.get(func.name, op.inplace if op else ())
            for index in () if func.name in (COPY, NOP) else granted:
                by_position.setdefault(index, []).append(number)
        allowed = np.zeros(len(slots), bool)
        for index, numbers in by_position.items():
            permits = np.zeros(len(called), bool)
            permits[numbers] = True
            allowed |= (position == index) & permits[row]
        return allowed


def _itemsize(fmt: dtypes.Format) -> int:
    assert fmt.itemsize is not None  # check_layouts refuses a block format in rows
    return fmt.itemsize


_MOST = 1 << 62  # more bytes than any memory has; keeps sizes within int64


def taken(type_: TensorType, layout: Layout, memory: Memory) -> tuple[int, int]:
    """Pair of the bytes that an entry takes in each bank and over all banks, with padding."""
    if memory.name == HOST:
        total = math.prod(type_.shape) * dtypes.parse(type_.dtype).itemsize
        return min(total, _MOST), min(total, _MOST)
    fmt, shape = dtypes.FORMATS[layout.format], type_.shape or (1,)
    rows, cols = shape[-2] if len(shape) > 1 else 1, shape[-1]
    if layout.layout == TILE:
        down, across = math.prod(shape[:-2]) * -(-rows // 32), -(-cols // 32)
        page = fmt.tile_bytes + memory.tile_header
    else:
        down, across, page = math.prod(shape[:-1]), 1, cols * _itemsize(fmt)
    if layout.shard is not None:
        return _in_shards(layout, layout.shard, down, across if layout.layout == TILE else cols, memory)
    page = -(-page // memory.alignment) * memory.alignment
    return min(-(-down * across // memory.banks) * page, _MOST), min(down * across * page, _MOST)


def _in_shards(layout: Layout, shard: Shard, down: int, across: int, memory: Memory) -> tuple[int, int]:
    """The same as ``taken``, for a tensor of ``down`` x ``across`` tiles (or rows x elements) with one shard
    in a bank."""
    fmt, (rows, cols) = dtypes.FORMATS[layout.format], shard.shape
    if layout.layout == TILE:
        rows, cols = rows // 32, cols // 32
        pieces, piece = rows * cols, fmt.tile_bytes + memory.tile_header
    else:
        pieces, piece = rows, cols * _itemsize(fmt)
    bank = pieces * (-(-piece // memory.alignment) * memory.alignment)
    return min(bank, _MOST), min(bank * -(-down // rows) * -(-across // cols), _MOST)


# **************** rules about nodes: order, devices, layouts, copies, reshapes ****************


def check_order(facts: Facts) -> None:
    """Check that every input of a node is made by an earlier node."""
    graph = facts.plan.graph
    late = facts.maker[graph.in_eid] >= facts.reader
    if late.any():
        slot = int(np.flatnonzero(late)[0])
        eid, nid = int(graph.in_eid[slot]), int(facts.reader[slot])
        text = f"node {graph.names[nid]!r} reads entry {eid} before {facts.name(eid)} writes it"
        raise refuse(facts.plan, "order", text, nid=nid, entries=(eid,))


def check_devices(facts: Facts) -> None:
    """Check that every node but a __copy reads only entries of its own device."""
    plan, graph = facts.plan, facts.plan.graph
    away = (facts.entry_did[graph.in_eid] != plan.did[facts.reader]) & ~facts.copies[facts.reader]
    if away.any():
        slot = int(np.flatnonzero(away)[0])
        eid, nid = int(graph.in_eid[slot]), int(facts.reader[slot])
        here, there = str(plan.devices[plan.did[nid]]), str(plan.devices[facts.entry_did[eid]])
        text = f"node {graph.names[nid]!r} on {here} reads {facts.name(eid)}, which lives on {there}, "
        text += "without a __copy"
        raise refuse(plan, "device", text, nid=nid, entries=(eid,), device=here, got=there, wanted=here)


def check_layouts(facts: Facts) -> None:
    """Check that an entry's memory, layout and format exist on its device, and that the format can hold the
    logical dtype."""
    plan = facts.plan
    for row, (type_, layout, did) in enumerate(facts.kinds):
        reason = _layout_fault(type_, layout, plan.devices[did].descriptor)
        if reason:
            eid, device = int(np.flatnonzero(facts.kind == row)[0]), str(plan.devices[did])
            text = f"{facts.name(eid)} is {type_} in {layout} on {device}: {reason}"
            nid = int(facts.maker[eid])
            raise refuse(plan, "layout", text, nid=nid, entries=(eid,), device=device, got=str(layout))


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
    """The fault of a sharding that does not put every element into exactly one shard, and every shard on a
    core of its own; None if there is no fault."""
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
    """Check that a __copy keeps the dtype and the number of elements, or reinterprets the same bytes between
    row-major tensors on hosts."""
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
        text = f"{facts.plan.graph.names[nid]!r} copies {a} to {b}: {reason}"
        raise refuse(facts.plan, "copy", text, nid=nid)


def _bytes(type_: TensorType) -> int:
    return math.prod(type_.shape) * dtypes.parse(type_.dtype).itemsize


def check_nops(facts: Facts) -> None:
    """Check that a __nop's output is in its input's storage, and that the bytes mean the same tensor in both
    shapes."""
    graph, sid = facts.plan.graph, facts.plan.sid
    pairs = list(_pairs(facts, facts.nops, "nop"))  # _pairs also checks for one input and one output
    nids = np.flatnonzero(facts.nops)
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    apart = np.flatnonzero(sid[made] != sid[source])
    if len(apart):
        nid, eids = int(nids[apart[0]]), (int(source[apart[0]]), int(made[apart[0]]))
        text = f"nothing writes the output of {graph.names[nid]!r}: a __nop shares its input's storage, "
        text += f"but storage ids are {int(sid[eids[0]])} and {int(sid[eids[1]])}"
        raise refuse(facts.plan, "nop", text, nid=nid, entries=eids)
    for nid, (a, la, b, lb) in pairs:
        if not _means_the_same(a, la, b, lb):
            text = f"{graph.names[nid]!r} presents {a} in {la} as {b} in {lb}, whose bytes lie elsewhere; "
            text += "make it a __copy"
            raise refuse(facts.plan, "nop", text, nid=nid)


def _means_the_same(a: TensorType, la: Layout, b: TensorType, lb: Layout) -> bool:
    """Whether the bytes of ``a`` in layout ``la``, read as ``b`` in layout ``lb``, are the reshaped
    tensor."""
    if la.memory == HOST:
        return lb.memory == HOST and _bytes(a) == _bytes(b)  # as in TVM: the same bytes, another type
    if a.dtype != b.dtype or la != lb or math.prod(a.shape) != math.prod(b.shape):
        return False
    if a.shape == b.shape:
        return True
    (a_rows, a_cols), (b_rows, b_cols) = (((1, 1, *s)[-2:]) for s in (a.shape, b.shape))
    if a_cols != b_cols:
        return False
    return la.layout == ROW_MAJOR or a_rows == b_rows or (a_rows % 32 == 0 and b_rows % 32 == 0)


def _pairs(facts: Facts, mask: np.ndarray, rule: str):
    """Yields a pair for each distinct combination of input type, input layout, output type and output layout
    among the nodes of ``mask``: the nid of an example, and the combination. Raises CheckError for a node
    without exactly one input and one output."""
    plan, graph = facts.plan, facts.plan.graph
    nids = np.flatnonzero(mask)
    odd = nids[(np.diff(graph.in_ptr)[nids] != 1) | (np.diff(graph.row_ptr)[nids] != 1)]
    if len(odd):
        nid = int(odd[0])
        raise refuse(plan, rule, f"{graph.names[nid]!r} must have one input and one output", nid=nid)
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    key = facts.kind[source] * len(facts.kinds) + facts.kind[made]
    distinct = np.array(sorted({*key.tolist()}), np.int64)
    example = np.zeros(len(distinct), np.int64)
    example[np.searchsorted(distinct, key)] = nids
    for nid, k in zip(example.tolist(), distinct.tolist(), strict=True):
        (a, la, _), (b, lb, _) = facts.kinds[k // len(facts.kinds)], facts.kinds[k % len(facts.kinds)]
        yield nid, (a, la, b, lb)
