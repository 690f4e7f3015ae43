"""ttnn's Fourier transforms against torch."""

from __future__ import annotations

import math

import pytest

from graph_runtime.compat import ttnn

from .helpers import ROWS, close, drawn, got, put

torch = pytest.importorskip("torch")

E = ttnn.experimental


def rows(device, *values, dtype=ttnn.float32):
    return [put(device, value, dtype, ROWS) for value in values]


def whole(pair):
    return torch.complex(*(got(part) for part in pair))


def apart(made, expected, tolerance=2e-6):
    assert made.shape == expected.shape
    assert (made - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("size", [2, 31, 64, 257, 384, 1000, 2048])
def test_a_transform_of_any_length_and_its_inverse(device, size):
    real, imag = drawn(2, 4, size), drawn(2, 4, size, seed=1)
    made = E.fft(*rows(device, real, imag))
    x = torch.complex(real, imag)
    apart(whole(made), torch.fft.fft(x))
    apart(whole(E.ifft(*made)), x)
    apart(whole(E.fft(*rows(device, real), precision="fast")), torch.fft.fft(real))


def test_bfloat16_rows_are_rounded_once(device):
    x = drawn(4, 128).bfloat16()
    made = E.fft(*rows(device, x, dtype=ttnn.bfloat16))
    assert made[0].dtype is ttnn.bfloat16
    apart(whole(made), torch.fft.fft(x.float()), 2**-8)


def test_bluestein_and_three_passes(device):
    x = drawn(2, 257)
    apart(whole(E.bluestein_fft(*rows(device, x), N=257)), torch.fft.fft(x))
    size = 1 << 20
    long = drawn(1, size)
    made = whole(E.fft_three_pass(*rows(device, long.reshape(-1, 1024)), full_N=size))
    assert made.shape == (1, 1024, 32, 32)
    apart(made.reshape(1, size), torch.fft.fft(long), 1e-5)
    with pytest.raises(RuntimeError, match="pre-shaped input last dim must be N3=1024"):
        E.fft_three_pass(*rows(device, long.reshape(-1, 512)), size)


def test_the_passes_that_a_long_transform_is_made_of(device):
    x = torch.complex(drawn(8, 64), drawn(8, 64, seed=1))
    parts = rows(device, x.real, x.imag)
    r, k = torch.arange(8.0)[:, None], torch.arange(64.0)
    turn = torch.polar(torch.ones(8, 64), -2 * math.pi * ((r // 2) % 4) * k / (64 * 4))
    made = E.fft_radix_pass(*parts, 64, 4, 2, 0.5)
    apart(whole(made), torch.fft.fft(x) * turn * 0.5)
    apart(whole(E.fft_radix_pass(parts[0], 64)), torch.fft.fft(x.real))
    turn = torch.polar(torch.ones(8, 64), -2 * math.pi * (r % 4) * k / 256)
    apart(whole(E.apply_twiddles(*parts, 64, 4)), x * turn)
    turn = torch.polar(torch.ones(8, 64), -2 * math.pi * r * k / 4096)
    apart(whole(E.apply_twiddles_xl(*parts, 64, 8, 4096)), x * turn)
    y = rows(device, drawn(8, 64, seed=3), drawn(8, 64, seed=4))
    apart(whole(E.complex_mul(*parts, *y)), x * whole(y))


def test_what_does_not_fit_is_refused(device):
    x, y = rows(device, drawn(4, 64), drawn(4, 32))
    for call, text in (
        (lambda: E.fft(x, y), "must share shape"),
        (lambda: E.fft_radix_pass(x, 32), "must equal params.P"),
        (lambda: E.apply_twiddles(x, x, 64, 8), "positive multiple of N2=8"),
        (lambda: E.bluestein_fft(x, N=63), "input last-dim must equal N = 63"),
        (lambda: E.complex_mul(x, x, y, y), "must share the same shape"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(ValueError, match="precision must be"):
        E.fft(x, precision="slow")
    close(got(E.fft(x)[0]), torch.fft.fft(got(x)).real, 1e-5)
