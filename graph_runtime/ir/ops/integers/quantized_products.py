"""Products of numbers on integer grids: quantized_dense; quantized_conv.py has quantized_conv2d.

    dtype of the result    result, for sum = sum over k of (x - x's zero point) * w
    int32                  sum
    float32                float32(sum) * scale (+ bias, float32), then the epilogue
    uint8, int8            saturate(round(float32(sum + bias) * scale) + zero), with an int32 bias; ties to
                           even, NaN becomes the least number

With scale = x_scale * w_scale / y_scale, one number or one for each output channel, these products are ONNX's
QLinearConv and QLinearMatMul; without a scale they are MatMulInteger and ConvInteger. w holds the weight's
numbers less their zero point, as int16 of -255 .. 255 or, on cpu, in panels of bytes (byte_panels.py). Sums
are exact while they fit into int32, and wrap modulo 2^32 otherwise.

C contract (args: x, w, x's zero point, of 1 element, optional scale, optional bias, inputs of the epilogue;
then y). Attribute words; those of the epilogue (steps.py) follow:
    quantized_dense    [0] packed [1] zero point [2] least number [3] greatest number, all three of the
                       result; x is [.., K], w [N, K]
    quantized_conv2d   those of conv2d (conv.py), then [1] to [3] of quantized_dense
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph import TensorType
from .. import registry, rules
from ..cases import case
from ..epilogue import own_inputs, register_product
from ..products.byte_panels import MOST_TAPS, PANEL, bytes_type, unpack_bytes
from ..products.packed import packed_attr, takes_packed
from ..registry import REQUIRED, Attr, Body, Op
from ..rules import refuse_packed
from ..work import Product, with_bias

BYTES = ("uint8", "int8")
PLAIN = "int16"
RESULTS = (*BYTES, "int32", "float32")
GRID_ATTRS = (
    Attr("to", "str", REQUIRED, "the result's dtype", RESULTS),
    Attr("zero", "int", 0, "the result's zero point, of uint8 and int8"),
    Attr("bounds", "ints", None, "the least and the greatest result, of uint8 and int8; None: all"),
)


def on_grid(x: np.ndarray, zero: int, dtype: str, bounds: tuple[int, int] | None = None) -> np.ndarray:
    """round(x) + zero, ties to even, clipped to ``bounds``, by default those of the dtype. NaN becomes the
    least number."""
    low, high = bounds or (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    kept = np.where(np.isnan(x), low - zero, np.clip(x, low - zero, high - zero))
    return (np.rint(kept) + zero).astype(dtype)


# ---------------------------------------------------------------- rules that both products share


def check_operands(op, inputs, attrs, n):
    """Raise GraphError for attributes, or operands other than x and w, that do not fit."""
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
    fits = bounds is None or (len(bounds) == 2 and low <= bounds[0] <= bounds[1] <= high and to in BYTES)
    if not fits:
        rules.fail(op, f"bounds {list(bounds)} are no two {to} in order", got=bounds, wanted=(low, high))


def end_words(a):
    """Words of the result's grid: zero point, least and greatest number."""
    if a["to"] not in BYTES:
        return [0, 0, 0]
    info = np.iinfo(a["to"])
    return [a["zero"], *(a["bounds"] or (int(info.min), int(info.max)))]


def results_of(sums, rest, attrs, channels_at):
    """The result of int64 ``sums``; ``channels_at``: the dimension of the channels."""
    to = attrs["to"]
    shape = [1] * sums.ndim
    shape[channels_at] = sums.shape[channels_at]
    scale, bias = (*rest, None, None)[:2]
    if bias is not None and to in BYTES:
        sums = sums + bias.astype(np.int64).reshape(shape)
    sums = sums.astype(np.int64).astype(np.int32)  # wraps modulo 2^32
    if to == "int32":
        return sums
    scale = scale.reshape(shape if scale.size > 1 else ())
    with np.errstate(all="ignore"):
        y = sums.astype(np.float32) * scale
    if to == "float32":
        return y if bias is None else y + bias.reshape(shape)
    return on_grid(y, attrs["zero"], to, attrs["bounds"])


def _column_scratch(i, o, a):
    """Bytes of the offset, scale and shift of each column."""
    columns = a["packed"] or 1
    return 3 * 4 * PANEL * -(-columns // PANEL)


def is_depthwise(weight: tuple[int, ...], group: int) -> bool:
    """Whether each group of a weight [o, channels, kh, kw] has one channel in and one out."""
    return group > 1 and weight[1] == 1 and weight[0] == group


def panels_fit(inputs, attrs):
    """Op.panels: the number of columns if a constant weight goes into panels, 0 if the weight stays as it
    is."""
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


def traits(name: str) -> dict[str, Any]:
    """Bodies and other traits of a product on integer grids."""

    def body(suffix, accepts, **more):
        return Body(name + suffix, BYTES, lambda i, o: "f32", accepts=accepts, epilogue=True, **more)

    packed = body("_packed", takes_packed, scratch=_column_scratch, prebuilt=BYTES)
    return {
        "bodies": {"cpu": body("", refuse_packed)},
        "variants": {"cpu": (packed,)},
        "pace": {"cpu": "quantized"},
        "weights": (1,),
        "panels": lambda i, o, a: panels_fit(i, a),
        "sums": True,
    }


def rest_cases(n, to, bias):
    """(inputs after x and w, how they are drawn) of a case with ``n`` columns."""
    if to == "int32":
        return (), ()
    tail: tuple[tuple[str, tuple[int, ...]], ...] = (("float32", (n,)),)
    if bias:
        tail = (*tail, ("float32" if to == "float32" else "int32", (n,)))
    return tail, ("thousandths", "normal")[: len(tail)]


# ---------------------------------------------------------------- quantized_dense


def _dense_infer(inputs, attrs):
    op, (x, w) = "quantized_dense", inputs[:2]
    rules.at_least(op, "input 0", x, 1, "..,K")
    k = x.shape[-1]
    if attrs["packed"]:
        (n,) = rules.limit(op, "packed", (attrs["packed"],), 1, 1)
        wanted = bytes_type(n, k)
    else:
        rules.rank(op, "input 1 (weight)", w, 2, "N,K")
        n = w.shape[0]
        wanted = TensorType(PLAIN, (n, k))
    if w != wanted:
        rules.fail(op, f"the weight must be {wanted} beside {x}, got {w}", got=str(w), wanted=str(wanted))
    check_operands(op, inputs, attrs, n)
    return [TensorType(attrs["to"], (*x.shape[:-1], n))]


def _dense(arrays, attrs):
    x, w, zero, *rest = arrays
    k = x.shape[-1]
    w = unpack_bytes(w, attrs["packed"], k) if attrs["packed"] else w
    centred = x.astype(np.float64) - float(zero.reshape(()))
    sums = (centred @ w.T.astype(np.float64)).astype(np.int64)
    return [results_of(sums, rest, attrs, sums.ndim - 1)]


def _dense_work(i, o, a):
    product = Product(1, math.prod(i[0].shape[:-1]), i[0].shape[-1], o[0].shape[-1])
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
        for i, to in enumerate(RESULTS):
            dtype = BYTES[i % 2]
            tail, how = rest_cases(n, to, name != "one")
            row = (dtype, x), (PLAIN, (n, x[-1])), (dtype, ()), *tail, {"to": to}
            yield case(f"{name}_{to}", *row, make=("normal", "normal", "normal", *how), nmse=_EXACT)
            attrs = {"to": to, "packed": n} | ({"zero": 7, "bounds": (3, 120)} if to in BYTES else {})
            row = (dtype, x), ("int8", bytes_type(n, x[-1]).shape), (dtype, ()), *tail, attrs
            make = ("bytes", f"byte_panels:{x[-1]}", "bytes", *how)
            yield case(f"packed_{name}_{to}", *row, make=make, nmse=_EXACT)


def _dense_epilogue_cases():
    attrs: dict[str, Any] = {"to": "float32", "epilogue": [["add", [-1, 5], {}], ["gelu", [-2], {}]]}
    x, rest = ("uint8", (2, 33, 40)), (("uint8", ()), (), (65,), (2, 33, 65))
    how = ("normal", "normal", "normal", "thousandths")
    yield case("epilogue", x, (PLAIN, (65, 40)), *rest, attrs, make=how, nmse=rules.ROUNDED)
    panels, attrs = ("int8", bytes_type(65, 40).shape), {**attrs, "packed": 65}
    how = ("bytes", "byte_panels:40", "bytes", "thousandths")
    yield case("packed_epilogue", x, panels, *rest, attrs, make=how, nmse=rules.ROUNDED)


_EXACT = {"cpu": 0.0}

register_product(
    Op(
        "quantized_dense",
        "x @ w.T of numbers on integer grids, summed in int32, and the result on a grid of its own",
        (3, 5),
        _dense_infer,
        _dense,
        lambda i, o, a: 2 * o[0].size * i[0].shape[-1],
        attrs=(*GRID_ATTRS, packed_attr("outputs N")),
        words=lambda i, o, a: [a["packed"], *end_words(a)],
        **traits("quantized_dense"),
        work=_dense_work,
        cases=tuple(_dense_cases()),
    ),
    lambda made, attrs: (0, len(made.shape) - 1),
    tuple(_dense_epilogue_cases()),
)
