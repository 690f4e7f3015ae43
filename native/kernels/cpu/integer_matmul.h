/* integer_matmul.h: matmul of integers, which wraps. Template; linear.h has floats and int32.
 *
 * defines: gr_cpu_matmul__<suffix>
 */
#include "cpu/common.h"

typedef struct GR_FN(product) {
  const GR_T *a, *b;
  GR_T *out;
  int64_t m, n, k, a_row, a_col, b_row, b_col;
  int32_t batch;
  const int64_t *shape;        /* of the output */
  int64_t a_plane[GR_MAX_DIMS], b_plane[GR_MAX_DIMS]; /* strides in planes */
} GR_FN(product);

/* Rows first .. last-1 of the output, counted over all planes. */
static int32_t GR_FN(product_rows)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(product) *p = ctx;
  int64_t none[GR_MAX_DIMS], a, b;
  for (int64_t row = first; row < last; row++) {
    gr_seek(row / p->m, p->batch, p->shape, none, &a, p->a_plane, &b, p->b_plane);
    const GR_T *left = p->a + a * p->m * p->k + row % p->m * p->a_row, *right = p->b + b * p->k * p->n;
    for (int64_t j = 0; j < p->n; j++) {
      GR_U sum = 0;
      for (int64_t i = 0; i < p->k; i++) {
        sum += (GR_U)GR_LOAD(left[i * p->a_col]) * (GR_U)GR_LOAD(right[i * p->b_row + j * p->b_col]);
      }
      p->out[row * p->n + j] = GR_STORE((GR_C)sum);
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/matmul : i8 i16 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(matmul)(const gr_call *call) {
  const gr_arg *a = &call->args[0], *b = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t ta = call->attrs[0], tb = call->attrs[1];
  if (gr_size(out) == 0) return GR_OK;
  GR_FN(product) p = {.a = gr_ptr(a), .b = gr_ptr(b), .out = gr_ptr(out), .batch = out->ndim - 2};
  int64_t a_cols = a->shape[a->ndim - 1], b_cols = b->shape[b->ndim - 1];
  p.shape = out->shape;
  p.m = out->shape[p.batch];
  p.n = out->shape[p.batch + 1];
  p.k = ta ? a->shape[a->ndim - 2] : a_cols;
  p.a_row = ta ? 1 : a_cols;
  p.a_col = ta ? a_cols : 1;
  p.b_row = tb ? 1 : b_cols;
  p.b_col = tb ? b_cols : 1;
  gr_arg planes[2] = {*a, *b};
  planes[0].ndim -= 2;
  planes[1].ndim -= 2;
  gr_strides(&planes[0], p.batch, p.a_plane);
  gr_strides(&planes[1], p.batch, p.b_plane);
  return gr_parallel(call->env, gr_size(out) / p.n, gr_ceil_div(GR_GRAIN, gr_max(1, p.n * p.k)),
                     GR_FN(product_rows), &p);
}
