/* unary.h: ops of one input, element by element: the functions of floats in functions.h, gelu, isnan, isinf; relu
 * of signed integers, too. Template; out may be the input. Attribute words: ir/ops/elements/float_functions.py
 * and elementwise.py.
 *
 * defines: gr_cpu_{functions of functions.h}__<suffix>, gr_cpu_{relu gelu isnan isinf}__<suffix>
 */
#include "cpu/half_rows.h"
#include "cpu/steps_lanes.h"

/* out[i] = value of a = x[i]; `before`: statements ahead of the loop. */
#define GR_EACH(name, made, cost, before, value)                                          \
  static int32_t GR_FN(name##_flat)(void *ctx, int64_t first, int64_t last) {             \
    const gr_call *call = ctx;                                                            \
    const GR_T *x = gr_ptr(&call->args[0]);                                               \
    made *out = gr_ptr(&call->args[1]);                                                   \
    before                                                                                \
    GR_INDEPENDENT                                                                        \
    for (int64_t i = first; i < last; i++) {                                              \
      GR_C a = GR_LOAD(x[i]);                                                             \
      out[i] = value;                                                                     \
    }                                                                                     \
    return GR_OK;                                                                         \
  }                                                                                       \
  GR_INLINE int32_t GR_FN(name##_any)(const gr_call *call) {                              \
    return gr_each(call, GR_GRAIN / (cost), GR_FN(name##_flat));                          \
  }

#if GR_FLOAT
/* gr-functions: cpu : f32 f64 f16 bf16 */
#define GR_FUNCTION(name, words, cost, formula)                                           \
  GR_EACH(name, GR_T, cost, double p = words > 0 ? gr_word(call->attrs[0]) : 0;           \
          double q = words > 1 ? gr_word(call->attrs[1]) : 0;                             \
          , GR_STORE(GR_MATH(gr_fn_##name)(a, p, q)))                                     \
  static inline int32_t GR_BODY(name)(const gr_call *call) { return GR_FN(name##_any)(call); }
#ifdef GR_IN_FLOATS /* what is a step, too: its loops, which are made for each instruction set */
/* The step on n elements; those that are not stored as floats in strips. */
static inline void GR_FN(step_alone)(int64_t code, const int64_t *attrs, int words, const GR_T *x, GR_T *out,
                                     int64_t n) {
#ifdef GR_IS_F32
  gr_step_alonef(code, attrs, words, x, out, n);
#else
  float strip[GR_STEPS_STRIP];
  for (int64_t at = 0; at < n; at += GR_STEPS_STRIP) {
    int64_t length = gr_min(GR_STEPS_STRIP, n - at);
#ifdef GR_IS_BF16
    gr_widen_row(strip, x + at, length);
    gr_step_alonef(code, attrs, words, strip, strip, length);
    gr_narrow_row(out + at, strip, length);
#else
    for (int64_t i = 0; i < length; i++) strip[i] = GR_LOAD(x[at + i]);
    gr_step_alonef(code, attrs, words, strip, strip, length);
    for (int64_t i = 0; i < length; i++) out[at + i] = GR_STORE(strip[i]);
#endif
  }
#endif
}

#define GR_ALONE(name, code, words, cost)                                                        \
  static int32_t GR_FN(name##_flat)(void *ctx, int64_t first, int64_t last) {                    \
    const gr_call *call = ctx;                                                                   \
    const GR_T *x = gr_ptr(&call->args[0]);                                                      \
    GR_T *out = gr_ptr(&call->args[1]);                                                          \
    GR_FN(step_alone)(code, call->attrs, words, x + first, out + first, last - first);           \
    return GR_OK;                                                                                \
  }                                                                                              \
  GR_INLINE int32_t GR_FN(name##_any)(const gr_call *call) {                                     \
    return gr_each(call, GR_GRAIN / (cost), GR_FN(name##_flat));                                 \
  }
#define GR_STEP_FUNCTION(name, code, words, cost, formula)                                       \
  GR_ALONE(name, code, words, cost)                                                              \
  static inline int32_t GR_BODY(name)(const gr_call *call) { return GR_FN(name##_any)(call); }
#endif
#include "functions.h"

#ifdef GR_IN_FLOATS
GR_ALONE(gelu_erf, GR_STEP_GELU, 0, 16)
GR_ALONE(gelu_tanh, GR_STEP_GELU_TANH, 0, 16)
#undef GR_ALONE
#else
GR_EACH(gelu_erf, GR_T, 16, , GR_STORE(GR_MATH(gr_gelu_erf)(a)))
GR_EACH(gelu_tanh, GR_T, 16, , GR_STORE(GR_MATH(gr_gelu_tanh)(a)))
#endif
GR_EACH(isnan, uint8_t, 1, , GR_IS_NAN(a))
GR_EACH(isinf, uint8_t, 1, int64_t above = call->attrs[0]; int64_t below = call->attrs[1];
        , (above && a == INFINITY) || (below && a == -INFINITY))

/* gr-kernel: cpu/gelu : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(gelu)(const gr_call *call) {
  return call->attrs[0] ? GR_FN(gelu_tanh_any)(call) : GR_FN(gelu_erf_any)(call);
}

/* gr-kernel: cpu/isnan : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(isnan)(const gr_call *call) { return GR_FN(isnan_any)(call); }

/* gr-kernel: cpu/isinf : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(isinf)(const gr_call *call) { return GR_FN(isinf_any)(call); }

#define GR_RELU(a) GR_MATH(gr_fn_relu)(a, 0, 0)
#else
#define GR_RELU(a) ((a) < 0 ? 0 : (a))
#endif

GR_EACH(relu, GR_T, 1, , GR_STORE(GR_RELU(a)))

/* gr-kernel: cpu/relu : f32 f64 f16 bf16 i8 i16 i32 i64 */
static inline int32_t GR_BODY(relu)(const gr_call *call) { return GR_FN(relu_any)(call); }
#undef GR_RELU
#undef GR_EACH
