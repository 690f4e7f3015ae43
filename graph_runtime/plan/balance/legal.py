"""The candidates of a node, and the error if no candidate is legal."""

from __future__ import annotations

from dataclasses import replace

from ...base.errors import CapacityError, DeviceError, InputError, PlanError, did_you_mean
from ...base.machine.devices import Device
from ...ir.graph import Graph
from ..storage.memory import room_beside
from ..types import Plan
from . import convolution, norms  # noqa: F401 - register conv2d, pools and normalisations
from .chip import Chip, chip_of
from .memory import Settings
from .models import enumerate_models
from .parts import parts_of
from .types import LEGAL, REASONS, Candidate, Candidates
from .view import View, view_of, view_of_plan

_ADVICE = {
    "memory": "store its tensors in a narrower format (--format tt=bfp8_b), split it, or use a board with "
    "more L1",
    "streaming": "let it stream in another direction (gr.stream_dirs), or change what reads its result",
    "dram": "split the parameter, or store it in a narrower format (--format tt=bfp8_b)",
    "other": "split the op into smaller ones",
}


def part_models(
    graph: Graph,
    nid: int,
    device: Device,
    settings: Settings | None = None,
    view: View | None = None,
    room: int | None = None,
) -> tuple[Candidates, ...]:
    """The candidates of each op of a node, in order; one of the ops is ``principal``.

    ``view``: view_of(graph), shared between calls for many nodes. ``room``: bytes of a core's L1 for op
    models, as in chip_of. A convolution's or pool's window is split if one of its ops has no legal model.
    Raises DeviceError for a device that is not of stack buda, UnsupportedOpError for a node that no core
    runs. A node without a legal model is no error here: see ``require_legal``.
    """
    chip, view = chip_of(device, room), view or view_of(graph)
    found = _part_models(view, nid, device, chip, settings or Settings())
    for split in (1, 2):  # if the pixels of all taps of a window fit no core
        if all(c.models for c in found):
            break
        found = _part_models(replace(view, split=split), nid, device, chip, settings or Settings())
    return found


def _part_models(
    view: View, nid: int, device: Device, chip: Chip, settings: Settings
) -> tuple[Candidates, ...]:
    node, found = view.graph.node(nid), []
    for part in parts_of(view, nid, device):
        mine = _with_attributes(settings, node) if part.principal else settings
        tried = enumerate_models(part.op, chip, mine)
        legal = tuple(c.model for c in tried if c.verdict == LEGAL)
        rest = tried, part.principal, chip.l1_budget, legal, view.path(nid), part.reads
        found.append(Candidates(nid, node.name, part.name, part.op, *rest))
    return tuple(found)


def legal_models(
    graph: Graph, nid: int, device: Device, settings: Settings | None = None, view: View | None = None
) -> Candidates:
    """The candidates of a node's principal op; the principal op of a convolution is its first dense product.
    See ``part_models``."""
    return next(c for c in part_models(graph, nid, device, settings, view) if c.principal)


def explained(plan: Plan, name: str) -> tuple[tuple[Candidates, ...], Device]:
    """Pair of the result of part_models for a planned node, with the formats and numerics of the plan, and
    the node's device.

    Raises InputError for a name that the graph lacks, DeviceError for a node on the host, and the errors of
    ``part_models``.
    """
    graph = plan.graph
    if name not in graph.names:
        raise InputError(f"there is no node {name!r}{did_you_mean(name, graph.names)}", got=name)
    nid = graph.names.index(name)
    did = int(plan.did[nid])
    if plan.devices[did].descriptor.on_host:
        raise DeviceError(
            f"node {name!r} is on {plan.devices[did]}, where nothing is cut onto cores: place "
            f"it on a board of stack buda (--device tt:0=e150 --place '{name}=tt:0')",
            node=name,
            device=str(plan.devices[did]),
        )
    view, room = view_of_plan(plan, did), room_beside(plan, did)
    return part_models(graph, nid, plan.devices[did], view=view, room=room), plan.devices[did]


def _with_attributes(settings: Settings, node) -> Settings:
    """The settings with the node's gr.stream_dirs, unless the caller fixed directions."""
    dirs = node.func.attrs.get("stream_dirs") or ()
    if not dirs or settings.overrides.dirs:
        return settings
    return replace(settings, overrides=replace(settings.overrides, dirs=tuple(dirs)))


def require_legal(candidates: Candidates, device: Device) -> Candidates:
    """``candidates``, if one of them is legal. Raises CapacityError if memory prevented every legal model,
    PlanError if other rules did; the error has the fields ``reasons`` {name: count} and ``short``, the
    missing bytes (None: memory was not the reason)."""
    if candidates.models:
        return candidates
    reasons = candidates.counts["reasons"]
    miss = candidates.closest_miss
    told = ", ".join(f"{count} {name} ({REASONS[name]})" for name, count in reasons.items())
    text = (
        f"node {candidates.node!r} ({candidates.part}) has no legal op model on {device}: of "
        f"{len(candidates.tried)} tried, {told or 'none fits what was fixed for it'}"
    )
    if miss is not None:
        m = miss.model
        text += f"; the closest, grid {m.grid.r}x{m.grid.c} with t={m.t}, lacks {miss.short} bytes " + (
            f"of {candidates.budget} in L1{_beside(candidates, device)}"
            if miss.verdict != "ExceededDramChannelCapacity"
            else "in a DRAM channel"
        )
    advice = _ADVICE[_cause(reasons, miss)]
    error = CapacityError if miss is not None else PlanError
    raise error(
        f"{text}; {advice}",
        node=candidates.node,
        device=str(device),
        reasons=reasons,
        short=miss.short if miss else None,
        path=candidates.path,
    )


def _beside(candidates: Candidates, device: Device) -> str:
    taken = chip_of(device).l1_budget - candidates.budget
    return f", where the plan's tensors take {taken}: keep them in dram" if taken else ""


def _cause(reasons: dict[str, int], miss: Candidate | None) -> str:
    if miss is not None:
        return "dram" if miss.verdict == "ExceededDramChannelCapacity" else "memory"
    return "streaming" if any("Streaming" in name for name in reasons) else "other"
