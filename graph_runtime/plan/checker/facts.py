"""What the checker knows of a plan before it applies its rules, and how it says no."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...base import dtypes
from ...base.errors import CheckError
from ...base.machine.devices import Memory
from ...base.machine.layout import HOST, TILE, Layout, Shard
from ...base.unique import unique_values
from ...ir.graph import COPY, NOP, TensorType
from ...ir.ops import registry
from ..types import Plan

__all__ = ["Facts", "check_columns", "refuse"]


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
    """The error that refuses a plan; ``nid`` gives the node's name and its path in the file, ``entries``
    eids of the plan."""
    if nid is not None:
        fields["node"] = plan.graph.names[nid]
        if path is None and plan.origin[nid] >= 0:
            path = f"$.nodes[{int(plan.origin[nid])}]"
    if path is not None:
        fields["path"] = path
    return CheckError(f"plan refused ({rule}): {text}", rule=rule, entries=tuple(map(int, entries)), **fields)


def storage_path(plan: Plan, eid: int) -> str | None:
    """Where the file says an entry's storage; None for an entry that no file has."""
    of_file = np.repeat(plan.origin >= 0, np.diff(plan.graph.row_ptr))
    return f"$.attrs.storage_id[1][{int(of_file[:eid].sum())}]" if of_file[eid] else None


def check_columns(plan: Plan) -> None:
    """Every column has its length and every id is in range, so that the other rules can index by them."""
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
        raise refuse(
            plan, "columns", "the graph's inputs are not its null nodes, or in_ptr does not fit them"
        )


def _check_range(plan: Plan, name: str, column: np.ndarray, length: int | None, low: int, high: int) -> None:
    if length is not None and len(column) != length:
        raise refuse(plan, "columns", f"column {name} has {len(column)} elements, must have {length}")
    if len(column) and not (low <= column.min() and column.max() < high):
        at = int(np.flatnonzero((column < low) | (column >= high))[0])
        raise refuse(
            plan, "columns", f"column {name} has {int(column[at])} at {at}, must be in {low} .. {high - 1}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """A plan with what follows from it. Masks over nodes: ``copies``, ``nops``, ``null``. ``maker`` int64
    [entries] nid; ``reader`` int64 [slots] nid; ``entry_did`` [entries]; ``same_layout`` [layouts]: the first
    layout equal to each; ``kinds`` the distinct (type, layout, did) and ``kind`` [entries] the row of each
    entry in them."""

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
        """The facts of a plan whose columns have been checked (check_columns); ``inplace`` as check."""
        graph, nl, nd = plan.graph, len(plan.layouts), len(plan.devices)
        names = [f.name for f in graph.funcs]
        entry_did = np.repeat(plan.did, np.diff(graph.row_ptr))
        key = (graph.type_id.astype(np.int64) * nl + plan.layout_id) * nd + entry_did
        distinct = unique_values(key)
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
        """bool [slots]: the op lets its output 0 be written over this input."""
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
    assert fmt.itemsize is not None  # check_layouts refuses rows of a block format
    return fmt.itemsize


_MOST = 1 << 62  # more than any memory has; keeps sizes within int64


def taken(type_: TensorType, layout: Layout, memory: Memory) -> tuple[int, int]:
    """(bytes in each bank, bytes over all banks, padding counted) of an entry."""
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
    """The same of a tensor of ``down`` x ``across`` tiles, or rows x elements, one shard in a bank."""
    fmt, (rows, cols) = dtypes.FORMATS[layout.format], shard.shape
    if layout.layout == TILE:
        rows, cols = rows // 32, cols // 32
        pieces, piece = rows * cols, fmt.tile_bytes + memory.tile_header
    else:
        pieces, piece = rows, cols * _itemsize(fmt)
    bank = pieces * (-(-piece // memory.alignment) * memory.alignment)
    return min(bank, _MOST), min(bank * -(-down // rows) * -(-across // cols), _MOST)
