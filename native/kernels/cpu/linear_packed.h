/* linear_packed.h: dense with weights in panels, float32 only.
 *
 * defines: gr_cpu_dense_packed__f32
 */
#include "panels.h"

/* gr-kernel: cpu/dense_packed : f32 */
static inline int32_t GR_BODY(dense_packed)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t k = w->shape[1], n = call->attrs[0];
  gr_panels p = {.rows = gr_span(x, 0, x->ndim - 1), .n = n, .k = k, .a = gr_ptr(x), .a_row = k, .b = gr_ptr(w),
                 .c = gr_ptr(out), .c_row = n, .bias = call->nargs > 3 ? gr_ptr(&call->args[2]) : NULL};
  return gr_panels_run(call->env, &p);
}
