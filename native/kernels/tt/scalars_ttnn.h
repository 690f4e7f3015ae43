/* scalars_ttnn.h: the lines of functions_ttnn.h as C functions of floats: gr_ttnn_silu(a, p, q, m), and what they make
 * of whole rows, gr_ttnn_row_silu.
 *
 * Included by: unary.h, pairs.h, program.h, elementwise.h. Thread: any.
 * defines: gr_ttnn_of, gr_ttnn_operand, gr_ttnn_{names of functions_ttnn.h}
 */
#ifndef GR_TT_SCALARS_TTNN_H
#define GR_TT_SCALARS_TTNN_H

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
#define GR_TTNN_TRIPLE(name, formula)                                            \
  static inline float gr_ttnn_##name(float a, float b, float c, float p, gr_sfpu m) { \
    (void)p;                                                                     \
    a = gr_ttnn_operand(a);                                                      \
    b = gr_ttnn_operand(b);                                                      \
    c = gr_ttnn_operand(c);                                                      \
    return gr_sfpu_result(formula, m);                                           \
  }
#include "functions_ttnn.h"

#endif
