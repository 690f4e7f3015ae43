/* sfpu_blocks.h: what kernels of ttnn's vector unit are made of: exponentials, reciprocals, roots and logarithms, each
 * as the operations that the kernel does, in its order, on sfpu.h's registers.
 *
 * The files named are of tenstorrent/tt-metal: tt_metal/hw/ckernels/wormhole_b0/metal/llk_api/llk_sfpu/, and tt_llk's
 * common/inc/sfpu/ where it says llk. Read, not copied; the constants are theirs.
 *
 * Included by: sfpu_trigonometry.h, sfpu_activations.h, sfpu_special.h. Static inline, any thread.
 * defines: gr_sfpu_{exp21 exp32 exp exp_tail expm1_short expm1 reciprocal1 reciprocal2 reciprocal_of_positive sqrt rsqrt
 * sqrt_of_positive sqrt_short log log_cubic log1p}
 */
#ifndef GR_TT_SFPU_BLOCKS_H
#define GR_TT_SFPU_BLOCKS_H

#include <math.h>

#include "tt/sfpu.h"

/* ---------------------------------------------------------------- exponentials */

/* 2^(z - 127) of z in [0, 255], by Moroz et al. 2022, exp_21f: z's bits before and behind the point are an exponent
 * and the argument of a quadratic. ckernel_sfpu_exp.h */
static inline float gr_sfpu_exp21_of(float z) {
  uint32_t fixed = gr_sfpu_shift(0x800000u | gr_sfpu_mantissa(z), gr_sfpu_exponent(z) - 127);
  float fraction = gr_sfpu_cast(0, fixed & 0x7FFFFFu);
  fraction = GR_SFPU_POLYNOMIAL(fraction, 1.0017248f, 7.839635491371155e-08f, 4.791750143340323e-15f);
  return gr_sfpu_with_exponent(fraction, (int32_t)(fixed >> 23));
}

/* _sfpu_exp_21f_bf16_ before its rounding. At the upper end the exponent is 255 over a mantissa: a NaN. */
static inline float gr_sfpu_exp21(float x) {
  return gr_sfpu_exp21_of(gr_sfpu_clamp(gr_sfpu_mad(x, 1.4426950216293334961f, 127.0f), 0.0f, 255.0f));
}

/* The kernel of the op itself: its first coefficient is of fp16. _sfpu_exp_21f_bf16_tti_ */
static inline float gr_sfpu_exp_bf16(float x) {
  float z = gr_sfpu_clamp(gr_sfpu_mad(x, 1.4426950216293334961f, 127.0f), 0.0f, 255.0f);
  uint32_t fixed = gr_sfpu_shift(0x800000u | gr_sfpu_mantissa(z), gr_sfpu_exponent(z) - 127);
  float fraction = gr_sfpu_cast(0, fixed & 0x7FFFFFu);
  fraction = GR_SFPU_POLYNOMIAL(fraction, 1.001953125f, 7.839635491371155e-08f, 4.791750143340323e-15f);
  return gr_sfpu_with_exponent(fraction, (int32_t)(fixed >> 23));
}

/* Two-part Cody-Waite, degree 6, by Juffa. _sfpu_exp_fp32_accurate_ */
static inline float gr_sfpu_exp32(float x) {
  float j = gr_sfpu_mul(1.442695f, x);
  uint32_t whole = gr_sfpu_rounded(j, 32767);
  j = gr_sfpu_cast(whole ? gr_bits_of(j) >> 31 : 0, whole);
  float f = gr_sfpu_mad(j, -6.93145752e-1f, x);
  f = gr_sfpu_mad(j, -1.42860677e-6f, f);
  float y = GR_SFPU_POLYNOMIAL(f, 1.0f, 4.99999851e-1f, 1.66664720e-1f, 4.16695364e-2f, 8.37312452e-3f,
                               1.37805939e-3f);
  float r = gr_sfpu_mad(y, f, 1.0f);
  int32_t exponent = gr_sfpu_exponent(r) + (gr_sfpu_is_negative(j) ? -(int32_t)whole : (int32_t)whole);
  float out = gr_sfpu_mul(gr_float_of(gr_bits_of(y) - 1u), 0.0f);
  if (exponent < 1) return out;
  return exponent < 255 ? gr_sfpu_with_exponent(r, exponent) : gr_sfpu_add(out, INFINITY);
}

static inline float gr_sfpu_exp(float x, gr_sfpu m) { return m.wide ? gr_sfpu_exp32(x) : gr_sfpu_exp21(x); }

/* exp(x) - 1 = (2^k - 1) + 2^k r h(r), from -87 on: elu, celu and selu. llk, ckernel_sfpu_expm1_cw.h */
static inline float gr_sfpu_expm1_short(float x, gr_sfpu m) {
  x = gr_sfpu_max(x, -87.0f);
  float shifted = gr_sfpu_mad(x, 1.4426950408889634f, 12582912.0f), k = gr_sfpu_sub(shifted, 12582912.0f);
  float r = gr_sfpu_mad(k, -3.19461832987e-05f, gr_sfpu_mad(k, -0.6931152343750000f, x));
  float h = m.wide ? GR_SFPU_POLYNOMIAL(r, 1.0f, 5.0000000000e-01f, 1.6666504741e-01f, 4.1666239500e-02f,
                                        8.3691505715e-03f, 1.3948583510e-03f)
                   : GR_SFPU_POLYNOMIAL(r, 1.0f, 4.9999371171e-01f, 1.6666433215e-01f, 4.1875664145e-02f,
                                        8.3751315251e-03f);
  float power = gr_sfpu_with_exponent(1.0f, (int32_t)(gr_bits_of(shifted) - 0x4B3FFF81u));
  return gr_sfpu_mad(power, gr_sfpu_mul(r, h), gr_sfpu_sub(power, 1.0f));
}

/* exp(x) of x below 0 by Cody-Waite and a Taylor polynomial; 0 below the normal numbers. softplus_exp_negative of
 * ckernel_sfpu_softplus.h: degree 5, of fp32 tensors 7. */
static inline float gr_sfpu_exp_tail(float x, gr_sfpu m) {
  float shifted = gr_sfpu_add(gr_sfpu_mul(x, 1.4426950408889634f), 12582912.0f);
  int32_t whole = (int32_t)(gr_bits_of(shifted) - 0x4B400000u);
  float k = gr_sfpu_sub(shifted, 12582912.0f);
  float r = gr_sfpu_mad(k, -3.19461832987e-05f, gr_sfpu_mad(k, -0.6931152343750000f, x));
  float sum = m.wide ? GR_SFPU_POLYNOMIAL(r, 1.0f, 1.0f, 0.5f, 0.166666667f, 0.0416666667f, 0.00833333333f,
                                          0.00138888889f, 0.000198412698f)
                     : GR_SFPU_POLYNOMIAL(r, 1.0f, 1.0f, 0.5f, 0.166666667f, 0.0416666667f, 0.00833333333f);
  int32_t exponent = gr_sfpu_exponent(sum) + whole;
  return exponent > 0 ? gr_sfpu_with_exponent(sum, exponent) : 0.0f;
}

/* exp(x) - 1 = 2 (r t + t - 1/2) of r = exp(f) - 1 and t = 2^(i - 1), x = i ln 2 + f; r itself where i is 0.
 * ckernel_sfpu_expm1.h (fp32: one more part of ln 2, three more coefficients) */
static inline float gr_sfpu_expm1(float x, gr_sfpu m) {
  float j = gr_sfpu_mad(1.442695f, x, 12582912.0f);
  uint32_t i = gr_bits_of(j);
  j = gr_sfpu_sub(j, 12582912.0f);
  float f = gr_sfpu_mad(j, m.wide ? -0.693145752f : -0.6931471805599453f, x), r;
  if (m.wide) f = gr_sfpu_mad(j, -1.42860677e-6f, f);
  r = m.wide ? GR_SFPU_POLYNOMIAL(f, 0x1.fffffep-2f, 1.666667163e-1f, 4.166680202e-2f, 8.333439939e-3f,
                                  1.393107930e-3f, 1.974105835e-04f)
             : GR_SFPU_POLYNOMIAL(f, 0.5f, 1.666259766e-01f, 4.177856445e-02f, 8.361816406e-03f);
  float square = gr_sfpu_mul(f, f), far = gr_sfpu_add(j, -2.0f);
  int first = m.wide && gr_sfpu_equal(j, 1.0f);
  r = gr_sfpu_mad(r, square, first ? gr_sfpu_add(f, 0.5f) : f);
  if (gr_sfpu_is_zero(j)) return r;
  float scale = gr_float_of((i << 23) + gr_bits_of(0.5f));
  if (gr_sfpu_rounded(far, 127) >= 127) {
    r = gr_sfpu_is_negative(far) ? -0.5f : gr_sfpu_mul(far, INFINITY);
  } else if (!m.wide) {
    r = gr_sfpu_mad(scale, r, gr_sfpu_sub(scale, 0.5f));
  } else if (!first) {
    float y = gr_sfpu_sub(scale, 0.5f), rest = gr_sfpu_sub(gr_sfpu_sub(scale, y), 0.5f);
    r = gr_sfpu_add(gr_sfpu_mad(r, scale, rest), y);
  }
  return gr_sfpu_mul(r, 2.0f);
}

/* ---------------------------------------------------------------- reciprocals */

/* A quadratic of the mantissa, then `steps` of Newton's; 0 gives infinity, infinity 0. llk, ckernel_sfpu_recip.h.
 * Blackhole begins with an instruction (SFPARECIP) instead, whose table is not published: there, too, this is used. */
static inline float gr_sfpu_reciprocal_by(float x, int steps) {
  float scale = gr_float_of(~gr_bits_of(x) & 0xFF800000u), minus = gr_sfpu_with_mantissa(-1.0f, gr_sfpu_mantissa(x));
  float y = gr_sfpu_mad(0.3232325017452239990234375f, minus, 1.4545459747314453125f);
  y = gr_sfpu_mad(y, minus, 2.121212482452392578125f);
  scale = gr_sfpu_mul(scale, 0.5f);
  for (int k = 0; k < steps; ++k) y = gr_sfpu_mad(y, gr_sfpu_mad(minus, y, 1.0f), y);
  return gr_sfpu_with_sign(gr_sfpu_mul(y, scale), x);
}

static inline float gr_sfpu_reciprocal1(float x) { return gr_sfpu_reciprocal_by(x, 1); }

static inline float gr_sfpu_reciprocal2(float x) { return gr_sfpu_reciprocal_by(x, 2); }

/* Of 0 < x < 2^24, by a seed of the bits. _sfpu_reciprocal_gt0_ of ckernel_sfpu_trigonometry.h */
static inline float gr_sfpu_reciprocal_of_positive(float x, gr_sfpu m) {
  float y = gr_float_of(0xFEF392E0u - gr_bits_of(x)), e = gr_sfpu_mad(x, y, 1.0f);
  if (m.wide) {
    y = gr_sfpu_mad(y, e, y);
    e = gr_sfpu_mad(x, y, 1.0f);
  }
  float p = gr_sfpu_mad(e, e, e);
  y = gr_sfpu_negative(y);
  return gr_sfpu_mad(y, p, y);
}

/* ---------------------------------------------------------------- roots */

/* SQRT_23-bits: a seed of the bits, a quadratic step and one of Newton's; `inverse`: 1 / sqrt(x). Below 0, and of -0,
 * NaN. llk, ckernel_sfpu_sqrt.h */
static inline float gr_sfpu_root(float x, int inverse) {
  float y = gr_float_of(0x5F1110A0u - (gr_bits_of(x) >> 1));
  float xy = gr_sfpu_mul(x, y), c = gr_sfpu_mul(gr_sfpu_negative(y), xy);
  y = gr_sfpu_mul(y, gr_sfpu_mad(c, gr_sfpu_add(c, 2.2533049f), 2.2825186f));
  xy = gr_sfpu_mul(x, y);
  float rest = gr_sfpu_mad(gr_sfpu_negative(y), xy, 1.0f);
  uint32_t bits = gr_bits_of(x);
  if (inverse)
    y = bits != 0 && bits != 0x7F800000u ? gr_sfpu_mad(rest, gr_sfpu_scaled(y, -1), y)
                                         : gr_float_of(0x7F800000u - bits);
  else if ((int32_t)bits < 0x7F800000)
    y = gr_sfpu_mad(rest, gr_sfpu_mul(0.5f, xy), xy);
  return gr_sfpu_is_negative(x) ? NAN : y;
}

static inline float gr_sfpu_sqrt(float x) { return gr_sfpu_root(x, 0); }

static inline float gr_sfpu_rsqrt(float x) { return gr_sfpu_root(x, 1); }

/* sfpu_sqrt_custom: a seed and two steps of Newton's. ckernel_sfpu_sqrt_custom.h */
static inline float gr_sfpu_sqrt_short(float x) {
  if (gr_sfpu_is_zero(x)) return x;
  float y = gr_float_of(0x5F370000u - (gr_bits_of(x) >> 1)), half = gr_sfpu_mul(x, -0.5f);
  for (int k = 0; k < 2; ++k) y = gr_sfpu_mul(gr_sfpu_mad(gr_sfpu_mul(y, y), half, 1.5f), y);
  return gr_sfpu_mul(y, x);
}

/* _sfpu_sqrt_ge0_ of ckernel_sfpu_trigonometry.h: two steps of Newton's (fp32: three), and one on the root. */
static inline float gr_sfpu_sqrt_of_positive(float x, gr_sfpu m) {
  if (gr_sfpu_is_zero(x)) return 0.0f;
  float half = gr_sfpu_scaled(x, -1), y = gr_float_of(0x5F1110A0u - (gr_bits_of(x) >> 1));
  for (int k = 0; k < (m.wide ? 3 : 2); ++k)
    y = gr_sfpu_mul(y, gr_sfpu_sub(1.5f, gr_sfpu_mul(gr_sfpu_mul(half, y), y)));
  float root = gr_sfpu_mul(x, y), rest = gr_sfpu_sub(x, gr_sfpu_mul(root, root));
  return gr_sfpu_mad(gr_sfpu_mul(0.5f, rest), y, root);
}

/* ---------------------------------------------------------------- logarithms */

/* The exponent as a float, 0 for numbers in [1, 2). */
static inline float gr_sfpu_exponent_of(float x) {
  int32_t exponent = gr_sfpu_exponent(x) - 127;
  return (float)exponent;
}

/* k 2^23 with 2^-k x in [3/4, 3/2), by Juffa. */
static inline uint32_t gr_sfpu_log_part(float x) { return (gr_bits_of(x) - gr_bits_of(0.75f)) & 0xFF800000u; }

/* ln(1 + n) + k ln 2 of n in [-1/4, 1/2]: n + n n P(n), P of degree 2 (fp32: 8). k comes as k 2^23. */
static inline float gr_sfpu_log_sum(float n, uint32_t part, gr_sfpu m) {
  float r = m.wide ? GR_SFPU_POLYNOMIAL(n, -0.5f, 0x1.555572p-2f, -0x1.00001ap-2f, 0x1.998p-3f, -0x1.55p-3f,
                                        0x1.274p-3f, -0x1.0c4p-3f, 0x1.b84p-4f, -0x1.92cp-5f)
                   : GR_SFPU_POLYNOMIAL(n, -0x1.008p-1f, 0x1.744p-2f, -0.25f);
  r = gr_sfpu_mad(r, gr_sfpu_mul(n, n), n);
  float exponent = gr_sfpu_cast(part >> 31, part >> 31 ? 0u - part : part);
  return gr_sfpu_mad(exponent, 0.693147182f * 1.19209290e-7f, r);
}

/* ln(x), times `scale` (0: as it is). Below 0, and of -0, NaN. ckernel_sfpu_log.h */
static inline float gr_sfpu_log(float x, float scale, gr_sfpu m) {
  if (gr_sfpu_is_negative(x)) return NAN;
  if (gr_sfpu_exponent(x) == 255) return x;
  if (gr_sfpu_exponent(x) == 0) return -INFINITY;
  uint32_t part = gr_sfpu_log_part(x);
  float sum = gr_sfpu_log_sum(gr_sfpu_sub(gr_float_of(gr_bits_of(x) - part), 1.0f), part, m);
  return scale != 0.0f ? gr_sfpu_mul(sum, scale) : sum;
}

/* Degree 3, before it is joined with the exponent: of lgamma and power. llk, _calculate_log_body_no_init_ */
static inline float gr_sfpu_log_cubic(float x) {
  float m = gr_sfpu_with_exponent(x, 127);
  float inner = gr_sfpu_mad(m, 0x2.44734p-4f, -0xd.e712ap-4f);
  float sum = gr_sfpu_sub(gr_sfpu_mul(m, gr_sfpu_mad(m, inner, 0x2.4f5388p+0f)), 0x1.952992p+0f);
  return gr_sfpu_is_zero(x) ? -INFINITY : gr_sfpu_mad(gr_sfpu_exponent_of(x), 0.692871f, sum);
}

/* ln(1 + x): x itself is scaled, and 2^-k - 1 added. ckernel_sfpu_log1p.h */
static inline float gr_sfpu_log1p(float x, gr_sfpu m) {
  float u = gr_sfpu_add(x, 1.0f);
  if (gr_sfpu_is_negative(u)) return NAN;
  if (gr_sfpu_exponent(u) == 255) return u;
  uint32_t part = gr_sfpu_log_part(u);
  float least = gr_sfpu_mad(-0.25f, gr_float_of(gr_bits_of(-4.0f) - part), -1.0f);
  return gr_sfpu_log_sum(gr_sfpu_add(gr_float_of(gr_bits_of(x) - part), least), part, m);
}

#endif
