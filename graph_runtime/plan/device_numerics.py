"""The arithmetic of each device of a list: the caller's choice, else the file's."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.errors import PlanError
from ..base.machine.devices import Device
from ..ir.graph import Graph
from ..ir.ops.numerics import Numerics, options_error
from .supports import owner_of

_Asked = Mapping[str, Mapping[str, str]]


def device_numerics(
    graph: Graph, devices: tuple[Device, ...], asked: _Asked | None = None
) -> tuple[Numerics, ...]:
    """The arithmetic of each device. ``asked``: device ("tt:0") or kind ("tt") -> {"fidelity", "dst",
    "numerics"}. An entry for a device takes precedence over an entry for its kind, and both take precedence
    over metadata.graph_runtime.numerics.

    Raises PlanError for a device that is not in the list, for a host (it computes in the graph's own
    dtypes), and for an unknown word.
    """
    _check(asked or {}, devices)
    said, types = graph.hints.numerics, [d.dl_type for d in devices]
    chosen = []
    for did, device in enumerate(devices):
        in_files = f"{device.kind}:{types[:did].count(types[did])}"
        chosen.append(_of(asked or {}, str(device), device.kind).over(_of(said, in_files, device.kind)))
    return tuple(chosen)


def _of(asked: _Asked, device: str, kind: str) -> Numerics:
    return Numerics(**asked.get(device, {})).over(Numerics(**asked.get(kind, {})))


def _check(asked: _Asked, devices: tuple[Device, ...]) -> None:
    if not isinstance(asked, Mapping) or not all(isinstance(words, Mapping) for words in asked.values()):
        raise PlanError(f"numerics are {{device: {{'fidelity': ..., 'dst': ...}}}}, got {asked!r}", got=asked)
    for name, words in asked.items():
        if owner_of(name, devices, f"numerics of {name}").descriptor.on_host:
            raise PlanError(
                f"numerics of {name}: it computes in the graph's own dtypes; only tt devices have "
                "fidelity and Dst",
                got=name,
                device=name,
            )
        if reason := options_error(words):
            raise PlanError(f"numerics of {name}: {reason}", got=dict(words), device=name)
