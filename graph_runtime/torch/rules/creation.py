"""Casts, copies, and tensors filled with one number."""

from __future__ import annotations

from typing import Any

from ..counters import Unsupported
from .operands import broadcast, dtype_of, is_value
from .table import rule


@rule("prims::convert_element_type")
def convert(e: Any, x: Any, dtype: Any) -> Any:
    return x.cast(dtype_of(e, dtype))


@rule("_to_copy")
def to_copy(e: Any, x: Any, *, dtype: Any = None, **more: Any) -> Any:
    return x if dtype is None else x.cast(dtype_of(e, dtype))


@rule("clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous")
def clone(x: Any, **more: Any) -> Any:
    return x


@rule("copy")
def copy(x: Any, source: Any, non_blocking: bool = False) -> Any:
    if not is_value(source):
        raise Unsupported("the source of the copy is not a tensor")
    return broadcast(source.cast(x.dtype), x.shape)


@rule("full")
def full(e: Any, size: Any, fill_value: Any, *, dtype: Any = None, **more: Any) -> Any:
    if dtype is None:
        dtype = {bool: "bool", int: e.integers}.get(type(fill_value), "float32")
    name = dtype if isinstance(dtype, str) else dtype_of(e, dtype)
    return e.filled(tuple(size), fill_value, name)


@rule("zeros", "empty", "empty_permuted")
def zeros(e: Any, size: Any, *order: Any, dtype: Any = None, **more: Any) -> Any:
    return full(e, size, 0.0, dtype=dtype)


@rule("full_like")
def full_like(e: Any, x: Any, fill_value: Any, *, dtype: Any = None, **more: Any) -> Any:
    return full(e, x.shape, fill_value, dtype=x.dtype if dtype is None else dtype)


@rule("new_zeros")
def new_zeros(e: Any, x: Any, size: Any, *, dtype: Any = None, **more: Any) -> Any:
    return full(e, size, 0, dtype=x.dtype if dtype is None else dtype)


rule("scalar_tensor")(lambda e, number, *, dtype=None, **more: full(e, (), number, dtype=dtype))
rule("ones")(lambda e, size, *, dtype=None, **more: full(e, size, 1.0, dtype=dtype))
rule("zero")(lambda e, x: full_like(e, x, 0))
rule("zeros_like")(lambda e, x, **more: full_like(e, x, 0, dtype=more.get("dtype")))
rule("ones_like")(lambda e, x, **more: full_like(e, x, 1, dtype=more.get("dtype")))
rule("new_empty_strided")(lambda e, x, size, stride, **more: new_zeros(e, x, size, dtype=more.get("dtype")))


@rule("fill")
def fill(e: Any, x: Any, value: Any) -> Any:
    if is_value(value):
        return broadcast(value.cast(x.dtype), x.shape)
    return full(e, x.shape, value, dtype=x.dtype)
