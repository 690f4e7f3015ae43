"""The discrete Fourier transform of rows, by products with its matrix.

A length that has a divisor of at most 128 is cut in two (Cooley and Tukey, 1965); a length with larger prime
divisors becomes a circular convolution of a power of two (Bluestein, 1970). Angles are computed in float64.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..ir.ops.moving.shape import exactly
from ..ir.value import Value

V = TypeVar("V", bound=Value)
Pair = tuple[V, V]  # the real and the imaginary part

_MOST = 128  # the longest row that one product with the matrix transforms


def multiply(a: Pair[V], b: Pair[V]) -> Pair[V]:
    """The product of complex tensors whose shapes broadcast."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def turns(like: V, angles: np.ndarray) -> Pair[V]:
    """exp(-2 pi i angle) of an array of angles in whole turns, as constants beside ``like``."""
    radians = -2 * np.pi * np.asarray(angles, np.float64)
    return like.scalar(np.cos(radians).astype(np.float32)), like.scalar(np.sin(radians).astype(np.float32))


def inverse(x: Pair[V]) -> Pair[V]:
    """The inverse transform of rows: that of the parts swapped, divided by the length."""
    imag, real = transform((x[1], x[0]))
    size = float(x[0].shape[-1])
    return real / size, imag / size


def transform(x: Pair[V]) -> Pair[V]:
    """The transform of each row of complex tensors [rows, n], in natural order."""
    rows, size = x[0].shape
    if size <= _MOST:
        steps = np.arange(size)
        return _product(x, turns(x[0], np.outer(steps, steps) % size / size))
    part = max(n for n in range(1, _MOST + 1) if size % n == 0)
    if part == 1:
        return _chirped(x)
    rest = size // part
    # element n = p rest + r, frequency f = g + part h: transforms over p, turns of r g / n, transforms over r
    columns = _turned(x, (rows, part, rest))
    made = transform(_shaped(columns, (rows * rest, part)))
    angles = np.outer(np.arange(rest), np.arange(part)) / size
    made = multiply(_shaped(made, (rows, rest, part)), turns(x[0], angles[None]))
    made = transform(_shaped(_turned(made, (rows, rest, part)), (rows * part, rest)))
    return _shaped(_turned(made, (rows, part, rest)), (rows, size))


def _product(x: Pair[V], matrix: Pair[V]) -> Pair[V]:
    (a, b), (c, d) = x, matrix
    return a @ c - b @ d, a @ d + b @ c


def _shaped(x: Pair[V], shape: tuple[int, ...]) -> Pair[V]:
    a, b = (part.op("reshape", **exactly(shape)) for part in x)
    return a, b


def _turned(x: Pair[V], shape: tuple[int, ...]) -> Pair[V]:
    """The last two dimensions swapped, of tensors that have ``shape`` first."""
    a, b = (part.op("transpose", perm=(0, 2, 1)) for part in _shaped(x, shape))
    return a, b


def _chirped(x: Pair[V]) -> Pair[V]:
    size = x[0].shape[-1]
    length = 1 << (2 * size - 2).bit_length()
    squares = np.arange(size, dtype=np.int64) ** 2 % (2 * size) / (2 * size)
    chirp = turns(x[0], squares[None])
    around = np.zeros(length, complex)
    around[:size] = np.exp(2j * np.pi * squares)
    around[length - size + 1 :] = around[1:size][::-1]
    spectrum = np.fft.fft(around)[None]
    factors = tuple(x[0].scalar(part.astype(np.float32)) for part in (spectrum.real, spectrum.imag))
    long = _padded(multiply(x, chirp), length)
    made = inverse(multiply(transform(long), (factors[0], factors[1])))
    return multiply((made[0][:, :size], made[1][:, :size]), chirp)


def _padded(x: Pair[V], length: int) -> Pair[V]:
    pads = [0, 0, 0, length - x[0].shape[-1]]
    a, b = (part.op("pad", pads=pads, value=0.0) for part in x)
    return a, b
