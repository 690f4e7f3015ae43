/* scalars_ttnn.h: the functions of functions.h, and those of the list in functions_ttnn.h, as C functions of floats that
 * compute as ttnn does: gr_ttnn_silu(a, p, q, m).
 *
 * Included by: unary.h, pairs.h, program.h, elementwise.h. Thread: any.
 * defines: gr_ttnn_of, gr_ttnn_operand, gr_ttnn_{names of functions.h and of that list}
 */
#ifndef GR_TT_SCALARS_TTNN_H
#define GR_TT_SCALARS_TTNN_H

#include "functions_ttnn.h"
#include "tt/scalars.h"
#include "tt/sfpu_activations.h"
#include "tt/sfpu_pairs.h"

/* Dst has 32 bits where a result is stored as float32. */
static inline gr_sfpu gr_ttnn_of(const gr_call *call) {
  gr_sfpu m = {call->args[call->nargs - 1].format == GR_F32};
  return m;
}

/* An operand as Dst holds it: numbers below the smallest normal one are 0. */
static inline float gr_ttnn_operand(float x) {
  return gr_exact_is_zero(gr_bits_of(x)) ? gr_float_of(gr_bits_of(x) & 0x80000000u) : x;
}

/* The formula of functions_ttnn.h, else `plain`: a name without a line there is one token, with one it is two. */
#define GR_TTNN_FORMULA(name, plain) GR_TTNN_SECOND(GR_TTNN_##name, plain, ~)
#define GR_TTNN_SECOND(...) GR_TTNN_SECOND_OF(__VA_ARGS__)
#define GR_TTNN_SECOND_OF(first, second, ...) second

#define ROUND(x) gr_sfpu_round(x, m)
#define GR_TTNN_FUNCTION(name, formula)                                          \
  static inline float gr_ttnn_##name(float a, float p, float q, gr_sfpu m) {     \
    (void)p, (void)q;                                                            \
    a = gr_ttnn_operand(a);                                                      \
    return gr_sfpu_result(formula, m);                                           \
  }
#define GR_TTNN_PAIR(name, formula)                                              \
  static inline float gr_ttnn_##name(float a, float b, gr_sfpu m) {              \
    a = gr_ttnn_operand(a);                                                      \
    b = gr_ttnn_operand(b);                                                      \
    return gr_sfpu_result(formula, m);                                           \
  }
#define GR_TTNN_LISTED(name) GR_TTNN_FUNCTION(name, GR_TTNN_FORMULA(name, gr_tt_fn_##name(a, p, q)))
#define GR_FUNCTION(name, words, cost, formula) GR_TTNN_LISTED(name)
#define GR_NUMBER(name, words, formula) GR_TTNN_LISTED(name)
#define GR_PAIR(name, cost, formula) GR_TTNN_PAIR(name, GR_TTNN_FORMULA(name, gr_tt_fn_##name(a, b)))
#define GR_TRIPLE(name, words, cost, formula)                                    \
  static inline float gr_ttnn_##name(float a, float b, float c, float p, gr_sfpu m) { \
    (void)p;                                                                     \
    a = gr_ttnn_operand(a);                                                      \
    b = gr_ttnn_operand(b);                                                      \
    c = gr_ttnn_operand(c);                                                      \
    return gr_sfpu_result(GR_TTNN_FORMULA(name, gr_tt_fn_##name(a, b, c, p)), m); \
  }
#include "functions.h"
#undef GR_TTNN_LISTED
#include "functions_ttnn.h" /* its list */
#undef ROUND

#endif
