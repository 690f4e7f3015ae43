"""Resize and Upsample, axis by axis: a product by a matrix that follows from sizes and attributes, or a
take."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....compositions.resampling import keys, triangle
from ....ir.value import where
from ..context import Context, Results, converter
from ..tape import TapeValue
from .casts import from_zero, narrow, to_even, towards_zero, wide
from .shapes import MOST_RANGE

_MOST_WEIGHTS = 2**28  # elements of the matrix along one axis
# Integer types that ONNX Runtime resizes: results are truncated, and with antialias rounded after each axis.
# All other types are rounded at the end, as in ONNX's reference implementation.
_AS_ORT = ("int8", "uint8", "int32")
_OF_A_MODE = (
    "nearest_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
    "antialias",
    "keep_aspect_ratio_policy",
)


@converter("Upsample")
def _upsample(ctx: Context) -> Results:
    x = ctx.input(0)
    scales = ctx.attr("scales", None) if ctx.opset < 9 else ctx.value(1).reshape(-1).tolist()
    mode = ctx.attr("mode", "nearest")
    if mode not in ("nearest", "linear", "bilinear"):
        ctx.fail(f"mode is {mode!r}")
    kept = x.dtype
    x = x if mode == "nearest" else wide(ctx, x)
    step = _step(mode)
    for axis, scale in enumerate(scales):
        size = _size(ctx, x.shape[axis], scale)
        positions = _source(ctx, "asymmetric", x.shape[axis], size, step(scale), None)
        if mode == "nearest":
            x = _picked(ctx, x, axis, np.floor(positions))
        else:
            x = _mixed(ctx, x, axis, positions, triangle)
    return x if mode == "nearest" else narrow(x, kept, towards_zero)


@converter("Resize")
def _resize(ctx: Context) -> Results:
    x = ctx.input(0)
    axes = ctx.axes(ctx.attr("axes", None) or range(x.rank), x.rank)
    scales, sizes = _scales(ctx, x, axes)
    ctx.ignore(*_OF_A_MODE)  # exporters write all attributes, also those of other modes
    mode = ctx.attr("mode", "nearest")
    how = ctx.attr("coordinate_transformation_mode", "half_pixel") if ctx.opset >= 11 else "asymmetric"
    roi = ctx.value(1, None) if how == "tf_crop_and_resize" and ctx.opset >= 11 else None
    outside: list[tuple[int, np.ndarray]] = []
    kept, antialias, cut = x.dtype, bool(ctx.attr("antialias", 0)), to_even
    if antialias and mode == "nearest":
        ctx.fail("antialias is only supported for linear and cubic")
    if kept in _AS_ORT and (antialias or mode == "linear"):
        cut = from_zero if antialias else towards_zero
    step = _step(mode)
    for i, axis in reversed(list(enumerate(axes))):  # ONNX Runtime's order, which matters if axes are rounded
        n = x.shape[axis]
        box = None if roi is None else (float(roi[i]), float(roi[i + len(axes)]))
        if sizes[i] == n and scales[i] == 1.0 and box is None:
            continue
        positions = _source(ctx, how, n, sizes[i], step(scales[i]), box)
        if box is not None:
            outside.append((axis, (positions < 0) | (positions > n - 1)))
        if mode == "nearest":
            x = _nearest(ctx, x, axis, positions, scales[i])
            continue
        x = _weighted(ctx, wide(ctx, x), axis, positions, mode, scales[i])
        x = narrow(x, kept, cut) if cut is from_zero else x
    return _extrapolated(ctx, narrow(x, kept, cut), outside)


def _scales(ctx: Context, x: TapeValue, axes: list[int]) -> tuple[list[float], list[int]]:
    """(scales of the axes, new sizes of the axes)."""
    at = 1 if ctx.opset < 11 else 2
    given = ctx.value(at, None)
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    if given is not None and given.size:
        scales = [float(s) for s in given.reshape(-1)]
        return scales, [_size(ctx, x.shape[a], s) for a, s in zip(axes, scales, strict=True)]
    sizes = ctx.ints(3)
    if not all(0 <= size <= MOST_RANGE for size in sizes):
        ctx.fail(f"sizes are {sizes}; each must be in 0 .. {MOST_RANGE}")
    scales = [s / x.shape[a] for a, s in zip(axes, sizes, strict=True)]
    if policy != "stretch":
        one = min(scales) if policy == "not_larger" else max(scales)
        scales = [one] * len(axes)
        sizes = [math.floor(x.shape[a] * one + 0.5) for a in axes]
    return scales, sizes


def _size(ctx: Context, n: int, scale: float) -> int:
    """New size of an axis that is scaled by ``scale``."""
    if not 0 < scale * max(n, 1) <= MOST_RANGE:
        ctx.fail(f"an axis of {n} is scaled by {scale}, to 0 or less, or to more than {MOST_RANGE}")
    return math.floor(n * scale)


def _step(mode: str) -> type[np.floating[Any]]:
    """Type in which positions are computed. For mode nearest it is float32, the type of the scales: halfway
    between two elements the choice depends on how positions are rounded. For other modes it is float64, which
    makes weights more exact."""
    return np.float32 if mode == "nearest" else np.float64


# {coordinate_transformation_mode: function of the position among n old elements}; the position is that of
# element i of ``size`` new elements, and ``wide`` is the new size before rounding
_POSITIONS: dict[str, Callable[..., Any]] = {
    "half_pixel": lambda i, n, size, scale, wide: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, n, size, scale, wide: (
        n / 2 * (1 - size / wide) + (i + 0.5) / scale - 0.5
    ),
    "pytorch_half_pixel": lambda i, n, size, scale, wide: (i + 0.5) / scale - 0.5 if size > 1 else i * 0.0,
    "align_corners": lambda i, n, size, scale, wide: i * (n - 1) / (wide - 1) if size > 1 else i * 0.0,
    "tf_half_pixel_for_nn": lambda i, n, size, scale, wide: (i + 0.5) / scale,
    "asymmetric": lambda i, n, size, scale, wide: i / scale,
}


def _source(
    ctx: Context, how: str, n: int, size: int, scale: np.floating[Any], box: tuple[float, float] | None
) -> np.ndarray:
    """Positions of the new elements along the old axis, in the type of ``scale``."""
    ctx.fits(size)
    i, wide = np.arange(size, dtype=scale.dtype), scale * n
    if how in _POSITIONS:
        return _POSITIONS[how](i, n, size, scale, wide)
    if how != "tf_crop_and_resize" or box is None:
        ctx.fail(f"coordinate_transformation_mode {how!r} is not supported")
    start, end = box
    if size > 1:
        return start * (n - 1) + i * (end - start) * (n - 1) / (wide - 1)
    return np.full(size, 0.5 * (start + end) * (n - 1))


def _nearest(ctx: Context, x: TapeValue, axis: int, positions: np.ndarray, scale: float) -> TapeValue:
    rounding = "ceil" if scale < 1 else "floor"  # before opset 11 introduced nearest_mode
    if ctx.opset >= 11:
        rounding = ctx.attr("nearest_mode", "round_prefer_floor")
    rounded: Any = {
        "round_prefer_floor": lambda p: np.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: np.floor(p + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }.get(rounding)
    if rounded is None:
        ctx.fail(f"nearest_mode {rounding!r} is not supported")
    return _picked(ctx, x, axis, rounded(positions))


def _weighted(
    ctx: Context, x: TapeValue, axis: int, positions: np.ndarray, mode: str, scale: float
) -> TapeValue:
    if mode not in ("linear", "cubic"):
        ctx.fail(f"mode is {mode!r}")
    kernel: Callable[[np.ndarray], np.ndarray]
    if mode == "linear":
        kernel, reach = triangle, 1
    else:
        a = ctx.attr("cubic_coeff_a", -0.75)
        kernel, reach = (lambda d: keys(d, a)), 2
    shrink = min(scale, 1.0) if ctx.attr("antialias", 0) else 1.0
    return _mixed(ctx, x, axis, positions, kernel, reach, bool(ctx.attr("exclude_outside", 0)), shrink)


def _picked(ctx: Context, x: TapeValue, axis: int, positions: np.ndarray) -> TapeValue:
    positions = np.clip(positions, 0, x.shape[axis] - 1).astype(np.int64)
    return ctx.op("take", x, ctx.const(positions), axis=axis)


def _mixed(
    ctx: Context,
    x: TapeValue,
    axis: int,
    positions: np.ndarray,
    kernel: Callable[..., Any],
    reach: int = 1,
    exclude: bool = False,
    shrink: float = 1.0,
) -> TapeValue:
    """Each new element as a weighted sum of old neighbours. A neighbour outside the image is replaced by the
    element at the edge; with ``exclude`` it is left out."""
    n, wide = x.shape[axis], math.ceil(reach / shrink)
    ctx.fits(len(positions), 2 * wide + 3)
    base = np.floor(positions).astype(np.int64)
    near = base[:, None] + np.arange(-wide + 1 - (shrink != 1.0), wide + 1 + (shrink != 1.0))
    weights = kernel((positions[:, None] - near) * shrink)
    if exclude:
        weights = np.where((near < 0) | (near >= n), 0.0, weights)
    if exclude or shrink != 1.0:
        weights = weights / weights.sum(1, keepdims=True)
    if len(positions) * n > _MOST_WEIGHTS:
        ctx.fail(f"it takes {len(positions)} x {n} weights, at most {_MOST_WEIGHTS} are supported")
    ctx.fits(len(positions), n)
    matrix = np.zeros((len(positions), n))
    np.add.at(matrix, (np.arange(len(positions))[:, None], np.clip(near, 0, n - 1)), weights)
    perm = [*(d for d in range(x.rank) if d != axis), axis]
    moved = ctx.transpose(x, perm)
    lead = moved.shape[:-1]
    flat = ctx.reshape(moved, (math.prod(lead), n))
    made = flat.op("matmul", ctx.const(matrix, x.dtype), transpose_b=True)
    made = ctx.reshape(made, (*lead, len(positions)))
    return ctx.transpose(made, [perm.index(d) for d in range(x.rank)])


def _extrapolated(ctx: Context, x: TapeValue, outside: list[tuple[int, np.ndarray]]) -> TapeValue:
    """x with extrapolation_value for elements that lie outside the old image along any axis."""
    value = ctx.attr("extrapolation_value", 0.0)
    for axis, mask in outside:
        if mask.any():
            there = ctx.const(mask.reshape(-1, *(1,) * (x.rank - axis - 1)))
            x = where(there, value, x)
    return x
