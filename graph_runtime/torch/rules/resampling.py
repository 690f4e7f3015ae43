"""Axes resized: upsampling, padding with elements of the axis, and their gradients.

Each of these operations is a linear map of one axis, then of the next axis: a new element is a weighted sum
of a few old elements (``Taps`` if all sums have equally many terms, else ``Parts``). The sums are not
computed as matrix products, because infinity times a zero of the matrix would make all elements of the axis
NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from ...compositions.resampling import keys, triangle
from ..counters import Unsupported
from .movement import cut
from .operands import axis_of, joined, reshape
from .table import rule

Taps = list[tuple[np.ndarray, np.ndarray]]  # item n: (old indices, weights) of the n-th terms of all sums
Parts = list[list[tuple[int, float]]]  # for each new element, (old index, weight) of its terms
_NOTHING = -1  # index of a term that adds nothing


def _with_nothing(e: Any, x: Any, axis: int, indices: np.ndarray) -> tuple[Any, Any]:
    """(x, indices as a value), where x has a zero appended along the axis if an index is ``_NOTHING``, which
    becomes the index of that zero."""
    nothing = indices == _NOTHING
    if nothing.any():
        pads = [0] * (2 * len(x.shape))
        pads[len(x.shape) + axis] = 1
        indices = np.where(nothing, x.shape[axis], indices)
        x = x.op("pad", pads=tuple(pads), value=0.0)
    return x, e.array(indices.astype(np.int32), "int32")


def _picked(e: Any, x: Any, axis: int, taps: Taps) -> Any:
    """x with the axis replaced by the sums over ``taps``."""
    made = None
    for indices, weights in taps:
        source, at = _with_nothing(e, x, axis, indices)
        part = _scaled(e, source.op("take", at, axis=axis), axis, weights)
        made = part if made is None else made + part
    return made


def summed(e: Any, x: Any, axis: int, parts: Parts) -> Any:
    """x with the axis replaced by the sums ``parts``. Weights that depend only on the old element are applied
    once, before the sums; weights that depend only on the new element are applied once, after the sums."""
    pairs = [(at, new, weight) for new, part in enumerate(parts) for at, weight in part]
    for side in (0, 1):
        scale = {pair[side]: pair[2] for pair in pairs}
        if all(scale[pair[side]] == pair[2] for pair in pairs):
            parts = [[(at, 1.0) for at, _ in part] for part in parts]
            size = (x.shape[axis], len(parts))[side]
            weights = np.array([scale.get(i, 1.0) for i in range(size)])
            x = x if side else _scaled(e, x, axis, weights)
            made = _picked(e, x, axis, _taps_of(parts))
            return _scaled(e, made, axis, weights) if side else made
    return _picked(e, x, axis, _taps_of(parts))


def _taps_of(parts: Parts) -> Taps:
    """Parts as taps: shorter sums are filled up with ``_NOTHING``."""
    columns = zip_longest(*parts, fillvalue=(_NOTHING, 1.0))
    pairs = (zip(*column, strict=True) for column in columns)
    return [(np.array(indices), np.array(weights)) for indices, weights in pairs]


def _scaled(e: Any, x: Any, axis: int, weights: np.ndarray) -> Any:
    if (weights == 1).all():
        return x
    if (weights == weights[0]).all():
        return x * float(weights[0])
    shape = [1] * len(x.shape)
    shape[axis] = -1
    return x * e.array(weights.astype(np.float32).reshape(shape), x.dtype)


def turned(parts: Parts, size: int) -> Parts:
    """The transposed map: for each of ``size`` old elements, a list of (new element, weight), one for each
    new element to which the old element contributes."""
    made: Parts = [[] for _ in range(size)]
    for new, part in enumerate(parts):
        for at, weight in part:
            made[at].append((new, weight))
    return made


def _parts(taps: Taps) -> Parts:
    pairs = (zip(indices.astype(int).tolist(), weights.tolist(), strict=True) for indices, weights in taps)
    return [[tap for tap in new if tap[0] != _NOTHING] for new in zip(*pairs, strict=True)]


def _forward(e: Any, x: Any, taps: Sequence[Taps]) -> Any:
    """x with its last axes resized by their taps, in order."""
    for axis, one in enumerate(taps, len(x.shape) - len(taps)):
        x = _picked(e, x, axis, one)
    return x


def _backward(e: Any, grad: Any, sizes: Sequence[int], taps: Sequence[Taps]) -> Any:
    for axis, (size, one) in enumerate(zip(sizes, taps, strict=True), len(grad.shape) - len(taps)):
        grad = summed(e, grad, axis, turned(_parts(one), size))
    return grad


# **************** upsampling ****************


def _step(size: int, new: int, scale: float | None) -> np.float32:
    return np.float32(1 / scale if scale else size / new)


def _nearest(size: int, new: int, scale: float | None, shift: float = 0.0) -> Taps:
    at = np.floor((np.arange(new, dtype=np.float32) + np.float32(shift)) * _step(size, new, scale))
    return [(np.clip(at, 0, size - 1), np.ones(new))]


def _exact(size: int, new: int, scale: float | None) -> Taps:
    return _nearest(size, new, scale, 0.5)


def _positions(size: int, new: int, align: bool, scale: float | None) -> np.ndarray:
    """Positions of new elements on the scale of old ones."""
    at = np.arange(new, dtype=np.float32)
    if align:
        return at * np.float32((size - 1) / (new - 1) if new > 1 else 0)
    return (at + np.float32(0.5)) * _step(size, new, scale) - np.float32(0.5)


def _linear(size: int, new: int, align: bool, scale: float | None) -> Taps:
    at = np.maximum(_positions(size, new, align, scale), 0)
    low = np.minimum(np.floor(at), size - 1)
    part = np.minimum(at - low, 1)
    return [(low, 1 - part), (np.minimum(low + 1, size - 1), part)]


def _cubic(size: int, new: int, align: bool, scale: float | None) -> Taps:
    at = _positions(size, new, align, scale)
    low = np.floor(at)
    offsets = (-1, 0, 1, 2)
    return [(np.clip(low + offset, 0, size - 1), keys(at - low - offset, -0.75)) for offset in offsets]


def _smoothed(kernel: Callable[..., Any], reach: int) -> Callable[..., Taps]:
    """Taps of a smoothing kernel, which is widened by the step between new elements if that exceeds one old
    element."""

    def taps(size: int, new: int, align: bool, scale: float | None) -> Taps:
        step = float(_step(size, new, scale))
        if align:
            step = (size - 1) / (new - 1) if new > 1 else 0.0
        wide = max(step, 1.0)
        centre = step * (np.arange(new) + 0.5)
        first = np.maximum((centre - reach * wide + 0.5).astype(int), 0)
        last = np.minimum((centre + reach * wide + 0.5).astype(int), size)
        made = []
        for offset in range(int((last - first).max())):
            at = first + offset
            weights = np.where(at < last, kernel(np.abs(at - centre + 0.5) / wide), 0)
            made.append((np.where(weights != 0, at, _NOTHING), weights))
        total = sum(weights for _, weights in made)
        return [(at, weights / total) for at, weights in made]

    return taps


def _taps(kind: Callable[..., Taps], sizes: Any, new: Any, how: Sequence[Any], scales: Any) -> list[Taps]:
    scales = list(scales) or [None] * len(new)
    return [kind(s, n, *how, scale) for s, n, scale in zip(sizes, new, scales, strict=True)]


def _upsampling(name: str, kind: Callable[..., Taps], flags: int) -> None:
    """Register the rules of an upsampling and of its gradient. ``flags``: number of arguments between the
    sizes and the scales."""

    @rule(name)
    def upsample(e: Any, x: Any, output_size: Any, *how: Any) -> Any:
        if output_size is None or any(isinstance(h, (list, tuple)) for h in how):
            raise Unsupported("an output size given by factors runs on the host")
        sizes = x.shape[2:]
        return _forward(e, x, _taps(kind, sizes, output_size, how[:flags], how[flags:]))

    @rule(f"{name}_backward")
    def gradient(e: Any, grad: Any, output_size: Any, input_size: Any, *how: Any) -> Any:
        sizes = input_size[2:]
        return _backward(e, grad, sizes, _taps(kind, sizes, output_size, how[:flags], how[flags:]))


for _dims in ("1d", "2d", "3d"):
    _upsampling(f"upsample_nearest{_dims}", _nearest, 0)
    _upsampling(f"_upsample_nearest_exact{_dims}", _exact, 0)
_upsampling("upsample_linear1d", _linear, 1)
_upsampling("upsample_bilinear2d", _linear, 1)
_upsampling("upsample_bicubic2d", _cubic, 1)
_upsampling("_upsample_bilinear2d_aa", _smoothed(triangle, 1), 1)
_upsampling("_upsample_bicubic2d_aa", _smoothed(partial(keys, a=-0.5), 2), 1)
_upsampling("upsample_trilinear3d", _linear, 1)


# **************** padding with elements of the axis ****************


def _mirrored(size: int, before: int, after: int) -> Taps:
    at = np.abs(np.arange(-before, size + after))
    return [(np.where(at >= size, 2 * (size - 1) - at, at), np.ones(len(at)))]


def _repeated(size: int, before: int, after: int) -> Taps:
    return [(np.clip(np.arange(-before, size + after), 0, size - 1), np.ones(size + before + after))]


def _borders(kind: Callable[..., Taps], shape: Any, padding: Any) -> list[Taps]:
    n = len(padding) // 2
    return [
        kind(size, padding[2 * (n - 1 - i)], padding[2 * (n - 1 - i) + 1])
        for i, size in enumerate(shape[len(shape) - n :])
    ]


def _padding(name: str, kind: Callable[..., Taps]) -> None:
    @rule(name)
    def pad(e: Any, x: Any, padding: Any) -> Any:
        return _forward(e, x, _borders(kind, x.shape, padding))

    @rule(f"{name}_backward")
    def gradient(e: Any, grad: Any, x: Any, padding: Any) -> Any:
        sizes = x.shape[len(x.shape) - len(padding) // 2 :]
        return _backward(e, grad, sizes, _borders(kind, x.shape, padding))


for _dims in ("1d", "2d", "3d"):
    _padding(f"reflection_pad{_dims}", _mirrored)
    _padding(f"replication_pad{_dims}", _repeated)


@rule("roll")
def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        return reshape(roll(reshape(x, (math.prod(x.shape),)), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(dim, len(x.shape))
        first = -shift % x.shape[axis]
        if first:
            x = joined([cut(x, axis, first, x.shape[axis]), cut(x, axis, 0, first)], axis)
    return x
