"""Plan -> Plan with a chosen op model for each node on a buda board: the pass behind `plan(policy=...)`.
Policy ``optimal``: fewest cycles for one input over all epochs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...base.errors import InputError, did_you_mean
from ..types import Plan
from .chip import BUDA
from .epochs import Balanced, Choice, judge, pack
from .exact import Epoch, best_epoch, require_library
from .forks import Buffering
from .limits import Loads
from .memory import Settings
from .network import network_of
from .picks import SIMPLE
from .ribbon import ribbon
from .search import best_chain
from .solver import GraphSolver
from .types import BALANCER_POLICIES, OpModel
from .view import tiles

MOST_EXACT = 6  # most ops of a graph that is solved exactly


def optimal(loads: Loads, seed: int, buffering: Buffering) -> Balanced:
    """The best known choice of models and epochs. For a small graph the choice is the optimum over all ways
    to cut the schedule into epochs. For a larger graph the choice is the best chain of epochs that a search
    finds; no other policy's choice is better. Raises PlanError if scipy is needed and not installed."""
    small = len(loads.network.ops) <= MOST_EXACT
    if small:
        require_library()
    solver = GraphSolver(loads.network)
    pairs = [solver.pairs(e) for e in range(len(loads.network.edges))]
    choices = [rule(loads, seed) for rule in SIMPLE.values()]
    choices += [ribbon(loads, seed), best_chain(loads, pairs)]
    found = [judge("optimal", loads, choice, buffering) for choice in choices]
    best = min(found, key=lambda b: b.total)
    if small:
        exact = exact_chain(loads, solver, best.total + 1)
        if exact is not None:
            best = min(best, judge("optimal", loads, exact, buffering), key=lambda b: b.total)
    return best


def exact_chain(loads: Loads, solver: GraphSolver, below: float) -> Choice | None:
    """The cheapest way to cut the schedule into epochs, with the best models in each epoch; None if no way
    takes less than ``below`` cycles."""
    count = len(loads.network.ops)
    cost = np.full(count + 1, float(below))
    cost[0] = 0.0
    last: list[tuple[int, Epoch] | None] = [None] * (count + 1)
    for end in range(1, count + 1):
        for first in range(end - 1, -1, -1):
            if first and last[first] is None:
                continue
            epoch = best_epoch(loads, solver, first, end, cost[end] - cost[first])
            if epoch is not None:
                cost[end], last[end] = cost[first] + epoch.cycles, (first, epoch)
    if last[count] is None:
        return None
    epochs: list[Epoch] = []
    at = count
    while (step := last[at]) is not None:  # the loop ends at last[0], which is None
        at, epoch = step
        epochs.append(epoch)
    epochs.reverse()
    return Choice(
        np.array([m for e in epochs for m in e.models], np.int64),
        np.repeat(np.arange(len(epochs)), [len(e.models) for e in epochs]),
        tuple(s for e in epochs for s in e.spots),
    )


# names of kernels that make an output of tiles block by block
_BLOCKED = ("matmul", "dense", "add", "subtract", "multiply")
_TILE = "tile"


def require_policy(name: str) -> str:
    """``name``. Raises InputError for an unknown policy."""
    if name not in BALANCER_POLICIES:
        text = f"unknown policy {name!r}{did_you_mean(name, BALANCER_POLICIES)}"
        raise InputError(text, got=name, wanted=list(BALANCER_POLICIES))
    return name


def assign_models(plan: Plan, policy: str) -> Plan:
    """Choose an op model for every op on the plan's buda boards: ``models`` and ``model_id`` hold the model
    of each node's principal op; ``balanced`` holds the models of all ops, one Balanced per board. Other
    devices are unchanged. Raises InputError for an unknown policy, CapacityError for an op that fits no core,
    PlanError if anything else prevents a choice."""
    require_policy(policy)
    found = tuple(
        balance_device(plan, did, policy)
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
    """The choice for one device, without writing it into the plan. ``seed``: seed of the policy "random".
    ``buffering``: allowed remedies against deadlocks; if queues in DRAM are not allowed, an edge without a
    legal pair of models is an error, too. Raises as assign_models."""
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
    """The plan's new ``models`` and ``model_id``. A kernel that makes its output block by block gets a model
    only if the stored tensor has the tiles that were balanced; otherwise (a tensor in rows, or an image
    balanced with pixels as rows) the kernel divides its work by itself."""
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
                if extra:  # the buffer in front of a join is larger
                    model = replace(model, l1_bytes=model.l1_bytes + extra)
                column[candidates.nid] = index.setdefault(model, len(index))
    return {"models": tuple(index), "model_id": column}
