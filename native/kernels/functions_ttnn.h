/* functions_ttnn.h: the functions of functions.h as kernels of ttnn compute them on a card: what numerics="ttnn" asks for.
 *
 *   #define GR_TTNN_name ~, formula   of the element `a` (of pairs and triples `b` and `c`, too) and the attributes `p`
 *                                     and `q`, floats. A function without such a line is computed by its own formula.
 *   GR_TTNN_FUNCTION(name, formula)   the list behind them: of one and of two numbers, for kernels that are written by
 *   GR_TTNN_PAIR(name, formula)       hand. NAME_scalar: where one operand has one element
 *
 * formula: the register that the kernel stores, made of the blocks of tt/sfpu_*.h, which say where each is from. Dst
 * keeps its upper 16 bits where it has no more: ROUND(x) is the rounding that most kernels put before, those without
 * cut. `m` says whether Dst has 32 bits.
 *
 * defines: GR_TTNN_{names of functions.h}; the macros of the list end here
 * Included by: tt/scalars_ttnn.h, which takes a formula by GR_TTNN_FORMULA; tt/elementwise.h. */
#ifndef GR_TTNN_FUNCTION
#define GR_TTNN_FUNCTION(name, formula)
#endif
#ifndef GR_TTNN_PAIR
#define GR_TTNN_PAIR(name, formula)
#endif

/* numbers */
#define GR_TTNN_relu ~, gr_sfpu_max(a, 0.0f)
#define GR_TTNN_abs ~, gr_sfpu_absolute(a)
#define GR_TTNN_negative ~, gr_sfpu_negative(a)
#define GR_TTNN_square ~, gr_sfpu_mul(a, a)
#define GR_TTNN_clip ~, gr_sfpu_clamp(a, p, q)
#define GR_TTNN_sign ~, gr_sfpu_sign(a)

/* rounding */
#define GR_TTNN_ceil ~, gr_sfpu_ceil(a)
#define GR_TTNN_floor ~, gr_sfpu_floor(a)
#define GR_TTNN_round ~, gr_sfpu_nearest(a)
#define GR_TTNN_trunc ~, gr_sfpu_trunc(a)
#define GR_TTNN_frac ~, gr_sfpu_sub(a, gr_sfpu_trunc(a))

/* exponentials and powers */
#define GR_TTNN_exp ~, ROUND(m.wide ? gr_sfpu_exp32(a) : gr_sfpu_exp_bf16(a))
#define GR_TTNN_exp2 ~, ROUND(gr_sfpu_exp2(a, m))
#define GR_TTNN_cbrt ~, ROUND(gr_sfpu_cbrt(a, m))
#define GR_TTNN_expm1 ~, ROUND(gr_sfpu_expm1(a, m))
#define GR_TTNN_log ~, ROUND(gr_sfpu_log(a, 0.0f, m))
#define GR_TTNN_log1p ~, ROUND(gr_sfpu_log1p(a, m))
#define GR_TTNN_log2 ~, ROUND(gr_sfpu_log(a, 1.4426950408889634f, m))
#define GR_TTNN_log10 ~, ROUND(gr_sfpu_log(a, 0.4342944819032518f, m))
#define GR_TTNN_sqrt ~, ROUND(gr_sfpu_sqrt(a))
#define GR_TTNN_rsqrt ~, ROUND(gr_sfpu_rsqrt(a))
#define GR_TTNN_reciprocal ~, ROUND(m.wide ? gr_sfpu_reciprocal2(a) : gr_sfpu_reciprocal1(a))
#define GR_TTNN_erf ~, gr_sfpu_erf(a, m)
#define GR_TTNN_erfc ~, gr_sfpu_erfc(a)
#define GR_TTNN_lgamma ~, gr_sfpu_lgamma(a, m)
#define GR_TTNN_digamma ~, gr_sfpu_digamma(a, m)
#define GR_TTNN_i0 ~, gr_sfpu_i0(a)

/* trigonometry */
#define GR_TTNN_sin ~, ROUND(gr_sfpu_sin(a, m))
#define GR_TTNN_cos ~, ROUND(gr_sfpu_cos(a, m))
#define GR_TTNN_tan ~, ROUND(gr_sfpu_tan(a, m))
#define GR_TTNN_rad2deg ~, gr_sfpu_mul(a, 57.29577951308232f)
#define GR_TTNN_deg2rad ~, gr_sfpu_mul(a, 0.017453292519943295f)
#define GR_TTNN_asin ~, ROUND(gr_sfpu_asin(a, m))
#define GR_TTNN_acos ~, ROUND(gr_sfpu_acos(a, m))
#define GR_TTNN_atan ~, ROUND(gr_sfpu_atan(a, m))
#define GR_TTNN_sinh ~, ROUND(gr_sfpu_sinh(a, m))
#define GR_TTNN_cosh ~, ROUND(gr_sfpu_cosh(a, m))
#define GR_TTNN_tanh ~, ROUND(gr_sfpu_tanh(a, m))
#define GR_TTNN_asinh ~, ROUND(gr_sfpu_asinh(a, m))
#define GR_TTNN_acosh ~, ROUND(gr_sfpu_acosh(a, m))
#define GR_TTNN_atanh ~, ROUND(gr_sfpu_atanh(a, m))

/* activations */
#define GR_TTNN_sigmoid ~, ROUND(gr_sfpu_sigmoid(a, m))
#define GR_TTNN_silu ~, ROUND(gr_sfpu_silu(a, m))
#define GR_TTNN_mish ~, ROUND(gr_sfpu_mish(a, m))
#define GR_TTNN_softplus ~, gr_sfpu_softplus(a, m)
#define GR_TTNN_softsign ~, gr_sfpu_softsign(a)
#define GR_TTNN_hard_swish ~, gr_sfpu_hard_swish(a, m)
#define GR_TTNN_hard_sigmoid ~, gr_sfpu_hard_sigmoid(a, p, q)
#define GR_TTNN_leaky_relu ~, gr_sfpu_leaky_relu(a, p)
#define GR_TTNN_elu ~, ROUND(gr_sfpu_elu(a, p, m))
#define GR_TTNN_selu ~, ROUND(gr_sfpu_selu(a, p, q, m))
#define GR_TTNN_celu ~, ROUND(gr_sfpu_celu(a, p, m))
#define GR_TTNN_softcap ~, ROUND(gr_sfpu_mul(p, gr_sfpu_tanh(gr_sfpu_mul(a, 1.0f / p), m)))
#define GR_TTNN_thresholded_relu ~, gr_sfpu_at_most(a, p) ? 0.0f : a
#define GR_TTNN_shrink ~, gr_sfpu_shrink(a, p, q)

/* two numbers */
#define GR_TTNN_hypot ~, gr_sfpu_hypot(a, b, m)
#define GR_TTNN_logaddexp2 ~, gr_sfpu_logaddexp2(a, b, m)
#define GR_TTNN_logaddexp ~, gr_sfpu_logaddexp(a, b, m)
#define GR_TTNN_ldexp ~, gr_sfpu_ldexp(a, b, m)
#define GR_TTNN_squared_difference ~, gr_sfpu_squared_difference(a, b, m)

/* three numbers */
#define GR_TTNN_lerp ~, gr_sfpu_lerp(a, b, c, m)
#define GR_TTNN_addcmul ~, gr_sfpu_addcmul(a, b, c, p, m)
#define GR_TTNN_addcdiv ~, gr_sfpu_addcdiv(a, b, c, p, m)

/* kernels that are written by hand */
GR_TTNN_FUNCTION(gelu, ROUND(gr_sfpu_gelu(a, m)))
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

#undef GR_TTNN_FUNCTION
#undef GR_TTNN_PAIR
