"""max_pool2d with the positions of its maxima, these alone, and its gradient: max_pool2d_indices
max_pool2d_argmax max_pool2d_backward.

C contract: the words of windows.py.
    max_pool2d_indices     args x, values, indices (int64 or int32, which tt has alone), which count from the
                           beginning of x, row-major, or with storage_order 1 with H running fastest
    max_pool2d_argmax      args x, indices, which count from the beginning of a plane, row by row
    max_pool2d_backward    args x, grad (of the pool's output), out: each value of grad is added to that one
                           of out, which has x's shape, that its window took
Where several elements of a window are greatest the first one is meant; where some are NaN, the last of
these, as torch has it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph import TensorType
from .. import indices, rules
from ..registry import Attr, Body, Case, Op, register
from .windows import (
    MAX_TYPES,
    TT_MAX_TYPES,
    elements_of,
    pooled,
    window_attrs,
    window_cases,
    window_flops,
    window_words,
    windows_of,
)


def _winners(x, attrs, out):
    """For each window: position of its greatest element in the plane [H*W]; [N, C, OH, OW]."""
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
        rules.fail(
            "max_pool2d_indices", f"int32 cannot count the elements of {inputs[0]}", got=inputs[0].shape
        )
    return [out, TensorType(attrs["dtype"], out.shape)]


def _indices_cases():
    """Each with both kinds of indices."""
    columns = ("columns", (2, 2, 5, 7), {"kernel_shape": (2, 2), "storage_order": 1})
    for case in window_cases(2, MAX_TYPES, dict.fromkeys(MAX_TYPES, rules.MOVED), (columns,)):
        yield case
        yield replace(case, name=f"{case.name}_int32", attrs=case.attrs | {"dtype": "int32"})


register(
    Op(
        "max_pool2d_indices",
        "greatest element of each window, and where it is in x",
        (1, 1),
        _indices_infer,
        _indices_reference,
        window_flops,
        attrs=(
            *window_attrs(2),
            Attr("storage_order", "int", 0, "indices count: 0 row by row, 1 column by column", (0, 1)),
            indices.INDEX,
        ),
        words=window_words(2, lambda a: a["storage_order"]),
        bodies={
            "cpu": Body("max_pool2d_indices", MAX_TYPES, rules.by_dtype),
            "tt": Body("max_pool2d_indices", TT_MAX_TYPES, accepts=indices.narrow_found),
        },
        kind="windows",
        parts="volume_pool",
        walk="volume",
        cases=tuple(_indices_cases()),
    )
)


def _argmax_infer(inputs, attrs):
    out = pooled("max_pool2d_argmax", inputs[0], attrs, 2, MAX_TYPES)
    return [TensorType(attrs["dtype"], out.shape)]


def _argmax_reference(arrays, attrs):
    (x,) = arrays
    out = _argmax_infer([TensorType(x.dtype.name, x.shape)], attrs)[0]
    return [_winners(rules.wide(x), attrs, out.shape).astype(attrs["dtype"])]


register(
    Op(
        "max_pool2d_argmax",
        "where in its plane the greatest element of each window is",
        (1, 1),
        _argmax_infer,
        _argmax_reference,
        window_flops,
        attrs=(*window_attrs(2), indices.INDEX),
        words=window_words(2, lambda a: 0),
        bodies={
            "cpu": Body("max_pool2d_argmax", MAX_TYPES, rules.by_dtype),
            "tt": Body("max_pool2d_argmax", TT_MAX_TYPES, accepts=indices.narrow_found),
        },
        kind="windows",
        parts="volume_pool",
        walk="volume",
        cases=tuple(
            replace(
                case,
                name=f"{case.name}_{t}",
                attrs=case.attrs | {"dtype": t},
                make=("digits",),
                nmse=rules.EXACT,
            )
            for case in window_cases(2, MAX_TYPES, dict.fromkeys(MAX_TYPES, rules.EXACT))
            for t in ("int64", "int32")
        ),
    )
)


def _backward_infer(inputs, attrs):
    x, grad = inputs
    rules.one_dtype("max_pool2d_backward", inputs, rules.FLOATS)
    wanted = pooled("max_pool2d_backward", x, attrs, 2, rules.FLOATS).shape
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
        lambda i, o, a: window_flops(i, i[1:], a),
        attrs=window_attrs(2),
        words=window_words(2, lambda a: 0),
        bodies={
            "cpu": Body("max_pool2d_backward", rules.FLOATS, rules.by_dtype),
            "tt": Body("max_pool2d_backward", rules.TT_FLOATS),
        },
        kind="windows",
        parts="whole",
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
                    nmse=rules.SUMMED[t],
                )
                for t in rules.FLOATS
            ),
        ),
    )
)
