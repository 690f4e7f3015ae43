/* functions_ttnn.h: the functions of functions.h as kernels of ttnn compute them on a card, a line each: what
 * numerics="ttnn" asks for; and those of two numbers that other headers have. A list of macro calls, as functions.h.
 * NAME_scalar: where one operand has one element.
 *
 *   GR_TTNN_FUNCTION(name, formula)   of the element `a` and the attributes `p` and `q`, floats
 *   GR_TTNN_PAIR(name, formula)       of `a` and `b`
 *   GR_TTNN_TRIPLE(name, formula)     of `a`, `b`, `c` and `p`
 *
 * formula: the register that the kernel stores, made of the blocks of tt/sfpu_*.h, which say where each is from. Dst
 * keeps its upper 16 bits where it has no more: ROUND(x) is the rounding that most kernels put before, those without
 * cut. `m` says whether Dst has 32 bits.
 *
 * defines: nothing; the macros end here
 * Included by: tt/scalars_ttnn.h. */
#ifndef GR_TTNN_FUNCTION
#define GR_TTNN_FUNCTION(name, formula)
#endif
#ifndef GR_TTNN_PAIR
#define GR_TTNN_PAIR(name, formula)
#endif
#ifndef GR_TTNN_TRIPLE
#define GR_TTNN_TRIPLE(name, formula)
#endif
#define ROUND(x) gr_sfpu_round(x, m)

/* numbers */
GR_TTNN_FUNCTION(relu, gr_sfpu_max(a, 0.0f))
GR_TTNN_FUNCTION(abs, gr_sfpu_absolute(a))
GR_TTNN_FUNCTION(negative, gr_sfpu_negative(a))
GR_TTNN_FUNCTION(square, gr_sfpu_mul(a, a))
GR_TTNN_FUNCTION(clip, gr_sfpu_clamp(a, p, q))
GR_TTNN_FUNCTION(sign, gr_sfpu_sign(a))

/* rounding */
GR_TTNN_FUNCTION(ceil, gr_sfpu_ceil(a))
GR_TTNN_FUNCTION(floor, gr_sfpu_floor(a))
GR_TTNN_FUNCTION(round, gr_sfpu_nearest(a))
GR_TTNN_FUNCTION(trunc, gr_sfpu_trunc(a))
GR_TTNN_FUNCTION(frac, gr_sfpu_sub(a, gr_sfpu_trunc(a)))

/* exponentials and powers */
GR_TTNN_FUNCTION(exp, ROUND(m.wide ? gr_sfpu_exp32(a) : gr_sfpu_exp_bf16(a)))
GR_TTNN_FUNCTION(exp2, ROUND(gr_sfpu_exp2(a, m)))
GR_TTNN_FUNCTION(cbrt, ROUND(gr_sfpu_cbrt(a, m)))
GR_TTNN_FUNCTION(expm1, ROUND(gr_sfpu_expm1(a, m)))
GR_TTNN_FUNCTION(log, ROUND(gr_sfpu_log(a, 0.0f, m)))
GR_TTNN_FUNCTION(log1p, ROUND(gr_sfpu_log1p(a, m)))
GR_TTNN_FUNCTION(log2, ROUND(gr_sfpu_log(a, 1.4426950408889634f, m)))
GR_TTNN_FUNCTION(log10, ROUND(gr_sfpu_log(a, 0.4342944819032518f, m)))
GR_TTNN_FUNCTION(sqrt, ROUND(gr_sfpu_sqrt(a)))
GR_TTNN_FUNCTION(rsqrt, ROUND(gr_sfpu_rsqrt(a)))
GR_TTNN_FUNCTION(reciprocal, ROUND(m.wide ? gr_sfpu_reciprocal2(a) : gr_sfpu_reciprocal1(a)))
GR_TTNN_FUNCTION(erf, gr_sfpu_erf(a, m))
GR_TTNN_FUNCTION(erfc, gr_sfpu_erfc(a))
GR_TTNN_FUNCTION(lgamma, gr_sfpu_lgamma(a, m))
GR_TTNN_FUNCTION(digamma, gr_sfpu_digamma(a, m))
GR_TTNN_FUNCTION(i0, gr_sfpu_i0(a))

/* trigonometry */
GR_TTNN_FUNCTION(sin, ROUND(gr_sfpu_sin(a, m)))
GR_TTNN_FUNCTION(cos, ROUND(gr_sfpu_cos(a, m)))
GR_TTNN_FUNCTION(tan, ROUND(gr_sfpu_tan(a, m)))
GR_TTNN_FUNCTION(rad2deg, gr_sfpu_mul(a, 57.29577951308232f))
GR_TTNN_FUNCTION(deg2rad, gr_sfpu_mul(a, 0.017453292519943295f))
GR_TTNN_FUNCTION(asin, ROUND(gr_sfpu_asin(a, m)))
GR_TTNN_FUNCTION(acos, ROUND(gr_sfpu_acos(a, m)))
GR_TTNN_FUNCTION(atan, ROUND(gr_sfpu_atan(a, m)))
GR_TTNN_FUNCTION(sinh, ROUND(gr_sfpu_sinh(a, m)))
GR_TTNN_FUNCTION(cosh, ROUND(gr_sfpu_cosh(a, m)))
GR_TTNN_FUNCTION(tanh, ROUND(gr_sfpu_tanh(a, m)))
GR_TTNN_FUNCTION(asinh, ROUND(gr_sfpu_asinh(a, m)))
GR_TTNN_FUNCTION(acosh, ROUND(gr_sfpu_acosh(a, m)))
GR_TTNN_FUNCTION(atanh, ROUND(gr_sfpu_atanh(a, m)))

/* activations */
GR_TTNN_FUNCTION(gelu, ROUND(gr_sfpu_gelu(a, m)))
GR_TTNN_FUNCTION(sigmoid, ROUND(gr_sfpu_sigmoid(a, m)))
GR_TTNN_FUNCTION(silu, ROUND(gr_sfpu_silu(a, m)))
GR_TTNN_FUNCTION(mish, ROUND(gr_sfpu_mish(a, m)))
GR_TTNN_FUNCTION(softplus, gr_sfpu_softplus(a, m))
GR_TTNN_FUNCTION(softsign, gr_sfpu_softsign(a))
GR_TTNN_FUNCTION(hard_swish, gr_sfpu_hard_swish(a, m))
GR_TTNN_FUNCTION(hard_sigmoid, gr_sfpu_hard_sigmoid(a, p, q))
GR_TTNN_FUNCTION(leaky_relu, gr_sfpu_leaky_relu(a, p))
GR_TTNN_FUNCTION(elu, ROUND(gr_sfpu_elu(a, p, m)))
GR_TTNN_FUNCTION(selu, ROUND(gr_sfpu_selu(a, p, q, m)))
GR_TTNN_FUNCTION(celu, ROUND(gr_sfpu_celu(a, p, m)))
GR_TTNN_FUNCTION(softcap, ROUND(gr_sfpu_mul(p, gr_sfpu_tanh(gr_sfpu_mul(a, 1.0f / p), m))))
GR_TTNN_FUNCTION(thresholded_relu, gr_sfpu_at_most(a, p) ? 0.0f : a)
GR_TTNN_FUNCTION(shrink, gr_sfpu_shrink(a, p, q))

/* two numbers */
GR_TTNN_PAIR(add, gr_sfpu_plus(a, b, m))
GR_TTNN_PAIR(subtract, gr_sfpu_minus(a, b, m))
GR_TTNN_PAIR(multiply, gr_sfpu_product(a, b, m))
GR_TTNN_PAIR(add_scalar, gr_sfpu_add(a, b))
GR_TTNN_PAIR(subtract_scalar, gr_sfpu_sub(a, b))
GR_TTNN_PAIR(multiply_scalar, gr_sfpu_mul(a, b))
GR_TTNN_PAIR(divide, gr_sfpu_quotient(a, b, m))
GR_TTNN_PAIR(maximum, gr_sfpu_max(a, b))
GR_TTNN_PAIR(minimum, gr_sfpu_min(a, b))
GR_TTNN_PAIR(fmod, gr_sfpu_fmod(a, b, m))
GR_TTNN_PAIR(remainder, gr_sfpu_remainder(a, b, m))
GR_TTNN_PAIR(hypot, gr_sfpu_hypot(a, b, m))
GR_TTNN_PAIR(logaddexp2, gr_sfpu_logaddexp2(a, b, m))
GR_TTNN_PAIR(logaddexp, gr_sfpu_logaddexp(a, b, m))
GR_TTNN_PAIR(ldexp, gr_sfpu_ldexp(a, b, m))
GR_TTNN_PAIR(squared_difference, gr_sfpu_squared_difference(a, b, m))

/* three numbers */
GR_TTNN_TRIPLE(lerp, gr_sfpu_lerp(a, b, c, m))
GR_TTNN_TRIPLE(addcmul, gr_sfpu_addcmul(a, b, c, p, m))
GR_TTNN_TRIPLE(addcdiv, gr_sfpu_addcdiv(a, b, c, p, m))

#undef ROUND
#undef GR_TTNN_FUNCTION
#undef GR_TTNN_PAIR
#undef GR_TTNN_TRIPLE
