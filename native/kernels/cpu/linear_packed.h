/* linear_packed.h: dense with weights in panels, float32 only.
 *
 * defines: gr_cpu_dense_packed__f32
 */
#include "cpu/finish.h"
#include "panels.h"

static void gr_after_dense(const gr_panels *p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  gr_finish_block(p->steps, row, rows, column, columns, p->c + row * p->c_row + column, p->c_row);
}

/* gr-kernel: cpu/dense_packed : f32 */
static inline int32_t GR_BODY(dense_packed)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t k = w->shape[1], n = call->attrs[0];
  const int64_t *words = call->attrs + 1;
  gr_finish finish;
  gr_finish_open(&finish, call, words, out->ndim - 1);
  gr_panels p = {.rows = gr_span(x, 0, x->ndim - 1), .n = n, .k = k, .a = gr_ptr(x), .a_row = k, .b = gr_ptr(w),
                 .c = gr_ptr(out), .c_row = n,
                 .bias = gr_steps_own(call, words) == 3 ? gr_ptr(&call->args[2]) : NULL, .extra = finish.extra,
                 .clamp = finish.clamp, .least = finish.least, .most = finish.most,
                 .after = finish.steps.count ? gr_after_dense : NULL, .steps = &finish.steps};
  return gr_panels_run(call->env, &p);
}
