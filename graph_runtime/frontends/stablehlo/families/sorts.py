"""sort with comparators that compare one key after another, and top_k."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter
from ..syntax import OpRegion
from ..walk import arguments_read

_MOST_KEYS = 3
# keys from most to least important: (operand, whether the greatest comes first, whether floats are in total
# order)
Order = tuple[tuple[int, bool, bool], ...]


@converter("sort")
def _sort(ctx: HloContext) -> Results:
    values = ctx.inputs
    x = values[0] if values else ctx.input(0)
    (axis,) = ctx.dims([ctx.number("dimension", default=x.rank - 1) % max(x.rank, 1)], x.rank, "dimension")
    if any(v.shape != x.shape for v in values):
        ctx.fail("its operands have different shapes")
    order = _order(ctx, ctx.region(0), [v.dtype for v in values])
    if order is None:
        ctx.fail("its comparator does not compare one key after another")
    if x.shape[axis] < 2 or 0 in x.shape:
        return values
    if len(order) == 1:
        (key, largest, total), n = order[0], x.shape[axis]
        best, places = _topk(ctx, values[key], n, axis, largest, total)
        return [
            best if i == key else ctx.op("take_along_axis", v, places, axis=axis)
            for i, v in enumerate(values)
        ]
    places = _by_keys(ctx, values, order, axis)
    return [ctx.op("take_along_axis", v, places, axis=axis) for v in values]


def _by_keys(ctx: HloContext, values: Sequence[TapeValue], order: Order, axis: int) -> TapeValue:
    """Source positions of the sorted elements, by one stable sort per key; the least important key comes
    first."""
    places = None
    for key, largest, total in reversed(order):
        x = values[key]
        if places is not None:
            x = ctx.op("take_along_axis", x, places, axis=axis)
        own = _topk(ctx, x, x.shape[axis], axis, largest, total)[1]
        places = own if places is None else ctx.op("take_along_axis", places, own, axis=axis)
    assert places is not None, "an order has a key"
    return places


def _topk(
    ctx: HloContext, x: TapeValue, k: int, axis: int, largest: bool, total: bool
) -> tuple[TapeValue, TapeValue]:
    if x.dtype != "bool":
        return ctx.op("topk", x, k=k, axis=axis, largest=largest, total=total, dtype="int32")
    best, places = ctx.op("topk", x.cast("uint8"), k=k, axis=axis, largest=largest, dtype="int32")
    return best.cast("bool"), places


def _order(ctx: HloContext, region: OpRegion, dtypes: Sequence[str]) -> Order | None:
    """The keys by which a comparator orders; None if it does not order by keys. The comparator runs on all
    combinations of two values for the keys that it reads, and its results are compared with those of each
    possible order."""
    if len(region.args) != 2 * len(dtypes):
        ctx.fail(f"a comparator with {len(region.args)} arguments does not fit {len(dtypes)} operands")
    keys = sorted({i // 2 for i in arguments_read(region, region.ops[-1].inputs if region.ops else [])})
    if not 1 <= len(keys) <= _MOST_KEYS:
        return None
    rows = list(itertools.product((0, 1), repeat=2 * len(keys)))
    given = []
    for i, (_, _kind) in enumerate(region.args):
        column = [row[2 * keys.index(i // 2) + i % 2] if i // 2 in keys else 0 for row in rows]
        given.append(ctx.const(np.array(column), dtypes[i // 2]))
    found = ctx.run(region, given)[0].known()
    if found is None:
        return None
    for chosen in itertools.permutations(range(len(keys))):
        for turned in itertools.product((False, True), repeat=len(keys)):
            if all(_before(row, chosen, turned) == bool(f) for row, f in zip(rows, found, strict=True)):
                return tuple(
                    (keys[c], t, _is_total(ctx, region, dtypes, keys[c]))
                    for c, t in zip(chosen, turned, strict=True)
                )
    return None


def _is_total(ctx: HloContext, region: OpRegion, dtypes: Sequence[str], key: int) -> bool:
    """Whether a comparator with a float key distinguishes -0 from 0, and therefore -NaN from NaN."""
    if not dtypes[key].startswith(("float", "bfloat")):
        return False
    given = [ctx.const(np.zeros(2), dtypes[i // 2]) for i in range(2 * len(dtypes))]
    given[2 * key] = ctx.const(np.array([-0.0, 0.0]), dtypes[key])
    given[2 * key + 1] = ctx.const(np.array([0.0, -0.0]), dtypes[key])
    found = ctx.run(region, given)[0].known()
    return found is not None and bool(found.any())


def _before(row: Sequence[int], chosen: Sequence[int], turned: Sequence[bool]) -> bool:
    for key, largest in zip(chosen, turned, strict=True):
        a, b = row[2 * key], row[2 * key + 1]
        if a != b:
            return (a > b) == largest
    return False


def top(ctx: HloContext, x: TapeValue, k: int, largest: bool) -> list[TapeValue]:
    """(the k best elements along the last axis, their positions as int32); floats are in XLA's total
    order."""
    if not x.rank or not 1 <= k <= x.shape[-1]:
        ctx.fail(f"k {k} does not fit {x.type}")
    return list(ctx.op("topk", x, k=k, axis=x.rank - 1, largest=largest, total=True, dtype="int32"))


converter("top_k")(lambda ctx: top(ctx, ctx.input(0), ctx.number("k"), True))
