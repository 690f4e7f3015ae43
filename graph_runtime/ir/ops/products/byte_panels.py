"""Weights of quantized products in panels of bytes, as the cpu's kernels read them
(native/kernels/byte_panels.h).

A weight consists of numbers less their zero point, int16 of -255 .. 255. A panel holds 32 output columns, so
panels are int8 [ceil(n / 32), ceil(k / 4) + 2, 128]. Four rows of k are beside each other: element (p, c) of
a panel is at [p // 4, 4 * c + p % 4], and zeros follow the last row. If the numbers of a column do not fit
into bytes, the column's shift, one number, is added to all of them. The last two rows are 32 int32 each: the
sum of each column before the shift, and the shift of each column.

k is (kernel row, kernel column, channel). For a depthwise weight it is (kernel column, kernel row), with the
kernel rows filled up to a multiple of four.
"""

from __future__ import annotations

import numpy as np

from ....base.errors import GraphError
from ...graph import TensorType

PANEL = 32  # GR_BYTES_PANEL
MOST_K = (
    2**31 - 1
) // 255**2  # most products of a byte and a number of -255 .. 255 whose sum fits into int32
MOST_TAPS = 128  # most taps of a depthwise kernel: its rows, in fours, times the columns that a window spans


def bytes_type(n: int, k: int) -> TensorType:
    """The type, in panels of bytes, of a weight with ``n`` output columns of ``k`` numbers each."""
    return TensorType("int8", (-(-n // PANEL), -(-k // 4) + 2, 4 * PANEL))


def pack_bytes(w: np.ndarray) -> np.ndarray:
    """A weight int16 [n, k] in panels. Raises GraphError for a column whose range of numbers exceeds a
    byte's."""
    n, k = w.shape
    wide = w.astype(np.int32)
    least = wide.min(axis=1, initial=0)
    shift = np.where((least < -128) | (wide.max(axis=1, initial=0) > 127), -128 - least, 0)
    moved = wide + shift[:, None]
    if moved.max(initial=0) > 127:
        raise GraphError("a column of a quantized weight spans more than a byte", got=int(moved.max()))
    panels = -(-n // PANEL)
    padded = np.zeros((panels * PANEL, -(-k // 4) * 4), np.int8)
    padded[:n, :k] = moved
    body = padded.reshape(panels, PANEL, -1, 4).transpose(0, 2, 1, 3).reshape(panels, -1, 4 * PANEL)
    return np.concatenate([body, _last_rows(wide.sum(axis=1), shift, panels)], axis=1)


def _last_rows(sums: np.ndarray, shift: np.ndarray, panels: int) -> np.ndarray:
    rows = np.zeros((2, panels * PANEL), np.int32)
    rows[0, : len(sums)], rows[1, : len(shift)] = sums, shift
    return np.ascontiguousarray(rows.reshape(2, panels, PANEL).transpose(1, 0, 2)).view(np.int8)


def unpack_bytes(panels: np.ndarray, n: int, k: int) -> np.ndarray:
    """The weight int16 [n, k] that ``pack_bytes`` packed."""
    count = panels.shape[0]
    shift = np.ascontiguousarray(panels[:, -1:, :]).view(np.int32).reshape(-1)[:n]
    body = panels[:, :-2, :].reshape(count, -1, PANEL, 4).transpose(0, 2, 1, 3).reshape(count * PANEL, -1)
    return (body[:n, :k].astype(np.int32) - shift[:, None]).astype(np.int16)


def depthwise_k(kernel: tuple[int, int]) -> int:
    """The k of a depthwise weight with this kernel in panels."""
    return -(-kernel[0] // 4) * 4 * kernel[1]


def pack_convolution(w: np.ndarray, depthwise: bool) -> np.ndarray:
    """A weight int16 [o, channels, kh, kw] in panels. The weight has one group or, if ``depthwise``, groups
    of one channel."""
    o, _, kh, kw = w.shape
    if not depthwise:
        return pack_bytes(w.transpose(0, 2, 3, 1).reshape(o, -1))
    filled = np.zeros((o, kw, -(-kh // 4) * 4), w.dtype)
    filled[:, :, :kh] = w[:, 0].transpose(0, 2, 1)
    packed = pack_bytes(filled.reshape(o, -1))
    shift = np.ascontiguousarray(packed[:, -1, :]).view(np.int32).reshape(-1)
    if shift.any():  # bytes that fill up rows stay 0: no taps belong to them
        body = packed[:, :-2, :].reshape(len(packed), kw, -1, PANEL, 4)
        rows = np.arange(body.shape[2] * 4).reshape(-1, 4) >= kh
        body[...] = np.where(rows[None, None, :, None, :], 0, body)
    return packed


def unpack_convolution(panels: np.ndarray, o: int, channels: int, kernel: tuple[int, int]) -> np.ndarray:
    """The weight int16 [o, channels, kh, kw] that ``pack_convolution`` packed; ``channels``: number of
    channels; 0 for a depthwise weight."""
    kh, kw = kernel
    if channels:
        return unpack_bytes(panels, o, kh * kw * channels).reshape(o, kh, kw, channels).transpose(0, 3, 1, 2)
    k = depthwise_k(kernel)
    return unpack_bytes(panels, o, k).reshape(o, kw, -1)[:, None, :, :kh].swapaxes(2, 3)


def drawn_panels(t: TensorType, rng: np.random.Generator, k: int, kernel_rows: int = 0) -> np.ndarray:
    """Random panels of type ``t``, of weights with ``k`` rows. Either every fourth column or no column is
    shifted, because these two kinds of weights have kernels of their own. ``kernel_rows``: number of rows of
    a depthwise kernel; 0 for other weights."""
    n = t.shape[0] * PANEL
    w = rng.integers(-128, 128, (n, k)).astype(np.int16)
    if rng.integers(2):
        w[::4] += rng.integers(-127, 128, (len(w[::4]), 1)).astype(np.int16)
    if not kernel_rows:
        return pack_bytes(w)
    columns = k // (-(-kernel_rows // 4) * 4)
    taps = w[:, : columns * kernel_rows].reshape(n, 1, columns, kernel_rows).swapaxes(2, 3)
    return pack_convolution(taps, depthwise=True)
