"""Types of MLIR as types of a graph: tensor<4x8xf32>."""

from __future__ import annotations

import re
from functools import lru_cache

from ...ir.graph import TensorType
from .syntax import ForeignType, Type

__all__ = ["DTYPES", "is_type", "type_of"]

DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i1": "bool",
    **{
        f"{sign}{bits}": f"{name}{bits}"
        for sign, name in (("i", "int"), ("si", "int"), ("ui", "uint"))
        for bits in (8, 16, 32, 64)
    },
}
_TENSOR = re.compile(r"tensor<\s*+((?:\d{1,19}+\s*+x\s*+){0,64}+)([a-z]++\d{1,2}+)\s*+>", re.ASCII)
_MOST_KNOWN = 1024  # characters of a type
_SCALAR = re.compile(r"(?:[su]?i|b?f|tf)\d+\w*|index|none|complex|tuple|vector|memref")


def is_type(token: str) -> bool:
    """Whether a token begins a type."""
    return token.startswith(("tensor<", "!")) or _SCALAR.fullmatch(token) is not None


def type_of(token: str) -> Type:
    """The type that a token is; a tensor of what graphs do not have is a ForeignType."""
    return _short_type(token) if len(token) <= _MOST_KNOWN else ForeignType(token[:_MOST_KNOWN] + "...")


@lru_cache(maxsize=4096)
def _short_type(token: str) -> Type:
    match = _TENSOR.fullmatch(token)
    if match is None or match[2] not in DTYPES:
        return ForeignType(token)
    sizes = [int(size) for size in match[1].split("x") if size.strip()]
    return TensorType(DTYPES[match[2]], tuple(sizes))
