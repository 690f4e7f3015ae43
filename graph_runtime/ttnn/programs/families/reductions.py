"""Card programs of reductions, running values, and of the greatest values and their indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....base.machine.layout import TILE
from ....costs import factories
from ....costs.factories import CardOperand, CardProgram, CardStage, HeldTensor
from ....costs.factories.buffers import BF16, BFP8, F32, tiles
from ....costs.factories.movement import (
    Steps,
    UnknownForm,
    fill_padding,
    permuted,
    reshaped,
    tile_slice,
    to_rows,
    to_tiles,
    transposed,
    with_padding,
)
from ..call import Call, operand
from ..stepped import stages_by

_PLANES_ADDED = (BF16, BFP8)  # formats of which ttnn adds planes up without transposing them


def _matrix(x: CardOperand) -> CardOperand:
    """The tensor with at least two dimensions."""
    return replace(x, shape=(1,) * (2 - len(x.shape)) + x.shape)


def _dims(call: Call, rank: int) -> list[int]:
    """The dimensions that a call reduces of a tensor with ``rank`` of them, from the last to the first."""
    dim, own = call.get("dim"), max(1, len(call.first.shape))
    named = range(own) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
    return sorted({int(d) % own + rank - own for d in named}, reverse=True)


def _onward(steps: Steps, ran: CardProgram, x: CardOperand, made: CardOperand) -> CardOperand:
    """Add a card program that reads a tensor, which nothing reads any more."""
    steps.run(ran, made)
    steps.free(x)
    return made


def _finish(steps: Steps, x: CardOperand) -> None:
    """Add the reshape that leaves reduced dimensions out; without one, what the last step made is the
    result."""
    before = len(steps.stages)
    reshaped(steps, x, steps.result)
    if len(steps.stages) == before:
        steps.settle(x)


def _reduced(call: Call, steps: Steps, x: CardOperand) -> None:
    name = call.name
    if x.sharded or not x.shape or (name == "min" and x.format in (BFP8, "uint32")):
        raise UnknownForm  # of these formats, minima are maxima of negated values
    now = _matrix(x)
    rank, wide = len(now.shape), call.wide(True)
    dims = _dims(call, rank)
    planes = [d for d in dims if d < rank - 2]
    adds = name == "sum" and x.format in _PLANES_ADDED and bool(planes)
    both = {rank - 1, rank - 2} <= set(dims) and len(x.shape) > 1
    if x.layout == TILE:
        now = fill_padding(steps, now)
    elif adds or name not in ("sum", "mean") or x.format not in (BF16, F32) or (rank == 2 and both):
        now = to_tiles(steps, now, replace(now, layout=TILE))
    if adds:
        now, planes = _planes_added(steps, now, planes), []
    wider = F32 if name == "sum" and x.format == BF16 and both and now.layout == TILE else ""
    kept = now  # ttnn holds it until the last card program
    if rank - 1 in dims:
        now = _one_reduced(call, steps, now, rank - 1, wide, wider, kept)
    if rank - 2 in dims and len(x.shape) > 1:
        now = _one_reduced(call, steps, now, rank - 2, wide, x.format, kept)
    for d in planes:
        now = _turned(steps, now, d, kept)
        now = _one_reduced(call, steps, now, rank - 2, wide)
        now = _turned(steps, now, d)
    _finish(steps, now)


_TALL = 16  # tiles of a column from which on several cores may share it


def _one_reduced(
    call: Call,
    steps: Steps,
    x: CardOperand,
    dim: int,
    wide: bool,
    format: str = "",
    kept: CardOperand | None = None,
) -> CardOperand:
    """Reduce one of the last two dimensions; ``kept``: a tensor that stays."""
    shape = tuple(1 if at == dim else size for at, size in enumerate(x.shape))
    made = replace(x, shape=shape, format=format or x.format)
    across = dim == len(x.shape) - 1
    if x.layout == TILE:
        ran = factories.reduced(x, made, across, call.cores, wide)
    elif across or x.shape[-2] < 32 * _TALL or x.batch * tiles(x.shape[-1]) >= call.cores:
        ran = factories.reduced_rows(x, made, across)
    else:
        raise UnknownForm
    steps.run(ran, made)
    if x is not kept:
        steps.free(x)
    return made


def _turned(steps: Steps, x: CardOperand, dim: int, kept: CardOperand | None = None) -> CardOperand:
    """Swap a dimension with the last but one; ``kept``: a tensor that stays."""
    order, at = list(range(len(x.shape))), len(x.shape) - 2
    order[dim], order[at] = at, dim
    made = replace(x, shape=tuple(x.shape[d] for d in order))
    with steps.alone(made):
        if dim == at - 1:
            transposed(steps, x, dim, at, made)
        else:
            permuted(steps, x, order, made)
    if x is not kept:
        steps.free(x)
    return made


def _planes_added(steps: Steps, x: CardOperand, dims: list[int]) -> CardOperand:
    """Add planes up; padding counts in, which a slice then leaves out."""
    for d in dims:
        made = replace(x, shape=(*x.shape[:d], 1, *x.shape[d + 1 :]))
        x = _onward(steps, factories.summed_planes(x, made, x.shape[d]), x, made)
    if any(size % 32 for size in x.shape[-2:]):
        x = _onward(steps, tile_slice(x), x, replace(x))
    return x


def _varied(call: Call, steps: Steps, x: CardOperand) -> None:
    if x.sharded or not x.shape:
        raise UnknownForm
    now = _matrix(x)
    rank = len(now.shape)
    dims = _dims(call, rank)
    if math.prod(now.shape[d] for d in dims) == 1:
        if x.layout != TILE or x.on_l1 or now.format != steps.result.format:
            raise UnknownForm
        reshaped(steps, now, steps.result)
        return
    if x.layout != TILE:
        now = to_tiles(steps, now, replace(now, layout=TILE))
    both = len(x.shape) > 1 and {rank - 1, rank - 2} <= set(dims)
    if not both and len(dims) > 1:
        raise UnknownForm
    plane = dims[0] if dims[0] < rank - 2 else None
    if plane is not None:
        now, dims = _turned(steps, now, plane), [rank - 2]
    made = replace(now, shape=tuple(1 if at in dims else size for at, size in enumerate(now.shape)))
    now = steps.run(factories.varied(now, made, both), made)
    _finish(steps, now if plane is None else _turned(steps, now, plane))


def _multiplied(call: Call, steps: Steps, x: CardOperand) -> None:
    rank, whole = len(x.shape), call.get("dim") is None or len(x.shape) < 2
    if x.sharded or x.layout != TILE or x.format not in (BF16, F32) or not 0 < rank <= 4:
        raise UnknownForm
    if whole and x.on_l1:
        raise UnknownForm
    now = fill_padding(steps, replace(x, shape=(1,) * (4 - rank) + x.shape))
    if whole:
        steps.run(factories.multiplied(now), steps.result)
        return
    dim = int(call.values["dim"]) % rank + 4 - rank
    order = {2: (2, 0, 1, 3), 3: (3, 0, 1, 2)}.get(dim)
    if order is not None:
        made = replace(now, shape=tuple(now.shape[d] for d in order))
        now = permuted(steps, now, order, made)
    at, between = dim if order is None else 0, []
    made = replace(now, shape=(*now.shape[:at], 1, *now.shape[at + 1 :]))
    now = steps.run(factories.multiplied(now), made)
    if order is not None:
        shape = (*now.shape[1:3], 1, now.shape[3])
        between.append(now)
        now = permuted(steps, now, (1, 2, 0, 3), replace(now, shape=shape))
    if dim == 3:
        between.append(now)
        now = transposed(steps, now, 2, 3, replace(now, shape=(*now.shape[:2], now.shape[3], 1)))
    steps.free(*between)
    _finish(steps, now)


def _running(call: Call, steps: Steps, x: CardOperand) -> None:
    rank = len(x.shape)
    if x.sharded or x.layout != TILE or not 0 < rank <= 4 or x.format != steps.result.format:
        raise UnknownForm
    dim = int(call.values["dim"]) % rank + 4 - rank
    if dim >= 2 and call.name == "cumsum" and x.format == "bf16" and not call.get("reverse_order"):
        steps.run(factories.accumulated(x, steps.result, within=True), steps.result)
        return
    now = replace(x, shape=(1,) * (4 - rank) + x.shape)
    now = _first(steps, now, dim)
    now = _onward(steps, factories.accumulated(now, now), now, replace(now))
    steps.settle(_first(steps, now, dim))


def _first(steps: Steps, x: CardOperand, dim: int) -> CardOperand:
    """Swap a dimension of four with the first."""
    order = list(range(4))
    order[0], order[dim] = dim, 0
    made = replace(x, shape=tuple(x.shape[d] for d in order))
    with steps.alone(made):
        found = (
            transposed(steps, x, 0, 1, made) if dim == 1 else permuted(steps, x, order, made) if dim else x
        )
    if found is not x:
        steps.free(x)
    return found


def _greatest_index(call: Call, steps: Steps, x: CardOperand) -> None:
    rank, dim, result = len(x.shape), call.get("dim"), steps.result
    if x.sharded or not rank or (x.layout == TILE and dim is None):
        raise UnknownForm
    if x.layout != TILE:
        _greatest_index_of_rows(call, steps, x)
        return
    dim = int(dim) % rank
    if dim == rank - 1 or rank == 2:
        line = result.shape[-1] if result.shape else 1
        steps.run(factories.greatest_index(x, line), result)
    elif dim < rank - 2:
        shape = tuple(1 if at == dim else size for at, size in enumerate(x.shape))
        made = CardOperand(shape, "uint32", TILE, x.memory)
        to_rows(steps, steps.run(factories.greatest_plane(x), made), result)
    else:
        raise UnknownForm


def _greatest_index_of_rows(call: Call, steps: Steps, x: CardOperand) -> None:
    dim, rank = call.get("dim"), len(x.shape)
    last = dim is None or int(dim) % rank == rank - 1
    if not last or not (dim is None or call.get("keepdim") or x.shape[:-1][-1:] in ((), (1,))):
        raise UnknownForm
    steps.run(factories.greatest_index_of_rows(x, call.cores, steps.board.aligned(x.memory)), steps.result)


_SHARED = 8192  # length of a row from which on several cores share it


def _greatest(call: Call, steps: Steps, x: CardOperand) -> None:
    rank, k = len(x.shape), int(call.values["k"])
    if x.sharded or x.layout != TILE or rank < 2 or int(call.get("dim", -1)) % rank != rank - 1:
        raise UnknownForm
    width = x.shape[-1]
    if width >= _SHARED and not width & (width - 1) and k <= 64:
        raise UnknownForm
    now = fill_padding(steps, x)
    if width <= 32:
        sides = [(0, 0)] * (rank - 1) + [(0, 64 - width)]
        now = with_padding(steps, replace(now), sides, replace(now, shape=(*x.shape[:-1], 64)))
    ran, kept = factories.greatest(x, k), math.ceil(k / 32) * 32
    if rank == 4 or kept == k:
        steps.run(ran, steps.result)
        return
    whole = [replace(operand(y), shape=(*x.shape[:-1], kept)) for y in call.results]
    sizes = [steps.board.nbytes(y) for y in whole]
    held = [HeldTensor(name, size) for name, size in zip(("values", "indices"), sizes, strict=True) if size]
    sliced = [HeldTensor("sliced values", size) for size in sizes[:1] if size]
    before = steps.stages[-1].held if steps.stages else ()
    steps.stages.append(CardStage(ran, (*before, *held), last=False))
    steps.stages.append(CardStage(tile_slice(whole[0]), (*before, *held, *sliced), last=False))
    steps.stages.append(CardStage(tile_slice(whole[1]), (*before, *held[1:])))


TABLE: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(("sum", "mean", "max", "min"), stages_by(_reduced)),
    **dict.fromkeys(("std", "var"), stages_by(_varied)),
    "prod": stages_by(_multiplied),
    **dict.fromkeys(("cumsum", "cumprod"), stages_by(_running)),
    "argmax": stages_by(_greatest_index),
    "topk": stages_by(_greatest),
}
