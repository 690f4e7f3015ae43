/* formulas.h: each line of functions.h as a function of one element, of two or three for its pairs and triples, and
 * the helpers that formulas share. Template: the including file defines
 *   GR_E              the element's type
 *   GR_LIB(fn)        the C library's function of that type
 *   GR_OWN(fn)        exp expm1 tanh erf erfc of that type, log1p of 0 to 1
 *   GR_SELECT(wanted, yes, no)  as gr_select of cpu/common.h: vector code where that of a conditional would not be
 *   GR_OF(helper)     the name of a helper
 *   GR_FORMULA(name)  the name of the function of an op
 *   GR_GELU(a)        gelu of a where that type has one of its own
 *   GR_OWN_LOGISTIC   where the helpers logistic and gated are there already
 * all of which end here. Kernels and programs of steps share the functions, so that a fused op gives the bits that it
 * gives alone. Each is right down to the least numbers: an exponential that would leave them before the result does
 * enters by its square root, twice.
 *
 * Included by: cpu/scalars.h (float, double), tt/scalars.h (float). Thread: any.
 * defines: GR_OF({logistic gated soft_gated clipped unit limited sloped gelu_erf gelu_tanh higher apart log2_more
 *          scaled}),
 *          GR_FORMULA(name) of each name of functions.h
 */

#ifndef GR_OWN_LOGISTIC
/* Uses exp of negative numbers only: nothing overflows. */
GR_INLINE GR_E GR_OF(logistic)(GR_E a) {
  GR_E e = GR_OWN(exp)(-GR_LIB(fabs)(a));
  return (a >= 0 ? 1 : e) / (1 + e);
}

/* a logistic(u) */
GR_INLINE GR_E GR_OF(gated)(GR_E a, GR_E u) {
  GR_E root = GR_OWN(exp)((GR_E)-0.5 * GR_LIB(fabs)(u)), e = root * root, part = GR_SELECT(u >= 0, 1, root);
  return a * part * part / (1 + e);
}
#endif

/* a tanh(softplus(a)), as a quotient of polynomials of exp(-|a|). */
GR_INLINE GR_E GR_OF(soft_gated)(GR_E a) {
  GR_E root = GR_OWN(exp)((GR_E)-0.5 * GR_LIB(fabs)(a)), e = root * root, part = GR_SELECT(a >= 0, 1, root);
  GR_E above = GR_SELECT(a >= 0, 1 + 2 * e, 2 + e), below = GR_SELECT(a >= 0, 2 * e * e, 2);
  return a * part * part * above / (GR_SELECT(a >= 0, above, e * above) + below);
}

/* min(max(a, low), high); NaN stays. */
GR_INLINE GR_E GR_OF(clipped)(GR_E a, GR_E low, GR_E high) {
  GR_E above = a < low ? low : a;
  return above > high ? high : above;
}

/* a from 0 to 1, and from 0 to most: the second in a form that stays vector code before a division. */
GR_INLINE GR_E GR_OF(unit)(GR_E a) { return a < 0 ? 0 : a > 1 ? 1 : a; }
GR_INLINE GR_E GR_OF(limited)(GR_E a, GR_E most) { return GR_SELECT(a < 0, 0, GR_SELECT(a > most, most, a)); }

/* slope a below 0, else a */
GR_INLINE GR_E GR_OF(sloped)(GR_E a, GR_E slope) { return a * GR_SELECT(a < 0, slope, 1); }

/* Uses erf's complement, and for tanh the logistic function: 1 + erf and 1 + tanh would cancel far below 0. */
#ifndef GR_GELU
#define GR_GELU(a) ((GR_E)0.5 * (a) * GR_OWN(erfc)((a) * (GR_E)-0.70710678118654752440))
#endif
GR_INLINE GR_E GR_OF(gelu_erf)(GR_E a) { return GR_GELU(a); }

GR_INLINE GR_E GR_OF(gelu_tanh)(GR_E a) {
  return GR_OF(gated)(a, (GR_E)1.5957691216057307118 * (a + (GR_E)0.044715 * a * a * a));
}

/* |a - b|; 0 where they are equal, as infinities may be. The greater of both, NaN where one is. */
GR_INLINE GR_E GR_OF(apart)(GR_E a, GR_E b) { return a == b ? 0 : GR_LIB(fabs)(a - b); }
GR_INLINE GR_E GR_OF(higher)(GR_E a, GR_E b) { return a > b || a != a ? a : b; }

/* log2(1 + a) */
GR_INLINE GR_E GR_OF(log2_more)(GR_E a) { return (GR_E)1.4426950408889634074 * GR_LIB(log1p)(a); }

/* a 2^b. The integer part of b is an exponent: exact, and rounded once where b has no other part. Where that makes a
 * less it comes last, else first, so that nothing leaves the normal numbers before the result does. */
GR_INLINE GR_E GR_OF(scaled)(GR_E a, GR_E b) {
  GR_E whole = GR_LIB(trunc)(b), part = GR_LIB(exp2)(b - whole);
  if (b - b != 0) return a * GR_LIB(exp2)(b);                      /* NaN and infinities */
  int by = (int)GR_OF(clipped)(whole, -5000, 5000);                /* from the least number to beyond all */
  return b > 0 ? GR_LIB(ldexp)(a, by) * part : GR_LIB(ldexp)(a * part, by);
}

#define GR_NUMBER(name, words, formula)                      \
  GR_INLINE GR_E GR_FORMULA(name)(GR_E a, double p, double q) { \
    (void)p, (void)q;                                        \
    return formula;                                          \
  }
#define GR_FUNCTION(name, words, cost, formula) GR_NUMBER(name, words, formula)
#define GR_PAIR(name, cost, formula) \
  GR_INLINE GR_E GR_FORMULA(name)(GR_E a, GR_E b) { return formula; }
#define GR_TRIPLE(name, words, cost, formula)                        \
  GR_INLINE GR_E GR_FORMULA(name)(GR_E a, GR_E b, GR_E c, double p) { \
    (void)p;                                                         \
    return formula;                                                  \
  }
#include "functions.h"

#undef GR_E
#undef GR_LIB
#undef GR_OWN
#undef GR_SELECT
#undef GR_GELU
#undef GR_OWN_LOGISTIC
#undef GR_OF
#undef GR_FORMULA
