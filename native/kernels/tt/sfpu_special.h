/* sfpu_special.h: roundings, cube root, Bessel and gamma functions as kernels of ttnn compute them. Sources as
 * sfpu_blocks.h says.
 *
 * Static inline, any thread. Included by: functions_ttnn.h's users.
 * defines: gr_sfpu_{exp2 cbrt i0 digamma trunc floor ceil nearest sign lgamma}
 */
#ifndef GR_TT_SFPU_SPECIAL_H
#define GR_TT_SFPU_SPECIAL_H

#include "tt/sfpu_trigonometry.h"

/* By exp of x ln 2. llk, ckernel_sfpu_exp2.h */
static inline float gr_sfpu_exp2(float x, gr_sfpu m) { return gr_sfpu_exp(gr_sfpu_mul(x, 0.6931471805f), m); }

/* A seed of the bits divided by 3, then steps of Halley's kind. ckernel_sfpu_cbrt.h */
static inline float gr_sfpu_cbrt(float a, gr_sfpu m) {
  float x = gr_sfpu_absolute(a);
  float f = gr_sfpu_mad(gr_sfpu_cast(0, gr_bits_of(x)), -0x1.555556p-10f, 1418472267.0f / 256.0f + 8388608.0f);
  float y = gr_float_of(gr_bits_of(f) << 8), d, c;
  if (!m.wide) {
    d = gr_sfpu_mul(x, gr_sfpu_mul(y, y));
    c = gr_sfpu_mul(d, y);
    float t = gr_sfpu_mad(c, gr_sfpu_mad(0x1.04cdb2p-1f, c, -0x1.403e6cp0f), 0x1.c09806p0f);
    return gr_sfpu_mul(gr_sfpu_with_sign(d, a), gr_sfpu_mul(t, t));
  }
  c = gr_sfpu_mul(gr_sfpu_mul(x, y), gr_sfpu_mul(y, y));
  y = gr_sfpu_mul(y, gr_sfpu_mad(c, gr_sfpu_mad(0x1.04cdb2p-1f, c, -0x1.403e6cp0f), 0x1.c09806p0f));
  d = gr_sfpu_mul(x, gr_sfpu_mul(y, y));
  c = gr_sfpu_mad(d, y, -1.0f);
  float t = gr_sfpu_mad(c, -0x1.555556p-2f, 1.0f);
  return gr_sfpu_mul(gr_sfpu_with_sign(d, a), gr_sfpu_mul(t, t));
}

/* The power series to the tenth term. ckernel_sfpu_i0.h */
static inline float gr_sfpu_i0(float x) {
  return GR_SFPU_POLYNOMIAL(gr_sfpu_mul(x, x), 1.0f, 0.25f, 0.015625f, 0.0004340277778f, 0.000006781684028f,
                            6.78E-08f, 4.71E-10f, 2.40E-12f, 9.39E-15f, 2.90E-17f, 7.24E-20f, 1.50E-22f);
}

/* A quotient of polynomials of degrees 12 and 11 (fp32: 10 and 9), below and above 51. ckernel_sfpu_digamma.h */
static inline float gr_sfpu_digamma(float x, gr_sfpu m) {
  int far = gr_sfpu_at_least(x, 51.005f);
  float above, below;
  if (!m.wide && !far) {
    above = GR_SFPU_POLYNOMIAL(x, 1.1232896805e+01f, 5.4837932587e+00f, -5.3902623117e+01f, -3.7616708696e+01f,
                               1.3208077133e+01f, 1.5625772953e+01f, 4.2468094435e+00f, 4.8425609153e-01f,
                               2.4947039550e-02f, 5.5918553608e-04f, 4.7726717618e-06f, 1.1066160266e-08f,
                               1.0473417859e-12f);
    below = GR_SFPU_POLYNOMIAL(x, -1.9764498267e-07f, -1.1232894897e+01f, 1.0000000000e+00f, 3.4848090112e+01f,
                               3.2649136305e+01f, 1.1910055429e+01f, 2.0447196774e+00f, 1.7210583540e-01f,
                               6.9577881368e-03f, 1.2539303970e-04f, 8.5822975660e-07f, 1.5135111497e-09f);
  } else if (!m.wide) {
    above = GR_SFPU_POLYNOMIAL(x, -1.1970819551e+08f, 2.5625265499e+08f, -2.8415626732e+07f, -4.5414422193e+07f,
                               -6.5386237758e+06f, -3.4774655950e+05f, -8.4142866663e+03f, -9.9024325624e+01f,
                               -5.6814976360e-01f, -1.5061196535e-03f, -1.6082146010e-06f, -4.9102502379e-10f,
                               -5.4932387401e-15f);
    below = GR_SFPU_POLYNOMIAL(x, 8.8576622571e+07f, 1.0000000000e+00f, -8.6676697066e+07f, -2.4838010772e+07f,
                               -2.3597817534e+06f, -9.8211568465e+04f, -1.9824152142e+03f, -2.0056206722e+01f,
                               -1.0026611704e-01f, -2.3192374371e-04f, -2.1315511702e-07f, -5.3136111083e-11f);
  } else if (!far) {
    above = GR_SFPU_POLYNOMIAL(x, -4.2596286535e-01f, -1.2459139824e+00f, -7.0374596119e-01f, 3.5418295860e-01f,
                               3.9686101675e-01f, 1.0760356486e-01f, 1.1159370653e-02f, 4.5299832709e-04f,
                               6.4513715188e-06f, 2.3348954770e-08f, 3.3629592167e-12f);
    below = GR_SFPU_POLYNOMIAL(x, -6.3762914866e-08f, 4.2596703768e-01f, 1.0000000000e+00f, 8.2736301422e-01f,
                               3.0081826448e-01f, 4.9985647202e-02f, 3.7117889151e-03f, 1.1463041301e-04f,
                               1.2610012732e-06f, 3.3732798776e-09f);
  } else {
    above = GR_SFPU_POLYNOMIAL(x, 1.3856337913e+05f, -2.7915017828e+05f, 5.5189096727e+04f, 2.6230285816e+04f,
                               2.0102400217e+03f, 5.4774037756e+01f, 6.1410588531e-01f, 2.8495312547e-03f,
                               4.9248967852e-06f, 2.2963254970e-09f, 3.8530168912e-14f);
    below = GR_SFPU_POLYNOMIAL(x, -1.6724299601e+05f, 1.0000000000e+00f, 6.3677231206e+04f, 1.1013851737e+04f,
                               5.9383811201e+02f, 1.2890647910e+01f, 1.2061770104e-01f, 4.7490052009e-04f,
                               6.9240316615e-07f, 2.5925175628e-10f);
  }
  return gr_sfpu_mul(above, gr_sfpu_reciprocal2(below));
}

/* ---------------------------------------------------------------- whole numbers (llk, ckernel_sfpu_rounding_ops.h) */

static inline float gr_sfpu_trunc(float x) {
  int32_t exponent = gr_sfpu_exponent(x) - 127;
  if (exponent < 0) return gr_float_of(gr_bits_of(x) & 0x80000000u);
  return exponent >= 23 ? x : gr_float_of(gr_bits_of(x) & (0xFFFFFFFFu << (23 - exponent)));
}

static inline float gr_sfpu_floor(float x) {
  float whole = gr_sfpu_trunc(x);
  return gr_sfpu_is_negative(x) && gr_bits_of(whole) != gr_bits_of(x) ? gr_sfpu_add(whole, -1.0f) : whole;
}

static inline float gr_sfpu_ceil(float x) {
  float whole = gr_sfpu_trunc(x);
  return !gr_sfpu_is_negative(x) && gr_bits_of(whole) != gr_bits_of(x) ? gr_sfpu_add(whole, 1.0f) : whole;
}

static inline float gr_sfpu_nearest(float x) {
  if (gr_sfpu_exponent(x) - 127 >= 23) return x;
  float whole = gr_sfpu_add(gr_sfpu_add(gr_sfpu_absolute(x), 8388608.0f), -8388608.0f);
  return gr_sfpu_with_sign(whole, x);
}

/* Of +0 alone 0. llk, ckernel_sfpu_sign.h */
static inline float gr_sfpu_sign(float x) {
  if (gr_sfpu_is_zero(x)) return 0.0f;
  return gr_sfpu_is_negative(x) ? -1.0f : 1.0f;
}

/* ---------------------------------------------------------------- lgamma */

/* Stirling's series of z, with ln z in `log_z`; near 1 and 2, of fp32 tensors, Taylor's. lgamma_stirling of
 * ckernel_sfpu_lgamma.h */
static inline float gr_sfpu_stirling(float z, float log_z, gr_sfpu m) {
  float one = gr_sfpu_sub(z, 1.0f), two = gr_sfpu_sub(z, 2.0f);
  if (m.wide && gr_sfpu_below(gr_sfpu_absolute(one), 0.25f))
    return gr_sfpu_mul(one, GR_SFPU_POLYNOMIAL(one, -0.57721566f, 0.82246703f, -0.40068563f, 0.27058081f,
                                               -0.20738555f));
  if (m.wide && gr_sfpu_below(gr_sfpu_absolute(two), 0.25f))
    return gr_sfpu_mul(two, GR_SFPU_POLYNOMIAL(two, 0.42278434f, 0.32246703f, -0.06735230f, 0.02058081f,
                                               -0.00738555f));
  float base = gr_sfpu_add(gr_sfpu_mul(gr_sfpu_sub(z, 0.5f), log_z), gr_sfpu_negative(z));
  base = gr_sfpu_add(base, 0.9189385332046727f);
  float inverse = gr_sfpu_reciprocal2(z), square = gr_sfpu_mul(inverse, inverse);
  float rest = m.wide ? GR_SFPU_POLYNOMIAL(square, 0.0833333333f, -0.0027777777f, 0.0007936507f, -0.0005952380f)
                      : GR_SFPU_POLYNOMIAL(square, 0.0833333333f, -0.0027777777f);
  return gr_sfpu_add(base, gr_sfpu_mul(inverse, rest));
}

/* ln |sin(pi x)|, each step through Dst, as are pi and the fraction of x; -inf of whole numbers. */
static inline float gr_sfpu_log_sin(float x, gr_sfpu m) {
  float part = gr_sfpu_stored(gr_sfpu_sub(x, gr_sfpu_trunc(x)), m), pi = gr_sfpu_stored(3.14159265358979323846f, m);
  float sine = gr_sfpu_stored(gr_sfpu_even(gr_sfpu_mul(part, pi), m), m);
  sine = gr_sfpu_stored(gr_sfpu_round(gr_sfpu_sin(sine, m), m), m);
  if (gr_sfpu_equal(x, gr_sfpu_floor(x))) sine = 0.0f;
  return gr_sfpu_stored(gr_sfpu_round(gr_sfpu_log(gr_sfpu_absolute(sine), 0, m), m), m);
}

/* Below 1/2 by reflection: ln pi - ln |sin(pi x)| - lgamma(1 - x). lgamma_fast_kernel.cpp (fp32: lgamma_kernel.cpp) */
static inline float gr_sfpu_lgamma(float x, gr_sfpu m) {
  int below = gr_sfpu_below(x, 0.5f);
  float z = below ? gr_sfpu_sub(1.0f, x) : x, r;
  r = gr_sfpu_stirling(z, m.wide ? gr_sfpu_log(z, 0, m) : gr_sfpu_log_cubic(z), m);
  if (!m.wide && (gr_sfpu_equal(x, 1.0f) || gr_sfpu_equal(x, 2.0f))) r = 0.0f;
  if (m.wide && gr_sfpu_below(gr_sfpu_absolute(gr_sfpu_sub(z, 0.5f)), 0.01f)) r = 0.57236494f;
  r = gr_sfpu_stored(gr_sfpu_round(r, m), m);
  if (below) r = gr_sfpu_sub(gr_sfpu_sub(1.1447298858f, gr_sfpu_log_sin(x, m)), r);
  return m.wide && gr_sfpu_absolute(x) == INFINITY ? INFINITY : gr_sfpu_round(r, m);
}

#endif
