"""Makers of ops that compute each element by itself, from one input, or from two or three inputs that
broadcast as in numpy.

``unary``, ``binary`` and ``ternary`` register an op with its rule, its numpy reference and its cases;
elementwise.py, float_functions.py, float_pairs.py and arithmetic.py call them. The numpy reference computes
in float64 and rounds once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..cases import case, cases, per_dtype
from ..numerics import ATTRS, NUMERICS
from ..registry import Attr, Body, Case, define

# {number of inputs: cases of the op's first dtype, as (name, shape of each input)}
_SHAPES: dict[int, tuple[tuple[Any, ...], ...]] = {
    1: (
        ("small", (16,)),
        ("tiles", (2, 65, 97)),
        ("scalar", ()),
        ("ragged", (31,)),
        ("rank5", (2, 1, 3, 33, 40)),
        ("empty", (3, 0)),
    ),
    2: (
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
    ),
    3: (
        ("tiles", (3, 65, 97), (3, 65, 97), (3, 65, 97)),
        ("rows", (65, 1), (97,), (2, 1, 97)),
        ("scalars", (33, 40), (), ()),
        ("scalar", (), (33, 40), (40,)),
        ("planes", (1, 40, 1), (2, 3, 4, 40, 33), (3, 1, 40, 1)),
        ("empty", (0, 4), (1, 4), (4,)),
    ),
}
_FEW = {1: ("tiles", "rank5", "empty"), 2: ("rows", "columns", "planes", "empty")}  # cases for ``few``
_TYPED = {1: ((3, 33, 65),), 2: ((3, 40, 70), (40, 1)), 3: ((3, 40, 70), (40, 1), (70,))}  # of other dtypes


def _traits(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of registry.Op in ``given``, some of which are given as texts of names separated by
    blanks."""
    made = dict(given)
    for key in given.keys() & {"numpy", "torch"}:
        made[key] = tuple(given[key].split())
    for key in given.keys() & {"onnx", "ttnn"}:
        if isinstance(given[key], str):
            made[key] = {name: {} for name in given[key].split()}
    return made


def _cases(
    count: int, allowed: tuple[str, ...], few: bool, make: tuple[str, ...], nmse: dict[str, float], given: Any
) -> list[Case]:
    first = "float32" if "float32" in allowed else allowed[0]
    rows = [row for row in _SHAPES[count] if not few or row[0] in _FEW[count]]
    made = cases(rows, nmse, make, dtype=first, attrs=given)
    for t in allowed:
        if t != first:
            # the result of a function within a few ulp may round to the neighbour in a 16-bit format
            own = dtypes.BY_DTYPE[t].function if nmse["cpu"] else 0
            made += per_dtype(
                (t,), *_TYPED[count], given, nmse=nmse | ({"cpu": own} if own else {}), make=make
            )
    return made


def _register(
    name: str,
    doc: str,
    compute: Callable[..., Any],
    count: int,
    allowed: tuple[str, ...],
    tt: tuple[str, ...],
    *,
    few: bool,
    make: tuple[str, ...],
    nmse: dict[str, float],
    pace: tuple[str, str],
    walk: str,
    given: Mapping[str, Any] | None = None,
    more: tuple[Case, ...] = (),
    result: str | None = None,
    kernel: str | None = None,
    numerics: bool = False,
    functions: bool = False,
    flops: int = 1,
    attrs: tuple[Attr, ...] = (),
    **traits: Any,
) -> None:
    """Register ``compute(*inputs, attrs)`` of ``count`` inputs as an op for the dtypes ``allowed``, on tt for
    ``tt``.

    ``few``: whether the cases have fewer shapes; ``given``: attributes of the cases; ``more``: further cases.
    ``pace``: (pace on hosts, pace on tt). ``result``: dtype of the output, None for the dtype of the inputs.
    ``kernel``: name of the tt kernel if it differs from the op's; ``numerics``: whether this kernel reads the
    words of numerics.py; ``functions``: whether it reads the one word for functions. ``traits``: fields of
    registry.Op; ``numpy`` and ``torch`` are texts of names separated by blanks, and so may be ``onnx`` and
    ``ttnn`` of an op without attributes.
    """
    bodies = rules.bodies(name, allowed, prebuilt=rules.PREBUILT)
    if tt:
        bodies["tt"] = Body(kernel or name, tt, numerics=numerics, functions=functions)
    define(
        name,
        doc,
        (count, count),
        _rule(name, allowed, result),
        _reference(compute, result),
        lambda i, o, a: flops * o[0].size,
        attrs=(*attrs, *(ATTRS if numerics else (NUMERICS,) if functions else ())),
        bodies=bodies,
        inplace=() if result and allowed != (result,) else tuple(range(count)),
        cases=(*_cases(count, allowed, few, make, nmse, given or {}), *more),
        kind="elementwise",
        pace=dict(zip(("cpu", "tt"), pace, strict=True)),
        walk=walk,
        **_traits(traits),
    )


def _rule(name: str, allowed: tuple[str, ...], result: str | None) -> Callable[..., Any]:
    def infer(inputs, attrs):
        dtype = rules.one_dtype(name, inputs, allowed)
        shape = inputs[0].shape if len(inputs) == 1 else rules.broadcast(name, *(t.shape for t in inputs))
        return [TensorType(result or dtype, shape)]

    return infer


def _reference(compute: Callable[..., Any], result: str | None) -> Callable[..., Any]:
    def reference(arrays, attrs):
        dtype = np.dtype(result) if result else arrays[0].dtype
        with np.errstate(all="ignore"):
            return [np.asarray(compute(*map(rules.wide_floats, arrays), attrs)).astype(dtype)]

    return reference


def binary(
    name: str,
    doc: str,
    compute: Callable[..., Any],
    tt: tuple[str, ...] = (),
    allowed: tuple[str, ...] = rules.FLOATS + rules.INTS,
    make: tuple[str, ...] = (),
    *,
    few: bool = True,
    nmse: dict[str, float] = rules.EXACT,
    walk: str = "together",
    **more: Any,
) -> None:
    """Register ``compute(a, b, attrs)`` as op ``name``; ``more``: further arguments of ``_register``."""
    _register(name, doc, compute, 2, allowed, tt, few=few, make=make, nmse=nmse, walk=walk, **more)


def ternary(
    name: str, doc: str, compute: Callable[..., Any], make: tuple[str, ...] = (), **more: Any
) -> None:
    """Register ``compute(a, b, c, attrs)`` of floats as op ``name``; ``more``: further arguments of
    ``_register``."""
    floats: dict[str, Any] = {"few": False, "nmse": rules.ROUNDED, "walk": "together", "functions": True}
    _register(name, doc, compute, 3, rules.FLOATS, rules.TT_FLOATS, make=make, **floats, **more)


def unary(
    name: str,
    doc: str,
    compute: Callable[..., Any],
    *,
    allowed: tuple[str, ...] = rules.FLOATS,
    tt: tuple[str, ...] = (),
    make: str = "normal",
    few: bool = True,
    nmse: dict[str, float] = rules.ROUNDED,
    promotes: bool | None = None,
    result: str | None = None,
    **more: Any,
) -> None:
    """Register ``compute(x, attrs)`` as op ``name``. ``make``: how values are drawn (inputs.draw_array).
    ``promotes``: Op.promotes; None: True if the op takes and gives floats only. ``more``: further arguments
    of ``_register``."""
    more |= {"few": few, "nmse": nmse, "walk": "map", "result": result}
    more |= {"functions": result is None and "float32" in tt}
    more |= {"promotes": allowed == rules.FLOATS and result is None if promotes is None else promotes}
    _register(name, doc, compute, 1, allowed, tt, make=(make,), **more)


def attributes_case(attrs: Mapping[str, Any], *shapes: Any, make: tuple[str, ...] = ()) -> tuple[Case, ...]:
    """One further case, with attributes other than the defaults."""
    return (case("attributes", *(shapes or ((33, 40),)), nmse=rules.ROUNDED, make=make, attrs=attrs),)


def numpy_name(compute: Callable[..., Any]) -> str:
    """numpy's name of an op whose reference is a single ufunc; "" for any other."""
    return compute.__name__ if isinstance(compute, np.ufunc) else ""


def float_word_of(*names: str) -> Callable[..., Any]:
    """Op.words of an op that passes its float attributes ``names`` as doubles."""
    return lambda inputs, outputs, attrs: [rules.float_word(attrs[name]) for name in names]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def gated(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """x * sigmoid(u), exact even if sigmoid(u) alone is too small for a normal number."""
    root = np.exp(-np.abs(u) / 2)
    part = np.where(u >= 0, 1, root)
    return x * part * part / (1 + root * root)
