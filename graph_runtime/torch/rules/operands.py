"""Operands of rules: torch's promotion, Python numbers, broadcasting, axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch

from ...base.dtypes import FLOATS
from ..counters import Unsupported

__all__ = [
    "FLOATS",
    "axes_of",
    "axis_of",
    "broadcast",
    "cast",
    "distinct",
    "dtype_of",
    "float_of",
    "in_float32",
    "is_float",
    "is_value",
    "name_of",
    "pair",
    "reshape",
    "scalar_like",
    "shape_of",
]


def name_of(dtype: torch.dtype) -> str:
    """The runtime's name of a torch dtype; 64-bit integers are int32 there."""
    name = str(dtype).removeprefix("torch.")
    return {"int64": "int32", "long": "int32"}.get(name, name)


def dtype_of(e: Any, dtype: torch.dtype) -> str:
    """The runtime's name of a torch dtype where an emitter is."""
    return e.integers if dtype == torch.int64 else name_of(dtype)


def is_value(x: Any) -> bool:
    """Whether an argument is a tensor, not a number, list or None."""
    return hasattr(x, "shape") and hasattr(x, "dtype")


def is_float(value: Any) -> bool:
    return value.dtype in FLOATS


@cache
def _promoted(kinds: tuple[tuple[Any, bool], ...]) -> torch.dtype:
    """torch.result_type of (dtype name or Python type, whether it has no dimensions)."""
    made: Any = None
    state: Any = None
    for kind, scalar in kinds:
        dtype = getattr(torch, kind) if isinstance(kind, str) else None
        operand = kind(1) if dtype is None else torch.empty(() if scalar else (1,), dtype=dtype)
        if state is None:
            state = operand
            made = operand.dtype if dtype is not None else None
        else:
            made = torch.result_type(state, operand)
            dims = (isinstance(state, torch.Tensor) and state.dim()) or (dtype is not None and not scalar)
            state = torch.empty((1,) if dims else (), dtype=made)
    return made


def pair(e: Any, *operands: Any, stored: bool = True) -> list[Any]:
    """Operands, values or Python numbers, as values of their common dtype by torch's rule. ``stored``: the
    result has that dtype; Unsupported where it is one that a device only moves."""
    kinds = tuple((x.dtype, not x.shape) if is_value(x) else (type(x), True) for x in operands)
    if any(kind is complex for kind, _ in kinds):
        raise Unsupported("no device computes with complex numbers")
    promoted = _promoted(kinds)
    if stored and not e.narrow and promoted == torch.int64:
        raise Unsupported("the result is of 64-bit integers")
    dtype = dtype_of(e, promoted)
    return [cast(e, x, dtype) if is_value(x) else e.scalar(x, dtype) for x in operands]


def cast(e: Any, value: Any, dtype: str) -> Any:
    """The value in another dtype."""
    return value if value.dtype == dtype else e.op("cast", value, to=dtype)


def float_of(e: Any, value: Any) -> Any:
    """The value as a float: integers and bools as float32, torch's default."""
    return value if is_float(value) else cast(e, value, "float32")


def in_float32(body: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of floats that is many ops: it computes in float32, and its result is of the dtype
    that was given. In a narrower one sums of many terms are of no use, and a device's packer makes infinities
    of what is no number, of which the next op makes a number."""

    @wraps(body)
    def made(e: Any, *args: Any, **more: Any) -> Any:
        dtypes = {x.dtype for x in args if is_value(x) and is_float(x)}
        if not dtypes <= {"bfloat16", "float16"}:
            return body(e, *(float_of(e, x) if is_value(x) else x for x in args), **more)
        wide = (cast(e, x, "float32") if is_value(x) else x for x in args)
        return cast(e, body(e, *wide, **more), dtypes.pop() if len(dtypes) == 1 else "float32")

    return made


def scalar_like(e: Any, number: Any, value: Any) -> Any:
    """A Python number as a value of the dtype of another."""
    return e.scalar(number, value.dtype)


def axis_of(dim: int, ndim: int) -> int:
    """A dimension counted from the front. Raises torch's IndexError."""
    most = max(ndim, 1)
    if not -most <= dim < most:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], but got {dim})"
        )
    return dim % most


def axes_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front, sorted; None and [] are all of them. Raises torch's errors."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, int) else dim
    return tuple(sorted(distinct(dims, ndim)))


def distinct(dims: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front, in their order. Raises torch's IndexError for one that is not there,
    its RuntimeError for one that is named twice."""
    found = tuple(axis_of(d, ndim) for d in dims)
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return found


def reshape(e: Any, value: Any, shape: Any) -> Any:
    """The same elements in another shape."""
    shape = tuple(shape)
    return value if value.shape == shape else e.op("reshape", value, shape=shape)


def broadcast(e: Any, value: Any, shape: Any) -> Any:
    """The value repeated to a shape."""
    shape = tuple(shape)
    return value if value.shape == shape else e.op("broadcast_to", value, shape=shape)


def shape_of(sizes: Any, count: int) -> tuple[int, ...]:
    """Sizes with one -1 worked out for ``count`` elements."""
    sizes = tuple(sizes)
    if -1 not in sizes:
        return sizes
    known = 1
    for size in sizes:
        known *= size if size != -1 else 1
    return tuple(count // known if size == -1 else size for size in sizes)
