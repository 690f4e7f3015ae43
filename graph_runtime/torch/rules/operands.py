"""Operands of rules: torch's promotion, Python numbers, broadcasting, axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

import torch

from ...base.dtypes import FLOATS
from ...ir.value import Value
from ..counters import Unsupported


def name_of(dtype: torch.dtype) -> str:
    """The runtime's name of a torch dtype, with "int32" for 64-bit integers."""
    name = str(dtype).removeprefix("torch.")
    return {"int64": "int32", "long": "int32"}.get(name, name)


def dtype_of(e: Any, dtype: torch.dtype) -> str:
    """The runtime's name of a torch dtype, with the emitter's ``integers`` for 64-bit integers."""
    return e.integers if dtype == torch.int64 else name_of(dtype)


def is_value(x: Any) -> bool:
    """Whether an argument is a tensor, not a number, list or None."""
    return isinstance(x, Value)


def is_float(value: Any) -> bool:
    return value.dtype in FLOATS


@cache
def _promoted(kinds: tuple[tuple[Any, bool], ...]) -> torch.dtype:
    """torch.result_type of operands, each given as (dtype name or Python type, whether it has no
    dimensions)."""
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
    """Operands, which are values or Python numbers, as values of the dtype to which torch promotes them.
    ``stored``: whether the result of the operation has that dtype; if so, the function raises Unsupported for
    a dtype that a device only stores."""
    kinds = tuple((x.dtype, not x.shape) if is_value(x) else (type(x), True) for x in operands)
    if any(kind is complex for kind, _ in kinds):
        raise Unsupported("no device computes with complex numbers")
    promoted = _promoted(kinds)
    if stored and not e.narrow and promoted == torch.int64:
        raise Unsupported("the result is of 64-bit integers")
    dtype = dtype_of(e, promoted)
    return [x.cast(dtype) if is_value(x) else e.scalar(x, dtype) for x in operands]


def float_of(value: Any) -> Any:
    """The value as a float: an integer or bool becomes float32, torch's default."""
    return value if is_float(value) else value.cast("float32")


def of_floats(body: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of floats, so that integers and bools among its arguments become float32."""
    return lambda *args, **more: body(*(float_of(x) if is_value(x) else x for x in args), **more)


def of_pair(body: Callable[..., Any], floats: bool = False) -> Callable[..., Any]:
    """Decorates a function of two values of one dtype, so that its arguments are promoted as in torch, and
    with ``floats`` then become floats."""

    def made(e: Any, a: Any, b: Any) -> Any:
        a, b = pair(e, a, b, stored=not floats)
        return body(float_of(a), float_of(b)) if floats else body(a, b)

    return made


def in_float32(body: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of floats that is composed of many ops, so that it computes in float32; the result
    has the arguments' dtype. Narrower floats are too coarse for sums of many terms, and a device's packer
    turns NaN into infinity, from which the next op may make a number."""

    @wraps(body)
    def made(*args: Any, **more: Any) -> Any:
        dtypes = {x.dtype for x in args if is_value(x) and is_float(x)}
        if not dtypes <= {"bfloat16", "float16"}:
            return body(*(float_of(x) if is_value(x) else x for x in args), **more)
        wide = (x.cast("float32") if is_value(x) else x for x in args)
        return body(*wide, **more).cast(dtypes.pop() if len(dtypes) == 1 else "float32")

    return made


def axis_of(dim: int, ndim: int) -> int:
    """A dimension counted from the front. Raises torch's IndexError."""
    most = max(ndim, 1)
    if not -most <= dim < most:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-most}, {most - 1}], but got {dim})"
        )
    return dim % most


def axes_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front, sorted; None and [] mean all. Raises torch's errors."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, int) else dim
    return tuple(sorted(distinct(dims, ndim)))


def distinct(dims: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front, in their order. Raises torch's IndexError for a dimension out of
    range, torch's RuntimeError for one given twice."""
    found = tuple(axis_of(d, ndim) for d in dims)
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return found


def reshape(value: Any, shape: Any) -> Any:
    """The same elements in another shape."""
    shape = tuple(shape)
    return value if value.shape == shape else value.op("reshape", shape=shape)


def broadcast(value: Any, shape: Any) -> Any:
    """The value repeated to a shape."""
    shape = tuple(shape)
    return value if value.shape == shape else value.op("broadcast_to", shape=shape)


def joined(values: Sequence[Any], axis: int = 0) -> Any:
    """Values concatenated along an axis."""
    return values[0] if len(values) == 1 else values[0].op("concatenate", *values[1:], axis=axis)


def shape_of(sizes: Any, count: int) -> tuple[int, ...]:
    """Sizes for ``count`` elements, with a size of -1 replaced by the number that fits."""
    sizes = tuple(sizes)
    if -1 not in sizes:
        return sizes
    known = 1
    for size in sizes:
        known *= size if size != -1 else 1
    return tuple(count // known if size == -1 else size for size in sizes)
