/* norm_rows.h: layer_norm and rms_norm of rows of floats, for each instruction set (norm_isa.h). All give the same bits
 * but those without fused multiply-add.
 *
 * A row's mean is found twice: in floats, then by what the differences from that add up to, which are exact where they
 * are small. Sums are in GR_NORM_LANES lanes of float for GR_NORM_SUMMED elements, then in double. Rows whose squares
 * floats may not hold, and those with what is not finite, are left to code in double.
 *
 * Included by: cpu/normalize.h. Thread: any.
 * defines: gr_norm, gr_norm_rows_chosen
 */
#ifndef GR_CPU_NORM_ROWS_H
#define GR_CPU_NORM_ROWS_H

#include "cpu/softmax_row.h"
#include "isa/has.h"

#define GR_NORM_LANES 32
#define GR_NORM_SUMMED 2048
#define GR_NORM_TURN 16                /* rows that go through each pass together */
#define GR_NORM_FLOATS 4096            /* of them at most: they stay in the nearest cache */
#define GR_NORM_MOST 1e37              /* sum of squares; of more a lane's may have overflowed */
#define GR_NORM_LEAST 1e-30            /* mean square; of less the squares may be no normal numbers */

/* Rows of n elements, one behind the other; out may be x. bias: of layer_norm; NULL: rms_norm. */
typedef struct gr_norm {
  const float *x, *scale, *bias;
  float *out;
  int64_t n;
  double epsilon;
  void (*wide)(const struct gr_norm *p, int64_t row);   /* a row in double */
} gr_norm;

GR_INLINE double gr_max_of(double a, double b) { return a > b ? a : b; }

#include "isa/any.h"
#include "norm_isa.h"
#if defined(__x86_64__)
#include "isa/avx2.h"
#include "norm_isa.h"
#include "isa/avx512.h"
#include "norm_isa.h"
#elif defined(__aarch64__)
#include "isa/neon.h"
#include "norm_isa.h"
#endif

/* The fastest form on this machine, for rows first .. last-1. */
static void (*gr_norm_rows_chosen(void))(const gr_norm *, int64_t, int64_t) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) return gr_norm_rows_avx512;
  if (GR_HAS_AVX2) return gr_norm_rows_avx2;
#elif defined(__aarch64__)
  if (GR_NEON) return gr_norm_rows_neon;
#endif
  return gr_norm_rows_any;
}

#endif
