/* vector.h: ops of the vector unit beyond elementwise.h: functions of one float, arithmetic of floats and int32,
 * comparisons and logic, which give bool, and where. One rounding, when the result is packed.
 *
 * The contracts are those of graph_runtime/ir/ops/float_functions.py and arithmetic.py. Thread: any; a core makes a
 * panel of the output.
 * defines: gr_tt_floor .. gr_tt_shrink (one input, float), gr_tt_isnan, gr_tt_isinf, gr_tt_abs, gr_tt_negative,
 * gr_tt_sign, gr_tt_clip, gr_tt_bitwise_not, gr_tt_logical_not, gr_tt_minimum, gr_tt_power, gr_tt_equal ..
 * gr_tt_greater_equal, gr_tt_logical_and .. gr_tt_bitwise_xor, gr_tt_where
 */
#ifndef GR_TT_VECTOR_H
#define GR_TT_VECTOR_H

#include "tt/elementwise.h"

/* ---------------------------------------------------------------- functions of one float */

static inline float gr_tt_softplus_of(float x) {
  return (x > 0.0f || x != x ? x : 0.0f) + log1pf(expf(-fabsf(x)));
}

static inline float gr_tt_shrink_of(float x, float lambd, float bias) {
  return x < -lambd ? x + bias : x > lambd ? x - bias : 0.0f * x;
}

/* A float attribute: the bits of a double. */
static inline double gr_tt_wide_word(int64_t word) {
  double value;
  memcpy(&value, &word, sizeof value);
  return value;
}

static inline float gr_tt_word(int64_t word) { return (float)gr_tt_wide_word(word); }

#define GR_TT_WORD(k) gr_tt_word(call->attrs[k])

/* What a function makes of each of n four-byte elements. */
#define GR_TT_EACH_OF(name, type, expression)                                            \
  static inline void gr_tt_each_##name(void *data, int64_t n, const gr_call *call) {     \
    type *x = (type *)data;                                                              \
    (void)call;                                                                          \
    for (int64_t i = 0; i < n; ++i) x[i] = (expression);                                 \
  }

GR_TT_EACH_OF(ceiling, float, ceilf(x[i]))
GR_TT_EACH_OF(floor, float, floorf(x[i]))
GR_TT_EACH_OF(round, float, rintf(x[i]))
GR_TT_EACH_OF(expm1, float, expm1f(x[i]))
GR_TT_EACH_OF(log, float, logf(x[i]))
GR_TT_EACH_OF(log1p, float, log1pf(x[i]))
GR_TT_EACH_OF(reciprocal, float, 1.0f / x[i])
GR_TT_EACH_OF(rsqrt, float, 1.0f / sqrtf(x[i]))
GR_TT_EACH_OF(erf, float, erff(x[i]))
GR_TT_EACH_OF(sin, float, sinf(x[i]))
GR_TT_EACH_OF(cos, float, cosf(x[i]))
GR_TT_EACH_OF(tan, float, tanf(x[i]))
GR_TT_EACH_OF(asin, float, asinf(x[i]))
GR_TT_EACH_OF(acos, float, acosf(x[i]))
GR_TT_EACH_OF(atan, float, atanf(x[i]))
GR_TT_EACH_OF(sinh, float, sinhf(x[i]))
GR_TT_EACH_OF(cosh, float, coshf(x[i]))
GR_TT_EACH_OF(asinh, float, asinhf(x[i]))
GR_TT_EACH_OF(acosh, float, acoshf(x[i]))
GR_TT_EACH_OF(atanh, float, atanhf(x[i]))
GR_TT_EACH_OF(softplus, float, gr_tt_softplus_of(x[i]))
GR_TT_EACH_OF(softsign, float, x[i] / (1.0f + fabsf(x[i])))
GR_TT_EACH_OF(silu, float, gr_tt_gated_of(x[i], x[i]))
GR_TT_EACH_OF(mish, float, gr_tt_mish_of(x[i]))
GR_TT_EACH_OF(hard_swish, float, gr_tt_hard_swish_of(x[i]))
GR_TT_EACH_OF(leaky_relu, float, x[i] < 0.0f ? GR_TT_WORD(0) * x[i] : x[i])
GR_TT_EACH_OF(elu, float, x[i] < 0.0f ? GR_TT_WORD(0) * expm1f(x[i]) : x[i])
GR_TT_EACH_OF(selu, float, GR_TT_WORD(1) * (x[i] < 0.0f ? GR_TT_WORD(0) * expm1f(x[i]) : x[i]))
GR_TT_EACH_OF(celu, float, x[i] < 0.0f ? GR_TT_WORD(0) * expm1f(x[i] / GR_TT_WORD(0)) : x[i])
GR_TT_EACH_OF(hard_sigmoid, float,
              gr_tt_hard_sigmoid_of(x[i], gr_tt_wide_word(call->attrs[0]), gr_tt_wide_word(call->attrs[1])))
GR_TT_EACH_OF(thresholded_relu, float, x[i] <= GR_TT_WORD(0) ? 0.0f : x[i])
GR_TT_EACH_OF(shrink, float, gr_tt_shrink_of(x[i], GR_TT_WORD(0), GR_TT_WORD(1)))

/* gr-kernel: tt/ceiling */
static inline int32_t gr_tt_ceiling(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_ceiling); }

/* gr-kernel: tt/floor */
static inline int32_t gr_tt_floor(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_floor); }

/* gr-kernel: tt/round */
static inline int32_t gr_tt_round(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_round); }

/* gr-kernel: tt/expm1 */
static inline int32_t gr_tt_expm1(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_expm1); }

/* gr-kernel: tt/log */
static inline int32_t gr_tt_log(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_log); }

/* gr-kernel: tt/log1p */
static inline int32_t gr_tt_log1p(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_log1p); }

/* gr-kernel: tt/reciprocal */
static inline int32_t gr_tt_reciprocal(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_reciprocal); }

/* gr-kernel: tt/rsqrt */
static inline int32_t gr_tt_rsqrt(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_rsqrt); }

/* gr-kernel: tt/erf */
static inline int32_t gr_tt_erf(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_erf); }

/* gr-kernel: tt/sin */
static inline int32_t gr_tt_sin(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_sin); }

/* gr-kernel: tt/cos */
static inline int32_t gr_tt_cos(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_cos); }

/* gr-kernel: tt/tan */
static inline int32_t gr_tt_tan(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_tan); }

/* gr-kernel: tt/asin */
static inline int32_t gr_tt_asin(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_asin); }

/* gr-kernel: tt/acos */
static inline int32_t gr_tt_acos(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_acos); }

/* gr-kernel: tt/atan */
static inline int32_t gr_tt_atan(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_atan); }

/* gr-kernel: tt/sinh */
static inline int32_t gr_tt_sinh(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_sinh); }

/* gr-kernel: tt/cosh */
static inline int32_t gr_tt_cosh(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_cosh); }

/* gr-kernel: tt/asinh */
static inline int32_t gr_tt_asinh(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_asinh); }

/* gr-kernel: tt/acosh */
static inline int32_t gr_tt_acosh(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_acosh); }

/* gr-kernel: tt/atanh */
static inline int32_t gr_tt_atanh(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_atanh); }

/* gr-kernel: tt/softplus */
static inline int32_t gr_tt_softplus(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_softplus); }

/* gr-kernel: tt/softsign */
static inline int32_t gr_tt_softsign(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_softsign); }

/* gr-kernel: tt/silu */
static inline int32_t gr_tt_silu(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_silu); }

/* gr-kernel: tt/mish */
static inline int32_t gr_tt_mish(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_mish); }

/* gr-kernel: tt/hard_swish */
static inline int32_t gr_tt_hard_swish(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_hard_swish); }

/* gr-kernel: tt/leaky_relu */
static inline int32_t gr_tt_leaky_relu(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_leaky_relu); }

/* gr-kernel: tt/elu */
static inline int32_t gr_tt_elu(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_elu); }

/* gr-kernel: tt/selu */
static inline int32_t gr_tt_selu(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_selu); }

/* gr-kernel: tt/celu */
static inline int32_t gr_tt_celu(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_celu); }

/* gr-kernel: tt/hard_sigmoid */
static inline int32_t gr_tt_hard_sigmoid(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_hard_sigmoid); }

/* gr-kernel: tt/thresholded_relu */
static inline int32_t gr_tt_thresholded_relu(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_thresholded_relu); }

/* gr-kernel: tt/shrink */
static inline int32_t gr_tt_shrink(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_shrink); }

/* ---------------------------------------------------------------- what a float is */

/* By its bits: the place of a float becomes that of a bool. */
static inline uint32_t gr_tt_is_inf(uint32_t bits, const int64_t *words) {
  return (words[0] && bits == 0x7f800000u) || (words[1] && bits == 0xff800000u);
}

GR_TT_EACH_OF(isnan, uint32_t, (x[i] & 0x7fffffffu) > 0x7f800000u)
GR_TT_EACH_OF(isinf, uint32_t, gr_tt_is_inf(x[i], call->attrs))

/* gr-kernel: tt/isnan */
static inline int32_t gr_tt_isnan(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_isnan); }

/* gr-kernel: tt/isinf */
static inline int32_t gr_tt_isinf(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_isinf); }

/* ---------------------------------------------------------------- floats and integers */

static inline int32_t gr_tt_clip_of(int32_t x, int64_t low, int64_t high) {
  int64_t above = x < low ? low : x;
  return (int32_t)(above > high ? high : above);
}

static inline float gr_tt_clip_float(float x, float low, float high) {
  float above = x < low ? low : x;
  return above > high ? high : above;
}

GR_TT_EACH_OF(abs_f32, float, fabsf(x[i]))
GR_TT_EACH_OF(abs_i32, uint32_t, x[i] >> 31 ? 0u - x[i] : x[i])
GR_TT_EACH_OF(negative_f32, float, -x[i])
GR_TT_EACH_OF(negative_i32, uint32_t, 0u - x[i])
GR_TT_EACH_OF(sign_f32, float, x[i] != x[i] ? x[i] : (float)((x[i] > 0.0f) - (x[i] < 0.0f)))
GR_TT_EACH_OF(sign_i32, int32_t, (x[i] > 0) - (x[i] < 0))
GR_TT_EACH_OF(clip_f32, float, gr_tt_clip_float(x[i], GR_TT_WORD(0), GR_TT_WORD(1)))
GR_TT_EACH_OF(clip_i32, int32_t, gr_tt_clip_of(x[i], call->attrs[0], call->attrs[1]))
GR_TT_EACH_OF(not_bits, uint32_t, ~x[i])
GR_TT_EACH_OF(not_bool, uint32_t, x[i] ^ 1u)
#undef GR_TT_EACH_OF
#undef GR_TT_WORD

static inline int32_t gr_tt_unary_of(const gr_call *call, gr_tt_map floats, gr_tt_map ints) {
  return gr_tt_unary(call, gr_tt_is_float(call->args[0].format) ? floats : ints);
}

/* gr-kernel: tt/abs */
static inline int32_t gr_tt_abs(const gr_call *call) {
  return gr_tt_unary_of(call, gr_tt_each_abs_f32, gr_tt_each_abs_i32);
}

/* gr-kernel: tt/negative */
static inline int32_t gr_tt_negative(const gr_call *call) {
  return gr_tt_unary_of(call, gr_tt_each_negative_f32, gr_tt_each_negative_i32);
}

/* gr-kernel: tt/sign */
static inline int32_t gr_tt_sign(const gr_call *call) {
  return gr_tt_unary_of(call, gr_tt_each_sign_f32, gr_tt_each_sign_i32);
}

/* gr-kernel: tt/clip */
static inline int32_t gr_tt_clip(const gr_call *call) {
  return gr_tt_unary_of(call, gr_tt_each_clip_f32, gr_tt_each_clip_i32);
}

/* gr-kernel: tt/bitwise_not */
static inline int32_t gr_tt_bitwise_not(const gr_call *call) {
  return gr_tt_unary(call, call->args[0].dtype == GR_BOOL ? gr_tt_each_not_bool : gr_tt_each_not_bits);
}

/* gr-kernel: tt/logical_not */
static inline int32_t gr_tt_logical_not(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_not_bool); }

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
  for (int64_t r = 0; r < at.nr; ++r)
    for (int64_t j = r * cut->width; j < r * cut->width + at.nc; ++j) a[j] = cond[j] ? a[j] : b[j];
  return gr_tt_store(c, &cut->view, at, a, cut->width, job->keep);
}

/* gr-kernel: tt/where */
static inline int32_t gr_tt_where(const gr_call *call) {
  const gr_arg *args = call->args;
  gr_tt_panels cut = gr_tt_cut(call, &args[3], 3);
  gr_tt_where_job job = {{gr_tt_view_of(&args[0]), gr_tt_view_of(&args[1]), gr_tt_view_of(&args[2])},
                         args[1].format == args[3].format && args[2].format == args[3].format};
  return gr_tt_run_panels(call, &cut, 3 * gr_tt_bytes(cut.height, cut.width), gr_tt_where_panel, &job);
}

#endif
