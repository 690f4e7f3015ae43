/* unary.h: ops of one input, element by element: the functions of floats in functions.h and gelu, isnan and isinf;
 * abs, negative, square, sign, clip and relu of floats and integers, bitwise_not and logical_not. One rounding, when
 * the result is packed.
 *
 * The contracts are those of ir/ops/elements/float_functions.py, elementwise.py and arithmetic.py. Thread: any;
 * a core makes a panel of the output.
 * defines: gr_tt_{functions of functions.h}, gr_tt_gelu, gr_tt_isnan, gr_tt_isinf, gr_tt_relu, gr_tt_abs,
 * gr_tt_negative, gr_tt_square, gr_tt_sign, gr_tt_clip, gr_tt_bitwise_not, gr_tt_logical_not
 */
#ifndef GR_TT_UNARY_H
#define GR_TT_UNARY_H

#include "tt/elementwise.h"
#include "tt/scalars.h"
#include "tt/scalars_ttnn.h"

/* x[i] = value of a = x[i], four bytes each; `before`: statements ahead of the loop. */
#define GR_TT_EACH(name, type, before, value)                                            \
  static inline void gr_tt_each_##name(void *data, int64_t n, const gr_call *call) {     \
    type *x = (type *)data;                                                              \
    (void)call;                                                                          \
    before                                                                               \
    for (int64_t i = 0; i < n; ++i) {                                                    \
      type a = x[i];                                                                     \
      x[i] = (value);                                                                    \
    }                                                                                    \
  }

/* By a formula of functions.h, and by that of functions_ttnn.h. */
#define GR_TT_EACH_FLOAT(name, words)                                                    \
  GR_TT_EACH(name, float, double p = words > 0 ? gr_word(call->attrs[0]) : 0;            \
             double q = words > 1 ? gr_word(call->attrs[1]) : 0;                         \
             , gr_tt_fn_##name(a, p, q))                                                 \
  GR_TT_EACH(name##_ttnn, float, float p = words > 0 ? (float)gr_word(call->attrs[0]) : 0; \
             float q = words > 1 ? (float)gr_word(call->attrs[1]) : 0;                   \
             gr_sfpu m = gr_ttnn_of(call);                               \
             , gr_ttnn_##name(a, p, q, m))

/* gr-functions: tt */
#define GR_NUMBER(name, words, formula) GR_TT_EACH_FLOAT(name, words)
#define GR_FUNCTION(name, words, cost, formula)                                          \
  GR_TT_EACH_FLOAT(name, words)                                                          \
  static inline int32_t gr_tt_##name(const gr_call *call) {                              \
    return gr_tt_unary(call, call->attrs[words] ? gr_tt_each_##name##_ttnn : gr_tt_each_##name); \
  }
#include "functions.h"
#undef GR_TT_EACH_FLOAT

/* ---------------------------------------------------------------- floats only */

/* By its bits: the place of a float becomes that of a bool. */
static inline uint32_t gr_tt_is_inf(uint32_t bits, const int64_t *words) {
  return (words[0] && bits == 0x7f800000u) || (words[1] && bits == 0xff800000u);
}

GR_TT_EACH(gelu_erf, float, , gr_tt_gelu_erf_of(a))
GR_TT_EACH(gelu_tanh, float, , gr_tt_gelu_tanh_of(a))
GR_TT_EACH(gelu_ttnn, float, gr_sfpu m = gr_ttnn_of(call);, gr_ttnn_gelu(a, 0, 0, m))
GR_TT_EACH(isnan, uint32_t, , (a & 0x7fffffffu) > 0x7f800000u)
GR_TT_EACH(isinf, uint32_t, , gr_tt_is_inf(a, call->attrs))

/* gr-kernel: tt/gelu */
static inline int32_t gr_tt_gelu(const gr_call *call) {
  if (call->attrs[1] && !call->attrs[0]) return gr_tt_unary(call, gr_tt_each_gelu_ttnn);
  return gr_tt_unary(call, call->attrs[0] ? gr_tt_each_gelu_tanh : gr_tt_each_gelu_erf);
}

/* gr-kernel: tt/isnan */
static inline int32_t gr_tt_isnan(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_isnan); }

/* gr-kernel: tt/isinf */
static inline int32_t gr_tt_isinf(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_isinf); }

/* ---------------------------------------------------------------- floats and integers */

static inline int32_t gr_tt_clip_int(int32_t x, int64_t low, int64_t high) {
  int64_t above = x < low ? low : x;
  return (int32_t)(above > high ? high : above);
}

/* Integers wrap: they are computed as unsigned. */
GR_TT_EACH(relu_i32, int32_t, , a < 0 ? 0 : a)
GR_TT_EACH(abs_i32, uint32_t, , a >> 31 ? 0u - a : a)
GR_TT_EACH(negative_i32, uint32_t, , 0u - a)
GR_TT_EACH(square_i32, uint32_t, , a * a)
GR_TT_EACH(sign_i32, int32_t, , (a > 0) - (a < 0))
GR_TT_EACH(clip_i32, int32_t, , gr_tt_clip_int(a, call->attrs[0], call->attrs[1]))
GR_TT_EACH(not_bits, uint32_t, , ~a)
GR_TT_EACH(not_bool, uint32_t, , a ^ 1u)
#undef GR_TT_EACH

/* words: how many are the op's own; behind them is whether floats are computed as ttnn does. */
static inline int32_t gr_tt_unary_of(const gr_call *call, int words, gr_tt_map floats, gr_tt_map ttnn,
                                     gr_tt_map ints) {
  if (!gr_tt_is_float(call->args[0].format)) return gr_tt_unary(call, ints);
  return gr_tt_unary(call, call->attrs[words] ? ttnn : floats);
}

/* gr-kernel: tt/relu */
static inline int32_t gr_tt_relu(const gr_call *call) {
  return gr_tt_unary_of(call, 0, gr_tt_each_relu, gr_tt_each_relu_ttnn, gr_tt_each_relu_i32);
}

/* gr-kernel: tt/abs */
static inline int32_t gr_tt_abs(const gr_call *call) {
  return gr_tt_unary_of(call, 0, gr_tt_each_abs, gr_tt_each_abs_ttnn, gr_tt_each_abs_i32);
}

/* gr-kernel: tt/negative */
static inline int32_t gr_tt_negative(const gr_call *call) {
  return gr_tt_unary_of(call, 0, gr_tt_each_negative, gr_tt_each_negative_ttnn, gr_tt_each_negative_i32);
}

/* gr-kernel: tt/square */
static inline int32_t gr_tt_square(const gr_call *call) {
  return gr_tt_unary_of(call, 0, gr_tt_each_square, gr_tt_each_square_ttnn, gr_tt_each_square_i32);
}

/* gr-kernel: tt/sign */
static inline int32_t gr_tt_sign(const gr_call *call) {
  return gr_tt_unary_of(call, 0, gr_tt_each_sign, gr_tt_each_sign_ttnn, gr_tt_each_sign_i32);
}

/* gr-kernel: tt/clip */
static inline int32_t gr_tt_clip(const gr_call *call) {
  return gr_tt_unary_of(call, 2, gr_tt_each_clip, gr_tt_each_clip_ttnn, gr_tt_each_clip_i32);
}

/* gr-kernel: tt/bitwise_not */
static inline int32_t gr_tt_bitwise_not(const gr_call *call) {
  return gr_tt_unary(call, call->args[0].dtype == GR_BOOL ? gr_tt_each_not_bool : gr_tt_each_not_bits);
}

/* gr-kernel: tt/logical_not */
static inline int32_t gr_tt_logical_not(const gr_call *call) { return gr_tt_unary(call, gr_tt_each_not_bool); }

#endif
