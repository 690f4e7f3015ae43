/* arithmetic.h: abs negative square sign clip minimum power mod of all numbers. Template; out may be an input.
 * Attribute words: ir/ops/elements/arithmetic.py.
 *
 * defines: gr_cpu_{abs negative square sign clip minimum power mod}__<suffix>
 */
#include "cpu/broadcast.h"
#include "cpu/scalars.h"

#if GR_FLOAT || GR_SIGNED
#define GR_BELOW_ZERO(a) ((a) < 0)
#else
#define GR_BELOW_ZERO(a) 0
#endif

#if GR_FLOAT
#define GR_ABS(a) GR_MATH(gr_fn_abs)(a, 0, 0)
#define GR_NEGATIVE(a) GR_MATH(gr_fn_negative)(a, 0, 0)
#define GR_SQUARE(a) GR_MATH(gr_fn_square)(a, 0, 0)
#define GR_SIGN(a) GR_MATH(gr_fn_sign)(a, 0, 0)
#define GR_CLIP(a, words) GR_MATH(gr_fn_clip)(a, gr_word(words[0]), gr_word(words[1]))

/* The remainder with the divisor's sign, as Python: -0.0 and infinities included. */
GR_INLINE GR_C GR_FN(floor_mod)(GR_C a, GR_C b) {
  GR_C rest = GR_MATH(fmod)(a, b);
  if (rest == 0) return GR_MATH(copysign)(0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}
#define GR_TRUNCATED_MOD(a, b) GR_MATH(fmod)(a, b)
#define GR_POWER(a, b) GR_MATH(pow)(a, b)
#else
#define GR_NEGATIVE(a) ((GR_U)0 - (GR_U)(a))
#define GR_ABS(a) (GR_BELOW_ZERO(a) ? (GR_C)GR_NEGATIVE(a) : (a))
#define GR_SQUARE(a) ((GR_U)(a) * (GR_U)(a))
#define GR_SIGN(a) (((a) > 0) - GR_BELOW_ZERO(a))
#define GR_CLIP(a, words) GR_FN(clip_of)(a, (GR_C)(words)[0], (GR_C)(words)[1])

GR_INLINE GR_C GR_FN(clip_of)(GR_C a, GR_C low, GR_C high) {
  GR_C above = a < low ? low : a;
  return above > high ? high : above;
}

/* C's remainder; the least integer % -1 traps on x86. */
GR_INLINE GR_C GR_FN(truncated_mod)(GR_C a, GR_C b) {
  return GR_SIGNED && b == (GR_C)-1 ? 0 : (GR_C)(a % b);
}
#define GR_TRUNCATED_MOD(a, b) GR_FN(truncated_mod)(a, b)

GR_INLINE GR_C GR_FN(floor_mod)(GR_C a, GR_C b) {
  GR_C rest = GR_FN(truncated_mod)(a, b);
  return (GR_C)(rest != 0 && GR_BELOW_ZERO(rest) != GR_BELOW_ZERO(b) ? rest + b : rest);
}

/* Power by squaring; wraps. b is not negative. */
GR_INLINE GR_C GR_FN(power_of)(GR_C a, GR_C b) {
  GR_U result = 1, square = (GR_U)a;
  for (GR_U left = (GR_U)b; left; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  return (GR_C)result;
}
#define GR_POWER(a, b) GR_FN(power_of)(a, b)
#endif

GR_UNARY_ROW(abs, GR_T, GR_STORE((GR_C)GR_ABS(a)))
GR_UNARY_ROW(negative, GR_T, GR_STORE((GR_C)GR_NEGATIVE(a)))
GR_UNARY_ROW(square, GR_T, GR_STORE((GR_C)GR_SQUARE(a)))
GR_UNARY_ROW(sign, GR_T, GR_STORE((GR_C)GR_SIGN(a)))
GR_UNARY_ROW(clip, GR_T, GR_STORE((GR_C)GR_CLIP(a, words)))
GR_BINARY_ROW(power, GR_T, 16, GR_STORE((GR_C)GR_POWER(a, b)))
GR_BINARY_ROW(fmod, GR_T, 1, GR_STORE((GR_C)GR_TRUNCATED_MOD(a, b)))
GR_BINARY_ROW(mod, GR_T, 1, GR_STORE((GR_C)GR_FN(floor_mod)(a, b)))
#undef GR_ABS
#undef GR_NEGATIVE
#undef GR_SQUARE
#undef GR_SIGN
#undef GR_CLIP
#undef GR_TRUNCATED_MOD
#undef GR_POWER

#if !GR_FLOAT
/* Whether an exponent is negative (of = 0), or a divisor is 0 (of = 1), where there is any result at all. */
GR_INLINE int GR_FN(refused)(const gr_call *call, int of) {
  const GR_T *b = gr_ptr(&call->args[1]);
  int64_t size = gr_size(&call->args[2]) ? gr_size(&call->args[1]) : 0;
  for (int64_t i = 0; i < size; i++) {
    if (of ? b[i] == 0 : GR_BELOW_ZERO(b[i])) return 1;
  }
  return 0;
}
#endif

/* gr-kernel: cpu/abs : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(abs)(const gr_call *call) { return GR_FN(abs_any)(call); }

/* gr-kernel: cpu/negative : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(negative)(const gr_call *call) { return GR_FN(negative_any)(call); }

/* gr-kernel: cpu/square : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(square)(const gr_call *call) { return GR_FN(square_any)(call); }

/* gr-kernel: cpu/sign : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(sign)(const gr_call *call) { return GR_FN(sign_any)(call); }

/* gr-kernel: cpu/clip : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(clip)(const gr_call *call) { return GR_FN(clip_any)(call); }

/* gr-kernel: cpu/power : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(power)(const gr_call *call) {
#if !GR_FLOAT
  if (GR_FN(refused)(call, 0)) return gr_refuse(call, "power: a negative exponent of integers");
#endif
  return GR_FN(power_any)(call);
}

/* gr-kernel: cpu/mod : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(mod)(const gr_call *call) {
#if !GR_FLOAT
  if (GR_FN(refused)(call, 1)) return gr_refuse(call, "mod: integer division by zero");
#endif
  return call->attrs[0] ? GR_FN(fmod_any)(call) : GR_FN(mod_any)(call);
}
#undef GR_BELOW_ZERO
