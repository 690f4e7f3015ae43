/* pairs.h: functions of two or three floats that broadcast, those of functions.h. Template; out may be an input.
 * Attribute words: ir/ops/elements/float_pairs.py.
 *
 * defines: gr_cpu_{pairs and triples of functions.h}__<suffix>
 */
#include "cpu/broadcast.h"
#include "cpu/scalars.h"

/* gr-pairs: cpu : f32 f64 f16 bf16 */
#define GR_PAIR(name, cost, formula)                                         \
  GR_BINARY_ROW(name, GR_T, cost, GR_STORE(GR_MATH(gr_fn_##name)(a, b)))     \
  static inline int32_t GR_BODY(name)(const gr_call *call) { return GR_FN(name##_any)(call); }

/* gr-triples: cpu : f32 f64 f16 bf16 */
#define GR_TRIPLE(name, count, cost, formula)                                \
  GR_TERNARY_ROW(name, GR_T, cost, double p = count > 0 ? gr_word(words[0]) : 0; \
                 , GR_STORE(GR_MATH(gr_fn_##name)(a, b, c, p)))              \
  static inline int32_t GR_BODY(name)(const gr_call *call) { return GR_FN(name##_any)(call); }
#include "functions.h"
