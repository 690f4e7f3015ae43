"""How products are cut over threads (pieces.h) and how tasks share Winograd's tiles (cpu/winograd.h): each
element of a result belongs to one of them, none writes elsewhere, no bit depends on how many there are."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.ir.ops.products.winograd import pack_winograd

SOURCE = """
#include <stdlib.h>
#include "panels.h"
/* no weights stay in a cache, so that small ones are shared, too */
#define gr_group_bytes() ((int64_t)0)
#include "cpu/winograd.h"

/* pieces[i]: row, row_end, panel, panel_end of piece i. Returns how many; 0 where they do not fit. */
int64_t cut(int64_t rows, int64_t n, int64_t block, int64_t threads, int64_t work, int64_t grain,
            int64_t fewest, gr_piece *pieces, int64_t room)
{
  gr_pieces c = gr_cut(rows, n, block, threads, work, grain, fewest);
  int64_t count = c.down * c.across;
  if (count > room) return 0;
  for (int64_t i = 0; i < count; ++i) pieces[i] = gr_piece_at(&c, i);
  return count;
}

/* Tasks one after the other, the last first. */
static int32_t in_turn(const gr_env *env, int64_t n, gr_task task, void *ctx)
{
  (void)env;
  while (n--) task(ctx, n);
  return GR_OK;
}

/* sizes: n h w c o top left oh ow. Returns the shares of the columns. */
int64_t convolve(int32_t threads, const int64_t *sizes, const float *x, const float *weights,
                 const float *bias, const float *extra, float *out, float *scratch)
{
  gr_env env = {.num_cores = threads, .parallel_for = in_turn};
  gr_winograd s = {.x = x, .out = out, .h = sizes[1], .w = sizes[2], .c = sizes[3], .o = sizes[4],
                   .top = sizes[5], .left = sizes[6], .oh = sizes[7], .ow = sizes[8], .bundles = 1,
                   .channels = sizes[3], .columns = sizes[4], .weights = weights, .bias = bias,
                   .extra = extra, .scratch = scratch};
  gr_winograd_run(&env, &s, sizes[0]);
  return s.shares;
}
"""
PANEL, BLOCK = 32, 14
THREADS = st.sampled_from([1, 2, 3, 4, 7, 8, 16, 64])


@pytest.fixture(scope="module")
def library(compile_c, played):
    made = ctypes.CDLL(str(compile_c(SOURCE, "-O1", "-ffp-contract=off", "-lm", *played)))
    made.cut.restype = made.convolve.restype = ctypes.c_int64
    return made


def address(array: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


@settings(max_examples=400, deadline=None)
@given(
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.sampled_from([(BLOCK, BLOCK), (BLOCK, 48), (BLOCK, 192), (32, 192)]),
    THREADS,
    st.integers(0, 10**9),
)
def test_pieces(library, rows, n, of_rows, threads, work):
    """They tile the product; there are two a thread at most, and one where the work is less than a grain."""
    pieces = np.zeros((4 * threads, 4), np.int64)
    block, fewest = of_rows
    numbers = [ctypes.c_int64(v) for v in (rows, n, block, threads, work, 10**5, fewest)]
    count = library.cut(*numbers, address(pieces), ctypes.c_int64(len(pieces)))
    assert 1 <= count <= max(1, min(2 * threads, work // 10**5)), "pieces"
    seen = np.zeros((rows, -(-n // PANEL)), np.int8)
    for row, row_end, panel, panel_end in pieces[:count]:
        assert row < row_end
        assert panel < panel_end
        seen[row:row_end, panel:panel_end] += 1
    assert (seen == 1).all()
    if work // 10**5 >= threads and rows >= threads * fewest:
        assert len(set(pieces[:count, 0])) >= threads, "each thread has rows of its own"


@settings(max_examples=60, deadline=None)
@given(st.data(), THREADS, st.integers(0, 99))
def test_tiles(library, data, threads, seed):
    draw, rng = data.draw, np.random.default_rng(seed)
    n, c = draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 17, 40]))
    o = draw(st.sampled_from([1, 5, 31, 32, 33, 64, 65, 100, 160]))
    h, w, top, left, bottom, right = (draw(st.integers(low, 9)) for low in (3, 3, 0, 0, 0, 0))
    oh, ow = h + min(top, 2) + min(bottom, 2) - 2, w + min(left, 2) + min(right, 2) - 2
    sizes = np.array([n, h, w, c, o, min(top, 2), min(left, 2), oh, ow])
    x, taps = rng.standard_normal((n, h, w, c)), rng.standard_normal((o, c, 3, 3))
    x, taps = x.astype(np.float32), taps.astype(np.float32)
    weights = pack_winograd(taps, 1)
    bias = rng.standard_normal(o).astype(np.float32) if draw(st.booleans()) else None
    extra = rng.standard_normal((n, oh, ow, o)).astype(np.float32) if draw(st.booleans()) else None
    scratch = np.full(36 * (448 * (2 * 32 + c + o + 32) + 64 * (c + 32)), np.nan, np.float32)
    made = []
    for count in (1, threads):
        out = np.full(n * oh * ow * o + 1, 7, np.float32)
        inputs = map(address, (sizes, x, weights, bias, extra, out, scratch))
        shares = library.convolve(count, *inputs)
        assert out[-1] == 7
        assert shares == 1 or (count > 1 and o > PANEL)
        made.append(out[:-1].reshape(n, oh, ow, o))
    np.testing.assert_array_equal(made[0], made[1])
    room = ((0, 0), (sizes[5], 2), (sizes[6], 2), (0, 0))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, room), (3, 3), axis=(1, 2))[:, :oh, :ow]
    wanted = np.einsum("nyxcpq,ocpq->nyxo", windows.astype(np.float64), taps)
    wanted = wanted + (0 if bias is None else bias) + (0 if extra is None else extra)
    np.testing.assert_allclose(made[1], wanted, rtol=1e-4, atol=3e-5 * np.sqrt(9 * c))


def test_images_of_few_tiles_are_shared(library):
    """The rule that the test above leaves to chance."""
    x, weights = np.ones((1, 8, 8, 16), np.float32), pack_winograd(np.ones((64, 16, 3, 3), np.float32), 1)
    out, scratch = np.empty((1, 6, 6, 64), np.float32), np.empty(10**6, np.float32)
    sizes = np.array([1, 8, 8, 16, 64, 0, 0, 6, 6])
    given_ = [address(a) for a in (sizes, x, weights, None, None, out, scratch)]
    assert [library.convolve(count, *given_) for count in (1, 2, 4)] == [1, 2, 2]
    np.testing.assert_allclose(out, 144, rtol=1e-5)
