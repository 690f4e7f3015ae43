"""How large results of integers can be: an operation of 64-bit integers runs on the device, as one of int32,
where its inputs and its result are known to fit.

A Store knows a ``bound``: no value of its int64 is larger in magnitude. Uploads measure it, fills and ranges
give it, and each operation below makes the bound of its result of those of its arguments. Compiled graphs are
looked at by the same table (ranges.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .recording import spoil
from .store import store_of

__all__ = [
    "ANY",
    "BOUNDS",
    "KEEPING",
    "MOST",
    "OF_FLOATS",
    "Magnitude",
    "bound_of",
    "dtype_bound",
    "result_bound",
]

MOST = 2**31 - 1
ANY = 2**63  # of int64
_OF_DTYPE = {torch.bool: 1, torch.uint8: 255, torch.int8: 128, torch.int16: 2**15, torch.int32: 2**31}

Bound = Callable[..., int]  # of an operation's arguments, magnitudes for tensors


def dtype_bound(dtype: torch.dtype) -> float:
    """The largest magnitude of a dtype's values."""
    return math.inf if dtype.is_floating_point or dtype.is_complex else _OF_DTYPE.get(dtype, ANY)


def bound_of(x: torch.Tensor) -> int | None:
    """The largest magnitude of an integer tensor's values; None where it is not known, or for floats."""
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
    """Of a tensor's values, with the tensor's ``count`` of elements."""

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
    """The bound of the integers that an operation makes; None where an argument's, or its own, is not known,
    or one does not fit 32 bits."""
    make = BOUNDS.get(name)
    leaves = tree_leaves((args, kwargs))
    if make is None or (
        name in KEEPING and any(isinstance(x, torch.Tensor) and _is_float(x) for x in leaves)
    ):
        return None  # what becomes an element is not looked at where it is a float
    try:
        given = [_magnitude(arg) for arg in args]
        more = {key: _magnitude(arg) for key, arg in kwargs.items()}
        known = [x for x in tree_leaves((given, more)) if isinstance(x, Magnitude)]
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
    return 1


def _place(x: Any, *args: Any, **more: Any) -> int:
    """A place of an element, or how many there are."""
    return x.count


def _either(x: Any, *args: Any, **more: Any) -> int:
    """Elements and their places."""
    return max(x, x.count)


def _power(a: Any, b: Any) -> int:
    if isinstance(b, Magnitude) or b < 0:
        raise LookupError
    return _size(a) ** int(b)


def _multiplied(x: Any, *args: Any, **more: Any) -> int:
    """The product of any number of the elements."""
    if x > 1 and x.count > 64:
        raise LookupError
    return max(x, 1) ** max(x.count, 1)


def _clamped(x: Any, low: Any = None, high: Any = None, **more: Any) -> int:
    """Between two bounds the larger of these, else what x has, too."""
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


def _scatter_added(x: Any, dim: int, index: Any, values: Any, *, alpha: Any = 1) -> int:
    return _added(x, index.count, _size(values) * _size(alpha))


def _added(x: Any, count: int, values: Any) -> int:
    """All ``count`` values to one element."""
    return _size(x) + count * _size(values)


_KEEPING = (
    "index _unsafe_index gather index_select embedding flip roll repeat tril triu diagonal diagonal_copy "
    "clone alias detach contiguous lift_fresh_copy view _unsafe_view reshape _reshape_copy view_copy expand "
    "permute transpose t squeeze unsqueeze slice select split split_with_sizes unbind as_strided amax amin "
    "_to_copy convert_element_type relu take"
).split()  # results are elements of the first argument
_ANY_OF = (
    "minimum maximum where clamp_min clamp_max cat stack masked_fill index_copy index_fill slice_scatter "
    "select_scatter constant_pad_nd copy fill full_like new_full"
).split()  # elements of all arguments, or numbers among them
KEEPING = frozenset((*_KEEPING, *_ANY_OF))  # the least int32 stays one

BOUNDS: dict[str, Bound] = {
    **dict.fromkeys(_KEEPING, _first),
    **dict.fromkeys(_ANY_OF, _largest),
    **dict.fromkeys(("add", "sub"), _sum),
    "rsub": lambda a, b, alpha=1: _size(b) + _size(alpha) * _size(a),
    "mul": _product,
    **dict.fromkeys(("sum", "cumsum", "nansum", "trace"), _total),
    **dict.fromkeys(("prod", "cumprod"), _multiplied),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _bits),
    "bitwise_not": lambda a: a + 1,
    **dict.fromkeys(("floor_divide", "div"), _divided),
    **dict.fromkeys(("remainder", "fmod"), _rest),
    "pow": _power,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"), _none),
    **dict.fromkeys(
        ("logical_not", "any", "all", "isin", "signbit", "zeros_like", "ones_like", "zero"), _none
    ),
    **dict.fromkeys(("argmax", "argmin", "count_nonzero"), _place),
    **dict.fromkeys(("max", "min", "sort", "topk", "median", "kthvalue"), _either),
    **dict.fromkeys(("neg", "abs", "aminmax"), _first),
    "searchsorted": _place,
    "bucketize": lambda values, order, **more: order.count,
    "square": lambda a: a * a,
    "sgn": lambda a: 1,
    "sign": lambda a: 1,
    "clamp": _clamped,
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put"), _put),
    "scatter": _scattered,
    **dict.fromkeys(("scatter_add", "index_add"), _scatter_added),
    **dict.fromkeys(("bitwise_left_shift", "__lshift__"), lambda a, b: _size(a) << min(_size(b), 64)),
    **dict.fromkeys(("bitwise_right_shift", "__rshift__"), _divided),
}


def _quotient(a: Any, b: Any) -> int:
    if isinstance(b, Magnitude) or not b:
        raise LookupError
    return _size(a / b)


# of floats that are numbers: what an operation makes of them is one, too, and no larger
OF_FLOATS: dict[str, Bound] = {
    **{name: BOUNDS[name] for name in (*KEEPING, "add", "sub", "rsub", "mul", "neg", "abs", "clamp")},
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "sigmoid", "tanh"), lambda x, **more: max(x, 1)),
    "div": _quotient,
}
