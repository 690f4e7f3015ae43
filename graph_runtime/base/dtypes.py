"""Element types: TVM's dtype strings, and the numpy dtypes of the formats that formats.py lists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from .errors import DocumentError, did_you_mean
from .formats import BY_DTYPE, Format
from .formats import CONVERTED as CONVERTED
from .formats import FLOATS as FLOATS
from .formats import FORMATS as FORMATS
from .formats import NARROW_FLOATS as NARROW_FLOATS
from .formats import ROWS as ROWS
from .formats import TILED as TILED

# DLDataTypeCode names of dlpack.h, and the two float8 names of TVM 0.14
_CODES = {"int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "e4m3_float": 6, "e5m2_float": 7}
_PATTERN = re.compile(
    r"(int|uint|float|handle|bool|bfloat|e4m3_float|e5m2_float|custom\[[^\]]*\])(\d*)(?:x(\d+))?\Z"
)


@dataclass(frozen=True, slots=True)
class DType:
    """A parsed dtype string; ``code``, ``bits`` and ``lanes`` as in DLDataType."""

    name: str
    code: int
    bits: int
    lanes: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element in a storage pool: ceil(bits * lanes / 8), TVM's rule."""
        return (self.bits * self.lanes + 7) // 8


OPAQUE = 255


@cache
def parse(text: str) -> DType:
    """Parse a TVM dtype string ("float32", "int8x4", "bool", "handle", ""). Raises DocumentError for an
    unknown name, bits beyond 255 or lanes beyond 65535."""
    if text in ("", "void"):
        return DType("void", 3, 0, 0)
    match = _PATTERN.match(text)
    if match is None:
        raise DocumentError(f"unknown type {text!r}{did_you_mean(text, BY_DTYPE)}", got=text)
    kind, bits, lanes = match.groups()
    if kind == "bool":
        kind, bits = "uint", bits or "1"
    nbits = int(bits) if bits else (64 if kind == "handle" else 8 if kind.endswith("_float") else 32)
    nlanes = int(lanes) if lanes else 1
    if not 0 < nbits < 256 or not 0 < nlanes < 65536:
        said = f"type {text!r} has bits or lanes out of range (bits 1..255, lanes 1..65535)"
        raise DocumentError(said, got=text)
    code = _CODES.get(kind, 129)
    name = "bool" if (code, nbits) == (1, 1) else f"{kind}{nbits}"
    return DType(name if nlanes == 1 else f"{name}x{nlanes}", code, nbits, nlanes)


@cache
def canonical(text: str) -> str:
    """This package's spelling of a dtype: "bool" for "uint1" and "bool", "float32" for "float"."""
    return parse(text).name


@cache
def to_numpy(name: str) -> np.dtype:
    """The numpy dtype of a canonical name; 4-bit integers take one byte, as in TVM. Raises DocumentError for
    dtypes that have no array form (handles, lanes, odd widths)."""
    own = BY_DTYPE.get(name)
    if own is not None:
        # the extension's import takes 5 ms, and most graphs need none of its dtypes
        return np.dtype(getattr(import_module(own.extension), name) if own.extension else name)
    if name in ("int4", "uint4"):
        return np.dtype(name[:-1] + "8")
    dtype = parse(name)
    if dtype.name != name:
        return to_numpy(dtype.name)
    raise DocumentError(f"dtype {name!r} has no host array form; use one of {', '.join(BY_DTYPE)}", got=name)


def as_numpy(dtype: Any) -> np.dtype:
    """The numpy dtype that ``dtype`` stands for: ``dtype`` is any value that np.dtype takes, or the name of
    an extension's dtype, even if the extension is not imported yet. Raises TypeError as np.dtype does."""
    return to_numpy(dtype) if is_extension(dtype) else np.dtype(dtype)


def is_integer(dtype: Any) -> bool:
    """Whether ``dtype`` names an integer dtype, signed or not."""
    return isinstance(dtype, str) and dtype in BY_DTYPE and BY_DTYPE[dtype].kind in ("int", "uint")


def is_extension(dtype: Any) -> bool:
    """Whether ``dtype`` names a dtype that an extension adds to numpy."""
    return isinstance(dtype, str) and dtype in BY_DTYPE and bool(BY_DTYPE[dtype].extension)


def from_numpy(dtype: Any) -> str:
    """The canonical name of a numpy dtype. Raises DocumentError for a numpy dtype without such a name."""
    return _name_of(as_numpy(dtype))


@lru_cache(64)
def _name_of(dtype: np.dtype) -> str:
    """The result of from_numpy, cached: numpy builds a dtype's name anew each time."""
    name = dtype.name
    if name not in BY_DTYPE:
        text = f"numpy dtype {name!r} is not supported; use one of {', '.join(BY_DTYPE)}"
        raise DocumentError(text, got=name)
    return str(name)


def format_of(dtype: str) -> Format | None:
    """The format in which a cpu stores a canonical dtype, None for a dtype without kernels."""
    return BY_DTYPE.get(dtype)
