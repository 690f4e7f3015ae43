"""quantized_conv2d: convolution of numbers on integer grids, by the formulas of quantized_products.py.

C contract: args as those of quantized_dense, with x [N,C,H,W] and w [O,C/group,KH,KW], or x [N,H,W,C] and w
in panels of bytes. Attribute words: those of conv2d (conv.py), then three for the result: its zero point, its
least and its greatest number.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...graph import TensorType
from .. import registry, rules
from ..cases import case
from ..epilogue import register_product
from ..products.byte_panels import bytes_type, depthwise_k, unpack_convolution
from ..products.conv import LAYOUT, conv_words, conv_work, geometry, split_of
from ..products.packed import packed_attr
from ..registry import REQUIRED, Attr, Op
from ..window_rules import GROUP, check_window, window_attrs, window_sizes
from .quantized_products import (
    BYTES,
    GRID_ATTRS,
    PLAIN,
    RESULTS,
    check_operands,
    end_words,
    is_depthwise,
    rest_cases,
    results_of,
    traits,
)

_EXACT = {"cpu": 0.0}


def _panels_of(o, channels, kernel, group):
    return bytes_type(o, depthwise_k(kernel) if group > 1 else channels * math.prod(kernel))


def _conv_infer(inputs, attrs):
    op, (x, w) = "quantized_conv2d", inputs[:2]
    last = attrs["layout"] == "NHWC"
    rules.rank(op, "input 0 (image)", x, 4, "N,H,W,C" if last else "N,C,H,W")
    (group,) = rules.limit(op, "group", (attrs["group"],), 1, 1)
    if last != bool(attrs["packed"]) or last != (attrs["kernel_shape"] is not None):
        rules.fail(op, "layout NHWC, packed and kernel_shape come together: weights in panels")
    if last:
        rules.limit(op, "packed", (attrs["packed"],), 1, 1)
        rules.limit(op, "kernel_shape", attrs["kernel_shape"], 2, 1)
    else:
        rules.rank(op, "input 1 (weight)", w, 4, "O,C/group,KH,KW")
    image, weight = geometry(inputs, attrs)
    if image[1] != weight[1] * group or weight[0] % group:
        text = f"the image {x} and the weight {w} do not fit {group} groups"
        rules.fail(op, text, got=image[1], wanted=weight[1] * group)
    if last and group > 1 and not (weight[1] == 1 and weight[0] == group):
        rules.fail(op, f"panels are of one group or of groups of one channel, not of {group}", got=group)
    wanted = _panels_of(weight[0], weight[1], weight[2:], group) if last else TensorType(PLAIN, weight)
    if w != wanted:
        rules.fail(op, f"the weight must be {wanted} beside {x}, got {w}", got=str(w), wanted=str(wanted))
    check_window(op, attrs, 2)
    check_operands(op, inputs, attrs, weight[0])
    out = window_sizes(op, image[2:], weight[2:], attrs)
    shape = (image[0], *out, weight[0]) if last else (image[0], weight[0], *out)
    return [TensorType(attrs["to"], shape)]


def _conv(arrays, attrs):
    x, w, zero, *rest = arrays
    if attrs["layout"] == "NHWC":
        depthwise = attrs["group"] > 1
        w = unpack_convolution(w, attrs["packed"], 0 if depthwise else x.shape[3], attrs["kernel_shape"])
        x = x.transpose(0, 3, 1, 2)
    centred = x.astype(np.float64) - float(zero.reshape(()))
    conv = {a.name: a.default for a in registry.require("conv2d").attrs if a.default is not REQUIRED}
    conv |= {name: attrs[name] for name in ("strides", "pads", "dilations", "group")}
    (sums,) = registry.require("conv2d").reference([centred, w.astype(np.float64)], conv)
    made = results_of(np.rint(sums).astype(np.int64), rest, attrs, 1)
    return [np.ascontiguousarray(made.transpose(0, 2, 3, 1)) if attrs["layout"] == "NHWC" else made]


_WIDE = {"group": 3, "dilations": (1, 3), "pads": (4, 9, 4, 9)}


def _conv_cases():
    rows: Any = (
        ("same", (2, 5, 9, 13), (40, 5, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("pointwise", (1, 33, 5, 7), (65, 33, 1, 1), {}),
        ("aligned", (1, 32, 5, 7), (64, 32, 1, 1), {}),
        ("strided", (1, 3, 13, 11), (8, 3, 5, 3), {"strides": (2, 3), "pads": (2, 1, 0, 3)}),
        ("dilated", (1, 4, 10, 11), (6, 4, 3, 3), {"dilations": (2, 3), "pads": (2, 3, 2, 3)}),
        ("deep", (1, 260, 4, 4), (33, 260, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("depthwise", (1, 40, 12, 13), (40, 1, 3, 3), {"group": 40, "pads": (1, 1, 1, 1), "strides": (2, 1)}),
        ("depthwise_five", (2, 19, 9, 9), (19, 1, 5, 5), {"group": 19, "pads": (2, 2, 2, 2)}),
        ("depthwise_wide", (1, 3, 9, 70), (3, 1, 6, 9), _WIDE),
        ("all_padding", (1, 2, 2, 2), (3, 2, 2, 2), {"pads": (3, 3, 3, 3), "strides": (3, 3)}),
        ("grouped", (2, 12, 10, 11), (18, 4, 3, 2), {"group": 3, "pads": (0, 1, 1, 0)}),
        ("empty", (0, 2, 5, 5), (3, 2, 3, 3), {}),
    )
    for name, x, w, attrs in rows:
        for i, to in enumerate(RESULTS):
            dtype = BYTES[i % 2]
            tail, how = rest_cases(w[0], to, name != "pointwise")
            own = (dtype, x), (PLAIN, w), (dtype, ()), *tail, {"to": to, **attrs}
            yield case(f"{name}_{to}", *own, make=("normal", "normal", "normal", *how), nmse=_EXACT)
            for panels, packed, make in _packed(w, attrs):
                image, packed = (dtype, (x[0], *x[2:], x[1])), {**packed, "to": to, "zero": 3 * (to in BYTES)}
                row = image, panels, (dtype, ()), *tail, packed
                yield case(f"packed_{name}_{to}", *row, make=("bytes", make, "bytes", *how), nmse=_EXACT)


def _packed(w, attrs):
    """(weight in panels, attributes, how the weight is drawn) of a case; nothing if the weight cannot be in
    panels."""
    group = attrs.get("group", 1)
    depthwise = is_depthwise(w, group)
    if group == 1 or depthwise:
        k = depthwise_k(w[2:]) if depthwise else math.prod(w[1:])
        packed = {"layout": "NHWC", "packed": w[0], "kernel_shape": w[2:], **attrs}
        make = f"byte_panels:{k}" + (f":{w[2]}" if depthwise else "")
        yield ("int8", _panels_of(w[0], w[1], w[2:], group).shape), packed, make


def _conv_epilogue_cases():
    for name, x, w, attrs in (
        ("epilogue", (2, 5, 9, 7), (40, 5, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("epilogue_depthwise", (2, 36, 9, 7), (36, 1, 3, 3), {"pads": (1, 1, 1, 1), "group": 36}),
    ):
        more = {"to": "float32", "epilogue": [["multiply", [-1, 5], {}], ["hard_swish", [-2], {}]]}
        tail = ("uint8", ()), (), w[:1]
        how = ("normal", "normal", "normal", "thousandths")
        plain = ("uint8", x), (PLAIN, w), *tail, (w[0], 1, 1), {**more, **attrs}
        yield case(name, *plain, make=how, nmse=rules.ROUNDED)
        for panels, packed, make in _packed(w, attrs):
            row = ("uint8", (x[0], *x[2:], x[1])), panels, *tail, w[:1], {**packed, **more}
            how = ("bytes", make, "bytes", "thousandths")
            yield case(f"packed_{name}", *row, make=how, nmse=rules.ROUNDED)


register_product(
    Op(
        "quantized_conv2d",
        "2-d convolution of numbers on integer grids, summed in int32, and the result on a grid of its own",
        (3, 5),
        _conv_infer,
        _conv,
        lambda i, o, a: 2 * o[0].size * math.prod(geometry(i, a)[1][1:]),
        attrs=(
            *GRID_ATTRS,
            *window_attrs(2, "zero points"),
            GROUP,
            LAYOUT,
            Attr("kernel_shape", "ints", None, "height and width of a weight in panels"),
            packed_attr("output channels"),
        ),
        words=lambda i, o, a: [*conv_words(i, o, a), *end_words(a)],
        **traits("quantized_conv2d"),
        work=partial(conv_work, most=5),
        cases=tuple(_conv_cases()),
    ),
    split_of,
    tuple(_conv_epilogue_cases()),
)
