"""cpu/softmax_row.h: a row that comes in parts, pass by pass, in every instruction set, against numpy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

SOURCE = """
#include "cpu/softmax_row.h"
int run(int isa, int logs, int kept, int64_t n, int64_t part, float *x)
{
  gr_softmax_part_fn fn = gr_softmax_part_any;
#if defined(__x86_64__)
  if (isa == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) fn = gr_softmax_part_avx2;
  else if (isa == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    fn = gr_softmax_part_avx512;
  else if (isa) return 1;
#else
  if (isa) return 1;
#endif
  static float copy[8192];
  float most = -INFINITY;
  double total = 0;
  memcpy(copy, x, (size_t)n * 4);
  for (int pass = 0; pass < GR_SOFTMAX_PASSES; ++pass)
    for (int64_t at = 0; at < n; at += part) {
      int64_t count = gr_min(part, n - at);
      if (!kept) memcpy(x + at, copy + at, (size_t)count * 4);
      fn(x + at, count, pass, logs, kept, &most, &total);
    }
  return 0;
}
"""


@pytest.fixture(scope="module")
def library(compile_c):
    return ctypes.CDLL(str(compile_c(SOURCE, "-O2", "-ffp-contract=off", "-lm")))


@pytest.mark.parametrize(
    ("n", "part"), [(1, 1), (15, 15), (16, 7), (33, 16), (1040, 1040), (5001, 2048), (5001, 333)]
)
@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_parts_are_the_row(library, n, part, logs, kept):
    x = (np.random.default_rng(n).standard_normal(n) * 8).astype(np.float32)
    wide = (x - x.max()).astype(np.float64)  # the difference is rounded, as any softmax does it in float32
    total = np.exp(wide).sum()
    wanted = wide - np.log(total) if logs else np.exp(wide) / total
    for isa in range(3):
        got = np.concatenate([x, [7.0]]).astype(np.float32)
        numbers = ctypes.c_int64(n), ctypes.c_int64(part)
        if library.run(isa, int(logs), int(kept), *numbers, ctypes.c_void_p(got.ctypes.data)):
            continue
        assert got[n] == 7.0
        np.testing.assert_allclose(got[:n], wanted, rtol=1e-6, atol=2e-6 if logs else 0)


def test_what_is_not_finite(library):
    for values, wanted in (
        ([np.nan, 1.0], [np.nan] * 2),
        ([-np.inf, 1.0], [0.0, 1.0]),
        ([np.inf, 1.0], [np.nan] * 2),
    ):
        for isa in range(3):
            got = np.array(values, np.float32)
            numbers = ctypes.c_int64(2), ctypes.c_int64(1)
            if not library.run(isa, 0, 0, *numbers, ctypes.c_void_p(got.ctypes.data)):
                np.testing.assert_array_equal(got, wanted)
