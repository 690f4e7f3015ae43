"""A graph before its ids are final: nodes as a builder collects them -> a graph.json document.

If only some nodes have devices or storage ids, the other nodes get theirs here.
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
from .columns import NULL, NodeColumns
from .loader import pool_type

_UNSAID = (None,)


@dataclass(frozen=True, slots=True, eq=False)
class OpCall:
    """A call of a registered op. ``attrs``: decoded attributes; ``raw``: the gr.* strings that the node has
    in a file; ``made``: the output types; ``signature``: equal for all calls of one function."""

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
    """The call of an op for inputs of these types; attributes that are None count as not given. Raises
    UnsupportedOpError for an unknown op, GraphError for attributes or types that the op's rule refuses."""
    values = {key: plain(value) for key, value in attrs.items() if value is not None}
    entry, given = registry.resolve(op, values)
    entry.check_arity(len(types))
    decoded = entry.decode(given)
    made = tuple(entry.infer(list(types), decoded))
    raw = {"gr.op": entry.name, **{f"gr.{key}": orjson.dumps(decoded[key]).decode() for key in sorted(given)}}
    other = {attr.name: decoded[attr.name] for attr in entry.attrs if decoded[attr.name] != attr.default}
    # defaults are left out, so that a new attribute of an op renames no function
    said = sorted((k, repr(v)) for k, v in other.items())
    return OpCall(decoded, raw, made, (entry.name, said, list(map(str, types)), list(map(str, made))))


def call_attrs(
    func_name: str, inputs: int, outputs: int, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Attrs of a tvm_op node that calls a function; ``more``: further attrs, which replace attrs of the same
    name."""
    counts = {"num_inputs": str(inputs), "num_outputs": str(outputs)}
    return {"func_name": func_name, **counts, "flatten_data": "0", **(more or {})}


class Made(Protocol):
    """A result of a node. ``index``: the result's place among the node's outputs."""

    @property
    def nid(self) -> int: ...
    @property
    def index(self) -> int: ...


@dataclass(slots=True, eq=False)
class DraftNode:
    """A node. ``attrs``: attrs in the file, None for a null node; ``device``: device as "kind:ordinal", or
    None; ``sids``: storage id of each output, None for an output that was given no id."""

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
    """The document without its nodes, and the columns of the nodes. The document has device columns only if a
    node names a device; ops that name none then run on ``device``. The document has a storage column only if
    a node names a storage id."""
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
    """The device of every node. An input that names no device is on the device of its first consumer."""
    found = [node.device or (None if node.attrs is None else device) for node in nodes]
    for nid, node in enumerate(nodes):
        for made in node.reads:
            found[made.nid] = found[made.nid] or found[nid]
    return [name or device for name in found]


def _storage_ids(nodes: Sequence[DraftNode]) -> list[int]:
    """The storage id of every entry. It is the id given for the entry, or else a new id; a reshape without a
    given id has the id of its input."""
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
    """A device's name in files. Raises DeviceError for an unknown device, GraphError for a device that exists
    for tests only."""
    parsed = devices.parse(device)
    if parsed.descriptor.test_only:
        raise GraphError(f"device {parsed} is for tests only and cannot stand in a file", device=str(parsed))
    return str(parsed)


def storage_ids(given: int | Sequence[int] | None, count: int, name: str) -> Sequence[int | None]:
    """Storage ids, one for each output, from a single id, a sequence, or None. Raises GraphError for ids that
    are not integers from 0, one for each output."""
    if given is None:
        return _UNSAID if count == 1 else [None] * count
    sids = [given] if isinstance(given, (int, np.integer)) else list(given)
    if len(sids) != count or any(
        isinstance(s, bool) or not isinstance(s, (int, np.integer)) or s < 0 for s in sids
    ):
        text = f"node {name!r} has {count} outputs: storage is an integer from 0 for each, got {given!r}"
        raise GraphError(text, node=name)
    return [int(s) for s in sids]


def plain(value: Any) -> Any:
    """An attribute as a JSON value."""
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
    """The type of node ``name``'s result from the caller's dtype and shape. Raises GraphError."""
    try:
        dims = tuple(int(d) for d in shape)
        if any(d < 0 or d != given for d, given in zip(dims, shape, strict=True)):
            raise ValueError
        return pool_type(dtype if isinstance(dtype, str) else dtypes.from_numpy(dtype), dims)
    except (TypeError, ValueError):
        text = f"{name!r}: a shape is a tuple of integers from 0, got {shape!r}"
        raise GraphError(text, node=name, got=shape) from None
    except (DocumentError, GraphError) as error:
        raise GraphError(f"{name!r}: {error}", node=name, got=error.got) from None
