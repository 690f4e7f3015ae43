/* gemm.h: C += A B on float32 panels, the inner loop of products and convolutions.
 *
 * A is row-major, B lies in stripes of 16 columns. Every sum runs over k in order, so results depend neither
 * on blocking and threads nor on the vector width: the widest that the machine has is chosen at run time,
 * and all compute the same bits. Two kinds of arithmetic (enum gr_gemm_kind).
 *
 * Included by: kernel bodies. Thread: any.
 * defines: GR_STRIPE, gr_gemm_kind, gr_gemm, gr_gemm_run
 */
#ifndef GR_GEMM_H
#define GR_GEMM_H

#include <stdint.h>
#include <string.h>

#include "isa/has.h"

#define GR_STRIPE 16

enum gr_gemm_kind {
  GR_GEMM_FUSED,      /* a product and its sum are rounded once */
  GR_GEMM_DST16       /* fused sums of 16 products from zero, each added to C, which is rounded to bf16: to
                       * nearest, ties away from zero, denormals to +0 */
};

typedef struct gr_gemm {
  int64_t rows, stripes, k;
  const float *a;            /* a[row * a_row + k] */
  int64_t a_row;
  const float *b;            /* b[stripe * b_stripe + (b_at ? b_at[k] : k * GR_STRIPE) + column] */
  int64_t b_stripe;
  const int32_t *b_at;
  float *c;                  /* c[row * c_row + stripe * GR_STRIPE + column] */
  int64_t c_row;
} gr_gemm;

/* ---------------------------------------------------------------- one a machine */

#include "isa/any.h"
typedef double gr_doubles __attribute__((vector_size(32)));
typedef int64_t gr_longs __attribute__((vector_size(32)));

/* x * y + z of floats, rounded once, where no instruction does it. The product is exact in double. What the sum loses
 * there is known (Knuth's TwoSum), and makes its last bit odd: so the rounding to float that follows is as of the exact
 * sum (Boldo, Melquiond: Emulation of FMA and correctly rounded sums). */
static inline gr_floats_any gr_fused_any(gr_floats_any x, gr_floats_any y, gr_floats_any z) {
  gr_doubles product = __builtin_convertvector(x, gr_doubles) * __builtin_convertvector(y, gr_doubles);
  gr_doubles addend = __builtin_convertvector(z, gr_doubles), sum = product + addend, part = sum - product;
  gr_doubles lost = (product - (sum - part)) + (addend - part);
  gr_longs bits = (gr_longs)sum, up = (lost > 0) == (sum > 0), even = (bits & 1) - 1;
  bits += even & ((lost > 0) | (lost < 0)) & (-2 * up - 1);      /* up: -1 or 0; a NaN is neither > nor < */
  return __builtin_convertvector((gr_doubles)bits, gr_floats_any);
}

#define GR_ISA_ROWS 4
#define GR_ISA_STRIPES 1
#undef GR_ISA_FUSED
#define GR_ISA_FUSED(x, y, z) gr_fused_any(x, y, z)
#include "gemm_isa.h"

#if defined(__x86_64__)
#include "isa/avx2.h"
#define GR_ISA_ROWS 4
#define GR_ISA_STRIPES 1
#include "gemm_isa.h"

#include "isa/avx512.h"
#define GR_ISA_ROWS 8
#define GR_ISA_STRIPES 2
#include "gemm_isa.h"
#elif defined(__aarch64__)
#include "isa/neon.h"
#define GR_ISA_ROWS 6
#define GR_ISA_STRIPES 1
#include "gemm_isa.h"
#endif

/* ---------------------------------------------------------------- the one entry */

static inline void gr_gemm_run(const gr_gemm *g, int kind) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) {
    gr_gemm_run_avx512(g, kind);
    return;
  }
  if (GR_HAS_AVX2) {
    gr_gemm_run_avx2(g, kind);
    return;
  }
#elif defined(__aarch64__)
  if (GR_NEON) {
    gr_gemm_run_neon(g, kind);
    return;
  }
#endif
  gr_gemm_run_any(g, kind);
}

#endif
