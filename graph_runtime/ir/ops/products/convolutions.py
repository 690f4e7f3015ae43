"""Convolutions beside conv2d: conv3d, conv_transpose2d, conv2d_backward_weight.

C contract. Attribute words:
    conv3d                   args x [N,C,D,H,W], w [O,C/group,KD,KH,KW], optional bias [O], y
                             [0 .. 2] strides [3 .. 5] pads in front [6 .. 8] dilations [9] group
    conv_transpose2d         args x [N,C,H,W], w [C,O/group,KH,KW], optional bias [O], y
                             [0] [1] strides [2] [3] pads top, left [4] [5] dilations [6] group
    conv2d_backward_weight   args x [N,C,H,W], grad [N,O,OH,OW], dw [O,C/group,KH,KW]
                             [0] [1] strides [2] [3] pads top, left [4] [5] dilations [6] group
conv_transpose2d: each element of x adds w times itself to the window of y that begins at i * stride - pad;
it is the gradient of conv2d by its input. conv2d_backward_weight is the gradient of conv2d by its weight.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...graph import TensorType
from .. import rules
from ..registry import REQUIRED, Attr, Body, Case, Op, register
from ..work import Product, Work, with_bias
from .conv import window_count

_NMSE = rules.SUMMED | {"float32": rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}}


def _attrs(dims: int, *more: Attr) -> tuple[Attr, ...]:
    sides = "height, width" if dims == 2 else "depth, height, width"
    return (
        Attr("strides", "ints", (1,) * dims, f"step of the window: {sides}"),
        Attr("pads", "ints", (0,) * 2 * dims, "zeros before each dimension, then after each"),
        Attr("dilations", "ints", (1,) * dims, f"distance of the weight's elements: {sides}"),
        Attr("group", "int", 1, "channels are split into so many groups, each convolved alone"),
        *more,
    )


def _checked(op, attrs, dims):
    """strides, pads, dilations, group of attributes that are right."""
    return (
        rules.limit(op, "strides", attrs["strides"], dims, 1),
        rules.limit(op, "pads", attrs["pads"], 2 * dims, 0),
        rules.limit(op, "dilations", attrs["dilations"], dims, 1),
        *rules.limit(op, "group", (attrs["group"],), 1, 1),
    )


def _check_channels(op, x, has, wanted, what):
    if has != wanted:
        rules.fail(op, f"{x} has {has} channels, but {what} needs {wanted}", got=has, wanted=wanted)


def _check_bias(op, inputs, channels):
    if len(inputs) == 3 and inputs[2].shape != (channels,):
        text = f"bias must have shape [{channels}] (output channels), got {inputs[2]}"
        rules.fail(op, text, got=inputs[2].shape, wanted=(channels,))


def _register(op, doc, arity, infer, reference, flops, attrs, words, cases, **traits):
    register(
        Op(
            op,
            doc,
            arity,
            infer,
            reference,
            flops,
            attrs=attrs,
            words=words,
            bodies={"cpu": Body(op, rules.FLOATS, rules.by_dtype), "tt": Body(op, rules.TT_FLOATS)},
            pace={"cpu": "simple"},
            cases=tuple(cases),
            **traits,
        )
    )


# ---------------------------------------------------------------- conv3d


def _conv3d_infer(inputs, attrs):
    x, w = inputs[:2]
    dtype = rules.one_dtype("conv3d", inputs, rules.FLOATS)
    rules.rank("conv3d", "input 0 (volume)", x, 5, "N,C,D,H,W")
    rules.rank("conv3d", "input 1 (weight)", w, 5, "O,C/group,KD,KH,KW")
    strides, pads, dilations, group = _checked("conv3d", attrs, 3)
    _check_channels("conv3d", x, x.shape[1], w.shape[1] * group, f"the weight {w} with group {group}")
    if w.shape[0] % group:
        rules.fail("conv3d", f"{w.shape[0]} output channels cannot be split into {group} groups", got=group)
    _check_bias("conv3d", inputs, w.shape[0])
    out = [
        window_count(
            "conv3d", n, (k - 1) * dilations[d] + (k > 0), strides[d], pads[d] + pads[d + 3], False, pads[d]
        )
        for d, (n, k) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True))
    ]
    return [TensorType(dtype, (x.shape[0], w.shape[0], *out))]


def _conv3d(arrays, attrs):
    x, w = (rules.wide(a) for a in arrays[:2])
    types = [TensorType(arrays[0].dtype.name, a.shape) for a in arrays]
    shape, group = _conv3d_infer(types, attrs)[0].shape, attrs["group"]
    pads, strides, dilations = attrs["pads"], attrs["strides"], attrs["dilations"]
    padded = np.pad(x, ((0, 0), (0, 0), *zip(pads[:3], pads[3:], strict=True)))
    y = np.zeros((shape[0], group, shape[1] // group, *shape[2:]))
    grouped = w.reshape(group, shape[1] // group, *w.shape[1:])
    for tap in itertools.product(*map(range, w.shape[2:])):
        cut = tuple(
            slice(t * dil, t * dil + (n - 1) * s + 1, s)
            for t, dil, n, s in zip(tap, dilations, shape[2:], strides, strict=True)
        )
        part = padded[:, :, *cut].reshape(shape[0], group, w.shape[1], *shape[2:])
        weight: Any = (..., *tap)
        y += np.einsum("ngcdhw,goc->ngodhw", part, grouped[weight])
    y = y.reshape(shape)
    if len(arrays) == 3:
        y = y + rules.wide(arrays[2])[:, None, None, None]
    return [rules.narrow(y, arrays[0].dtype.name)]


def _conv3d_cases():
    for name, x, w, bias, attrs in (
        ("same", (1, 3, 5, 9, 33), (4, 3, 3, 3, 3), True, {"pads": (1,) * 6}),
        ("strided", (2, 2, 6, 7, 35), (3, 2, 2, 3, 2), False, {"strides": (2, 1, 3)}),
        ("grouped", (1, 4, 5, 6, 7), (6, 2, 2, 2, 2), True, {"group": 2, "dilations": (2, 1, 3)}),
        ("empty", (0, 2, 4, 4, 4), (3, 2, 3, 3, 3), False, {}),
    ):
        tail = (("float32", w[:1]),) if bias else ()
        yield Case(name, (("float32", x), ("float32", w), *tail), attrs, nmse=_NMSE["float32"])
    for t in rules.FLOATS[1:]:
        yield Case(t, ((t, (1, 2, 4, 5, 6)), (t, (3, 2, 2, 3, 3)), (t, (3,))), nmse=_NMSE[t])


def _conv3d_work(i, o, a):
    """A product over channels and taps; groups as conv2d's."""
    x, w = i[0].shape, i[1].shape
    taps = math.prod(w[2:])
    product = Product(1, math.prod(o[0].shape) // max(w[0], 1), x[1] * taps, w[0], gathered=taps > 1)
    return with_bias(product, o[0], len(i) == 3)


_register(
    "conv3d",
    "3-d convolution, NCDHW and OIDHW",
    (2, 3),
    _conv3d_infer,
    _conv3d,
    lambda i, o, a: 2 * o[0].size * i[1].size // max(i[1].shape[0], 1),
    _attrs(3),
    lambda i, o, a: [*a["strides"], *a["pads"][:3], *a["dilations"], a["group"]],
    _conv3d_cases(),
    work=_conv3d_work,
    parts="taps",
)


# ---------------------------------------------------------------- conv_transpose2d


def _transpose_infer(inputs, attrs):
    op, (x, w) = "conv_transpose2d", inputs[:2]
    dtype = rules.one_dtype(op, inputs, rules.FLOATS)
    rules.rank(op, "input 0 (image)", x, 4, "N,C,H,W")
    rules.rank(op, "input 1 (weight)", w, 4, "C,O/group,KH,KW")
    strides, pads, dilations, group = _checked(op, attrs, 2)
    more = rules.limit(op, "output_padding", attrs["output_padding"], 2, 0)
    _check_channels(op, x, x.shape[1], w.shape[0], f"the weight {w}")
    if x.shape[1] % group:
        rules.fail(op, f"{x.shape[1]} channels cannot be split into {group} groups", got=group)
    _check_bias(op, inputs, w.shape[1] * group)
    out = []
    for d in (0, 1):
        size = (x.shape[2 + d] - 1) * strides[d] + (w.shape[2 + d] - 1) * dilations[d] + 1 + more[d]
        size -= pads[d] + pads[d + 2]
        if size < 1 or not x.shape[2 + d] * w.shape[2 + d]:
            rules.fail(op, f"pads {list(pads)} leave {size} of dimension {2 + d} of the result", got=pads)
        out.append(size)
    return [TensorType(dtype, (x.shape[0], w.shape[1] * group, *out))]


def _transpose(arrays, attrs):
    x, w = (rules.wide(a) for a in arrays[:2])
    types = [TensorType(arrays[0].dtype.name, a.shape) for a in arrays]
    n, o, oh, ow = _transpose_infer(types, attrs)[0].shape
    (sh, sw), (dh, dw), group = attrs["strides"], attrs["dilations"], attrs["group"]
    top, left, bottom, right = attrs["pads"]
    c, per_group, kh, kw = w.shape
    h, wide = x.shape[2:]
    full = np.zeros((n, o, oh + top + bottom, ow + left + right))
    parts = x.reshape(n, group, c // group, h, wide)
    for p, q in itertools.product(range(kh), range(kw)):
        tap = w[:, :, p, q].reshape(group, c // group, per_group)
        made = np.einsum("ngchw,gco->ngohw", parts, tap).reshape(n, o, h, wide)
        rows = slice(p * dh, p * dh + (h - 1) * sh + 1, sh)
        full[:, :, rows, q * dw : q * dw + (wide - 1) * sw + 1 : sw] += made
    y = full[:, :, top : top + oh, left : left + ow]
    if len(arrays) == 3:
        y = y + rules.wide(arrays[2])[:, None, None]
    return [rules.narrow(y, arrays[0].dtype.name)]


def _transpose_work(i, o, a):
    """The convolution of its input."""
    x, w = i[0].shape, i[1].shape
    return Work(Product(1, math.prod(x) // x[1], x[1], math.prod(w[1:]), gathered=True))


def _transpose_cases():
    cases: Any = (
        ("same", (2, 5, 9, 33), (5, 4, 3, 3), True, {"pads": (1,) * 4}),
        ("strided", (1, 3, 7, 35), (3, 4, 3, 2), False, {"strides": (2, 3), "pads": (1, 0, 0, 1)}),
        ("grouped", (1, 6, 5, 40), (6, 2, 3, 3), True, {"group": 3, "dilations": (2, 2), "strides": (2, 1)}),
        ("longer", (1, 2, 4, 5), (2, 3, 2, 2), False, {"strides": (3, 4), "output_padding": (2, 3)}),
        ("few_pixels", (5, 19, 2, 2), (19, 7, 3, 3), True, {"pads": (1,) * 4}),
        ("taps", (3, 3, 4, 3), (3, 5, 5, 3), False, {"strides": (2, 1), "pads": (2, 1, 2, 1)}),
        ("empty", (0, 2, 4, 5), (2, 3, 2, 2), True, {}),
    )
    for name, x, w, bias, attrs in cases:
        tail = (("float32", (w[1] * attrs.get("group", 1),)),) if bias else ()
        yield Case(name, (("float32", x), ("float32", w), *tail), attrs, nmse=_NMSE["float32"])
    for t in rules.FLOATS[1:]:
        yield Case(t, ((t, (1, 3, 5, 6)), (t, (3, 4, 3, 3)), (t, (4,))), {"strides": (2, 2)}, nmse=_NMSE[t])


_register(
    "conv_transpose2d",
    "transposed 2-d convolution, NCHW; the gradient of conv2d by its input",
    (2, 3),
    _transpose_infer,
    _transpose,
    lambda i, o, a: 2 * i[0].size * math.prod(i[1].shape[1:]),
    _attrs(2, Attr("output_padding", "ints", (0, 0), "rows and columns added at the end of the result")),
    lambda i, o, a: [*a["strides"], *a["pads"][:2], *a["dilations"], a["group"]],
    _transpose_cases(),
    work=_transpose_work,
    parts="taps",
)


# ---------------------------------------------------------------- conv2d_backward_weight


def _weight_infer(inputs, attrs):
    op, (x, grad) = "conv2d_backward_weight", inputs
    dtype = rules.one_dtype(op, inputs, rules.FLOATS)
    rules.rank(op, "input 0 (image)", x, 4, "N,C,H,W")
    kernel = rules.limit(op, "kernel_shape", attrs["kernel_shape"], 2, 1)
    strides, pads, dilations, group = _checked(op, attrs, 2)
    if x.shape[1] % group:
        rules.fail(op, f"{x.shape[1]} channels cannot be split into {group} groups", got=group)
    out = [
        window_count(
            op, x.shape[2 + d], (k - 1) * dilations[d] + 1, strides[d], pads[d] + pads[d + 2], False, pads[d]
        )
        for d, k in enumerate(kernel)
    ]
    fits = len(grad.shape) == 4 and (grad.shape[0], *grad.shape[2:]) == (x.shape[0], *out)
    if not fits or grad.shape[1] % group:
        wanted = f"[{x.shape[0]},O,{out[0]},{out[1]}], O a multiple of {group}"
        rules.fail(op, f"input 1 (grad) must be {wanted}, got {grad}", got=grad.shape)
    return [TensorType(dtype, (grad.shape[1], x.shape[1] // group, *kernel))]


def _weight(arrays, attrs):
    x, grad = (rules.wide(a) for a in arrays)
    (sh, sw), (dh, dw), group = attrs["strides"], attrs["dilations"], attrs["group"]
    top, left, bottom, right = attrs["pads"]
    n, o, oh, ow = grad.shape
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    grouped = grad.reshape(n, group, o // group, oh, ow)
    out = np.zeros((o, x.shape[1] // group, *attrs["kernel_shape"]))
    for p, q in itertools.product(*map(range, attrs["kernel_shape"])):
        cut = padded[:, :, p * dh : p * dh + (oh - 1) * sh + 1 : sh, q * dw : q * dw + (ow - 1) * sw + 1 : sw]
        cut = cut.reshape(n, group, x.shape[1] // group, oh, ow)
        out[:, :, p, q] = np.einsum("ngchw,ngohw->goc", cut, grouped).reshape(o, -1)
    return [rules.narrow(out, arrays[0].dtype.name)]


def _weight_work(i, o, a):
    """One product over all pixels."""
    grad, made = i[1].shape, o[0].shape
    return Work(Product(1, made[0], math.prod(grad) // grad[1], math.prod(made[1:]), gathered=True))


def _weight_cases():
    for name, x, grad, attrs in (
        ("same", (2, 3, 9, 33), (2, 4, 9, 33), {"kernel_shape": (3, 3), "pads": (1,) * 4}),
        ("strided", (1, 2, 9, 35), (1, 3, 4, 11), {"kernel_shape": (3, 5), "strides": (2, 3)}),
        ("grouped", (2, 6, 7, 40), (2, 3, 5, 40), {"kernel_shape": (3, 1), "group": 3}),
        ("dilated", (1, 2, 9, 9), (1, 2, 5, 5), {"kernel_shape": (3, 3), "dilations": (2, 2)}),
        ("few_pixels", (5, 19, 2, 2), (5, 7, 2, 2), {"kernel_shape": (3, 3), "pads": (1,) * 4}),
    ):
        yield Case(name, (("float32", x), ("float32", grad)), attrs, nmse=_NMSE["float32"])
    for t in rules.FLOATS[1:]:
        yield Case(t, ((t, (2, 2, 5, 6)), (t, (2, 3, 4, 5))), {"kernel_shape": (2, 2)}, nmse=_NMSE[t])


_register(
    "conv2d_backward_weight",
    "gradient of conv2d by its weight",
    (2, 2),
    _weight_infer,
    _weight,
    lambda i, o, a: 2 * i[1].size * math.prod(o[0].shape[1:]),
    (Attr("kernel_shape", "ints", REQUIRED, "height and width of the weight"), *_attrs(2)),
    lambda i, o, a: [*a["strides"], *a["pads"][:2], *a["dilations"], a["group"]],
    _weight_cases(),
    work=_weight_work,
    parts="pixels",
)
