/* gemm_isa.h: gemm.h for one instruction set; included once for each, and by gemm.h only.
 *
 * GR_ISA(name) names the functions, a register tile is GR_ISA_ROWS rows of GR_ISA_STRIPES stripes in vectors
 * of GR_ISA_LANES floats: as many accumulators as hide the latency of a multiply-add. What a tile leaves over
 * is done by tiles of one row or one stripe.
 *
 * defines: GR_ISA(gr_gemm_run)
 */

#define GR_VECTORS (GR_STRIPE / GR_ISA_LANES)      /* of a stripe */

/* acc[rows][stripes * GR_VECTORS] += A B over k first .. last-1 */
GR_ALWAYS void GR_ISA(gr_gemm_products)(const gr_gemm *g, const float *a, const float *b, int rows,
                                        int stripes, int64_t first, int64_t last, GR_V *acc) {
  for (int64_t k = first; k < last; ++k) {
    const float *row = b + (g->b_at ? g->b_at[k] : k * GR_STRIPE);
    GR_V in[GR_ISA_STRIPES * GR_VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < stripes * GR_VECTORS; ++v)
      in[v] = *(const GR_V *)(row + v / GR_VECTORS * g->b_stripe + v % GR_VECTORS * GR_ISA_LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      GR_V all = GR_ISA_SPLAT(a[i * g->a_row + k]);
#pragma GCC unroll 8
      for (int v = 0; v < stripes * GR_VECTORS; ++v)
        acc[i * stripes * GR_VECTORS + v] = GR_ISA_FUSED(all, in[v], acc[i * stripes * GR_VECTORS + v]);
    }
  }
}

GR_ALWAYS GR_V GR_ISA(gr_round16)(GR_V x) {
  GR_VI bits = ((GR_VI)x + 0x8000) & (int32_t)0xFFFF0000u;
  return (GR_V)(bits & ((bits & 0x7F800000) != 0));
}

/* rows x stripes of C, in registers for as long as its arithmetic allows. */
GR_ALWAYS void GR_ISA(gr_gemm_tile)(const gr_gemm *g, int64_t row, int64_t stripe, int rows, int stripes,
                                    int kind) {
  const float *a = g->a + row * g->a_row, *b = g->b + stripe * g->b_stripe;
  float *c = g->c + row * g->c_row + stripe * GR_STRIPE;
  int64_t step = kind == GR_GEMM_DST16 ? 16 : g->k;
  for (int64_t k = 0; k < g->k; k += step) {
    GR_V acc[GR_ISA_ROWS * GR_ISA_STRIPES * GR_VECTORS] = {{0}};
    int64_t end = k + step < g->k ? k + step : g->k;
    if (kind != GR_GEMM_DST16) {
#pragma GCC unroll 32
      for (int i = 0; i < rows * stripes * GR_VECTORS; ++i)
        acc[i] = *(GR_V *)(c + i / (stripes * GR_VECTORS) * g->c_row +
                           i % (stripes * GR_VECTORS) * GR_ISA_LANES);
    }
    GR_ISA(gr_gemm_products)(g, a, b, rows, stripes, k, end, acc);
#pragma GCC unroll 32
    for (int i = 0; i < rows * stripes * GR_VECTORS; ++i) {
      GR_V *at = (GR_V *)(c + i / (stripes * GR_VECTORS) * g->c_row +
                          i % (stripes * GR_VECTORS) * GR_ISA_LANES);
      *at = kind == GR_GEMM_DST16 ? GR_ISA(gr_round16)(*at + acc[i]) : acc[i];
    }
  }
}

/* Stripes outside, so that one of B stays in the nearest cache. */
GR_ALWAYS void GR_ISA(gr_gemm_all)(const gr_gemm *g, int kind) {
  int64_t stripe = 0, whole = g->rows / GR_ISA_ROWS * GR_ISA_ROWS;
  for (; stripe + GR_ISA_STRIPES <= g->stripes; stripe += GR_ISA_STRIPES) {
    for (int64_t row = 0; row < whole; row += GR_ISA_ROWS)
      GR_ISA(gr_gemm_tile)(g, row, stripe, GR_ISA_ROWS, GR_ISA_STRIPES, kind);
    for (int64_t row = whole; row < g->rows; ++row)
      GR_ISA(gr_gemm_tile)(g, row, stripe, 1, GR_ISA_STRIPES, kind);
  }
  for (; stripe < g->stripes; ++stripe) {
    for (int64_t row = 0; row < whole; row += GR_ISA_ROWS)
      GR_ISA(gr_gemm_tile)(g, row, stripe, GR_ISA_ROWS, 1, kind);
    for (int64_t row = whole; row < g->rows; ++row) GR_ISA(gr_gemm_tile)(g, row, stripe, 1, 1, kind);
  }
}

static inline GR_ISA_TARGET void GR_ISA(gr_gemm_run)(const gr_gemm *g, int kind) {
  if (kind == GR_GEMM_DST16)
    GR_ISA(gr_gemm_all)(g, GR_GEMM_DST16);
  else
    GR_ISA(gr_gemm_all)(g, GR_GEMM_FUSED);
}

#undef GR_VECTORS
#undef GR_ISA_ROWS
#undef GR_ISA_STRIPES
#include "isa/end.h"
