/* matmul_panels.h: matmul of two activations in float32: the right operand is packed into panels (panels.h) first.
 * matmul_pairs may round both operands to bf16, which it does where the machine multiplies that faster.
 *
 * Planes are tasks where there are enough of them, else each is spread by itself. Scratch: the panels of all
 * planes of b, linear.py.
 *
 * defines: gr_cpu_matmul_panels__f32, gr_cpu_matmul_pairs__f32
 */
#include "cpu/finish.h"
#include "cpu/planes.h"

/* An epilogue that is more than a residual and a bound, and where the first plane's results lie. */
typedef struct gr_planes_steps {
  gr_finish finish;
  const float *out;
} gr_planes_steps;

static void gr_after_plane(const gr_panels *p, int64_t row, int64_t rows, int64_t column, int64_t columns,
                           float *sums, int64_t sums_row) {
  const gr_planes_steps *s = p->steps;
  gr_finish_plane(&s->finish.steps, (p->c - s->out) / (p->rows * p->n), row, rows, column, columns, sums, sums_row);
}

static inline int32_t gr_matmul_by_panels(const gr_call *call, int pairs) {
  const gr_arg *a = &call->args[0], *b = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t ta = call->attrs[0], m = out->shape[out->ndim - 2], n = out->shape[out->ndim - 1];
  int64_t a_cols = a->shape[a->ndim - 1], k = ta ? a->shape[a->ndim - 2] : a_cols;
  const int64_t *words = call->attrs + 2;
  if (gr_size(out) == 0) return GR_OK;
  gr_planes_steps last = {.out = gr_ptr(out)};
  gr_finish_open(&last.finish, call, words, out->ndim - 2, out->ndim - 1);
  gr_planes s = {.call = call, .a = a, .b = b, .out = out, .transpose_b = call->attrs[1], .panels = call->scratch,
                 .panel_plane = gr_plane_floats(k, n, pairs),
                 .plane = {.rows = m, .n = n, .k = k, .a_row = a_cols, .c_row = n, .pairs = pairs,
                           .gather = ta ? gr_gather_columns : NULL,
                           .bias = gr_steps_own(call, words) == 3 ? gr_ptr(&call->args[2]) : NULL,
                           .extra = last.finish.extra, .clamp = last.finish.clamp, .least = last.finish.least,
                           .most = last.finish.most, .after = last.finish.steps.count ? gr_after_plane : NULL,
                           .steps = &last}};
  gr_plane_steps(a, out->ndim - 2, s.a_step);
  gr_plane_steps(b, out->ndim - 2, s.b_step);
  int32_t status = gr_parallel(call->env, gr_span(b, 0, b->ndim - 2), gr_ceil_div(GR_GRAIN, gr_max(1, k * n)),
                               gr_pack_planes, &s);
  if (status) return status;
  int64_t planes = gr_span(out, 0, out->ndim - 2);
  if (planes >= 2 * (int64_t)call->env->num_cores)
    return gr_parallel(call->env, planes, gr_ceil_div(GR_PANELS_GRAIN, gr_max(1, 2 * m * n * k)),
                       gr_multiply_planes, &s);
  for (int64_t i = 0; i < planes && !status; ++i) {
    gr_panels p = gr_plane(&s, i);
    status = gr_panels_run(call->env, &p);
  }
  return status;
}

/* gr-kernel: cpu/matmul_panels : f32 */
static inline int32_t GR_BODY(matmul_panels)(const gr_call *call) { return gr_matmul_by_panels(call, 0); }

/* gr-kernel: cpu/matmul_pairs : f32 */
static inline int32_t GR_BODY(matmul_pairs)(const gr_call *call) { return gr_matmul_by_panels(call, gr_pairs_pay()); }
