/* sgemm.h: products by the sgemm of OpenBLAS, where it was opened (gr_blas.h). float32 only.
 *
 * OpenBLAS runs on the calling thread; a product is cut along its longer side into a piece a thread, planes of
 * a batch are pieces where there are enough of them. A bias is what the sums begin with; an epilogue runs on a
 * piece's rows once they are done.
 *
 * Included by: linear_packed.h. Thread: any; gr_product_run spreads the work over the pool.
 * defines: gr_product, gr_product_run, gr_products, gr_products_plane, gr_products_task, gr_blas_find
 */
#ifndef GR_CPU_SGEMM_H
#define GR_CPU_SGEMM_H

#include "cpu/finish.h"
#include "cpu/planes.h"
#include "gr_blas.h"

#define GR_BLAS_ROWS 64                /* of a finished piece that go through an epilogue at a time */

enum { gr_blas_row_major = 101, gr_blas_plain = 111, gr_blas_transposed = 112 };

typedef struct gr_product {
  gr_sgemm_fn sgemm;
  int64_t m, n, k;
  int64_t transpose_a, transpose_b;    /* a lies as [k, m], b as [n, k] */
  const float *a, *b, *bias;           /* bias: NULL or [n] */
  float *c;
  const gr_steps *steps;               /* NULL: no epilogue */
  int64_t row_piece, column_piece;
} gr_product;

/* Rows row .. row_end-1 and columns column .. column_end-1 of C. */
static void gr_product_part(const gr_product *p, int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
  int64_t rows = row_end - row, columns = column_end - column;
  int64_t a_row = gr_max(1, p->transpose_a ? p->m : p->k), b_row = gr_max(1, p->transpose_b ? p->k : p->n);
  const float *a = p->a + (p->transpose_a ? row : row * a_row);
  const float *b = p->b + (p->transpose_b ? column * b_row : column);
  float *c = p->c + row * p->n + column;
  for (int64_t i = 0; p->bias && i < rows; ++i) memcpy(c + i * p->n, p->bias + column, (size_t)columns * 4);
  p->sgemm(gr_blas_row_major, p->transpose_a ? gr_blas_transposed : gr_blas_plain,
           p->transpose_b ? gr_blas_transposed : gr_blas_plain, (int32_t)rows, (int32_t)columns, (int32_t)p->k, 1.0f,
           a, (int32_t)a_row, b, (int32_t)b_row, p->bias ? 1.0f : 0.0f, c, (int32_t)p->n);
  for (int64_t i = 0; p->steps && i < rows; i += GR_BLAS_ROWS)
    gr_finish_block(p->steps, row + i, gr_min(GR_BLAS_ROWS, rows - i), column, columns, c + i * p->n, p->n);
}

static int32_t gr_product_task(void *ctx, int64_t index) {
  const gr_product *p = ctx;
  int64_t pieces = gr_ceil_div(p->m, p->row_piece);
  int64_t row = index % pieces * p->row_piece, column = index / pieces * p->column_piece;
  gr_product_part(p, row, gr_min(p->m, row + p->row_piece), column, gr_min(p->n, column + p->column_piece));
  return GR_OK;
}

static int32_t gr_product_run(const gr_env *env, gr_product *p) {
  if (p->m == 0 || p->n == 0) return GR_OK;
  int64_t pieces = gr_min((int64_t)env->num_cores, 2 * p->m * p->n * gr_max(p->k, 1) / GR_PANELS_GRAIN);
  pieces = gr_max(1, pieces);
  int by_columns = p->n >= p->m;
  p->row_piece = by_columns ? p->m : gr_ceil_div(p->m, pieces);
  p->column_piece = by_columns ? gr_ceil_div(gr_ceil_div(p->n, pieces), GR_PANEL) * GR_PANEL : p->n;
  return env->parallel_for(env, gr_ceil_div(p->m, p->row_piece) * gr_ceil_div(p->n, p->column_piece),
                           gr_product_task, p);
}

/* The library, or NULL once the error is told. */
static gr_sgemm_fn gr_blas_find(const gr_call *call) {
  gr_sgemm_fn sgemm = gr_blas_sgemm ? gr_blas_sgemm() : NULL;
  if (!sgemm) gr_refuse(call, "the kernel needs OpenBLAS, which nobody has opened");
  return sgemm;
}

/* The planes of a batch. */
typedef struct gr_products {
  gr_product one;                      /* without a, b, c */
  const gr_arg *a, *b, *out;
  int64_t a_step[GR_MAX_DIMS], b_step[GR_MAX_DIMS];
} gr_products;

static gr_product gr_products_plane(const gr_products *s, int64_t index) {
  gr_product p = s->one;
  int64_t a = gr_plane_at(index, s->out->ndim - 2, s->out->shape, s->a_step);
  int64_t b = gr_plane_at(index, s->out->ndim - 2, s->out->shape, s->b_step);
  p.a = (const float *)gr_ptr(s->a) + a * p.m * p.k;
  p.b = (const float *)gr_ptr(s->b) + b * p.k * p.n;
  p.c = (float *)gr_ptr(s->out) + index * p.m * p.n;
  return p;
}

static int32_t gr_products_task(void *ctx, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    gr_product p = gr_products_plane(ctx, i);
    gr_product_part(&p, 0, p.m, 0, p.n);
  }
  return GR_OK;
}

#endif
