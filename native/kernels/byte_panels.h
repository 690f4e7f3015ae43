/* byte_panels.h: C = A B in integers, A bytes, B constant signed bytes in panels: the inner loop of quantized_dense
 * and quantized_conv2d.
 *
 * A panel is 32 columns, [ceil(k / 4)][32][4] bytes, 4 rows of k beside each other as the instructions that multiply
 * bytes read them, and behind them two rows of 32 int32 (ir/ops/products/byte_panels.py): the sum of each column,
 * and what was added to its elements so that they fit a byte. With them
 *
 *     sum (a - zero) (b - shift)  =  sum a b - zero sum (b - shift) - shift sum a
 *
 * A is unsigned; signed bytes come with their sign bit turned, zero point, too. Sums are int32, exact modulo 2^32.
 * They become what ``c`` holds: int32, float32 (sum * scale + bias, then the program), or bytes (sum + bias, times
 * scale in float32, rounded to nearest, ties to even, plus the zero point, saturated).
 *
 * Included by: kernel bodies. Thread: any; gr_bytes_run spreads the work over the pool.
 * defines: gr_bytes, gr_bytes_run, gr_bytes_scratch_open
 */
#ifndef GR_BYTE_PANELS_H
#define GR_BYTE_PANELS_H

#include "isa/amx.h"
#include "isa/has.h"
#include "pieces.h"

#define GR_BYTES_DEPTH 2048            /* of k at a time: the rows of A of a block stay in the nearest cache */
#define GR_BYTES_GROUP 8               /* panels whose sums wait while k goes on */
#define GR_BYTES_CACHED 655360         /* of B that the second cache keeps while rows of A pass by */
#define GR_BYTES_GRAIN 1600000         /* operations of a piece of work for another thread, at least: some 4 us */

/* How sums become elements, for products and for depthwise convolutions. Columns are padded to whole panels. */
typedef struct gr_requant {
  const int32_t *offset;               /* what is added to a sum: the bias, less zero times the column's sum */
  const float *scale;
  const float *bias;                   /* of float32 results: NULL or [n] */
  int32_t dtype;                       /* of the result: GR_U8, GR_I8, GR_F32, GR_I32 */
  int32_t zero;                        /* of bytes: their zero point */
  float least, most;                   /* of bytes: their range, less the zero point */
} gr_requant;

typedef struct gr_bytes gr_bytes;
struct gr_bytes {
  int64_t rows, n, k;
  const uint8_t *a;                    /* a[row * a_row + p] */
  int64_t a_row;
  uint8_t flip;                        /* 0x80 where A is signed, else 0 */
  uint8_t zero;                        /* A's zero point, turned as A */
  /* NULL: as above. Else brings rows first_row .. first_row+rows-1 of A, elements first .. last-1, to
   * to[row * to_row + element - first], as they are: not turned. */
  void (*gather)(const gr_bytes *p, int64_t first_row, int64_t rows, int64_t first, int64_t last, uint8_t *to,
                 int64_t to_row);
  const void *image;                   /* gather's own */
  const uint8_t *b;
  const int32_t *shift;                /* NULL: all 0; else [n], padded */
  void *c;                             /* [rows][c_row], of requant.dtype */
  int64_t c_row;
  gr_requant made;
  /* NULL, or what is done with a finished part of C while it is in the cache */
  void (*after)(const gr_bytes *p, int64_t row, int64_t rows, int64_t column, int64_t columns);
  const void *steps;                   /* after's own */
  gr_pieces pieces;                    /* set by gr_bytes_run */
};

GR_INLINE int64_t gr_bytes_units(int64_t k) { return gr_ceil_div(k, 4); }
/* Bytes of a panel. */
GR_INLINE int64_t gr_bytes_panel(int64_t k) { return (gr_bytes_units(k) + 2) * 4 * GR_PANEL; }

/* memcpy of bytes whose number is known late, without a call. */
GR_INLINE void gr_copy_bytes(uint8_t *to, const uint8_t *from, int64_t n) {
  if (n >= 32) {
    for (int64_t i = 0; i + 32 < n; i += 32) memcpy(to + i, from + i, 32);
    memcpy(to + n - 32, from + n - 32, 32);
  } else if (n >= 16) {
    memcpy(to, from, 16);
    memcpy(to + n - 16, from + n - 16, 16);
  } else if (n >= 8) {
    memcpy(to, from, 8);
    memcpy(to + n - 8, from + n - 8, 8);
  } else {
    for (; n > 0; --n) *to++ = *from++;
  }
}

/* The gather of a matrix whose rows are contiguous. */
static void gr_gather_bytes(const gr_bytes *p, int64_t first_row, int64_t rows, int64_t first, int64_t last,
                            uint8_t *to, int64_t to_row) {
  const uint8_t *a = p->a + first_row * p->a_row + first;
  for (int64_t i = 0; i < rows; ++i) gr_copy_bytes(to + i * to_row, a + i * p->a_row, last - first);
}

/* The bytes of 4 places of k as A's zero point, or what fills a byte of padding. */
GR_INLINE uint8_t gr_bytes_zero(const gr_arg *zero) { return *(const uint8_t *)gr_ptr(zero); }

/* ---------------------------------------------------------------- what a call prepares
 * In its scratch: offset, scale and shift of each column, padded to whole panels. ``sums``: int32 of column j at
 * sums[j / 32 * sums_step + j % 32]; shifts lie 32 int32 behind. end: the result's zero point, least and greatest. */
static inline void gr_bytes_prepare(gr_requant *made, const int32_t **shift, void *scratch, int64_t n,
                                    const int32_t *sums, int64_t sums_step, int32_t zero, const gr_arg *scale,
                                    const gr_arg *bias, const gr_arg *out, const int64_t *end) {
  int64_t padded = gr_ceil_div(n, GR_PANEL) * GR_PANEL;
  int32_t *offset = scratch, *shifts = offset + 2 * padded;
  float *scales = (float *)(offset + padded);
  int shifted = 0, whole = out->dtype != GR_F32;
  const int32_t *added = bias && whole ? gr_ptr(bias) : NULL;
  const float *given = scale ? gr_ptr(scale) : NULL;
  int64_t step = scale && gr_size(scale) > 1;
  for (int64_t j = 0; j < padded; ++j) {
    const int32_t *sum = sums + j / GR_PANEL * sums_step + j % GR_PANEL;
    offset[j] = (int32_t)((added && j < n ? (uint32_t)added[j] : 0u) - (uint32_t)zero * (uint32_t)sum[0]);
    shifts[j] = sum[GR_PANEL];
    shifted |= shifts[j];
    scales[j] = given && j < n ? given[step * j] : 0;
  }
  *shift = shifted ? shifts : NULL;
  *made = (gr_requant){offset, scales, bias && !whole ? gr_ptr(bias) : NULL, out->dtype, (int32_t)end[0],
                       (float)(end[1] - end[0]), (float)(end[2] - end[0])};
}

/* ---------------------------------------------------------------- AMX */

#define GR_AMX_BYTES_A 262144          /* bytes of A that are gathered for tiles at a time, at most */
#define GR_AMX_BYTES_FEW 4             /* rows; of less, B comes no faster than vectors multiply it */

/* Whether tiles multiply: sums stay in them over all of k. */
static inline int gr_bytes_by_amx(const gr_bytes *p) {
  return p->rows >= GR_AMX_BYTES_FEW && p->k < GR_AMX_BYTES_A / GR_AMX_ROWS - 64 && gr_amx() & GR_AMX_BYTES;
}

/* ---------------------------------------------------------------- one a machine */

#include "isa/any.h"
#include "isa/bytes.h"
#define GR_ISA_ROWS 4
#include "byte_panels_isa.h"

#if defined(__x86_64__)
#include "isa/avx2.h"
#include "isa/bytes.h"
#define GR_ISA_ROWS 6
#include "byte_panels_isa.h"

#include "isa/avx512vnni.h"
#include "isa/bytes.h"
#define GR_ISA_ROWS 14
#include "byte_panels_isa.h"
#ifndef GR_AMX_NONE
#include "isa/avx512vnni.h"
#include "isa/bytes.h"
#include "byte_panels_amx.h"
#endif
#endif

/* ---------------------------------------------------------------- which instruction set */

enum gr_bytes_isa { GR_BYTES_ANY, GR_BYTES_AVX2, GR_BYTES_AVX512VNNI };

#ifndef GR_BYTES_ISA
static inline enum gr_bytes_isa gr_bytes_isa(void) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512VNNI) return GR_BYTES_AVX512VNNI;
  if (GR_HAS_AVX2) return GR_BYTES_AVX2;
#endif
  return GR_BYTES_ANY;
}
#define GR_BYTES_ISA gr_bytes_isa()
#endif

/* Rows row .. row_end-1 of panels panel .. panel_end-1. */
static inline void gr_bytes_block(const gr_bytes *p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
#ifndef GR_AMX_NONE
  if (gr_bytes_by_amx(p)) {
    gr_bytes_block_amx(p, row, row_end, panel, panel_end);
    return;
  }
#endif
  switch (GR_BYTES_ISA) {
#if defined(__x86_64__)
    case GR_BYTES_AVX512VNNI: gr_bytes_block_avx512vnni(p, row, row_end, panel, panel_end); return;
    case GR_BYTES_AVX2: gr_bytes_block_avx2(p, row, row_end, panel, panel_end); return;
#endif
    default: gr_bytes_block_any(p, row, row_end, panel, panel_end);
  }
}

/* ---------------------------------------------------------------- all of C */

static int32_t gr_bytes_task(void *ctx, int64_t index) {
  const gr_bytes *p = ctx;
  gr_piece piece = gr_piece_at(&p->pieces, index);
  gr_bytes_block(p, piece.row, piece.row_end, piece.panel, piece.panel_end);
  return GR_OK;
}

/* Over the pool. */
static inline int32_t gr_bytes_run(const gr_env *env, gr_bytes *p) {
  if (p->rows == 0 || p->n == 0) return GR_OK;
  int64_t work = 2 * gr_max(p->rows, 8) * p->n * gr_max(p->k, 1);
  int64_t block = GR_BLOCK_ROWS, grain = GR_BYTES_GRAIN, fewest = GR_SHARED_ROWS;
  if (gr_bytes_by_amx(p)) {
    block = GR_AMX_ROWS;
    grain *= GR_AMX_FASTER;
    fewest *= GR_AMX_FASTER;
  }
  p->pieces = gr_cut(p->rows, p->n, block, env->num_cores, work, grain, fewest);
  if (p->pieces.down * p->pieces.across > 1)
    return env->parallel_for(env, p->pieces.down * p->pieces.across, gr_bytes_task, p);
  gr_bytes_block(p, 0, p->rows, 0, gr_ceil_div(p->n, GR_PANEL));
  return GR_OK;
}

#endif
