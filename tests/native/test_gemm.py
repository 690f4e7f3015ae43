"""gemm.h: every instruction set computes the bits of a chain of float sums, whatever the tiles leave over."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

SOURCE = """
#include "gemm.h"
int run(int isa, int kind, const int64_t *sizes, const float *a, const float *b, const int32_t *at, float *c)
{
  gr_gemm g = {sizes[0], sizes[1], sizes[2], a, sizes[2], b, at ? GR_STRIPE : sizes[2] * GR_STRIPE, at, c,
               sizes[1] * GR_STRIPE};
  if (isa == 0) { gr_gemm_run_any(&g, kind); return 0; }
#if defined(__x86_64__)
  if (isa == 1 && GR_HAS_AVX2) { gr_gemm_run_avx2(&g, kind); return 0; }
  if (isa == 2 && GR_HAS_AVX512) { gr_gemm_run_avx512(&g, kind); return 0; }
#elif defined(__aarch64__)
  if (isa == 1) { gr_gemm_run_neon(&g, kind); return 0; }
#endif
  return 1;
}
"""
FUSED, DST16 = range(2)


@pytest.fixture(scope="module")
def gemm(compile_c, played):
    library = ctypes.CDLL(str(compile_c(SOURCE, "-O3", "-ffp-contract=off", *played)))

    def run(isa, kind, a, b, c, at=None) -> np.ndarray | None:
        """C after the run, None where the machine has no such instructions. b: [stripes][k][16], or with at
        (offset of each k) one row."""
        stripes, out = c.shape[1] // 16, c.copy()
        sizes = np.array([a.shape[0], stripes, a.shape[1]], np.int64)
        pointers = [None if x is None else ctypes.c_void_p(x.ctypes.data) for x in (sizes, a, b, at, out)]
        return None if library.run(isa, kind, *pointers) else out

    return run


def short(rng, *shape) -> np.ndarray:
    """Normal floats of 11 significant bits over many binades, so that products are exact and sums are not."""
    x = (rng.standard_normal(shape) * np.exp2(rng.integers(-12, 13, shape))).astype(np.float32)
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def model(kind, a, b, c) -> np.ndarray:
    """b: [k][columns]."""

    def fused(total, k):  # 64 bits and more hold a product, and its sum but for one chance in 2^38
        return (np.outer(a[:, k].astype(np.longdouble), b[k]) + total).astype(np.float32)

    if kind == DST16:
        for first in range(0, a.shape[1], 16):
            total = np.zeros_like(c)
            for k in range(first, min(first + 16, a.shape[1])):
                total = fused(total, k)
            word = ((c + total).view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
            c = np.where(word & 0x7F800000, word, 0).astype(np.uint32).view(np.float32)
        return c
    for k in range(a.shape[1]):
        c = fused(c, k)
    return c


@pytest.mark.parametrize("kind", [FUSED, DST16])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("rows", "stripes", "k"), [(1, 1, 1), (4, 2, 16), (8, 3, 33), (11, 5, 100), (3, 4, 0)]
)
def test_all_machines_give_the_bits_of_the_chain(gemm, kind, whole, rows, stripes, k):
    rng = np.random.default_rng(k + 10 * kind)
    a, b, c = short(rng, rows, k), short(rng, k, 16 * stripes), short(rng, rows, 16 * stripes)
    if whole:  # all bits: products have 48, and sums of opposite signs lose some of each other's
        a = rng.standard_normal((rows, k)).astype(np.float32)
        b = rng.standard_normal((k, 16 * stripes)).astype(np.float32)
    wanted = model(kind, a, b, c)
    striped = np.ascontiguousarray(b.reshape(k, stripes, 16).transpose(1, 0, 2))
    for isa in range(3):
        got = gemm(isa, kind, a, striped, c)
        if got is not None:
            np.testing.assert_array_equal(got.view(np.uint32), wanted.view(np.uint32), f"isa {isa}")


@pytest.mark.parametrize("kind", [FUSED, DST16])
def test_overflow_and_denormals_are_the_same_everywhere(gemm, kind):
    rng = np.random.default_rng(5)
    a = short(rng, 9, 40) * np.exp2(rng.integers(-80, 60, (9, 40))).astype(np.float32)
    b = short(rng, 3, 40, 16) * np.exp2(rng.integers(-80, 60, (3, 40, 16))).astype(np.float32)
    c = short(rng, 9, 48)
    first = gemm(0, kind, a, b, c)
    assert np.isinf(first).any()
    for isa in (1, 2):
        got = gemm(isa, kind, a, b, c)
        if got is not None:
            np.testing.assert_array_equal(got, first, f"isa {isa}")


def test_offsets_are_the_rows_of_b(gemm):
    rng = np.random.default_rng(6)
    line, at = short(rng, 200), rng.integers(0, 200 - 48, 30).astype(np.int32)
    a, c = short(rng, 9, 30), short(rng, 9, 48)
    b = np.stack([line[i : i + 48] for i in at])
    for isa in range(3):
        got = gemm(isa, FUSED, a, line, c, at)
        if got is not None:
            np.testing.assert_array_equal(got, model(FUSED, a, b, c))
