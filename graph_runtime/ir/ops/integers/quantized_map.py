"""quantized_map: elementwise ops with broadcasting on numbers of integer grids, made by
rewrite/integers/quantized.py.

Inputs of bytes become (x - zero) * scale; inputs of float32 stay as they are. The steps run in float32, and
the result goes to its grid as by quantize.

C contract: args are the inputs, then the output. Attribute words: two for each arg, the scale (the bits of a
double) and the zero point; then the steps (steps.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph import TensorType
from .. import rules, steps
from ..cases import case
from ..registry import REQUIRED, Attr, Body, define
from ..work import Work
from .quantized_products import BYTES

_OP = "quantized_map"
_TYPES = (*BYTES, "float32")


def _infer(inputs, attrs):
    body, count = attrs["body"], len(inputs) + 1
    for t in inputs:
        if t.dtype not in _TYPES:
            rules.fail(_OP, f"an input is {t}; it takes {', '.join(_TYPES)}", got=t.dtype, wanted=_TYPES)
    if len(attrs["scales"]) != count or len(attrs["zeros"]) != count:
        text = f"{len(inputs)} inputs and a result have {count} scales and zero points"
        rules.fail(_OP, text, wanted=count)
    for t, zero in zip((*(t.dtype for t in inputs), attrs["to"]), attrs["zeros"], strict=True):
        if t in BYTES and not np.iinfo(t).min <= zero <= np.iinfo(t).max:
            rules.fail(_OP, f"the zero point {zero} is no {t}", got=zero)
    floats = [TensorType("float32", t.shape) for t in inputs]
    made = steps.result_type(_OP, body, floats)
    if steps.extras(body) != tuple(range(len(inputs))):
        rules.fail(_OP, f"the body reads {steps.extras(body)}, there are {len(inputs)}", got=len(inputs))
    if made.shape != rules.broadcast(_OP, *(t.shape for t in inputs)):
        rules.fail(
            _OP,
            f"the last step makes {made}, which is smaller than the shape to which the inputs broadcast",
            got=made,
        )
    return [TensorType(attrs["to"], made.shape)]


def _reference(arrays, attrs):
    from .quantized import _dequantize, _quantize

    floats = []
    for x, scale, zero in zip(arrays, attrs["scales"], attrs["zeros"], strict=False):
        grid = [np.asarray(scale, np.float32), np.asarray(zero, x.dtype)]
        floats.append(x if x.dtype == np.float32 else _dequantize([x, *grid], {"axis": 0})[0])
    made = np.asarray(steps.run(attrs["body"], floats))
    if attrs["to"] == "float32":
        return [made]
    grid = [np.asarray(attrs["scales"][-1], np.float32), np.asarray(attrs["zeros"][-1], attrs["to"])]
    return _quantize([made, *grid], {"axis": 0})


def _words(i, o, a):
    grids = [
        w
        for s, z in zip(a["scales"], a["zeros"], strict=True)
        for w in (rules.float_word(float(np.float32(s))), z)
    ]
    return [*grids, *steps.words(a["body"], False)]


_EXACT = {"cpu": 0.0}
_SHAPES = (
    ("same", ((2, 5, 7, 9), (2, 5, 7, 9))),
    ("columns", ((33, 70), (70,))),
    ("channels", ((2, 5, 7, 9), (5, 1, 1))),
    ("number", ((3, 1031), ())),
    ("outer", ((4, 1, 33), (1, 5, 1))),
    ("empty", ((0, 3), (3,))),
)


def _pair_cases():
    """Cases of one op on two tensors of bytes: both orders of the tensors, all signs, and scales within and
    beyond the limits of the kernel that reads and writes each byte once."""
    for i, ((name, shapes), op) in enumerate((s, op) for s in _SHAPES for op in ("add", "multiply")):
        for to in BYTES:
            dtypes = (BYTES[i % 2], BYTES[i // 2 % 2])
            near, far = (0.031, 0.017, 0.043), (2.0**-30, 2.0**-31, 2.0**-30)
            attrs: dict[str, Any] = {"body": [[op, [0, 1], {}]], "to": to, "zeros": (3, 7, 11)}
            attrs |= {"scales": far if i % 5 == 4 else near}
            inputs = zip(dtypes, shapes[:: -1 if i % 3 == 0 else 1], strict=True)
            yield case(f"{op}_{name}_{to}", *inputs, attrs, make=("bytes", "bytes"), nmse=_EXACT)


def _cases():
    add = [["add", [0, 1], {}], ["relu", [-1], {}]]
    for name, shapes in _SHAPES:
        for i, to in enumerate(_TYPES):
            inputs = zip((_TYPES[i], _TYPES[(i + 1) % 3]), shapes, strict=True)
            attrs = {"body": add, "to": to, "scales": (0.031, 0.017, 0.043), "zeros": (3, 7, 11)}
            make = ("bytes", "normal") if i < 2 else ("normal", "bytes")
            yield case(f"{name}_{to}", *inputs, attrs, make=make, nmse=_EXACT)


define(
    _OP,
    "elementwise ops with broadcasting on numbers of integer grids, one kernel",
    (1, steps.MOST_INPUTS),
    _infer,
    _reference,
    lambda i, o, a: steps.flops(a["body"], o[0]) + 4 * o[0].size,
    attrs=(
        Attr("body", "steps", REQUIRED, "the steps; input k, -1 - j the result of step j"),
        Attr("to", "str", REQUIRED, "the result's dtype", _TYPES),
        Attr("scales", "floats", REQUIRED, "scale of each input and of the result; any number for float32"),
        Attr("zeros", "ints", REQUIRED, "zero point of each, likewise"),
    ),
    words=_words,
    bodies={"cpu": Body(_OP, _TYPES, lambda i, o: "f32", prebuilt=_TYPES)},
    pace={"cpu": "simple"},
    work=lambda i, o, a: Work(),  # the work of the steps counts instead
    program="body",
    cases=(*_cases(), *_pair_cases()),
)
