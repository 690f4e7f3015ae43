"""Rules that op families share: dtype groups, shape checks with their error texts, body suffixes, tolerances
of cases. And the one rule, for generated wrappers and generic kernels alike, that selects the C body of an op
for a device kind and types."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, UnsupportedOpError, afresh
from ..graph import TensorType
from . import numerics
from .registry import KERNEL, Accepts, Attrs, Body, Op, Suffix, Types

SUMMED_IN = ("float32", "bfloat16")  # dtypes of a body that sums in float32

FLOATS = dtypes.FLOATS
SIGNED = tuple(dtype for dtype, f in dtypes.BY_DTYPE.items() if f.kind == "int")
# Dtypes for which the wheel's loops for AVX2 (codegen/bodies.py, FOR_AVX2) are as fast as compiled ones,
# except for a few percent with small tensors: PREBUILT in elementwise ops and reductions, FOUR_BYTES in ops
# that move elements.
PREBUILT = ("float32", "float16", "bfloat16")
FOUR_BYTES = ("float32", "int32", "uint32")
INTS = (*SIGNED, *(dtype for dtype, f in dtypes.BY_DTYPE.items() if f.kind == "uint"))
NUMBERS = (*FLOATS, *INTS)
BOOL = tuple(dtype for dtype, f in dtypes.BY_DTYPE.items() if f.kind == "bool")
ALL = tuple(dtypes.BY_DTYPE)
TT_FLOATS = dtypes.TILED
TT_ARITH = (*TT_FLOATS, "int32")
# dtypes that kernels of tt hold in four bytes, the widest integers first
_HELD = sorted(
    (f for f in dtypes.BY_DTYPE.values() if f.kind != "float" and (f.itemsize or 8) <= 4),
    key=lambda f: -(f.itemsize or 0),
)
TT_COMPARED = (*TT_FLOATS, *(f.dtype for f in _HELD if f.digits < 32))  # with integers that fit into an int32
TT_MOVED = (*TT_FLOATS, *(f.dtype for f in _HELD))
TT_NUMBERS = tuple(t for t in TT_MOVED if t not in BOOL)

MAX_DIMS = 16  # GR_MAX_DIMS of native/kernels/cpu/common.h

# Largest normalised mean squared error by device kind and tt format. Rounding an operand to bf16 (8
# significant bits) costs about 1e-6, to bfp8_b (one exponent for 16 values) about 1e-4; both bounds leave
# room for two operands and a result.
EXACT, ROUNDED, MOVED = (
    {"cpu": cpu, **{f"tt/{name}": f.rounding[i] for name, f in dtypes.FORMATS.items() if f.rounding}}
    for i, cpu in enumerate((0.0, 1e-12, 0.0))  # MOVED: only the error of a copy to the device
)


def summed(nmse: dict[str, float], of: float = 1.0) -> dict[str, dict[str, float]]:
    """{dtype: bounds of a case's error} for sums in a wider float that are rounded once. ``nmse``: bounds of
    the widest dtype of tt; ``of``: the error as a multiple of the usual one."""
    sums = {dtype: dtypes.BY_DTYPE[dtype].sum for dtype in FLOATS}
    return {dtype: nmse | ({"cpu": at * of} if at else {}) for dtype, at in sums.items()}


SUMMED = summed(ROUNDED)
SUMMED_OR_EXACT = SUMMED | dict.fromkeys((*INTS, *BOOL), EXACT)  # sums of integers wrap, so they are exact


def fail(op: str, text: str, **fields: Any) -> NoReturn:
    """Raise GraphError("op <op>: <text>")."""
    raise GraphError(f"op {op}: {text}", op=op, **fields)


# ---------------------------------------------------------------- dtypes


def one_dtype(op: str, inputs: Sequence[TensorType], allowed: Sequence[str]) -> str:
    """The dtype of all inputs. Raises GraphError if their dtypes differ or the op does not take the dtype."""
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
        text = f"an input has {most} dimensions, at most {MAX_DIMS} are supported"
        fail(op, text, got=most, wanted=MAX_DIMS)
    return first


def by_dtype(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> str:
    """Body suffix of a template over the first input's dtype: f32, bf16, i8, bool, ..."""
    return dtypes.BY_DTYPE[inputs[0].dtype].suffix


def by_bytes(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> str:
    """Body suffix of a template over the element's size: b1, b2, b4, b8."""
    return f"b{dtypes.parse(inputs[0].dtype).itemsize}"


def bodies(
    name: str,
    allowed: tuple[str, ...],
    tt: tuple[str, ...] = (),
    suffix: Suffix = by_dtype,
    *,
    prebuilt: tuple[str, ...] = (),
    accepts: Accepts | None = None,
) -> dict[str, Body]:
    """Op.bodies: the cpu's template for dtypes ``allowed`` and, if ``tt`` names dtypes, the kernel of tt with
    ``accepts`` as its Body.accepts."""
    made = {"cpu": Body(name, allowed, suffix, prebuilt=prebuilt)}
    return made | ({"tt": Body(name, tt, accepts=accepts)} if tt else {})


def narrow_indices(
    inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: dict[str, Any]
) -> str | None:
    """Body.accepts of the tt kernels whose input 1 is indices."""
    return None if inputs[1].dtype == "int32" else "tt has no int64; give the indices as int32"


# ---------------------------------------------------------------- shapes


def rank(op: str, what: str, t: TensorType, wanted: int, dims: str) -> None:
    """Raise GraphError unless t has ``wanted`` dimensions; ``dims``: their names ("N,C,H,W")."""
    if len(t.shape) != wanted:
        fail(op, f"{what} must have {wanted} dimensions [{dims}], got {t}", got=t.shape, wanted=wanted)


def at_least(op: str, what: str, t: TensorType, least: int, dims: str) -> None:
    """Raise GraphError if t has fewer than ``least`` dimensions; ``dims``: their names ("..,K")."""
    if len(t.shape) < least:
        plural = "s" if least > 1 else ""
        fail(op, f"{what} must have at least {least} dimension{plural} [{dims}], got {t}", got=t.shape)


def shape(op: str, what: str, t: TensorType, wanted: tuple[int, ...], meaning: str = "") -> None:
    """Raise GraphError unless t has the shape ``wanted``; ``meaning``: explains the shape in the error's
    text."""
    if t.shape != wanted:
        told = f" ({meaning})" if meaning else ""
        text = f"{what} must have shape {list(wanted)}{told}, got {t}"
        fail(op, text, got=t.shape, wanted=wanted)


def axis_of(op: str, value: int, ndim: int, name: str = "axis") -> int:
    """The axis as a non-negative number; a negative axis counts from the back. Raises GraphError for an axis
    out of range."""
    if not -ndim <= value < ndim:
        fail(op, f"{name} {value} is out of range for {ndim} dimensions (-{ndim} .. {ndim - 1})", got=value)
    return value % ndim


def axes_of(op: str, axes: Sequence[int], ndim: int, name: str = "axes") -> tuple[int, ...]:
    """The axes as non-negative numbers, in the order given. Raises GraphError for an axis that is out of
    range or named twice, even if once from the back."""
    found = tuple(axis_of(op, axis, ndim, name) for axis in axes)
    if len(set(found)) != len(found):
        fail(op, f"{name} {list(axes)} name an axis twice", got=list(axes))
    return found


def broadcast(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which numpy broadcasts ``shapes``. Raises GraphError, which names a dimension that does
    not fit."""
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(s)) + s for s in shapes]
    out = []
    for d, dims in enumerate(zip(*padded, strict=True)):
        sizes = {n for n in dims if n != 1}
        if len(sizes) > 1:
            text = " and ".join(str(list(s)) for s in shapes)
            text = f"shapes {text} do not broadcast: dimension {d - ndim} is {' and '.join(map(str, dims))}"
            fail(op, text, got=shapes)
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def limit(op: str, name: str, values: Sequence[int], count: int, least: int) -> tuple[int, ...]:
    """The attribute's ``count`` integers, each in least .. 2**31 - 1, so that index arithmetic in C cannot
    overflow. Raises GraphError for other values."""
    if len(values) != count:
        text = f"attribute {name!r} must have {count} integers, got {list(values)}"
        fail(op, text, got=values, wanted=count)
    for v in values:
        if not least <= v < 2**31:
            text = f"attribute {name!r} is {list(values)}; each must be in {least} .. 2**31 - 1"
            fail(op, text, got=values)
    return tuple(values)


# ---------------------------------------------------------------- attribute words


def float_word(value: float) -> int:
    """The bits of a double as an int64 attribute word."""
    return struct.unpack("<q", struct.pack("<d", value))[0]


def axes_mask(axes: Sequence[int]) -> int:
    """An attribute word with bit d set for each axis d."""
    return sum(1 << d for d in axes)


# ---------------------------------------------------------------- products


def refuse_packed(inputs, outputs, attrs) -> str | None:
    """Body.accepts of a kernel that reads plain weights."""
    return "it reads plain weights, these are in panels (packed)" if attrs["packed"] else None


def product_dtype(op: str, inputs: Sequence[TensorType], attrs: Attrs, allowed: tuple[str, ...]) -> str:
    """The dtype of a product's result: that of all inputs, or with a packed weight that of the first input.
    Raises GraphError for dtypes that do not fit together."""
    if not attrs["packed"]:
        return one_dtype(op, inputs, allowed)
    x, _, *bias = inputs
    for other in bias:
        if other.dtype != "float32":
            text = f"the bias beside a packed weight is float32, got {other}"
            fail(op, text, got=other.dtype, wanted="float32")
    return one_dtype(op, (x,), SUMMED_IN)


# ---------------------------------------------------------------- numpy references


def wide(array: np.ndarray) -> np.ndarray:
    """The array as float64, so that a result is rounded only once, or as int64, in which integers wrap."""
    kind = array.dtype.kind
    if array.dtype == np.float64 or kind == "b":
        return array
    return array.astype(np.float64 if kind in "fV" else np.int64)


def wide_floats(array: np.ndarray) -> np.ndarray:
    """The array, widened if its elements are floats."""
    return wide(array) if array.dtype.kind in "fV" else array


def narrow(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array rounded to a canonical dtype; overflow gives infinity without a warning."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return np.asarray(array).astype(dtypes.to_numpy(dtype))


# ---------------------------------------------------------------- selection of an op's body

_NOTHING = numerics.Numerics()


@dataclass(frozen=True, slots=True)
class Selected:
    """The body ``name`` in the instantiation ``suffix`` ("" for a body that is no template), which needs
    ``scratch`` host bytes. ``prebuilt``: whether compiling the body gains nothing. ``library``: library of
    the machine that the body calls, as in Body."""

    kind: str
    name: str
    suffix: str
    scratch: int
    prebuilt: bool = False
    library: str = ""

    @property
    def generic(self) -> str:
        """The generic entry's name: "cpu/softmax/f32", "tt/softmax"."""
        return f"{self.kind}/{self.name}" + (f"/{self.suffix}" if self.suffix else "")


def select(op: Op, attrs: Attrs, kind: str, inputs: Types, outputs: Types) -> Selected:
    """The body of ``op`` on device kind ``kind``.

    ``attrs`` are decoded. Raises UnsupportedOpError, which lists the possibilities, for a kind without a body
    and for dtypes or types that no body takes.
    """
    bodies = candidates(op, attrs, kind)
    if not bodies:
        there = ", ".join(sorted(op.bodies)) or "no device kind"
        text = f"op {op.name} has no kernel for {kind} devices (it has one for {there})"
        raise UnsupportedOpError(text, op=op.name, got=kind, wanted=tuple(sorted(op.bodies)))
    body = next((b for b in bodies if _refusal(op, b, kind, attrs, inputs, outputs) is None), None)
    if body is None:
        refusal = _refusal(op, bodies[0], kind, attrs, inputs, outputs)
        assert refusal is not None  # every body refused
        raise afresh(refusal)
    suffix = body.suffix(inputs, outputs) if body.suffix else ""
    scratch = body.scratch(inputs, outputs, attrs) if body.scratch else 0
    prebuilt = bool(inputs) and inputs[0].dtype in body.prebuilt
    return Selected(kind, body.name, suffix, scratch, prebuilt, body.library)


def candidates(op: Op, attrs: Attrs, kind: str) -> list[Body]:
    """The bodies on a device kind that a node may use: the body that the node names (``gr.kernel``), else all
    bodies, the default first."""
    bodies = op.all_bodies(kind)
    named = [b for b in bodies if b.name == attrs.get(KERNEL)]
    return named or bodies


def able(op: Op, attrs: Attrs, kind: str, inputs: Types, outputs: Types) -> list[str]:
    """Names of the bodies on a device kind that take these types and do not round operands, the default
    first."""
    return [
        b.name
        for b in candidates(op, attrs, kind)
        if not b.rounds and _refusal(op, b, kind, attrs, inputs, outputs) is None
    ]


def _refusal(
    op: Op, body: Body, kind: str, attrs: Attrs, inputs: Types, outputs: Types
) -> UnsupportedOpError | None:
    """The reason why a body refuses these types; None if the body takes them."""
    dtype = (inputs or outputs)[0].dtype
    if dtype not in body.dtypes:
        return UnsupportedOpError(
            f"op {op.name} on {kind} does not take {dtype}; it takes {', '.join(body.dtypes)}",
            op=op.name,
            got=dtype,
            wanted=body.dtypes,
        )
    reason = body.accepts(inputs, outputs, attrs) if body.accepts else None
    if reason:
        return UnsupportedOpError(
            f"op {op.name} on {kind}: {reason}", op=op.name, got=[str(t) for t in inputs]
        )
    return None


def call_words(op: Op, attrs: Attrs, kind: str, inputs: Types, outputs: Types) -> tuple[int, ...]:
    """All attribute words of a call: those of the op, and on tt those of its numerics, without a blocking."""
    words = tuple(op.words(inputs, outputs, attrs)) if op.words else ()
    return words + numeric_words(op, attrs, kind)


def numeric_words(
    op: Op | None,
    attrs: Attrs,
    kind: str,
    device: numerics.Numerics = _NOTHING,
    model: Any = None,
) -> tuple[int, ...]:
    """The words after the op's own, if the op's body on this kind reads any. ``device``: the arithmetic that
    the caller chose for the device; ``model``: the blocking, as in numerics.tail."""
    body = op.bodies.get(kind) if op is not None else None
    if body is None or not (body.numerics or body.functions):
        return ()
    named = numerics.Numerics.of(attrs).over(device)
    if body.numerics:
        return numerics.tail(named, model)
    return numerics.function_words(named)
