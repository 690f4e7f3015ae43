"""Makers of ops that compute each element by itself: one input, or two or three that broadcast as in numpy.

``unary``, ``binary`` and ``ternary`` register an op with its rule, its numpy reference and its cases;
elementwise.py, float_functions.py, float_pairs.py and arithmetic.py call them. The reference computes in
float64 and rounds once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..numerics import ATTRS, NUMERICS
from ..registry import Attr, Body, Case, Op, register
from ..work import Work

__all__ = ["binary", "float_word_of", "gated", "numpy_name", "sigmoid", "ternary", "unary"]

_SHAPES = (
    ("small", (16,), (16,)),
    ("tiles", (3, 65, 97), (3, 65, 97)),
    ("scalar", (), ()),
    ("rows", (2, 33, 65), (65,)),
    ("columns", (33, 1), (1, 65)),
    ("left", (31,), (2, 2, 70, 31)),
    ("planes", (2, 3, 4, 40, 33), (3, 1, 40, 1)),
    ("scalar_right", (40, 70), ()),
    ("scalar_left", (1, 1, 1), (5, 33)),
    ("empty", (0, 4), (1, 4)),
)
_FEW_SHAPES = tuple(row for row in _SHAPES if row[0] in ("rows", "columns", "planes", "empty"))


# ops of ONNX or functions of ttnn without attributes, with blanks between; or registry.Op.onnx, Op.ttnn
Names = str | Mapping[str, Mapping[str, str]]


def _names(names: Names) -> Mapping[str, Mapping[str, str]]:
    return {name: {} for name in names.split()} if isinstance(names, str) else names


def _paces(pace: tuple[str, str]) -> dict[str, str]:
    return dict(zip(("cpu", "tt"), pace, strict=True))


def _typed(nmse: dict[str, float], dtype: str) -> dict[str, float]:
    # a function within a few ulp may round to the neighbour in a 16-bit result
    own = dtypes.BY_DTYPE[dtype].function
    return nmse | {"cpu": own} if own and nmse["cpu"] else nmse


# ---------------------------------------------------------------- two inputs


def _binary_cases(
    make: tuple[str, ...],
    allowed: tuple[str, ...],
    few: bool,
    nmse: dict[str, float],
    attrs: dict[Any, Any],
) -> tuple[Case, ...]:
    first, *types = ("float32", *allowed) if "float32" in allowed else allowed
    rows = [
        Case(name, ((first, a), (first, b)), attrs, make=make, nmse=nmse)
        for name, a, b in (_FEW_SHAPES if few else _SHAPES)
    ]
    rows += [
        Case(t, ((t, (3, 40, 70)), (t, (40, 1))), attrs, make=make, nmse=_typed(nmse, t))
        for t in types
        if t != first
    ]
    return tuple(rows)


def _numpy_binary(compute: Callable[..., Any], result: str | None) -> Callable[..., Any]:
    def reference(arrays, attrs):
        a, b = arrays
        dtype = np.dtype(result) if result else a.dtype
        with np.errstate(all="ignore"):
            if a.dtype.kind in "fV":  # float64 holds what two narrower floats give: one rounding
                a, b = rules.wide(a), rules.wide(b)
            return [np.asarray(compute(a, b, attrs)).astype(dtype)]

    return reference


def binary(
    name: str,
    doc: str,
    compute: Callable[..., Any],
    tt: tuple[str, ...] = (),
    allowed: tuple[str, ...] = rules.FLOATS + rules.INTS,
    make: tuple[str, ...] = (),
    *,
    pace: tuple[str, str],
    walk: str = "together",
    work: Callable[..., Work] | None = None,
    parts: str = "",
    step: int = 0,
    counts: bool = False,
    promotes: bool = False,
    equality: bool = False,
    numpy: str = "",
    onnx: Names = "",
    torch: str = "",
    ttnn: Names = "",
    numerics: bool = False,
    functions: bool = False,
    kernel: str | None = None,
    result: str | None = None,
    few: bool = True,
    flops: int = 1,
    nmse: dict[str, float] = rules.EXACT,
    attrs: tuple[Attr, ...] = (),
    words: Callable[..., Any] | None = None,
    more: tuple[Case, ...] = (),
) -> None:
    """Register ``compute(a, b, attrs)`` as op ``name``. ``result``: dtype of the output, None: the inputs'.
    ``tt``: dtypes of a tt kernel, named ``kernel`` where it cannot have the op's name; it reads the words of
    numerics (``numerics``) or that of functions (``functions``). ``few``: fewer shapes
    among the cases. ``more``: further cases. ``pace``: on the host and on tt; ``numpy`` and ``torch``: names,
    with blanks between; ``pace`` and those that follow it are traits of registry.Op."""

    def infer(inputs, given):
        dtype = rules.one_dtype(name, inputs, allowed)
        return [TensorType(result or dtype, rules.broadcast(name, *(t.shape for t in inputs)))]

    bodies = {"cpu": Body(name, allowed, rules.by_dtype, prebuilt=rules.PREBUILT)}
    if tt:
        bodies["tt"] = Body(kernel or name, tt, numerics=numerics, functions=functions)
    register(
        Op(
            name,
            doc,
            (2, 2),
            infer,
            _numpy_binary(compute, result),
            lambda i, o, a: flops * o[0].size,
            attrs=(*attrs, *(ATTRS if numerics else (NUMERICS,) if functions else ())),
            words=words,
            bodies=bodies,
            inplace=() if result and allowed != (result,) else (0, 1),
            cases=_binary_cases(make, allowed, few, nmse, {}) + more,
            kind="elementwise",
            pace=_paces(pace),
            walk=walk,
            work=work,
            parts=parts,
            step=step,
            counts=counts,
            promotes=promotes,
            equality=equality,
            numpy=tuple(numpy.split()),
            onnx=_names(onnx),
            torch=tuple(torch.split()),
            ttnn=_names(ttnn),
        )
    )


# ---------------------------------------------------------------- three inputs

_THREE_SHAPES: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("tiles", ((3, 65, 97), (3, 65, 97), (3, 65, 97))),
    ("rows", ((65, 1), (97,), (2, 1, 97))),
    ("scalars", ((33, 40), (), ())),
    ("scalar", ((), (33, 40), (40,))),
    ("planes", ((1, 40, 1), (2, 3, 4, 40, 33), (3, 1, 40, 1))),
    ("empty", ((0, 4), (1, 4), (4,))),
)


def ternary(
    name: str,
    doc: str,
    compute: Callable[..., Any],
    *,
    pace: tuple[str, str],
    make: tuple[str, ...] = (),
    flops: int = 1,
    nmse: dict[str, float] = rules.ROUNDED,
    attrs: tuple[Attr, ...] = (),
    words: Callable[..., Any] | None = None,
    ttnn: Names = "",
    more: tuple[Case, ...] = (),
) -> None:
    """Register ``compute(a, b, c, attrs)`` of floats as op ``name``; what it takes is as for ``binary``."""

    def infer(inputs, given):
        dtype = rules.one_dtype(name, inputs, rules.FLOATS)
        return [TensorType(dtype, rules.broadcast(name, *(t.shape for t in inputs)))]

    def reference(arrays, given):
        with np.errstate(all="ignore"):
            return [np.asarray(compute(*map(rules.wide, arrays), given)).astype(arrays[0].dtype)]

    cases = [
        Case(case, tuple(("float32", shape) for shape in shapes), make=make, nmse=nmse)
        for case, shapes in _THREE_SHAPES
    ]
    for t in rules.FLOATS[1:]:
        inputs = (t, (3, 40, 70)), (t, (40, 1)), (t, (70,))
        cases.append(Case(t, inputs, make=make, nmse=_typed(nmse, t)))
    register(
        Op(
            name,
            doc,
            (3, 3),
            infer,
            reference,
            lambda i, o, a: flops * o[0].size,
            attrs=(*attrs, NUMERICS),
            words=words,
            bodies={
                "cpu": Body(name, rules.FLOATS, rules.by_dtype, prebuilt=rules.PREBUILT),
                "tt": Body(name, rules.TT_FLOATS, functions=True),
            },
            inplace=(0, 1, 2),
            cases=(*cases, *more),
            kind="elementwise",
            pace=_paces(pace),
            walk="together",
            ttnn=_names(ttnn),
        )
    )


# ---------------------------------------------------------------- one input


def _unary_cases(
    make: str, nmse: dict[str, float], allowed: tuple[str, ...], few: bool, attrs: dict[Any, Any]
) -> tuple[Case, ...]:
    shapes = (
        ("small", (16,)),
        ("tiles", (2, 65, 97)),
        ("scalar", ()),
        ("ragged", (31,)),
        ("rank5", (2, 1, 3, 33, 40)),
        ("empty", (3, 0)),
    )
    first = "float32" if "float32" in allowed else allowed[0]
    rows = [
        Case(name, ((first, s),), attrs, make=(make,), nmse=nmse)
        for name, s in (shapes[1:5:3] + shapes[5:] if few else shapes)
    ]
    types = [t for t in allowed if t != first]
    return (
        *rows,
        *(Case(t, ((t, (3, 33, 65)),), attrs, make=(make,), nmse=_typed(nmse, t)) for t in types),
    )


def unary(
    name: str,
    doc: str,
    compute: Callable[..., Any],
    *,
    flops: int = 1,
    allowed: tuple[str, ...] = rules.FLOATS,
    tt: tuple[str, ...] = (),
    make: str = "normal",
    nmse: dict[str, float] = rules.ROUNDED,
    attrs: tuple[Attr, ...] = (),
    words: Callable[..., Any] | None = None,
    pace: tuple[str, str],
    step: int = 0,
    counts: bool = False,
    promotes: bool | None = None,
    numpy: str = "",
    onnx: Names = "",
    torch: str = "",
    ttnn: Names = "",
    result: str | None = None,
    few: bool = True,
    given: dict[Any, Any] | None = None,
    more: tuple[Case, ...] = (),
) -> None:
    """Register ``compute(x, attrs)`` as op ``name``. ``result``: dtype of the output, None: the input's.
    ``tt``: dtypes of a tt kernel. ``few``: fewer shapes among the cases. ``given``: the cases' attributes,
    ``more``: further cases. ``pace``: on the host and on tt; ``promotes``: None, an op of floats alone does;
    ``numpy`` and ``torch``: names, with blanks between; ``pace`` and those that follow it are traits of
    registry.Op."""

    def infer(inputs, decoded):
        dtype = rules.one_dtype(name, inputs, allowed)
        return [TensorType(result or dtype, inputs[0].shape)]

    def reference(arrays, decoded):
        dtype = np.dtype(result) if result else arrays[0].dtype
        wide = rules.wide_floats(arrays[0])
        with np.errstate(all="ignore"):
            return [np.asarray(compute(wide, decoded)).astype(dtype)]

    bodies = {"cpu": Body(name, allowed, rules.by_dtype, prebuilt=rules.PREBUILT)}
    functions = result is None and "float32" in tt
    if tt:
        bodies["tt"] = Body(name, tt, functions=functions)
    register(
        Op(
            name,
            doc,
            (1, 1),
            infer,
            reference,
            lambda i, o, a: flops * o[0].size,
            attrs=(*attrs, *((NUMERICS,) if functions else ())),
            words=words,
            bodies=bodies,
            inplace=() if result and allowed != (result,) else (0,),
            cases=_unary_cases(make, nmse, allowed, few, given or {}) + more,
            kind="elementwise",
            pace=_paces(pace),
            walk="map",
            step=step,
            counts=counts,
            promotes=allowed == rules.FLOATS and result is None if promotes is None else promotes,
            numpy=tuple(numpy.split()),
            onnx=_names(onnx),
            torch=tuple(torch.split()),
            ttnn=_names(ttnn),
        )
    )


def numpy_name(compute: Callable[..., Any]) -> str:
    """The name in numpy of an op that computes its reference by a ufunc alone."""
    return compute.__name__ if isinstance(compute, np.ufunc) else ""


def float_word_of(*names: str) -> Callable[..., Any]:
    """The ``words`` of an op whose float attributes ``names`` are passed as doubles."""
    return lambda inputs, outputs, attrs: [rules.float_word(attrs[name]) for name in names]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def gated(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """x * sigmoid(u), right where sigmoid(u) alone has no normal number any more."""
    root = np.exp(-np.abs(u) / 2)
    part = np.where(u >= 0, 1, root)
    return x * part * part / (1 + root * root)
