"""Signal processing: DFT and STFT as products by a constant matrix of cosines and sines; matrices of mel
filters."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....base import dtypes
from ..context import Context, Results, converter
from ..read import dtype_name
from ..tape import TapeValue

_MOST_BYTES = 64 << 20  # most bytes of a matrix; transforms may have up to 2,900 points


def _wide(x: TapeValue) -> TapeValue:
    """x, after a cast to float32 if its elements are 16-bit floats."""
    return x if dtypes.to_numpy(x.dtype).itemsize >= 4 else x.cast("float32")


def _turns(points: int, count: int, length: int, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [points, count] of sign * 2 pi i k / length."""
    angle = 2 * math.pi / length * (np.arange(points)[:, None] * np.arange(count)[None] % length)
    return np.cos(angle), sign * np.sin(angle)


def _matrix(points: int, parts: int, count: int, length: int, inverse: bool) -> np.ndarray:
    """Matrix [points, parts, count, 2] from ``points`` values of ``parts`` numbers (1: real; 2: real and
    imaginary) to ``count`` frequencies of a transform of ``length`` points; ``inverse``: whether the matrix
    is that of the inverse transform."""
    cos, sin = _turns(points, count, length, 1 if inverse else -1)
    made = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)[:, :parts]
    return made / length if inverse else made


def _real_matrix(points: int, length: int) -> np.ndarray:
    """Matrix [points, 2, length, 1] of the inverse transform from the first half of the frequencies to real
    values."""
    cos, sin = _turns(points, length, length, 1)
    twice = np.full(points, 2.0)
    twice[0] = 1
    if length % 2 == 0 and points == length // 2 + 1:
        twice[-1] = 1
    return np.stack([cos, -sin], 1)[..., None] * twice[:, None, None, None] / length


def _constant(
    ctx: Context, shape: tuple[int, ...], make: Callable[[], np.ndarray], like: TapeValue, what: str
) -> TapeValue:
    if math.prod(shape) * 8 > _MOST_BYTES:
        ctx.fail(f"{what} needs a matrix of {math.prod(shape):,} numbers")
    return ctx.filled(shape, lambda: make().reshape(shape), like.dtype, f"cosines and sines of {what}")


@converter("DFT", limits="computed as a product: up to about 2,900 points")
def _dft(ctx: Context) -> Results:
    given = ctx.input(0)
    axis = int(ctx.single(2, -2)) if ctx.opset >= 20 else ctx.attr("axis", 1)
    axis = ctx.axis(axis, given.rank)
    parts = given.shape[-1]
    if axis == given.rank - 1 or parts not in (1, 2):
        ctx.fail(
            f"axis {axis} of {given.type} is the last, or the last dimension is not 1 (real) or 2 (complex)"
        )
    inverse, onesided = bool(ctx.attr("inverse", 0)), bool(ctx.attr("onesided", 0))
    back = inverse and onesided  # from half of the frequencies to real values
    size = given.shape[axis]
    length = int(ctx.single(1)) if ctx.has(1) else 2 * (size - 1) if back else size
    if length < 1 or (onesided and parts != (2 if back else 1)):
        ctx.fail(f"a transform of {length} points with onesided {onesided} does not fit {given.type}")
    perm = [*(d for d in range(given.rank) if d not in (axis, given.rank - 1)), axis, given.rank - 1]
    x = ctx.transpose(_wide(given), perm)
    wanted = length // 2 + 1 if back else length
    used = min(size, wanted)
    x = ctx.slice(x, x.rank - 2, 0, used)  # elements beyond the end of x are zero
    count = length if back or not onesided else length // 2 + 1
    shape = (used * parts, count * (1 if back else 2))
    matrix = _constant(
        ctx,
        shape,
        lambda: _real_matrix(used, length) if back else _matrix(used, parts, count, length, inverse),
        x,
        f"a transform of {length} points",
    )
    made = ctx.reshape(x, (*x.shape[:-2], used * parts)) @ matrix
    made = ctx.reshape(made, (*x.shape[:-2], count, 1 if back else 2))
    return ctx.transpose(made, [int(d) for d in np.argsort(perm)]).cast(given.dtype)


@converter("STFT", limits="computed as a convolution: frames of up to about 2,900 points")
def _stft(ctx: Context) -> Results:
    given, step = ctx.input(0), int(ctx.single(1))
    x, window = _wide(given), ctx.optional(2)
    if ctx.has(3):
        length = int(ctx.single(3))
    elif window is not None:
        length = window.shape[0]
    else:
        ctx.fail("frame_length or a window must give the length of frames")
    x = x if x.rank == 3 else ctx.reshape(x, (*x.shape, 1))
    batch, size, parts = x.shape
    if step < 1 or not 1 <= length <= size or parts not in (1, 2):
        ctx.fail(f"frames of {length} points, one every {step}, do not fit {given.type}")
    if window is not None and window.shape != (length,):
        ctx.fail(f"a window of {window.type} does not fit frames of {length} points")
    count = length // 2 + 1 if ctx.attr("onesided", 1) else length
    weights = _constant(
        ctx,
        (2 * count, parts, 1, length),
        lambda: _matrix(length, parts, count, length, False).transpose(2, 3, 1, 0),
        x,
        f"frames of {length}",
    )
    if window is not None:
        weights = weights * window.cast(x.dtype)
    image = ctx.reshape(ctx.transpose(x, [0, 2, 1]), (batch, parts, 1, size))
    made = ctx.op("conv2d", image, weights, strides=(1, step))
    frames = made.shape[3]
    made = ctx.reshape(ctx.transpose(made, [0, 3, 1, 2]), (batch, frames, count, 2))
    return made.cast(given.dtype)


@converter("MelWeightMatrix", limits="all inputs must be known before a run")
def _mel_weight_matrix(ctx: Context) -> Results:
    bins, length, rate = (int(ctx.single(i)) for i in range(3))
    low, high = (2595 * math.log10(1 + float(ctx.single(i)) / 700) for i in (3, 4))
    points, dtype = length // 2 + 1, dtype_name(ctx.attr("output_datatype", 1), "the result")
    if bins < 1 or length < 1 or rate < 1:
        ctx.fail(f"{bins} filters of {length} points at {rate} Hz: these must be positive")
    ctx.fits(points, bins)
    edges = 700 * (10 ** ((low + np.arange(bins + 2) * ((high - low) / (bins + 2))) / 2595) - 1)
    edges = ((length + 1) * edges // rate).astype(np.int64)
    if edges.min() < 0 or edges.max() > points:
        ctx.fail(f"the filters reach point {edges.max()}, but there are {points}")
    at = np.arange(points)[:, None]
    start, middle, end = edges[:-2], edges[1:-1], edges[2:]
    rising = np.where(middle > start, (at - start) / np.maximum(middle - start, 1), (at == middle) * 1.0)
    falling = (end - at) / np.maximum(end - middle, 1)
    up = np.where((at >= start) & (at <= middle), rising, 0)
    return ctx.const(np.where((at > middle) & (at < end), falling, up).astype(dtypes.to_numpy(dtype)))
