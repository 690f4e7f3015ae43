"""Weights in panels, as the fast cpu products read them: pack_panels, and what conv2d and dense share.

A panel is 32 output columns: float32 [ceil(n / 32), k, 32], padded with zeros, k = taps x channels, the
channels inside. It is the same for every instruction set, so it is made once, when a model is compiled.
Panels are also stored in bfloat16, two rows of k beside each other: [ceil(n / 32), ceil(k / 2), 64], element
(p, c) of a panel at [p // 2, 2 * c + p % 2], which is how the instructions that multiply bfloat16 read them.
A product with such a weight rounds its other operand to bfloat16, too, and sums in float32.

C contract (args: w, then the panels). Attribute words:
    pack_panels   [0] transpose: w is [n, channels, taps ..], or with 1 [k, n]
"""

from __future__ import annotations

import math

import numpy as np

from ...graph import TensorType
from .. import rules
from ..registry import KERNEL, Attr, Body, Case, Op, register

__all__ = [
    "PAIRED",
    "PANEL",
    "PANEL_ROWS",
    "bundle_of",
    "grouped_panel_type",
    "is_narrow",
    "is_paired",
    "pack_float_convolution",
    "pack_grouped",
    "packed_attr",
    "pair",
    "paired_type",
    "panel_type",
    "refuse_packed",
    "refuse_panels",
    "takes_packed",
    "takes_pairs",
    "unpack",
    "unpack_grouped",
    "unpair",
]

PANEL = 32  # GR_PANEL of native/kernels/pieces.h
NARROW = (1, 2, 4, 8, 16)  # channels of groups that have kernels of their own: parts of a panel
BUNDLE = 16  # columns that groups share panels for: a vector of the widest instruction set
PAIRED = "bfloat16"  # dtype of panels whose rows lie in pairs
PANEL_ROWS = 12  # of the left operand, from which putting the right one into panels pays in each run


def packed_attr(what: str) -> Attr:
    """The attribute that says that the weight is in panels."""
    return Attr("packed", "int", 0, f"0, or the number of {what}: the weight is in panels (pack_panels)")


def panel_type(n: int, k: int) -> TensorType:
    """The type of a weight of ``n`` output columns and ``k`` products each, in panels."""
    return TensorType("float32", (-(-n // PANEL), k, PANEL))


def is_paired(weight: TensorType, attrs) -> bool:
    """Whether a weight is in panels whose rows lie in pairs."""
    return bool(attrs["packed"]) and weight.dtype == PAIRED


def paired_type(panels: TensorType) -> TensorType:
    """The type of panels [.., k, 32] of float32 when their rows lie in pairs of bfloat16."""
    *count, k, width = panels.shape
    return TensorType(PAIRED, (*count, -(-k // 2), 2 * width))


def pair(panels: np.ndarray) -> np.ndarray:
    """Panels [.., k, 32] of float32 with their rows in pairs, rounded to bfloat16: paired_type."""
    *count, k, width = panels.shape
    rows = np.zeros((*count, -(-k // 2) * 2, width), panels.dtype)
    rows[..., :k, :] = panels
    pairs = rows.reshape(*count, -1, 2, width).swapaxes(-1, -2)
    return rules.narrow(pairs.reshape(*count, -1, 2 * width), PAIRED)


def unpair(pairs: np.ndarray, k: int) -> np.ndarray:
    """Panels [.., k, 32] of ``pair``, in float64."""
    *count, half, width = pairs.shape
    rows = rules.wide(pairs).reshape(*count, half, width // 2, 2).swapaxes(-1, -2)
    return rows.reshape(*count, 2 * half, width // 2)[..., :k, :]


def is_narrow(o: int, channels: int, group: int) -> bool:
    """Whether ``group`` groups of ``channels`` make as many, ``o`` in all, and are so few that the kernels of
    images.h and grouped.h take them: a column of their panels has its own group's channels only, panel_type
    of taps x channels."""
    return group > 1 and o == group * channels and channels in NARROW


def takes_pairs(o: int, channels: int, group, panels: TensorType) -> bool:
    """Whether panels can have their rows in pairs: of several groups not those of few channels, nor an odd
    number of rows."""
    return group == 1 or (not is_narrow(o, channels, group) and panels.shape[1] % 2 == 0)


def bundle_of(group: int, columns: int) -> int:
    """How many of ``group`` groups of ``columns`` output columns share panels: so many as fill a vector, a
    divisor of ``group``. What lies in a panel for channels of the other groups is zero."""
    return max(b for b in range(1, max(1, BUNDLE // columns) + 1) if group % b == 0)


def grouped_panel_type(o: int, channels: int, taps: int, group: int) -> TensorType:
    """The type of a weight [o, channels, taps] of ``group`` groups in panels, bundle after bundle."""
    b = bundle_of(group, o // group)
    panels = group // b * -(-b * o // group // PANEL)
    return TensorType("float32", (panels, taps * b * channels, PANEL))


def pack_grouped(w: np.ndarray, group: int) -> np.ndarray:
    """A weight [o, channels, ..] of ``group`` groups in panels: grouped_panel_type."""
    o, channels, *window = w.shape
    columns = o // group
    b = bundle_of(group, columns)
    made = []
    for first in range(0, group, b):
        whole = np.zeros((b * columns, b * channels, *window), w.dtype)
        for i in range(b):
            at = (first + i) * columns
            part = whole[i * columns : (i + 1) * columns, i * channels : (i + 1) * channels]
            part[...] = w[at : at + columns]
        made += _pack([whole], {"transpose": False})
    return np.concatenate(made)


def pack_float_convolution(w: np.ndarray, group: int) -> np.ndarray:
    """A weight [o, channels, kh, kw] of ``group`` groups in panels, as conv2d reads it but for tiles."""
    o, channels = w.shape[:2]
    return _pack([w], {"transpose": False})[0] if is_narrow(o, channels, group) else pack_grouped(w, group)


def unpack_grouped(panels: np.ndarray, o: int, group: int) -> np.ndarray:
    """[o, k]: the columns of pack_grouped over all channels of their bundle."""
    b = bundle_of(group, o // group)
    return np.concatenate([unpack(bundle, b * o // group).T for bundle in np.split(panels, group // b)])


def refuse_packed(inputs, outputs, attrs) -> str | None:
    """Body.accepts of a kernel that reads plain weights."""
    return "it reads plain weights, these are in panels (packed)" if attrs["packed"] else None


def refuse_panels(inputs, outputs, attrs) -> bool:
    """Whether a plain node keeps its weight as it is even where that is a constant: it is no float32, names
    its kernel, makes nothing or is packed already."""
    float32 = inputs[0].dtype == "float32" and bool(outputs[0].size)
    return not float32 or bool(attrs.get("packed")) or KERNEL in attrs


def takes_packed(inputs, outputs, attrs) -> str | None:
    """Body.accepts of a kernel that reads panels only."""
    return None if attrs["packed"] else "it reads weights in panels (packed), these are plain"


def unpack(panels: np.ndarray, n: int) -> np.ndarray:
    """[k, n] of panels [ceil(n / 32), k, 32]."""
    return panels.transpose(1, 0, 2).reshape(panels.shape[1], panels.shape[0] * PANEL)[:, :n]


# ---------------------------------------------------------------- pack_panels


def _infer(inputs, attrs):
    (w,) = inputs
    rules.one_dtype("pack_panels", inputs, ("float32",))
    if len(w.shape) < 2 or (attrs["transpose"] and len(w.shape) > 2):
        wanted = "2 dimensions [k,n]" if attrs["transpose"] else "at least 2 dimensions [n,channels,..]"
        rules.fail("pack_panels", f"input 0 must have {wanted}, got {w}", got=w.shape)
    n, k = w.shape[::-1] if attrs["transpose"] else (w.shape[0], math.prod(w.shape[1:]))
    return [panel_type(n, k)]


def _pack(arrays, attrs):
    (w,) = arrays
    if attrs["transpose"]:
        columns = w
    else:
        columns = np.moveaxis(w.reshape(*w.shape[:2], math.prod(w.shape[2:])), (0, 1), (2, 1))
        columns = (
            columns.reshape(-1, w.shape[0])
            if columns.size
            else np.zeros((math.prod(w.shape[1:]), w.shape[0]), w.dtype)
        )
    k, n = columns.shape
    panels = -(-n // PANEL)
    padded = np.zeros((k, panels * PANEL), w.dtype)
    padded[:, :n] = columns
    return [np.ascontiguousarray(padded.reshape(k, panels, PANEL).transpose(1, 0, 2))]


register(
    Op(
        "pack_panels",
        "weights in panels of 32 columns, as the fast cpu kernels read them",
        (1, 1),
        _infer,
        _pack,
        lambda i, o, a: 0,
        attrs=(Attr("transpose", "bool", False, "the weight is [k,n], not [n,channels,..]"),),
        words=lambda i, o, a: [int(a["transpose"])],
        bodies={"cpu": Body("pack_panels", ("float32",), rules.by_bytes)},
        pace={"cpu": "simple"},
        cases=tuple(
            Case(name, (("float32", shape),), {"transpose": transpose}, nmse=rules.EXACT)
            for name, shape, transpose in (
                ("dense", (70, 33), False),
                ("matmul", (33, 70), True),
                ("conv", (40, 5, 3, 2), False),
                ("depthwise", (32, 1, 3, 3), False),
                ("no_k", (3, 0), False),
                ("empty", (0, 3), False),
            )
        ),
    )
)
