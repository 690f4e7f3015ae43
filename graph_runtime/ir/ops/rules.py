"""Rules that op families share: dtype groups, shape checks with their error texts, body suffixes, tolerances
of cases."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from ..graph import TensorType

__all__ = [
    "ALL",
    "BOOL",
    "EXACT",
    "FLOATS",
    "INTS",
    "MOVED",
    "NUMBERS",
    "ROUNDED",
    "SIGNED",
    "SUMMED",
    "TT_ARITH",
    "TT_COMPARED",
    "TT_FLOATS",
    "TT_MOVED",
    "TT_NUMBERS",
    "axes_mask",
    "axes_of",
    "axis_of",
    "broadcast",
    "by_bytes",
    "by_dtype",
    "fail",
    "float_word",
    "limit",
    "narrow",
    "narrow_indices",
    "one_dtype",
    "rank",
    "summed",
    "wide",
    "wide_floats",
]

FLOATS = dtypes.FLOATS
SIGNED = tuple(dtype for dtype, f in dtypes.BY_DTYPE.items() if f.kind == "int")
# Of elementwise ops and reductions, and of what moves elements of four bytes: the wheel's loops for AVX2
# (codegen/bodies.py, FOR_AVX2) take as long as those compiled for a node, but for some % of small tensors
PREBUILT = ("float32", "float16", "bfloat16")
FOUR_BYTES = ("float32", "int32", "uint32")
INTS = (*SIGNED, *(dtype for dtype, f in dtypes.BY_DTYPE.items() if f.kind == "uint"))
NUMBERS = (*FLOATS, *INTS)
BOOL = tuple(dtype for dtype, f in dtypes.BY_DTYPE.items() if f.kind == "bool")
ALL = tuple(dtypes.BY_DTYPE)
TT_FLOATS = dtypes.TILED
TT_ARITH = (*TT_FLOATS, "int32")
# kernels of tt hold an element in four bytes: the widest integers first
_HELD = sorted(
    (f for f in dtypes.BY_DTYPE.values() if f.kind != "float" and (f.itemsize or 8) <= 4),
    key=lambda f: -(f.itemsize or 0),
)
TT_COMPARED = (*TT_FLOATS, *(f.dtype for f in _HELD if f.digits < 32))  # those that fit an int32
TT_MOVED = (*TT_FLOATS, *(f.dtype for f in _HELD))
TT_NUMBERS = tuple(t for t in TT_MOVED if t not in BOOL)

MAX_DIMS = 16  # GR_MAX_DIMS of native/kernels/cpu/common.h

# Largest normalised mean squared error by device kind and tt format. Rounding an operand to bf16 (8
# significant bits) costs about 1e-6, to bfp8_b (one exponent for 16 values) about 1e-4; both bounds leave
# room for two operands and a result.
EXACT, ROUNDED, MOVED = (
    {"cpu": cpu, **{f"tt/{name}": f.rounding[i] for name, f in dtypes.FORMATS.items() if f.rounding}}
    for i, cpu in enumerate((0.0, 1e-12, 0.0))  # MOVED: what a copy to the device costs, nothing more
)


def summed(nmse: dict[str, float], of: float = 1.0) -> dict[str, dict[str, float]]:
    """{dtype: bounds of floats that were added up in a wider one and rounded once}, of a share of the usual
    error; ``nmse`` is that of the widest tt has."""
    sums = {dtype: dtypes.BY_DTYPE[dtype].sum for dtype in FLOATS}
    return {dtype: nmse | ({"cpu": at * of} if at else {}) for dtype, at in sums.items()}


SUMMED = summed(ROUNDED)


def fail(op: str, text: str, **fields: Any) -> NoReturn:
    """Raise GraphError("op <op>: <text>")."""
    raise GraphError(f"op {op}: {text}", op=op, **fields)


# ---------------------------------------------------------------- dtypes


def one_dtype(op: str, inputs: Sequence[TensorType], allowed: Sequence[str]) -> str:
    """The dtype that all inputs share. Raises GraphError where they differ or the op has no rule for it."""
    first = inputs[0].dtype
    for i, t in enumerate(inputs):
        if t.dtype != first:
            fail(
                op,
                f"inputs must have one dtype, but input 0 is {first} and input {i} is {t.dtype}; add a cast",
                got=t.dtype,
                wanted=first,
            )
    if first not in allowed:
        fail(op, f"does not take {first}; it takes {', '.join(allowed)}", got=first, wanted=tuple(allowed))
    if (most := max(len(t.shape) for t in inputs)) > MAX_DIMS:
        fail(
            op, f"an input has {most} dimensions, at most {MAX_DIMS} are supported", got=most, wanted=MAX_DIMS
        )
    return first


def by_dtype(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> str:
    """Body suffix of a template over the first input's dtype: f32, bf16, i8, bool, ..."""
    return dtypes.BY_DTYPE[inputs[0].dtype].suffix


def by_bytes(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> str:
    """Body suffix of a template over the element's size: b1, b2, b4, b8."""
    return f"b{dtypes.parse(inputs[0].dtype).itemsize}"


def narrow_indices(
    inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: dict[str, Any]
) -> str | None:
    """Body.accepts of the tt kernels that go by indices, which are input 1."""
    return None if inputs[1].dtype == "int32" else "tt has no int64; give the indices as int32"


# ---------------------------------------------------------------- shapes


def rank(op: str, what: str, t: TensorType, wanted: int, dims: str) -> None:
    """Raise GraphError where t has not ``wanted`` dimensions; ``dims`` names them ("N,C,H,W")."""
    if len(t.shape) != wanted:
        fail(op, f"{what} must have {wanted} dimensions [{dims}], got {t}", got=t.shape, wanted=wanted)


def axis_of(op: str, value: int, ndim: int, name: str = "axis") -> int:
    """A non-negative axis below ndim; negative ones count from the back. Raises GraphError when out of
    range."""
    if not -ndim <= value < ndim:
        fail(op, f"{name} {value} is out of range for {ndim} dimensions (-{ndim} .. {ndim - 1})", got=value)
    return value % ndim


def axes_of(op: str, axes: Sequence[int], ndim: int, name: str = "axes") -> tuple[int, ...]:
    """Non-negative axes below ndim, in the order given. Raises GraphError for one out of range, or named
    twice, be it once from the back."""
    found = tuple(axis_of(op, axis, ndim, name) for axis in axes)
    if len(set(found)) != len(found):
        fail(op, f"{name} {list(axes)} name an axis twice", got=list(axes))
    return found


def broadcast(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """numpy's broadcast of shapes. Raises GraphError naming the dimension that does not fit."""
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(s)) + s for s in shapes]
    out = []
    for d, dims in enumerate(zip(*padded, strict=True)):
        sizes = {n for n in dims if n != 1}
        if len(sizes) > 1:
            text = " and ".join(str(list(s)) for s in shapes)
            fail(
                op,
                f"shapes {text} do not broadcast: dimension {d - ndim} is {' and '.join(map(str, dims))}",
                got=shapes,
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def limit(op: str, name: str, values: Sequence[int], count: int, least: int) -> tuple[int, ...]:
    """Check an attribute of ``count`` integers, each in least .. 2**31 - 1 (so that index arithmetic in C
    cannot overflow)."""
    if len(values) != count:
        fail(
            op, f"attribute {name!r} must have {count} integers, got {list(values)}", got=values, wanted=count
        )
    for v in values:
        if not least <= v < 2**31:
            fail(
                op, f"attribute {name!r} is {list(values)}; each must be in {least} .. 2**31 - 1", got=values
            )
    return tuple(values)


# ---------------------------------------------------------------- attribute words


def float_word(value: float) -> int:
    """The bits of a double as an int64 attribute word."""
    return struct.unpack("<q", struct.pack("<d", value))[0]


def axes_mask(axes: Sequence[int]) -> int:
    """One attribute word with bit d set for each axis d."""
    return sum(1 << d for d in axes)


# ---------------------------------------------------------------- numpy references


def wide(array: np.ndarray) -> np.ndarray:
    """Floats as float64, so that a sum or a function rounds once, when it is narrowed; integers as int64
    (they wrap)."""
    kind = array.dtype.kind
    if array.dtype == np.float64 or kind == "b":
        return array
    return array.astype(np.float64 if kind in "fV" else np.int64)


def wide_floats(array: np.ndarray) -> np.ndarray:
    """Floats as wide makes them, anything else as it is."""
    return wide(array) if array.dtype.kind in "fV" else array


def narrow(array: np.ndarray, dtype: str) -> np.ndarray:
    """Round to a canonical dtype, overflow to infinity without a warning."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return np.asarray(array).astype(dtypes.to_numpy(dtype))
