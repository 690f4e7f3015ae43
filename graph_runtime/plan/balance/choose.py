"""Plan -> Plan with a chosen op model for each node on a buda board: what `plan(policy=...)` does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...base.errors import InputError, did_you_mean
from ..types import Plan
from .chip import BUDA
from .epochs import Balanced, judge, pack
from .forks import Buffering
from .limits import Loads
from .memory import Settings
from .network import network_of
from .optimal import optimal
from .picks import SIMPLE
from .ribbon import ribbon
from .solver import GraphSolver
from .types import BALANCER_POLICIES, OpModel
from .view import tiles

__all__ = ["assign_models", "balance_device", "require_policy"]

# kernels that make an output of tiles block by block
_BLOCKED = ("matmul", "dense", "add", "subtract", "multiply")
_TILE = "tile"


def require_policy(name: str) -> str:
    """The name. Raises InputError for one that there is not."""
    if name not in BALANCER_POLICIES:
        raise InputError(
            f"unknown policy {name!r}{did_you_mean(name, BALANCER_POLICIES)}",
            got=name,
            wanted=list(BALANCER_POLICIES),
        )
    return name


def assign_models(
    plan: Plan,
    policy: str,
    *,
    seed: int = 0,
    settings: Settings | None = None,
    buffering: Buffering | None = None,
) -> Plan:
    """Choose an op model for every op on the plan's buda boards: ``models`` and ``model_id`` have those of
    each node's principal op, ``balanced`` all of it, one Balanced a board. Other devices are left alone.

    ``seed``: of policy random. ``buffering``: what may be done against deadlocks; without its queues in DRAM
    it is an error, too, if no pair of models goes along some edge. Raises InputError for an unknown policy,
    CapacityError for an op that fits no core, PlanError for the rest.
    """
    require_policy(policy)
    found = tuple(
        balance_device(plan, did, policy, seed=seed, settings=settings, buffering=buffering)
        for did, device in enumerate(plan.devices)
        if device.descriptor.stack == BUDA
    )
    return replace(plan, balanced=found, **_columns(plan, found))


def balance_device(
    plan: Plan,
    did: int,
    policy: str,
    *,
    seed: int = 0,
    settings: Settings | None = None,
    buffering: Buffering | None = None,
) -> Balanced:
    """The same for one device, without writing it into the plan."""
    require_policy(policy)
    loads, allowed = Loads(network_of(plan, did, settings)), buffering or Buffering()
    if not allowed.dram:
        GraphSolver(loads.network).require_uncut()
    if not loads.network.ops:
        return judge(policy, loads, pack(loads.network, np.zeros(0, np.int64)), allowed)
    if policy == "optimal":
        return optimal(loads, seed, allowed)
    rule = ribbon if policy == "ribbon" else SIMPLE[policy]
    return judge(policy, loads, rule(loads, seed), allowed)


def _columns(plan: Plan, found: tuple[Balanced, ...]) -> dict[Any, Any]:
    """models and model_id. A kernel works in blocks of the tensor as it is stored: where that is rows, or an
    image that was balanced with pixels as rows, it is left to cut its work itself."""
    index: dict[OpModel, int] = {}
    column = np.full(plan.graph.num_nodes, -1, np.int32)
    for balanced in found:
        for op, candidates in enumerate(balanced.network.ops):
            node = plan.graph.node(candidates.nid)
            stored = node.op not in _BLOCKED or (
                plan.layout(node.outputs[0]).layout == _TILE
                and tiles(node.output_types[0].shape) == candidates.op.out
            )
            if candidates.principal and stored:
                model, extra = balanced.model(op), int(balanced.extra[op])
                if extra:  # a larger buffer in front of a join
                    model = replace(model, l1_bytes=model.l1_bytes + extra)
                column[candidates.nid] = index.setdefault(model, len(index))
    return {"models": tuple(index), "model_id": column}
