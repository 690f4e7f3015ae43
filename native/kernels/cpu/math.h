/* math.h: rounding, exponentials and trigonometry of floats. Template; out may be the input. Where the C library
 * has the function it is called; 16-bit floats go through float.
 *
 * defines: gr_cpu_{ceil floor round expm1 log log1p reciprocal rsqrt erf sin cos tan asin acos atan sinh cosh
 *          asinh acosh atanh}__<suffix>
 */
#include "cpu/broadcast.h"

#define GR_FUNCTION(name, value) GR_UNARY_ROW(name, GR_T, GR_STORE((GR_C)(value)))

GR_FUNCTION(ceil, GR_MATH(ceil)(a))
GR_FUNCTION(floor, GR_MATH(floor)(a))
GR_FUNCTION(round, GR_MATH(rint)(a))
GR_FUNCTION(expm1, GR_MATH(expm1)(a))
GR_FUNCTION(log, GR_MATH(log)(a))
GR_FUNCTION(log1p, GR_MATH(log1p)(a))
GR_FUNCTION(reciprocal, 1 / a)
GR_FUNCTION(rsqrt, 1 / GR_MATH(sqrt)(a))
GR_FUNCTION(erf, GR_ERF(a))
GR_FUNCTION(sin, GR_MATH(sin)(a))
GR_FUNCTION(cos, GR_MATH(cos)(a))
GR_FUNCTION(tan, GR_MATH(tan)(a))
GR_FUNCTION(asin, GR_MATH(asin)(a))
GR_FUNCTION(acos, GR_MATH(acos)(a))
GR_FUNCTION(atan, GR_MATH(atan)(a))
GR_FUNCTION(sinh, GR_MATH(sinh)(a))
GR_FUNCTION(cosh, GR_MATH(cosh)(a))
GR_FUNCTION(asinh, GR_MATH(asinh)(a))
GR_FUNCTION(acosh, GR_MATH(acosh)(a))
GR_FUNCTION(atanh, GR_MATH(atanh)(a))
#undef GR_FUNCTION

/* gr-kernel: cpu/ceil : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(ceil)(const gr_call *call) { return GR_FN(ceil_any)(call); }

/* gr-kernel: cpu/floor : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(floor)(const gr_call *call) { return GR_FN(floor_any)(call); }

/* gr-kernel: cpu/round : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(round)(const gr_call *call) { return GR_FN(round_any)(call); }

/* gr-kernel: cpu/expm1 : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(expm1)(const gr_call *call) { return GR_FN(expm1_any)(call); }

/* gr-kernel: cpu/log : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(log)(const gr_call *call) { return GR_FN(log_any)(call); }

/* gr-kernel: cpu/log1p : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(log1p)(const gr_call *call) { return GR_FN(log1p_any)(call); }

/* gr-kernel: cpu/reciprocal : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(reciprocal)(const gr_call *call) { return GR_FN(reciprocal_any)(call); }

/* gr-kernel: cpu/rsqrt : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(rsqrt)(const gr_call *call) { return GR_FN(rsqrt_any)(call); }

/* gr-kernel: cpu/erf : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(erf)(const gr_call *call) { return GR_FN(erf_any)(call); }

/* gr-kernel: cpu/sin : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(sin)(const gr_call *call) { return GR_FN(sin_any)(call); }

/* gr-kernel: cpu/cos : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(cos)(const gr_call *call) { return GR_FN(cos_any)(call); }

/* gr-kernel: cpu/tan : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(tan)(const gr_call *call) { return GR_FN(tan_any)(call); }

/* gr-kernel: cpu/asin : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(asin)(const gr_call *call) { return GR_FN(asin_any)(call); }

/* gr-kernel: cpu/acos : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(acos)(const gr_call *call) { return GR_FN(acos_any)(call); }

/* gr-kernel: cpu/atan : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(atan)(const gr_call *call) { return GR_FN(atan_any)(call); }

/* gr-kernel: cpu/sinh : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(sinh)(const gr_call *call) { return GR_FN(sinh_any)(call); }

/* gr-kernel: cpu/cosh : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(cosh)(const gr_call *call) { return GR_FN(cosh_any)(call); }

/* gr-kernel: cpu/asinh : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(asinh)(const gr_call *call) { return GR_FN(asinh_any)(call); }

/* gr-kernel: cpu/acosh : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(acosh)(const gr_call *call) { return GR_FN(acosh_any)(call); }

/* gr-kernel: cpu/atanh : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(atanh)(const gr_call *call) { return GR_FN(atanh_any)(call); }
