/* fused.h: a group of elementwise ops with broadcasting, one program of steps (steps.h). Template; out may be
 * any input of its type. Words: graph_runtime/ir/ops/fused.py.
 *
 * defines: gr_cpu_fused__<suffix>
 */
#define GR_STEPS(name) GR_FN(GR_CAT(fused_steps_, name))
#include "cpu/steps_block.h"

/* The dimensions that end before `last` and are walked as one: the first of those over which every input has
 * either all elements of the output or one. */
GR_INLINE int32_t GR_FN(fused_group)(const gr_call *call, int32_t last) {
  const gr_arg *out = &call->args[call->nargs - 1];
  int32_t first = last;
  for (; first > 0; first--) {
    int64_t whole = gr_span(out, first - 1, last);
    for (int32_t i = 0; i < call->nargs - 1; i++) {
      int64_t span = gr_steps_span(&call->args[i], out->ndim, first - 1, last);
      if (span != 1 && span != whole) return first;
    }
  }
  return first;
}

typedef struct GR_FN(fused_job) {
  gr_steps steps;
  GR_T *out;
  int64_t rows, columns, height, width;    /* of a plane, and of a piece of it */
  int64_t down, across;                    /* pieces */
} GR_FN(fused_job);

/* Pieces first .. last-1. */
static int32_t GR_FN(fused_pieces)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(fused_job) *job = ctx;
  for (int64_t i = first; i < last; i++) {
    int64_t plane = i / (job->down * job->across), row = i / job->across % job->down * job->height;
    int64_t column = i % job->across * job->width;
    GR_T *out = job->out + (plane * job->rows + row) * job->columns + column;
    GR_STEPS(block)(&job->steps, plane, row, column, gr_min(job->height, job->rows - row),
                    gr_min(job->width, job->columns - column), NULL, 0, out, job->columns);
  }
  return GR_OK;
}

/* gr-kernel: cpu/fused : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(fused)(const gr_call *call) {
  const gr_arg *out = &call->args[call->nargs - 1];
  if (gr_size(out) == 0) return GR_OK;
  int32_t column = GR_FN(fused_group)(call, out->ndim), row = GR_FN(fused_group)(call, column);
  GR_FN(fused_job) job = {.out = gr_ptr(out), .rows = gr_span(out, row, column),
                          .columns = gr_span(out, column, out->ndim)};
  gr_steps_open(&job.steps, call, call->attrs, row, column);
  job.width = gr_min(job.columns, 8 * GR_STEPS_STRIP);
  job.height = gr_min(job.rows, gr_max(1, 8 * GR_STEPS_STRIP / job.width));
  job.down = gr_ceil_div(job.rows, job.height);
  job.across = gr_ceil_div(job.columns, job.width);
  int64_t cost = job.height * job.width * job.steps.count;
  return gr_parallel(call->env, gr_span(out, 0, row) * job.down * job.across, gr_ceil_div(GR_GRAIN, cost),
                     GR_FN(fused_pieces), &job);
}
#undef GR_STEPS
