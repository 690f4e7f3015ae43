/* vector.h: ops of the vector unit of two or three inputs beyond elementwise.h: minimum and power, comparisons and
 * logic, which give bool, and where. One rounding, when the result is packed.
 *
 * The contracts are those of ir/ops/elements/arithmetic.py. Thread: any; a core makes a panel of the output.
 * defines: gr_tt_power, gr_tt_minimum, gr_tt_equal .. gr_tt_greater_equal, gr_tt_logical_and .. gr_tt_bitwise_xor,
 * gr_tt_where
 */
#ifndef GR_TT_VECTOR_H
#define GR_TT_VECTOR_H

#include "tt/elementwise.h"

/* ---------------------------------------------------------------- two inputs */

/* a[i] = of a[i] and b[i]; the result takes the place of a, as a bool where ``made`` is uint32_t and the
 * operands are not. */
#define GR_TT_PAIR_OF(name, type, made, expression)                               \
  static inline void gr_tt_pair_##name(void *left, const void *right, int64_t n) { \
    const type *b = (const type *)right;                                          \
    for (int64_t i = 0; i < n; ++i) {                                             \
      type a;                                                                     \
      memcpy(&a, (const char *)left + 4 * i, 4);                                  \
      made result = (made)(expression);                                           \
      memcpy((char *)left + 4 * i, &result, 4);                                   \
    }                                                                             \
  }

GR_TT_PAIR_OF(minimum_f32, float, float, a < b[i] || a != a ? a : b[i])
GR_TT_PAIR_OF(minimum_i32, int32_t, int32_t, a < b[i] ? a : b[i])
GR_TT_PAIR_OF(power_f32, float, float, powf(a, b[i]))
GR_TT_PAIR_OF(bits_and, uint32_t, uint32_t, a & b[i])
GR_TT_PAIR_OF(bits_or, uint32_t, uint32_t, a | b[i])
GR_TT_PAIR_OF(bits_xor, uint32_t, uint32_t, a ^ b[i])
GR_TT_PAIR_OF(equal_f32, float, uint32_t, a == b[i])
GR_TT_PAIR_OF(equal_i32, int32_t, uint32_t, a == b[i])
GR_TT_PAIR_OF(not_equal_f32, float, uint32_t, a != b[i])
GR_TT_PAIR_OF(not_equal_i32, int32_t, uint32_t, a != b[i])
GR_TT_PAIR_OF(less_f32, float, uint32_t, a < b[i])
GR_TT_PAIR_OF(less_i32, int32_t, uint32_t, a < b[i])
GR_TT_PAIR_OF(less_equal_f32, float, uint32_t, a <= b[i])
GR_TT_PAIR_OF(less_equal_i32, int32_t, uint32_t, a <= b[i])
GR_TT_PAIR_OF(greater_than_f32, float, uint32_t, a > b[i])
GR_TT_PAIR_OF(greater_than_i32, int32_t, uint32_t, a > b[i])
GR_TT_PAIR_OF(greater_equal_f32, float, uint32_t, a >= b[i])
GR_TT_PAIR_OF(greater_equal_i32, int32_t, uint32_t, a >= b[i])
#undef GR_TT_PAIR_OF

/* gr-kernel: tt/power */
static inline int32_t gr_tt_power(const gr_call *call) {
  return gr_tt_binary(call, NULL, gr_tt_pair_power_f32, NULL);
}

/* gr-kernel: tt/minimum */
static inline int32_t gr_tt_minimum(const gr_call *call) {
  if (call->attrs[0] && gr_tt_is_float(call->args[0].format)) return GR_TTNN_BINARY(call, minimum);
  return gr_tt_binary(call, NULL, gr_tt_pair_minimum_f32, gr_tt_pair_minimum_i32);
}

/* gr-kernel: tt/equal */
static inline int32_t gr_tt_equal(const gr_call *call) {
  return gr_tt_binary(call, NULL, gr_tt_pair_equal_f32, gr_tt_pair_equal_i32);
}

/* gr-kernel: tt/not_equal */
static inline int32_t gr_tt_not_equal(const gr_call *call) {
  return gr_tt_binary(call, NULL, gr_tt_pair_not_equal_f32, gr_tt_pair_not_equal_i32);
}

/* gr-kernel: tt/less */
static inline int32_t gr_tt_less(const gr_call *call) {
  return gr_tt_binary(call, NULL, gr_tt_pair_less_f32, gr_tt_pair_less_i32);
}

/* gr-kernel: tt/less_equal */
static inline int32_t gr_tt_less_equal(const gr_call *call) {
  return gr_tt_binary(call, NULL, gr_tt_pair_less_equal_f32, gr_tt_pair_less_equal_i32);
}

/* gr-kernel: tt/greater_than */
static inline int32_t gr_tt_greater_than(const gr_call *call) {
  return gr_tt_binary(call, NULL, gr_tt_pair_greater_than_f32, gr_tt_pair_greater_than_i32);
}

/* gr-kernel: tt/greater_equal */
static inline int32_t gr_tt_greater_equal(const gr_call *call) {
  return gr_tt_binary(call, NULL, gr_tt_pair_greater_equal_f32, gr_tt_pair_greater_equal_i32);
}

/* gr-kernel: tt/logical_and */
static inline int32_t gr_tt_logical_and(const gr_call *call) {
  return gr_tt_binary(call, NULL, NULL, gr_tt_pair_bits_and);
}

/* gr-kernel: tt/bitwise_and */
static inline int32_t gr_tt_bitwise_and(const gr_call *call) {
  return gr_tt_binary(call, NULL, NULL, gr_tt_pair_bits_and);
}

/* gr-kernel: tt/logical_or */
static inline int32_t gr_tt_logical_or(const gr_call *call) {
  return gr_tt_binary(call, NULL, NULL, gr_tt_pair_bits_or);
}

/* gr-kernel: tt/bitwise_or */
static inline int32_t gr_tt_bitwise_or(const gr_call *call) {
  return gr_tt_binary(call, NULL, NULL, gr_tt_pair_bits_or);
}

/* gr-kernel: tt/logical_xor */
static inline int32_t gr_tt_logical_xor(const gr_call *call) {
  return gr_tt_binary(call, NULL, NULL, gr_tt_pair_bits_xor);
}

/* gr-kernel: tt/bitwise_xor */
static inline int32_t gr_tt_bitwise_xor(const gr_call *call) {
  return gr_tt_binary(call, NULL, NULL, gr_tt_pair_bits_xor);
}

/* ---------------------------------------------------------------- where */

typedef struct gr_tt_where_job {
  gr_tt_view in[3];
  int32_t keep;              /* a, b and the output are stored alike: bits are kept */
} gr_tt_where_job;

static inline int32_t gr_tt_where_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                        gr_tt_rect at) {
  const gr_tt_where_job *job = (const gr_tt_where_job *)ctx;
  int64_t size = cut->height * cut->width;
  uint32_t *cond = (uint32_t *)(void *)c->space, *a = cond + size, *b = a + size, *to[3] = {cond, a, b};
  for (int i = 0; i < 3; ++i)
    GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[i], &cut->view, at, to[i], cut->width));
  int64_t length, runs = gr_tt_runs(cut, at, &length);
  for (int64_t r = 0; r < runs; ++r)
    for (int64_t j = r * cut->width; j < r * cut->width + length; ++j) a[j] = cond[j] ? a[j] : b[j];
  return gr_tt_store(c, &cut->view, at, a, cut->width, job->keep);
}

/* gr-kernel: tt/where */
static inline int32_t gr_tt_where(const gr_call *call) {
  const gr_arg *args = call->args;
  gr_tt_panels cut = gr_tt_cut_elements(call, &args[3], 3);
  gr_tt_where_job job = {{gr_tt_view_of(&args[0]), gr_tt_view_of(&args[1]), gr_tt_view_of(&args[2])},
                         args[1].format == args[3].format && args[2].format == args[3].format};
  return gr_tt_run_panels(call, &cut, 3 * gr_tt_bytes(cut.height, cut.width), gr_tt_where_panel, &job);
}

#endif
