"""Bounds of integer results: an operation of 64-bit integers runs on the device in int32 if its inputs and
its result are known to fit.

A Store has a ``bound``: no int64 in it is larger in magnitude. Uploads measure the bound, fills and ranges
know it, and for other operations a function below computes the bound of the result from the bounds of the
arguments. ranges.py applies the same table to compiled graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .recording import spoil
from .store import store_of

MOST = 2**31 - 1
ANY = 2**63  # the largest magnitude of int64
_OF_DTYPE = {torch.bool: 1, torch.uint8: 255, torch.int8: 128, torch.int16: 2**15, torch.int32: 2**31}

Bound = Callable[..., int]  # function of an operation's arguments, with a Magnitude for each tensor


def dtype_bound(dtype: torch.dtype) -> float:
    """The largest magnitude of a dtype's values."""
    return math.inf if dtype.is_floating_point or dtype.is_complex else _OF_DTYPE.get(dtype, ANY)


def bound_of(x: torch.Tensor) -> int | None:
    """The largest magnitude of an integer tensor's values; None if it is not known, and for floats."""
    if x.dtype not in (torch.int64, torch.int32):
        return _OF_DTYPE.get(x.dtype)
    if not x.numel():
        return 0
    if x.device.type == "cpu":
        low, high = torch.aminmax(x)
        return max(abs(int(low)), abs(int(high)))
    spoil()
    store = store_of(x)
    known = store.bound if store.dtype == x.dtype else None
    return _OF_DTYPE.get(x.dtype) if known is None else known


def _is_float(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


class Magnitude(int):
    """The largest magnitude of a tensor's values, with its ``count`` of elements."""

    count: int

    @classmethod
    def of(cls, bound: int, count: int) -> Magnitude:
        made = cls(bound)
        made.count = count
        return made


def _magnitude(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        found = 0 if _is_float(x) else bound_of(x)
        if found is None:
            raise LookupError
        return Magnitude.of(found, x.numel())
    if isinstance(x, (list, tuple)):
        return [_magnitude(item) for item in x]
    return x


def result_bound(name: str, args: Any, kwargs: Any) -> int | None:
    """The bound of an operation's integer results; None if the bound of the result or of an argument is
    unknown or does not fit 32 bits."""
    make = BOUNDS.get(name)
    leaves = tree_leaves((args, kwargs))
    if make is None or (
        name in KEEPING and any(isinstance(x, torch.Tensor) and _is_float(x) for x in leaves)
    ):
        return None  # floats have no bound here, and results may be elements of a float argument
    try:
        given = [_magnitude(arg) for arg in args]
        more = {key: _magnitude(arg) for key, arg in kwargs.items()}
        known = [x for x in tree_leaves((given, more)) if isinstance(x, Magnitude)]
        made = int(make(*given, **more))
    except (LookupError, TypeError, OverflowError, ValueError):
        return None
    return made if made <= MOST and all(x <= MOST or x == 2**31 for x in known) else None


# **************** bounds of single operations ****************


def _first(x: Any, *rest: Any, **more: Any) -> int:
    return x


def _size(x: Any) -> int:
    return -int(-abs(x) // 1)


def _largest(*args: Any, **more: Any) -> int:
    """The largest magnitude of all tensors and numbers, for operations whose results may be elements of any
    argument."""
    numbers = [x for x in tree_leaves((args, more)) if isinstance(x, (int, float))]
    return max((_size(x) for x in numbers), default=0)


def _power(a: Any, b: Any) -> int:
    if isinstance(b, Magnitude) or b < 0:
        raise LookupError
    return _size(a) ** int(b)


def _multiplied(x: Any, *args: Any, **more: Any) -> int:
    """The bound of a product of any number of the elements."""
    if x > 1 and x.count > 64:
        raise LookupError
    return max(x, 1) ** max(x.count, 1)


def _clamped(x: Any, low: Any = None, high: Any = None, **more: Any) -> int:
    """The larger of the magnitudes of the two limits. If only one limit is given: the larger of its magnitude
    and x's bound."""
    low, high = more.get("min", low), more.get("max", high)
    known = [_size(bound) for bound in (low, high) if bound is not None]
    return max(known) if len(known) == 2 else max(x, *known, 0)


def _put(x: Any, index: Any, values: Any, accumulate: bool = False, *rest: Any) -> int:
    count = math.prod(i.count for i in index if isinstance(i, Magnitude))
    return _added(x, count, values) if accumulate else _largest(x, values)


def _scattered(x: Any, dim: int, index: Any, values: Any, *, reduce: str | None = None) -> int:
    if reduce == "multiply":
        raise LookupError
    return _largest(x, values) if reduce is None else _added(x, index.count, values)


def _added(x: Any, count: int, values: Any) -> int:
    """The bound of an element of x to which ``count`` values are added."""
    return _size(x) + count * _size(values)


_KEEPING = (
    "index _unsafe_index gather index_select embedding flip roll repeat tril triu diagonal diagonal_copy "
    "clone alias detach contiguous lift_fresh_copy view _unsafe_view reshape _reshape_copy view_copy expand "
    "permute transpose t squeeze unsqueeze slice select split split_with_sizes unbind as_strided amax amin "
    "_to_copy convert_element_type relu take"
).split()  # operations whose results are elements of the first argument
_ANY_OF = (
    "minimum maximum where clamp_min clamp_max cat stack masked_fill index_copy index_fill slice_scatter "
    "select_scatter constant_pad_nd copy fill full_like new_full"
).split()  # operations whose results are elements of any argument, or numbers among the arguments
KEEPING = frozenset((*_KEEPING, *_ANY_OF))  # operations that leave -2^31 unchanged, which fits int32

_ROWS: dict[str, Bound] = {
    "add sub": lambda a, b, *, alpha=1: _size(a) + _size(alpha) * _size(b),
    "rsub": lambda a, b, alpha=1: _size(b) + _size(alpha) * _size(a),
    "mul": lambda a, b: _size(a) * _size(b),
    "square": lambda a: a * a,
    "sum cumsum nansum trace": lambda x, *args, **more: x * max(x.count, 1),
    "prod cumprod": _multiplied,
    "pow": _power,
    "floor_divide div bitwise_right_shift __rshift__": lambda a, b, **more: _size(a),
    "remainder fmod": lambda a, b: _size(b),
    "bitwise_and bitwise_or bitwise_xor": lambda *args: (1 << max(_size(a).bit_length() for a in args)) - 1,
    "bitwise_not": lambda a: a + 1,
    "bitwise_left_shift __lshift__": lambda a, b: _size(a) << min(_size(b), 64),
    "eq ne lt le gt ge logical_and logical_or logical_xor": lambda *args, **more: 1,
    "logical_not any all isin signbit sign sgn zeros_like ones_like zero": lambda *args, **more: 1,
    "neg abs aminmax": _first,
    "clamp": _clamped,
    # operations whose results are positions of elements, or numbers of elements
    "argmax argmin count_nonzero searchsorted": lambda x, *args, **more: x.count,
    "bucketize": lambda values, order, **more: order.count,
    # operations whose results are elements and the positions of these elements
    "max min sort topk median kthvalue": lambda x, *args, **more: max(x, x.count),
    "index_put _index_put_impl _unsafe_index_put": _put,
    "scatter": _scattered,
    "scatter_add index_add": lambda x, dim, index, values, *, alpha=1: _added(
        x, index.count, _size(values) * _size(alpha)
    ),
}
BOUNDS: dict[str, Bound] = {
    **dict.fromkeys(_KEEPING, _first),
    **dict.fromkeys(_ANY_OF, _largest),
    **{name: bound for names, bound in _ROWS.items() for name in names.split()},
}


def _quotient(a: Any, b: Any) -> int:
    if isinstance(b, Magnitude) or not b:
        raise LookupError
    return _size(a / b)


# bounds of float results, for arguments that are known not to be NaN; then no result is NaN
OF_FLOATS: dict[str, Bound] = {
    **{name: BOUNDS[name] for name in (*KEEPING, "add", "sub", "rsub", "mul", "neg", "abs", "clamp")},
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "sigmoid", "tanh"), lambda x, **more: max(x, 1)),
    "div": _quotient,
}
