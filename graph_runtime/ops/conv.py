"""Convolution: conv2d on NCHW images with OIHW weights.

C contract (args: x [N,C,H,W], w [O,C/group,KH,KW], optional bias [O]; then y [N,O,OH,OW]; nargs tells).
Attribute words:
    conv2d    [0] stride_h [1] stride_w [2] pad_top [3] pad_left [4] pad_bottom [5] pad_right [6] dilation_h
    [7] dilation_w
              [8] group
y[n,o,i,j] = bias[o] + sum over c,p,q of w[o,c,p,q] * x[n, g*C/group + c, i*stride_h - pad_top + p*dilation_h,
j*...], where g = o / (O / group) and x is 0 outside of the image.
On tt it reads the words of numerics.py after these.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..graph import TensorType
from . import rules
from .linear import gemm_scratch
from .numerics import ATTRS, STREAM_DIRS
from .registry import Attr, Body, Case, Op, register

__all__ = ["window_count"]

_TYPES = (*rules.FLOATS, "int32")
_NMSE = rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}
_TYPED = {
    "float64": _NMSE | {"cpu": 1e-24},
    "float16": _NMSE | {"cpu": 1e-6},
    "bfloat16": _NMSE | {"cpu": 1e-4},
    "int32": _NMSE | {"cpu": 0.0},
}


def window_count(op: str, size: int, window: int, stride: int, pads: int, ceil_mode: bool, begin: int) -> int:
    """Windows of ``window`` elements along a dimension of ``size`` padded by ``pads`` in all (``begin`` of
    them in front).

    ONNX: with ceil_mode the last window may overhang, but never starts behind the image. Raises GraphError
    where none fits.
    """
    room = size + pads - window
    if room < 0 or window < 1:
        rules.fail(
            op, f"a window of {window} does not fit into {size} elements padded to {size + pads}", got=window
        )
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    return count - (ceil_mode and (count - 1) * stride >= size + begin)


def _infer(inputs, attrs):
    x, w = inputs[:2]
    dtype = rules.one_dtype("conv2d", inputs, _TYPES)
    rules.rank("conv2d", "input 0 (image)", x, 4, "N,C,H,W")
    rules.rank("conv2d", "input 1 (weight)", w, 4, "O,C/group,KH,KW")
    if not x.shape[2] * x.shape[3]:
        rules.fail("conv2d", f"the image {x} has no pixels", got=x.shape)
    strides = rules.limit("conv2d", "strides", attrs["strides"], 2, 1)
    pads = rules.limit("conv2d", "pads", attrs["pads"], 4, 0)
    dilations = rules.limit("conv2d", "dilations", attrs["dilations"], 2, 1)
    (group,) = rules.limit("conv2d", "group", (attrs["group"],), 1, 1)
    if x.shape[1] != w.shape[1] * group:
        rules.fail(
            "conv2d",
            f"the image {x} has {x.shape[1]} channels, but the weight {w} with group {group} needs "
            f"{w.shape[1] * group}",
            got=x.shape[1],
            wanted=w.shape[1] * group,
        )
    if w.shape[0] % group:
        rules.fail(
            "conv2d", f"{w.shape[0]} output channels cannot be split into {group} groups", got=w.shape[0]
        )
    if len(inputs) == 3 and inputs[2].shape != (w.shape[0],):
        rules.fail(
            "conv2d",
            f"bias must have shape [{w.shape[0]}] (O of the weight), got {inputs[2]}",
            got=inputs[2].shape,
            wanted=(w.shape[0],),
        )
    out = [
        window_count(
            "conv2d",
            x.shape[2 + d],
            (w.shape[2 + d] - 1) * dilations[d] + (w.shape[2 + d] > 0),
            strides[d],
            pads[d] + pads[d + 2],
            False,
            pads[d],
        )
        for d in (0, 1)
    ]
    return [TensorType(dtype, (x.shape[0], w.shape[0], *out))]


def _conv2d(arrays, attrs):
    x, w = (rules.wide(a) for a in arrays[:2])
    (top, left, bottom, right), group = attrs["pads"], attrs["group"]
    (dh, dw), (sh, sw) = attrs["dilations"], attrs["strides"]
    n, c = x.shape[:2]
    o, cg, kh, kw = w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(padded, ((kh - 1) * dh + 1, (kw - 1) * dw + 1), axis=(2, 3))
    windows = windows[:, :, ::sh, ::sw, ::dh, ::dw]
    windows = windows.reshape(n, group, c // group, *windows.shape[2:])
    y = np.einsum("ngchwpq,gocpq->ngohw", windows, w.reshape(group, o // group, cg, kh, kw), optimize=True)
    y = y.reshape(n, o, *y.shape[3:])
    if len(arrays) == 3:
        y = y + rules.wide(arrays[2])[:, None, None]
    return [rules.narrow(y, arrays[0].dtype.name)]


def _flops(i, o, a):
    return 2 * o[0].size * i[1].size // max(i[1].shape[0], 1) + (o[0].size if len(i) == 3 else 0)


def _scratch(i, o, a):
    out, c, kh, kw = i[1].shape
    return gemm_scratch(out // a["group"], o[0].shape[2] * o[0].shape[3], c * kh * kw, i[0].dtype)


def _words(i, o, a):
    return [*a["strides"], *a["pads"], *a["dilations"], a["group"]]


def _cases():
    for name, x, w, bias, attrs in (
        ("one", (1, 1, 1, 1), (1, 1, 1, 1), False, {}),
        ("digits", (2, 1, 8, 8), (16, 1, 3, 3), True, {"pads": (1, 1, 1, 1)}),
        ("same", (2, 5, 17, 33), (40, 5, 3, 3), True, {"pads": (1, 1, 1, 1)}),
        ("pointwise", (1, 33, 9, 9), (65, 33, 1, 1), False, {}),
        ("strided", (1, 3, 33, 31), (8, 3, 5, 3), True, {"strides": (2, 3), "pads": (2, 1, 0, 3)}),
        ("dilated", (1, 4, 20, 21), (6, 4, 3, 3), False, {"dilations": (2, 3), "pads": (2, 3, 2, 3)}),
        ("grouped", (2, 12, 10, 11), (18, 4, 3, 2), True, {"group": 3, "pads": (0, 1, 1, 0)}),
        (
            "depthwise",
            (1, 40, 12, 13),
            (40, 1, 3, 3),
            True,
            {"group": 40, "pads": (1, 1, 1, 1), "strides": (2, 1)},
        ),
        ("depthwise_double", (1, 6, 7, 7), (12, 1, 3, 3), False, {"group": 6}),
        ("whole_image", (3, 2, 6, 5), (4, 2, 6, 5), True, {}),
        ("all_padding", (1, 2, 2, 2), (3, 2, 2, 2), True, {"pads": (3, 3, 3, 3), "strides": (3, 3)}),
        ("empty", (0, 2, 5, 5), (3, 2, 3, 3), True, {}),
    ):
        tail = (("float32", w[:1]),) if bias else ()
        yield Case(name, (("float32", x), ("float32", w), *tail), attrs, nmse=_NMSE)
    for t in _TYPES[1:]:
        yield Case(
            t,
            ((t, (1, 4, 9, 10)), (t, (6, 2, 3, 3)), (t, (6,))),
            {"group": 2, "pads": (1, 1, 1, 1)},
            nmse=_TYPED[t],
        )


register(
    Op(
        "conv2d",
        "2-d convolution, NCHW and OIHW",
        (2, 3),
        _infer,
        _conv2d,
        _flops,
        words=_words,
        attrs=(
            Attr("strides", "ints", (1, 1), "step of the window: height, width"),
            Attr("pads", "ints", (0, 0, 0, 0), "zeros around the image: top, left, bottom, right"),
            Attr(
                "dilations", "ints", (1, 1), "distance of the weight's elements in the image: height, width"
            ),
            Attr("group", "int", 1, "channels are split into so many groups, each convolved alone"),
            *ATTRS,
            STREAM_DIRS,
        ),
        bodies={
            "cpu": Body("conv2d", _TYPES, rules.by_dtype, scratch=_scratch),
            "tt": Body("conv2d", rules.TT_FLOATS, numerics=True),
        },
        cases=tuple(_cases()),
    )
)
