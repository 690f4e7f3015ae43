"""Convolution: conv2d on NCHW images with OIHW weights, or on NHWC images with weights in panels (cpu).

C contract (args: x [N,C,H,W], w [O,C/group,KH,KW], optional bias [O], inputs of the epilogue; then y
[N,O,OH,OW]). Attribute words:
    conv2d    [0] stride_h [1] stride_w [2] pad_top [3] pad_left [4] pad_bottom [5] pad_right
              [6] dilation_h [7] dilation_w [8] group; with NHWC also [9] kernel_h [10] kernel_w;
              then the words of the epilogue (steps.py), and on tt those of numerics.py
y[n,o,i,j] = bias[o] + sum over c,p,q of w[o,c,p,q] * x[n, g*C/group + c, i*stride_h - pad_top + p*dilation_h,
j*...], where g = o / (O / group) and x is 0 outside of the image.

With NHWC, x and y are [N,H,W,C], and w is in panels (packed.py). A panel's k is (kernel_h, kernel_w,
channels); the channels are those of a column's own group if these are few (is_narrow), else those of all
groups that share the panel (bundle_of). With one group panels, x and y may be bfloat16 (halves.py).
With winograd=1 the panels have one tap for each of the 36 places of a tile (winograd.py).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...graph import TensorType
from .. import rules
from ..cases import case, per_dtype
from ..epilogue import own_inputs, register_product
from ..numerics import ATTRS, STREAM_DIRS
from ..registry import Attr, Body, Op
from ..rules import SUMMED_IN, product_dtype, refuse_packed
from ..window_rules import GROUP, check_groups, check_window, window_attrs, window_sizes
from ..work import Product, with_bias
from .dense import gemm_scratch
from .halves import half_cases, in_float32, refuse_halves
from .packed import (
    PAIRED,
    bundle_of,
    grouped_panel_type,
    is_narrow,
    is_paired,
    packed_attr,
    paired_type,
    panel_type,
    refuse_panels,
    takes_packed,
    takes_pairs,
    unpack,
    unpack_grouped,
    unpair,
)
from .winograd import WINOGRAD, by_tiles, check_winograd, winograd_cases, winograd_pays, winograd_type

LAYOUT = Attr("layout", "str", "NCHW", "layout of images; NHWC takes its weight in panels", ("NCHW", "NHWC"))
_TYPES = (*rules.FLOATS, "int32")
_MOST_GROUPS = 8  # most groups that share panels: the work of a group is multiplied by their number
_NMSE = rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}
_TYPED = {t: bound for t, bound in rules.summed(_NMSE).items() if t != "float32"}
_TYPED["int32"] = _NMSE | {"cpu": 0.0}


def geometry(inputs, attrs):
    """Shapes of the image as [N,C,H,W] and of the weight as [O,C/group,KH,KW], whatever their layouts are."""
    x, w = inputs[0].shape, inputs[1].shape
    if attrs["layout"] == "NCHW":
        return x, w
    n, h, width, c = x
    return (n, c, h, width), (attrs["packed"], c // attrs["group"], *attrs["kernel_shape"])


def _check_panels(inputs, attrs):
    """Raise GraphError unless layout NHWC, panels and kernel_shape are given together and fit."""
    x, w = inputs[:2]
    if attrs["layout"] == "NCHW":
        if attrs["packed"]:
            rules.fail("conv2d", "packed weights are for layout NHWC", got=attrs["packed"])
        if attrs["winograd"]:
            rules.fail("conv2d", "winograd is for packed weights of layout NHWC")
        if attrs["kernel_shape"] not in (None, w.shape[2:]):
            text = f"kernel_shape is {list(attrs['kernel_shape'])}, but the weight is {w}"
            rules.fail("conv2d", text, got=attrs["kernel_shape"], wanted=w.shape[2:])
        return
    if not attrs["packed"] or attrs["kernel_shape"] is None:
        rules.fail("conv2d", "layout NHWC takes its weight in panels: packed and kernel_shape say which")
    (o,) = rules.limit("conv2d", "packed", (attrs["packed"],), 1, 1)
    kernel = rules.limit("conv2d", "kernel_shape", attrs["kernel_shape"], 2, 1)
    c, group = x.shape[3], attrs["group"]
    check_groups("conv2d", "channels", c, group)
    check_groups("conv2d", "output channels", o, group)
    if attrs["winograd"]:
        check_winograd(o, c // group, kernel, attrs)
        wanted = winograd_type(o, c // group, group)
    else:
        wanted = _panel_type(o, c // group, math.prod(kernel), group)
        if is_paired(w, attrs) and takes_pairs(o, c // group, group, wanted):
            wanted = paired_type(wanted)
    if w != wanted:
        text = f"packed={o}: the weight must be {wanted}, got {w}"
        rules.fail("conv2d", text, got=str(w), wanted=str(wanted))


def _panel_type(o, channels, taps, group):
    """The type of a weight [o, channels, taps] in panels."""
    if is_narrow(o, channels, group):
        return panel_type(o, taps * channels)
    return grouped_panel_type(o, channels, taps, group)


def _infer(inputs, attrs):
    x, w = inputs[:2]
    dtype = product_dtype("conv2d", inputs, attrs, _TYPES)
    (group,) = rules.limit("conv2d", "group", (attrs["group"],), 1, 1)
    rules.rank("conv2d", "input 0 (image)", x, 4, "N,C,H,W" if attrs["layout"] == "NCHW" else "N,H,W,C")
    if not attrs["packed"]:
        rules.rank("conv2d", "input 1 (weight)", w, 4, "O,C/group,KH,KW")
    _check_panels(inputs, attrs)
    image, weight = geometry(inputs, attrs)
    if not image[2] * image[3]:
        rules.fail("conv2d", f"the image {x} has no pixels", got=x.shape)
    check_window("conv2d", attrs, 2)
    if image[1] != weight[1] * group:
        needed = f"the weight {w} with group {group} needs {weight[1] * group}"
        text = f"the image {x} has {image[1]} channels, but {needed}"
        rules.fail("conv2d", text, got=image[1], wanted=weight[1] * group)
    check_groups("conv2d", "output channels", weight[0], group)
    if len(inputs) == 3:
        rules.shape("conv2d", "bias", inputs[2], (weight[0],), "O of the weight")
    out = window_sizes("conv2d", image[2:], weight[2:], attrs)
    if attrs["layout"] == "NHWC":
        return [TensorType(dtype, (image[0], *out, weight[0]))]
    return [TensorType(dtype, (image[0], weight[0], *out))]


def _plain(arrays, attrs):
    """Image and weight as NCHW and OIHW; groups that share panels count as one group."""
    x, w = arrays[:2]
    if attrs["layout"] == "NCHW":
        return x, w
    o, group, kernel = attrs["packed"], attrs["group"], attrs["kernel_shape"]
    if w.dtype.name == PAIRED:
        depth = math.prod(kernel) * x.shape[3] if group == 1 else 2 * w.shape[1]
        x, w = rules.narrow(x, PAIRED), unpair(w, depth)
    columns = unpack(w, o).T if is_narrow(o, x.shape[3] // group, group) else unpack_grouped(w, o, group)
    return x.transpose(0, 3, 1, 2), columns.reshape(o, *kernel, -1).transpose(0, 3, 1, 2)


def _conv2d(arrays, attrs):
    if attrs["winograd"]:
        return by_tiles(arrays, attrs)
    x, w = (rules.wide(a) for a in _plain(arrays, attrs))
    (top, left, bottom, right), (dh, dw), (sh, sw) = attrs["pads"], attrs["dilations"], attrs["strides"]
    n, c = x.shape[:2]
    o, cg, kh, kw = w.shape
    group = c // cg
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(padded, ((kh - 1) * dh + 1, (kw - 1) * dw + 1), axis=(2, 3))
    windows = windows[:, :, ::sh, ::sw, ::dh, ::dw]
    windows = windows.reshape(n, group, c // group, *windows.shape[2:])
    y = np.einsum("ngchwpq,gocpq->ngohw", windows, w.reshape(group, o // group, cg, kh, kw), optimize=True)
    y = y.reshape(n, o, *y.shape[3:])
    if len(arrays) == 3:
        y = y + rules.wide(arrays[2])[:, None, None]
    if attrs["layout"] == "NHWC":
        y = np.ascontiguousarray(y.transpose(0, 2, 3, 1))
    return [rules.narrow(y, arrays[0].dtype.name)]


def _flops(i, o, a):
    _, channels, kh, kw = geometry(i, a)[1]
    return 2 * o[0].size * channels * kh * kw + (o[0].size if len(i) == 3 else 0)


def _scratch(i, o, a):
    out, c, kh, kw = i[1].shape
    return gemm_scratch(out // a["group"], o[0].shape[2] * o[0].shape[3], c * kh * kw, i[0].dtype)


def split_of(made, attrs):
    """(first dimension of the output's rows, first dimension of its columns), for register_product."""
    return (1, 2) if attrs["layout"] == "NCHW" else (0, 3)


def conv_words(i, o, a):
    """Words of conv2d; quantized_conv2d begins with the same words."""
    kernel = a["kernel_shape"] if a["layout"] == "NHWC" else ()
    return [*a["strides"], *a["pads"], *a["dilations"], a["group"], *kernel]


def conv_work(i, o, a, most=3):
    """The work of a product and, if there are ``most`` inputs, of a bias. Grouped weights are laid out as
    dense ones, with zeros between groups, as by ttnn."""
    image, weight = geometry(i, a)
    taps, out = math.prod(weight[2:]), weight[0]
    product = Product(1, o[0].size // max(out, 1), image[1] * taps, out, gathered=taps > 1)
    return with_bias(product, o[0], own_inputs(len(i), a) == most)


def _panels(i, o, a):
    """Op.panels: the number of columns if the weight goes into panels. 0 if groups have so few channels that
    most numbers of the panels would be zeros."""
    w, group = i[1], a["group"]
    if a["layout"] != "NCHW" or min(w.shape) == 0 or refuse_panels(i, o, a):
        return 0
    few = bundle_of(group, w.shape[0] // group) > _MOST_GROUPS
    return 0 if few and not is_narrow(w.shape[0], w.shape[1], group) else w.shape[0]


def _takes_taps(i, o, a):
    if a["winograd"]:
        return "it reads weights as they are, these are for Winograd's tiles"
    return takes_packed(i, o, a) or refuse_halves(i, o, a)


_PACKED = Body("conv2d_packed", SUMMED_IN, in_float32, accepts=_takes_taps, epilogue=True, prebuilt=SUMMED_IN)
_AROUND = {"pads": (1, 1, 1, 1)}
_STRIDED = {"group": 33, "pads": (1, 1, 1, 0), "strides": (1, 2)}
_NARROW = (  # cases of groups with few channels
    ("four", (2, 44, 9, 21), (44, 4, 3, 3), True, {"group": 11, "pads": (1, 1, 1, 1), "strides": (2, 2)}),
    ("pairs", (1, 26, 6, 17), (26, 2, 5, 4), False, {"group": 13, "pads": (2, 1, 2, 1)}),
    ("sixteens", (1, 32, 7, 7), (32, 16, 3, 3), True, {"group": 2, "pads": (1, 1, 1, 1)}),
)


def _packed(x, w, attrs):
    """(kind, (image, weight), attributes) of cases with the weight in panels, for the shapes [N,C,H,W] and
    [O,C/group,KH,KW]: one with float32 panels and, if possible, one with rows in pairs."""
    if min(w) == 0:
        return
    group, image = attrs.get("group", 1), (x[0], *x[2:], x[1])
    panels = _panel_type(w[0], w[1], w[2] * w[3], group)
    packed = {**attrs, "layout": "NHWC", "packed": w[0], "kernel_shape": w[2:]}
    yield "packed", (image, panels.shape), packed
    if takes_pairs(w[0], w[1], group, panels):
        yield "bf16", (image, (PAIRED, paired_type(panels).shape)), packed


def _cases():
    for name, x, w, bias, attrs in (
        ("one", (1, 1, 1, 1), (1, 1, 1, 1), False, {}),
        ("digits", (2, 1, 8, 8), (16, 1, 3, 3), True, _AROUND),
        ("same", (2, 5, 17, 33), (40, 5, 3, 3), True, _AROUND),
        ("pointwise", (1, 33, 9, 9), (65, 33, 1, 1), False, {}),
        ("strided", (1, 3, 33, 31), (8, 3, 5, 3), True, {"strides": (2, 3), "pads": (2, 1, 0, 3)}),
        ("dilated", (1, 4, 20, 21), (6, 4, 3, 3), False, {"dilations": (2, 3), "pads": (2, 3, 2, 3)}),
        ("grouped", (2, 12, 10, 11), (18, 4, 3, 2), True, {"group": 3, "pads": (0, 1, 1, 0)}),
        ("depthwise", (1, 40, 12, 13), (40, 1, 3, 3), True, {"group": 40, "strides": (2, 1), **_AROUND}),
        ("depthwise_strided", (1, 33, 9, 15), (33, 1, 3, 3), False, _STRIDED),
        ("eights", (1, 64, 9, 8), (64, 8, 3, 3), True, {"group": 8, "pads": (1, 1, 1, 1)}),
        *_NARROW,
        ("wide_groups", (3, 8, 7, 6), (80, 4, 3, 2), True, {"group": 2, "strides": (2, 1)}),
        ("odd_groups", (1, 30, 5, 9), (50, 6, 1, 5), False, {"group": 5, "pads": (0, 2, 0, 2)}),
        ("depthwise_double", (1, 6, 7, 7), (12, 1, 3, 3), False, {"group": 6}),
        ("few_pixels", (5, 7, 2, 2), (9, 7, 3, 3), True, _AROUND),
        ("whole_image", (3, 2, 6, 5), (4, 2, 6, 5), True, {}),
        ("all_padding", (1, 2, 2, 2), (3, 2, 2, 2), True, {"pads": (3, 3, 3, 3), "strides": (3, 3)}),
        ("empty", (0, 2, 5, 5), (3, 2, 3, 3), True, {}),
    ):
        tail = (w[:1],) if bias else ()
        yield case(name, x, w, *tail, attrs, nmse=_NMSE)
        for kind, own, packed in _packed(x, w, attrs):
            yield case(f"{kind}_{name}", *own, *tail, packed, nmse=_NMSE)
    yield from winograd_cases(_NMSE)
    row = (1, 4, 9, 10), (6, 2, 3, 3), (6,), {"group": 2, "pads": (1, 1, 1, 1)}
    yield from per_dtype(_TYPES[1:], *row, nmse=_TYPED)


def _epilogue_cases():
    """Cases with a residual, a scale for each channel and a number, for groups of many and of few channels,
    and for int32."""
    steps = [["add", [-1, 3], {}], ["multiply", [-2, 4], {}], ["add", [-3, 5], {}], ["relu", [-4], {}]]
    for name, x, w, more in (
        ("epilogue", (2, 5, 9, 7), (40, 5, 3, 3), _AROUND),
        ("epilogue_depthwise", (2, 6, 9, 70), (6, 1, 3, 3), {"pads": (1, 1, 1, 1), "group": 6}),
        ("epilogue_grouped", (1, 32, 5, 9), (72, 4, 3, 3), {"pads": (1, 1, 1, 1), "group": 8}),
        ("epilogue_narrow", (1, 40, 5, 9), (40, 8, 3, 3), {"pads": (1, 1, 1, 1), "group": 5}),
    ):
        yield case(
            name, x, w, w[:1], (x[0], w[0], *x[2:]), (w[0], 1, 1), (), {**more, "epilogue": steps}, nmse=_NMSE
        )
        image = (x[0], *x[2:], w[0])
        for kind, own, packed in _packed(x, w, more):
            inputs = *own, w[:1], image, w[:1], ()
            yield case(f"{kind}_{name}", *inputs, {**packed, "epilogue": steps}, nmse=_NMSE)
            for suffix, epilogue in _RESIDUALS if kind == "packed" else ():
                attrs = {**packed, "epilogue": epilogue}
                yield case(f"packed_{name}_{suffix}", *own, w[:1], image, attrs, nmse=_NMSE)
    attrs = {"epilogue": [["maximum", [-1, 2], {}]]}
    yield case(
        "epilogue_int32", (1, 2, 5, 5), (6, 2, 3, 3), (6, 3, 3), attrs, nmse=rules.EXACT, dtype="int32"
    )


_RESIDUALS = (
    ("residual", [["add", [3, -1], {}], ["relu", [-2], {}]]),
    ("bounds", [["add", [-1, 3], {}], ["clip", [-2], {"min": -0.5, "max": 1.5}]]),
)


register_product(
    Op(
        "conv2d",
        "2-d convolution, NCHW and OIHW",
        (2, 3),
        _infer,
        _conv2d,
        _flops,
        words=conv_words,
        attrs=(
            *window_attrs(2, "zeros"),
            GROUP,
            LAYOUT,
            packed_attr("output channels O"),
            Attr("kernel_shape", "ints", None, "height and width of the window; default: the weight's"),
            Attr("winograd", "bool", False, "the packed weight is for tiles of 4 x 4 pixels (pack_winograd)"),
            *ATTRS,
            STREAM_DIRS,
        ),
        bodies={
            "cpu": Body("conv2d", _TYPES, rules.by_dtype, _scratch, refuse_packed, epilogue=True),
            "tt": Body("conv2d", rules.TT_FLOATS, accepts=refuse_packed, numerics=True, epilogue=True),
        },
        variants={"cpu": (_PACKED, WINOGRAD)},
        pace={"cpu": "product"},
        work=conv_work,
        parts="conv2d",
        weights=(1, 2),
        panels=_panels,
        tiles=lambda i, o, a: winograd_pays(i[1].shape, o[0].shape, a),
        sums=True,
        cases=(*_cases(), *half_cases(_cases())),
    ),
    split_of,
    (*_epilogue_cases(), *half_cases(_epilogue_cases())),
)
