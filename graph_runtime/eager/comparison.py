"""Comparisons, logic, bits, where and what a float is: numpy's names over the registry's ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import FLOATS, is_integer
from ..run.single.apply import Refused, apply
from ..run.single.elementwise import binary
from ..run.single.fallback import NumpyLike, device_first, only
from ..run.single.operands import device_of, dtype_key, on_device, tensor, together
from ..run.single.promotion import common
from ..run.tensors.tensor import Tensor

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "invert",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "right_shift",
    "where",
]


def _compared(op: str, ufunc: np.ufunc, doc: str) -> Callable[..., Any]:
    """A comparison. Integers that share no integer dtype are numpy's, which compares them exactly."""

    def body(a: Any, b: Any, **more: Any) -> Tensor:
        only(more)
        keys = [dtype_key(x) for x in (a, b)]
        whole = all(k in (int, bool) or is_integer(k) for k in keys)
        to = common(device_of(op, a, b), *keys)
        if whole and to in FLOATS:
            raise Refused("the integers have no common dtype")
        try:
            return apply(op, (), *together(op, a, b, dtype=to))
        except OverflowError:
            raise Refused("a scalar lies outside of the dtype") from None

    return device_first(ufunc, doc)(body)


equal = _compared("equal", np.equal, "a == b")
not_equal = _compared("not_equal", np.not_equal, "a != b")
less = _compared("less", np.less, "a < b")
less_equal = _compared("less_equal", np.less_equal, "a <= b")
greater = _compared("greater", np.greater, "a > b")
greater_equal = _compared("greater_equal", np.greater_equal, "a >= b")

bitwise_and: NumpyLike = binary("bitwise_and", np.bitwise_and, "The bits that a and b have.")
bitwise_or: NumpyLike = binary("bitwise_or", np.bitwise_or, "The bits that a or b has.")
bitwise_xor: NumpyLike = binary("bitwise_xor", np.bitwise_xor, "The bits that exactly one of a and b has.")
left_shift: NumpyLike = binary("shift_left", np.left_shift, "a times 2 to the b.")
right_shift: NumpyLike = binary("shift_right", np.right_shift, "a over 2 to the b, rounded down.")


def _logical(op: str, ufunc: np.ufunc, doc: str) -> Callable[..., Any]:
    """Logic of values, which are true where they are not 0."""

    def body(*operands: Any, **more: Any) -> Tensor:
        only(more)
        device = device_of(op, *operands)
        return apply(op, (), *(on_device(x, device, "bool") for x in operands))

    return device_first(ufunc, doc)(body)


logical_and = _logical("logical_and", np.logical_and, "a and b")
logical_or = _logical("logical_or", np.logical_or, "a or b")
logical_xor = _logical("logical_xor", np.logical_xor, "Exactly one of a and b.")
logical_not = _logical("logical_not", np.logical_not, "not a")


@device_first(np.invert)
def invert(x: Tensor, **more: Any) -> Tensor:
    """All bits turned over; not x of bools."""
    only(more)
    return apply("bitwise_not", (), tensor(x))


@device_first(np.isnan)
def isnan(x: Tensor, **more: Any) -> Tensor:
    """Where x is NaN."""
    only(more)
    return apply("isnan", (), tensor(x))


@device_first(np.isinf)
def isinf(x: Tensor, **more: Any) -> Tensor:
    """Where x is infinite."""
    only(more)
    return apply("isinf", (), tensor(x))


@device_first(np.where)
def where(condition: Any, *choices: Any) -> Tensor:
    """Elements of the first choice where the condition is true, of the second elsewhere. Without choices, the
    indices of what is true: numpy's own."""
    if len(choices) != 2:
        raise Refused("where without choices has no kernel")
    device = device_of("where", condition, *choices)
    to = common(device, *map(dtype_key, choices))
    chosen = [on_device(choice, device, to) for choice in choices]
    return apply("where", (), on_device(condition, device, "bool"), *chosen)
