"""Decisions: from a graph and a device list to a checked Plan, one pass a module.

    place -> insert_transfers -> assign_layouts -> assign_storage -> assign_numerics -> assign_models -> check

types has the values between the passes. Read placement (placing/ has the policies, fallbacks and globs its
words), transfers, layouts (defaults, wishes, conversions), memory (order; lifetimes and buffers; offsets and
pack; pools, file_storage, modes), compute_config, balance/ and checker/. queues, happens and lanes say what
may run side by side; record and snapshot write a plan down. columns is arithmetic that all of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..base.errors import InputError, PlanError
from ..base.machine.devices import Device, parse_list
from ..ir.graph import Graph
from .capacity import check_circular
from .checker.check import check
from .compute_config import assign_numerics
from .layouts import assign_layouts
from .memory import SERIAL, assign_storage
from .offsets import Packer
from .placement import place as _place
from .transfers import insert_transfers
from .types import LaidOutGraph, PlacedGraph, Placement, Plan, Storage

__all__ = [
    "LaidOutGraph",
    "PlacedGraph",
    "Placement",
    "Plan",
    "Storage",
    "assign_layouts",
    "assign_numerics",
    "assign_storage",
    "check",
    "insert_transfers",
    "plan",
]


def plan(
    graph: Graph,
    devices: str | Device | Sequence[str | Device],
    *,
    place: Mapping[str, str | Device] | None = None,
    placement: str | Callable | Placement | None = None,
    objective: str = "serial",
    fallback: str = "error",
    inputs: Collection[str] = (),
    kernels: Mapping[str, Collection[str]] | None = None,
    device_map: Mapping[str, str | Device] | None = None,
    formats: Mapping[str, str] | None = None,
    layouts: Mapping[str, str] | None = None,
    numerics: Mapping[str, Mapping[str, str]] | None = None,
    policy: str | None = None,
    strict: bool = False,
    inplace: Mapping[str, tuple[int, ...]] | None = None,
    use_storage_hints: bool = True,
    reuse: str = SERIAL,
    reorder: bool = True,
    packer: Packer | None = None,
    circular: Callable[[Plan], np.ndarray] | None = None,
) -> Plan:
    """Decide devices, copies, layouts and storage of a graph, and check the result.

    ``place``: pins, glob -> device. ``placement``: a policy, or a ready Placement of this graph on these
    devices. Both, and ``objective`` to ``device_map``, and ``strict``, as placement.place. ``formats``:
    device or kind -> format of its floats. ``layouts``: glob as of ``place`` -> layout of what those nodes
    make, as "l1" or "l1/tile/bf16/height[8x1]" (wishes.py). ``numerics``: device or kind -> {"fidelity",
    "dst", "numerics"} of nodes that do not say (compute_config.py). ``policy``: how op models are chosen for
    boards of stack buda (balance.POLICIES); None: as the file says, else each kernel cuts its op itself.
    ``inplace``: func_name -> inputs that output 0 may overwrite, from the libraries' manifests.
    ``use_storage_hints``, ``reuse``, ``reorder`` and ``packer`` say how memory is planned, as assign_storage.
    ``circular`` (circular.of_plan) says what circular buffers each node opens: room for them is left in L1.

    Raises PlanError, CheckError, CapacityError, UnsupportedOpError, DeviceError, InputError (policy, types).
    """
    _require(
        graph, policy, place=place, device_map=device_map, formats=formats, layouts=layouts, numerics=numerics
    )
    if not isinstance(placement, Placement):
        placement = _place(
            graph,
            devices,
            pins=place,
            device_map=device_map,
            strict=strict,
            placement=placement,
            objective=objective,
            fallback=fallback,
            inputs=inputs,
            formats=formats,
            kernels=kernels,
        )
    placed = insert_transfers(_matching(placement, graph, devices))
    laid_out = assign_layouts(placed, formats, layouts)
    edited = bool(place or layouts or placement.problem) or laid_out.placed.graph is not graph
    planned = assign_storage(
        laid_out,
        loaded=graph if edited else None,
        inplace=inplace,
        use_hints=use_storage_hints,
        reuse=reuse,
        reorder=reorder,
        packer=packer,
    )
    planned = replace(assign_numerics(planned, numerics), placement=placement)
    policy = policy or graph.hints.policy
    if policy is not None:
        from .balance import assign_models  # loaded where a balancer is asked for only

        planned = assign_models(planned, policy)
    planned = check(planned, inplace=inplace)
    return planned if circular is None else _with_circular(planned, circular(planned))


def _with_circular(planned: Plan, needs: np.ndarray) -> Plan:
    check_circular(planned, needs)
    return replace(planned, circular=needs)


_EXAMPLES = {
    "place": "{'conv*': 'tt:0'}",
    "device_map": "{'2': 'tt:0'}",
    "formats": "{'tt': 'bf16'}",
    "layouts": "{'conv*': 'l1'}",
    "numerics": "{'tt': {'fidelity': 'HiFi2'}}",
}


def _matching(
    placement: Placement, graph: Graph, devices: str | Device | Sequence[str | Device]
) -> Placement:
    if placement.graph is not graph or placement.devices != parse_list(devices):
        raise PlanError(
            f"{placement} is of another graph or device list: make one of this graph and these devices",
            got=placement,
        )
    return placement


def _require(graph: object, policy: str | None, **mappings: object) -> None:
    """Raises InputError for what is no Graph or policy, and for options that are no mappings."""
    if policy is not None:
        from .balance import require_policy

        require_policy(policy)
    for name, value in mappings.items():
        _require_mapping(name, value)
    for name, value in (mappings["numerics"] or {}).items():
        _require_mapping(f"numerics of {name}", value)
    if not isinstance(graph, Graph):
        raise InputError(
            f"plan takes a Graph, got {type(graph).__name__}: use GraphBuilder.build() or load_graph(file)",
            got=type(graph).__name__,
        )


def _require_mapping(name: str, value: object) -> None:
    if value is not None and not isinstance(value, Mapping):
        example = _EXAMPLES.get(name, "{'fidelity': 'HiFi2'}")
        raise InputError(f"{name} is a mapping, as {example}; got {value!r}", got=type(value).__name__)
