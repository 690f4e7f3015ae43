"""How large results of integers can be: an operation of 64-bit integers runs on the device, as one of int32,
where its inputs and its result are known to fit.

A Store knows a ``bound``: no value of its int64 is larger in magnitude. Uploads measure it, fills and ranges
give it, and each operation below makes the bound of its result of those of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .store import store_of

__all__ = ["BOUNDS", "MOST", "bound_of", "result_bound"]

MOST = 2**31 - 1
_OF_DTYPE = {torch.bool: 1, torch.uint8: 255, torch.int8: 128, torch.int16: 2**15, torch.int32: 2**31}

Bound = Callable[..., int]  # of an operation's arguments, magnitudes for tensors


def bound_of(x: torch.Tensor) -> int | None:
    """The largest magnitude of an integer tensor's values; None where it is not known, or for floats."""
    if x.dtype not in (torch.int64, torch.int32):
        return _OF_DTYPE.get(x.dtype)
    if not x.numel():
        return 0
    if x.device.type == "cpu":
        low, high = torch.aminmax(x)
        return max(abs(int(low)), abs(int(high)))
    store = store_of(x)
    known = store.bound if store.dtype == x.dtype else None
    return _OF_DTYPE.get(x.dtype) if known is None else known


class _Magnitude(int):
    """Of a tensor's values, with the tensor's ``count`` of elements and ``shape``."""

    count: int
    shape: torch.Size


def _magnitude(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        found = bound_of(x) if not x.dtype.is_floating_point else 0
        if found is None:
            raise LookupError
        made = _Magnitude(found)
        made.count, made.shape = x.numel(), x.shape
        return made
    if isinstance(x, (list, tuple)):
        return [_magnitude(item) for item in x]
    return x


def result_bound(name: str, args: Any, kwargs: Any) -> int | None:
    """The bound of the integers that an operation makes; None where an argument's, or its own, is not known,
    or one does not fit 32 bits."""
    make = BOUNDS.get(name)
    if make is None:
        return None
    try:
        given = [_magnitude(arg) for arg in args]
        more = {key: _magnitude(arg) for key, arg in kwargs.items()}
        known = [x for x in tree_leaves((given, more)) if isinstance(x, _Magnitude)]
        made = int(make(*given, **more))
    except (LookupError, TypeError, OverflowError, ValueError):
        return None
    return made if made <= MOST and all(x <= MOST or x == 2**31 for x in known) else None


# **************** of single operations ****************


def _first(x: Any, *rest: Any, **more: Any) -> int:
    return x


def _size(x: Any) -> int:
    return -int(-abs(x) // 1)


def _largest(*args: Any, **more: Any) -> int:
    """Of everything: tensors and numbers that become elements."""
    numbers = [x for x in tree_leaves((args, more)) if isinstance(x, (int, float))]
    return max((_size(x) for x in numbers), default=0)


def _sum(a: Any, b: Any, *, alpha: Any = 1) -> int:
    return _size(a) + _size(alpha) * _size(b)


def _product(a: Any, b: Any) -> int:
    return _size(a) * _size(b)


def _total(x: Any, *args: Any, **more: Any) -> int:
    return x * max(x.count, 1)


def _bits(*args: Any) -> int:
    return (1 << max(_size(a).bit_length() for a in args)) - 1


def _divided(a: Any, b: Any, **more: Any) -> int:
    return _size(a)


def _rest(a: Any, b: Any) -> int:
    return _size(b)


def _none(*args: Any, **more: Any) -> int:
    return 0


def _power(a: Any, b: Any) -> int:
    if isinstance(b, _Magnitude) or b < 0:
        raise LookupError
    return _size(a) ** int(b)


BOUNDS: dict[str, Bound] = {
    **dict.fromkeys(("add", "sub", "rsub"), _sum),
    "mul": _product,
    **dict.fromkeys(("sum", "cumsum", "nansum"), _total),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _bits),
    "bitwise_not": lambda a: a + 1,
    **dict.fromkeys(("floor_divide", "div"), _divided),
    **dict.fromkeys(("remainder", "fmod"), _rest),
    "pow": _power,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"), _none),
    **dict.fromkeys(
        ("logical_not", "any", "all", "argmax", "argmin", "isin", "count_nonzero", "signbit"), _none
    ),
    **dict.fromkeys(("neg", "abs", "amax", "amin", "max", "min", "sort", "topk"), _first),
    "square": lambda a: a * a,
    "sgn": lambda a: 1,
    "sign": lambda a: 1,
    **dict.fromkeys(
        (
            "index",
            "_unsafe_index",
            "gather",
            "index_select",
            "embedding",
            "flip",
            "roll",
            "repeat",
            "tril",
            "triu",
        ),
        _first,
    ),
    **dict.fromkeys(("diagonal_copy", "take"), _first),
    "trace": _total,
    **dict.fromkeys(
        (
            "minimum",
            "maximum",
            "where",
            "clamp",
            "clamp_min",
            "clamp_max",
            "cat",
            "stack",
            "masked_fill",
            "scatter",
            "index_put",
            "_index_put_impl",
            "index_copy",
            "index_fill",
            "slice_scatter",
            "select_scatter",
            "constant_pad_nd",
        ),
        _largest,
    ),
    **dict.fromkeys(("bitwise_left_shift", "__lshift__"), lambda a, b: _size(a) << _size(b)),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__"), _divided),
}
