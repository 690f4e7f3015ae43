"""Nodes that cannot run where they were asked to: listed in one error, or moved to a host and named."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..base.errors import UnsupportedOpError
from ..base.machine.devices import Device
from ..ir.graph import Graph, NodeView
from .columns import intern
from .defaults import holds
from .supports import no_kernel, unable

__all__ = ["FALLBACKS", "fall_back", "require_able", "require_kernels", "to_the_host"]

FALLBACKS = ("error", "host")
_MOST_NAMED = 12
Kernels = Mapping[str, Collection[str]]


def require_kernels(graph: Graph, devices: tuple[Device, ...], did: np.ndarray, kernels: Kernels) -> None:
    """Raises UnsupportedOpError, with all nodes that their devices have no kernel for; its field ``nodes``
    has (name, device, reason) of each."""
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
    """Raises UnsupportedOpError, as require_kernels, where ``allowed`` bool [nodes, k] leaves a node no
    device: the reason is that of its device in ``did``."""
    stuck = np.flatnonzero((graph.func_id >= 0) & ~allowed.any(1)).tolist()
    if stuck:
        reasons = [unable(graph.node(n), devices[did[n]], kernels) or "no other device may" for n in stuck]
        raise _refusal(graph, devices, did, list(zip(stuck, reasons, strict=True)))


def _equal_calls(graph: Graph, calls: np.ndarray, did: np.ndarray, count: int) -> list[np.ndarray]:
    """The nodes of each function on each device: nodes that share a function share their types."""
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
    """Move nodes of ``asked`` bool [nodes] that cannot run on ``did``, in place, to the first host that can
    run them, else the first device; those nodes, and a sentence each. A node that none can run stays."""
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
    """(node, the first host, why) of inputs that nothing reads and that their device cannot hold; none where
    the list has no host."""
    hosts = [i for i, device in enumerate(devices) if device.descriptor.on_host]
    for nid in inputs if hosts else ():
        type_ = graph.entry_type(int(graph.row_ptr[nid]))
        if not holds(type_, devices[did[nid]].descriptor):
            yield nid, hosts[0], f"nothing reads it, and {devices[did[nid]]} holds no {type_.dtype}"


def _elsewhere(
    node: NodeView, devices: tuple[Device, ...], did: int, kernels: Kernels
) -> tuple[str, int] | None:
    """Why a node cannot run on a device, and which can; None where it can, or none can."""
    reason = unable(node, devices[did], kernels)
    if reason is None:
        return None
    able = [d for d, other in enumerate(devices) if unable(node, other, kernels) is None]
    return (reason, min(able, key=lambda d: (not devices[d].descriptor.on_host, d))) if able else None
