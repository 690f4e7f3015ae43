/* softmax_rows.h: softmax and log_softmax of rows of floats, and down columns, for each instruction set
 * (softmax_isa.h). All give the same bits but those without fused multiply-add.
 *
 * Included by: cpu/normalize.h, cpu/attention_panels.h. Thread: any.
 * defines: gr_softmax, gr_softmax_rows_chosen, gr_softmax_columns_chosen, GR_FEW_COLUMNS
 */
#ifndef GR_CPU_SOFTMAX_ROWS_H
#define GR_CPU_SOFTMAX_ROWS_H

#include "cpu/softmax_row.h"
#include "isa/has.h"

#define GR_FEW_COLUMNS 64              /* that go down together */
#define GR_ROWS_AT_ONCE 16             /* rows that go through each pass together */
#define GR_ROWS_FLOATS 4096            /* of them at most: they stay in the nearest cache */

/* Rows of at least one element; out may be x. Row i is x[i * x_row + j] * scale + bias[i * bias_row + j * bias_step],
 * of which the first `seen` + i * `more` elements, at most n, are; the rest become 0. */
typedef struct gr_softmax {
  const float *x;
  float *out;
  int64_t x_row, out_row, rows, n, seen, more;
  int logs;                            /* the logarithm of the result; then all are seen, scale and bias are not there */
  float scale;
  const float *bias;                   /* NULL: none */
  int64_t bias_row, bias_step;
} gr_softmax;

GR_INLINE int64_t gr_softmax_seen(const gr_softmax *s, int64_t row) { return gr_min(s->n, s->seen + row * s->more); }

/* Columns to walk down: `lines` lines of `width` elements, `step` apart, and one of `rest`. */
typedef struct gr_lines {
  int64_t lines, step, width, rest;
} gr_lines;

/* Passes over a line's elements: the greatest above them, exponentials, results. */
enum { GR_LINE_GREATEST, GR_LINE_RAISE, GR_LINE_SHRINK, GR_LINE_LOGS };

#include "isa/any.h"
#include "softmax_isa.h"
#if defined(__x86_64__)
#include "isa/avx2.h"
#include "softmax_isa.h"
#include "isa/avx512.h"
#include "softmax_isa.h"
#elif defined(__aarch64__)
#include "isa/neon.h"
#include "softmax_isa.h"
#endif

/* The fastest form on this machine. */
static void (*gr_softmax_rows_chosen(void))(const gr_softmax *) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) return gr_softmax_rows_avx512;
  if (GR_HAS_AVX2) return gr_softmax_rows_avx2;
#elif defined(__aarch64__)
  if (GR_NEON) return gr_softmax_rows_neon;
#endif
  return gr_softmax_rows_any;
}

static void (*gr_softmax_columns_chosen(void))(const float *, float *, int64_t, int64_t, int64_t, int) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) return gr_softmax_columns_avx512;
  if (GR_HAS_AVX2) return gr_softmax_columns_avx2;
#elif defined(__aarch64__)
  if (GR_NEON) return gr_softmax_columns_neon;
#endif
  return gr_softmax_columns_any;
}

#endif
