"""A graph before its ids are final: nodes as a builder collects them -> a graph.json document.

What was said of some nodes only is completed here: devices, storage ids.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import orjson

from ...base import dtypes
from ...base.errors import DeviceError, DocumentError, GraphError
from ...base.machine import devices
from ..graph import NOP, TensorType
from ..ops import registry
from .columns import pool_type
from .nodes import NULL, NodeColumns

__all__ = [
    "DraftNode",
    "OpCall",
    "call_attrs",
    "device_name",
    "op_call",
    "plain",
    "storage_ids",
    "tensor_type",
    "to_document",
]

_UNSAID = (None,)


@dataclass(frozen=True, slots=True, eq=False)
class OpCall:
    """A call of a registered op: ``attrs`` decoded, ``raw`` the gr.* strings that a node has in a file, the
    output types ``made``, and the ``signature`` that calls of one function share."""

    attrs: dict[str, Any]
    raw: dict[str, str]
    made: tuple[TensorType, ...]
    signature: tuple[Any, ...]

    @property
    def op(self) -> str:
        """The op's name."""
        return self.signature[0]

    @property
    def func_name(self) -> str:
        """The function's name: the op and a hash of the signature; __nop for a reshape."""
        if registry.require(self.op).is_nop:
            return NOP
        import hashlib  # takes 3 ms, and few graphs need it

        return f"{self.op}_{hashlib.sha256(orjson.dumps(self.signature)).hexdigest()[:8]}"


def op_call(op: str, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> OpCall:
    """An op's call for inputs of these types; attributes that are None are not given.

    Raises UnsupportedOpError for an unknown op, GraphError for attributes or types that its rule refuses.
    """
    said = {key: plain(value) for key, value in attrs.items() if value is not None}
    entry, given = registry.resolve(op, said)
    entry.check_arity(len(types))
    decoded = entry.decode(given)
    made = tuple(entry.infer(list(types), decoded))
    raw = {"gr.op": entry.name, **{f"gr.{key}": orjson.dumps(decoded[key]).decode() for key in sorted(given)}}
    other = {attr.name: decoded[attr.name] for attr in entry.attrs if decoded[attr.name] != attr.default}
    return OpCall(
        decoded,
        raw,
        made,
        # an op's new attribute renames no function
        (
            entry.name,
            sorted((k, repr(v)) for k, v in other.items()),
            list(map(str, types)),
            list(map(str, made)),
        ),
    )


def call_attrs(
    func_name: str, inputs: int, outputs: int, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The attrs of a tvm_op node that calls a function; ``more``: what it has beyond these, or instead."""
    counts = {"num_inputs": str(inputs), "num_outputs": str(outputs)}
    return {"func_name": func_name, **counts, "flatten_data": "0", **(more or {})}


class Made(Protocol):
    """What a node makes: its output ``index``."""

    @property
    def nid(self) -> int: ...
    @property
    def index(self) -> int: ...


@dataclass(slots=True, eq=False)
class DraftNode:
    """A node: ``attrs`` None for a null node, ``device`` "kind:ordinal" or None, ``sids`` one an output,
    None where nothing was said.
    """

    name: str
    types: Sequence[TensorType]
    reads: Sequence[Made]
    attrs: dict[str, str] | None
    device: str | None
    sids: Sequence[int | None]


def to_document(
    nodes: Sequence[DraftNode],
    outputs: Sequence[tuple[int, int]],
    aliases: Sequence[tuple[int, int]],
    device: str,
) -> tuple[dict[str, Any], NodeColumns]:
    """The document without its nodes, and their columns. There is no device column unless a node names a
    device, then ops that name none go to ``device``; and no storage column unless a node names a storage id.
    """
    types = [t for node in nodes for t in node.types]
    shapes = {id(t): list(t.shape) for t in types}
    columns: dict[str, list[Any]] = {
        "dltype": ["list_str", [t.dtype for t in types]],
        "shape": ["list_shape", [shapes[id(t)] for t in types]],
    }
    if any(node.device for node in nodes):
        on = [
            devices.parse(name)
            for node, name in zip(nodes, _node_devices(nodes, device), strict=True)
            for _ in node.types
        ]
        if far := next((d for d in on if d.node), None):
            text = f"a graph's columns name no machine: place nodes on {far} with place={{'NAME': '{far}'}}"
            raise DeviceError(text, got=str(far), device=str(far))
        columns["device_index"] = ["list_int", [d.dl_type for d in on]]
        if any(d.ordinal for d in on):
            columns["device_id"] = ["list_int", [d.ordinal for d in on]]
    if any(sid is not None for node in nodes for sid in node.sids):
        columns["storage_id"] = ["list_int", _storage_ids(nodes)]
    document = {
        "arg_nodes": [nid for nid, node in enumerate(nodes) if node.attrs is None],
        "heads": [[nid, index, 0] for nid, index in outputs],
        "attrs": columns,
        "node_row_ptr": np.cumsum([0] + [len(node.types) for node in nodes]).tolist(),
    }
    if aliases:
        document["metadata"] = {"graph_runtime": {"version": 1, "aliases": [list(pair) for pair in aliases]}}
    return document, _columns(nodes)


def _columns(nodes: Sequence[DraftNode]) -> NodeColumns:
    reads = array("q", (n for node in nodes for made in node.reads for n in (made.nid, made.index)))
    runs: list[tuple[int, Any]] = []
    for nid, node in enumerate(nodes):
        attrs = NULL if node.attrs is None else node.attrs
        if not runs or runs[-1][1] != attrs:
            runs.append((nid, attrs))
    return NodeColumns(
        [node.name for node in nodes],
        np.array([len(node.reads) for node in nodes], np.int64),
        np.array(reads, np.int64).reshape(-1, 2),
        runs,
    )


def _node_devices(nodes: Sequence[DraftNode], device: str) -> list[str]:
    """A device for every node: an input without one goes to its first consumer's."""
    found = [node.device or (None if node.attrs is None else device) for node in nodes]
    for nid, node in enumerate(nodes):
        for made in node.reads:
            found[made.nid] = found[made.nid] or found[nid]
    return [name or device for name in found]


def _storage_ids(nodes: Sequence[DraftNode]) -> list[int]:
    """Ids that were not given are new ones, but a reshape shares its input's."""
    given = [sid for node in nodes for sid in node.sids if sid is not None]
    fresh = max(given) + 1
    found: dict[tuple[int, int], int] = {}
    for nid, node in enumerate(nodes):
        for index, sid in enumerate(node.sids):
            if sid is None and node.attrs is not None and node.attrs["func_name"] == NOP:
                sid = found[node.reads[0].nid, node.reads[0].index]
            if sid is None:
                sid, fresh = fresh, fresh + 1
            found[nid, index] = sid
    return list(found.values())


# ---------------------------------------------------------------- arguments of a builder's calls


def device_name(device: str | devices.Device) -> str:
    """A device as files name it. Raises DeviceError for what is none, GraphError for one of tests only."""
    parsed = devices.parse(device)
    if parsed.descriptor.test_only:
        raise GraphError(f"device {parsed} is for tests only and cannot stand in a file", device=str(parsed))
    return str(parsed)


def storage_ids(given: int | Sequence[int] | None, count: int, name: str) -> Sequence[int | None]:
    """One storage id an output, from one id, one an output, or None. Raises GraphError."""
    if given is None:
        return _UNSAID if count == 1 else [None] * count
    sids = [given] if isinstance(given, (int, np.integer)) else list(given)
    if len(sids) != count or any(
        isinstance(s, bool) or not isinstance(s, (int, np.integer)) or s < 0 for s in sids
    ):
        raise GraphError(
            f"node {name!r} has {count} outputs: storage is an integer from 0 for each, got {given!r}",
            node=name,
        )
    return [int(s) for s in sids]


def plain(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (np.ndarray, tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, Mapping):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise GraphError(f"an attribute cannot be {value}: JSON has no such number", got=value)
    return value


def tensor_type(dtype: Any, shape: Sequence[int], name: str) -> TensorType:
    """The type of what node ``name`` makes, from what a caller gives. Raises GraphError."""
    try:
        dims = tuple(int(d) for d in shape)
        if any(d < 0 or d != given for d, given in zip(dims, shape, strict=True)):
            raise ValueError
        return pool_type(dtype if isinstance(dtype, str) else dtypes.from_numpy(dtype), dims)
    except (TypeError, ValueError):
        raise GraphError(
            f"{name!r}: a shape is a tuple of integers from 0, got {shape!r}", node=name, got=shape
        ) from None
    except (DocumentError, GraphError) as error:
        raise GraphError(f"{name!r}: {error}", node=name, got=error.got) from None
