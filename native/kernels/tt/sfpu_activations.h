/* sfpu_activations.h: activations and error functions as kernels of ttnn compute them. Sources as sfpu_blocks.h says.
 *
 * Static inline, any thread. Included by: functions_ttnn.h's users.
 * defines: gr_sfpu_{sigmoid silu tanh gelu softplus erf erfc elu celu selu mish hard_sigmoid hard_swish softsign
 * leaky_relu shrink}
 */
#ifndef GR_TT_SFPU_ACTIVATIONS_H
#define GR_TT_SFPU_ACTIVATIONS_H

#include "tt/sfpu_pairs.h"

/* ---------------------------------------------------------------- logistic, tanh */

/* ckernel_sfpu_sigmoid.h */
static inline float gr_sfpu_sigmoid(float x, gr_sfpu m) {
  float below = gr_sfpu_add(1.0f, gr_sfpu_exp(gr_sfpu_negative(x), m));
  return m.wide ? gr_sfpu_reciprocal2(below) : gr_sfpu_reciprocal1(below);
}

/* ckernel_sfpu_silu.h */
static inline float gr_sfpu_silu(float x, gr_sfpu m) { return gr_sfpu_mul(x, gr_sfpu_sigmoid(x, m)); }

/* bf16: degree 6 of |x|, at most 1; fp32: a polynomial below 0.6, else 2 sigmoid(2 x) - 1. ckernel_sfpu_tanh.h */
static inline float gr_sfpu_tanh(float x, gr_sfpu m) {
  float a = gr_sfpu_absolute(x);
  if (!m.wide) {
    float r = GR_SFPU_POLYNOMIAL(a, 0.0f, 0.999004364013671875f, 3.0897438526153564453125e-2f,
                                 -0.4890659749507904052734375f, 0.281917631626129150390625f,
                                 -6.6649019718170166015625e-2f, 5.876733921468257904052734375e-3f);
    return gr_sfpu_with_sign(gr_sfpu_min(r, 1.0f), x);
  }
  if (gr_sfpu_below(a, 0.6f))
    return gr_sfpu_mul(x, GR_SFPU_POLYNOMIAL(gr_sfpu_mul(x, x), 0.999999940395355224609375f,
                                             -0.33332359790802001953125f, 0.13310669362545013427734375f,
                                             -5.21197654306888580322265625e-2f, 1.5497927553951740264892578125e-2f));
  return gr_sfpu_mad(2.0f, gr_sfpu_sigmoid(gr_sfpu_mul(2.0f, x), m), -1.0f);
}

/* ---------------------------------------------------------------- error functions */

/* A quotient of polynomials of x^2, odd over even, at most 1. ckernel_sfpu_erf.h */
static inline float gr_sfpu_erf(float x, gr_sfpu m) {
  x = gr_sfpu_with_sign(gr_sfpu_min(gr_sfpu_absolute(x), 10.0f), x);
  float s = gr_sfpu_mul(x, x), above, below;
  if (m.wide) {
    above = GR_SFPU_POLYNOMIAL(s, 1.1283791065e+00f, 2.1477432549e-01f, 6.2133435160e-02f, 5.6230435148e-03f,
                               6.1307044234e-04f, 1.7678321456e-05f, 2.7384647439e-08f, -2.8632063387e-10f);
    below = GR_SFPU_POLYNOMIAL(s, 1.0f, 5.2367275953e-01f, 1.2961706519e-01f, 1.9642570987e-02f, 1.9545555115e-03f,
                               1.3179056987e-04f, 1.3156344494e-06f, -3.5153888689e-09f, -6.7350725691e-12f);
  } else {
    above = GR_SFPU_POLYNOMIAL(s, 1.1280932447e+00f, 2.7609212279e-01f, 4.5400281738e-02f, 7.4481184425e-04f);
    below = GR_SFPU_POLYNOMIAL(s, 1.0f, 5.7439188334e-01f, 1.3675764810e-01f, 8.2844606784e-03f, 2.4813862145e-05f);
  }
  return gr_sfpu_clamp(gr_sfpu_mul(gr_sfpu_mul(above, x), gr_sfpu_reciprocal2(below)), -1.0f, 1.0f);
}

/* Two quotients of |x|, below and above 2.5; from 5 on as at 5. ckernel_sfpu_erfc.h */
static inline float gr_sfpu_erfc(float x) {
  float a = gr_sfpu_min(gr_sfpu_absolute(x), 5.0f), above, below;
  if (gr_sfpu_at_least(a, 2.5f)) {
    above = GR_SFPU_POLYNOMIAL(a, -2.5655237550e-05f, 2.1275576728e-05f, -6.6162156145e-06f, 9.1439767402e-07f,
                               -4.7387182178e-08f);
    below = GR_SFPU_POLYNOMIAL(a, 1.0f, -1.6457208991e-01f, -2.0572184026e-01f, -1.3888636231e-01f,
                               1.2677097321e-01f, -2.1375391632e-02f);
  } else {
    above = GR_SFPU_POLYNOMIAL(a, 1.0000233650e+00f, -1.3375675678e+00f, 6.8185544014e-01f, -1.5691982210e-01f,
                               1.3746744953e-02f);
    below = GR_SFPU_POLYNOMIAL(a, 1.0f, -2.0801517367e-01f, 4.3667086959e-01f, -3.4568668343e-03f,
                               2.5104774162e-02f, 2.8375532478e-02f);
  }
  float r = gr_sfpu_mul(above, gr_sfpu_reciprocal_by(below, 0));
  return gr_sfpu_is_negative(x) ? gr_sfpu_sub(2.0f, r) : r;
}

/* ---------------------------------------------------------------- gelu */

/* By three zones: x H(x), H = exp_21f(-x^2 / 2) times a cubic, kept to multiples of 2^-25, which are the steps that
 * torch's float32 erfc has there; x (1/2 + an odd polynomial) from -3.125 on; x from 2.78125 on.
 * calculate_gelu_piecewise of ckernel_sfpu_gelu.h */
static inline float gr_sfpu_gelu_bf16(float x) {
  if (!gr_sfpu_above(x, -5.54259443f)) return 0.0f;
  float square = gr_sfpu_mul(x, x);
  if (gr_sfpu_at_least(x, 2.78125f)) return x;
  if (gr_sfpu_at_least(x, -3.125f)) {
    float odd = GR_SFPU_POLYNOMIAL(square, 3.9894227818e-01f, -6.6361041488e-02f, 9.7720050615e-03f,
                                   -1.0717806322e-03f, 8.1812159812e-05f, -3.8082057209e-06f, 7.9821413868e-08f);
    return gr_sfpu_mul(x, gr_sfpu_mad(x, odd, 0.5f));
  }
  float tail = gr_sfpu_exp21_of(gr_sfpu_mad(square, -0.72134752044f, 127.0f));
  tail = gr_sfpu_mul(tail, GR_SFPU_POLYNOMIAL(x, 3.0369991064e-01f, 9.5413386822e-02f, 1.3809983619e-02f,
                                              7.5950479368e-04f));
  return gr_sfpu_mul(x, gr_sfpu_sub(gr_sfpu_add(tail, 0.375f), 0.375f));
}

/* By erf; where that is -1 as torch's first step. */
static inline float gr_sfpu_gelu_f32(float x, gr_sfpu m) {
  if (!gr_sfpu_above(x, -5.54259443f)) return 0.0f;
  float e = gr_sfpu_erf(gr_sfpu_mul(x, 0.7071067811865475f), m);
  if (gr_sfpu_equal(e, -1.0f)) return gr_sfpu_mul(x, 2.9802322387695313e-08f);
  return gr_sfpu_mul(x, gr_sfpu_mad(0.5f, e, 0.5f));
}

static inline float gr_sfpu_gelu(float x, gr_sfpu m) { return m.wide ? gr_sfpu_gelu_f32(x, m) : gr_sfpu_gelu_bf16(x); }

/* ---------------------------------------------------------------- softplus, mish */

/* max(x, 0) + f(|x|), f of degree 6 (fp32: 8) up to 5; above, nothing is left of it in bf16, nor of the function below
 * -5 in the builds that were measured. From 20 on the identity. ckernel_sfpu_softplus.h */
static inline float gr_sfpu_softplus(float x, gr_sfpu m) {
  if (!gr_sfpu_below(x, 20.0f)) return x;
  float a = gr_sfpu_absolute(x), rest;
  if (m.wide) {
    rest = GR_SFPU_POLYNOMIAL(a, 6.9310557842e-01f, -4.9926245213e-01f, 1.2186349183e-01f, 5.6753782555e-03f,
                              -1.0528374463e-02f, 2.7290175203e-03f, -3.4358495031e-04f, 2.1285692128e-05f,
                              -4.8245715334e-07f);
    if (gr_sfpu_above(a, 5.0f)) {
      float e = gr_sfpu_exp_tail(gr_sfpu_negative(a), m);
      rest = gr_sfpu_mul(e, GR_SFPU_POLYNOMIAL(e, 1.0f, -0.5f, 0.333333343f));
    }
  } else {
    rest = GR_SFPU_POLYNOMIAL(a, 6.9423984729e-01f, -5.0932420424e-01f, 1.4279095486e-01f, -1.3000584069e-02f,
                              -1.8627923291e-03f, 5.0152968088e-04f, -3.1273466851e-05f);
    if (gr_sfpu_above(a, 5.0f)) rest = 0.0f;
  }
  return gr_sfpu_round(gr_sfpu_add(gr_sfpu_max(x, 0.0f), rest), m);
}

/* exp, log1p and tanh, each through Dst, then a product of the matrix unit. mish_kernel.cpp */
static inline float gr_sfpu_mish(float x, gr_sfpu m) {
  float e = m.wide ? gr_sfpu_exp32(x) : gr_sfpu_exp_bf16(x);
  float y = gr_sfpu_stored(gr_sfpu_round(e, m), m);
  y = gr_sfpu_stored(gr_sfpu_round(gr_sfpu_log1p(y, m), m), m);
  y = gr_sfpu_stored(gr_sfpu_round(gr_sfpu_tanh(y, m), m), m);
  return gr_sfpu_times(y, x, m);
}

/* ---------------------------------------------------------------- by parts */

/* llk, ckernel_sfpu_activations.h: x / 6 + 1/2 from 0 to 1; p and q are the op's. */
static inline float gr_sfpu_hard_sigmoid(float x, float slope, float offset) {
  float r = gr_sfpu_mad(x, slope, offset);
  if (gr_sfpu_above(r, 1.0f)) r = 1.0f;
  return gr_sfpu_is_negative(r) ? 0.0f : r;
}

/* hard_sigmoid through Dst, then a product of the matrix unit. hardswish_kernel.cpp */
static inline float gr_sfpu_hard_swish(float x, gr_sfpu m) {
  float part = gr_sfpu_stored(gr_sfpu_hard_sigmoid(x, 0.1666666716337204f, 0.5f), m);
  return gr_sfpu_times(part, x, m);
}

/* ckernel_sfpu_softsign.h */
static inline float gr_sfpu_softsign(float x) {
  return gr_sfpu_mul(x, gr_sfpu_reciprocal2(gr_sfpu_add(gr_sfpu_absolute(x), 1.0f)));
}

/* llk, ckernel_sfpu_relu.h */
static inline float gr_sfpu_leaky_relu(float x, float slope) {
  return gr_sfpu_is_negative(x) ? gr_sfpu_mul(x, slope) : x;
}

/* ckernel_sfpu_elu.h, _celu.h, _unary_selu.h */
static inline float gr_sfpu_elu(float x, float alpha, gr_sfpu m) {
  return gr_sfpu_is_negative(x) ? gr_sfpu_mul(alpha, gr_sfpu_expm1_short(x, m)) : x;
}

static inline float gr_sfpu_celu(float x, float alpha, gr_sfpu m) {
  if (!gr_sfpu_is_negative(x)) return x;
  return gr_sfpu_mul(alpha, gr_sfpu_expm1_short(gr_sfpu_mul(1.0f / alpha, x), m));
}

static inline float gr_sfpu_selu(float x, float alpha, float scale, gr_sfpu m) {
  if (!gr_sfpu_is_negative(x)) return gr_sfpu_mul(x, scale);
  return gr_sfpu_mul(gr_sfpu_mul(gr_sfpu_expm1_short(x, m), alpha), scale);
}

/* x - q above p, x + q below -p, else 0; x itself where q is 0. ckernel_sfpu_softshrink.h, _hardshrink.h */
static inline float gr_sfpu_shrink(float x, float p, float q) {
  if (q == 0.0f) return gr_sfpu_at_most(gr_sfpu_absolute(x), p) ? 0.0f : x;
  if (gr_sfpu_above(x, p)) return gr_sfpu_sub(x, q);
  return gr_sfpu_below(x, -p) ? gr_sfpu_add(x, q) : 0.0f;
}

#endif
