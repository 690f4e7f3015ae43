"""plan(): the passes in their order, with what the options say to each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import numpy as np

from ..base.errors import InputError, PlanError
from ..base.machine.devices import Device, parse_list
from ..base.option_words import takes_words
from ..base.options import Options
from ..ir.graph import Graph
from .checker.check import check
from .compute_config import assign_numerics
from .layouts import assign_layouts
from .placement import place as _place
from .storage.capacity import check_circular
from .storage.memory import assign_storage
from .transfers import insert_transfers
from .types import Placement, Plan, Supplies

if TYPE_CHECKING:
    from ..base.options import Words

__all__ = ["plan"]


@takes_words()
def plan(
    graph: Graph,
    devices: str | Device | Sequence[str | Device],
    options: Options | None = None,
    *,
    placed: Placement | None = None,
    inputs: Collection[str] = (),
    supplies: Supplies | None = None,
    use_storage_hints: bool = True,
    reorder: bool = True,
    **words: Unpack[Words],
) -> Plan:
    """Decide devices, copies, layouts and storage of a graph, and check the result.

    ``options``: those of placing, storing and computing count here; ``words`` are fields of it, which come
    first. ``placed``: a ready Placement of this graph on these devices, instead of the options that place.
    ``inputs`` as placement.place. ``use_storage_hints`` and ``reorder`` say how memory is planned, as
    assign_storage.

    Raises PlanError, CheckError, CapacityError, UnsupportedOpError, DeviceError, InputError (options, types).
    """
    options, supplies = Options.of(options, **words), supplies or Supplies()
    _require(graph, options.policy)
    if placed is None:
        placed = _place(graph, devices, options, inputs=inputs, kernels=supplies.kernels)
    copied = insert_transfers(_matching(placed, graph, devices))
    laid_out = assign_layouts(copied, options, by_policy=placed.by_policy)
    if options.order is not None:
        from .storage.order import in_order_of

        laid_out, reorder = in_order_of(laid_out, options.order), False
    edited = bool(options.place or options.layouts or placed.problem) or laid_out.placed.graph is not graph
    planned = assign_storage(
        laid_out,
        options,
        supplies,
        loaded=graph if edited else None,
        use_hints=use_storage_hints,
        reorder=reorder,
    )
    planned = replace(assign_numerics(planned, options), placement=placed)
    policy = options.policy or graph.hints.policy
    if policy is not None:
        from .balance import assign_models  # loaded where a balancer is asked for only

        planned = assign_models(planned, policy)
    planned = check(planned, inplace=supplies.inplace)
    return planned if supplies.circular is None else _with_circular(planned, supplies.circular(planned))


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
