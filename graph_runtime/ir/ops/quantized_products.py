"""Products of numbers on integer grids: quantized_dense, quantized_conv2d.

    sum over k of (x - x's zero point) * w                       int32
    float32(sum) * scale (+ bias, float32)                       float32, then the epilogue
    saturate(round(float32(sum + bias) * scale) + zero)          uint8, int8; bias int32; ties to even, NaN
    is the least

ONNX's QLinearConv and QLinearMatMul with scale = x_scale * w_scale / y_scale, one or one of each output
channel; MatMulInteger and ConvInteger without a scale. w is numbers less their zero point, int16 of -255 ..
255, or, on cpu, in panels of bytes (byte_panels.py). Sums are exact while they fit into int32, else modulo
2^32.

C contract (args: x, w, x's zero point, of 1 element, optional scale, optional bias, inputs of the epilogue;
then y). Attribute words; those of the epilogue (steps.py) follow:
    quantized_dense    [0] packed [1] zero point of the result [2] [3] the least and the greatest; x [..,
    K], w [N, K]
    quantized_conv2d   those of conv2d (conv.py), then these three
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph import TensorType
from . import registry, rules
from .byte_panels import MOST_TAPS, PANEL, bytes_type, depthwise_k, unpack_bytes, unpack_convolution
from .epilogue import own_inputs, register_product
from .packed import packed_attr, refuse_packed, takes_packed
from .registry import REQUIRED, Attr, Body, Case, Op
from .work import Product, with_bias

__all__ = ["BYTES", "is_depthwise", "on_grid", "panels_fit"]

BYTES = ("uint8", "int8")
_PLAIN = "int16"
_RESULTS = (*BYTES, "int32", "float32")
_ATTRS = (
    Attr("to", "str", REQUIRED, "the result's dtype", _RESULTS),
    Attr("zero", "int", 0, "the result's zero point, of uint8 and int8"),
    Attr("bounds", "ints", None, "the least and the greatest result, of uint8 and int8; None: all"),
)


def on_grid(x: np.ndarray, zero: int, dtype: str, bounds: tuple[int, int] | None = None) -> np.ndarray:
    """round(x) + zero, ties to even, kept within bounds, by default the dtype's; a NaN is the least
    number."""
    low, high = bounds or (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    kept = np.where(np.isnan(x), low - zero, np.clip(x, low - zero, high - zero))
    return (np.rint(kept) + zero).astype(dtype)


# ---------------------------------------------------------------- what both share


def _check(op, inputs, attrs, n):
    """Raise GraphError for operands beside x and w, or attributes, that do not fit."""
    x, _, x_zero, *rest = inputs
    if x.dtype not in BYTES:
        rules.fail(op, f"x must be {' or '.join(BYTES)}, got {x}", got=x.dtype, wanted=BYTES)
    if x_zero.dtype != x.dtype or x_zero.size != 1:
        rules.fail(op, f"the zero point of x must be one {x.dtype}, got {x_zero}", got=str(x_zero))
    to, zero = attrs["to"], attrs["zero"]
    if bool(rest) == (to == "int32"):
        rules.fail(op, "results have a scale, input 3, unless they are int32", got=len(inputs), wanted=4)
    if attrs.get("epilogue") and to != "float32":
        rules.fail(op, f"an epilogue is for float32 results, not {to}", got=to)
    wanted = ("float32", "float32" if to == "float32" else "int32")
    for what, t, dtype in zip(("scale", "bias"), rest, wanted, strict=False):
        fits = t.shape == (n,) or (what == "scale" and t.size == 1)
        if t.dtype != dtype or not fits:
            rules.fail(op, f"the {what} must be {dtype}[{n}], got {t}", got=str(t), wanted=f"{dtype}[{n}]")
    low, high = (np.iinfo(to).min, np.iinfo(to).max) if to in BYTES else (0, 0)
    if not low <= zero <= high:
        rules.fail(op, f"zero {zero} is no {to} ({low} .. {high})", got=zero, wanted=(low, high))
    bounds = attrs["bounds"]
    if bounds is not None and not (
        len(bounds) == 2 and low <= bounds[0] <= bounds[1] <= high and to in BYTES
    ):
        rules.fail(op, f"bounds {list(bounds)} are no two {to} in order", got=bounds, wanted=(low, high))


def _end_words(a):
    """Zero point, least and greatest of the result."""
    if a["to"] not in BYTES:
        return [0, 0, 0]
    info = np.iinfo(a["to"])
    return [a["zero"], *(a["bounds"] or (int(info.min), int(info.max)))]


def _results(sums, rest, attrs, channels_at):
    """Sums int64 with the channels at a dimension, as the result."""
    to = attrs["to"]
    shape = [1] * sums.ndim
    shape[channels_at] = sums.shape[channels_at]
    scale, bias = (*rest, None, None)[:2]
    if bias is not None and to in BYTES:
        sums = sums + bias.astype(np.int64).reshape(shape)
    sums = sums.astype(np.int64).astype(np.int32)  # modulo 2^32
    if to == "int32":
        return sums
    scale = scale.reshape(shape if scale.size > 1 else ())
    with np.errstate(all="ignore"):
        y = sums.astype(np.float32) * scale
    if to == "float32":
        return y if bias is None else y + bias.reshape(shape)
    return on_grid(y, attrs["zero"], to, attrs["bounds"])


def _scratch(i, o, a):
    """Offset, scale and shift of each column."""
    columns = a["packed"] or 1
    return 3 * 4 * PANEL * -(-columns // PANEL)


def _body(name, accepts, **more):
    return Body(name, BYTES, lambda i, o: "f32", accepts=accepts, epilogue=True, **more)


def _rest_cases(n, to, bias):
    """(inputs behind x and w, how they are drawn)."""
    if to == "int32":
        return (), ()
    tail: tuple[tuple[str, tuple[int, ...]], ...] = (("float32", (n,)),)
    if bias:
        tail = (*tail, ("float32" if to == "float32" else "int32", (n,)))
    return tail, ("thousandths", "normal")[: len(tail)]


# ---------------------------------------------------------------- quantized_dense


def _dense_infer(inputs, attrs):
    op, (x, w) = "quantized_dense", inputs[:2]
    if not x.shape:
        rules.fail(op, f"input 0 must have at least 1 dimension [..,K], got {x}", got=x.shape)
    k = x.shape[-1]
    if attrs["packed"]:
        (n,) = rules.limit(op, "packed", (attrs["packed"],), 1, 1)
        wanted = bytes_type(n, k)
    else:
        rules.rank(op, "input 1 (weight)", w, 2, "N,K")
        n = w.shape[0]
        wanted = TensorType(_PLAIN, (n, k))
    if w != wanted:
        rules.fail(op, f"the weight must be {wanted} beside {x}, got {w}", got=str(w), wanted=str(wanted))
    _check(op, inputs, attrs, n)
    return [TensorType(attrs["to"], (*x.shape[:-1], n))]


def _dense(arrays, attrs):
    x, w, zero, *rest = arrays
    k = x.shape[-1]
    w = unpack_bytes(w, attrs["packed"], k) if attrs["packed"] else w
    centred = x.astype(np.float64) - float(zero.reshape(()))
    sums = (centred @ w.T.astype(np.float64)).astype(np.int64)
    return [_results(sums, rest, attrs, sums.ndim - 1)]


def _dense_sizes(i, a):
    return (a["packed"], i[0].shape[-1]) if a["packed"] else i[1].shape


def _dense_work(i, o, a):
    n, k = _dense_sizes(i, a)
    product = Product(1, math.prod(i[0].shape[:-1]), k, n)
    return with_bias(product, o[0], own_inputs(len(i), a) == 5)


def _dense_cases():
    for name, x, n in (
        ("tiles", (31, 97), 70),
        ("one", (1, 1), 1),
        ("row", (1, 2050), 33),
        ("deep", (17, 4100), 300),
        ("batch", (2, 3, 33), 40),
        ("fours", (30, 64), 64),
        ("no_k", (2, 0), 3),
        ("empty", (0, 5), 3),
    ):
        for i, to in enumerate(_RESULTS):
            dtype = BYTES[i % 2]
            tail, how = _rest_cases(n, to, name != "one")
            own = ((dtype, x), (_PLAIN, (n, x[-1])), (dtype, ()), *tail)
            yield Case(f"{name}_{to}", own, {"to": to}, ("normal", "normal", "normal", *how), _EXACT)
            panels = ("int8", bytes_type(n, x[-1]).shape)
            yield Case(
                f"packed_{name}_{to}",
                (own[0], panels, *own[2:]),
                {"to": to, "packed": n} | ({"zero": 7, "bounds": (3, 120)} if to in BYTES else {}),
                ("bytes", f"byte_panels:{x[-1]}", "bytes", *how),
                _EXACT,
            )


def _dense_epilogue_cases():
    steps = [["add", [-1, 5], {}], ["gelu", [-2], {}]]
    own = (("uint8", (2, 33, 40)), (_PLAIN, (65, 40)), ("uint8", ()), ("float32", ()), ("float32", (65,)))
    inputs = (*own, ("float32", (2, 33, 65)))
    how = ("normal", "normal", "normal", "thousandths")
    yield Case("epilogue", inputs, {"to": "float32", "epilogue": steps}, how, rules.ROUNDED)
    packed = (inputs[0], ("int8", bytes_type(65, 40).shape), *inputs[2:])
    attrs = {"to": "float32", "epilogue": steps, "packed": 65}
    how = ("bytes", "byte_panels:40", "bytes", "thousandths")
    yield Case("packed_epilogue", packed, attrs, how, rules.ROUNDED)


_EXACT = {"cpu": 0.0}

register_product(
    Op(
        "quantized_dense",
        "x @ w.T of numbers on integer grids, summed in int32, and the result on a grid of its own",
        (3, 5),
        _dense_infer,
        _dense,
        lambda i, o, a: 2 * o[0].size * _dense_sizes(i, a)[1],
        attrs=(*_ATTRS, packed_attr("outputs N")),
        words=lambda i, o, a: [a["packed"], *_end_words(a)],
        bodies={"cpu": _body("quantized_dense", refuse_packed)},
        variants={"cpu": (_body("quantized_dense_packed", takes_packed, scratch=_scratch, prebuilt=True),)},
        pace={"cpu": "quantized"},
        work=_dense_work,
        parts="product_of_rows",
        weights=(1,),
        panels=lambda i, o, a: panels_fit(i, a),
        sums=True,
        cases=tuple(_dense_cases()),
    ),
    lambda made, attrs: (0, len(made.shape) - 1),
    tuple(_dense_epilogue_cases()),
)


def panels_fit(inputs, attrs):
    """How many columns the weight of a plain node has that is put into panels where it is a constant; 0: it
    stays."""
    w = inputs[1]
    if attrs["packed"] or registry.KERNEL in attrs or not w.size:
        return 0
    if len(w.shape) == 2:
        return w.shape[0]
    group, depthwise = attrs["group"], is_depthwise(w.shape, attrs["group"])
    if attrs["layout"] != "NCHW" or (group > 1 and not depthwise):
        return 0
    reach = (w.shape[3] - 1) * attrs["dilations"][1] + 1
    return 0 if depthwise and -(-w.shape[2] // 4) * reach > MOST_TAPS else w.shape[0]


# ---------------------------------------------------------------- quantized_conv2d


def is_depthwise(weight: tuple[int, ...], group: int) -> bool:
    """Whether a weight [o, channels, kh, kw] has one channel a group, in and out."""
    return group > 1 and weight[1] == 1 and weight[0] == group


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
    from .conv import window_count

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
    wanted = _panels_of(weight[0], weight[1], weight[2:], group) if last else TensorType(_PLAIN, weight)
    if w != wanted:
        rules.fail(op, f"the weight must be {wanted} beside {x}, got {w}", got=str(w), wanted=str(wanted))
    strides = rules.limit(op, "strides", attrs["strides"], 2, 1)
    pads = rules.limit(op, "pads", attrs["pads"], 4, 0)
    dilations = rules.limit(op, "dilations", attrs["dilations"], 2, 1)
    _check(op, inputs, attrs, weight[0])
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
    made = _results(np.rint(sums).astype(np.int64), rest, attrs, 1)
    return [np.ascontiguousarray(made.transpose(0, 2, 3, 1)) if attrs["layout"] == "NHWC" else made]


def _conv_words(i, o, a):
    kernel = a["kernel_shape"] if a["layout"] == "NHWC" else ()
    return [*a["strides"], *a["pads"], *a["dilations"], a["group"], *kernel, *_end_words(a)]


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
        for i, to in enumerate(_RESULTS):
            dtype = BYTES[i % 2]
            tail, how = _rest_cases(w[0], to, name != "pointwise")
            own = ((dtype, x), (_PLAIN, w), (dtype, ()), *tail)
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
        plain = (("uint8", x), (_PLAIN, w), *tail, ("float32", (w[0], 1, 1)))
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
            *_ATTRS,
            Attr("strides", "ints", (1, 1), "step of the window: height, width"),
            Attr("pads", "ints", (0, 0, 0, 0), "zero points at the top, left, bottom, right"),
            Attr("dilations", "ints", (1, 1), "distance of the weight's elements: height, width"),
            Attr("group", "int", 1, "channels are split into so many groups, each convolved alone"),
            Attr("layout", "str", "NCHW", "of the images; NHWC takes its weight in panels", ("NCHW", "NHWC")),
            Attr("kernel_shape", "ints", None, "height and width of a weight in panels"),
            packed_attr("output channels"),
        ),
        words=_conv_words,
        bodies={"cpu": _body("quantized_conv2d", refuse_packed)},
        variants={"cpu": (_body("quantized_conv2d_packed", takes_packed, scratch=_scratch, prebuilt=True),)},
        pace={"cpu": "quantized"},
        work=_conv_work,
        parts="taps",
        weights=(1,),
        panels=lambda i, o, a: panels_fit(i, a),
        sums=True,
        cases=tuple(_conv_cases()),
    ),
    lambda made, attrs: (1, 2) if attrs["layout"] == "NCHW" else (0, 3),
    tuple(_conv_epilogue_cases()),
)
