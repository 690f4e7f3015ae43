/* sfpu_trigonometry.h: trigonometric and hyperbolic functions and their inverses as kernels of ttnn compute them.
 *
 * All of ckernel_sfpu_trigonometry.h (tenstorrent/tt-metal@01af8126, as sfpu_blocks.h says). Static inline, any thread.
 *
 * Included by: functions_ttnn.h's users. defines: gr_sfpu_{sin cos tan asin acos atan sinh cosh asinh acosh atanh}
 */
#ifndef GR_TT_SFPU_TRIGONOMETRY_H
#define GR_TT_SFPU_TRIGONOMETRY_H

#include "tt/sfpu_blocks.h"

/* ---------------------------------------------------------------- periodic */

#define GR_SFPU_TO_WHOLE 12582912.0f /* 1.5 2^23: added, the last place is 1 */

/* x + j (-pi 2^-halvings), in four parts (Cody-Waite). The first product is rounded by itself: the compiler makes a
 * multiplication of its bf16 constant, which is why the functions lose their digits beyond 2^17. */
static inline float gr_sfpu_reduced(float x, float j, int halvings) {
  static const float parts[] = {-0x1.92p+1f, -0x1.fbp-11f, -0x1.51p-21f, -0x1.0b4612p-33f};
  float unit = halvings ? 0.5f : 1.0f;
  x = gr_sfpu_add(x, gr_sfpu_mul(j, unit * parts[0]));
  for (int k = 1; k < 4; ++k) x = gr_sfpu_mad(j, unit * parts[k], x);
  return x;
}

/* sin(a) of |a| <= pi/2, negated where `odd`'s last bit is set. */
static inline float gr_sfpu_sin_of(float a, uint32_t odd, gr_sfpu m) {
  float s = gr_sfpu_mul(a, a), r;
  a = gr_float_of(gr_bits_of(a) ^ odd << 31);
  r = m.wide ? GR_SFPU_POLYNOMIAL(s, -0x1.55554cp-3f, 0x1.110edap-7f, -0x1.9f70fp-13f, 0x1.5dc908p-19f)
             : GR_SFPU_POLYNOMIAL(s, -0x1.5554a4p-3f, 0x1.10c2a2p-7f, -0x1.8b10a4p-13f);
  return gr_sfpu_mad(r, gr_sfpu_mul(a, s), a);
}

static inline float gr_sfpu_sin(float x, gr_sfpu m) {
  float j = gr_sfpu_mad(x, 0.31830987334251404f, GR_SFPU_TO_WHOLE);
  uint32_t odd = gr_bits_of(j);
  return gr_sfpu_sin_of(gr_sfpu_reduced(x, gr_sfpu_sub(j, GR_SFPU_TO_WHOLE), 0), odd, m);
}

static inline float gr_sfpu_cos(float x, gr_sfpu m) {
  float j = gr_sfpu_add(gr_sfpu_mad(x, 0.31830987334251404f, 0.5f), GR_SFPU_TO_WHOLE);
  uint32_t odd = gr_bits_of(j);
  j = gr_sfpu_mad(gr_sfpu_sub(j, GR_SFPU_TO_WHOLE), 2.0f, -1.0f);
  return gr_sfpu_sin_of(gr_sfpu_reduced(x, j, 1), odd, m);
}

/* -1 / r by a quadratic of the mantissa and a step of Newton's. */
static inline float gr_sfpu_tan_turned(float r) {
  float minus = gr_sfpu_with_mantissa(-1.0f, gr_sfpu_mantissa(r));
  float t = GR_SFPU_POLYNOMIAL(minus, 2.121212482452392578125f, 1.4545459747314453125f, 0.3232325017452239990234375f);
  t = gr_sfpu_mad(t, gr_sfpu_mad(minus, t, 1.0f), t);
  return gr_sfpu_mul(t, gr_sfpu_mul(gr_float_of(~gr_bits_of(r) & 0xFF800000u), 0.5f));
}

static inline float gr_sfpu_tan(float x, gr_sfpu m) {
  float j = gr_sfpu_mad(x, 0.6366197466850281f, GR_SFPU_TO_WHOLE);
  int odd = (int)(gr_bits_of(j) & 1u);
  float a = gr_sfpu_reduced(x, gr_sfpu_sub(j, GR_SFPU_TO_WHOLE), 1), s = gr_sfpu_mul(a, a), t;
  t = m.wide ? GR_SFPU_POLYNOMIAL(s, 0x1.555556p-2f, 0x1.111072p-3f, 0x1.ba5716p-5f, 0x1.620abcp-6f, 0x1.4787dp-7f,
                                  0x1.2b404p-10f, 0x1.fa9f82p-9f)
             : GR_SFPU_POLYNOMIAL(s, 0x1.55953p-2f, 0x1.02b98p-3f, 0x1.4f1f4ep-4f);
  t = gr_sfpu_mul(t, s);
  float r = gr_sfpu_mad(t, a, a);
  if (!odd) return r;
  if (!m.wide) return gr_sfpu_tan_turned(r);
  float rest = gr_sfpu_mad(t, a, gr_sfpu_mad(-1.0f, r, a)), turned = gr_sfpu_tan_turned(r);
  r = gr_sfpu_mad(rest, turned, gr_sfpu_mad(r, turned, 1.0f));
  return gr_sfpu_mad(r, turned, turned);
}

/* ---------------------------------------------------------------- inverse */

#define GR_SFPU_HALF_PI 1.5707963705062866f

static inline float gr_sfpu_atan_bf16(float x) {
  if (gr_sfpu_exponent(x) == 255 && gr_sfpu_mantissa(x) != 0) return NAN;
  float a = gr_sfpu_absolute(x);
  int far = gr_sfpu_above(gr_sfpu_sub(a, 1.0f), 0.0f);
  if (far) a = gr_sfpu_reciprocal2(a);
  float t = GR_SFPU_POLYNOMIAL(gr_sfpu_mul(a, a), 0.999787867069244384765625f, -0.325808584690093994140625f,
                               0.1555790007114410400390625f, -4.4326744973659515380859375e-2f);
  t = gr_sfpu_mul(t, a);
  return gr_sfpu_with_sign(far ? gr_sfpu_sub(GR_SFPU_HALF_PI, t) : t, x);
}

static inline float gr_sfpu_atan_f32(float x, gr_sfpu m) {
  float a = gr_sfpu_absolute(x);
  int far = gr_sfpu_at_least(gr_sfpu_sub(a, 1.0f), 0.0f);
  if (far) a = gr_sfpu_reciprocal_of_positive(a, m);
  float s = gr_sfpu_mul(a, a);
  float q = GR_SFPU_POLYNOMIAL(s, -0x1.555558p-2f, 0x1.99938ap-3f, -0x1.24p-3f, 0x1.bd4p-4f, -0x1.48cp-4f, 0x1.93p-5f,
                               -0x1.4bcp-6f, 0x1.01cp-8f);
  float r = gr_sfpu_mad(gr_sfpu_mul(q, s), a, a);
  return gr_sfpu_with_sign(far ? gr_sfpu_sub(0x1.921fb6p+0f, r) : r, x);
}

static inline float gr_sfpu_atan(float x, gr_sfpu m) { return m.wide ? gr_sfpu_atan_f32(x, m) : gr_sfpu_atan_bf16(x); }

/* asin(z) of z <= 5/8 */
static inline float gr_sfpu_asin_near(float z) {
  return gr_sfpu_mul(z, GR_SFPU_POLYNOMIAL(gr_sfpu_mul(z, z), 0.999978601932525634765625f,
                                           0.16771225631237030029296875f, 0.06381262838840484619140625f,
                                           0.083148844540119171142578125f));
}

/* From 5/8 on pi/2 - 2 asin(sqrt((1 - |x|) / 2)). */
static inline float gr_sfpu_asin_bf16(float x) {
  float a = gr_sfpu_absolute(x), r;
  if (gr_sfpu_at_most(a, 0.625f)) {
    r = gr_sfpu_asin_near(a);
  } else {
    float root = gr_sfpu_sqrt_short(gr_sfpu_mul(gr_sfpu_sub(1.0f, a), 0.5f));
    r = gr_sfpu_sub(GR_SFPU_HALF_PI, gr_sfpu_mul(2.0f, gr_sfpu_asin_near(root)));
  }
  return gr_sfpu_with_sign(r, x);
}

/* sqrt of a number that is 0 or above. _sfpu_sqrt_endpoint_ */
static inline float gr_sfpu_sqrt_endpoint(float x) {
  float y = gr_float_of(0x5F1110A0u - (gr_bits_of(x) >> 1)), xy = gr_sfpu_mul(x, y);
  float c = gr_sfpu_mul(gr_sfpu_negative(y), xy);
  y = gr_sfpu_mul(y, gr_sfpu_mad(c, gr_sfpu_add(c, 2.2533049f), 2.2825186f));
  xy = gr_sfpu_mul(x, y);
  return gr_sfpu_mad(gr_sfpu_mad(gr_sfpu_negative(y), xy, 1.0f), gr_sfpu_mul(0.5f, xy), xy);
}

static inline float gr_sfpu_asin_f32(float x) {
  float a = gr_sfpu_absolute(x), half = gr_sfpu_mul(gr_sfpu_sub(1.0f, a), 0.5f);
  int far = !gr_sfpu_below(a, 0.5625f);
  float z = far ? gr_sfpu_sqrt_endpoint(half) : a, s = gr_sfpu_mul(z, z);
  float p = GR_SFPU_POLYNOMIAL(s, 0x1.5556dcp-3f, 0x1.329f7cp-4f, 0x1.7dbc50p-5f, 0x1.365f44p-6f, 0x1.9e0000p-5f);
  float r = gr_sfpu_mad(gr_sfpu_mul(p, s), z, z);
  if (far) r = gr_sfpu_mad(-2.0f, r, GR_SFPU_HALF_PI);
  return gr_sfpu_is_negative(half) ? NAN : gr_sfpu_with_sign(r, x);
}

static inline float gr_sfpu_acos_f32(float x) {
  float a = gr_sfpu_absolute(x), half = gr_sfpu_mul(gr_sfpu_sub(1.0f, a), 0.5f);
  int far = !gr_sfpu_below(a, 0.5625f);
  float z = gr_sfpu_with_sign(far ? gr_sfpu_sqrt_endpoint(half) : a, x), s = gr_sfpu_mul(z, z);
  float p = GR_SFPU_POLYNOMIAL(s, 0x1.555536p-3f, 0x1.3345f4p-4f, 0x1.6a9354p-5f, 0x1.15a984p-5f, 0x1.ca0000p-8f,
                               0x1.834000p-5f);
  if (!far) z = gr_sfpu_negative(z);
  float r = gr_sfpu_mad(gr_sfpu_mul(p, s), z, z);
  if (gr_sfpu_below(x, 0.5625f)) r = gr_sfpu_add(r, GR_SFPU_HALF_PI);
  if (far) r = gr_sfpu_add(r, r);
  return gr_sfpu_is_negative(half) ? NAN : r;
}

static inline float gr_sfpu_asin(float x, gr_sfpu m) {
  if (m.wide) return gr_sfpu_asin_f32(x);
  return gr_sfpu_at_most(gr_sfpu_absolute(x), 1.0f) ? gr_sfpu_asin_bf16(x) : NAN;
}

static inline float gr_sfpu_acos(float x, gr_sfpu m) {
  if (m.wide) return gr_sfpu_acos_f32(x);
  return gr_sfpu_at_most(gr_sfpu_absolute(x), 1.0f) ? gr_sfpu_sub(GR_SFPU_HALF_PI, gr_sfpu_asin_bf16(x)) : NAN;
}

/* ---------------------------------------------------------------- hyperbolic */

/* |x| / ln 2 to the nearest whole number up to 255, and what is left of |x|. */
static inline float gr_sfpu_halved(float x, gr_sfpu m, uint32_t *whole) {
  *whole = gr_sfpu_rounded(gr_sfpu_mul(x, 1.442695f), 255);
  float j = (float)*whole, a = gr_sfpu_absolute(x);
  if (!m.wide) return gr_sfpu_mad(j, -0.6931471805599453f, a);
  return gr_sfpu_mad(j, -1.42860677e-6f, gr_sfpu_mad(j, -0.693145752f, a));
}

/* exp(|x|) / 4 */
static inline float gr_sfpu_quarter_exp(float x, gr_sfpu m) {
  uint32_t whole;
  float f = gr_sfpu_halved(x, m, &whole);
  float r = m.wide ? GR_SFPU_POLYNOMIAL(f, 1.0f, 1.0f, 4.99999851e-1f, 1.66664720e-1f, 4.16695364e-2f,
                                        8.37312452e-3f, 1.37805939e-3f)
                   : GR_SFPU_POLYNOMIAL(f, 1.0f, 0.999963462f, 0.500122011f, 0.168174848f, 0.038877178f);
  if (whole + 125 < 255) return gr_sfpu_mul(r, gr_float_of((whole + 125) << 23));
  return gr_sfpu_mul(gr_sfpu_absolute(x), INFINITY);
}

static inline float gr_sfpu_cosh(float x, gr_sfpu m) {
  float q = gr_sfpu_quarter_exp(x, m), y = gr_sfpu_add(q, q);
  float r = gr_sfpu_mul(gr_sfpu_reciprocal_of_positive(q, m), 0.125f);
  return gr_sfpu_exponent(q) - 127 < 24 ? gr_sfpu_add(y, r) : y;
}

/* (exp(|x|) - 1) / 4 */
static inline float gr_sfpu_quarter_expm1(float x, gr_sfpu m) {
  uint32_t whole;
  float f = gr_sfpu_halved(x, m, &whole);
  float r = m.wide ? GR_SFPU_POLYNOMIAL(f, 4.999999702e-1f, 1.666667163e-1f, 4.166680202e-2f, 8.333439939e-3f,
                                        1.393107930e-3f, 1.974105835e-04f)
                   : GR_SFPU_POLYNOMIAL(f, 0.5f, 1.666259766e-01f, 4.177856445e-02f, 8.361816406e-03f);
  r = gr_sfpu_mad(r, gr_sfpu_mul(f, f), f);
  float scale = gr_float_of((whole << 23) + gr_bits_of(0.25f));
  if (whole < 130) return gr_sfpu_mad(r, scale, gr_sfpu_sub(scale, 0.25f));
  return gr_sfpu_mul(gr_sfpu_absolute(x), INFINITY);
}

static inline float gr_sfpu_sinh(float x, gr_sfpu m) {
  float q = gr_sfpu_quarter_expm1(x, m);
  float r = gr_sfpu_reciprocal_of_positive(gr_sfpu_mad(4.0f, q, 1.0f), m), y = x;
  int32_t exponent = gr_sfpu_exponent(q) - 127;
  if (exponent >= -27) y = gr_sfpu_add(q, q);
  if (exponent >= -27 && exponent < 23) y = gr_sfpu_mad(y, r, y);
  return gr_sfpu_with_sign(y, x);
}

/* ---------------------------------------------------------------- inverse hyperbolic */

#define GR_SFPU_LARGE 268435456.0f /* 2^28: x x + 1 is x x */

static inline float gr_sfpu_stage(float x, gr_sfpu m) { return gr_sfpu_stored(x, m); } /* a trip through Dst */

static inline float gr_sfpu_acosh(float x, gr_sfpu m) {
  float part = gr_sfpu_sub(x, 1.0f);
  if (gr_sfpu_below(x, GR_SFPU_LARGE))
    part = gr_sfpu_add(part, gr_sfpu_sqrt_of_positive(gr_sfpu_mul(gr_sfpu_add(x, 1.0f), part), m));
  float r = gr_sfpu_log1p(gr_sfpu_stage(part, m), m);
  if (gr_sfpu_at_least(x, GR_SFPU_LARGE)) r = gr_sfpu_add(r, 0.6931471805599453f);
  if (gr_sfpu_equal(x, 1.0f)) return 0.0f;
  return gr_sfpu_below(x, 1.0f) ? NAN : r;
}

static inline float gr_sfpu_asinh(float x, gr_sfpu m) {
  float a = gr_sfpu_absolute(x), square = gr_sfpu_mul(x, x), part = 0.0f, r;
  int large = gr_sfpu_at_least(a, GR_SFPU_LARGE);
  if (gr_sfpu_below(a, 0.75f)) {
    r = gr_sfpu_mul(a, GR_SFPU_POLYNOMIAL(square, 1.0f, -1.666652262e-01f, 7.495806366e-02f, -4.417778924e-02f,
                                          2.785361186e-02f, -1.484858524e-02f, 4.375355784e-03f));
    return gr_sfpu_with_sign(r, x);
  }
  if (large) {
    part = gr_sfpu_sub(a, 1.0f);
  } else {
    float root = gr_sfpu_sqrt_of_positive(gr_sfpu_mad(x, x, 1.0f), m);
    part = gr_sfpu_mad(square, gr_sfpu_reciprocal_of_positive(gr_sfpu_add(1.0f, root), m), a);
  }
  r = gr_sfpu_log1p(gr_sfpu_stage(part, m), m);
  return gr_sfpu_with_sign(large ? gr_sfpu_add(r, 0.6931471805599453f) : r, x);
}

static inline float gr_sfpu_atanh(float x, gr_sfpu m) {
  float size = gr_sfpu_absolute(x), a = gr_sfpu_at_least(size, 1.0f) ? 0.0f : size;
  float part = gr_sfpu_mul(gr_sfpu_add(a, a), gr_sfpu_reciprocal_of_positive(gr_sfpu_sub(1.0f, a), m));
  float r = gr_sfpu_with_sign(gr_sfpu_mul(0.5f, gr_sfpu_log1p(gr_sfpu_stage(part, m), m)), x);
  if (gr_sfpu_above(size, 1.0f)) return NAN;
  return gr_sfpu_equal(size, 1.0f) ? gr_sfpu_with_sign(INFINITY, x) : r;
}

#endif
