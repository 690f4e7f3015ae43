/* broadcast.h: walks up to three inputs that broadcast to one output, as rows on which all are contiguous.
 *
 * A row function sees n elements of each input and of the output side by side; an input that is constant along a
 * row is spread over a buffer before. Not a template: it is told the sizes of elements. The output may be
 * an input of its type: elements are read before they are written, in blocks.
 *
 * Called by: arithmetic.h, compare.h, bits.h, fill.h, pairs.h, where.h. Runs on: the pool's threads.
 *
 * defines: gr_row, gr_broadcast
 */
#ifndef GR_CPU_BROADCAST_H
#define GR_CPU_BROADCAST_H

#include "cpu/common.h"

#define GR_SPREAD 256      /* elements of a buffer that repeats one element */
#define GR_ROW_PIECE 16384 /* a longer row is cut, so that threads share it */

/* in[k][0 .. n-1] -> out[0 .. n-1] */
typedef void (*gr_row)(void *out, const void *const *in, int64_t n, const int64_t *words);

typedef struct gr_rows {
  gr_row row;
  const int64_t *words;
  char *out;
  int64_t out_size;
  int inputs;
  const char *in[3];
  int64_t size[3];             /* bytes of an element */
  int64_t step[3];             /* along the row: 1, or 0 where one element stands for all */
  int64_t n, pieces;           /* elements of a row; pieces it is cut into */
  int32_t ndim;                /* dimensions before the row */
  int64_t shape[GR_MAX_DIMS], outer[3][GR_MAX_DIMS];
} gr_rows;

/* n copies of the element at `from`, at most GR_SPREAD. */
GR_INLINE void gr_spread(char *to, const char *from, int64_t size, int64_t n) {
  switch (size) {
    case 1: memset(to, *(const uint8_t *)from, (size_t)n); break;
    case 2: for (int64_t i = 0; i < n; i++) ((gr_b2 *)(void *)to)[i] = *(const gr_b2 *)(const void *)from; break;
    case 4: for (int64_t i = 0; i < n; i++) ((gr_b4 *)(void *)to)[i] = *(const gr_b4 *)(const void *)from; break;
    default: for (int64_t i = 0; i < n; i++) ((gr_b8 *)(void *)to)[i] = *(const gr_b8 *)(const void *)from; break;
  }
}

/* n elements of a row: at once where every input is contiguous, else in blocks. */
static inline void gr_rows_run(const gr_rows *r, char *out, const char *const *in, int64_t n) {
  _Alignas(64) char still[3][GR_SPREAD * 8];
  int64_t block = n;
  for (int k = 0; k < r->inputs; k++) {
    if (!r->step[k]) block = gr_min(block, GR_SPREAD);
  }
  const void *at[3];
  for (int k = 0; k < r->inputs; k++) {
    at[k] = in[k];
    if (r->step[k]) continue;
    gr_spread(still[k], in[k], r->size[k], block);
    at[k] = still[k];
  }
  for (int64_t i = 0; i < n; i += block) {
    r->row(out + i * r->out_size, at, gr_min(block, n - i), r->words);
    for (int k = 0; k < r->inputs; k++) at[k] = (const char *)at[k] + r->step[k] * block * r->size[k];
  }
}

/* Pieces first .. last-1, counted row by row. */
static inline int32_t gr_rows_task(void *ctx, int64_t first, int64_t last) {
  const gr_rows *r = ctx;
  int64_t length = r->pieces == 1 ? r->n : GR_ROW_PIECE;
  for (int64_t index = first; index < last; index++) {
    int64_t row = index / r->pieces, start = index % r->pieces * length, left = row, at[3] = {0};
    for (int32_t d = r->ndim - 1; d >= 0; d--) {
      int64_t i = left % r->shape[d];
      left /= r->shape[d];
      for (int k = 0; k < r->inputs; k++) at[k] += i * r->outer[k][d];
    }
    const char *in[3];
    for (int k = 0; k < r->inputs; k++) in[k] = r->in[k] + (at[k] + start * r->step[k]) * r->size[k];
    gr_rows_run(r, r->out + (row * r->n + start) * r->out_size, in, gr_min(length, r->n - start));
  }
  return GR_OK;
}

/* Merge dimensions through which every input walks as through one; the last one becomes the row. */
GR_INLINE void gr_rows_merge(gr_rows *r, const gr_call *call, const gr_arg *out) {
  int64_t strides[3][GR_MAX_DIMS];
  int32_t top = -1;
  for (int k = 0; k < r->inputs; k++) gr_strides(&call->args[k], out->ndim, strides[k]);
  for (int32_t d = 0; d < out->ndim; d++) {
    int64_t n = out->shape[d];
    if (n == 1) continue;
    int one = top >= 0;
    for (int k = 0; k < r->inputs; k++) one = one && r->outer[k][top] == n * strides[k][d];
    if (one) {
      r->shape[top] *= n;
    } else {
      r->shape[++top] = n;
    }
    for (int k = 0; k < r->inputs; k++) r->outer[k][top] = strides[k][d];
  }
  r->ndim = top < 0 ? 0 : top;
  r->n = top < 0 ? 1 : r->shape[top];
  for (int k = 0; k < r->inputs; k++) r->step[k] = top < 0 ? 0 : r->outer[k][top];
}

/* Run `row` over a call with `inputs` inputs and one output; sizes: bytes of their elements; cost: about the flops of
 * an element, up to 16. */
static inline int32_t gr_broadcast(const gr_call *call, int inputs, const int64_t *sizes, int64_t out_size,
                                   int64_t cost, gr_row row) {
  const gr_arg *out = &call->args[inputs];
  int64_t size = gr_size(out);
  if (size == 0) return GR_OK;
  gr_rows r = {.row = row, .words = call->attrs, .out = gr_ptr(out), .out_size = out_size, .inputs = inputs};
  for (int k = 0; k < inputs; k++) {
    r.in[k] = gr_ptr(&call->args[k]);
    r.size[k] = sizes[k];
  }
  gr_rows_merge(&r, call, out);
  r.pieces = gr_ceil_div(r.n, GR_ROW_PIECE);
  int64_t piece = gr_min(r.n, GR_ROW_PIECE);
  return gr_parallel(call->env, size / r.n * r.pieces, gr_ceil_div(GR_GRAIN / cost, piece), gr_rows_task, &r);
}

/* One input: flat. */
#define GR_UNARY_ROW(name, out_type, value)                                                        \
  static void GR_FN(name##_row)(void *to, const void *const *in, int64_t n, const int64_t *words) { \
    const GR_T *x = in[0];                                                                          \
    out_type *out = to;                                                                             \
    (void)words;                                                                                    \
    GR_INDEPENDENT                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                               \
      GR_C a = GR_LOAD(x[i]);                                                                       \
      out[i] = value;                                                                               \
    }                                                                                               \
  }                                                                                                 \
  GR_INLINE int32_t GR_FN(name##_any)(const gr_call *call) {                                        \
    const int64_t sizes[1] = {sizeof(GR_T)};                                                        \
    return gr_broadcast(call, 1, sizes, sizeof(out_type), 1, GR_FN(name##_row));                    \
  }

/* Two inputs of one type. */
#define GR_BINARY_ROW(name, out_type, cost, value)                                                 \
  static void GR_FN(name##_row)(void *to, const void *const *in, int64_t n, const int64_t *words) { \
    const GR_T *x = in[0], *y = in[1];                                                              \
    out_type *out = to;                                                                             \
    (void)words;                                                                                    \
    GR_INDEPENDENT                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                               \
      GR_C a = GR_LOAD(x[i]), b = GR_LOAD(y[i]);                                                    \
      out[i] = value;                                                                               \
    }                                                                                               \
  }                                                                                                 \
  GR_INLINE int32_t GR_FN(name##_any)(const gr_call *call) {                                        \
    const int64_t sizes[2] = {sizeof(GR_T), sizeof(GR_T)};                                          \
    return gr_broadcast(call, 2, sizes, sizeof(out_type), cost, GR_FN(name##_row));                 \
  }

/* Three; `before`: statements ahead of the loop, which see the call's words. */
#define GR_TERNARY_ROW(name, out_type, cost, before, value)                                        \
  static void GR_FN(name##_row)(void *to, const void *const *in, int64_t n, const int64_t *words) { \
    const GR_T *x = in[0], *y = in[1], *z = in[2];                                                  \
    out_type *out = to;                                                                             \
    (void)words;                                                                                    \
    before                                                                                          \
    GR_INDEPENDENT                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                               \
      GR_C a = GR_LOAD(x[i]), b = GR_LOAD(y[i]), c = GR_LOAD(z[i]);                                 \
      out[i] = value;                                                                               \
    }                                                                                               \
  }                                                                                                 \
  GR_INLINE int32_t GR_FN(name##_any)(const gr_call *call) {                                        \
    const int64_t sizes[3] = {sizeof(GR_T), sizeof(GR_T), sizeof(GR_T)};                            \
    return gr_broadcast(call, 3, sizes, sizeof(out_type), cost, GR_FN(name##_row));                 \
  }

#endif
