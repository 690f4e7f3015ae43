/* sfpu_pairs.h: functions of two and three numbers as ttnn computes them: sums, differences and products of 16 bits by
 * the matrix unit (FPU), all else by the vector unit.
 *
 * What a kernel does to an operand first is packed in the operand's format (eltwise_binary_no_bcast.cpp), what it does
 * to the result is done in Dst; which functions those are: binary_ng_utils.cpp of ttnn's binary_ng.
 *
 * Static inline, any thread. Included by: functions_ttnn.h's users.
 * defines: gr_sfpu_{plus minus times product quotient fmod remainder hypot logaddexp2 logaddexp ldexp squared_difference lerp addcmul addcdiv}
 */
#ifndef GR_TT_SFPU_PAIRS_H
#define GR_TT_SFPU_PAIRS_H

#include "exact.h"
#include "tt/sfpu_special.h"

/* ---------------------------------------------------------------- the matrix unit */

/* a + b onto a cleared Dst of 16 bits. */
static inline float gr_sfpu_plus(float a, float b, gr_sfpu m) {
  if (m.wide) return gr_sfpu_add(a, b);
  return gr_float_of(gr_exact_packed(gr_exact_add(gr_bits_of(a), gr_bits_of(b), 0, 16), 16));
}

static inline float gr_sfpu_minus(float a, float b, gr_sfpu m) { return gr_sfpu_plus(a, gr_sfpu_negative(b), m); }

/* Of four passes, HiFi4. The op itself is the vector unit's (gr_sfpu_product). */
static inline float gr_sfpu_times(float a, float b, gr_sfpu m) {
  if (m.wide) return gr_sfpu_mul(a, b);
  uint32_t dst = 0;
  for (int32_t phase = 0; phase < 4; ++phase) dst = gr_exact_mul(gr_bits_of(a), gr_bits_of(b), phase, dst, 16);
  return gr_float_of(gr_exact_packed(dst, 16));
}

/* ---------------------------------------------------------------- two numbers */

/* calculate_sfpu_binary_mul of ckernel_sfpu_binary.h */
static inline float gr_sfpu_product(float a, float b, gr_sfpu m) {
  float r = gr_sfpu_mul(a, b);
  return gr_exact_is_nan(gr_bits_of(r)) ? r : gr_sfpu_even(r, m);
}

/* calculate_sfpu_binary_div of ckernel_sfpu_binary.h; equal numbers are those of equal bits, since the builds that were
 * measured are right where a difference would be flushed. */
static inline float gr_sfpu_quotient(float a, float b, gr_sfpu m) {
  float r = gr_sfpu_mul(a, gr_sfpu_reciprocal2(b));
  if (gr_sfpu_is_zero(b)) r = gr_sfpu_is_zero(a) ? NAN : gr_sfpu_with_sign(INFINITY, a);
  else if (gr_bits_of(a) == gr_bits_of(b)) r = 1.0f;
  return gr_exact_is_nan(gr_bits_of(r)) ? r : gr_sfpu_even(r, m);
}

/* a - trunc(a / b) b by a reciprocal, put right by one b where it is out of its range: far off where the quotient has
 * more digits than a float. ckernel_sfpu_binary_fmod.h */
static inline float gr_sfpu_fmod(float a, float b, gr_sfpu m) {
  float size = gr_sfpu_absolute(b), whole = gr_sfpu_trunc(gr_sfpu_mul(a, gr_sfpu_reciprocal2(b)));
  float r = gr_sfpu_sub(a, gr_sfpu_mul(whole, b));
  if (gr_sfpu_at_least(gr_sfpu_absolute(r), size))
    r = gr_sfpu_is_negative(r) ? gr_sfpu_add(r, size) : gr_sfpu_sub(r, size);
  if (!gr_sfpu_is_negative(a) && gr_sfpu_is_negative(r)) r = gr_sfpu_add(r, size);
  else if (gr_sfpu_is_negative(a) && gr_sfpu_above(r, 0.0f)) r = gr_sfpu_sub(r, size);
  if (gr_sfpu_equal(a, b)) r = 0.0f;
  return gr_sfpu_is_zero(b) ? NAN : gr_sfpu_round(r, m);
}

/* The same by floor. ckernel_sfpu_binary_remainder.h */
static inline float gr_sfpu_remainder(float a, float b, gr_sfpu m) {
  float whole = gr_sfpu_floor(gr_sfpu_mul(a, gr_sfpu_reciprocal2(b))), r = gr_sfpu_sub(a, gr_sfpu_mul(whole, b));
  if (!gr_sfpu_is_zero(r) && gr_sfpu_is_negative(r) != gr_sfpu_is_negative(b)) r = gr_sfpu_add(r, b);
  float less = gr_sfpu_sub(r, b);
  if (gr_sfpu_above(b, 0.0f) && gr_sfpu_above(a, 0.0f) && !gr_sfpu_is_negative(less)) r = less;
  if (gr_sfpu_is_negative(b) && gr_sfpu_is_negative(a) && gr_sfpu_at_most(less, 0.0f)) r = less;
  return gr_sfpu_is_zero(b) ? NAN : gr_sfpu_round(r, m);
}

/* An operand after a kernel's first step: packed. */
static inline float gr_sfpu_packed(float x, gr_sfpu m) { return gr_sfpu_result(x, m); }

static inline float gr_sfpu_hypot(float a, float b, gr_sfpu m) {
  a = gr_sfpu_packed(gr_sfpu_mul(a, a), m);
  b = gr_sfpu_packed(gr_sfpu_mul(b, b), m);
  return gr_sfpu_round(gr_sfpu_sqrt(gr_sfpu_plus(a, b, m)), m);
}

static inline float gr_sfpu_exp_packed(float x, gr_sfpu m) {
  return gr_sfpu_packed(gr_sfpu_round(m.wide ? gr_sfpu_exp32(x) : gr_sfpu_exp_bf16(x), m), m);
}

static inline float gr_sfpu_exp2_packed(float x, gr_sfpu m) {
  return gr_sfpu_packed(gr_sfpu_round(gr_sfpu_exp2(x, m), m), m);
}

static inline float gr_sfpu_logaddexp(float a, float b, gr_sfpu m) {
  float sum = gr_sfpu_plus(gr_sfpu_exp_packed(a, m), gr_sfpu_exp_packed(b, m), m);
  return gr_sfpu_round(gr_sfpu_log(sum, 0, m), m);
}

static inline float gr_sfpu_logaddexp2(float a, float b, gr_sfpu m) {
  float sum = gr_sfpu_plus(gr_sfpu_exp2_packed(a, m), gr_sfpu_exp2_packed(b, m), m);
  return gr_sfpu_round(gr_sfpu_log(sum, 1.4426950408889634f, m), m);
}

static inline float gr_sfpu_ldexp(float a, float b, gr_sfpu m) {
  return gr_sfpu_product(a, gr_sfpu_exp2_packed(b, m), m);
}

static inline float gr_sfpu_squared_difference(float a, float b, gr_sfpu m) {
  float rest = gr_sfpu_minus(a, b, m);
  return gr_sfpu_mul(rest, rest);
}

/* ---------------------------------------------------------------- three numbers */

/* ckernel_sfpu_lerp.h */
static inline float gr_sfpu_lerp(float a, float b, float weight, gr_sfpu m) {
  return gr_sfpu_even(gr_sfpu_mad(weight, gr_sfpu_sub(b, a), a), m);
}

/* ckernel_sfpu_addcmul.h */
static inline float gr_sfpu_addcmul(float a, float b, float c, float value, gr_sfpu m) {
  return gr_sfpu_round(gr_sfpu_mad(c, gr_sfpu_mul(b, value), a), m);
}

/* ckernel_sfpu_addcdiv.h */
static inline float gr_sfpu_addcdiv(float a, float b, float c, float value, gr_sfpu m) {
  float part = gr_sfpu_mul(b, value);
  return gr_sfpu_even(gr_sfpu_mad(part, gr_sfpu_reciprocal2(c), a), m);
}

#endif
