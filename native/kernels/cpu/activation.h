/* activation.h: activation functions of floats, isnan and isinf. Template; out may be the input. Attribute words:
 * graph_runtime/ir/ops/float_functions.py.
 *
 * defines: gr_cpu_{softplus softsign silu mish hard_swish leaky_relu elu selu celu hard_sigmoid
 *          thresholded_relu shrink isnan isinf}__<suffix>
 */
#include "cpu/broadcast.h"
#include "cpu/scalars.h"

#define GR_FUNCTION(name, value) GR_UNARY_ROW(name, GR_T, GR_STORE((GR_C)(value)))
#define GR_WORD(k) ((GR_C)gr_word(words[k]))

/* max(a, 0) + log1p(exp(-|a|)): nothing overflows. */
GR_INLINE GR_C GR_FN(softplus_of)(GR_C a) {
  return (a > 0 ? a : GR_IS_NAN(a) ? a : 0) + GR_MATH(log1p)(GR_EXP(-GR_MATH(fabs)(a)));
}

/* a clamped to 0 .. 1; NaN stays. */
GR_INLINE GR_C GR_FN(unit_of)(GR_C a) { return a < 0 ? 0 : a > 1 ? 1 : a; }

GR_FUNCTION(softplus, GR_FN(softplus_of)(a))
GR_FUNCTION(softsign, a / (1 + GR_MATH(fabs)(a)))
GR_FUNCTION(silu, GR_MATH(gr_gated)(a, a))
GR_FUNCTION(mish, GR_MATH(gr_mish)(a))
GR_FUNCTION(hard_swish, GR_MATH(gr_hard_swish)(a))
GR_FUNCTION(leaky_relu, a < 0 ? GR_WORD(0) * a : a)
GR_FUNCTION(elu, a < 0 ? GR_WORD(0) * GR_MATH(expm1)(a) : a)
GR_FUNCTION(selu, GR_WORD(1) * (a < 0 ? GR_WORD(0) * GR_MATH(expm1)(a) : a))
GR_FUNCTION(celu, a < 0 ? GR_WORD(0) * GR_MATH(expm1)(a / GR_WORD(0)) : a)
/* in double: the sum is small against its parts where the function begins */
GR_FUNCTION(hard_sigmoid, GR_FN(unit_of)((GR_C)(gr_word(words[0]) * a + gr_word(words[1]))))
GR_FUNCTION(thresholded_relu, a <= GR_WORD(0) ? 0 : a)
GR_FUNCTION(shrink, a < -GR_WORD(0) ? a + GR_WORD(1) : a > GR_WORD(0) ? a - GR_WORD(1) : 0 * a)
GR_UNARY_ROW(isnan, uint8_t, GR_IS_NAN(a))
GR_UNARY_ROW(isinf, uint8_t, (words[0] && a == INFINITY) || (words[1] && a == -INFINITY))
#undef GR_FUNCTION
#undef GR_WORD

/* gr-kernel: cpu/softplus : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(softplus)(const gr_call *call) { return GR_FN(softplus_any)(call); }

/* gr-kernel: cpu/softsign : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(softsign)(const gr_call *call) { return GR_FN(softsign_any)(call); }

/* gr-kernel: cpu/silu : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(silu)(const gr_call *call) { return GR_FN(silu_any)(call); }

/* gr-kernel: cpu/mish : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(mish)(const gr_call *call) { return GR_FN(mish_any)(call); }

/* gr-kernel: cpu/hard_swish : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(hard_swish)(const gr_call *call) { return GR_FN(hard_swish_any)(call); }

/* gr-kernel: cpu/leaky_relu : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(leaky_relu)(const gr_call *call) { return GR_FN(leaky_relu_any)(call); }

/* gr-kernel: cpu/elu : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(elu)(const gr_call *call) { return GR_FN(elu_any)(call); }

/* gr-kernel: cpu/selu : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(selu)(const gr_call *call) { return GR_FN(selu_any)(call); }

/* gr-kernel: cpu/celu : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(celu)(const gr_call *call) { return GR_FN(celu_any)(call); }

/* gr-kernel: cpu/hard_sigmoid : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(hard_sigmoid)(const gr_call *call) { return GR_FN(hard_sigmoid_any)(call); }

/* gr-kernel: cpu/thresholded_relu : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(thresholded_relu)(const gr_call *call) { return GR_FN(thresholded_relu_any)(call); }

/* gr-kernel: cpu/shrink : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(shrink)(const gr_call *call) { return GR_FN(shrink_any)(call); }

/* gr-kernel: cpu/isnan : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(isnan)(const gr_call *call) { return GR_FN(isnan_any)(call); }

/* gr-kernel: cpu/isinf : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(isinf)(const gr_call *call) { return GR_FN(isinf_any)(call); }
