/* functions.h: the functions of one, two or three floats, a line each, for kernels of every device kind; those of one
 * for programs of steps, too. A list of macro calls, read many times: the including file defines the macros that it
 * wants and has them undefined behind the list.
 *
 *   GR_FUNCTION(name, words, cost, formula)               an op: codegen/bodies.py reads the names, and every header
 *                                                         with a line `gr-functions` has its body
 *   GR_STEP_FUNCTION(name, code, words, cost, formula)    also a step, with its code of ir/ops/steps.py
 *   GR_NUMBER(name, words, formula)                       what floats do in an op that takes integers, too: its bodies
 *   GR_STEP_NUMBER(name, code, words, formula)            are written by hand
 *   GR_PAIR(name, cost, formula)                          an op of two floats that broadcast, as GR_FUNCTION by a line
 *                                                         `gr-pairs`
 *   GR_TRIPLE(name, words, cost, formula)                 of three, by `gr-triples`; words: 0 or 1
 *
 * name: of the op, whose C function is made of it. words: how many float attributes it has, 0 to 2. cost: 1 or 16,
 * about the flops of an element; threads are woken by it. formula: of the element `a` (of pairs and triples `b` and
 * `c`, too) and the first two attributes `p` and `q`, which are doubles, in
 *   GR_E           the type of a, to which p and q are cast where the function is computed in it
 *   GR_LIB(fn)     the C library's function of that type
 *   GR_OWN(fn)     exp tanh erf: vector code where there is some, else the C library's
 *   GR_SELECT(wanted, yes, no)  both are computed: vector code, where compilers make none of a conditional with
 *                  arithmetic on a side
 *   GR_OF(helper)  of formulas.h, for what is no single expression or is shared
 *   gr_helper      of special.h, in double for all types
 * Comparisons are written so that a NaN stays.
 *
 * defines: nothing; the macros end here
 * Included by: formulas.h, steps.h, cpu/{pairs,steps_lanes,unary}.h, tt/{pairs,program,unary}.h. */
#ifndef GR_FUNCTION
#define GR_FUNCTION(name, words, cost, formula)
#endif
#ifndef GR_STEP_FUNCTION
#define GR_STEP_FUNCTION(name, code, words, cost, formula) GR_FUNCTION(name, words, cost, formula)
#endif
#ifndef GR_NUMBER
#define GR_NUMBER(name, words, formula)
#endif
#ifndef GR_STEP_NUMBER
#define GR_STEP_NUMBER(name, code, words, formula) GR_NUMBER(name, words, formula)
#endif
#ifndef GR_PAIR
#define GR_PAIR(name, cost, formula)
#endif
#ifndef GR_TRIPLE
#define GR_TRIPLE(name, words, cost, formula)
#endif

/* numbers */
GR_STEP_NUMBER(relu, 16, 0, a < 0 ? 0 : a)
GR_STEP_NUMBER(abs, 23, 0, GR_LIB(fabs)(a))
GR_STEP_NUMBER(negative, 24, 0, -a)
GR_STEP_NUMBER(square, 33, 0, a * a)
GR_STEP_NUMBER(clip, 28, 2, GR_OF(clipped)(a, (GR_E)p, (GR_E)q))
GR_NUMBER(sign, 0, a != a ? a : (GR_E)((a > 0) - (a < 0)))

/* rounding */
GR_FUNCTION(ceil, 0, 1, GR_LIB(ceil)(a))
GR_FUNCTION(floor, 0, 1, GR_LIB(floor)(a))
GR_FUNCTION(round, 0, 1, GR_LIB(rint)(a))
GR_FUNCTION(trunc, 0, 1, GR_LIB(trunc)(a))
GR_FUNCTION(frac, 0, 1, a - GR_LIB(trunc)(a))

/* exponentials and powers */
GR_STEP_FUNCTION(exp, 21, 0, 16, GR_OWN(exp)(a))
GR_FUNCTION(exp2, 0, 16, GR_LIB(exp2)(a))
GR_FUNCTION(cbrt, 0, 16, GR_LIB(cbrt)(a))
GR_FUNCTION(expm1, 0, 16, GR_LIB(expm1)(a))
GR_STEP_FUNCTION(log, 32, 0, 16, GR_LIB(log)(a))
GR_FUNCTION(log1p, 0, 16, GR_LIB(log1p)(a))
GR_FUNCTION(log2, 0, 16, GR_LIB(log2)(a))
GR_FUNCTION(log10, 0, 16, GR_LIB(log10)(a))
GR_STEP_FUNCTION(sqrt, 22, 0, 16, GR_LIB(sqrt)(a))
GR_FUNCTION(rsqrt, 0, 16, 1 / GR_LIB(sqrt)(a))
GR_STEP_FUNCTION(reciprocal, 30, 0, 1, 1 / a)
GR_STEP_FUNCTION(erf, 31, 0, 16, GR_OWN(erf)(a))
GR_FUNCTION(erfc, 0, 16, GR_OWN(erfc)(a))
GR_FUNCTION(lgamma, 0, 16, GR_LIB(lgamma)(a))
GR_FUNCTION(digamma, 0, 16, (GR_E)gr_digamma(a))
GR_FUNCTION(i0, 0, 16, (GR_E)gr_bessel_i0(a))

/* trigonometry */
GR_FUNCTION(sin, 0, 16, GR_LIB(sin)(a))
GR_FUNCTION(cos, 0, 16, GR_LIB(cos)(a))
GR_FUNCTION(tan, 0, 16, GR_LIB(tan)(a))
GR_FUNCTION(rad2deg, 0, 1, a * (GR_E)57.295779513082320877)
GR_FUNCTION(deg2rad, 0, 1, a * (GR_E)0.017453292519943295769)
GR_FUNCTION(asin, 0, 16, GR_LIB(asin)(a))
GR_FUNCTION(acos, 0, 16, GR_LIB(acos)(a))
GR_FUNCTION(atan, 0, 16, GR_LIB(atan)(a))
GR_FUNCTION(sinh, 0, 16, GR_LIB(sinh)(a))
GR_FUNCTION(cosh, 0, 16, GR_LIB(cosh)(a))
GR_STEP_FUNCTION(tanh, 20, 0, 16, GR_OWN(tanh)(a))
GR_FUNCTION(asinh, 0, 16, GR_LIB(asinh)(a))
GR_FUNCTION(acosh, 0, 16, GR_LIB(acosh)(a))
GR_FUNCTION(atanh, 0, 16, GR_LIB(atanh)(a))

/* activations */
GR_STEP_FUNCTION(sigmoid, 19, 0, 16, GR_OF(logistic)(a))
GR_STEP_FUNCTION(silu, 25, 0, 16, GR_OF(gated)(a, a))
GR_STEP_FUNCTION(mish, 36, 0, 16, GR_OF(soft_gated)(a))
/* max(a, 0) + log1p(exp(-|a|)): nothing overflows */
GR_STEP_FUNCTION(softplus, 34, 0, 16, GR_SELECT(a < 0, 0, a) + GR_OWN(log1p)(GR_OWN(exp)(-GR_LIB(fabs)(a))))
GR_STEP_FUNCTION(softsign, 35, 0, 1, a / (1 + GR_LIB(fabs)(a)))
/* a + 3 is exact where it is small, which a / 6 + 1/2 is not */
GR_STEP_FUNCTION(hard_swish, 26, 0, 1, a * (GR_OF(limited)(a + 3, 6) / 6))
/* in double: the sum is small against its parts where the function begins */
GR_STEP_FUNCTION(hard_sigmoid, 27, 2, 1, GR_OF(unit)((GR_E)(p * a + q)))
GR_STEP_FUNCTION(leaky_relu, 29, 1, 1, GR_OF(sloped)(a, (GR_E)p))
GR_STEP_FUNCTION(elu, 37, 1, 16, GR_SELECT(a < 0, (GR_E)p * GR_OWN(expm1)(a), a))
GR_STEP_FUNCTION(selu, 38, 2, 16, (GR_E)q * GR_SELECT(a < 0, (GR_E)p * GR_OWN(expm1)(a), a))
GR_STEP_FUNCTION(celu, 39, 1, 16, GR_SELECT(a < 0, (GR_E)p * GR_OWN(expm1)(a / (GR_E)p), a))
GR_FUNCTION(softcap, 1, 16, (GR_E)p * GR_OWN(tanh)(a / (GR_E)p))
GR_FUNCTION(thresholded_relu, 1, 1, a <= (GR_E)p ? 0 : a)
GR_FUNCTION(shrink, 2, 1, GR_SELECT(a < -(GR_E)p, a + (GR_E)q, GR_SELECT(a > (GR_E)p, a - (GR_E)q, 0 * a)))

/* two floats that broadcast */
GR_PAIR(hypot, 16, GR_LIB(hypot)(a, b))
/* by an exponential of what is not above 0: nothing overflows */
GR_PAIR(logaddexp2, 16, GR_OF(higher)(a, b) + GR_OF(log2_more)(GR_LIB(exp2)(-GR_OF(apart)(a, b))))
GR_PAIR(logaddexp, 16, GR_OF(higher)(a, b) + GR_LIB(log1p)(GR_OWN(exp)(-GR_OF(apart)(a, b))))
GR_PAIR(ldexp, 16, GR_OF(scaled)(a, b))
GR_PAIR(squared_difference, 1, (a - b) * (a - b))

/* three floats that broadcast */
/* exact on both ends, as torch does it */
GR_TRIPLE(lerp, 0, 1, GR_SELECT(GR_LIB(fabs)(c) < (GR_E)0.5, a + c * (b - a), b - (b - a) * (1 - c)))
GR_TRIPLE(addcmul, 1, 1, a + (GR_E)p * b * c)
GR_TRIPLE(addcdiv, 1, 1, a + (GR_E)p * b / c)

#undef GR_FUNCTION
#undef GR_STEP_FUNCTION
#undef GR_NUMBER
#undef GR_STEP_NUMBER
#undef GR_PAIR
#undef GR_TRIPLE
