"""plan(): the passes in their order, with what the options say to each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.errors import InputError, PlanError
from ..base.machine.devices import Device, parse_list
from ..base.options import Options
from ..ir.graph import Graph
from .checker.check import check
from .compute_config import assign_numerics
from .layouts import assign_layouts
from .placement import place as _place
from .storage.capacity import check_circular
from .storage.memory import assign_storage
from .storage.offsets import Packer
from .transfers import insert_transfers
from .types import SERIAL, Placement, Plan

__all__ = ["plan"]


def plan(
    graph: Graph,
    devices: str | Device | Sequence[str | Device],
    options: Options | None = None,
    *,
    placed: Placement | None = None,
    inputs: Collection[str] = (),
    kernels: Mapping[str, Collection[str]] | None = None,
    inplace: Mapping[str, tuple[int, ...]] | None = None,
    use_storage_hints: bool = True,
    reorder: bool = True,
    packer: Packer | None = None,
    circular: Callable[[Plan], np.ndarray] | None = None,
    **words: Any,
) -> Plan:
    """Decide devices, copies, layouts and storage of a graph, and check the result.

    ``options``: those of placing, storing and computing count here; ``words`` are fields of it, which come
    first. ``placed``: a ready Placement of this graph on these devices, instead of the options that place.
    ``inputs`` and ``kernels`` as placement.place. ``inplace``: func_name -> inputs that output 0 may
    overwrite, from the libraries' manifests. ``use_storage_hints``, ``reorder`` and ``packer`` say how memory
    is planned, as assign_storage. ``circular`` (circular.of_plan) says what circular buffers each node opens:
    room for them is left in L1.

    Raises PlanError, CheckError, CapacityError, UnsupportedOpError, DeviceError, InputError (options, types).
    """
    options = Options.of(options, **words)
    _require(graph, options.policy)
    if placed is None:
        placed = _place(
            graph,
            devices,
            pins=options.place,
            device_map=options.device_map,
            strict=options.strict,
            placement=options.placement,
            objective=options.objective,
            fallback=options.fallback,
            inputs=inputs,
            formats=options.formats,
            kernels=kernels,
            costs=options.costs,
            topology=options.topology,
            interconnect=options.interconnect,
            stream=options.stream,
            layouts=options.layouts,
            numerics=options.numerics,
        )
    copied = insert_transfers(_matching(placed, graph, devices))
    laid_out = assign_layouts(copied, options.formats, options.layouts, by_policy=placed.by_policy)
    if options.order is not None:
        from .storage.order import in_order_of

        laid_out, reorder = in_order_of(laid_out, options.order), False
    if options.packer is not None:
        from .storage.packers import find_packer

        packer = find_packer(options.packer)
    edited = bool(options.place or options.layouts or placed.problem) or laid_out.placed.graph is not graph
    planned = assign_storage(
        laid_out,
        loaded=graph if edited else None,
        inplace=inplace,
        use_hints=use_storage_hints,
        reuse=options.reuse or SERIAL,
        reorder=reorder,
        packer=packer,
    )
    planned = replace(assign_numerics(planned, options.numerics), placement=placed)
    policy = options.policy or graph.hints.policy
    if policy is not None:
        from .balance import assign_models  # loaded where a balancer is asked for only

        planned = assign_models(planned, policy)
    planned = check(planned, inplace=inplace)
    return planned if circular is None else _with_circular(planned, circular(planned))


def _with_circular(planned: Plan, needs: np.ndarray) -> Plan:
    check_circular(planned, needs)
    return replace(planned, circular=needs)


def _matching(
    placement: Placement, graph: Graph, devices: str | Device | Sequence[str | Device]
) -> Placement:
    if placement.graph is not graph or placement.devices != parse_list(devices):
        raise PlanError(
            f"{placement} is of another graph or device list: make one of this graph and these devices",
            got=placement,
        )
    return placement


def _require(graph: object, policy: str | None) -> None:
    """Raises InputError for what is no Graph or policy."""
    if policy is not None:
        from .balance import require_policy

        require_policy(policy)
    if not isinstance(graph, Graph):
        raise InputError(
            f"plan takes a Graph, got {type(graph).__name__}: use GraphBuilder.build() or load_graph(file)",
            got=type(graph).__name__,
        )
