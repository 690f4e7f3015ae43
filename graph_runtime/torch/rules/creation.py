"""Casts, copies, and tensors of one number."""

from __future__ import annotations

from typing import Any

from ..counters import Unsupported
from .operands import broadcast, cast, dtype_of, is_value
from .table import rule


@rule("convert_element_type")
def convert(e: Any, x: Any, dtype: Any) -> Any:
    """prims::convert_element_type"""
    return cast(e, x, dtype_of(e, dtype))


@rule("_to_copy")
def to_copy(e: Any, x: Any, *, dtype: Any = None, **more: Any) -> Any:
    return x if dtype is None else cast(e, x, dtype_of(e, dtype))


@rule("clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous")
def clone(e: Any, x: Any, **more: Any) -> Any:
    return x


@rule("copy")
def copy(e: Any, x: Any, source: Any, non_blocking: bool = False) -> Any:
    if not is_value(source):
        raise Unsupported("what is copied is no tensor")
    return broadcast(e, cast(e, source, x.dtype), x.shape)


@rule("full")
def full(e: Any, size: Any, fill_value: Any, *, dtype: Any = None, **more: Any) -> Any:
    if dtype is None:
        dtype = {bool: "bool", int: e.integers}.get(type(fill_value), "float32")
    name = dtype if isinstance(dtype, str) else dtype_of(e, dtype)
    return e.filled(tuple(size), fill_value, name)


@rule("scalar_tensor")
def scalar_tensor(e: Any, number: Any, *, dtype: Any = None, **more: Any) -> Any:
    return full(e, (), number, dtype=dtype)


@rule("zeros", "empty", "empty_permuted")
def zeros(e: Any, size: Any, *order: Any, dtype: Any = None, **more: Any) -> Any:
    return full(e, size, 0.0, dtype=dtype)


@rule("ones")
def ones(e: Any, size: Any, *, dtype: Any = None, **more: Any) -> Any:
    return full(e, size, 1.0, dtype=dtype)


@rule("full_like")
def full_like(e: Any, x: Any, fill_value: Any, *, dtype: Any = None, **more: Any) -> Any:
    return full(e, x.shape, fill_value, dtype=x.dtype if dtype is None else dtype)


@rule("zeros_like")
def zeros_like(e: Any, x: Any, **more: Any) -> Any:
    return full_like(e, x, 0, dtype=more.get("dtype"))


@rule("zero")
def zero(e: Any, x: Any) -> Any:
    return full_like(e, x, 0)


@rule("ones_like")
def ones_like(e: Any, x: Any, **more: Any) -> Any:
    return full_like(e, x, 1, dtype=more.get("dtype"))


@rule("new_zeros")
def new_zeros(e: Any, x: Any, size: Any, *, dtype: Any = None, **more: Any) -> Any:
    return full(e, size, 0, dtype=x.dtype if dtype is None else dtype)


@rule("new_empty_strided")
def new_empty_strided(e: Any, x: Any, size: Any, stride: Any, *, dtype: Any = None, **more: Any) -> Any:
    return new_zeros(e, x, size, dtype=dtype)


@rule("fill")
def fill(e: Any, x: Any, value: Any) -> Any:
    if is_value(value):
        return broadcast(e, cast(e, value, x.dtype), x.shape)
    return full(e, x.shape, value, dtype=x.dtype)
