"""Windows of two and three dimensions, which may be dilated: max_pool3d avg_pool3d, lp_pool2d; and what
pool_indices.py shares with them.

C contract (args are the inputs, then the outputs; an image [N,C,H,W] counts as [N,C,1,H,W]). Attribute words:
    [0] kernel_d [1] kernel_h [2] kernel_w [3 .. 5] strides [6 .. 8] pads in front [9 .. 11] pads behind
    [12 .. 14] dilations
    [15] avg_pool3d: count_include_pad; lp_pool2d: the bits of the double p; max_pool2d_indices: storage_order
Padding never wins a maximum and adds nothing to a sum; an average divides by the elements inside the image,
or, with count_include_pad, by those inside the padded image.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...graph import TensorType
from .. import rules
from ..products.conv import window_count
from ..registry import REQUIRED, Attr, Body, Case, Op, register

__all__ = [
    "MAX_TYPES",
    "TT_MAX_TYPES",
    "dilated_cases",
    "elements_of",
    "is_dilated",
    "pooled",
    "undilated",
    "window_attrs",
    "window_cases",
    "window_flops",
    "window_words",
    "windows_of",
]

MAX_TYPES = (*rules.FLOATS, "int32", "int8", "uint8")
TT_MAX_TYPES = tuple(t for t in MAX_TYPES if t in rules.TT_MOVED)


def window_attrs(dims: int) -> tuple[Attr, ...]:
    """The attributes of a pool over images (dims 2) or volumes (3)."""
    sides = "height, width" if dims == 2 else "depth, height, width"
    return (
        Attr("kernel_shape", "ints", REQUIRED, f"of the window: {sides}"),
        Attr("strides", "ints", (1,) * dims, f"step of the window: {sides}"),
        Attr("pads", "ints", (0,) * 2 * dims, "padding before each dimension, then after each"),
        Attr("dilations", "ints", (1,) * dims, f"distance of a window's elements: {sides}"),
        Attr("ceil_mode", "bool", False, "count a last window that overhangs the padded image"),
    )


def pooled(op: str, x: TensorType, attrs, dims: int, allowed: tuple[str, ...]) -> TensorType:
    """The type of the pool's output. Raises GraphError also where a window would hold padding only."""
    rules.one_dtype(op, [x], allowed)
    rules.rank(op, "input 0", x, 2 + dims, "N,C,H,W" if dims == 2 else "N,C,D,H,W")
    kernel = rules.limit(op, "kernel_shape", attrs["kernel_shape"], dims, 1)
    strides = rules.limit(op, "strides", attrs["strides"], dims, 1)
    pads = rules.limit(op, "pads", attrs["pads"], 2 * dims, 0)
    dilations = rules.limit(op, "dilations", attrs["dilations"], dims, 1)
    out = []
    for d in range(dims):
        reach = (kernel[d] - 1) * dilations[d] + 1
        if max(pads[d], pads[d + dims]) >= reach:
            rules.fail(op, f"pads {list(pads)} must be less than the window: no window of padding", got=pads)
        size, both = x.shape[2 + d], pads[d] + pads[d + dims]
        out.append(window_count(op, size, reach, strides[d], both, attrs["ceil_mode"], pads[d]))
    return TensorType(x.dtype, (*x.shape[:2], *out))


def is_dilated(attrs) -> bool:
    """Whether the elements of a window do not lie side by side; an op without the attribute has none."""
    return any(d != 1 for d in attrs.get("dilations", ()))


def undilated(body: Body) -> Body:
    """The same kernel of pool.py, which takes no dilations."""

    def accepts(inputs, outputs, attrs):
        if is_dilated(attrs):
            return "it takes no dilations"
        return body.accepts(inputs, outputs, attrs) if body.accepts else None

    return replace(body, accepts=accepts)


def dilated_cases(types: tuple[str, ...]) -> Iterator[Case]:
    """Cases of a pool with dilations, one a dtype."""
    attrs = {"kernel_shape": (3, 2), "dilations": (2, 3), "strides": (2, 1), "pads": (1, 0, 1, 1)}
    for t in types:
        yield Case(f"dilated_{t}", ((t, (2, 3, 9, 40)),), attrs, nmse=rules.EXACT)


def window_words(dims: int, last: Callable[..., Any]) -> Callable[..., Any]:
    """The op's ``words``; ``last(attrs)``: word 15."""

    def words(i, o, a):
        lead = 3 - dims
        pads = a["pads"]
        columns = (a["kernel_shape"], a["strides"], pads[:dims], pads[dims:], a["dilations"])
        neutral = (1, 1, 0, 0, 1)
        padded = ((n,) * lead + tuple(column) for n, column in zip(neutral, columns, strict=True))
        return [*itertools.chain.from_iterable(padded), last(a)]

    return words


def windows_of(x: np.ndarray, attrs, out: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """(output position, index of the window's elements inside the image, padded elements) of each window."""
    dims = len(out)
    kernel, strides, pads = attrs["kernel_shape"], attrs["strides"], attrs["pads"]
    per_dim = []
    for d in range(dims):
        taps = np.arange(kernel[d]) * attrs["dilations"][d]
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
    """[N, C, elements of a window]."""
    return x[np.ix_(*map(np.arange, x.shape[:2]), *index)].reshape(*x.shape[:2], math.prod(map(len, index)))


def _pool(op, dims, allowed, reduce):
    """reduce(elements [N,C,n], padded count, attrs) -> [N,C] for every window."""

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
    """Cases of float32, ``more`` among them, then one a dtype. ``nmse``: by dtype."""
    for name, shape, attrs in (*_CASES[dims], *more):
        yield Case(name, (("float32", shape),), attrs, nmse=nmse["float32"])
    for t in types[1:]:
        shape, kernel = (2, 3, *(5, 6, 7)[3 - dims :]), (2, 2, 3)[3 - dims :]
        yield Case(t, ((t, shape),), {"kernel_shape": kernel, "pads": (1,) * 2 * dims}, nmse=nmse[t])


def window_flops(i, o, a) -> int:
    """One an element of each window."""
    return o[0].size * math.prod(a["kernel_shape"])


def _window_op(op, doc, dims, allowed, reduce, cases, attrs=(), last=lambda a: 0):
    register(
        Op(
            op,
            doc,
            (1, 1),
            lambda i, a: [pooled(op, i[0], a, dims, allowed)],
            _pool(op, dims, allowed, reduce),
            window_flops,
            attrs=(*window_attrs(dims), *attrs),
            words=window_words(dims, last),
            bodies={
                "cpu": Body(op, allowed, rules.by_dtype),
                "tt": Body(op, tuple(t for t in TT_MAX_TYPES if t in allowed)),
            },
            kind="windows",
            parts="volume_pool",
            walk="volume",
            cases=tuple(cases),
        )
    )


_window_op(
    "max_pool3d",
    "greatest element of each window of a volume",
    3,
    MAX_TYPES,
    lambda e, padded, a: e.max(axis=2),
    window_cases(3, MAX_TYPES, dict.fromkeys(MAX_TYPES, rules.EXACT)),
)
_window_op(
    "avg_pool3d",
    "mean of each window of a volume",
    3,
    rules.FLOATS,
    lambda e, padded, a: e.sum(axis=2) / (padded if a["count_include_pad"] else e.shape[2]),
    window_cases(
        3,
        rules.FLOATS,
        rules.SUMMED,
        (
            (
                "include_pad",
                (1, 2, 5, 6, 7),
                {"kernel_shape": (3,) * 3, "pads": (1,) * 6, "count_include_pad": True},
            ),
        ),
    ),
    (Attr("count_include_pad", "bool", False, "divide by the padded elements too"),),
    lambda a: int(a["count_include_pad"]),
)


def _lp(elements, padded, attrs):
    with np.errstate(over="ignore"):
        return (np.abs(elements) ** attrs["p"]).sum(axis=2) ** (1 / attrs["p"])


_window_op(
    "lp_pool2d",
    "p-norm of each window",
    2,
    rules.FLOATS,
    _lp,
    window_cases(
        2, rules.FLOATS, rules.SUMMED, (("cubes", (1, 2, 9, 9), {"kernel_shape": (3, 3), "p": 3.0}),)
    ),
    (Attr("p", "float", 2.0, "the exponent"),),
    lambda a: rules.float_word(a["p"]),
)
