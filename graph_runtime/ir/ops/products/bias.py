"""bias_add: one number a channel.

C contract (args: x, bias, then y). Attribute words:
    bias_add  [0] axis (non-negative)   x, bias [x.shape[axis]] -> x + bias along axis; may write over x
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..registry import Attr, Body, Case, Op, register
from ..work import Passes


def _bias_infer(inputs, attrs):
    x, bias = inputs
    dtype = rules.one_dtype("bias_add", inputs, rules.FLOATS + rules.INTS)
    axis = rules.axis_of("bias_add", attrs["axis"], len(x.shape))
    if bias.shape != (x.shape[axis],):
        rules.fail(
            "bias_add",
            f"bias must have shape [{x.shape[axis]}] (axis {axis} of {x}), got {bias}",
            got=bias.shape,
            wanted=(x.shape[axis],),
        )
    return [TensorType(dtype, x.shape)]


def _bias(arrays, attrs):
    x, bias = arrays
    axis = attrs["axis"] % x.ndim
    bias = bias.reshape(-1, *(1,) * (x.ndim - axis - 1))
    return [np.add(rules.wide(x), rules.wide(bias)).astype(x.dtype)]


_BIAS_TYPES = rules.FLOATS + rules.INTS
register(
    Op(
        "bias_add",
        "x + bias along one axis (TVM's nn.bias_add: axis 1, the channels)",
        (2, 2),
        _bias_infer,
        _bias,
        lambda i, o, a: o[0].size,
        attrs=(Attr("axis", "int", 1, "the axis of x that bias runs along"),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        bodies={
            "cpu": Body("bias_add", _BIAS_TYPES, rules.by_dtype, prebuilt=rules.PREBUILT),
            "tt": Body("bias_add", rules.TT_FLOATS),
        },
        inplace=(0,),
        pace={"cpu": "simple", "tt": "add"},
        work=Passes(("add",)),
        parts="bias",
        weights=(1,),
        cases=(
            Case("channels", (("float32", (2, 33, 5, 40)), ("float32", (33,))), nmse=rules.EXACT),
            Case("last", (("float32", (65, 97)), ("float32", (97,))), {"axis": -1}, nmse=rules.EXACT),
            Case("rows", (("float32", (3, 65, 33)), ("float32", (65,))), {"axis": 1}, nmse=rules.EXACT),
            Case("first", (("float32", (40,)), ("float32", (40,))), {"axis": 0}, nmse=rules.EXACT),
            Case("empty", (("float32", (0, 3)), ("float32", (3,))), nmse=rules.EXACT),
            *(Case(t, ((t, (33, 40)), (t, (40,))), nmse=rules.EXACT) for t in _BIAS_TYPES[1:]),
        ),
    )
)
