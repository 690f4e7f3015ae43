"""Element types: TVM's dtype strings, numpy dtypes and the codes of native/include/gr_abi.h.

A logical dtype is what the host sees and op rules use. A physical format is how a device stores it; on cpu
both are one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .errors import DocumentError, did_you_mean

__all__ = [
    "FORMATS",
    "DType",
    "Format",
    "as_numpy",
    "canonical",
    "format_of",
    "from_numpy",
    "parse",
    "to_numpy",
]

# DLDataTypeCode of dlpack.h, with TVM 0.14's two float8 names
_CODES = {"int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "e4m3_float": 6, "e5m2_float": 7}
_PATTERN = re.compile(
    r"(int|uint|float|handle|bool|bfloat|e4m3_float|e5m2_float|custom\[[^\]]*\])(\d*)(?:x(\d+))?\Z"
)


@dataclass(frozen=True, slots=True)
class DType:
    """A parsed dtype string. ``code`` and ``bits`` and ``lanes`` as in DLDataType."""

    name: str
    code: int
    bits: int
    lanes: int

    @property
    def itemsize(self) -> int:
        """Bytes one element takes in a storage pool: ceil(bits * lanes / 8), TVM's rule."""
        return (self.bits * self.lanes + 7) // 8


@dataclass(frozen=True, slots=True)
class Format:
    """A physical element format. ``code`` is enum gr_format; ``itemsize`` in bytes, None for block formats,
    whose 32x32 tile takes ``tile_bytes`` (block exponents included)."""

    name: str
    code: int
    itemsize: int | None
    tile_bytes: int


_ELEMENT = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]
_SIZES = [4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1]
_SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}

# name -> Format. Floats go by their short names (f32, bf16), integers by their dtype names.
FORMATS: dict[str, Format] = {
    _SHORT.get(n, n): Format(_SHORT.get(n, n), i, s, 1024 * s)
    for i, (n, s) in enumerate(zip(_ELEMENT, _SIZES, strict=True))
}
FORMATS["bfp8_b"] = Format("bfp8_b", 32, None, 64 + 1024)
FORMATS["bfp4_b"] = Format("bfp4_b", 33, None, 64 + 512)
OPAQUE = 255


@cache
def parse(text: str) -> DType:
    """Parse a TVM dtype string ("float32", "int8x4", "bool", "handle", "").

    Raises DocumentError for a name TVM does not know, bits beyond 255 or lanes beyond 65535.
    """
    if text in ("", "void"):
        return DType("void", 3, 0, 0)
    match = _PATTERN.match(text)
    if match is None:
        raise DocumentError(f"unknown type {text!r}{did_you_mean(text, _ELEMENT)}", got=text)
    kind, bits, lanes = match.groups()
    if kind == "bool":
        kind, bits = "uint", bits or "1"
    nbits = int(bits) if bits else (64 if kind == "handle" else 8 if kind.endswith("_float") else 32)
    nlanes = int(lanes) if lanes else 1
    if not 0 < nbits < 256 or not 0 < nlanes < 65536:
        raise DocumentError(
            f"type {text!r} has bits or lanes out of range (bits 1..255, lanes 1..65535)", got=text
        )
    code = _CODES.get(kind, 129)
    name = "bool" if (code, nbits) == (1, 1) else f"{kind}{nbits}"
    return DType(name if nlanes == 1 else f"{name}x{nlanes}", code, nbits, nlanes)


@cache
def canonical(text: str) -> str:
    """The one spelling of a dtype used inside this package: "uint1" and "bool" are "bool", "float" is
    "float32"."""
    return parse(text).name


@cache
def to_numpy(name: str) -> np.dtype:
    """The numpy dtype of a canonical name (bfloat16 from ml_dtypes); 4-bit integers take one byte, as in TVM.

    Raises DocumentError for dtypes that have no array form (handles, lanes, odd widths).
    """
    if name == "bfloat16":
        from ml_dtypes import bfloat16  # takes 5 ms, and most graphs have none

        return np.dtype(bfloat16)
    if name in _ELEMENT:
        return np.dtype(name)
    if name in ("int4", "uint4"):
        return np.dtype(name[:-1] + "8")
    dtype = parse(name)
    if dtype.name != name:
        return to_numpy(dtype.name)
    raise DocumentError(f"dtype {name!r} has no host array form; use one of {', '.join(_ELEMENT)}", got=name)


def as_numpy(dtype: Any) -> np.dtype:
    """What numpy takes for a dtype, as a dtype. numpy itself knows the name "bfloat16" only once ml_dtypes is
    imported. Raises TypeError as np.dtype."""
    return to_numpy(dtype) if isinstance(dtype, str) and dtype == "bfloat16" else np.dtype(dtype)


def from_numpy(dtype: Any) -> str:
    """The canonical name of a numpy dtype. Raises DocumentError where there is none."""
    name = as_numpy(dtype).name
    if name not in _ELEMENT:
        raise DocumentError(
            f"numpy dtype {name!r} is not supported; use one of {', '.join(_ELEMENT)}", got=name
        )
    return name


@cache
def format_of(dtype: str) -> Format | None:
    """The format in which a cpu stores a canonical dtype, None for one that kernels cannot compute with."""
    return FORMATS.get(_SHORT.get(dtype, dtype))
