/* finish.h: what a packed product does with its sums before they leave the cache: its epilogue (steps.h).
 *
 * A residual and a bound (relu, clip) are done in registers, where the sums are; any other program runs on each
 * finished block. Sums are float32; results are, too, or bf16.
 *
 * Included by: conv_packed.h, linear_packed.h, matmul_panels.h. Thread: any.
 * defines: gr_finish, gr_finish_open, gr_finish_plane, gr_finish_block, gr_finish_halves,
 *          gr_finish_rounded
 */
#ifndef GR_CPU_FINISH_H
#define GR_CPU_FINISH_H

#define GR_STEPS(name) GR_FN(GR_CAT(finish_steps_, name))
#include "cpu/steps_block.h"

typedef struct gr_finish {
  gr_steps steps;              /* count 0: nothing but what follows */
  const float *extra;          /* NULL or what is added, laid out as the output */
  int clamp;
  float least, most;
} gr_finish;

/* Whether all that a program does is: add an input that is as the output, then keep within bounds. */
GR_INLINE int gr_finish_simple(gr_finish *f, const gr_call *call) {
  const gr_arg *out = &call->args[call->nargs - 1], *loaded[GR_STEPS_REGISTERS] = {0};
  int64_t sum = 0;             /* the register that holds the product so far */
  for (int64_t i = 0; i < f->steps.count; i++) {
    const int64_t *w = f->steps.words + i * GR_STEPS_WORDS;
    int64_t other = w[2] == sum ? w[3] : w[2];
    if (w[0] == GR_STEP_LOAD) {
      loaded[w[1]] = &call->args[w[2]];
      continue;
    }
    if (w[2] != sum && w[3] != sum) return 0;
    if (w[0] == GR_STEP_ADD && !f->extra && !f->clamp && other != sum && loaded[other] &&
        gr_same_shape(loaded[other], out)) {
      f->extra = gr_ptr(loaded[other]);
    } else if ((w[0] == GR_STEP_relu || w[0] == GR_STEP_clip) && !f->clamp) {
      f->clamp = 1;
      f->least = w[0] == GR_STEP_relu ? 0 : (float)gr_steps_parameter(w, 0);
      f->most = w[0] == GR_STEP_relu ? INFINITY : (float)gr_steps_parameter(w, 1);
    } else {
      return 0;
    }
    loaded[w[1]] = NULL;
    sum = w[1];
  }
  return 1;
}

/* words: those behind the op's own; first_row, first_column: the output's dimensions of rows and columns. */
static inline void gr_finish_open(gr_finish *f, const gr_call *call, const int64_t *words, int32_t first_row,
                                  int32_t first_column) {
  gr_steps_open(&f->steps, call, words, first_row, first_column);
  f->extra = NULL;
  f->clamp = 0;
  if (gr_finish_simple(f, call)) {
    f->steps.count = 0;
    return;
  }
  f->extra = NULL;
  f->clamp = 0;
}

/* A block of sums of a plane, in place. */
GR_INLINE void gr_finish_plane(const gr_steps *s, int64_t plane, int64_t row, int64_t rows, int64_t column,
                               int64_t columns, float *c, int64_t c_row) {
  GR_STEPS(block)(s, plane, row, column, rows, columns, c, c_row, c, c_row);
}

/* A block of sums of an output that has one plane, in place. */
GR_INLINE void gr_finish_block(const gr_steps *s, int64_t row, int64_t rows, int64_t column, int64_t columns,
                               float *c, int64_t c_row) {
  gr_finish_plane(s, 0, row, rows, column, columns, c, c_row);
}

#undef GR_STEPS

/* The same for a bf16 output, and bf16 operands of the steps, from a block of float32 sums. */
#include "cpu/end.h"
#include "cpu/begin_bf16.h"
#define GR_STEPS(name) GR_FN(GR_CAT(finish_steps_, name))
#include "cpu/steps_block.h"
GR_INLINE void gr_finish_halves(const gr_steps *s, int64_t row, int64_t rows, int64_t column, int64_t columns,
                                const float *sums, int64_t sums_row, void *out, int64_t out_row) {
  GR_STEPS(block)(s, 0, row, column, rows, columns, sums, sums_row, out, out_row);
}

/* The same of rows of results in bf16, in place: all columns. */
static void gr_finish_rounded(const gr_steps *s, int64_t row, int64_t rows, int64_t columns, uint16_t *out) {
  float sums[GR_STEPS_STRIP];
  int64_t width = gr_min(columns, GR_STEPS_STRIP), height = GR_STEPS_STRIP / width;
  for (int64_t r = 0; r < rows; r += height) {
    for (int64_t j = 0; j < columns; j += width) {
      int64_t high = gr_min(height, rows - r), wide = gr_min(width, columns - j);
      for (int64_t i = 0; i < high; i++) {
        const uint16_t *from = out + (r + i) * columns + j;
        gr_widen_row(sums + i * wide, from, wide);
      }
      gr_finish_halves(s, row + r, high, j, wide, sums, wide, out + r * columns + j, columns);
    }
  }
}
#undef GR_STEPS
#include "cpu/end.h"
#include "cpu/begin_f32.h"
#endif
