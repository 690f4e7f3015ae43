"""quantized_conv2d: convolution of numbers on integer grids; quantized_products.py says what it computes.

C contract: args as those of quantized_dense, x [N,C,H,W], w [O,C/group,KH,KW], or x [N,H,W,C] and w in panels
of bytes. Attribute words: those of conv2d (conv.py), then zero point, least and greatest of the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph import TensorType
from .. import registry, rules
from ..epilogue import own_inputs, register_product
from ..products.byte_panels import bytes_type, depthwise_k, unpack_convolution
from ..products.conv import window_count
from ..products.packed import packed_attr, refuse_packed, takes_packed
from ..registry import REQUIRED, Attr, Case, Op
from ..work import Product, with_bias
from .quantized_products import (
    BYTES,
    GRID_ATTRS,
    PLAIN,
    RESULTS,
    body_of,
    check_operands,
    column_scratch,
    end_words,
    is_depthwise,
    panels_fit,
    rest_cases,
    results_of,
)

_EXACT = {"cpu": 0.0}


def _shapes(inputs, attrs):
    """The image [N,C,H,W] and the weight [O,C/group,KH,KW], however they are laid out."""
    x, w = inputs[0].shape, inputs[1].shape
    if attrs["layout"] == "NCHW":
        return x, w
    n, h, width, c = x
    return (n, c, h, width), (attrs["packed"], c // attrs["group"], *attrs["kernel_shape"])


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
    image, weight = _shapes(inputs, attrs)
    if image[1] != weight[1] * group or weight[0] % group:
        text = f"the image {x} and the weight {w} do not fit {group} groups"
        rules.fail(op, text, got=image[1], wanted=weight[1] * group)
    if last and group > 1 and not (weight[1] == 1 and weight[0] == group):
        rules.fail(op, f"panels are of one group or of groups of one channel, not of {group}", got=group)
    wanted = _panels_of(weight[0], weight[1], weight[2:], group) if last else TensorType(PLAIN, weight)
    if w != wanted:
        rules.fail(op, f"the weight must be {wanted} beside {x}, got {w}", got=str(w), wanted=str(wanted))
    strides = rules.limit(op, "strides", attrs["strides"], 2, 1)
    pads = rules.limit(op, "pads", attrs["pads"], 4, 0)
    dilations = rules.limit(op, "dilations", attrs["dilations"], 2, 1)
    check_operands(op, inputs, attrs, weight[0])
    out = [
        window_count(
            op,
            image[2 + d],
            (weight[2 + d] - 1) * dilations[d] + (weight[2 + d] > 0),
            strides[d],
            pads[d] + pads[d + 2],
            False,
            pads[d],
        )
        for d in (0, 1)
    ]
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


def _conv_words(i, o, a):
    kernel = a["kernel_shape"] if a["layout"] == "NHWC" else ()
    return [*a["strides"], *a["pads"], *a["dilations"], a["group"], *kernel, *end_words(a)]


def _conv_work(i, o, a):
    image, weight = _shapes(i, a)
    taps, out = math.prod(weight[2:]), weight[0]
    product = Product(1, o[0].size // max(out, 1), image[1] * taps, out, gathered=taps > 1)
    return with_bias(product, o[0], own_inputs(len(i), a) == 5)


def _conv_cases():
    cases: Any = (
        ("same", (2, 5, 9, 13), (40, 5, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("pointwise", (1, 33, 5, 7), (65, 33, 1, 1), {}),
        ("aligned", (1, 32, 5, 7), (64, 32, 1, 1), {}),
        ("strided", (1, 3, 13, 11), (8, 3, 5, 3), {"strides": (2, 3), "pads": (2, 1, 0, 3)}),
        ("dilated", (1, 4, 10, 11), (6, 4, 3, 3), {"dilations": (2, 3), "pads": (2, 3, 2, 3)}),
        ("deep", (1, 260, 4, 4), (33, 260, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("depthwise", (1, 40, 12, 13), (40, 1, 3, 3), {"group": 40, "pads": (1, 1, 1, 1), "strides": (2, 1)}),
        ("depthwise_five", (2, 19, 9, 9), (19, 1, 5, 5), {"group": 19, "pads": (2, 2, 2, 2)}),
        (
            "depthwise_wide",
            (1, 3, 9, 70),
            (3, 1, 6, 9),
            {"group": 3, "dilations": (1, 3), "pads": (4, 9, 4, 9)},
        ),
        ("all_padding", (1, 2, 2, 2), (3, 2, 2, 2), {"pads": (3, 3, 3, 3), "strides": (3, 3)}),
        ("grouped", (2, 12, 10, 11), (18, 4, 3, 2), {"group": 3, "pads": (0, 1, 1, 0)}),
        ("empty", (0, 2, 5, 5), (3, 2, 3, 3), {}),
    )
    for name, x, w, attrs in cases:
        group = attrs.get("group", 1)
        depthwise = is_depthwise(w, group)
        for i, to in enumerate(RESULTS):
            dtype = BYTES[i % 2]
            tail, how = rest_cases(w[0], to, name != "pointwise")
            own = ((dtype, x), (PLAIN, w), (dtype, ()), *tail)
            yield Case(f"{name}_{to}", own, {"to": to, **attrs}, ("normal", "normal", "normal", *how), _EXACT)
            if group > 1 and not depthwise:
                continue
            k = depthwise_k(w[2:]) if depthwise else math.prod(w[1:])
            panels = ("int8", _panels_of(w[0], w[1], w[2:], group).shape)
            yield Case(
                f"packed_{name}_{to}",
                ((dtype, (x[0], *x[2:], x[1])), panels, *own[2:]),
                {
                    "to": to,
                    "layout": "NHWC",
                    "packed": w[0],
                    "kernel_shape": w[2:],
                    "zero": 3 * (to in BYTES),
                    **attrs,
                },
                ("bytes", f"byte_panels:{k}" + (f":{w[2]}" if depthwise else ""), "bytes", *how),
                _EXACT,
            )


def _conv_epilogue_cases():
    for name, x, w, attrs in (
        ("epilogue", (2, 5, 9, 7), (40, 5, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("epilogue_depthwise", (2, 36, 9, 7), (36, 1, 3, 3), {"pads": (1, 1, 1, 1), "group": 36}),
    ):
        steps = [["multiply", [-1, 5], {}], ["hard_swish", [-2], {}]]
        tail = (("uint8", ()), ("float32", ()), ("float32", w[:1]))
        how = ("normal", "normal", "normal", "thousandths")
        plain = (("uint8", x), (PLAIN, w), *tail, ("float32", (w[0], 1, 1)))
        yield Case(name, plain, {"to": "float32", "epilogue": steps, **attrs}, how, rules.ROUNDED)
        depthwise = "group" in attrs
        k = depthwise_k(w[2:]) if depthwise else math.prod(w[1:])
        panels = ("int8", _panels_of(w[0], w[1], w[2:], attrs.get("group", 1)).shape)
        packed = (("uint8", (x[0], *x[2:], x[1])), panels, *tail, ("float32", w[:1]))
        more = {"layout": "NHWC", "packed": w[0], "kernel_shape": w[2:], "to": "float32", "epilogue": steps}
        how = ("bytes", f"byte_panels:{k}" + (f":{w[2]}" if depthwise else ""), "bytes", "thousandths")
        yield Case(f"packed_{name}", packed, {**more, **attrs}, how, rules.ROUNDED)


register_product(
    Op(
        "quantized_conv2d",
        "2-d convolution of numbers on integer grids, summed in int32, and the result on a grid of its own",
        (3, 5),
        _conv_infer,
        _conv,
        lambda i, o, a: 2 * o[0].size * math.prod(_shapes(i, a)[1][1:]),
        attrs=(
            *GRID_ATTRS,
            Attr("strides", "ints", (1, 1), "step of the window: height, width"),
            Attr("pads", "ints", (0, 0, 0, 0), "zero points at the top, left, bottom, right"),
            Attr("dilations", "ints", (1, 1), "distance of the weight's elements: height, width"),
            Attr("group", "int", 1, "channels are split into so many groups, each convolved alone"),
            Attr("layout", "str", "NCHW", "of the images; NHWC takes its weight in panels", ("NCHW", "NHWC")),
            Attr("kernel_shape", "ints", None, "height and width of a weight in panels"),
            packed_attr("output channels"),
        ),
        words=_conv_words,
        bodies={"cpu": body_of("quantized_conv2d", refuse_packed)},
        variants={
            "cpu": (body_of("quantized_conv2d_packed", takes_packed, scratch=column_scratch, prebuilt=BYTES),)
        },
        pace={"cpu": "quantized"},
        work=_conv_work,
        weights=(1,),
        panels=lambda i, o, a: panels_fit(i, a),
        sums=True,
        cases=tuple(_conv_cases()),
    ),
    lambda made, attrs: (1, 2) if attrs["layout"] == "NCHW" else (0, 3),
    tuple(_conv_epilogue_cases()),
)
