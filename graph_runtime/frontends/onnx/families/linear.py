"""Matrix products (MatMul, Gemm, Einsum), inverses and determinants."""

from __future__ import annotations

import math

import numpy as np

from ....base import dtypes
from ....base.dtypes import FLOATS
from ....ir.value import where
from ..context import Context, Results, converter
from ..tape import TapeValue
from .casts import narrow, towards_zero, wide
from .shapes import joined


def matmul(ctx: Context, a: TapeValue, b: TapeValue) -> TapeValue:
    """The product that numpy's matmul computes. A vector gets a dimension of size 1, which is removed from
    the result."""
    left, right = a.rank == 1, b.rank == 1
    a = ctx.reshape(a, (1, *a.shape)) if left else a
    b = ctx.reshape(b, (*b.shape, 1)) if right else b
    made = a @ b
    shape = made.shape[:-2] + (() if left else made.shape[-2:-1]) + (() if right else made.shape[-1:])
    return ctx.reshape(made, shape)


converter("MatMul")(lambda ctx: matmul(ctx, ctx.input(0), ctx.input(1)))


@converter("Gemm")
def _gemm(ctx: Context) -> Results:
    a, b, c = ctx.input(0), ctx.input(1), ctx.optional(2)
    alpha, beta = ctx.attr("alpha", 1.0), ctx.attr("beta", 1.0)
    swap_a, swap_b = bool(ctx.attr("transA", 0)), bool(ctx.attr("transB", 0))
    columns = b.shape[0 if swap_b else 1]
    if swap_b and not swap_a and alpha == beta == 1.0 and c is not None and c.shape == (columns,):
        return ctx.op("dense", a, b, c)
    return gemm(ctx, ctx.op("matmul", a, b, transpose_a=swap_a, transpose_b=swap_b), c, alpha, beta)


def gemm(ctx: Context, product: TapeValue, c: TapeValue | None, alpha: float, beta: float) -> TapeValue:
    """alpha * product + beta * c; integers with fractional factors are added in float64 and truncated."""
    c, dtype = None if beta == 0.0 else c, product.dtype
    if dtype not in FLOATS and not (alpha.is_integer() and beta.is_integer()):
        product, c = wide(ctx, product), None if c is None else wide(ctx, c)
    if alpha != 1.0:
        product = product * alpha
    if c is not None:
        product = product + (c if beta == 1.0 else c * beta)
    return narrow(product, dtype, towards_zero)


# ---------------------------------------------------------------- einsum


@converter("Einsum")
def _einsum(ctx: Context) -> Results:
    """Result of an einsum, computed on two factors at a time. A matmul sums over the names of dimensions that
    both factors have and the result lacks."""
    values = [ctx.input(i) for i in range(len(ctx.inputs))]
    terms, out = _subscripts(ctx, ctx.attr("equation"), [v.rank for v in values])
    parts = [_diagonal(ctx, *pair) for pair in zip(values, terms, strict=True)]
    value, term = parts[0]
    for i, (other, its) in enumerate(parts[1:], 2):
        later = set(out).union(*(t for _, t in parts[i:]))
        value, term = _product(ctx, (value, term), (other, its), later)
    value, term = _summed(value, term, set(out))
    return ctx.transpose(value, [term.index(c) for c in out])


def _subscripts(ctx: Context, equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """(names of the dimensions of each input, names of the dimensions of the result). The dimensions of "..."
    are named "0", "1", ... from the last."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        ctx.fail(f"equation {equation!r} has {len(texts)} terms for {len(ranks)} inputs")
    wide = max(
        (r - len(t.replace("...", "")) for t, r in zip(texts, ranks, strict=True) if "..." in t), default=0
    )

    def named(text: str, rank: int | None) -> list[str]:
        before, dots, after = text.partition("...")
        count = (wide if rank is None else rank - len(before + after)) if dots else 0
        names = [*before, *(str(i) for i in reversed(range(count))), *after]
        if rank is not None and len(names) != rank:
            ctx.fail(f"term {text!r} of {equation!r} does not fit an input of {rank} dimensions")
        return names

    terms = [named(t, r) for t, r in zip(texts, ranks, strict=True)]
    if arrow:
        return terms, named(right, None)
    every = [c for term in terms for c in term]
    once = sorted({c for c in every if every.count(c) == 1 and not c.isdigit()})
    return terms, [*(str(i) for i in reversed(range(wide))), *once]


def _diagonal(ctx: Context, value: TapeValue, term: list[str]) -> tuple[TapeValue, list[str]]:
    """(the value, its term), after removing a repeated name. Only elements with equal indices in the two
    dimensions of this name are kept, by a slice of the two flattened dimensions."""
    for name in term:
        if term.count(name) == 2:
            i, j = (d for d, c in enumerate(term) if c == name)
            rest = [d for d in range(value.rank) if d not in (i, j)]
            n, shape = value.shape[i], [value.shape[d] for d in rest]
            flat = ctx.reshape(ctx.transpose(value, [*rest, i, j]), (*shape, n * n))
            value = ctx.slice(flat, len(shape), 0, n * n, n + 1)
            return _diagonal(ctx, value, [*(term[d] for d in rest), name])
        if term.count(name) > 2:
            ctx.fail(f"{name!r} occurs more than twice in a term")
    return value, term


def _summed(value: TapeValue, term: list[str], keep: set[str]) -> tuple[TapeValue, list[str]]:
    axes = [d for d, c in enumerate(term) if c not in keep]
    if not axes:
        return value, term
    return value.sum(axes=axes, keepdims=False), [c for c in term if c in keep]


def _product(
    ctx: Context, a: tuple[TapeValue, list[str]], b: tuple[TapeValue, list[str]], keep: set[str]
) -> tuple[TapeValue, list[str]]:
    """Product [batch, rows, k] x [batch, k, columns]; a dimension of size 1 is first broadcast to the other
    factor's."""
    a = _summed(*a, keep | set(b[1]))
    b = _summed(*b, keep | set(a[1]))
    sizes: dict[str, int] = {}
    for value, term in (a, b):
        for name, size in zip(term, value.shape, strict=True):
            sizes[name] = max(size, sizes.get(name, 1)) if size else 0
    both = [c for c in a[1] if c in b[1]]
    batch, inner = [c for c in both if c in keep], [c for c in both if c not in keep]
    rows = [c for c in a[1] if c not in b[1]]
    columns = [c for c in b[1] if c not in a[1]]

    def plane(part: tuple[TapeValue, list[str]], *groups: list[str]) -> TapeValue:
        value, term = part
        value = ctx.expand(value, tuple(sizes[c] for c in term))
        value = ctx.transpose(value, [term.index(c) for group in groups for c in group])
        return ctx.reshape(
            value,
            [*(sizes[c] for c in groups[0]), *(math.prod(sizes[c] for c in group) for group in groups[1:])],
        )

    made = plane(a, batch, rows, inner) @ plane(b, batch, inner, columns)
    names = [*batch, *rows, *columns]
    return ctx.reshape(made, [sizes[c] for c in names]), names


# ---------------------------------------------------------------- inverses

_MOST_ROWS = 64  # each row takes a dozen nodes


def _matrices(ctx: Context) -> tuple[TapeValue, int]:
    """([matrices, n, n], n) of input 0; 16-bit floats become float32."""
    x = ctx.input(0)
    n = x.shape[-1] if x.rank >= 2 else 0
    if x.rank < 2 or x.shape[-2] != n:
        ctx.fail(f"{x.type} is not a square matrix")
    if not 1 <= n <= _MOST_ROWS:
        ctx.fail(f"matrices of {n} rows: 1 to {_MOST_ROWS} are supported")
    wide = x if dtypes.to_numpy(x.dtype).itemsize >= 4 else x.cast("float32")
    return ctx.reshape(wide, (x.type.size // (n * n), n, n)), n


def _pivoted(ctx: Context, rows: TapeValue, k: int, n: int) -> tuple[TapeValue, TapeValue]:
    """(rows, with the greatest remaining element of column k moved to row k; bool [matrices, 1, 1]: whether
    rows were exchanged)."""
    size = abs(ctx.slice(ctx.slice(rows, 2, k, k + 1), 1, k, n))
    best = ctx.op("argmax", size, axis=1, keepdims=True, select_last_index=False)
    best = best.cast("int64") + k
    at = ctx.const(np.arange(n, dtype=np.int64)[None, :, None])
    order = where(at.equal(k), best, where(at.equal(best), k, at))
    order = ctx.expand(order, rows.shape)
    return ctx.op("take_along_axis", rows, order, axis=1), best.not_equal(k)


def _eliminated(ctx: Context, rows: TapeValue, k: int, n: int) -> tuple[TapeValue, TapeValue]:
    """(rows after elimination, with column k as in the unit matrix; the pivot [matrices, 1, 1])."""
    row = ctx.slice(rows, 1, k, k + 1)
    pivot = ctx.slice(row, 2, k, k + 1)
    row = row / pivot
    unit = ctx.const((np.arange(n) == k)[:, None], rows.dtype)
    return rows - (ctx.slice(rows, 2, k, k + 1) - unit) * row, pivot


@converter("Inverse", domain="com.microsoft", limits=f"up to {_MOST_ROWS} rows")
def _inverse(ctx: Context) -> Results:
    x = ctx.input(0)
    rows, n = _matrices(ctx)
    unit = ctx.expand(ctx.const(np.eye(n)[None], rows.dtype), rows.shape)
    rows = joined(ctx, [rows, unit], 2)
    for k in range(n):
        rows, _ = _pivoted(ctx, rows, k, n)
        rows, _ = _eliminated(ctx, rows, k, n)
    return ctx.reshape(ctx.slice(rows, 2, n, 2 * n), x.shape).cast(x.dtype)


@converter("Det", limits=f"up to {_MOST_ROWS} rows")
def _det(ctx: Context) -> Results:
    x = ctx.input(0)
    rows, n = _matrices(ctx)
    made = ctx.full((rows.shape[0], 1, 1), 1, rows.dtype)
    singular = ctx.const(False)
    for k in range(n):
        rows, moved = _pivoted(ctx, rows, k, n)
        rows, pivot = _eliminated(ctx, rows, k, n)
        singular = pivot.equal(0) | singular
        made = made * (where(moved, made.scalar(-1), 1) * pivot)
    made = where(singular, 0, made)  # hides the quotients by 0
    return ctx.reshape(made, x.shape[:-2]).cast(x.dtype)
