"""Numbers on integer grids: quantize, dynamic_quantize, dequantize, and lookup for functions of one byte.

    quantize           saturate(round(x / scale) + zero)   ties to even; NaN becomes the least number
    dynamic_quantize   quantize to uint8, with a scale and zero point whose range has all of x and 0
    dequantize         (x - zero) * scale                  float32; the difference is int32 and wraps
    lookup             table[x], for int8 table[x + 128]

Scale and zero point are one number each, or one for each index of a dimension. quantize and dequantize are
ONNX's QuantizeLinear and DequantizeLinear; quantized_products.py has the ops that compute on grids.

C contract. The args of quantize and dequantize are x, scale, zero, y; those of dynamic_quantize x, y, scale,
zero; those of lookup x, table, y. Attribute words:
    quantize, dequantize   [0] the dimension of x along which scale and zero point go, if they have several
                           elements
    the rest               none
"""

from __future__ import annotations

import numpy as np

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..cases import case
from ..registry import Attr, Body, define
from .quantized_products import BYTES

GRIDS = ("int8", "uint8", "int16", "uint16", "int32")
_SCALES = ("float32", "float64")
_AXIS = Attr("axis", "int", 0, "the dimension of scale and zero point, if they are many")


def _check_grid(op, inputs, attrs):
    """Raise GraphError for a scale and a zero point that do not fit x."""
    x, scale, zero = inputs
    if scale.shape != zero.shape and not scale.size == zero.size == 1:
        rules.fail(op, f"scale and zero point have one shape, got {scale} and {zero}", got=zero.shape)
    if scale.size == 1 and len(scale.shape) <= 1:
        return
    axis = rules.axis_of(op, attrs["axis"], len(x.shape))
    if scale.shape != x.shape[axis : axis + 1]:
        wanted = x.shape[axis]
        text = f"the scale has {scale}, dimension {axis} of {x} has {wanted}"
        rules.fail(op, text, got=scale.shape, wanted=wanted)


def _along(values, x, attrs):
    """A scale or zero point, reshaped so that it broadcasts with x."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape(-1, *(1,) * (x.ndim - attrs["axis"] % x.ndim - 1))


def _words(i, o, a):
    return [a["axis"] % max(1, len(i[0].shape))]


# ---------------------------------------------------------------- quantize


def _quantize_infer(inputs, attrs):
    x, scale, zero = inputs
    rules.one_dtype("quantize", (x, scale), _SCALES)
    if zero.dtype not in GRIDS:
        rules.fail("quantize", f"the zero point is {zero}; grids are {', '.join(GRIDS)}", got=zero.dtype)
    _check_grid("quantize", inputs, attrs)
    return [TensorType(zero.dtype, x.shape)]


def _quantize(arrays, attrs):
    x, scale, zero = arrays
    with np.errstate(all="ignore"):
        made = np.rint(x / _along(scale, x, attrs)) + _along(zero, x, attrs).astype(x.dtype)
    info = np.iinfo(zero.dtype)
    kept = np.where(made >= info.max, info.max, np.where(made > info.min, made, info.min))
    return [kept.astype(np.int64).astype(zero.dtype).reshape(x.shape)]


def _grid_cases():
    """(name, dtype of the grid, shape of x, shape of the scale, axis) of each case."""
    for grid in GRIDS:
        for name, shape, own, axis in (
            ("one", (3, 170), (), 0),
            ("axis", (2, 5, 3, 7), (5,), 1),
            ("last", (4, 33), (33,), -1),
            ("empty", (0, 3), (1,), 0),
        ):
            yield name, grid, shape, own, axis


def _quantize_cases():
    for name, grid, shape, own, axis in _grid_cases():
        for t in _SCALES:
            make = ("normal", "thousandths" if name == "one" else "positive", "positive")
            row = shape, own, (grid, own), {"axis": axis}
            yield case(f"{name}_{grid}_{t}", *row, dtype=t, make=make, nmse=_EXACT)


_EXACT, _NORMAL = {"cpu": 0.0}, ("normal",) * 3

define(
    "quantize",
    "numbers on an integer grid: saturate(round(x / scale) + zero), ties to even",
    (3, 3),
    _quantize_infer,
    _quantize,
    lambda i, o, a: 4 * o[0].size,
    attrs=(_AXIS,),
    words=_words,
    bodies={"cpu": Body("quantize", _SCALES, rules.by_dtype, prebuilt=("float32",))},
    kind="elementwise",
    pace={"cpu": "simple"},
    cases=tuple(_quantize_cases()),
)


# ---------------------------------------------------------------- dynamic_quantize


def _dynamic_infer(inputs, attrs):
    (x,) = inputs
    rules.one_dtype("dynamic_quantize", (x,), ("float32",))
    return [TensorType("uint8", x.shape), TensorType("float32", ()), TensorType("uint8", ())]


def _dynamic(arrays, attrs):
    (x,) = arrays
    low, high = (np.float32(end(x, initial=0)) for end in (np.min, np.max))
    with np.errstate(all="ignore"):
        scale = np.asarray((high - low) / np.float32(255))
        point = np.rint(-low / scale)
    zero = np.asarray(0 if np.isnan(point) else np.clip(point, 0, 255)).astype(np.uint8)
    return [*_quantize([x, scale, zero], {"axis": 0}), scale, zero]


define(
    "dynamic_quantize",
    "numbers on the uint8 grid that covers them and 0, its scale, its zero point",
    (1, 1),
    _dynamic_infer,
    _dynamic,
    lambda i, o, a: 6 * o[0].size,
    bodies={"cpu": Body("dynamic_quantize", ("float32",), rules.by_dtype)},
    kind="reduction",
    pace={"cpu": "simple"},
    cases=tuple(
        case(name, shape, make=(make,), nmse=_EXACT)
        for name, shape, make in (
            ("normal", (3, 170), "normal"),
            ("above", (2, 5, 3, 7), "positive"),
            ("long", (5, 40000), "wide"),
            ("number", (), "normal"),
            ("empty", (0, 3), "normal"),
        )
    ),
)


# ---------------------------------------------------------------- dequantize


def _dequantize_infer(inputs, attrs):
    x, scale, zero = inputs
    rules.one_dtype("dequantize", (x, zero), GRIDS)
    rules.one_dtype("dequantize", (scale,), ("float32",))
    _check_grid("dequantize", inputs, attrs)
    return [TensorType("float32", x.shape)]


def _dequantize(arrays, attrs):
    x, scale, zero = arrays
    apart = (x.astype(np.int64) - _along(zero, x, attrs).astype(np.int64)).astype(np.int32)
    with np.errstate(all="ignore"):
        return [(apart.astype(np.float32) * _along(scale, x, attrs)).reshape(x.shape)]


define(
    "dequantize",
    "numbers of an integer grid as float32: (x - zero) * scale",
    (3, 3),
    _dequantize_infer,
    _dequantize,
    lambda i, o, a: 2 * o[0].size,
    attrs=(_AXIS,),
    words=_words,
    bodies={"cpu": Body("dequantize", GRIDS, rules.by_dtype, prebuilt=BYTES)},
    late=True,
    kind="elementwise",
    pace={"cpu": "simple"},
    cases=tuple(
        case(f"{name}_{grid}", (grid, shape), own, (grid, own), {"axis": axis}, make=_NORMAL, nmse=_EXACT)
        for name, grid, shape, own, axis in _grid_cases()
    ),
)


# ---------------------------------------------------------------- lookup


def _lookup_infer(inputs, attrs):
    x, table = inputs
    rules.one_dtype("lookup", (x,), BYTES)
    if table.dtype not in BYTES or table.shape != (256,):
        rules.fail("lookup", f"the table is 256 of {' or '.join(BYTES)}, got {table}", got=str(table))
    return [TensorType(table.dtype, x.shape)]


def _lookup(arrays, attrs):
    x, table = arrays
    return [table[x.astype(np.int64) - int(np.iinfo(x.dtype).min)]]


def table_of(dtype: str) -> np.ndarray:
    """All 256 numbers of a one-byte dtype, in the order of a lookup table."""
    info = np.iinfo(dtypes.to_numpy(dtype))
    return np.arange(int(info.min), int(info.max) + 1).astype(dtype)


define(
    "lookup",
    "a function of one byte, by a table of 256",
    (2, 2),
    _lookup_infer,
    _lookup,
    bodies={"cpu": Body("lookup", BYTES, rules.by_dtype, prebuilt=BYTES)},
    kind="elementwise",
    pace={"cpu": "simple"},
    cases=tuple(
        case(f"{a}_{b}_{n}", (a, (n, 7)), (b, (256,)), make=("bytes", "bytes"), nmse=_EXACT)
        for a in BYTES
        for b in BYTES
        for n in (1, 9, 40, 0)
    ),
)
