"""Fourier transforms of rows. A complex tensor is two tensors, its real and its imaginary part."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compositions import fourier
from ....compositions.fourier import Pair, multiply, transform, turns
from ...devices.wide_value import WideValue
from ...errors import expect, mistaken
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import device_tensor, target

_SERVED = "matmul, multiply, add, transpose, reshape"


def _complex(real: Tensor, imag: Tensor | None) -> Pair[WideValue]:
    """The rows of a complex tensor as matrices of floats; the imaginary part is 0 by default."""
    rows = (real.logical_volume() // real.shape[-1], real.shape[-1])
    parts = [real] if imag is None else [real, device_tensor(imag, "imaginary part")]
    made = [part._value.reshape(rows).wide() for part in parts]
    return made[0], made[1] if imag is not None else made[0] * 0.0


def _placed(like: Tensor, made: Pair[WideValue], shape: Any = None) -> tuple[Tensor, Tensor]:
    """Both parts in the memory of ``like``, by default in its shape, too."""
    real, imag = (target(like).wrap(part.reshape(tuple(shape or like.shape))) for part in made)
    return real, imag


def _imaginary(given: Any, next_one: Any) -> tuple[Tensor | None, Any]:
    """(the imaginary part or None, the argument after it). The release has a form of each function without an
    imaginary part, in which that argument is the second; those that follow it are then given by name."""
    if isinstance(given, Tensor) or given is None:
        return given, next_one
    if next_one is not None:
        raise mistaken("without an imaginary part, give the arguments after the second by name")
    return None, given


def _check_precision(precision: str) -> None:
    if precision not in ("precise", "fast"):
        text = "precision must be 'precise' or 'fast'"
        raise ValueError(f"ttnn.experimental.fft / ttnn.experimental.ifft: {text} (got '{precision}').")


@operation("experimental.fft", _SERVED)
def fft(input_real: Tensor, input_imag: Any = None, precision: str | None = None) -> tuple[Tensor, Tensor]:
    """The Fourier transform of the last dimension, in natural order, as a real and an imaginary part."""
    imag, precision = _imaginary(input_imag, precision)
    _check_precision(precision or "precise")
    return _placed(input_real, transform(_complex(input_real, imag)))


@operation("experimental.ifft", _SERVED)
def ifft(spectrum_real: Tensor, spectrum_imag: Tensor, precision: str = "precise") -> tuple[Tensor, Tensor]:
    """The inverse of experimental.fft, divided by the length of the rows."""
    _check_precision(precision)
    return _placed(spectrum_real, fourier.inverse(_complex(spectrum_real, spectrum_imag)))


@operation("experimental.bluestein_fft", _SERVED)
def bluestein_fft(
    input_real: Tensor, input_imag: Any = None, N: Any = None, precision: str = "precise"
) -> tuple[Tensor, Tensor]:
    """experimental.fft of rows [b, N] of any length."""
    imag, N = _imaginary(input_imag, N)
    _check_precision(precision)
    expect(
        input_real.shape[-1] == N,
        f"bluestein_fft: input last-dim must equal N = {N} (got {input_real.shape[-1]}).",
    )
    return _placed(input_real, transform(_complex(input_real, imag)))


@operation("experimental.fft_three_pass", _SERVED)
def fft_three_pass(
    input_real: Tensor,
    input_imag: Any = None,
    full_N: Any = None,
    precision: str = "precise",
    inverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """experimental.fft of rows of a length ``full_N`` that is the product of powers of two n1 n2 n3, given as
    [b n1 n2, n3]. The result [b, n3, n2, n1] has the frequencies in natural order."""
    imag, full_N = _imaginary(input_imag, full_N)
    _check_precision(precision)
    n1, n2, n3 = factors(full_N)
    rows, last = math.prod(input_real.shape[:-1]), input_real.shape[-1]
    split = f"for full_N={full_N} (N1={n1}, N2={n2}, N3={n3})"
    expect(last == n3, f"fft_three_pass: pre-shaped input last dim must be N3={n3} {split}; got {last}.")
    expect(
        rows % (n1 * n2) == 0, f"fft_three_pass: total rows {rows} must be a multiple of {n1 * n2} {split}."
    )
    batch = rows // (n1 * n2)
    x = tuple(part.reshape((batch, full_N)) for part in _complex(input_real, imag))
    made = (fourier.inverse if inverse else transform)((x[0], x[1]))
    return _placed(input_real, made, (batch, n3, n2, n1))


def factors(size: int) -> tuple[int, int, int]:
    """Powers of two (n1, n2, n3) whose product is ``size``: n3 is as large as it may be, n1 at least n2."""
    rest = size // 1024
    n1 = 1 << -(-(rest.bit_length() - 1) // 2)
    return n1, rest // n1, 1024


@operation("experimental.fft_radix_pass", _SERVED)
def fft_radix_pass(
    input_real: Tensor,
    input_imag: Any = None,
    P: Any = None,
    twiddle_N2: int = 0,
    stride: int = 1,
    output_scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The transform of rows of length P. If twiddle_N2 is not 0, element k of row r is turned by
    -2 pi ((r / stride) mod twiddle_N2) k / (P twiddle_N2) and then multiplied by output_scale."""
    imag, P = _imaginary(input_imag, P)
    size = input_real.shape[-1]
    expect(size == P, f"fft_radix_pass: input last dim ({size}) must equal params.P ({P}).")
    made = transform(_complex(input_real, imag))
    rows = made[0].shape[0]
    if twiddle_N2:
        text = f"(M={rows} / stride={stride}) must be a multiple of twiddle_N2 {twiddle_N2}."
        expect(rows // stride % twiddle_N2 == 0, f"fft_radix_pass: {text}")
        made = _twiddled(made, np.arange(rows) // stride % twiddle_N2, P * twiddle_N2)
    if output_scale != 1:
        made = made[0] * output_scale, made[1] * output_scale
    return _placed(input_real, made)


def _twiddled(x: Pair[WideValue], rows: np.ndarray, size: int) -> Pair[WideValue]:
    """Element k of each row, which has a number in ``rows``, turned by -2 pi number k / size."""
    angles = np.outer(rows.astype(np.int64), np.arange(x[0].shape[1])) % size / size
    return multiply(x, turns(x[0], angles))


@operation("experimental.apply_twiddles", "multiply, add, subtract")
def apply_twiddles(input_real: Tensor, input_imag: Tensor, N1: int, N2: int) -> tuple[Tensor, Tensor]:
    """Rows of length N1, where element k of row r is turned by -2 pi (r mod N2) k / (N1 N2)."""
    x = _complex(input_real, input_imag)
    rows, size = x[0].shape
    expect(size == N1, f"apply_twiddles: input last dim ({size}) must equal N1 ({N1}).")
    text = f"apply_twiddles: total row count M={rows} must be a positive multiple of N2={N2}."
    expect(N2 > 0 and rows % N2 == 0, text)
    return _placed(input_real, _twiddled(x, np.arange(rows) % N2, N1 * N2))


@operation("experimental.apply_twiddles_xl", "multiply, add, subtract")
def apply_twiddles_xl(
    input_real: Tensor, input_imag: Tensor, P: int, big_modulus: int, full_N: int
) -> tuple[Tensor, Tensor]:
    """Rows of length P, where element k of row r is turned by -2 pi (r mod big_modulus) k / full_N."""
    x = _complex(input_real, input_imag)
    rows, size = x[0].shape
    expect(size == P, f"apply_twiddles_xl: input last dim ({size}) must equal P ({P}).")
    text = f"total row count M={rows} must be a positive multiple of big_modulus={big_modulus}."
    expect(big_modulus > 0 and rows % big_modulus == 0, f"apply_twiddles_xl: {text}")
    fits = full_N >= big_modulus and full_N & (full_N - 1) == 0
    text = f"full_N must be pow-2 and >= big_modulus (got full_N={full_N} big_modulus={big_modulus})."
    expect(fits, f"apply_twiddles_xl: {text}")
    return _placed(input_real, _twiddled(x, np.arange(rows) % big_modulus, full_N))


@operation("experimental.complex_mul", "multiply, add, subtract")
def complex_mul(a_real: Tensor, a_imag: Tensor, b_real: Tensor, b_imag: Tensor) -> tuple[Tensor, Tensor]:
    """The product of complex tensors of one shape."""
    shapes = {tuple(x.shape) for x in (a_real, a_imag, b_real, b_imag)}
    expect(len(shapes) == 1, "complex_mul: all four input tensors must share the same shape.")
    return _placed(a_real, multiply(_complex(a_real, a_imag), _complex(b_real, b_imag)))
