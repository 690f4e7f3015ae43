/* half_rows.h: rows of bf16 to floats and back, for each instruction set (half_rows_isa.h). Rounding is
 * gr_float_to_bf16's, bit for bit, denormals too.
 *
 * Included by: cast.h, finish.h, steps_block.h, unary.h. Thread: any.
 * defines: gr_widen_row, gr_narrow_row
 */
#ifndef GR_CPU_HALF_ROWS_H
#define GR_CPU_HALF_ROWS_H

#include "cpu/common.h"
#include "isa/has.h"

#include "isa/any.h"
#include "half_rows_isa.h"
#if defined(__x86_64__)
#include "isa/avx2.h"
#include "half_rows_isa.h"
#include "isa/avx512.h"
#include "half_rows_isa.h"
#elif defined(__aarch64__)
#include "isa/neon.h"
#include "half_rows_isa.h"
#endif

/* to[0 .. n-1] = from[0 .. n-1] in float. */
static inline void gr_widen_row(float *to, const uint16_t *from, int64_t n) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) return gr_widen_row_avx512(to, from, n);
  if (GR_HAS_AVX2) return gr_widen_row_avx2(to, from, n);
#elif defined(__aarch64__)
  if (GR_NEON) return gr_widen_row_neon(to, from, n);
#endif
  gr_widen_row_any(to, from, n);
}

/* to[0 .. n-1] = from[0 .. n-1], rounded. */
static inline void gr_narrow_row(uint16_t *to, const float *from, int64_t n) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) return gr_narrow_row_avx512(to, from, n);
  if (GR_HAS_AVX2) return gr_narrow_row_avx2(to, from, n);
#elif defined(__aarch64__)
  if (GR_NEON) return gr_narrow_row_neon(to, from, n);
#endif
  gr_narrow_row_any(to, from, n);
}

#endif
