"""Convolutions other than conv2d: conv3d, conv_transpose2d, conv2d_backward_weight.

C contract. Attribute words:
    conv3d                   args x [N,C,D,H,W], w [O,C/group,KD,KH,KW], optional bias [O], y
                             [0 .. 2] strides [3 .. 5] pads in front [6 .. 8] dilations [9] group
    conv_transpose2d         args x [N,C,H,W], w [C,O/group,KH,KW], optional bias [O], y
                             [0] [1] strides [2] [3] pads top, left [4] [5] dilations [6] group
    conv2d_backward_weight   args x [N,C,H,W], grad [N,O,OH,OW], dw [O,C/group,KH,KW]
                             [0] [1] strides [2] [3] pads top, left [4] [5] dilations [6] group
In conv_transpose2d each element of x adds x * w to the window of y that begins at i * stride - pad. The op is
the gradient of conv2d with respect to its input, and conv2d_backward_weight the gradient with respect to its
weight.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import case, per_dtype
from ..registry import REQUIRED, Attr, define
from ..window_rules import GROUP, check_groups, check_window, window_attrs, window_sizes
from ..work import Product, Work, with_bias

_NMSE = rules.SUMMED | {"float32": rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}}


def _check_channels(op, x, has, wanted, what):
    if has != wanted:
        rules.fail(op, f"{x} has {has} channels, but {what} needs {wanted}", got=has, wanted=wanted)


def _register(op, doc, arity, infer, reference, flops, attrs, words, cases, **traits):
    define(
        op,
        doc,
        arity,
        infer,
        reference,
        flops,
        attrs=attrs,
        words=words,
        bodies=rules.bodies(op, rules.FLOATS, rules.TT_FLOATS),
        pace={"cpu": "simple"},
        cases=tuple(cases),
        **traits,
    )


# ---------------------------------------------------------------- conv3d


def _conv3d_infer(inputs, attrs):
    x, w = inputs[:2]
    dtype = rules.one_dtype("conv3d", inputs, rules.FLOATS)
    rules.rank("conv3d", "input 0 (volume)", x, 5, "N,C,D,H,W")
    rules.rank("conv3d", "input 1 (weight)", w, 5, "O,C/group,KD,KH,KW")
    (group,) = rules.limit("conv3d", "group", (attrs["group"],), 1, 1)
    check_window("conv3d", attrs, 3)
    _check_channels("conv3d", x, x.shape[1], w.shape[1] * group, f"the weight {w} with group {group}")
    check_groups("conv3d", "output channels", w.shape[0], group)
    if len(inputs) == 3:
        rules.shape("conv3d", "bias", inputs[2], w.shape[:1], "output channels")
    out = window_sizes("conv3d", x.shape[2:], w.shape[2:], attrs)
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
        yield case(name, x, w, *((w[:1],) if bias else ()), attrs, nmse=_NMSE)
    yield from per_dtype(rules.FLOATS[1:], (1, 2, 4, 5, 6), (3, 2, 2, 3, 3), (3,), nmse=_NMSE)


def _conv3d_work(i, o, a):
    """The work of a product over channels and taps, with groups as in conv2d."""
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
    (*window_attrs(3, "zeros"), GROUP),
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
    (group,) = rules.limit(op, "group", (attrs["group"],), 1, 1)
    check_window(op, attrs, 2)
    strides, pads, dilations = (attrs[name] for name in ("strides", "pads", "dilations"))
    more = rules.limit(op, "output_padding", attrs["output_padding"], 2, 0)
    _check_channels(op, x, x.shape[1], w.shape[0], f"the weight {w}")
    check_groups(op, "channels", x.shape[1], group)
    if len(inputs) == 3:
        rules.shape(op, "bias", inputs[2], (w.shape[1] * group,), "output channels")
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
    """The work of the convolution that maps the result to x."""
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
        tail = ((w[1] * attrs.get("group", 1),),) if bias else ()
        yield case(name, x, w, *tail, attrs, nmse=_NMSE)
    row = (1, 3, 5, 6), (3, 4, 3, 3), (4,), {"strides": (2, 2)}
    yield from per_dtype(rules.FLOATS[1:], *row, nmse=_NMSE)


_register(
    "conv_transpose2d",
    "transposed 2-d convolution, NCHW; the gradient of conv2d by its input",
    (2, 3),
    _transpose_infer,
    _transpose,
    lambda i, o, a: 2 * i[0].size * math.prod(i[1].shape[1:]),
    (
        *window_attrs(2, "zeros"),
        GROUP,
        Attr("output_padding", "ints", (0, 0), "rows and columns added at the end of the result"),
    ),
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
    (group,) = rules.limit(op, "group", (attrs["group"],), 1, 1)
    check_window(op, attrs, 2)
    check_groups(op, "channels", x.shape[1], group)
    out = window_sizes(op, x.shape[2:], kernel, attrs)
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
    """The work of one product over all pixels."""
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
        yield case(name, x, grad, attrs, nmse=_NMSE)
    yield from per_dtype(rules.FLOATS[1:], (2, 2, 5, 6), (2, 3, 4, 5), {"kernel_shape": (2, 2)}, nmse=_NMSE)


_register(
    "conv2d_backward_weight",
    "gradient of conv2d by its weight",
    (2, 2),
    _weight_infer,
    _weight,
    lambda i, o, a: 2 * i[1].size * math.prod(o[0].shape[1:]),
    (
        Attr("kernel_shape", "ints", REQUIRED, "height and width of the weight"),
        *window_attrs(2, "zeros"),
        GROUP,
    ),
    lambda i, o, a: [*a["strides"], *a["pads"][:2], *a["dilations"], a["group"]],
    _weight_cases(),
    work=_weight_work,
    parts="pixels",
)
