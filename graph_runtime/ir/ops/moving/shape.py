"""The reshape family: reshape flatten squeeze unsqueeze. The elements stay where they are, so these are __nop
nodes without a kernel.

On a device whose layout (tiles) places the elements of the two shapes differently, the layout pass replaces
the node by a relayout copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...graph import TensorType
from .. import rules
from ..cases import cases
from ..registry import REQUIRED, Attr, define


def _reshape(inputs, attrs):
    """The new shape by ONNX's rules. A 0 keeps the size of the dimension at its position; with allowzero a 0
    is a size of 0. A -1 is the size that uses up all elements."""
    x, wanted, kept = inputs[0], attrs["shape"], not attrs["allowzero"]
    dims = []
    for d, n in enumerate(wanted):
        if n < -1:
            rules.fail("reshape", f"shape {list(wanted)} has a dimension below -1", got=wanted)
        if n == 0 and kept and d >= len(x.shape):
            text = f"shape {list(wanted)} keeps dimension {d}, but {x} has {len(x.shape)} dimensions"
            rules.fail("reshape", text, got=wanted)
        dims.append(x.shape[d] if n == 0 and kept else n)
    known = math.prod(n for n in dims if n != -1)
    if dims.count(-1) > 1 or (-1 in dims and (known == 0 or x.size % known)):
        rules.fail("reshape", f"-1 in shape {list(wanted)} cannot be worked out from {x}", got=wanted)
    dims = [x.size // known if n == -1 else n for n in dims]
    if math.prod(dims) != x.size:
        text = f"{x} has {x.size} elements, shape {list(wanted)} has {math.prod(dims)}"
        rules.fail("reshape", text, got=wanted, wanted=x.size)
    return tuple(dims)


def _flatten(inputs, attrs):
    shape, axis = inputs[0].shape, attrs["axis"]
    if not -len(shape) <= axis <= len(shape):
        rules.fail("flatten", f"axis {axis} is out of range for {inputs[0]}", got=axis)
    axis += len(shape) if axis < 0 else 0
    return math.prod(shape[:axis]), math.prod(shape[axis:])


def _squeeze(inputs, attrs):
    shape = inputs[0].shape
    if attrs["axes"] is None:
        return tuple(n for n in shape if n != 1)
    axes = rules.axes_of("squeeze", attrs["axes"], len(shape))
    for a in axes:
        if shape[a] != 1:
            rules.fail("squeeze", f"axis {a} of {inputs[0]} is {shape[a]}, not 1", got=shape[a], wanted=1)
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def _unsqueeze(inputs, attrs):
    shape, given = inputs[0].shape, attrs["axes"]
    ndim = len(shape) + len(given)
    axes = rules.axes_of("unsqueeze", given, ndim)
    rest = iter(shape)
    return tuple(1 if d in axes else next(rest) for d in range(ndim))


def exactly(shape: Sequence[int]) -> dict[str, Any]:
    """Attributes of a reshape to exactly these sizes, even if a size is zero."""
    return {"shape": list(shape), "allowzero": True} if 0 in shape else {"shape": list(shape)}


def _nop(name, doc, shape_of, attr, rows, more=()):
    def infer(inputs, attrs):
        return [TensorType(inputs[0].dtype, shape_of(inputs, attrs))]

    def reference(arrays, attrs):
        x = arrays[0]
        return [x.reshape(shape_of([TensorType(x.dtype.name, x.shape)], attrs))]

    define(
        name,
        doc,
        (1, 1),
        infer,
        reference,
        attrs=(attr, *more),
        inplace=(0,),
        is_nop=True,
        moves=(),
        pace={"cpu": "simple"},
        cases=tuple(cases(rows, rules.MOVED)),
    )


_nop(
    "reshape",
    "the same elements in another shape",
    _reshape,
    Attr("shape", "ints", REQUIRED, "the new shape; 0 keeps a dimension, one -1 takes all other elements"),
    (
        ("split", (4, 33), {"shape": (2, 2, -1)}),
        ("join", (3, 5, 40), {"shape": (0, -1)}),
        ("scalar", (1, 1), {"shape": ()}),
        ("tiles", (64, 33), {"shape": (2, 32, 33)}),
        ("ragged", (65, 40), {"shape": (40, 65)}),
        ("empty", (4, 0), {"shape": (2, 0)}),
    ),
    (Attr("allowzero", "bool", False, "a 0 in shape is a size and keeps no dimension"),),
)
_nop(
    "flatten",
    "a matrix: the dimensions before axis, and those from axis on",
    _flatten,
    Attr("axis", "int", 1, "the first dimension of the second group"),
    (
        ("images", (3, 4, 5, 6)),
        ("front", (3, 40), {"axis": 0}),
        ("back", (2, 3, 40), {"axis": -1}),
        ("scalar", (), {"axis": 0}),
    ),
)
_nop(
    "squeeze",
    "drop dimensions of size 1",
    _squeeze,
    Attr("axes", "ints", None, "dimensions to drop; all of size 1 by default"),
    (("all", (1, 33, 1, 40)), ("one", (1, 33, 1), {"axes": (-1,)})),
)
_nop(
    "unsqueeze",
    "add dimensions of size 1",
    _unsqueeze,
    Attr("axes", "ints", REQUIRED, "their places in the new shape"),
    (
        ("ends", (33, 40), {"axes": (0, -1)}),
        ("middle", (3, 65), {"axes": (1,)}),
        ("scalar", (), {"axes": (0,)}),
    ),
)
