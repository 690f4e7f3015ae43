/* products.c: matrix products of libraries that were compiled with -libs=cblas, mkl or dnnl: by OpenBLAS where it is
 * open (extra "blas") and the elements are f32, else by loops over the pool, in the elements' own type.
 *
 * Called by operators (TVMFuncCall), on any thread.
 * defines: tvm.contrib.{cblas, mkl, mkldnn, dnnl}.matmul, tvm.contrib.{cblas, mkl}.batch_matmul,
 * tvm.contrib.mkl.matmul_u8s8s32
 */
#include <string.h>

#include "arguments.h"
#include "gr_blas.h"
#include "parallel.h"
#include "tvm_backend.h"

#define ROW_MAJOR 101
#define PLAIN 111
#define TRANSPOSED 112

/* C [m, n] = alpha A B + beta C; element (i, k) of A is at i * ai + k * ak, (k, j) of B at k * bk + j * bj. */
typedef struct product {
  const void *a, *b;
  void *c;
  int64_t m, n, k, ai, ak, bk, bj;
  double alpha, beta;
  int32_t bits;                /* 32, 64; 8: u8 by s8 into s32 */
} product;

#define LOOPS(T)                                                                                          \
  do {                                                                                                    \
    const T *a = (const T *)p->a + i * p->ai, *b = p->b;                                                  \
    T *c = (T *)p->c + i * p->n;                                                                          \
    for (int64_t j = 0; j < p->n; ++j) c[j] = p->beta == 0 ? 0 : (T)p->beta * c[j];                       \
    for (int64_t k = 0; k < p->k; ++k) {                                                                  \
      T x = (T)p->alpha * a[k * p->ak];                                                                   \
      for (int64_t j = 0; j < p->n; ++j) c[j] += x * b[k * p->bk + j * p->bj];                            \
    }                                                                                                     \
  } while (0)

static int32_t row(void *ctx, int64_t i) {
  const product *p = ctx;
  if (p->bits == 32) LOOPS(float);
  else if (p->bits == 64) LOOPS(double);
  else {
    const uint8_t *a = (const uint8_t *)p->a + i * p->ai;
    const int8_t *b = p->b;
    int32_t *c = (int32_t *)p->c + i * p->n;
    for (int64_t j = 0; j < p->n; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < p->k; ++k) sum += a[k * p->ak] * b[k * p->bk + j * p->bj];
      c[j] = (int32_t)((double)sum * p->alpha + (p->beta == 0 ? 0 : p->beta * c[j]));
    }
  }
  return 0;
}

static int32_t run_product(const product *p) {
  gr_sgemm_fn sgemm = p->bits == 32 ? gr_blas_sgemm() : NULL;
  int64_t most = INT32_MAX;
  if (!sgemm || p->m > most || p->n > most || p->k > most || !p->m || !p->n || !p->k)
    return gr_pool_run(p->m, row, (void *)p);
  /* both steps of a transposed matrix of one row are 1: it is plain only where a row lies within its step, as BLAS
   * leaves C alone otherwise */
  int plain_a = p->ak == 1 && p->ai >= p->k, plain_b = p->bj == 1 && p->bk >= p->n;
  int32_t lda = (int32_t)(plain_a ? p->ai : p->ak), ldb = (int32_t)(plain_b ? p->bk : p->bj);
  sgemm(ROW_MAJOR, plain_a ? PLAIN : TRANSPOSED, plain_b ? PLAIN : TRANSPOSED, (int32_t)p->m, (int32_t)p->n,
        (int32_t)p->k, (float)p->alpha, p->a, lda, p->b, ldb, (float)p->beta, p->c, (int32_t)p->n);
  return 0;
}

/* Rows and columns of the last two dimensions as they are used; a transposed one is read the other way round. */
typedef struct side {
  int64_t batches, rows, cols, row_step, col_step;
} side;

static side side_of(const tvm_tensor *t, int64_t transposed) {
  int64_t rows = t->shape[t->ndim - 2], cols = t->shape[t->ndim - 1];
  side plain = {t->ndim == 3 ? t->shape[0] : 1, rows, cols, cols, 1};
  return transposed ? (side){plain.batches, cols, rows, 1, cols} : plain;
}

/* (A, B, C, transpose A, transpose B[, alpha, beta]) of `ndim` dimensions. bits: 0 for f32 or f64, by C. */
static int32_t multiply(const tvm_call *call, int32_t ndim, int32_t bits) {
  tvm_tensor *t[3];
  int64_t ta, tb;
  double alpha = 1, beta = 0;
  for (int32_t i = 0; i < 3; ++i)
    if (!(t[i] = tvm_tensor_arg(call, i))) return -1;
  if (!tvm_int_arg(call, 3, &ta) || !tvm_int_arg(call, 4, &tb)) return -1;
  if (call->count > 5 && !tvm_float_arg(call, 5, &alpha)) return -1;
  if (call->count > 6 && !tvm_float_arg(call, 6, &beta)) return -1;
  if (t[0]->ndim != ndim || t[1]->ndim != ndim || t[2]->ndim != ndim)
    return gr_fail(GR_ERR_KERNEL, "%s: matrices have %d dimensions", call->name, ndim), -1;
  if (!bits) bits = t[2]->dtype_bits == 64 ? 64 : 32;
  int floats = tvm_is(t[0], TVM_DL_FLOAT, bits) && tvm_is(t[1], TVM_DL_FLOAT, bits) && tvm_is(t[2], TVM_DL_FLOAT, bits);
  int bytes = tvm_is(t[0], TVM_DL_UINT, 8) && tvm_is(t[1], TVM_DL_INT, 8) && tvm_is(t[2], TVM_DL_INT, 32);
  if (bits == 8 ? !bytes : !floats)
    return gr_fail(GR_ERR_KERNEL, "%s: cannot multiply these dtypes", call->name), -1;
  side a = side_of(t[0], ta), b = side_of(t[1], tb), c = side_of(t[2], 0);
  if (a.cols != b.rows || c.rows != a.rows || c.cols != b.cols || (a.batches != c.batches && a.batches != 1) ||
      (b.batches != c.batches && b.batches != 1))
    return gr_fail(GR_ERR_KERNEL, "%s: [%lld, %lld] by [%lld, %lld] is not [%lld, %lld]", call->name, (long long)a.rows,
                   (long long)a.cols, (long long)b.rows, (long long)b.cols, (long long)c.rows, (long long)c.cols), -1;
  int64_t wide = bits == 8 ? 1 : bits / 8, out = bits == 64 ? 8 : 4;
  for (int64_t i = 0; i < c.batches; ++i) {
    product p = {(const char *)tvm_data(t[0]) + (a.batches == 1 ? 0 : i) * a.rows * a.cols * wide,
                 (const char *)tvm_data(t[1]) + (b.batches == 1 ? 0 : i) * b.rows * b.cols * wide,
                 (char *)tvm_data(t[2]) + i * c.rows * c.cols * out,
                 c.rows, c.cols, a.cols, a.row_step, a.col_step, b.row_step, b.col_step, alpha, beta, bits};
    int32_t status = run_product(&p);
    if (status) return -1;
  }
  return 0;
}

/* ---------------------------------------------------------------- the functions */

#define FUNCTION(symbol, name, ndim, bits)  \
  static int32_t symbol(TVM_PARAMETERS) {   \
    TVM_CALL(name);                         \
    return multiply(&call, ndim, bits);     \
  }

FUNCTION(matmul, "a product of matrices", 2, 0)
FUNCTION(batch_matmul, "a product of batches of matrices", 3, 0)
FUNCTION(matmul_bytes, "tvm.contrib.mkl.matmul_u8s8s32", 2, 8)

__attribute__((constructor)) static void register_products(void) {
  gr_tvm_provide("tvm.contrib.cblas.matmul", matmul);
  gr_tvm_provide("tvm.contrib.mkl.matmul", matmul);
  gr_tvm_provide("tvm.contrib.mkldnn.matmul", matmul);
  gr_tvm_provide("tvm.contrib.dnnl.matmul", matmul);
  gr_tvm_provide("tvm.contrib.cblas.batch_matmul", batch_matmul);
  gr_tvm_provide("tvm.contrib.mkl.batch_matmul", batch_matmul);
  gr_tvm_provide("tvm.contrib.mkl.matmul_u8s8s32", matmul_bytes);
}
