"""Windows of two and three dimensions, which may be dilated: max_pool3d avg_pool3d, lp_pool2d,
max_pool2d_indices, max_pool2d_backward.

C contract (args are the inputs, then the outputs; an image [N,C,H,W] counts as [N,C,1,H,W]). Attribute words:
    [0] kernel_d [1] kernel_h [2] kernel_w [3 .. 5] strides [6 .. 8] pads in front [9 .. 11] pads behind
    [12 .. 14] dilations
    [15] avg_pool3d: count_include_pad; lp_pool2d: the bits of the double p; max_pool2d_indices: storage_order
Padding never wins a maximum and adds nothing to a sum; an average divides by the elements inside the image,
or, with count_include_pad, by those inside the padded image. max_pool2d_indices: args x, values, indices
(int64), which count from the beginning of x, row-major, or with storage_order 1 with H running fastest. Where
several elements of a window are greatest the first one is meant. max_pool2d_backward: args x,
grad (of the pool's output), out: each value of grad is added to the element of x's shape that its window took.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..graph import TensorType
from . import rules
from .conv import window_count
from .registry import REQUIRED, Attr, Body, Case, Op, register

_MAX_TYPES = (*rules.FLOATS, "int32", "int8", "uint8")
_NMSE = {
    "float32": rules.ROUNDED,
    "float64": rules.ROUNDED | {"cpu": 1e-24},
    "float16": rules.ROUNDED | {"cpu": 1e-6},
    "bfloat16": rules.ROUNDED | {"cpu": 1e-4},
}


def _attrs(dims: int) -> tuple[Attr, ...]:
    sides = "height, width" if dims == 2 else "depth, height, width"
    return (
        Attr("kernel_shape", "ints", REQUIRED, f"of the window: {sides}"),
        Attr("strides", "ints", (1,) * dims, f"step of the window: {sides}"),
        Attr("pads", "ints", (0,) * 2 * dims, "padding before each dimension, then after each"),
        Attr("dilations", "ints", (1,) * dims, f"distance of a window's elements: {sides}"),
        Attr("ceil_mode", "bool", False, "count a last window that overhangs the padded image"),
    )


def _infer(op, x, attrs, dims, allowed) -> TensorType:
    """The type of the pool's output. Every window holds an element of the image."""
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


def _words(dims, last):
    """The words; ``last(attrs)``: word 15."""

    def words(i, o, a):
        lead = 3 - dims
        pads = a["pads"]
        columns = (a["kernel_shape"], a["strides"], pads[:dims], pads[dims:], a["dilations"])
        neutral = (1, 1, 0, 0, 1)
        padded = ((n,) * lead + tuple(column) for n, column in zip(neutral, columns, strict=True))
        return [*itertools.chain.from_iterable(padded), last(a)]

    return words


def _windows(x, attrs, out):
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


def _elements(x, index):
    """[N, C, elements of a window]."""
    return x[np.ix_(*map(np.arange, x.shape[:2]), *index)].reshape(*x.shape[:2], math.prod(map(len, index)))


def _pool(op, dims, allowed, reduce):
    """reduce(elements [N,C,n], padded count, attrs) -> [N,C] for every window."""

    def reference(arrays, attrs):
        (x,) = arrays
        out = _infer(op, TensorType(x.dtype.name, x.shape), attrs, dims, allowed)
        wide = rules.wide(x)
        y = np.empty(out.shape, wide.dtype)
        for at, index, padded in _windows(x, attrs, out.shape[2:]):
            y[at] = reduce(_elements(wide, index), padded, attrs)
        return [rules.narrow(y, x.dtype.name)]

    return reference


_CASES = {
    2: (
        ("tiles", (1, 3, 33, 35), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("dilated", (2, 2, 17, 40), {"kernel_shape": (3, 2), "dilations": (2, 3), "pads": (1, 0, 2, 1)}),
        ("ceil", (1, 3, 10, 11), {"kernel_shape": (3, 3), "strides": (2, 3), "ceil_mode": True}),
        ("empty", (0, 3, 4, 4), {"kernel_shape": (2, 2)}),
    ),
    3: (
        ("tiles", (1, 2, 5, 9, 33), {"kernel_shape": (2, 3, 3), "strides": (1, 2, 2), "pads": (1,) * 6}),
        ("dilated", (2, 1, 6, 7, 9), {"kernel_shape": (2, 2, 2), "dilations": (3, 2, 1)}),
        ("ceil", (1, 2, 5, 6, 7), {"kernel_shape": (2, 2, 2), "strides": (2, 2, 3), "ceil_mode": True}),
        ("empty", (0, 3, 4, 4, 4), {"kernel_shape": (2, 2, 2)}),
    ),
}


def _cases(dims, types, nmse, more=(), given=None):
    given = given or {}
    for name, shape, attrs in (*_CASES[dims], *more):
        yield Case(name, (("float32", shape),), given | attrs, nmse=nmse["float32"])
    for t in types[1:]:
        shape, kernel = (2, 3, *(5, 6, 7)[3 - dims :]), (2, 2, 3)[3 - dims :]
        yield Case(t, ((t, shape),), given | {"kernel_shape": kernel, "pads": (1,) * 2 * dims}, nmse=nmse[t])


def _flops(i, o, a):
    return o[0].size * math.prod(a["kernel_shape"])


def _window_op(op, doc, dims, allowed, reduce, cases, attrs=(), last=lambda a: 0):
    register(
        Op(
            op,
            doc,
            (1, 1),
            lambda i, a: [_infer(op, i[0], a, dims, allowed)],
            _pool(op, dims, allowed, reduce),
            _flops,
            attrs=(*_attrs(dims), *attrs),
            words=_words(dims, last),
            bodies={"cpu": Body(op, allowed, rules.by_dtype)},
            cases=tuple(cases),
        )
    )


_EXACT = dict.fromkeys(_MAX_TYPES, rules.EXACT)
_window_op(
    "max_pool3d",
    "greatest element of each window of a volume",
    3,
    _MAX_TYPES,
    lambda e, padded, a: e.max(axis=2),
    _cases(3, _MAX_TYPES, _EXACT),
)
_window_op(
    "avg_pool3d",
    "mean of each window of a volume",
    3,
    rules.FLOATS,
    lambda e, padded, a: e.sum(axis=2) / (padded if a["count_include_pad"] else e.shape[2]),
    _cases(
        3,
        rules.FLOATS,
        _NMSE,
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
    _cases(2, rules.FLOATS, _NMSE, (("cubes", (1, 2, 9, 9), {"kernel_shape": (3, 3), "p": 3.0}),)),
    (Attr("p", "float", 2.0, "the exponent"),),
    lambda a: rules.float_word(a["p"]),
)


# ---------------------------------------------------------------- where the maximum is


def _winners(x, attrs, out):
    """For each window: position of its greatest element in the plane [H*W]; [N, C, OH, OW]."""
    w = x.shape[3]
    found = np.zeros(out, np.int64)
    for at, (rows, columns), _ in _windows(x, attrs, out[2:]):
        flat = (rows[:, None] * w + columns).ravel()
        found[at] = flat[_elements(x, (rows, columns)).argmax(axis=2)]
    return found


def _indices_reference(arrays, attrs):
    (x,) = arrays
    out = _infer("max_pool2d_indices", TensorType(x.dtype.name, x.shape), attrs, 2, _MAX_TYPES).shape
    n, c, h, w = x.shape
    at = _winners(rules.wide(x), attrs, out)
    values = np.take_along_axis(x.reshape(n, c, h * w), at.reshape(n, c, out[2] * out[3]), 2).reshape(out)
    if attrs["storage_order"]:
        at = at % w * h + at // w
    return [values, at + (np.arange(n * c) * h * w).reshape(n, c, 1, 1)]


def _indices_infer(inputs, attrs):
    out = _infer("max_pool2d_indices", inputs[0], attrs, 2, _MAX_TYPES)
    return [out, TensorType("int64", out.shape)]


register(
    Op(
        "max_pool2d_indices",
        "greatest element of each window, and where it is in x",
        (1, 1),
        _indices_infer,
        _indices_reference,
        _flops,
        attrs=(
            *_attrs(2),
            Attr("storage_order", "int", 0, "indices count: 0 row by row, 1 column by column", (0, 1)),
        ),
        words=_words(2, lambda a: a["storage_order"]),
        bodies={"cpu": Body("max_pool2d_indices", _MAX_TYPES, rules.by_dtype)},
        cases=tuple(
            _cases(
                2,
                _MAX_TYPES,
                _EXACT,
                (("columns", (2, 2, 5, 7), {"kernel_shape": (2, 2), "storage_order": 1}),),
            )
        ),
    )
)


def _backward_infer(inputs, attrs):
    x, grad = inputs
    rules.one_dtype("max_pool2d_backward", inputs, rules.FLOATS)
    wanted = _infer("max_pool2d_backward", x, attrs, 2, rules.FLOATS).shape
    if grad.shape != wanted:
        text = f"input 1 (grad) must have the pool's shape {list(wanted)}, got {grad}"
        rules.fail("max_pool2d_backward", text, got=grad.shape, wanted=wanted)
    return [x]


def _backward(arrays, attrs):
    x, grad = arrays
    n, c = x.shape[:2]
    at = _winners(rules.wide(x), attrs, grad.shape).reshape(n * c, -1)
    out = np.zeros((n * c, x.shape[2] * x.shape[3]))
    np.add.at(out, (np.arange(n * c)[:, None], at), rules.wide(grad).reshape(n * c, -1))
    return [rules.narrow(out.reshape(x.shape), x.dtype.name)]


register(
    Op(
        "max_pool2d_backward",
        "gradient of max_pool2d by its input",
        (2, 2),
        _backward_infer,
        _backward,
        lambda i, o, a: _flops(i, i[1:], a),
        attrs=_attrs(2),
        words=_words(2, lambda a: 0),
        bodies={"cpu": Body("max_pool2d_backward", rules.FLOATS, rules.by_dtype)},
        cases=(
            Case(
                "halves",
                (("float32", (2, 3, 40, 6)), ("float32", (2, 3, 20, 3))),
                {"kernel_shape": (2, 2), "strides": (2, 2)},
                nmse=rules.ROUNDED,
            ),
            *(
                Case(
                    t,
                    ((t, (2, 3, 9, 33)), (t, (2, 3, 9, 33))),
                    {"kernel_shape": (3, 3), "pads": (1,) * 4},
                    make=("digits",),
                    nmse=_NMSE[t],
                )
                for t in rules.FLOATS
            ),
        ),
    )
)
