"""max_pool2d_indices: max_pool2d with the positions of its maxima; max_pool2d_argmax: the positions alone;
max_pool2d_backward: the gradient of max_pool2d.

C contract: the words of windows.py.
    max_pool2d_indices     args x, values, indices (int64 or int32; tt has int32 only). Indices count from the
                           beginning of x, row-major; with storage_order 1 H runs fastest
    max_pool2d_argmax      args x, indices, which count from the beginning of a plane, row by row
    max_pool2d_backward    args x, grad (of the pool's output), out, which has x's shape: each value of grad
                           is added to the element of out from which its window took the maximum
If a window has several greatest elements, the first one counts; if it has several NaN, the last one, as in
torch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph import TensorType
from .. import indices, rules
from ..cases import case, per_dtype
from ..registry import Attr, define
from .windows import (
    MAX_TYPES,
    TT_MAX_TYPES,
    elements_of,
    pool_attrs,
    pooled,
    window_cases,
    window_flops,
    window_words,
    windows_of,
)


def _winners(x, attrs, out):
    """[N, C, OH, OW]: for each window the position of its greatest element in the plane [H*W]."""
    w = x.shape[3]
    found = np.zeros(out, np.int64)
    for at, (rows, columns), _ in windows_of(x, attrs, out[2:]):
        flat = (rows[:, None] * w + columns).ravel()
        values = elements_of(x, (rows, columns))
        nan, last = np.isnan(values), values.shape[2] - 1
        found[at] = flat[np.where(nan.any(2), last - nan[..., ::-1].argmax(2), values.argmax(2))]
    return found


def _indices_reference(arrays, attrs):
    (x,) = arrays
    out = pooled("max_pool2d_indices", TensorType(x.dtype.name, x.shape), attrs, 2, MAX_TYPES).shape
    n, c, h, w = x.shape
    at = _winners(rules.wide(x), attrs, out)
    values = np.take_along_axis(x.reshape(n, c, h * w), at.reshape(n, c, out[2] * out[3]), 2).reshape(out)
    if attrs["storage_order"]:
        at = at % w * h + at // w
    at = at + (np.arange(n * c) * h * w).reshape(n, c, 1, 1)
    return [values, at.astype(attrs["dtype"])]


def _indices_infer(inputs, attrs):
    out = pooled("max_pool2d_indices", inputs[0], attrs, 2, MAX_TYPES)
    if attrs["dtype"] == "int32" and inputs[0].size > 2**31:
        text = f"int32 cannot count the elements of {inputs[0]}"
        rules.fail("max_pool2d_indices", text, got=inputs[0].shape)
    return [out, TensorType(attrs["dtype"], out.shape)]


def _indices_cases():
    """Cases of max_pool2d_indices, each with both dtypes of indices."""
    columns = ("columns", (2, 2, 5, 7), {"kernel_shape": (2, 2), "storage_order": 1})
    for each in window_cases(2, MAX_TYPES, rules.MOVED, (columns,)):
        yield each
        yield replace(each, name=f"{each.name}_int32", attrs=each.attrs | {"dtype": "int32"})


define(
    "max_pool2d_indices",
    "greatest element of each window, and its index in x",
    (1, 1),
    _indices_infer,
    _indices_reference,
    window_flops,
    attrs=(
        *pool_attrs(2),
        Attr("storage_order", "int", 0, "indices count: 0 row by row, 1 column by column", (0, 1)),
        indices.INDEX,
    ),
    words=window_words(2, lambda a: a["storage_order"]),
    bodies=rules.bodies("max_pool2d_indices", MAX_TYPES, TT_MAX_TYPES, accepts=indices.narrow_found),
    kind="windows",
    parts="volume_pool",
    walk="volume",
    cases=tuple(_indices_cases()),
)


def _argmax_infer(inputs, attrs):
    out = pooled("max_pool2d_argmax", inputs[0], attrs, 2, MAX_TYPES)
    return [TensorType(attrs["dtype"], out.shape)]


def _argmax_reference(arrays, attrs):
    (x,) = arrays
    out = _argmax_infer([TensorType(x.dtype.name, x.shape)], attrs)[0]
    return [_winners(rules.wide(x), attrs, out.shape).astype(attrs["dtype"])]


define(
    "max_pool2d_argmax",
    "index of the greatest element of each window in its plane",
    (1, 1),
    _argmax_infer,
    _argmax_reference,
    window_flops,
    attrs=(*pool_attrs(2), indices.INDEX),
    words=window_words(2, lambda a: 0),
    bodies=rules.bodies("max_pool2d_argmax", MAX_TYPES, TT_MAX_TYPES, accepts=indices.narrow_found),
    kind="windows",
    parts="volume_pool",
    walk="volume",
    cases=tuple(
        replace(each, name=f"{each.name}_{t}", attrs=each.attrs | {"dtype": t}, make=("digits",))
        for each in window_cases(2, MAX_TYPES, rules.EXACT)
        for t in ("int64", "int32")
    ),
)


def _backward_infer(inputs, attrs):
    x, grad = inputs
    rules.one_dtype("max_pool2d_backward", inputs, rules.FLOATS)
    wanted = pooled("max_pool2d_backward", x, attrs, 2, rules.FLOATS).shape
    rules.shape("max_pool2d_backward", "input 1 (grad)", grad, wanted, "the pool's shape")
    return [x]


def _backward(arrays, attrs):
    x, grad = arrays
    n, c = x.shape[:2]
    at = _winners(rules.wide(x), attrs, grad.shape).reshape(n * c, -1)
    out = np.zeros((n * c, x.shape[2] * x.shape[3]))
    np.add.at(out, (np.arange(n * c)[:, None], at), rules.wide(grad).reshape(n * c, -1))
    return [rules.narrow(out.reshape(x.shape), x.dtype.name)]


_HALVES = {"kernel_shape": (2, 2), "strides": (2, 2)}
_SAME = (2, 3, 9, 33), (2, 3, 9, 33), {"kernel_shape": (3, 3), "pads": (1,) * 4}

define(
    "max_pool2d_backward",
    "gradient of max_pool2d by its input",
    (2, 2),
    _backward_infer,
    _backward,
    lambda i, o, a: window_flops(i, i[1:], a),
    attrs=pool_attrs(2),
    words=window_words(2, lambda a: 0),
    bodies=rules.bodies("max_pool2d_backward", rules.FLOATS, rules.TT_FLOATS),
    kind="windows",
    parts="whole",
    cases=(
        case("halves", (2, 3, 40, 6), (2, 3, 20, 3), _HALVES, nmse=rules.ROUNDED),
        *per_dtype(rules.FLOATS, *_SAME, make=("digits",), nmse=rules.SUMMED),
    ),
)
