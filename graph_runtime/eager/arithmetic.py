"""Elementwise functions of numpy that are not exactly one op of the registry (those that are:
elementwise.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..run.single.apply import Refused, apply
from ..run.single.fallback import device_first, only
from ..run.single.operands import cast, common, device_of, dtype_key, on_device, tensor, together
from ..run.tensors.tensor import Tensor
from .elementwise import ELEMENTWISE


@device_first(np.round)
def round(a: Tensor, decimals: int = 0, **more: Any) -> Tensor:
    """Floats rounded to the nearest integers. numpy itself rounds integers, and floats if ``decimals`` is not
    0."""
    only(more)
    if decimals != 0:
        raise Refused("rounding to decimals has no kernel")
    return ELEMENTWISE["rint"].body(a)


@device_first(np.remainder)
def remainder(a: Any, b: Any, **more: Any) -> Tensor:
    """The remainder of a / b, with the sign of b; 0 for an integer b of 0."""
    return _mod("remainder", a, b, False, more)


@device_first(np.fmod)
def fmod(a: Any, b: Any, **more: Any) -> Tensor:
    """The remainder of a / b, with the sign of a; 0 for an integer b of 0."""
    return _mod("fmod", a, b, True, more)


def _mod(name: str, a: Any, b: Any, truncated: bool, more: dict[str, Any]) -> Tensor:
    only(more)
    known = type(b) is int and b != 0
    a, b = together(name, a, b)
    if not _is_float(_numeric(a)) and not known:  # divisors of 0, which the op refuses, become 1
        b = apply("where", (), cast(b, "bool"), b, on_device(1, b.device, b.dtype))
    return apply("mod", (("fmod", truncated),), a, b)


# dtypes and Python types of integers that fit int64
_EXPONENTS = {int, *(t for t, f in dtypes.BY_DTYPE.items() if f.kind in ("int", "uint") and f.digits < 64)}


@device_first(np.ldexp)
def ldexp(x: Any, exponent: Any, **more: Any) -> Tensor:
    """x times 2 to an integer power, for float32 and float64 only, because their range covers the
    exponents."""
    only(more)
    device, by = device_of("ldexp", x, exponent), dtype_key(exponent)
    if by not in _EXPONENTS:
        raise Refused("an exponent is no integer")
    dtype = common(device, dtype_key(x))
    if dtype not in dtypes.FLOATS or dtype in dtypes.NARROW_FLOATS:
        raise Refused("numpy computes ldexp of other dtypes")
    return apply("ldexp", (), on_device(x, device, dtype), on_device(exponent, device, dtype))


@device_first(np.positive)
def positive(x: Tensor, **more: Any) -> Tensor:
    """A copy of x."""
    only(more)
    return ELEMENTWISE["multiply"].body(_numeric(x), 1)


@device_first(np.reciprocal)
def reciprocal(x: Tensor, **more: Any) -> Tensor:
    """1 / x for floats; numpy itself computes it for integers."""
    only(more)
    if not _is_float(x):
        raise Refused("an integer reciprocal has no kernel")
    return ELEMENTWISE["divide"].body(1, x)


@device_first(np.power)
def power(a: Any, b: Any, **more: Any) -> Tensor:
    """a ** b for floats, and for integers with an exponent of 1 or 2; numpy itself computes the rest."""
    only(more)
    if isinstance(a, Tensor) and type(b) in (int, float) and not isinstance(b, bool):
        if b == 2 and (_is_float(a) or type(b) is int):
            return ELEMENTWISE["multiply"].body(a, a)
        if b == 1 and (_is_float(a) or type(b) is int):
            return positive.body(a)
        if b == 0.5 and _is_float(a):
            return ELEMENTWISE["sqrt"].body(a)
    a, b = together("power", a, b)
    if not _is_float(a):
        raise Refused("numpy computes powers of integers")
    return apply("power", (), a, b)


@device_first(np.clip)
def clip(
    a: Tensor, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, **more: Any
) -> Tensor:
    """The elements of a, limited to the range ``a_min`` to ``a_max``."""
    only(more)
    low, high = a_min if min is None else min, a_max if max is None else max
    if low is not None:
        a = ELEMENTWISE["maximum"].body(a, low)
    return a if high is None else ELEMENTWISE["minimum"].body(a, high)


@device_first(np.where)
def where(condition: Any, *choices: Any) -> Tensor:
    """Elements of the first choice where the condition is true, and of the second choice elsewhere. Without
    choices, numpy itself computes the indices at which the condition is true."""
    if len(choices) != 2:
        raise Refused("where without choices has no kernel")
    device = device_of("where", condition, *choices)
    to = common(device, *map(dtype_key, choices))
    chosen = [on_device(choice, device, to) for choice in choices]
    return apply("where", (), on_device(condition, device, "bool"), *chosen)


def astype(x: Tensor, dtype: Any, copy: bool = True) -> Tensor:
    """The values in another dtype; from float to integer they are truncated toward zero. The result is x
    itself if x has the dtype already and ``copy`` is False, else a new handle."""
    name = dtypes.from_numpy(dtype)
    if name == x.dtype and not copy:
        return x
    return _astype(x, name)


@device_first(lambda x, name: x.astype(dtypes.to_numpy(name)))
def _astype(x: Tensor, name: str) -> Tensor:
    return cast(x, name)


def _is_float(x: Any) -> bool:
    return tensor(x).dtype in dtypes.FLOATS


def _numeric(x: Any) -> Tensor:
    """The tensor x itself. Raises Refused for a tensor of bools, because numpy has special rules for
    bools."""
    if tensor(x).dtype == "bool":
        raise Refused("bool has no kernel for this")
    return x
