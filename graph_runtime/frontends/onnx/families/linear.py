"""Matrix products: MatMul, Gemm, Einsum, and those of 8-bit integers."""

from __future__ import annotations

import math

from ..context import FLOATS, Context, Results, converter
from ..tape import TapeValue
from .mixing import narrow, towards_zero, wide


def matmul(ctx: Context, a: TapeValue, b: TapeValue) -> TapeValue:
    """numpy's matmul: vectors get a dimension, which goes again."""
    left, right = a.rank == 1, b.rank == 1
    a = ctx.reshape(a, (1, *a.shape)) if left else a
    b = ctx.reshape(b, (*b.shape, 1)) if right else b
    made = ctx.op("matmul", a, b)
    shape = made.shape[:-2] + (() if left else made.shape[-2:-1]) + (() if right else made.shape[-1:])
    return ctx.reshape(made, shape)


@converter("MatMul")
def _matmul(ctx: Context) -> Results:
    return matmul(ctx, ctx.input(0), ctx.input(1))


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
    """alpha product + beta c. Integers times what is none are added in float64, and the sum cut off."""
    c, dtype = None if beta == 0.0 else c, product.dtype
    if dtype not in FLOATS and not (alpha.is_integer() and beta.is_integer()):
        product, c = wide(ctx, product), None if c is None else wide(ctx, c)
    if alpha != 1.0:
        product = ctx.op("multiply", product, ctx.scalar(alpha, product))
    if c is not None:
        c = c if beta == 1.0 else ctx.op("multiply", c, ctx.scalar(beta, c))
        product = ctx.op("add", product, c)
    return narrow(ctx, product, dtype, towards_zero)


# ---------------------------------------------------------------- einsum


@converter("Einsum")
def _einsum(ctx: Context) -> Results:
    """Two factors at a time: what both have and the result lacks is summed by a matmul."""
    values = [ctx.input(i) for i in range(len(ctx.inputs))]
    terms, out = _subscripts(ctx, ctx.attr("equation"), [v.rank for v in values])
    parts = [_diagonal(ctx, *pair) for pair in zip(values, terms, strict=True)]
    value, term = parts[0]
    for i, (other, its) in enumerate(parts[1:], 2):
        later = set(out).union(*(t for _, t in parts[i:]))
        value, term = _product(ctx, (value, term), (other, its), later)
    value, term = _summed(ctx, value, term, set(out))
    return ctx.transpose(value, [term.index(c) for c in out])


def _subscripts(ctx: Context, equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """A list of dimension names for each input and the result; those of "..." are "0", "1", ... from the
    back."""
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
    """A name that occurs twice in a term: only elements with equal indices, as a slice of the flattened
    pair."""
    for name in term:
        if term.count(name) == 2:
            i, j = (d for d, c in enumerate(term) if c == name)
            rest = [d for d in range(value.rank) if d not in (i, j)]
            n, shape = value.shape[i], [value.shape[d] for d in rest]
            flat = ctx.reshape(ctx.transpose(value, [*rest, i, j]), (*shape, n * n))
            value = ctx.slice(flat, len(shape), 0, n * n, n + 1)
            return _diagonal(ctx, value, [*(term[d] for d in rest), name])
        if term.count(name) > 2:
            ctx.fail(f"{name!r} stands more than twice in a term")
    return value, term


def _summed(ctx: Context, value: TapeValue, term: list[str], keep: set[str]) -> tuple[TapeValue, list[str]]:
    axes = [d for d, c in enumerate(term) if c not in keep]
    if not axes:
        return value, term
    return ctx.op("sum", value, axes=axes, keepdims=False), [c for c in term if c in keep]


def _product(
    ctx: Context, a: tuple[TapeValue, list[str]], b: tuple[TapeValue, list[str]], keep: set[str]
) -> tuple[TapeValue, list[str]]:
    """[batch, rows, k] x [batch, k, columns]; a dimension of 1 against n is broadcast first."""
    a = _summed(ctx, *a, keep | set(b[1]))
    b = _summed(ctx, *b, keep | set(a[1]))
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

    made = ctx.op("matmul", plane(a, batch, rows, inner), plane(b, batch, inner, columns))
    names = [*batch, *rows, *columns]
    return ctx.reshape(made, [sizes[c] for c in names]), names
