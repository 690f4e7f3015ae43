/* scalars.h: functions of one float that an op of its own and a step of a program share, so that a fused op gives
 * the bits that it gives alone. Each is right down to the least numbers: an exponential that would leave them
 * before the result does enters by its square root, twice.
 *
 * Included by: elementwise.h, vector.h and program.h. Thread: any.
 * defines: gr_tt_{logistic,gated,gelu_erf,gelu_tanh,mish,hard_swish,hard_sigmoid}_of, gr_tt_clipped
 */
#ifndef GR_TT_SCALARS_H
#define GR_TT_SCALARS_H

#include <math.h>

/* By exp of a negative number only: nothing overflows. */
static inline float gr_tt_logistic_of(float x) {
  float e = expf(-fabsf(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

/* x logistic(u) */
static inline float gr_tt_gated_of(float x, float u) {
  float root = expf(-0.5f * fabsf(u)), part = u >= 0.0f ? 1.0f : root;
  return x * part * part / (1.0f + root * root);
}

/* By the complement, and tanh by the sigmoid it is: 1 + erf and 1 + tanh would cancel far below zero. */
static inline float gr_tt_gelu_erf_of(float x) { return 0.5f * x * erfcf(x * -0.70710678118654752f); }

static inline float gr_tt_gelu_tanh_of(float x) {
  return gr_tt_gated_of(x, 1.5957691216057308f * (x + 0.044715f * x * x * x));
}

/* x tanh(softplus(x)), as a quotient of polynomials of exp(-|x|). */
static inline float gr_tt_mish_of(float x) {
  float root = expf(-0.5f * fabsf(x)), e = root * root;
  if (x >= 0.0f) return x * (1.0f + 2.0f * e) / (1.0f + 2.0f * e + 2.0f * e * e);
  return x * root * root * (2.0f + e) / (2.0f + 2.0f * e + e * e);
}

/* NaN stays. */
static inline float gr_tt_clipped(float x, float low, float high) {
  float above = x < low ? low : x;
  return above > high ? high : above;
}

/* x + 3 is exact where it is small, which x / 6 + 1/2 is not. */
static inline float gr_tt_hard_swish_of(float x) { return x * (gr_tt_clipped(x + 3.0f, 0.0f, 6.0f) / 6.0f); }

/* In double: the sum is small against its parts where the function begins. */
static inline float gr_tt_hard_sigmoid_of(float x, double slope, double offset) {
  return gr_tt_clipped((float)(slope * x + offset), 0.0f, 1.0f);
}

#endif
