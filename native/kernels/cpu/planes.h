/* planes.h: products of planes of activations in float32, whose right operand is packed when they run; rounded to bf16
 * where that may be and the machine multiplies pairs of it.
 *
 * Included by: matmul_panels.h, attention_panels.h. Thread: any.
 * defines: gr_pairs_pay, gr_plane_floats, gr_pack_plane, gr_gather_columns, gr_planes, gr_pack_planes,
 * gr_multiply_planes
 */
#ifndef GR_CPU_PLANES_H
#define GR_CPU_PLANES_H

#include "cpu/fours.h"
#include "cpu/heads.h"
#include "panels.h"

/* A panel of b, whose element (p, column) is b[p * row + column * step]; either step is 1. */
static void gr_pack_panel(const float *b, int64_t k, int64_t row, int64_t step, int64_t columns, float *to) {
  if (columns < GR_PANEL) memset(to, 0, (size_t)(k * GR_PANEL) * 4);
  if (step == 1) {
    for (int64_t p = 0; p < k; ++p) gr_copy_floats(to + p * GR_PANEL, b + p * row, columns);
    return;
  }
  /* 16 rows of b at a time: their lines stay in the cache while they are walked down */
  for (int64_t p0 = 0; p0 < k; p0 += 16) {
    int64_t end = gr_min(k, p0 + 16), j = 0, whole = end & ~(int64_t)3;
    for (; j + 4 <= columns; j += 4) {
      for (int64_t p = p0; p < whole; p += 4) gr_turn_four(to + p * GR_PANEL + j, GR_PANEL, b + p + j * step, step);
      for (int64_t p = whole; p < end; ++p)
        for (int64_t i = j; i < j + 4; ++i) to[p * GR_PANEL + i] = b[p + i * step];
    }
    for (; j < columns; ++j)
      for (int64_t p = p0; p < end; ++p) to[p * GR_PANEL + j] = b[p + j * step];
  }
}

#if defined(__x86_64__)
#include "isa/avx512bf16.h"
#include "cpu/plane_pairs_isa.h"
#endif

/* Whether this machine multiplies pairs of bf16 so much faster than floats that it pays to round both operands. */
static inline int gr_pairs_pay(void) {
#if defined(__x86_64__)
  return GR_HAS_AVX512BF16;
#else
  return 0;
#endif
}

/* Floats that a plane's panels take, in pairs or not. */
GR_INLINE int64_t gr_plane_floats(int64_t k, int64_t n, int pairs) {
  return gr_ceil_div(n, GR_PANEL) * GR_PANEL * (pairs ? gr_ceil_div(k, 2) : k);
}

/* All panels of a plane. */
static inline void gr_pack_plane(const float *b, int64_t k, int64_t n, int64_t row, int64_t step, float *to,
                                 int pairs) {
#if defined(__x86_64__)
  if (pairs) {
    gr_pack_pairs_avx512bf16(b, k, n, row, step, to);
    return;
  }
#endif
  (void)pairs;
  for (int64_t column = 0; column < n; column += GR_PANEL, to += k * GR_PANEL)
    gr_pack_panel(b + column * step, k, row, step, gr_min(GR_PANEL, n - column), to);
}

/* The gather of a transposed matrix: a[p * a_row + row]. */
static void gr_gather_columns(const gr_panels *p, int64_t first_row, int64_t rows, int64_t first, int64_t last,
                              float *to) {
  for (int64_t k = first; k < last; ++k)
    for (int64_t i = 0; i < rows; ++i) to[i * GR_A_ROW + k - first] = p->a[k * p->a_row + first_row + i];
}

typedef struct gr_planes {
  const gr_call *call;
  gr_panels plane;                             /* without a, b, c; extra: of the first */
  const gr_arg *a, *b, *out;
  int64_t transpose_b;
  int64_t a_step[GR_MAX_DIMS], b_step[GR_MAX_DIMS];
  float *panels;                               /* [planes of b][ceil(n / 32)][k][32], or in pairs */
  int64_t panel_plane;                         /* floats of one of them */
} gr_planes;

/* Panels of planes first .. last-1 of b. */
static int32_t gr_pack_planes(void *ctx, int64_t first, int64_t last) {
  const gr_planes *s = ctx;
  int64_t k = s->plane.k, n = s->plane.n;
  for (int64_t i = first; i < last; ++i)
    gr_pack_plane((const float *)gr_ptr(s->b) + i * k * n, k, n, s->transpose_b ? 1 : n, s->transpose_b ? k : 1,
                  s->panels + i * s->panel_plane, s->plane.pairs);
  return GR_OK;
}

/* Plane ``index`` of the output. */
static gr_panels gr_plane(const gr_planes *s, int64_t index) {
  gr_panels p = s->plane;
  int64_t a = gr_plane_at(index, s->out->ndim - 2, s->out->shape, s->a_step);
  int64_t b = gr_plane_at(index, s->out->ndim - 2, s->out->shape, s->b_step);
  p.a = (const float *)gr_ptr(s->a) + a * p.rows * p.k;
  p.b = s->panels + b * s->panel_plane;
  p.c = (float *)gr_ptr(s->out) + index * p.rows * p.n;
  if (p.extra) p.extra += index * p.rows * p.n;
  return p;
}

static int32_t gr_multiply_planes(void *ctx, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    gr_panels p = gr_plane(ctx, i);
    gr_panels_serial(&p);
  }
  return GR_OK;
}

#endif
