/* linear_packed.h: dense with weights in panels, and dense and matmul by OpenBLAS; float32, weights in
 * panels also of bf16.
 *
 * defines: gr_cpu_dense_packed__f32, gr_cpu_dense_blas__f32, gr_cpu_matmul_blas__f32
 */
#include "cpu/finish.h"
#include "cpu/sgemm.h"
#include "panels.h"

static void gr_after_dense(const gr_panels *p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  gr_finish_block(p->steps, row, rows, column, columns, p->c + row * p->c_row + column, p->c_row);
}

/* gr-kernel: cpu/dense_packed : f32 */
static inline int32_t GR_BODY(dense_packed)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t k = x->shape[x->ndim - 1], n = call->attrs[0];
  const int64_t *words = call->attrs + 1;
  gr_finish finish;
  gr_finish_open(&finish, call, words, out->ndim - 1);
  gr_panels p = {.rows = gr_span(x, 0, x->ndim - 1), .n = n, .k = k, .a = gr_ptr(x), .a_row = k, .b = gr_ptr(w),
                 .pairs = w->dtype == GR_BF16, .c = gr_ptr(out), .c_row = n,
                 .bias = gr_steps_own(call, words) == 3 ? gr_ptr(&call->args[2]) : NULL, .extra = finish.extra,
                 .clamp = finish.clamp, .least = finish.least, .most = finish.most,
                 .after = finish.steps.count ? gr_after_dense : NULL, .steps = &finish.steps};
  return gr_panels_run(call->env, &p);
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
