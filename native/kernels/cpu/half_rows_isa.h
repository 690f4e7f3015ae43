/* half_rows_isa.h: half_rows.h for the instruction set whose header (isa/) was included before; once for each, by
 * half_rows.h only. Ends with isa/end.h.
 *
 * defines: GR_ISA(gr_widen_row), GR_ISA(gr_narrow_row)
 */
static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_widen_row)(float *to, const uint16_t *from, int64_t n) {
  int64_t i = 0;
  for (; i + GR_ISA_LANES <= n; i += GR_ISA_LANES) *(GR_V *)(to + i) = GR_ISA(gr_wide)(from + i);
#ifdef GR_ISA_MASKED
  if (i < n) GR_ISA_STORE_SOME(to + i, GR_ISA(gr_wide_some)(from + i, GR_ISA_FIRST(n - i)), GR_ISA_FIRST(n - i));
#else
  for (; i < n; i++) to[i] = gr_bf16_to_float(from[i]);
#endif
}

static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_narrow_row)(uint16_t *to, const float *from, int64_t n) {
  int64_t i = 0;
  for (; i + GR_ISA_LANES <= n; i += GR_ISA_LANES) GR_ISA(gr_narrow)(to + i, *(const GR_V *)(from + i));
#ifdef GR_ISA_MASKED
  if (i < n) GR_ISA(gr_narrow_some)(to + i, GR_ISA_LOAD_SOME(from + i, GR_ISA_FIRST(n - i)), GR_ISA_FIRST(n - i));
#else
  for (; i < n; i++) to[i] = gr_float_to_bf16(from[i]);
#endif
}
#include "isa/end.h"
