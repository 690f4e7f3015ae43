/* scalars.h: functions of one float or double, once for each: gr_logisticf, gr_logistic, ... Kernels and
 * programs of steps share them, so that a fused op gives the bits that it gives alone.
 *
 * Included by: the templates of this directory, as GR_MATH(gr_logistic). Thread: any.
 * defines: gr_{exp_of,tanh_of,erf_of,erfc_of,logistic,gated,gelu_erf,gelu_tanh,mish,hard_swish,clip}[f]
 */
#ifndef GR_CPU_SCALARS_H
#define GR_CPU_SCALARS_H

#include "cpu/common.h"

GR_INLINE float gr_exp_off(float a) { return gr_expf(a); }
GR_INLINE double gr_exp_of(double a) { return exp(a); }
GR_INLINE float gr_tanh_off(float a) { return gr_tanhf(a); }
GR_INLINE double gr_tanh_of(double a) { return tanh(a); }
GR_INLINE float gr_erf_off(float a) { return gr_erff(a); }
GR_INLINE double gr_erf_of(double a) { return erf(a); }
GR_INLINE float gr_erfc_off(float a) { return gr_erfcf(a); }
GR_INLINE double gr_erfc_of(double a) { return erfc(a); }

/* logistic: by exp of a negative number only, so that nothing overflows.
 * gelu_erf: x (1 + erf(x / sqrt 2)) / 2 = x erfc(-x / sqrt 2) / 2, no cancellation for negative x.
 * gated: x logistic(u), right where logistic(u) alone has no normal number any more: x takes the square root of
 * exp(u) twice.
 * gelu_tanh: x (1 + tanh u) / 2 = x logistic(2 u).
 * mish: x tanh(softplus(x)) as a quotient of polynomials of exp(-|x|), and exp(x) as in gated.
 * hard_swish: x + 3 is exact where it is small, which x / 6 + 1/2 is not.
 * clip: min(max(a, low), high), NaN stays. */
#define GR_SCALARS(T, F)                                                                            \
  GR_INLINE T gr_logistic##F(T a) {                                                                 \
    T e = gr_exp_of##F(-fabs##F(a));                                                                \
    return (a >= 0 ? 1 : e) / (1 + e);                                                              \
  }                                                                                                 \
  GR_INLINE T gr_gated##F(T a, T u) {                                                               \
    T root = gr_exp_of##F((T)-0.5 * fabs##F(u)), e = root * root, part = u >= 0 ? 1 : root;          \
    return a * part * part / (1 + e);                                                               \
  }                                                                                                 \
  GR_INLINE T gr_mish##F(T a) {                                                                     \
    T root = gr_exp_of##F((T)-0.5 * fabs##F(a)), e = root * root, part = a >= 0 ? 1 : root;          \
    T above = a >= 0 ? 1 + 2 * e : 2 + e, below = a >= 0 ? 2 * e * e : 2;                            \
    return a * part * part * above / ((a >= 0 ? above : e * above) + below);                        \
  }                                                                                                 \
  GR_INLINE T gr_gelu_erf##F(T a) {                                                                 \
    return (T)0.5 * a * gr_erfc_of##F(a * (T)-0.70710678118654752440);                              \
  }                                                                                                 \
  GR_INLINE T gr_gelu_tanh##F(T a) {                                                                \
    T u = (T)1.5957691216057307118 * (a + (T)0.044715 * a * a * a);                                 \
    return gr_gated##F(a, u);                                                                       \
  }                                                                                                 \
  GR_INLINE T gr_clip##F(T a, T low, T high) {                                                      \
    T above = a < low ? low : a;                                                                    \
    return above > high ? high : above;                                                             \
  }                                                                                                 \
  GR_INLINE T gr_hard_swish##F(T a) { return a * (gr_clip##F(a + 3, 0, 6) / 6); }

GR_SCALARS(float, f)
GR_SCALARS(double, )
#undef GR_SCALARS

#endif
