"""Capabilities of a device: the default layout of a type on the device, and whether it has a kernel for a
node. Nodes that cannot run on the requested device are listed in one error, or moved to a host and named in
warnings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dtypes import FORMATS, ROWS, TILED, format_of
from ..base.errors import PlanError, UnsupportedOpError, did_you_mean
from ..base.machine.descriptors import HOST_KERNELS, Descriptor
from ..base.machine.devices import NO_KERNELS, Device, kernels_of
from ..base.machine.layout import HOST, L1, ROW_MAJOR, TILE, Layout
from ..ir.graph import COPY, NOP, Graph, NodeView, TensorType
from ..ir.ops import registry
from ..ir.ops.rules import select
from .columns import intern

_LEAST_FILL = 32  # a tensor is tiled if at least 1/32 of its tiles' elements are real
_TILE_SIZE = 32 * 32

FALLBACKS = ("error", "host")
_MOST_NAMED = 12
Kernels = Mapping[str, Collection[str]]  # {function: device kinds for which a library has the function}


def require_kernels(graph: Graph, devices: tuple[Device, ...], did: np.ndarray, kernels: Kernels) -> None:
    """Raises UnsupportedOpError, which lists all nodes for which their devices have no kernel; its field
    ``nodes`` has (name, device, reason) of each."""
    found: list[tuple[int, str]] = []
    for group in _equal_calls(graph, np.flatnonzero(graph.func_id >= 0), did, len(devices)):
        nid = int(group[0])
        reason = no_kernel(graph.node(nid), devices[did[nid]], kernels)
        if reason:
            found += [(nid, reason) for nid in group.tolist()]
    if found:
        raise _refusal(graph, devices, did, sorted(found))


def require_able(
    graph: Graph, devices: tuple[Device, ...], did: np.ndarray, kernels: Kernels, allowed: np.ndarray
) -> None:
    """Raises UnsupportedOpError, as require_kernels does, for nodes to which ``allowed`` bool [nodes, k]
    leaves no device. The error gives the reason why the node's device in ``did`` cannot run the node."""
    stuck = np.flatnonzero((graph.func_id >= 0) & ~allowed.any(1)).tolist()
    if stuck:
        reasons = [unable(graph.node(n), devices[did[n]], kernels) or "no other device may" for n in stuck]
        raise _refusal(graph, devices, did, list(zip(stuck, reasons, strict=True)))


def _equal_calls(graph: Graph, calls: np.ndarray, did: np.ndarray, count: int) -> list[np.ndarray]:
    """Groups of the nodes ``calls`` with one function and one device; nodes of one function have the same
    types."""
    if not len(calls):
        return []
    keys = graph.func_id[calls].astype(np.int64) * count + did[calls]
    distinct, row = intern(keys, len(graph.funcs) * count)
    order = np.argsort(row, kind="stable")
    return np.split(calls[order], np.searchsorted(row[order], np.arange(1, len(distinct))))


def _refusal(
    graph: Graph, devices: tuple[Device, ...], did: np.ndarray, found: list[tuple[int, str]]
) -> UnsupportedOpError:
    nid, reason = found[0]
    node, device = graph.node(nid), str(devices[did[nid]])
    text = f"node {node.name!r} (op {node.op}) cannot run on {device}: {reason}"
    more = [f"{graph.names[n]!r} (op {graph.node(n).op}) on {devices[did[n]]}: {why}" for n, why in found[1:]]
    if more:
        rest = f", and {len(more) - _MOST_NAMED} more" if len(more) > _MOST_NAMED else ""
        text += f"; nor can {'; '.join(more[:_MOST_NAMED])}{rest}"
    them = "them" if more else "it"
    hosts = [str(d) for d in devices if d.descriptor.on_host]
    advice = f"; place {them} on another device" + (
        f", or let fallback='host' run {them} on {hosts[0]}" if hosts and hosts != [device] else ""
    )
    return UnsupportedOpError(
        text + advice,
        path=f"$.nodes[{nid}]",
        node=node.name,
        op=node.op,
        device=device,
        reason=reason,
        nodes=[(graph.names[n], str(devices[did[n]]), why) for n, why in found],
    )


def fall_back(
    graph: Graph, devices: tuple[Device, ...], did: np.ndarray, asked: np.ndarray, kernels: Kernels
) -> tuple[list[int], list[str]]:
    """Move the nodes ``asked`` (bool [nodes]) that cannot run on their device: ``did`` gets, in place, the
    first host that can run the node, else the first such device. The result is the list of moved nodes, and a
    list with a sentence for each. A node that no device can run stays."""
    fallen, texts = [], []
    known: dict[tuple[Any, ...], tuple[str, int] | None] = {}
    for nid in np.flatnonzero(asked).tolist():
        node = graph.node(nid)
        key = (int(graph.func_id[nid]), int(did[nid]), node.input_types, node.output_types)
        if key not in known:
            known[key] = _elsewhere(node, devices, key[1], kernels)
        other = known[key]
        if other is not None:
            reason, able = other
            texts.append(
                f"node {node.name!r} (op {node.op}) was asked to run on {devices[key[1]]} and runs "
                f"on {devices[able]}: {reason}"
            )
            fallen.append(nid)
            did[nid] = able
    return fallen, texts


def to_the_host(
    graph: Graph, devices: tuple[Device, ...], did: np.ndarray, inputs: Iterable[int]
) -> Iterator[tuple[int, int, str]]:
    """Yields (node, the first host, reason) for each input that no node reads and that its device cannot
    hold; nothing if the device list has no host."""
    hosts = [i for i, device in enumerate(devices) if device.descriptor.on_host]
    for nid in inputs if hosts else ():
        type_ = graph.entry_type(int(graph.row_ptr[nid]))
        if not holds(type_, devices[did[nid]].descriptor):
            yield nid, hosts[0], f"nothing reads it, and {devices[did[nid]]} holds no {type_.dtype}"


def _elsewhere(
    node: NodeView, devices: tuple[Device, ...], did: int, kernels: Kernels
) -> tuple[str, int] | None:
    """(reason why a node cannot run on a device, a device that can run the node); None if the device can, or
    no device can."""
    reason = unable(node, devices[did], kernels)
    if reason is None:
        return None
    able = [d for d, other in enumerate(devices) if unable(node, other, kernels) is None]
    return (reason, min(able, key=lambda d: (not devices[d].descriptor.on_host, d))) if able else None


# **************** one node ****************


def unable(node: NodeView, device: Device, kernels: Kernels) -> str | None:
    """The reason why a device cannot run a node; None if the device can, or if only a library that the caller
    did not name knows the function."""
    for type_ in (*node.input_types, *node.output_types):
        try:
            choose(type_, device.descriptor, None)
        except PlanError as error:
            return str(error)
    return no_kernel(node, device, kernels)


def no_kernel(node: NodeView, device: Device, kernels: Kernels) -> str | None:
    """The reason why neither a library nor the registry has a kernel for a node on a device; None if there is
    a kernel, or only a library that the caller did not name knows the function."""
    func = node.func
    if func is None or func.name in (COPY, NOP) or device.kernels == NO_KERNELS:
        return None
    kinds = kernels.get(func.name)
    if kinds is not None and device.kind in kinds:
        return None
    op = None if func.op is None else registry.get(func.op)
    if op is None:
        return (
            None
            if kinds is None
            else (f"the libraries have function {func.name} for {', '.join(sorted(kinds))} only")
        )
    if op.is_nop:
        return None
    try:
        select(op, func.attrs, device.kernels, node.input_types, node.output_types)
    except UnsupportedOpError as error:
        return str(error)
    return None


def circular_room(device: Device) -> int:
    """Bytes of a core's L1 for circular buffers if no tensor is there; 0 on a device whose cores open
    none."""
    memory = next((memory for memory in device.descriptor.memories if memory.name == L1), None)
    if memory is None or device.kernels == NO_KERNELS:
        return 0
    return memory.bank_bytes // memory.alignment * memory.alignment - memory.base


def too_large(needed: int, device: Device) -> str:
    """Error text about a node whose circular buffers exceed the L1."""
    return f"opens {needed} B of circular buffers on a core, whose L1 has {circular_room(device)} B"


def choose(type_: TensorType, device: Descriptor, fmt: str | None) -> tuple[Layout, str]:
    """The layout of a type in a device's first memory, and a sentence with the reason. ``fmt``: format of
    floats; None: the dtype of the tensor decides.

    Raises PlanError for a dtype that the device cannot hold.
    """
    native = format_of(type_.dtype)
    if device.on_host:
        return Layout(HOST, ROW_MAJOR, native.name if native else type_.dtype), "host memory"
    memory = device.memories[0].name
    if native is None or not holds(type_, device):
        nearest = " or ".join(native.narrower) if native else ""
        raise PlanError(
            f"{device.kind} holds no {type_.dtype}: " + (f"use {nearest}" if nearest else "keep it on cpu")
        )
    if TILE not in device.layouts:
        return Layout(memory, ROW_MAJOR, native.name), f"row-major: {device.kind} has no other layout"
    if type_.dtype not in TILED:
        return Layout(memory, ROW_MAJOR, native.name), "row-major: integers and bools are indices and masks"
    stored = fmt or native.name
    rows = stored if FORMATS[stored].itemsize else ROWS
    if len(type_.shape) < 2:
        return Layout(memory, ROW_MAJOR, rows), "row-major: fewer than two dimensions"
    if _fill(type_.shape) * _LEAST_FILL < 1:
        return Layout(memory, ROW_MAJOR, rows), f"row-major: tiles would be less than 1/{_LEAST_FILL} full"
    return Layout(memory, TILE, stored), f"tiled: the matrix form that {device.kind} kernels work on"


def holds(type_: TensorType, device: Descriptor) -> bool:
    """Whether a device can hold values of a dtype."""
    native = format_of(type_.dtype)
    return device.on_host or (native is not None and native.name in device.formats)


def read_formats(devices: Sequence[Device], formats: Mapping[str, str]) -> list[str | None]:
    """The format of floats on each device; None: the dtype of the tensor decides. ``formats``: {device or
    kind: format}; the entry of a device takes precedence over the entry of its kind.

    Raises PlanError for a name that is not in the list, and for a format that the device lacks.
    """
    for name, fmt in formats.items():
        owner = owner_of(name, devices, f"format {name}={fmt}")
        known = [f for f in owner.descriptor.formats if FORMATS[f].kind == "float"]
        if owner.descriptor.layouts == (ROW_MAJOR,):
            raise PlanError(
                f"format {name}={fmt}: {name} stores tensors in their own dtype; cast them in the graph"
                + _of_weights(owner),
                got=fmt,
                device=name,
            )
        if fmt not in known:
            text = f"{name} has no float format {fmt!r}{did_you_mean(fmt, known)}"
            raise PlanError(text, got=fmt, wanted=known, device=name)
    return [formats.get(str(d), formats.get(d.kind)) for d in devices]


def owner_of(name: str, devices: Sequence[Device], what: str) -> Device:
    """The first device with that name or of that kind. Raises PlanError if there is no such device."""
    owners = [d for d in devices if name in (d.kind, str(d))]
    if not owners:
        names = [*dict.fromkeys(d.kind for d in devices), *map(str, devices)]
        raise PlanError(f"{what}: no such device or kind in the list{did_you_mean(name, names)}", got=name)
    return owners[0]


def _of_weights(device: Device) -> str:
    if kernels_of(device.kind) != HOST_KERNELS:
        return ""
    return (
        " (bf16 of a host is for weights of products, where a model is rewritten: an ONNX file, or with fuse)"
    )


def _fill(shape: tuple[int, ...]) -> float:
    """Real elements as a share of all elements in the 32x32 tiles of the last two dimensions."""
    rows, cols = shape[-2:]
    tiles = max(-(-rows // 32), 1) * max(-(-cols // 32), 1)
    return rows * cols / (tiles * _TILE_SIZE)
