/* steps_block.h: runs a program of steps (steps.h) on a block of results. Template: GR_STEPS(name) names its
 * functions, so that several families of a unit may include it.
 *
 * Strips of GR_STEPS_STRIP elements go through all steps before the next one does, a register each: what the
 * steps hand over stays in the nearest cache. A step computes the bits that the op alone does.
 *
 * defines: GR_STEPS(block)
 */
#include "cpu/steps_lanes.h"
#ifdef GR_IS_BF16
#include "cpu/half_rows.h"
#endif

/* A register: n elements, or one that stands for all of them (step 0). */
typedef struct GR_STEPS(register) {
  const GR_C *at;
  int step;
} GR_STEPS(register);

/* Size of a strip: rows x columns elements, at most GR_STEPS_STRIP. */
typedef struct GR_STEPS(place) {
  int64_t plane, row, column, rows, columns;
} GR_STEPS(place);

/* n elements as they are computed with, and as they are stored. */
GR_INLINE void GR_STEPS(widen)(GR_C *to, const GR_T *from, int64_t n) {
#ifdef GR_IS_BF16
  gr_widen_row(to, from, n);
#else
  GR_INDEPENDENT
  for (int64_t j = 0; j < n; j++) to[j] = GR_LOAD(from[j]);
#endif
}

GR_INLINE void GR_STEPS(narrow)(GR_T *to, const GR_C *from, int64_t n) {
#ifdef GR_IS_BF16
  gr_narrow_row(to, from, n);
#else
  GR_INDEPENDENT
  for (int64_t j = 0; j < n; j++) to[j] = GR_STORE(from[j]);
#endif
}

/* rows of elements, side by side in `to`. */
GR_INLINE void GR_STEPS(gather)(GR_C *to, const GR_T *from, int64_t row_stride, int64_t stride,
                                const GR_STEPS(place) *at) {
  if (stride && (at->rows == 1 || row_stride == at->columns)) {
    GR_STEPS(widen)(to, from, at->rows * at->columns);
    return;
  }
  if (stride && row_stride == 0) { /* one row again and again: what is there is doubled */
    int64_t all = at->rows * at->columns, made = at->columns;
    GR_STEPS(widen)(to, from, made);
    for (; made < all; made += gr_min(made, all - made))
      memcpy(to + made, to, (size_t)gr_min(made, all - made) * sizeof(GR_C));
    return;
  }
  for (int64_t r = 0; r < at->rows; r++, to += at->columns) {
    const GR_T *row = from + r * row_stride;
    if (stride) {
      GR_STEPS(widen)(to, row, at->columns);
    } else {
      GR_C value = GR_LOAD(row[0]);
      for (int64_t j = 0; j < at->columns; j++) to[j] = value;
    }
  }
}

GR_INLINE GR_STEPS(register) GR_STEPS(load)(const gr_steps *s, const gr_steps_input *input,
                                            const GR_STEPS(place) *at, GR_C *buffer) {
  const GR_T *from = (const GR_T *)gr_ptr(input->arg) + gr_steps_offset(s, input, at->plane, at->row, at->column);
  int one_row = at->rows == 1 || input->row == 0;
  if (!input->column && one_row) {
    buffer[0] = GR_LOAD(*from);
    return (GR_STEPS(register)){buffer, 0};
  }
  int contiguous = input->column && (at->rows == 1 || input->row == at->columns);
  if (sizeof(GR_T) == sizeof(GR_C) && contiguous) return (GR_STEPS(register)){(const GR_C *)(const void *)from, 1};
  GR_STEPS(gather)(buffer, from, input->row, input->column, at);
  return (GR_STEPS(register)){buffer, 1};
}

#if GR_FLOAT
#define GR_STEPS_APPLY GR_MATH(gr_steps_lanes)
#else
#define GR_STEPS_APPLY GR_STEPS(lanes)
static __attribute__((noinline)) void GR_STEPS(lanes)(GR_STEPS_LANES_ARGS(GR_C)) {
  switch (w[0]) {
    GR_STEPS_ARITHMETIC(GR_C, GR_U, GR_IS_NAN)
    GR_STEP(GR_C, GR_STEP_relu, a <= 0 ? 0 : a) /* not <, which no unsigned number is */
    default: break; /* ir/ops/steps.py makes no other code */
  }
}
#endif

/* One instruction on n elements. Those that fill no lanes go by way of buffers; so does one for all. */
static void GR_STEPS(apply)(const int64_t *w, GR_STEPS(register) x, GR_STEPS(register) y, GR_C *d, int64_t n) {
  _Alignas(64) GR_C a[GR_STEPS_LANES] = {0}, b[GR_STEPS_LANES] = {0}, made[GR_STEPS_LANES];
  int64_t whole = n / GR_STEPS_LANES * GR_STEPS_LANES, rest = n - whole;
  for (int l = 0; l < GR_STEPS_LANES && !x.step; l++) a[l] = *x.at;
  for (int l = 0; l < GR_STEPS_LANES && !y.step; l++) b[l] = *y.at;
  if (whole)
    GR_STEPS_APPLY(w, x.step ? x.at : a, x.step * GR_STEPS_LANES, y.step ? y.at : b, y.step * GR_STEPS_LANES, d,
                   whole);
  if (!rest) return;
  if (x.step) memcpy(a, x.at + whole, (size_t)rest * sizeof(GR_C));
  if (y.step) memcpy(b, y.at + whole, (size_t)rest * sizeof(GR_C));
  GR_STEPS_APPLY(w, a, 0, b, 0, made, GR_STEPS_LANES);
  memcpy(d + whole, made, (size_t)rest * sizeof(GR_C));
}
#undef GR_STEPS_APPLY

/* All steps on one strip; in may be NULL: a program without a product. */
GR_INLINE void GR_STEPS(strip)(const gr_steps *s, const GR_STEPS(place) *at, const GR_C *in, int64_t in_row,
                               GR_T *out, int64_t out_row) {
  _Alignas(64) GR_C buffer[GR_STEPS_REGISTERS][GR_STEPS_STRIP];
  GR_STEPS(register) registers[GR_STEPS_REGISTERS], last = {in, 1};
  int64_t n = at->rows * at->columns;
  int in_place = sizeof(GR_T) == sizeof(GR_C) && (at->rows == 1 || out_row == at->columns);
  if (in && (at->rows == 1 || in_row == at->columns)) {
    registers[0] = (GR_STEPS(register)){in, 1};
  } else if (in) {
    for (int64_t r = 0; r < at->rows; r++)
      memcpy(buffer[0] + r * at->columns, in + r * in_row, (size_t)at->columns * sizeof(GR_C));
    registers[0] = (GR_STEPS(register)){buffer[0], 1};
  }
  for (int64_t i = 0; i < s->count; i++) {
    const int64_t *w = s->words + i * GR_STEPS_WORDS;
    if (w[0] == GR_STEP_LOAD) {
      registers[w[1]] = GR_STEPS(load)(s, &s->inputs[w[2]], at, buffer[w[1]]);
      continue;
    }
    GR_STEPS(register) x = registers[w[2]], y = registers[w[3]];
    int step = x.step || y.step;
    GR_C *d = in_place && step && i == s->count - 1 ? (GR_C *)(void *)out : buffer[w[1]];
    GR_STEPS(apply)(w, x, y, d, step ? n : 1);
    last = registers[w[1]] = (GR_STEPS(register)){d, step};
  }
  if ((const void *)last.at == (const void *)out) return;
  if (last.step && (at->rows == 1 || out_row == at->columns)) {
    GR_STEPS(narrow)(out, last.at, n);
    return;
  }
  for (int64_t r = 0; r < at->rows; r++, out += out_row) {
    if (last.step) {
      GR_STEPS(narrow)(out, last.at + r * at->columns, at->columns);
      continue;
    }
    GR_T value = GR_STORE(last.at[0]);
    for (int64_t j = 0; j < at->columns; j++) out[j] = value;
  }
}

/* A program of one step that reads nothing but products which lie side by side: all of the block at once. */
GR_INLINE int GR_STEPS(alone)(const gr_steps *s, int64_t rows, int64_t columns, const GR_C *in, int64_t in_row,
                              GR_T *out, int64_t out_row) {
  if (!in || s->count != 1 || s->words[0] == GR_STEP_LOAD || sizeof(GR_T) != sizeof(GR_C)) return 0;
  if (rows > 1 && (in_row != columns || out_row != columns)) return 0;
  GR_STEPS(register) x = {in, 1};
  GR_STEPS(apply)(s->words, x, x, (GR_C *)(void *)out, rows * columns);
  return 1;
}

/* The block's elements (row .. row + rows-1, column .. column + columns-1) of a plane. */
static __attribute__((noinline, noclone)) void GR_STEPS(block)(const gr_steps *s, int64_t plane, int64_t row,
                                                               int64_t column, int64_t rows, int64_t columns,
                                                               const GR_C *in, int64_t in_row, GR_T *out,
                                                               int64_t out_row) {
  if (GR_STEPS(alone)(s, rows, columns, in, in_row, out, out_row)) return;
  int64_t width = gr_min(columns, GR_STEPS_STRIP), height = gr_max(1, GR_STEPS_STRIP / gr_max(width, 1));
  for (int64_t r = 0; r < rows; r += height) {
    for (int64_t j = 0; j < columns; j += width) {
      GR_STEPS(place) at = {plane, row + r, column + j, gr_min(height, rows - r), gr_min(width, columns - j)};
      GR_STEPS(strip)(s, &at, in ? in + r * in_row + j : NULL, in_row, out + r * out_row + j, out_row);
    }
  }
}
