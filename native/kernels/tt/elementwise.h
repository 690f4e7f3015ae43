/* elementwise.h: arithmetic of two inputs (numpy's broadcasting); the way of ops of one input, and cast.
 *
 * The contract is that of ir/ops/elements/elementwise.py. Thread: any; a core makes a panel of the output.
 * defines: gr_tt_binary, gr_tt_add .. gr_tt_maximum, gr_tt_unary, gr_tt_cast
 */
#ifndef GR_TT_ELEMENTWISE_H
#define GR_TT_ELEMENTWISE_H

#include <math.h>

#include "tt/exact_elementwise.h"
#include "tt/fpu.h"
#include "tt/scalars_ttnn.h"
#include "tt/work.h"

/* ---------------------------------------------------------------- two inputs */

/* a[i] = f(a[i], b[i]) */
typedef void (*gr_tt_pairwise)(void *a, const void *b, int64_t n);

typedef struct gr_tt_binary_job {
  gr_tt_view in[2];
  gr_tt_pairwise apply;
} gr_tt_binary_job;

static inline int32_t gr_tt_binary_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_binary_job *job = (const gr_tt_binary_job *)ctx;
  uint32_t *a = (uint32_t *)(void *)c->space, *b = a + cut->height * cut->width;
  GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[0], &cut->view, at, a, cut->width));
  GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[1], &cut->view, at, b, cut->width));
  int64_t length, runs = gr_tt_runs(cut, at, &length);
  for (int64_t r = 0; r < runs; ++r) job->apply(a + r * cut->width, b + r * cut->width, length);
  return gr_tt_store(c, &cut->view, at, a, cut->width, 0);
}

/* words: of an op of the matrix unit, else NULL */
static inline int32_t gr_tt_binary(const gr_call *call, const int64_t *words, gr_tt_pairwise floats,
                                   gr_tt_pairwise ints) {
  gr_tt_words chosen = {0};
  if (words != NULL) chosen = gr_tt_words_of(words);
  gr_tt_panels cut = (chosen.grid[0] > 0 ? gr_tt_cut : gr_tt_cut_elements)(call, &call->args[2], 2);
  gr_tt_binary_job job = {{gr_tt_view_of(&call->args[0]), gr_tt_view_of(&call->args[1])},
                          gr_tt_is_float(call->args[0].format) ? floats : ints};
  return gr_tt_run_pairs(call, &chosen, &cut, 2, gr_tt_binary_panel, &job);
}

/* Integers wrap: they are computed as unsigned. */
#define GR_TT_PAIRWISE(name, type, expression)                              \
  static inline void gr_tt_##name(void *left, const void *right, int64_t n) { \
    type *a = (type *)left;                                                 \
    const type *b = (const type *)right;                                    \
    for (int64_t i = 0; i < n; ++i) a[i] = (expression);                    \
  }

GR_TT_PAIRWISE(add_f32, float, a[i] + b[i])
GR_TT_PAIRWISE(add_i32, uint32_t, a[i] + b[i])
GR_TT_PAIRWISE(subtract_f32, float, a[i] - b[i])
GR_TT_PAIRWISE(subtract_i32, uint32_t, a[i] - b[i])
GR_TT_PAIRWISE(multiply_f32, float, a[i] * b[i])
GR_TT_PAIRWISE(multiply_i32, uint32_t, a[i] * b[i])
GR_TT_PAIRWISE(divide_f32, float, a[i] / b[i])
GR_TT_PAIRWISE(maximum_f32, float, a[i] > b[i] || a[i] != a[i] ? a[i] : b[i])
GR_TT_PAIRWISE(maximum_i32, int32_t, a[i] > b[i] ? a[i] : b[i])
#undef GR_TT_PAIRWISE

/* a[i] = f(a[i], b[i]) as ttnn computes it, with a Dst of 16 bits and of 32. */
#define GR_TTNN_PAIRWISE(name, m, bits)                                                 \
  static inline void gr_ttnn_##name##_##bits(void *left, const void *right, int64_t n) { \
    float *a = (float *)left;                                                           \
    const float *b = (const float *)right;                                              \
    for (int64_t i = 0; i < n; ++i) a[i] = gr_ttnn_##name(a[i], b[i], (gr_sfpu){m});    \
  }
#define GR_TTNN_PAIR(name, formula) \
  GR_TTNN_PAIRWISE(name, 0, 16)     \
  GR_TTNN_PAIRWISE(name, 1, 32)
#define GR_PAIR(name, cost, formula) GR_TTNN_PAIR(name, formula)
#include "functions.h"
#include "functions_ttnn.h"
#undef GR_TTNN_PAIRWISE

/* An op of two floats as ttnn has it. */
#define GR_TTNN_BINARY(call, name) \
  gr_tt_binary(call, NULL, gr_ttnn_of(call).wide ? gr_ttnn_##name##_32 : gr_ttnn_##name##_16, NULL)

/* Whether an op of the matrix unit shall be; integers have one way. */
static inline int gr_tt_is_ttnn(const gr_call *call) {
  return gr_tt_words_of(call->attrs).ttnn && gr_tt_is_float(call->args[2].format);
}

/* Whether an operand of two has one element. */
static inline int gr_tt_has_scalar(const gr_call *call) {
  int64_t size[2] = {1, 1};
  for (int i = 0; i < 2; ++i)
    for (int32_t d = 0; d < call->args[i].ndim; ++d) size[i] *= call->args[i].shape[d];
  return size[0] == 1 || size[1] == 1;
}

/* gr-kernel: tt/add */
static inline int32_t gr_tt_add(const gr_call *call) {
  if (gr_tt_is_ttnn(call)) return gr_tt_has_scalar(call) ? GR_TTNN_BINARY(call, add_scalar) : GR_TTNN_BINARY(call, add);
  if (gr_tt_is_exact(call)) return gr_tt_exact_binary(call, GR_EXACT_ADD);
  if (gr_tt_is_fpu(call)) return gr_tt_fpu_binary(call, GR_EXACT_ADD);
  return gr_tt_binary(call, call->attrs, gr_tt_add_f32, gr_tt_add_i32);
}

/* gr-kernel: tt/subtract */
static inline int32_t gr_tt_subtract(const gr_call *call) {
  if (gr_tt_is_ttnn(call)) return gr_tt_has_scalar(call) ? GR_TTNN_BINARY(call, subtract_scalar) : GR_TTNN_BINARY(call, subtract);
  if (gr_tt_is_exact(call)) return gr_tt_exact_binary(call, GR_EXACT_SUB);
  if (gr_tt_is_fpu(call)) return gr_tt_fpu_binary(call, GR_EXACT_SUB);
  return gr_tt_binary(call, call->attrs, gr_tt_subtract_f32, gr_tt_subtract_i32);
}

/* gr-kernel: tt/multiply */
static inline int32_t gr_tt_multiply(const gr_call *call) {
  if (gr_tt_is_ttnn(call)) return gr_tt_has_scalar(call) ? GR_TTNN_BINARY(call, multiply_scalar) : GR_TTNN_BINARY(call, multiply);
  if (gr_tt_is_exact(call)) return gr_tt_exact_binary(call, GR_EXACT_MUL);
  if (gr_tt_is_fpu(call)) return gr_tt_fpu_binary(call, GR_EXACT_MUL);
  return gr_tt_binary(call, call->attrs, gr_tt_multiply_f32, gr_tt_multiply_i32);
}

/* gr-kernel: tt/divide */
static inline int32_t gr_tt_divide(const gr_call *call) {
  if (call->attrs[0]) return GR_TTNN_BINARY(call, divide);
  return gr_tt_binary(call, NULL, gr_tt_divide_f32, NULL);
}

/* gr-kernel: tt/maximum */
static inline int32_t gr_tt_maximum(const gr_call *call) {
  if (call->attrs[0] && gr_tt_is_float(call->args[0].format)) return GR_TTNN_BINARY(call, maximum);
  return gr_tt_binary(call, NULL, gr_tt_maximum_f32, gr_tt_maximum_i32);
}

/* ---------------------------------------------------------------- one input */

/* x[i] = f(x[i]) */
typedef void (*gr_tt_map)(void *x, int64_t n, const gr_call *call);

typedef struct gr_tt_unary_job {
  const gr_call *call;
  gr_tt_view in;
  gr_tt_map apply;
} gr_tt_unary_job;

static inline int32_t gr_tt_unary_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                        gr_tt_rect at) {
  const gr_tt_unary_job *job = (const gr_tt_unary_job *)ctx;
  uint32_t *x = (uint32_t *)(void *)c->space;
  GR_TT_TRY(gr_tt_load(c, &job->in, at, x, cut->width));
  int64_t length, runs = gr_tt_runs(cut, at, &length);
  for (int64_t r = 0; r < runs; ++r) job->apply(x + r * cut->width, length, job->call);
  return gr_tt_store(c, &cut->view, at, x, cut->width, 0);
}

static inline int32_t gr_tt_unary(const gr_call *call, gr_tt_map apply) {
  gr_tt_panels cut = gr_tt_cut_elements(call, &call->args[1], 1);
  gr_tt_unary_job job = {call, gr_tt_view_of(&call->args[0]), apply};
  return gr_tt_run_panels(call, &cut, gr_tt_bytes(cut.height, cut.width), gr_tt_unary_panel, &job);
}

/* ---------------------------------------------------------------- cast */

/* Least and greatest value of an integer dtype. */
static inline void gr_tt_limits(uint8_t dtype, int64_t *least, int64_t *most) {
  int is_signed = dtype == GR_I8 || dtype == GR_I16 || dtype == GR_I32;
  int32_t bits = (int32_t)gr_format_bytes(dtype) * 8 - is_signed;
  *most = ((int64_t)1 << bits) - 1;
  *least = is_signed ? -*most - 1 : 0;
}

/* Truncates toward zero, saturates, NaN gives 0. */
static inline uint32_t gr_tt_float_to_int(float x, int64_t least, int64_t most) {
  if (x != x) return 0;
  if (x <= (float)least) return (uint32_t)least;
  if (x >= (float)most) return (uint32_t)most;       /* (float)most may be most + 1 */
  return (uint32_t)(int64_t)x;
}

/* One row from the four-byte form of the input's dtype to that of the output's. Narrowing of integers is the
 * store's. */
static inline void gr_tt_cast_row(void *data, int64_t n, const gr_call *call) {
  uint32_t *x = (uint32_t *)data;
  const gr_arg *from = &call->args[0], *to = &call->args[1];
  int was_float = gr_tt_is_float(from->format), is_float = gr_tt_is_float(to->format);
  int64_t least, most;
  gr_tt_limits(to->dtype, &least, &most);
  if (to->dtype == GR_BOOL && was_float)
    for (int64_t i = 0; i < n; ++i) x[i] = gr_float_of(x[i]) != 0.0f;
  else if (to->dtype == GR_BOOL)
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] != 0;
  else if (was_float && !is_float)
    for (int64_t i = 0; i < n; ++i) x[i] = gr_tt_float_to_int(gr_float_of(x[i]), least, most);
  else if (!was_float && is_float && from->dtype == GR_U32)
    for (int64_t i = 0; i < n; ++i) x[i] = gr_bits_of((float)x[i]);
  else if (!was_float && is_float)
    for (int64_t i = 0; i < n; ++i) x[i] = gr_bits_of((float)(int32_t)x[i]);
}

/* gr-kernel: tt/cast */
static inline int32_t gr_tt_cast(const gr_call *call) { return gr_tt_unary(call, gr_tt_cast_row); }

#endif
