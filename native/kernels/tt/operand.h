/* operand.h: an operand of a product in a core's L1: loaded from tiles or rows straight to where gemm.h reads
 * it, and cut to the parts that the fidelity's passes take.
 *
 * Who includes it: linear.h, conv.h. Thread: one core's task.
 * defines: gr_tt_panel, gr_tt_panel_load, gr_tt_parts_take, gr_tt_products, gr_tt_kind_of
 */
#ifndef GR_TT_OPERAND_H
#define GR_TT_OPERAND_H

#include "fidelity.h"
#include "gemm.h"
#include "tt/work.h"

/* A matrix in L1 whose element (i, j) is at[i / 32 * down + i % 32 * row + j / 32 * across + j % 32 / 16 * half
 * + j % 16]: half rows of a face stay together, so a tile is unpacked without a stop. */
typedef struct gr_tt_panel {
  float *at;
  int64_t row, down, half, across;
} gr_tt_panel;

/* Row-major, ld (a multiple of 32) elements apart. */
static inline gr_tt_panel gr_tt_panel_rows(float *at, int64_t ld) {
  return (gr_tt_panel){at, ld, 32 * ld, 16, 32};
}

/* Stripes of 16 columns, each [depth][16]. */
static inline gr_tt_panel gr_tt_panel_stripes(float *at, int64_t depth) {
  return (gr_tt_panel){at, GR_STRIPE, 32 * GR_STRIPE, GR_STRIPE * depth, 2 * GR_STRIPE * depth};
}

/* ---------------------------------------------------------------- loading */

/* A row-major 32x32 matrix, ld apart, to tile (i, j) of the panel; transposed: its columns become rows. */
static inline void gr_tt_panel_put(const gr_tt_panel *to, int64_t i, int64_t j, const float *tile, int64_t ld,
                                   int transposed) {
  float *at = to->at + i * to->down + j * to->across;
  for (int64_t r = 0; r < 32; ++r)
    for (int64_t h = 0; h < 2; ++h) {
      float *half = at + r * to->row + h * to->half;
      if (transposed)
        for (int64_t c = 0; c < 16; ++c) half[c] = tile[(16 * h + c) * ld + r];
      else
        memcpy(half, tile + r * ld + 16 * h, 64);
    }
}

static inline int32_t gr_tt_panel_load_tile(const gr_tt_core *c, const gr_tt_view *v, int64_t page,
                                            int transposed, const gr_tt_panel *to, int64_t i, int64_t j) {
  GR_TT_TRY(gr_tt_read(c, v->arg, page));
  if (!transposed) {
    gr_tile_unpack_to(v->arg->format, c->page, to->at + i * to->down + j * to->across, to->row, to->half);
    return GR_OK;
  }
  gr_tile_unpack(v->arg->format, c->page, (float *)(void *)c->tile);
  gr_tt_panel_put(to, i, j, (const float *)(const void *)c->tile, 32, 1);
  return GR_OK;
}

/* Rows and columns of a rectangle that begins at multiples of 32, `transposed` as the panel sees them. What
 * lies beyond the rectangle in the panel's tiles is undefined. A row-major argument goes through rows
 * [32][at.nc, a multiple of 32 above]. */
static inline int32_t gr_tt_panel_load(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at,
                                       int transposed, const gr_tt_panel *to, float *rows) {
  int64_t down = gr_tt_ceil(at.nr, 32), across = gr_tt_ceil(at.nc, 32), ld = 32 * across;
  for (int64_t r = 0; r < down; ++r) {
    if (v->arg->layout != GR_TILE) {
      gr_tt_rect strip = {at.plane, at.r0 + 32 * r, gr_tt_lesser(32, at.nr - 32 * r), at.c0, at.nc};
      GR_TT_TRY(gr_tt_load(c, v, strip, rows, ld));
    }
    for (int64_t s = 0; s < across; ++s) {
      int64_t i = transposed ? s : r, j = transposed ? r : s;
      if (v->arg->layout != GR_TILE) {
        gr_tt_panel_put(to, i, j, rows + 32 * s, ld, transposed);
        continue;
      }
      int64_t page = (at.plane * v->down + at.r0 / 32 + r) * v->across + at.c0 / 32 + s;
      GR_TT_TRY(gr_tt_panel_load_tile(c, v, page, transposed, to, i, j));
    }
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- parts and products */

/* Turns what was loaded, x[n], into the parts of a side: the first in place, the second at x + n. */
static inline void gr_tt_parts_take(const gr_passes *passes, int side, float *x, int64_t n) {
  int first = passes->part[side][0], second = passes->part[side][1];
  if (passes->parts[side] == 2)
    for (int64_t i = 0; i < n; ++i) x[n + i] = gr_part_take(second, side, x[i]);
  if (first != GR_PART_RAW)
    for (int64_t i = 0; i < n; ++i) x[i] = gr_part_take(first, side, x[i]);
}

/* Whether products of two arguments are exact in float32, so that a fused sum is as good as any. */
static inline int gr_tt_kind_of(const gr_numerics *numerics, const gr_arg *a, const gr_arg *b) {
  if (numerics->dst_bits == 16) return GR_GEMM_DST16;
  return numerics->phases || (a->format != GR_F32 && b->format != GR_F32) ? GR_GEMM_FUSED : GR_GEMM_PLAIN;
}

/* C += A B by all passes, `sides` naming SrcA or SrcB for A and B, whose second parts lie a_part and b_part
 * floats after the first: K tile by K tile, the passes of each in turn. */
static inline void gr_tt_products(const gr_passes *passes, int kind, gr_gemm g, const int *sides,
                                  int64_t a_part, int64_t b_part) {
  int64_t k = g.k, step = passes->count == 1 ? k : 32;
  const float *a = g.a, *b = g.b;
  const int32_t *b_at = g.b_at;
  for (int64_t k0 = 0; k0 < k; k0 += step) {
    g.k = gr_tt_lesser(step, k - k0);
    if (b_at != NULL) g.b_at = b_at + k0;
    for (int32_t p = 0; p < passes->count; ++p) {
      g.a = a + k0 + passes->use[sides[0]][p] * a_part;
      g.b = b + (b_at != NULL ? 0 : k0 * GR_STRIPE) + passes->use[sides[1]][p] * b_part;
      gr_gemm_run(&g, kind);
    }
  }
}

#endif
