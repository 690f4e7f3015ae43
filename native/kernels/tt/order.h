/* order.h: argmax, argmin and cumsum: what goes along one axis.
 *
 * The contract is that of ir/ops/reductions/axis.py; indices are int32 here.
 * Thread: any.
 * defines: gr_tt_number, gr_tt_argmax, gr_tt_argmin, gr_tt_cumsum
 */
#ifndef GR_TT_ORDER_H
#define GR_TT_ORDER_H

#include "tt/normalize.h"
#include "tt/reduce.h"

/* An element in its four-byte form as a number. */
static inline double gr_tt_number(const gr_arg *arg, uint32_t word) {
  if (gr_tt_is_float(arg->format)) return gr_float_of(word);
  return arg->dtype == GR_U32 ? (double)word : (double)(int32_t)word;
}

/* ---------------------------------------------------------------- argmax, argmin */

/* Whether x comes before the one found: NaN before all. */
static inline int gr_tt_arg_better(const gr_tt_reduce_job *job, double x, double found) {
  if (found != found) return x != x && job->of_equals;
  if (x != x) return 1;
  if (x == found) return job->of_equals;
  return job->greatest ? x > found : x < found;
}

static inline void gr_tt_bring_arg(const gr_tt_reduce_job *job, gr_tt_total *all, uint32_t *found, const uint32_t *x,
                                   int64_t n, int64_t at) {
  for (int64_t k = 0; k < n; ++k) {
    int64_t target = job->last ? 0 : k, index = job->last ? at + k : at;
    double value = gr_tt_number(job->in.arg, x[k]);
    if (index > 0 && !gr_tt_arg_better(job, value, all[target].real)) continue;
    all[target].real = value;
    found[target] = (uint32_t)index;
  }
}

static inline int32_t gr_tt_arg(const gr_call *call, int greatest) {
  static const gr_tt_fold fold = {.bring = gr_tt_bring_arg};
  gr_tt_reduce_job job = {.fold = &fold, .greatest = greatest, .of_equals = call->attrs[1] != 0};
  return gr_tt_reduce_run(call, (uint64_t)1 << call->attrs[0], job);
}

/* gr-kernel: tt/argmax */
static inline int32_t gr_tt_argmax(const gr_call *call) { return gr_tt_arg(call, 1); }

/* gr-kernel: tt/argmin */
static inline int32_t gr_tt_argmin(const gr_call *call) { return gr_tt_arg(call, 0); }

/* ---------------------------------------------------------------- cumsum */

typedef struct gr_tt_cumsum_job {
  gr_tt_panels cut;
  gr_tt_view in;
  int64_t steps, inner;      /* outer axis: its length, and the planes from one element to the next; else 0 */
  int floats, exclusive, reverse;
} gr_tt_cumsum_job;

/* x becomes the total up to it, or, exclusive, before it. Floats are summed as doubles, integers wrap. */
static inline void gr_tt_cumsum_one(const gr_tt_cumsum_job *job, uint32_t *x, gr_tt_total *total) {
  gr_tt_total before = *total;
  if (job->floats)
    total->real += gr_float_of(*x);
  else
    total->integer += (int32_t)*x;
  const gr_tt_total *made = job->exclusive ? &before : total;
  *x = job->floats ? gr_bits_of((float)made->real) : (uint32_t)made->integer;
}

/* The i-th of n in the order of the sum. */
static inline int64_t gr_tt_cumsum_at(const gr_tt_cumsum_job *job, int64_t i, int64_t n) {
  return job->reverse ? n - 1 - i : i;
}

/* Along the last axis: a unit is one line of panels. */
static inline int32_t gr_tt_cumsum_rows(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_cumsum_job *job = (const gr_tt_cumsum_job *)ctx;
  const gr_tt_panels *cut = &job->cut;
  uint32_t *x = (uint32_t *)(void *)c->space;
  gr_tt_total totals[32];
  memset(totals, 0, sizeof totals);
  for (int64_t i = 0; i < cut->across; ++i) {
    int64_t chunk = gr_tt_cumsum_at(job, i, cut->across);
    gr_tt_rect at = gr_tt_panel_rect(cut, unit / cut->down, unit % cut->down, chunk);
    GR_TT_TRY(gr_tt_load(c, &job->in, at, x, cut->width));
    for (int64_t r = 0; r < at.nr; ++r)
      for (int64_t j = 0; j < at.nc; ++j)
        gr_tt_cumsum_one(job, x + r * cut->width + gr_tt_cumsum_at(job, j, at.nc), &totals[r]);
    GR_TT_TRY(gr_tt_store(c, &cut->view, at, x, cut->width, 0));
  }
  return GR_OK;
}

/* Along another axis: a panel of totals, and the panels that meet in it one after the other: the lines of a plane
 * (inner = 0) or the planes of the axis. */
static inline int32_t gr_tt_cumsum_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect panel) {
  const gr_tt_cumsum_job *job = (const gr_tt_cumsum_job *)ctx;
  int64_t elements = cut->height * cut->width;
  gr_tt_total *totals = (gr_tt_total *)(void *)c->space;
  uint32_t *x = (uint32_t *)(void *)(totals + elements);
  memset(totals, 0, (size_t)elements * sizeof *totals);
  for (int64_t i = 0; i < job->steps; ++i) {
    int64_t step = gr_tt_cumsum_at(job, i, job->steps);
    gr_tt_rect at = gr_tt_step_rect(&job->cut, panel, job->steps, job->inner, step);
    GR_TT_TRY(gr_tt_load(c, &job->in, at, x, cut->width));
    for (int64_t k = 0; k < at.nr; ++k) {
      int64_t r = gr_tt_cumsum_at(job, k, at.nr);
      for (int64_t j = 0; j < at.nc; ++j)
        gr_tt_cumsum_one(job, x + r * cut->width + j, totals + (job->inner > 0 ? r * cut->width : 0) + j);
    }
    GR_TT_TRY(gr_tt_store(c, &job->cut.view, at, x, cut->width, 0));
  }
  return GR_OK;
}

/* gr-kernel: tt/cumsum */
static inline int32_t gr_tt_cumsum(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  int32_t from_back = x->ndim - 1 - (int32_t)call->attrs[0];
  gr_tt_cumsum_job job = {.cut = gr_tt_cut(call, &call->args[1], 3), .in = gr_tt_view_of(x),
                          .floats = gr_tt_is_float(x->format), .exclusive = call->attrs[1] != 0,
                          .reverse = call->attrs[2] != 0};
  uint64_t bytes = gr_tt_bytes(job.cut.height, job.cut.width);
  if (job.in.outer * job.in.rows * job.in.cols == 0) return GR_OK;
  if (from_back == 0) return gr_tt_run(call, job.in.outer * job.cut.down, bytes, gr_tt_cumsum_rows, &job);
  gr_tt_panels panels = job.cut;       /* the output without the axis */
  if (from_back == 1) {
    job.steps = job.cut.down;
    panels.down = 1;
  } else {
    job.steps = x->shape[call->attrs[0]];
    job.inner = 1;
    for (int32_t d = (int32_t)call->attrs[0] + 1; d < x->ndim - 2; ++d) job.inner *= x->shape[d];
    panels.view.outer /= job.steps;
  }
  return gr_tt_run_panels(call, &panels, 3 * bytes, gr_tt_cumsum_panel, &job);
}

#endif
