/* gr_blas.h: the one function that kernels use of a BLAS that may be installed.
 *
 * Included by: native/core/blas.c, which finds it, and native/kernels/cpu/sgemm.h, which calls it. A library of kernels
 * compiled by itself sees no such symbol: the reference is weak, and its kernels say so.
 *
 * defines: gr_sgemm_fn, gr_blas_sgemm
 */
#ifndef GR_BLAS_H
#define GR_BLAS_H

#include <stdint.h>

/* cblas_sgemm with 32-bit integers: layout, transpose of a and b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc. */
typedef void (*gr_sgemm_fn)(int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, float, const float *, int32_t,
                            const float *, int32_t, float, float *, int32_t);

/* NULL before gr_blas_open has found one. Any thread. */
gr_sgemm_fn gr_blas_sgemm(void) __attribute__((weak));

#endif
