"""Weights in panels, as the fast cpu products read them: pack_panels, and functions for conv2d and dense.

A panel holds 32 output columns, so panels are float32 [ceil(n / 32), k, 32], padded with zeros; k = taps x
channels, channels innermost. Panels are the same for every instruction set, so they are made once, when a
model is compiled.

Panels are also stored in bfloat16 with rows in pairs: two rows of k are beside each other, so panels are
[ceil(n / 32), ceil(k / 2), 64], with element (p, c) of a panel at [p // 2, 2 * c + p % 2]. The instructions
that multiply bfloat16 read this order. A product with such a weight also rounds its other operand to
bfloat16, and sums in float32.

C contract (args: w, then the panels). Attribute words:
    pack_panels   [0] transpose: 0 for w [n, channels, taps ..], 1 for w [k, n]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import case
from ..registry import KERNEL, Attr, Body, define

PANEL = 32  # GR_PANEL of native/kernels/pieces.h
NARROW = (1, 2, 4, 8, 16)  # numbers of channels for which kernels take groups one by one: parts of a panel
BUNDLE = 16  # columns up to which groups share panels: a vector of the widest instruction set
PAIRED = "bfloat16"  # dtype of panels whose rows are in pairs
PANEL_ROWS = 12  # least rows of a left operand for which runs put the right one into panels


def float32_body(name: str, epilogue: bool = True, **more: Any) -> Body:
    """A cpu body for float32 only, for which the wheel's body is as fast as a compiled one."""
    return Body(name, ("float32",), rules.by_dtype, epilogue=epilogue, prebuilt=("float32",), **more)


def packed_attr(what: str) -> Attr:
    """The attribute of an op whose weight may be in panels."""
    return Attr("packed", "int", 0, f"0, or the number of {what}: the weight is in panels (pack_panels)")


def panel_type(n: int, k: int) -> TensorType:
    """The type, in panels, of a weight with ``n`` output columns of ``k`` numbers each."""
    return TensorType("float32", (-(-n // PANEL), k, PANEL))


def is_paired(weight: TensorType, attrs) -> bool:
    """Whether a weight is in panels whose rows are in pairs."""
    return bool(attrs["packed"]) and weight.dtype == PAIRED


def paired_type(panels: TensorType) -> TensorType:
    """The type that float32 panels [.., k, 32] have with their rows in pairs, as bfloat16."""
    *count, k, width = panels.shape
    return TensorType(PAIRED, (*count, -(-k // 2), 2 * width))


def pair(panels: np.ndarray) -> np.ndarray:
    """Float32 panels [.., k, 32] with rows in pairs, rounded to bfloat16; the type is paired_type."""
    *count, k, width = panels.shape
    rows = np.zeros((*count, -(-k // 2) * 2, width), panels.dtype)
    rows[..., :k, :] = panels
    pairs = rows.reshape(*count, -1, 2, width).swapaxes(-1, -2)
    return rules.narrow(pairs.reshape(*count, -1, 2 * width), PAIRED)


def unpair(pairs: np.ndarray, k: int) -> np.ndarray:
    """The panels [.., k, 32] that ``pair`` made, in float64."""
    *count, half, width = pairs.shape
    rows = rules.wide(pairs).reshape(*count, half, width // 2, 2).swapaxes(-1, -2)
    return rows.reshape(*count, 2 * half, width // 2)[..., :k, :]


def is_narrow(o: int, channels: int, group: int) -> bool:
    """Whether kernels of images.h and grouped.h take a weight of ``group`` groups of ``channels`` channels
    with ``o`` outputs in total. They do if each group has few channels and as many outputs as channels. A
    column of the panels then has only its own group's channels: panel_type of taps x channels."""
    return group > 1 and o == group * channels and channels in NARROW


def takes_pairs(o: int, channels: int, group, panels: TensorType) -> bool:
    """Whether the rows of panels can be in pairs. With several groups they can if groups have many channels
    and the number of rows is even."""
    return group == 1 or (not is_narrow(o, channels, group) and panels.shape[1] % 2 == 0)


def bundle_of(group: int, columns: int) -> int:
    """The number of groups that share panels, for ``group`` groups of ``columns`` output columns each: the
    divisor of ``group`` that fills a vector best. The elements that a column has for channels of other groups
    are zero."""
    return max(b for b in range(1, max(1, BUNDLE // columns) + 1) if group % b == 0)


def grouped_panel_type(o: int, channels: int, taps: int, group: int) -> TensorType:
    """The type, in panels, of a weight [o, channels, taps] of ``group`` groups; groups that share panels
    follow one another."""
    b = bundle_of(group, o // group)
    panels = group // b * -(-b * o // group // PANEL)
    return TensorType("float32", (panels, taps * b * channels, PANEL))


def pack_grouped(w: np.ndarray, group: int) -> np.ndarray:
    """A weight [o, channels, ..] of ``group`` groups in panels; the type is grouped_panel_type."""
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
        made.append(pack(whole))
    return np.concatenate(made)


def pack_float_convolution(w: np.ndarray, group: int) -> np.ndarray:
    """A weight [o, channels, kh, kw] of ``group`` groups in panels, as conv2d without Winograd reads it."""
    o, channels = w.shape[:2]
    return pack(w) if is_narrow(o, channels, group) else pack_grouped(w, group)


def unpack_grouped(panels: np.ndarray, o: int, group: int) -> np.ndarray:
    """[o, k]: the columns that pack_grouped packed, each over all channels of the groups that share its
    panels."""
    b = bundle_of(group, o // group)
    return np.concatenate([unpack(bundle, b * o // group).T for bundle in np.split(panels, group // b)])


def refuse_panels(inputs, outputs, attrs) -> bool:
    """Whether a node's constant weight stays as it is. This is so if the node is not float32, names its
    kernel, has an empty result, or has a packed weight already."""
    float32 = inputs[0].dtype == "float32" and bool(outputs[0].size)
    return not float32 or bool(attrs.get("packed")) or KERNEL in attrs


def takes_packed(inputs, outputs, attrs) -> str | None:
    """Body.accepts of a kernel that reads panels only."""
    return None if attrs["packed"] else "it reads weights in panels (packed), these are plain"


def pack(w: np.ndarray) -> np.ndarray:
    """A weight [n, channels, ..] in panels; the type is panel_type."""
    n, *rest = w.shape
    rows = np.moveaxis(w, 1, -1).reshape(n, math.prod(rest))
    padded = np.zeros((-(-n // PANEL) * PANEL, rows.shape[1]), w.dtype)
    padded[:n] = rows
    return np.ascontiguousarray(padded.reshape(-(-n // PANEL), PANEL, rows.shape[1]).transpose(0, 2, 1))


def unpack(panels: np.ndarray, n: int) -> np.ndarray:
    """The weight [k, n] that panels [ceil(n / 32), k, 32] hold."""
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


define(
    "pack_panels",
    "weights in panels of 32 columns, as the fast cpu kernels read them",
    (1, 1),
    _infer,
    lambda arrays, attrs: [pack(arrays[0].T if attrs["transpose"] else arrays[0])],
    attrs=(Attr("transpose", "bool", False, "the weight is [k,n], not [n,channels,..]"),),
    words=lambda i, o, a: [int(a["transpose"])],
    bodies={"cpu": Body("pack_panels", ("float32",), rules.by_bytes)},
    pace={"cpu": "simple"},
    cases=tuple(
        case(name, shape, {"transpose": name == "matmul"}, nmse=rules.EXACT)
        for name, shape in (
            ("dense", (70, 33)),
            ("matmul", (33, 70)),
            ("conv", (40, 5, 3, 2)),
            ("depthwise", (32, 1, 3, 3)),
            ("no_k", (3, 0)),
            ("empty", (0, 3)),
        )
    ),
)
