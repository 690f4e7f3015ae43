"""Functions of one or two numbers: rows of compositions with the dtypes that they take, and three functions
that need more code."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from ...compositions import signs, special
from ...compositions.names import NAMED
from ..counters import Unsupported
from .operands import in_float32, is_float, of_floats, of_pair
from .table import rule

_MOST_DERIVATIVES = 8  # highest derivative of digamma; higher ones would need many products

# {name of aten: function}
_ROWS = {
    **{row.torch: of_floats(row.function) for row in NAMED if row.torch},
    "logit": of_floats(special.logit),
    "isposinf": of_floats(lambda x: x.equal(math.inf)),
    "isneginf": of_floats(lambda x: x.equal(-math.inf)),
    "special_i0e": in_float32(special.i0e),
    "special_i1": in_float32(special.precise_i1),
    "special_i1e": in_float32(special.i1e),
    "special_spherical_bessel_j0": in_float32(special.spherical_j0),
    "special_ndtri": in_float32(special.ndtri),
    "sign sgn": signs.sign,
    "signbit": signs.signbit,
    "heaviside": of_pair(signs.heaviside),
    "fmax": of_pair(partial(signs.numeric, "maximum")),
    "fmin": of_pair(partial(signs.numeric, "minimum")),
    "xlogy": of_pair(partial(special.xlog, "log"), floats=True),
    "special_xlog1py": of_pair(partial(special.xlog, "log1p"), floats=True),
    "copysign": of_pair(signs.copysign, floats=True),
    "atan2": in_float32(of_pair(signs.atan2, floats=True)),
}
for _names, _function in _ROWS.items():
    rule(*_names.split())(_function)


@rule("polygamma", "special_polygamma")
@in_float32
def polygamma(n: int, x: Any) -> Any:
    if n > _MOST_DERIVATIVES:
        raise Unsupported(f"derivatives of digamma beyond number {_MOST_DERIVATIVES} run on the host")
    return special.reflected_polygamma(n, x)


@rule("nan_to_num")
def nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if not is_float(x):
        return x
    limits = torch.finfo(getattr(torch, x.dtype))
    numbers = zip((nan, posinf, neginf), (0.0, limits.max, limits.min), strict=True)
    return signs.nan_to_num(x, *(other if given is None else float(given) for given, other in numbers))


@rule("round")
def round_(x: Any, *, decimals: int = 0) -> Any:
    if not is_float(x):
        if decimals < 0:
            raise Unsupported("integers rounded to tens run on the host")
        return x
    if not decimals:
        return x.round()
    scale = float(10 ** abs(decimals))
    return (x * scale).round() / scale if decimals > 0 else (x / scale).round() * scale
