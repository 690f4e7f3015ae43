"""cpu/half_rows.h: rows of every length to bf16 and back, in every instruction set, against numpy's bits."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SOURCE = """
int widen(int isa, float *to, const uint16_t *from, int64_t n)
{
  static void (*const forms[])(float *, const uint16_t *, int64_t) = FORMS(gr_widen_row);
  if (!has(isa)) return 1;
  forms[isa](to, from, n);
  return 0;
}

int narrow(int isa, uint16_t *to, const float *from, int64_t n)
{
  static void (*const forms[])(uint16_t *, const float *, int64_t) = FORMS(gr_narrow_row);
  if (!has(isa)) return 1;
  forms[isa](to, from, n);
  return 0;
}
"""
FORMS = 3
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.3961775e38, 3.4028235e38], np.float32
)


@pytest.fixture(scope="module")
def library(compile_forms):
    return compile_forms("cpu/half_rows.h", SOURCE)


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100), st.integers(0, 3), st.integers(0, 99))
def test_rows(library, n, ahead, seed):
    """Floats of all kinds, from any address; what lies behind stays."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 1 << 32, ahead + n, dtype=np.uint32).view(np.float32)
    x[rng.random(ahead + n) < 0.2] = rng.choice(SPECIAL)
    with np.errstate(invalid="ignore"):
        wanted = x[ahead:].astype(ml_dtypes.bfloat16)
    for isa in range(FORMS):
        halves = np.full(ahead + n + 1, 7, np.uint16)
        if library.narrow(isa, address(halves[ahead:]), address(x[ahead:]), ctypes.c_int64(n)):
            continue
        got = halves[ahead : ahead + n].view(ml_dtypes.bfloat16)
        assert np.array_equal(np.isnan(got), np.isnan(wanted))
        real = ~np.isnan(wanted)
        assert np.array_equal(got[real].view(np.uint16), wanted[real].view(np.uint16))
        assert halves[-1] == 7
        assert (halves[:ahead] == 7).all()
        back = np.full(n + 1, 7, np.float32)
        assert not library.widen(isa, address(back), address(halves[ahead:]), ctypes.c_int64(n))
        bits = halves[ahead : ahead + n].astype(np.uint32) << 16
        assert np.array_equal(back[:n].view(np.uint32), bits)
        assert back[-1] == 7
