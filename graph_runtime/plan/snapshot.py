"""A plan as one block of bytes beside its graph.json in a bundle: loading it parses and plans nothing.

    Plan --write_snapshot--> bytes --read_snapshot--> Plan

A snapshot is only a shortcut. A bundle without a snapshot, or with a snapshot that is for other devices or of
another version of this package, is read from its graph.json. Everything in a snapshot is checked: its header
by a schema, its columns by a table (snapshot_columns.py), its graph by the rules of a document, and the plan
by the independent checker.

The bytes of a snapshot, in order:

    "GRPLAN"
    u16        version
    u64        number of bytes of JSON
    JSON       functions, types, layouts, texts, and the place of each column
    columns    each begins at a multiple of 64 bytes
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import orjson

from ..base.errors import DocumentError
from ..base.json_text import parse_json
from ..base.machine.devices import Device
from ..base.machine.layout import Layout
from ..ir.documents.document import check_schema
from ..ir.documents.functions import check_functions, make_functions
from ..ir.documents.loader import check_arg_nodes, check_order, check_placeholders, pool_type
from ..ir.documents.weights import ALIGNMENT, lay_out, write_values
from ..ir.graph import Graph, TensorType
from ..ir.ops.numerics import Numerics, options_error
from .checker.check import check
from .snapshot_columns import of_group, read_columns
from .types import Plan, Storage

_MAGIC = b"GRPLAN\x01\x00"
_HEAD = len(_MAGIC) + 8
_HEADER = "the header of a plan's snapshot"
_BY_MEMORY = ("peak", "lower_bound")  # fields of the form {(did, memory): value}
_LISTS = ("causes", "layout_causes", "warnings", "aliases")
_OTHERS = (
    "graph",
    "devices",
    "layouts",
    "storage",
    "numerics",
    "placement",
    "circular",
)  # kernels compute ``circular`` again where the plan is loaded


def write_snapshot(plan: Plan) -> bytes | None:
    """The snapshot of a plan; None if a snapshot cannot hold the plan's content: op models of a balancer,
    shards, control dependencies, a name with a zero character, functions without the attrs of a file."""
    if not _can_hold(plan):
        return None
    graph = plan.graph
    columns = {"names": np.frombuffer("\0".join(graph.names).encode(), np.uint8)}
    for group, source in (("graph", graph), ("plan", plan), ("storage", plan.storage)):
        columns |= {
            f"{group}.{name}": np.asarray(getattr(source, name)).astype(dtype)
            for name, dtype in of_group(group).items()
        }
    slots, _ = lay_out({key: TensorType(column.dtype.name, column.shape) for key, column in columns.items()})
    header = {
        "devices": [device.spelling for device in plan.devices],
        "funcs": [[func.num_inputs, func.raw] for func in graph.funcs],
        "types": [[t.dtype, t.shape] for t in graph.types],
        "layouts": [[x.memory, x.layout, x.format] for x in plan.layouts],
        "numerics": [words.as_dict() for words in plan.numerics],
        "by_memory": {
            name: [[*key, value] for key, value in getattr(plan, name).items()] for name in _BY_MEMORY
        },
        "lists": {name: getattr(plan, name) for name in _LISTS},
        "columns": {key: [slot.type.dtype, slot.type.shape[0], slot.offset] for key, slot in slots.items()},
    }
    text = orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    text += b" " * (-(_HEAD + len(text)) % ALIGNMENT)
    out = io.BytesIO()
    out.write(_MAGIC + len(text).to_bytes(8, "little") + text)
    write_values(out, slots, columns)
    return out.getvalue()


def _can_hold(plan: Plan) -> bool:
    graph, known = plan.graph, {*of_group("plan"), *_BY_MEMORY, *_LISTS, *_OTHERS}
    more = [getattr(plan, f.name) for f in fields(plan) if f.name not in known]
    return (
        all(value is None or value == () for value in more)
        and not graph.control_deps
        and not graph.extra_columns
        and all(layout.shard is None for layout in plan.layouts)
        and all("\0" not in name for name in graph.names)
        and all(func.raw for func in graph.funcs)
    )


def read_snapshot(
    data: memoryview, devices: Sequence[Device], inplace: Mapping[str, tuple[int, ...]] | None = None
) -> Plan | None:
    """The plan in a snapshot, checked; None if the snapshot is of another version or for other devices.

    The header is checked by schemas/plan.schema.json, every column by its row of COLUMNS, all columns
    together by the rules of a document's graph, and the plan by the checker. Raises DocumentError for damaged
    bytes, and GraphError or CheckError for what loading a document also refuses.
    """
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        return None
    size = int.from_bytes(data[len(_MAGIC) : _HEAD], "little")
    if _HEAD + size > len(data):
        raise _damaged(f"it has {len(data)} bytes and says that its header has {size}")
    header = parse_json(bytes(data[_HEAD : _HEAD + size]), _HEADER, fractions=False)
    check_schema(header, "plan", _HEADER)
    if header["devices"] != [device.spelling for device in devices]:
        return None
    lists = header["lists"]
    columns = read_columns(
        header["columns"],
        data[_HEAD + size :],
        {
            "functions": len(header["funcs"]),
            "types": len(header["types"]),
            "layouts": len(header["layouts"]),
            "causes": len(lists["causes"]),
            "devices": len(devices),
            "memories": max(len(device.descriptor.memories) for device in devices),
        },
    )
    plan = _plan(header, _graph(header, columns), columns, tuple(devices))
    check_functions(plan.graph)
    return check(plan, inplace=inplace)


def _of(group: str, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """{field: column} of a group of columns. The values have type Any, because mypy requires that each value
    passed by ``**`` fits every field that is not passed by name."""
    return {name: columns[f"{group}.{name}"] for name in of_group(group)}


def _graph(header: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> Graph:
    """The graph in a snapshot, with checked order and inputs."""
    try:
        names = tuple(columns["names"].tobytes().decode().split("\0"))
    except UnicodeDecodeError:
        raise _damaged("its names are not UTF-8") from None
    given = _of("graph", columns)
    if len(names) != len(given["func_id"]):
        raise _damaged(f"it has {len(names)} names for {len(given['func_id'])} nodes")
    funcs = make_functions([(count, raw) for count, raw in header["funcs"]])
    types = tuple(pool_type(dtype, tuple(shape)) for dtype, shape in header["types"])
    graph = Graph(names=names, funcs=funcs, types=types, **given)
    for name, count, null, last in (
        ("row_ptr", "num_outputs", 1, len(graph.type_id)),
        ("in_ptr", "num_inputs", 0, len(graph.in_eid)),
    ):
        pointers = given[name]
        wanted = np.array([*(getattr(func, count) for func in funcs), null], np.int64)[graph.func_id]
        if pointers[0] != 0 or pointers[-1] != last or (np.diff(pointers) != wanted).any():
            raise _damaged(f"{name} is not what the nodes' functions take and give")
    check_order(names, graph.func_id, graph.in_ptr, graph.entry_nid[graph.in_eid])
    check_arg_nodes(graph.inputs, names, graph.func_id)
    check_placeholders(graph)
    return graph


def _plan(
    header: Mapping[str, Any], graph: Graph, columns: Mapping[str, np.ndarray], devices: tuple[Device, ...]
) -> Plan:
    storage = Storage(**_of("storage", columns))
    memories = np.array([len(device.descriptor.memories) for device in devices])
    if (storage.memory >= memories[storage.did]).any():
        raise _damaged("a storage lies in a memory that its device does not have")
    lists: dict[str, Any] = {
        name: tuple(map(tuple, value) if name == "aliases" else value)
        for name, value in header["lists"].items()
    }
    if len(lists["layout_causes"]) != len(header["layouts"]):
        raise _damaged(f"it has {len(lists['layout_causes'])} causes for {len(header['layouts'])} layouts")
    return Plan(
        graph=graph,
        devices=devices,
        layouts=tuple(Layout(*row) for row in header["layouts"]),
        storage=storage,
        **_of("plan", columns),
        **lists,
        **_by_memory(header["by_memory"], storage),
        numerics=_numerics(header["numerics"], devices),
    )


def _by_memory(said: Mapping[str, Any], storage: Storage) -> dict[str, Any]:
    """The fields ``peak``, which must be the end of the last storage in each memory, and ``lower_bound``,
    which must not exceed ``peak``."""
    found = {name: {(did, memory): value for did, memory, value in said[name]} for name in _BY_MEMORY}
    regions, row = np.unique(storage.region, return_inverse=True)
    end = np.zeros(len(regions), np.int64)
    np.maximum.at(end, row, storage.offset + storage.extent)
    ends = dict(zip((Storage.where(region) for region in regions.tolist()), end.tolist(), strict=True))
    if found["peak"] != ends:
        raise _damaged("its peaks are not where its storages end")
    for where, bound in found["lower_bound"].items():
        if bound > ends.get(where, -1):
            raise _damaged("a lower bound is above the peak of its memory")
    return found


def _numerics(rows: Sequence[Mapping[str, str]], devices: Sequence[Device]) -> tuple[Numerics, ...]:
    if len(rows) not in (0, len(devices)):
        raise _damaged(f"it has numerics of {len(rows)} devices, there are {len(devices)}")
    for words in rows:
        if reason := options_error(words):
            raise _damaged(reason)
    return tuple(Numerics(**words) for words in rows)


def _damaged(text: str) -> DocumentError:
    return DocumentError(f"a plan's snapshot is damaged: {text}")
