"""Pools with windows of two and three dimensions, which may be dilated: max_pool3d avg_pool3d, lp_pool2d; and
functions for pool_indices.py.

C contract (args are the inputs, then the outputs; an image [N,C,H,W] counts as [N,C,1,H,W]). Attribute words:
    [0] kernel_d [1] kernel_h [2] kernel_w [3 .. 5] strides [6 .. 8] pads in front [9 .. 11] pads behind
    [12 .. 14] dilations
    [15] avg_pool3d: count_include_pad; lp_pool2d: the bits of the double p; max_pool2d_indices: storage_order
Padding never wins a maximum and adds nothing to a sum. An average divides by the number of elements inside
the image or, with count_include_pad, inside the padded image.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import cases, per_dtype
from ..registry import REQUIRED, Attr, Case, define
from ..window_rules import check_window, sides, window_attrs, window_sizes

MAX_TYPES = (*rules.FLOATS, "int32", "int8", "uint8")
TT_MAX_TYPES = tuple(t for t in MAX_TYPES if t in rules.TT_MOVED)


def pool_attrs(dims: int) -> tuple[Attr, ...]:
    """The attributes of a pool over images (``dims`` 2) or volumes (3)."""
    return (
        Attr("kernel_shape", "ints", REQUIRED, f"size of the window: {sides(dims)}"),
        *window_attrs(dims, "padding"),
        Attr("ceil_mode", "bool", False, "count a last window that overhangs the padded image"),
    )


def pooled(op: str, x: TensorType, attrs, dims: int, allowed: tuple[str, ...]) -> TensorType:
    """The type of the pool's output. Raises GraphError for wrong types or attributes, and if a window would
    hold only padding."""
    rules.one_dtype(op, [x], allowed)
    rules.rank(op, "input 0", x, 2 + dims, "N,C,H,W" if dims == 2 else "N,C,D,H,W")
    kernel = rules.limit(op, "kernel_shape", attrs["kernel_shape"], dims, 1)
    check_window(op, attrs, dims)
    pads, dilations = attrs["pads"], attrs.get("dilations", (1,) * dims)
    for d, pad in enumerate(pads):
        if pad >= (kernel[d % dims] - 1) * dilations[d % dims] + 1:
            apart = f" at dilations {list(dilations)}" if max(dilations) > 1 else ""
            text = f"pads {list(pads)} must be less than kernel_shape {list(kernel)}{apart}"
            rules.fail(op, f"{text}: no window may hold padding only", got=pads)
    return TensorType(x.dtype, (*x.shape[:2], *window_sizes(op, x.shape[2:], kernel, attrs)))


def dilated_cases(types: tuple[str, ...]) -> Iterator[Case]:
    """Cases of a pool with dilations, one for each dtype."""
    attrs = {"kernel_shape": (3, 2), "dilations": (2, 3), "strides": (2, 1), "pads": (1, 0, 1, 1)}
    yield from per_dtype(types, (2, 3, 9, 40), attrs, nmse=rules.EXACT, name="dilated_{}")


def window_words(dims: int, last: Callable[..., Any]) -> Callable[..., Any]:
    """Op.words of a pool; ``last(attrs)`` gives word 15."""

    def words(i, o, a):
        lead = 3 - dims
        pads = a["pads"]
        columns = (a["kernel_shape"], a["strides"], pads[:dims], pads[dims:], a["dilations"])
        neutral = (1, 1, 0, 0, 1)
        padded = ((n,) * lead + tuple(column) for n, column in zip(neutral, columns, strict=True))
        return [*itertools.chain.from_iterable(padded), last(a)]

    return words


def windows_of(x: np.ndarray, attrs, out: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """For each window: output position, indices of its elements inside the image, number of its elements
    inside the padded image."""
    dims = len(out)
    kernel, strides, pads = attrs["kernel_shape"], attrs["strides"], attrs["pads"]
    per_dim = []
    for d in range(dims):
        taps = np.arange(kernel[d]) * attrs.get("dilations", (1,) * dims)[d]
        rows = []
        for i in range(out[d]):
            at = i * strides[d] - pads[d] + taps
            size = x.shape[2 + d]
            rows.append((at[(at >= 0) & (at < size)], int((at < size + pads[d + dims]).sum())))
        per_dim.append(rows)
    for at in itertools.product(*map(range, out)):
        rows = [per_dim[d][i] for d, i in enumerate(at)]
        yield (..., *at), [row[0] for row in rows], math.prod(row[1] for row in rows)


def elements_of(x: np.ndarray, index: Sequence[np.ndarray]) -> np.ndarray:
    """The elements of a window, [N, C, elements]."""
    return x[np.ix_(*map(np.arange, x.shape[:2]), *index)].reshape(*x.shape[:2], math.prod(map(len, index)))


def greatest(elements, padded, attrs):
    """The results [N, C] of a maximum pool for one window."""
    return elements.max(axis=2)


def mean(elements, padded, attrs):
    """The results [N, C] of an average pool for one window."""
    return elements.sum(axis=2) / (padded if attrs["count_include_pad"] else elements.shape[2])


def pool_reference(op, dims, allowed, reduce):
    """Op.reference of a pool. ``reduce(elements [N,C,n], padded count, attrs)`` gives the results [N,C] for
    one window."""

    def reference(arrays, attrs):
        (x,) = arrays
        out = pooled(op, TensorType(x.dtype.name, x.shape), attrs, dims, allowed)
        wide = rules.wide(x)
        y = np.empty(out.shape, wide.dtype)
        for at, index, padded in windows_of(x, attrs, out.shape[2:]):
            y[at] = reduce(elements_of(wide, index), padded, attrs)
        return [rules.narrow(y, x.dtype.name)]

    return reference


_CASES = {
    2: (
        ("tiles", (1, 3, 33, 35), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("dilated", (2, 2, 17, 40), {"kernel_shape": (3, 2), "dilations": (2, 3), "pads": (1, 0, 2, 1)}),
        ("ceil", (1, 3, 10, 11), {"kernel_shape": (3, 3), "strides": (2, 3), "ceil_mode": True}),
        ("ceil_alone", (2, 3, 1, 7), {"kernel_shape": (2, 3), "strides": (2, 3), "ceil_mode": True}),
        ("empty", (0, 3, 4, 4), {"kernel_shape": (2, 2)}),
    ),
    3: (
        ("tiles", (1, 2, 5, 9, 33), {"kernel_shape": (2, 3, 3), "strides": (1, 2, 2), "pads": (1,) * 6}),
        ("dilated", (2, 1, 6, 7, 9), {"kernel_shape": (2, 2, 2), "dilations": (3, 2, 1)}),
        ("ceil", (1, 2, 5, 6, 7), {"kernel_shape": (2, 2, 2), "strides": (2, 2, 3), "ceil_mode": True}),
        ("ceil_alone", (1, 2, 1, 2, 7), {"kernel_shape": (2, 3, 3), "strides": (2,) * 3, "ceil_mode": True}),
        ("empty", (0, 3, 4, 4, 4), {"kernel_shape": (2, 2, 2)}),
    ),
}


def window_cases(dims, types, nmse, more=()) -> Iterator[Case]:
    """Cases of float32, including ``more``, then one case for each dtype."""
    yield from cases((*_CASES[dims], *more), nmse)
    shape, kernel = (2, 3, *(5, 6, 7)[3 - dims :]), (2, 2, 3)[3 - dims :]
    yield from per_dtype(types[1:], shape, {"kernel_shape": kernel, "pads": (1,) * 2 * dims}, nmse=nmse)


def window_flops(i, o, a) -> int:
    """Flops of a pool: one for each element of each window."""
    return o[0].size * math.prod(a["kernel_shape"])


def _window_op(op, doc, dims, allowed, reduce, rows, attrs=(), last=lambda a: 0):
    define(
        op,
        doc,
        (1, 1),
        lambda i, a: [pooled(op, i[0], a, dims, allowed)],
        pool_reference(op, dims, allowed, reduce),
        window_flops,
        attrs=(*pool_attrs(dims), *attrs),
        words=window_words(dims, last),
        bodies=rules.bodies(op, allowed, tuple(t for t in TT_MAX_TYPES if t in allowed)),
        kind="windows",
        parts="volume_pool",
        walk="volume",
        cases=tuple(rows),
    )


_window_op(
    "max_pool3d",
    "greatest element of each window of a volume",
    3,
    MAX_TYPES,
    greatest,
    window_cases(3, MAX_TYPES, rules.EXACT),
)
INCLUDE = Attr("count_include_pad", "bool", False, "divide by the padded elements too")
_PADDED = {"kernel_shape": (3,) * 3, "pads": (1,) * 6, "count_include_pad": True}
_window_op(
    "avg_pool3d",
    "mean of each window of a volume",
    3,
    rules.FLOATS,
    mean,
    window_cases(3, rules.FLOATS, rules.SUMMED, (("include_pad", (1, 2, 5, 6, 7), _PADDED),)),
    (INCLUDE,),
    lambda a: int(a["count_include_pad"]),
)


def _lp(elements, padded, attrs):
    with np.errstate(over="ignore"):
        return (np.abs(elements) ** attrs["p"]).sum(axis=2) ** (1 / attrs["p"])


_CUBES = {"kernel_shape": (3, 3), "p": 3.0}
_window_op(
    "lp_pool2d",
    "p-norm of each window",
    2,
    rules.FLOATS,
    _lp,
    window_cases(2, rules.FLOATS, rules.SUMMED, (("cubes", (1, 2, 9, 9), _CUBES),)),
    (Attr("p", "float", 2.0, "the exponent"),),
    lambda a: rules.float_word(a["p"]),
)
