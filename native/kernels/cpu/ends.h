/* ends.h: the least and the greatest of float32 and of 0, over the pool.
 *
 * Included by: quantized.h. Thread: any.
 * defines: gr_ends, gr_ends_run
 */
#ifndef GR_CPU_ENDS_H
#define GR_CPU_ENDS_H

#include "cpu/common.h"
#include "isa/has.h"

#define GR_ENDS_PIECES 64

typedef struct gr_ends {
  const float *x;
  int64_t n, piece;                      /* elements; of a piece of work */
  float low[GR_ENDS_PIECES], high[GR_ENDS_PIECES];
} gr_ends;

#include "isa/any.h"
#include "cpu/ends_isa.h"
#if defined(__x86_64__)
#include "isa/avx2.h"
#include "cpu/ends_isa.h"
#include "isa/avx512.h"
#include "cpu/ends_isa.h"
#elif defined(__aarch64__)
#include "isa/neon.h"
#include "cpu/ends_isa.h"
#endif

static void gr_ends_chosen(const float *x, int64_t n, float *low, float *high) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) {
    gr_ends_of_avx512(x, n, low, high);
    return;
  }
  if (GR_HAS_AVX2) {
    gr_ends_of_avx2(x, n, low, high);
    return;
  }
#elif defined(__aarch64__)
  if (GR_NEON) {
    gr_ends_of_neon(x, n, low, high);
    return;
  }
#endif
  gr_ends_of_any(x, n, low, high);
}

static int32_t gr_ends_pieces(void *ctx, int64_t first, int64_t last) {
  gr_ends *s = ctx;
  for (int64_t i = first; i < last; ++i) {
    s->low[i] = s->high[i] = 0;
    gr_ends_chosen(s->x + i * s->piece, gr_min(s->piece, s->n - i * s->piece), &s->low[i], &s->high[i]);
  }
  return GR_OK;
}

/* Into low[0] and high[0]; NaN where an element is one. */
static inline int32_t gr_ends_run(const gr_env *env, gr_ends *s) {
  int64_t pieces = gr_max(1, gr_min(GR_ENDS_PIECES, s->n / (4 * GR_GRAIN)));
  s->piece = gr_max(1, gr_ceil_div(s->n, pieces));
  pieces = gr_max(1, gr_ceil_div(s->n, s->piece));
  int32_t status = gr_parallel(env, pieces, 1, gr_ends_pieces, s);
  for (int64_t i = 1; i < pieces; ++i) {
    float low = s->low[i], high = s->high[i];
    s->low[0] = low < s->low[0] || low != low ? low : s->low[0];
    s->high[0] = high > s->high[0] || high != high ? high : s->high[0];
  }
  return status;
}

#endif
