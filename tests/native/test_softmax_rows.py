"""cpu/softmax_rows.h: rows and columns of every length, in every instruction set, against numpy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SOURCE = """
int rows(int isa, const float *x, float *out, int64_t x_row, int64_t out_row, int64_t count, int64_t n,
         int64_t seen, int64_t more, int logs, float scale, const float *bias, int64_t bias_row,
         int64_t bias_step)
{
  static void (*const forms[])(const gr_softmax *) = FORMS(gr_softmax_rows);
  gr_softmax s = {x, out, x_row, out_row, count, n, seen, more, logs, scale, bias, bias_row, bias_step};
  if (!has(isa)) return 1;
  forms[isa](&s);
  return 0;
}

int columns(int isa, const float *x, float *out, int64_t n, int64_t stride, int64_t width, int logs)
{
  typedef void (*form)(const float *, float *, int64_t, int64_t, int64_t, int);
  static const form forms[] = FORMS(gr_softmax_columns);
  if (!has(isa)) return 1;
  forms[isa](x, out, n, stride, width, logs);
  return 0;
}
"""
VECTORS, WIDE, FORMS = 1, 2, 3
I64, F32 = ctypes.c_int64, ctypes.c_float
LENGTHS = st.one_of(st.integers(1, 70), st.sampled_from([127, 197, 250, 1023, 1025, 1040, 2100, 5001]))


@pytest.fixture(scope="module")
def library(compile_forms):
    return compile_forms("cpu/softmax_rows.h", SOURCE)


def softmax(x: np.ndarray, axis: int, logs: bool) -> np.ndarray:
    """In float64, of differences in float32, as any softmax of float32 takes them."""
    wide = (x - x.max(axis, keepdims=True)).astype(np.float64)
    total = np.exp(wide).sum(axis, keepdims=True)
    return wide - np.log(total) if logs else np.exp(wide) / total


def address(array: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(1, 35), st.booleans(), st.booleans(), st.integers(0, 3), st.integers(0, 99))
def test_rows(library, n, count, logs, in_place, apart, seed):
    x = np.random.default_rng(seed).normal(0, 8, (count, n + apart)).astype(np.float32)
    wanted, got = softmax(x[:, :n], 1, logs), {}
    for isa in range(FORMS):
        source = x.copy()
        out = source if in_place else np.full_like(x, 7)
        shape = [I64(k) for k in (n + apart, n + apart, count, n, n, 0)]
        if library.rows(isa, address(source), address(out), *shape, int(logs), F32(1), None, I64(0), I64(0)):
            continue
        np.testing.assert_allclose(out[:, :n], wanted, rtol=1e-6, atol=2e-6 if logs else 1e-37)
        np.testing.assert_array_equal(out[:, n:], x[:, n:] if in_place else 7)
        got[isa] = out[:, :n]
    if WIDE in got:
        np.testing.assert_array_equal(got[VECTORS], got[WIDE])


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(1, 35), st.booleans(), st.sampled_from([None, 0, 1]), st.integers(0, 99))
def test_rows_of_scores(library, n, count, causal, bias_step, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 8, (count, n)).astype(np.float32)
    bias = None if bias_step is None else rng.normal(0, 3, (count, n if bias_step else 1)).astype(np.float32)
    scaled = x * np.float32(0.3) + (0 if bias is None else bias)
    seen = min(n, 5) if causal else n
    row = I64(0 if bias is None else bias.shape[1])
    for isa in range(FORMS):
        out = x.copy()
        shape = [I64(k) for k in (n, n, count, n, seen, int(causal))]
        if library.rows(
            isa, address(out), address(out), *shape, 0, F32(0.3), address(bias), row, I64(bias_step or 0)
        ):
            continue
        for i in range(count):
            shown = min(n, seen + i * causal)
            wanted = softmax(scaled[i, :shown], 0, False)
            np.testing.assert_allclose(out[i, :shown], wanted, rtol=6e-6, atol=1e-37)  # scaled is rounded
            assert not out[i, shown:].any()


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(1, 64), st.integers(0, 3), st.booleans(), st.booleans(), st.integers(0, 99))
def test_columns(library, n, width, apart, logs, in_place, seed):
    x = np.random.default_rng(seed).normal(0, 8, (n, width + apart)).astype(np.float32)
    wanted, got = softmax(x[:, :width], 0, logs), {}
    for isa in range(FORMS):
        source = x.copy()
        out = source if in_place else np.full_like(x, 7)
        if library.columns(
            isa, address(source), address(out), I64(n), I64(width + apart), I64(width), int(logs)
        ):
            continue
        np.testing.assert_allclose(out[:, :width], wanted, rtol=1e-6, atol=2e-6 if logs else 1e-37)
        np.testing.assert_array_equal(out[:, width:], x[:, width:] if in_place else 7)
        got[isa] = out[:, :width]
    if WIDE in got:
        np.testing.assert_array_equal(got[VECTORS], got[WIDE])


@pytest.mark.parametrize("n", [3, 40])
def test_what_is_not_finite(library, n):
    """A NaN or an infinity makes NaN of its row, and of no other; of minus infinity there is nothing."""
    x = np.zeros((4, n), np.float32)
    x[0, 1], x[1, n - 1], x[2, 0] = np.nan, np.inf, -np.inf
    for isa in range(FORMS):
        out, down = np.empty_like(x), np.empty_like(x.T, order="C")
        shape = [I64(k) for k in (n, n, 4, n, n, 0)]
        if library.rows(isa, address(x), address(out), *shape, 0, F32(1), None, I64(0), I64(0)):
            continue
        library.columns(isa, address(x.T.copy()), address(down), I64(n), I64(4), I64(4), 0)
        for made in (out, down.T):
            assert np.isnan(made[:2]).all()
            np.testing.assert_allclose(made[2], [0] + [1 / (n - 1)] * (n - 1), rtol=1e-6)
            np.testing.assert_allclose(made[3], 1 / n, rtol=1e-6)
