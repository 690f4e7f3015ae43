"""Layout of each value of a graph on each device, from its type, the file and the caller's wishes.

Values whose layouts are decided in the same way are of one kind. Without wishes and without layouts in the
file, each type is a kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ...base.errors import DeviceError, PlanError
from ...base.machine.devices import Device
from ...base.machine.layout import Layout
from ...base.options import Options
from ...ir.graph import Graph, TensorType
from ..globs import matching
from ..supports import choose, holds, read_formats
from ..wish import Wish, read_wishes, wished

_SAYS_NOTHING = -1


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """``of`` int64 [entries]: the kind of each entry. ``types`` [kinds]: the type of each kind. ``layouts``
    [kinds][devices]: the layout on each device, or a sentence with the reason why the device cannot hold such
    a value. ``stored`` [kinds][devices]: the format in which a host keeps the weight of the product that
    makes the value, "": the weight's own format."""

    of: np.ndarray
    types: tuple[TensorType, ...]
    layouts: list[list[Layout | str]]
    stored: list[list[str]]


def find_kinds(
    graph: Graph, devices: Sequence[Device], options: Options, weights: Mapping[str, str]
) -> Kinds:
    """The kinds of a graph's values. ``options``: formats and layouts, as in assign_layouts (which refuses
    globs that name nothing; here they are ignored). ``weights``: {host: format of the weights of its
    products}, which a wish may override.

    Raises PlanError for a wish without meaning, and for a wish that no device can follow."""
    chosen = read_formats(devices, options.formats)
    words = read_wishes(options.layouts)
    said, types = _said(graph), graph.type_id.astype(np.int64)
    wish = np.repeat(_wished_nodes(graph, words), np.diff(graph.row_ptr))
    if (wish < 0).all() and (said < 0).all():
        rows = [(at, _SAYS_NOTHING, _SAYS_NOTHING, _SAYS_NOTHING) for at in range(len(graph.types))]
        of = types
    else:
        column = graph.hints.device_type
        device_types = np.full(len(said), -1) if column is None else np.asarray(column, np.int64)
        keys = np.stack([types, wish, said, np.where(said < 0, -1, device_types)], 1)
        distinct, of = np.unique(keys, axis=0, return_inverse=True)
        rows, of = [tuple(row) for row in distinct.tolist()], of.reshape(-1)
    layouts = [
        [
            _layout(graph, row, list(words.values()), device, fmt)
            for device, fmt in zip(devices, chosen, strict=True)
        ]
        for row in rows
    ]
    usual = [weights.get(str(device), "") if device.descriptor.on_host else "" for device in devices]
    asked = [wish.format or "" for wish in words.values()]
    stored = []
    for row in rows:
        own = asked[row[1]] if row[1] >= 0 else ""
        hosts = [device.descriptor.on_host for device in devices]
        stored.append([own if own and host else fmt for host, fmt in zip(hosts, usual, strict=True)])
    kinds = Kinds(of, tuple(graph.types[row[0]] for row in rows), layouts, stored)
    _require_followed(graph, devices, kinds, rows, list(words))
    return kinds


def _said(graph: Graph) -> np.ndarray:
    """int64 [entries]: index into the file's layouts, -1 if the file gives no layout."""
    hints = graph.hints
    if hints.layouts is None or hints.layout is None:
        return np.full(graph.num_entries, _SAYS_NOTHING, np.int64)
    return np.asarray(hints.layout, np.int64)


def _wished_nodes(graph: Graph, words: Mapping[str, Wish]) -> np.ndarray:
    """int64 [nodes]: index of the wish for each node's outputs, the last wish that names the node; -1: no
    wish."""
    found = np.full(graph.num_nodes, _SAYS_NOTHING, np.int64)
    for at, glob in enumerate(words):
        with suppress(PlanError):
            found[matching(graph, glob, "layout")] = at
    return found


def _layout(
    graph: Graph, row: tuple[int, ...], words: list[Wish], device: Device, fmt: str | None
) -> Layout | str:
    type_id, wish, said, dl_type = row
    type_ = graph.types[type_id]
    try:
        layout = choose(type_, device.descriptor, fmt)[0]
        if said >= 0 and dl_type in (-1, device.dl_type):
            layout = (graph.hints.layouts or ())[said]
        if wish < 0 or device.descriptor.on_host:
            return layout
        return wished(type_, layout, words[wish], device.descriptor)
    except (PlanError, DeviceError) as error:
        return str(error)


def _require_followed(
    graph: Graph, devices: Sequence[Device], kinds: Kinds, rows: Sequence[tuple[int, ...]], globs: list[str]
) -> None:
    """Raises PlanError for a wish that no device can follow for any value that it names."""
    away = [at for at, device in enumerate(devices) if not device.descriptor.on_host]
    for wish, glob in enumerate(globs):
        named = [(kind, at) for kind, row in enumerate(rows) if row[1] == wish for at in away]
        faults = [(kind, at) for kind, at in named if isinstance(kinds.layouts[kind][at], str)]
        held = [pair for pair in faults if holds(kinds.types[pair[0]], devices[pair[1]].descriptor)]
        if not held or len(faults) < len(named):
            continue
        kind, at = held[0]
        nid, device = graph.maker(int(np.flatnonzero(kinds.of == kind)[0])), str(devices[at])
        text = (
            f"node {graph.names[nid]!r} makes {kinds.types[kind]}, which cannot have on {device} the "
            f"layout that {glob!r} asks for: {kinds.layouts[kind][at]}"
        )
        raise PlanError(text, node=graph.names[nid], device=device, got=glob)
