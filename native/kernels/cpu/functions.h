/* functions.h: gelu sigmoid tanh exp sqrt of floats, within a few ulp. Template; out may be the input.
 *
 * defines: gr_cpu_{gelu,sigmoid,tanh,exp,sqrt}__<suffix>
 */
#include "cpu/scalars.h"

/* About what one element costs, in flops, against GR_GRAIN. */
#define GR_FUNCTION_COST 16

#define GR_FUNCTION(name, value)                                                                    \
  static int32_t GR_FN(name##_flat)(void *ctx, int64_t first, int64_t last) {                       \
    const gr_call *call = ctx;                                                                      \
    const GR_T *x = gr_ptr(&call->args[0]);                                                         \
    GR_T *out = gr_ptr(&call->args[1]);                                                             \
    GR_INDEPENDENT                                                                                  \
    for (int64_t i = first; i < last; i++) {                                                        \
      GR_C a = GR_LOAD(x[i]);                                                                       \
      out[i] = GR_STORE(value);                                                                     \
    }                                                                                               \
    return GR_OK;                                                                                   \
  }                                                                                                 \
  GR_INLINE int32_t GR_FN(name##_any)(const gr_call *call) {                                        \
    return gr_parallel(call->env, gr_size(&call->args[1]), GR_GRAIN / GR_FUNCTION_COST, GR_FN(name##_flat), \
                       (void *)(uintptr_t)call);                                                    \
  }

GR_FUNCTION(exp, GR_EXP(a))
GR_FUNCTION(tanh, GR_TANH(a))
GR_FUNCTION(sqrt, GR_MATH(sqrt)(a))
GR_FUNCTION(sigmoid, GR_MATH(gr_logistic)(a))
GR_FUNCTION(gelu_erf, GR_MATH(gr_gelu_erf)(a))
GR_FUNCTION(gelu_tanh, GR_MATH(gr_gelu_tanh)(a))
#undef GR_FUNCTION
#undef GR_FUNCTION_COST

/* gr-kernel: cpu/exp : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(exp)(const gr_call *call) { return GR_FN(exp_any)(call); }

/* gr-kernel: cpu/tanh : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(tanh)(const gr_call *call) { return GR_FN(tanh_any)(call); }

/* gr-kernel: cpu/sqrt : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(sqrt)(const gr_call *call) { return GR_FN(sqrt_any)(call); }

/* gr-kernel: cpu/sigmoid : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(sigmoid)(const gr_call *call) { return GR_FN(sigmoid_any)(call); }

/* gr-kernel: cpu/gelu : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(gelu)(const gr_call *call) {
  return call->attrs[0] ? GR_FN(gelu_tanh_any)(call) : GR_FN(gelu_erf_any)(call);
}
