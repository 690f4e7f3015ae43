"""Inputs of test cases, drawn from a seed, and the error measure for results, for tests, benchmark and
compare."""

from __future__ import annotations

import numpy as np

from ...base import dtypes
from ...base.errors import UnsupportedOpError
from ..graph import TensorType
from .products.byte_panels import drawn_panels
from .products.levels import level_type, pack_levels
from .products.packed import PANEL
from .registry import Case, Op
from .rules import select


def cases_on(op: Op, kind: str) -> list[Case]:
    """The cases of an op that the op's kernel for a device kind can run."""
    return [case for case in op.cases if _has_kernel(op, case, kind)]


def _has_kernel(op: Op, case: Case, kind: str) -> bool:
    types, attrs = [TensorType(*t) for t in case.inputs], op.decode(case.attrs)
    try:
        select(op, attrs, kind, types, op.infer(types, attrs))
    except UnsupportedOpError:
        return False
    return True


_BETWEEN = {"positive": (0.5, 2), "uniform": (-1, 1), "above_one": (1.1, 4), "inside_one": (-0.9, 0.9)}
_BETWEEN |= {"thousandths": (0.0005, 0.002), "share": (0.001, 0.999)}


def draw(case: Case, seed: int = 0) -> list[np.ndarray]:
    """The inputs of a case, drawn as ``case.make`` says, "normal" by default: equal seeds give equal bits."""
    rng = np.random.default_rng([seed, *case.name.encode()])
    how = (*case.make, *("normal",) * (len(case.inputs) - len(case.make)))
    return [
        draw_array(TensorType(dtype, shape), rng, h)
        for (dtype, shape), h in zip(case.inputs, how, strict=True)
    ]


def draw_array(t: TensorType, rng: np.random.Generator, how: str = "normal") -> np.ndarray:
    """A random array of type t.

    ``how``, with the numbers drawn:
        "normal"          normally distributed, the default; integers -100 .. 100 that the dtype has
        "uniform"         -1 .. 1; integers as for normal
        "positive"        0.5 .. 2; integers 1 .. 100
        "wide"            magnitudes 3 .. 150 of both signs, so that no device format flushes one to 0
        "above_one"       1.1 .. 4
        "inside_one"      -0.9 .. 0.9
        "digits"          whole numbers -3 .. 3 that the dtype has, for any dtype
        "shift"           0 .. bits + 2 of an integer
        "bytes"           all numbers of an integer of 8 bits
        "thousandths"     0.0005 .. 0.002
        "share"           0.001 .. 0.999
        "index:N"         integers -N .. N - 1
        "byte_panels:K"   panels of byte_panels.py, of K rows; "byte_panels:K:H": of a depthwise kernel of H
                          rows
        "levels:BITS:BLOCK"   panels of levels.py, a weight of few bits
    Bools are 0 or 1 with equal chance.
    """
    dtype = dtypes.to_numpy(t.dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, t.shape).astype(dtype)
    if how.startswith("levels:"):
        return _draw_levels(t, rng, *map(int, how.split(":")[1:]))
    if how.startswith("byte_panels:"):
        return drawn_panels(t, rng, *map(int, how.split(":")[1:]))
    values: np.ndarray
    if (ends := _ends(dtype, how)) is not None:
        values = rng.integers(*ends, t.shape)
    elif how == "wide":
        values = rng.uniform(3, 150, t.shape) * rng.choice((-1.0, 1.0), t.shape)
    elif how in _BETWEEN:
        values = rng.uniform(*_BETWEEN[how], t.shape)
    else:
        values = rng.standard_normal(t.shape)
    return np.asarray(values).astype(dtype)


def _ends(dtype: np.dtype, how: str) -> tuple[int, int] | None:
    """(least, greatest + 1) of the random integers; None for floats."""
    if how.startswith("index:"):
        return -int(how[6:]), int(how[6:])
    if how == "bytes":
        return np.iinfo(dtype).min, np.iinfo(dtype).max + 1
    if how == "digits":
        return 0 if dtype.kind == "u" else -3, 4
    if how == "shift":
        return 0, 8 * dtype.itemsize + 3
    if dtype.kind in "iu":
        return 1 if how == "positive" else max(-100, np.iinfo(dtype).min), 101
    return None


def _draw_levels(t: TensorType, rng: np.random.Generator, bits: int, block: int) -> np.ndarray:
    n, blocks = t.shape[0] * PANEL, t.shape[1]
    levels = rng.integers(0, 1 << bits, (n, blocks * block)).astype(np.uint8)
    scales, zeros = rng.uniform(0.1, 2, (n, blocks)), rng.integers(0, 1 << bits, (n, blocks))
    plain = t == level_type(n, blocks * block, bits, block, False)
    return pack_levels(levels, scales, None if plain else zeros, bits, block)


def expected(op: Op, case: Case, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Results of the op's numpy reference for these inputs, with the dtypes and shapes that the op's rule
    gives."""
    return op.reference(arrays, op.decode(case.attrs))


def nmse(actual: np.ndarray, wanted: np.ndarray) -> float:
    """Normalised mean squared error: sum((actual - wanted)^2) / sum(wanted^2) over the elements where wanted
    is finite.

    The error is 0.0 only for equal values. It is infinite if an element of one side is NaN or infinite and
    the other side's element is not equal to it, or if wanted is all zeros and actual is not. Shapes must be
    equal.
    """
    if actual.shape != wanted.shape:
        raise ValueError(f"shapes differ: {actual.shape} and {wanted.shape}")
    if np.array_equal(actual, wanted):
        return 0.0
    a, w = np.asarray(actual, np.float64), np.asarray(wanted, np.float64)
    finite = np.isfinite(w)
    if not np.array_equal(a[~finite], w[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    a, w = a[finite], w[finite]
    scale = np.abs(w).max(initial=0.0)
    if scale == 0.0:
        return float("inf") if a.any() else 0.0
    with np.errstate(over="ignore", under="ignore"):
        error = float((((a - w) / scale) ** 2).sum() / ((w / scale) ** 2).sum())
    if (error == 0.0 and (a != w).any()) or wanted.dtype.kind in "iu":
        # the numbers differ, but their difference, or its square, is too small for float64
        return max(error, np.finfo(np.float64).tiny)
    return error
