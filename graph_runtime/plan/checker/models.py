"""Check of the op models that a balancer chose: a model's sizes fit its node, core and chip; ops that are
resident together have cores of their own; and the order of epochs follows the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.errors import CheckError
from ...ir.ops import registry
from ..types import Plan

_TILE = 32
_PRODUCTS = ("product", "product_of_rows")  # ops whose steps of K are checked


def check_models(plan: Plan) -> None:
    """Check the op models of a plan that has them. Raises CheckError with rule "models"."""
    ids = np.asarray(plan.model_id)
    count, models = plan.graph.num_nodes, len(plan.models)
    if ids.shape != (count,) or ids.min(initial=-1) < -1 or ids.max(initial=-1) >= models:
        text = f"model_id has {ids.size} rows of {count} nodes, or an id beyond the {models} models"
        raise CheckError(text, rule="models")
    for nid in np.flatnonzero(ids >= 0).tolist():
        _check_node(plan, nid, plan.models[ids[nid]])
    for balanced in plan.balanced:
        _check_spots(balanced)


def _fail(plan: Plan, nid: int, text: str) -> None:
    origin = int(plan.origin[nid])
    text = f"node {plan.graph.names[nid]!r}: the chosen op model {text}"
    raise CheckError(
        text, rule="models", node=plan.graph.names[nid], path=f"$.nodes[{origin}]" if origin >= 0 else None
    )


def _check_node(plan: Plan, nid: int, model: Any) -> None:
    node, chip = plan.graph.node(nid), plan.devices[plan.did[nid]].descriptor
    if node.func is None:
        _fail(plan, nid, "belongs to a graph input")
    sizes = (*model.grid, model.t, *model.mblock, *model.ublock, model.u_kt)
    if min(sizes) < 1:
        _fail(plan, nid, f"has a size below 1: {sizes}")
    if chip.stack != "buda":
        _fail(plan, nid, f"is for a board of stack buda, not {chip.board}")
    if model.grid[0] > chip.grid[0] or model.grid[1] > chip.grid[1]:
        grids = (f"{rows}x{cols}" for rows, cols in (model.grid, chip.grid))
        _fail(plan, nid, f"has a grid of {' cores on '.join(grids)}")
    held = sum(
        b.factor * math.prod(b.block.mblock) * math.prod(b.block.ublock) * b.tile_bytes
        for b in (*model.inputs, *model.outputs, *model.intermediates)
    )
    l1 = chip.l1_budget - _tensors(plan, plan.did[nid])
    if held > model.l1_bytes or model.l1_bytes > l1:
        _fail(plan, nid, f"has buffers of {held} bytes, says {model.l1_bytes}, and L1 has {l1}")
    op = registry.get(node.op)
    if op is not None and (op.parts in _PRODUCTS or (op.kind == "elementwise" and op.bodies["tt"].numerics)):
        _check_blocks(plan, nid, node, model, op.parts in _PRODUCTS)


def _tensors(plan: Plan, did: int) -> int:
    """Bytes of each core's L1 that the plan's tensors take on a device."""
    memories = plan.devices[did].descriptor.memories
    return sum(plan.peak.get((int(did), at), 0) for at, memory in enumerate(memories) if memory.name == "l1")


def _check_blocks(plan: Plan, nid: int, node, model: Any, product: bool) -> None:
    """Check that blocks cover the output exactly and, for a product, that steps of K divide its depth."""
    shape: tuple[int, ...] = node.output_types[0].shape
    *deep, rows, cols = (1, 1, *shape)
    planes, whole = math.prod(deep), -(-rows // _TILE) * -(-cols // _TILE)
    made = model.t * math.prod(model.grid) * math.prod(model.mblock) * math.prod(model.ublock)
    if made != planes * whole:
        _fail(plan, nid, f"makes {made} tiles of {planes * whole}")
    if not product:
        return
    turned = node.func.attrs.get("transpose_a", False)
    depth = -(-node.input_types[0].shape[-2 if turned else -1] // _TILE)
    if depth % model.u_kt:
        _fail(plan, nid, f"takes K in steps of {model.u_kt} of {depth} tiles")


def _check_spots(balanced: Any) -> None:
    """Check that the rectangles of one epoch lie on the grid without overlap, and that no op reads a result
    of a later epoch."""
    choice, network = balanced.choice, balanced.network
    taken = np.full((int(choice.epoch.max(initial=-1)) + 1, *network.chip.grid), -1)
    for op, (epoch, spot) in enumerate(zip(choice.epoch.tolist(), choice.spots, strict=True)):
        part = taken[epoch, spot.row : spot.row + spot.rows, spot.col : spot.col + spot.cols]
        if part.shape != (spot.rows, spot.cols) or min(spot) < 0:
            raise _wrong_spot(network, op, "has cores outside of the grid")
        if (part >= 0).any():
            other = network.name(int(part.max()))
            raise _wrong_spot(network, op, f"shares cores with {other} in epoch {epoch}")
        part[...] = op
    for producer, consumer, _ in network.edges:
        if choice.epoch[producer] > choice.epoch[consumer]:
            other = network.name(producer)
            raise _wrong_spot(network, consumer, f"runs in an epoch before {other}, which it reads")


def _wrong_spot(network: Any, op: int, text: str) -> CheckError:
    return CheckError(f"{network.name(op)} {text}", rule="models", node=network.ops[op].node)
