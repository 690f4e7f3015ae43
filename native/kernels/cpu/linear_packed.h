/* linear_packed.h: dense with weights in panels, and dense and matmul by OpenBLAS; float32, weights in
 * panels also of bf16, or of 4 and 8 bits.
 *
 * defines: gr_cpu_dense_packed__f32, gr_cpu_dense_levels__f32, gr_cpu_dense_blas__f32, gr_cpu_matmul_blas__f32
 */
#include "cpu/finish.h"
#include "cpu/sgemm.h"
#include "panels.h"

static void gr_after_dense(const gr_panels *p, int64_t row, int64_t rows, int64_t column, int64_t columns,
                           float *sums, int64_t sums_row) {
  if (p->halves)
    gr_finish_halves(p->steps, row, rows, column, columns, sums, sums_row,
                     gr_element(p->c, row * p->c_row + column, 1), p->c_row);
  else
    gr_finish_block(p->steps, row, rows, column, columns, sums, sums_row);
}

/* ``p`` says what b is; ``words`` are those of the epilogue. */
static inline int32_t gr_dense_by_panels(const gr_call *call, gr_panels p, const int64_t *words) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  gr_finish finish;
  gr_finish_open(&finish, call, words, 0, out->ndim - 1);
  p.rows = gr_span(x, 0, x->ndim - 1);
  p.n = p.c_row = call->attrs[0];
  p.k = p.a_row = x->shape[x->ndim - 1];
  p.a = gr_ptr(x);
  p.b = gr_ptr(w);
  p.c = gr_ptr(out);
  p.bias = gr_steps_own(call, words) == 3 ? gr_ptr(&call->args[2]) : NULL;
  p.extra = finish.extra;
  p.clamp = finish.clamp;
  p.least = finish.least;
  p.most = finish.most;
  p.after = finish.steps.count ? gr_after_dense : NULL;
  p.steps = &finish.steps;
  return gr_panels_run(call->env, &p);
}

/* gr-kernel: cpu/dense_packed : f32 */
static inline int32_t GR_BODY(dense_packed)(const gr_call *call) {
  gr_panels p = {.pairs = call->args[1].dtype == GR_BF16, .halves = call->args[0].dtype == GR_BF16};
  return gr_dense_by_panels(call, p, call->attrs + 1);
}

/* gr-kernel: cpu/dense_levels : f32 */
static inline int32_t GR_BODY(dense_levels)(const gr_call *call) {
  int64_t bits = call->attrs[1], block = call->attrs[2], head = call->args[1].shape[2] - block * bits * GR_PANEL / 8;
  gr_panels p = {.bits = (int)bits, .block = block, .zeros = head > 4 * GR_PANEL,
                 .rounded = call->attrs[3] & 1, .narrow = call->attrs[3] >> 1 & 1};
  return gr_dense_by_panels(call, p, call->attrs + 4);
}

/* ---------------------------------------------------------------- by OpenBLAS */

/* gr-kernel: cpu/dense_blas : f32 */
static inline int32_t GR_BODY(dense_blas)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  gr_product p = {.sgemm = gr_blas_find(call), .m = gr_span(x, 0, x->ndim - 1), .n = w->shape[0], .k = w->shape[1],
                  .transpose_b = 1, .a = gr_ptr(x), .b = gr_ptr(w), .c = gr_ptr(out),
                  .bias = gr_steps_own(call, call->attrs) == 3 ? gr_ptr(&call->args[2]) : NULL};
  gr_steps steps;
  gr_steps_open(&steps, call, call->attrs, 0, out->ndim - 1);
  p.steps = steps.count ? &steps : NULL;
  return p.sgemm ? gr_product_run(call->env, &p) : GR_ERR_KERNEL;
}

/* gr-kernel: cpu/matmul_blas : f32 */
static inline int32_t GR_BODY(matmul_blas)(const gr_call *call) {
  const gr_arg *a = &call->args[0], *b = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t ta = call->attrs[0], m = out->shape[out->ndim - 2], n = out->shape[out->ndim - 1];
  int64_t k = a->shape[a->ndim - (ta ? 2 : 1)], planes = gr_span(out, 0, out->ndim - 2);
  if (gr_size(out) == 0) return GR_OK;
  gr_products s = {.a = a, .b = b, .out = out,
                   .one = {.sgemm = gr_blas_find(call), .m = m, .n = n, .k = k, .transpose_a = ta,
                           .transpose_b = call->attrs[1],
                           .bias = call->nargs > 3 ? gr_ptr(&call->args[2]) : NULL}};
  if (!s.one.sgemm) return GR_ERR_KERNEL;
  gr_plane_steps(a, out->ndim - 2, s.a_step);
  gr_plane_steps(b, out->ndim - 2, s.b_step);
  if (planes >= 2 * (int64_t)call->env->num_cores)
    return gr_parallel(call->env, planes, gr_ceil_div(GR_PANELS_GRAIN, gr_max(1, 2 * m * n * k)), gr_products_task,
                       &s);
  int32_t status = GR_OK;
  for (int64_t i = 0; i < planes && !status; ++i) {
    gr_product p = gr_products_plane(&s, i);
    status = gr_product_run(call->env, &p);
  }
  return status;
}
