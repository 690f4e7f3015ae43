/* operand.h: an operand of a product in a core's L1: loaded from tiles or rows straight to where gemm.h reads
 * it, cut to the parts that the fidelity's passes take, multiplied, and finished as Dst is.
 *
 * Included by: linear.h, conv.h, attention.h, recurrent.h. Thread: one core's task.
 * defines: gr_tt_panel, gr_tt_panel_load, gr_tt_parts_take, gr_tt_arithmetic, gr_tt_products,
 * gr_tt_exact_products, gr_tt_spills, gr_tt_spill, gr_tt_finish
 */
#ifndef GR_TT_OPERAND_H
#define GR_TT_OPERAND_H

#include "exact.h"
#include "fidelity.h"
#include "gemm.h"
#include "tt/words.h"
#include "tt/work.h"

/* A matrix in L1 whose element (i, j) is at[i / 32 * down + i % 32 * row + j / 32 * across +
 * j % 32 / 16 * half + j % 16]: half rows of a face stay together, so a tile is unpacked without a stop. */
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
GR_TT_APART int32_t gr_tt_panel_load(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at,
                                     int transposed, const gr_tt_panel *to, float *rows) {
  int64_t down = gr_tt_ceil_div(at.nr, 32), across = gr_tt_ceil_div(at.nc, 32), ld = 32 * across;
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
GR_TT_APART void gr_tt_parts_take(const gr_passes *passes, int side, float *x, int64_t n) {
  int first = passes->part[side][0], second = passes->part[side][1];
  if (passes->parts[side] == 2)
    for (int64_t i = 0; i < n; ++i) x[n + i] = gr_part_take(second, side, x[i]);
  if (first != GR_PART_RAW)
    for (int64_t i = 0; i < n; ++i) x[i] = gr_part_take(first, side, x[i]);
}

/* The computation of a product, as the words say. */
typedef struct gr_tt_arithmetic {
  gr_tt_words words;
  int32_t phases;            /* 0: operands are not cut */
  gr_passes passes;
  int kind;                  /* enum gr_gemm_kind */
  int sides[2];              /* enum gr_side of A and B as gemm.h names them */
} gr_tt_arithmetic;

/* A 16-bit Dst named alone means all four phases. */
static inline gr_tt_arithmetic gr_tt_arithmetic_of(gr_tt_words words, int side_of_a) {
  gr_tt_arithmetic how = {.words = words, .phases = words.fidelity, .sides = {side_of_a, 1 - side_of_a}};
  if (words.dst_bits == 16) how.phases = gr_tt_phases(&words);
  how.passes = gr_passes_of(how.phases, words.dst_bits);
  how.kind = words.dst_bits == 16 ? GR_GEMM_DST16 : GR_GEMM_FUSED;
  return how;
}

/* C += A B, the second parts of A and B a_part and b_part floats after the first: K tile by K tile, the
 * passes of each in turn. */
GR_TT_APART void gr_tt_products(const gr_tt_arithmetic *how, gr_gemm g, int64_t a_part, int64_t b_part) {
  const gr_passes *passes = &how->passes;
  int64_t k = g.k, step = passes->count == 1 ? k : 32;
  const float *a = g.a, *b = g.b;
  const int32_t *b_at = g.b_at;
  for (int64_t k0 = 0; k0 < k; k0 += step) {
    g.k = gr_tt_lesser(step, k - k0);
    if (b_at != NULL) g.b_at = b_at + k0;
    for (int32_t p = 0; p < passes->count; ++p) {
      g.a = a + k0 + passes->use[how->sides[0]][p] * a_part;
      g.b = b + (b_at != NULL ? 0 : k0 * GR_STRIPE) + passes->use[how->sides[1]][p] * b_part;
      gr_gemm_run(&g, how->kind);
    }
  }
}

/* C += A B of `cols` columns, tile by tile to the last bit; formats of A and B as they were stored. */
GR_TT_APART void gr_tt_exact_products(const gr_tt_words *words, const gr_gemm *g, int64_t cols, uint8_t format_a,
                                       uint8_t format_b) {
  uint32_t a[GR_TILE_ELEMENTS], b[GR_TILE_ELEMENTS], dst[GR_TILE_ELEMENTS];
  for (int64_t r = 0; r < g->rows; r += 32)
    for (int64_t c = 0; c < cols; c += 32) {
      int64_t rows = gr_tt_lesser(32, g->rows - r), width = gr_tt_lesser(32, cols - c);
      gr_exact_clear(dst);
      for (int64_t k = 0; k < g->k; k += 32) {
        int64_t depth = gr_tt_lesser(32, g->k - k);
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < depth; ++j)
            a[32 * i + j] = gr_exact_source(format_a, gr_bits_of(g->a[(r + i) * g->a_row + k + j]));
        for (int64_t i = 0; i < depth; ++i)
          for (int64_t j = c; j < c + width; ++j) {
            float x = g->b[j / GR_STRIPE * g->b_stripe + (k + i) * GR_STRIPE + j % GR_STRIPE];
            b[32 * i + j - c] = gr_exact_source(format_b, gr_bits_of(x));
          }
        gr_exact_matmul_tile(dst, a, b, gr_tt_phases(words), words->dst_bits);
      }
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < width; ++j)
          g->c[(r + i) * g->c_row + c + j] += gr_float_of(gr_exact_packed(dst[32 * i + j], words->dst_bits));
    }
}

/* ---------------------------------------------------------------- Dst before it is packed */

/* Whether sums that leave Dst between two K blocks lose something: bf16 holds what a Dst of 16 bits holds. */
static inline int gr_tt_spills(const gr_tt_arithmetic *how, uint8_t format) {
  return how->words.dst_bits == 16 && gr_format_bytes(format) == 0;
}

/* Sums that leave Dst between two K blocks: through tiles of the output's format from a 16-bit Dst, without
 * a loss from a 32-bit one. */
static inline void gr_tt_spill(const gr_tt_arithmetic *how, uint8_t format, float *c, int64_t ld,
                               int64_t rows, int64_t cols) {
  uint32_t tile[GR_TILE_ELEMENTS];
  if (!gr_tt_spills(how, format)) return;
  for (int64_t r = 0; r < rows; r += 32)
    for (int64_t col = 0; col < cols; col += 32) {
      int64_t height = gr_tt_lesser(32, rows - r), width = gr_tt_lesser(32, cols - col);
      memset(tile, 0, sizeof tile);     /* padding must not raise a block's exponent */
      for (int64_t i = 0; i < height; ++i)
        memcpy(tile + 32 * i, c + (r + i) * ld + col, (size_t)width * 4);
      gr_exact_spill_tile(format, 16, tile);
      for (int64_t i = 0; i < height; ++i)
        memcpy(c + (r + i) * ld + col, tile + 32 * i, (size_t)width * 4);
    }
}

/* Ends n sums: adds bias (NULL: none; step 0: one for all) as the matrix unit does, sums in SrcA and bias in
 * SrcB. Sums by no fidelity began with the bias and are left alone. */
GR_TT_APART void gr_tt_finish(const gr_tt_arithmetic *how, const float *bias, int64_t step, float *c,
                              int64_t n) {
  if (!how->phases || bias == NULL) return;
  for (int64_t i = 0; i < n; ++i) {
    float sum = gr_part_take(GR_PART_FULL, GR_SRC_B, c[i]) +
                gr_part_take(GR_PART_FULL, GR_SRC_B, bias[i * step]);
    c[i] = how->words.dst_bits == 16 ? gr_dst16_round(sum) : sum;
  }
}

#endif
