"""bias_add: adds one number to each channel.

C contract (args: x, bias, then y). Attribute words:
    bias_add   [0] axis (non-negative)   y = x + bias [x.shape[axis]] along axis; y may be written over x
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import cases, per_dtype
from ..registry import Attr, define
from ..work import Passes

_TYPES = rules.FLOATS + rules.INTS


def _bias_infer(inputs, attrs):
    x, bias = inputs
    dtype = rules.one_dtype("bias_add", inputs, _TYPES)
    axis = rules.axis_of("bias_add", attrs["axis"], len(x.shape))
    rules.shape("bias_add", "bias", bias, (x.shape[axis],), f"axis {axis} of {x}")
    return [TensorType(dtype, x.shape)]


def _bias(arrays, attrs):
    x, bias = arrays
    axis = attrs["axis"] % x.ndim
    bias = bias.reshape(-1, *(1,) * (x.ndim - axis - 1))
    return [np.add(rules.wide(x), rules.wide(bias)).astype(x.dtype)]


define(
    "bias_add",
    "x + bias along one axis (TVM's nn.bias_add: axis 1, the channels)",
    (2, 2),
    _bias_infer,
    _bias,
    lambda i, o, a: o[0].size,
    attrs=(Attr("axis", "int", 1, "the axis of x that bias runs along"),),
    words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
    bodies=rules.bodies("bias_add", _TYPES, rules.TT_FLOATS, prebuilt=rules.PREBUILT),
    inplace=(0,),
    pace={"cpu": "simple", "tt": "add"},
    work=Passes(("add",)),
    parts="bias",
    weights=(1,),
    cases=(
        *cases(
            (
                ("channels", (2, 33, 5, 40), (33,)),
                ("last", (65, 97), (97,), {"axis": -1}),
                ("rows", (3, 65, 33), (65,), {"axis": 1}),
                ("first", (40,), (40,), {"axis": 0}),
                ("empty", (0, 3), (3,)),
            ),
            rules.EXACT,
        ),
        *per_dtype(_TYPES[1:], (33, 40), (40,), nmse=rules.EXACT),
    ),
)
