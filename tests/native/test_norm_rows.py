"""cpu/norm_rows.h: rows of every length, in every instruction set, against numpy in long doubles."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SOURCE = """
/* Rows that are left to doubles are marked. */
static void wide(const gr_norm *p, int64_t row)
{
  for (int64_t j = 0; j < p->n; ++j) p->out[row * p->n + j] = -77;
}

int rows(int isa, const float *x, const float *scale, const float *bias, float *out, int64_t count, int64_t n,
         double epsilon)
{
  static void (*const forms[])(const gr_norm *, int64_t, int64_t) = FORMS(gr_norm_rows);
  gr_norm p = {x, scale, bias, out, n, epsilon, wide};
  if (!has(isa)) return 1;
  forms[isa](&p, 0, count);
  return 0;
}
"""
VECTORS, WIDE, FORMS = 1, 2, 3
LENGTHS = st.one_of(st.integers(1, 70), st.sampled_from([127, 192, 250, 768, 2047, 2048, 2049, 5001]))


@pytest.fixture(scope="module")
def library(compile_forms):
    return compile_forms("cpu/norm_rows.h", SOURCE)


def address(array: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


def normalised(library, isa, x, scale, bias, epsilon, in_place):
    """The rows, or None where this machine lacks the instruction set."""
    count, n = x.shape
    source = np.concatenate([x.ravel(), [7]]).astype(np.float32)
    out = source if in_place else np.full_like(source, 7)
    shape = ctypes.c_int64(count), ctypes.c_int64(n), ctypes.c_double(epsilon)
    if library.rows(isa, address(source), address(scale), address(bias), address(out), *shape):
        return None
    assert out[-1] == 7
    return out[:-1].reshape(x.shape)


@settings(max_examples=60, deadline=None)
@given(
    LENGTHS,
    st.integers(1, 35),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(0, 1), (1000, 1), (-50, 3), (3, 1e-3), (0, 1e4)]),
    st.integers(0, 99),
)
def test_rows(library, n, count, centred, in_place, values, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(*values, (count, n)).astype(np.float32)
    x[-1, 0] += np.float32(1000 * values[1])
    scale, bias = rng.normal(1, 0.2, (2, n)).astype(np.float32)
    wide = x.astype(np.longdouble)
    far = wide - wide.mean(-1, keepdims=True) if centred else wide
    wanted = far / np.sqrt((far * far).mean(-1, keepdims=True) + np.longdouble(1e-5)) * scale
    wanted = wanted + bias if centred else wanted
    got = {}
    for isa in range(FORMS):
        found = normalised(library, isa, x, scale, bias if centred else None, 1e-5, in_place)
        if found is not None:
            got[isa] = found
            limit = 3e-7 * np.maximum(1, np.abs(wanted).max(-1, keepdims=True))
            assert (np.abs(found - wanted) <= limit).all()
    if WIDE in got:
        np.testing.assert_array_equal(got[VECTORS], got[WIDE])


@pytest.mark.parametrize("n", [3, 32, 100])
@pytest.mark.parametrize("centred", [False, True])
def test_what_floats_may_not_hold_is_left_to_doubles(library, n, centred):
    x = np.ones((7, n), np.float32)
    x[0, 1], x[1, n - 1], x[2, 0] = np.nan, np.inf, -np.inf
    x[3, 1], x[4] = 1e30, np.linspace(-1e-20, 1e-20, n)
    x[5] = np.linspace(1, 2, n)
    one = np.ones(n, np.float32)
    for isa in range(FORMS):
        found = normalised(library, isa, x, one, one if centred else None, 0.0, False)
        if found is not None:
            left = (found == -77).all(-1)
            np.testing.assert_array_equal(left, [1, 1, 1, 1, 1, 0, centred])
            assert (found[~left] != -77).all()
