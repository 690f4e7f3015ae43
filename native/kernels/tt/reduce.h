/* reduce.h: sum, mean, prod, max and min over any axes, and the global pools, which are reductions of H and W.
 *
 * The contract is that of graph_runtime/ops/reduce.py. Accumulators are doubles in L1. Thread: any; a panel
 * of the output is one core's work.
 * defines: gr_tt_sum, gr_tt_mean, gr_tt_prod, gr_tt_max, gr_tt_min, gr_tt_global_avg_pool2d,
 * gr_tt_global_max_pool2d
 */
#ifndef GR_TT_REDUCE_H
#define GR_TT_REDUCE_H

#include <math.h>

#include "tt/rows.h"
#include "tt/work.h"

#define GR_TT_WINDOW 512    /* columns of a reduced last axis that are in L1 at a time */

enum gr_tt_reduction { GR_TT_SUM, GR_TT_MOST, GR_TT_LEAST, GR_TT_PRODUCT };

typedef struct gr_tt_reduce_job {
  gr_tt_view in;
  uint64_t mask;            /* bit d: axis d is reduced */
  int64_t lines;            /* rows of the input that meet in one row or element of the output */
  int64_t width;            /* columns of the input in L1 */
  int last, rows_last;      /* the last axis is reduced; the one before it is */
  int kind;                 /* enum gr_tt_reduction */
  double divisor;
} gr_tt_reduce_job;

/* Index among all input rows of the reduced-th of those that belong to the kept-th output row or element. */
static inline int64_t gr_tt_reduce_row(const gr_tt_reduce_job *job, int64_t kept, int64_t reduced) {
  int64_t row = 0, stride = 1;
  for (int32_t d = job->in.arg->ndim - 2; d >= 0; --d) {
    int64_t n = job->in.arg->shape[d], *from = job->mask >> d & 1 ? &reduced : &kept;
    row += *from % n * stride;
    *from /= n;
    stride *= n;
  }
  return row;
}

static inline double gr_tt_reduce_two(int kind, double a, double b) {
  if (kind == GR_TT_SUM) return a + b;
  if (kind == GR_TT_PRODUCT) return a * b;
  return (kind == GR_TT_MOST ? b > a : b < a) || b != b ? b : a;
}

/* What nothing is reduced to. */
static inline double gr_tt_reduce_first(int kind) {
  if (kind == GR_TT_SUM) return 0.0;
  return kind == GR_TT_PRODUCT ? 1.0 : kind == GR_TT_MOST ? -(double)INFINITY : (double)INFINITY;
}

/* Four chains, so that the additions need not wait for each other. */
static inline double gr_tt_reduce_line(int kind, const float *x, int64_t n) {
  double first = gr_tt_reduce_first(kind), part[4] = {first, first, first, first};
  for (int64_t i = 0; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < 4; ++k) part[k] = gr_tt_reduce_two(kind, part[k], x[i + k]);
  for (int64_t i = n / 4 * 4; i < n; ++i) part[0] = gr_tt_reduce_two(kind, part[0], x[i]);
  return gr_tt_reduce_two(kind, gr_tt_reduce_two(kind, part[0], part[1]),
                          gr_tt_reduce_two(kind, part[2], part[3]));
}

/* Brings input columns c0 .. c0+nc-1 into the sums of one panel: a row adds to a row, or its total to one
 * element. */
static inline int32_t gr_tt_reduce_columns(const gr_tt_core *c, const gr_tt_reduce_job *job,
                                           const gr_tt_panels *cut, gr_tt_rect at, int64_t c0, int64_t nc,
                                           gr_tt_rows *rows, double *sums) {
  int64_t wide = job->last ? at.nc : 1, targets = at.nr * wide;
  for (int64_t i = 0; i < targets * job->lines; ++i) {
    /* walk along the input's rows: neighbours lie in one tile */
    int64_t target = job->rows_last ? i / job->lines : i % targets;
    int64_t line = job->rows_last ? i % job->lines : i / targets;
    int64_t r = target / wide, j = target % wide, kept = at.plane * cut->view.rows + at.r0 + r;
    const uint32_t *words;
    if (job->last) kept = kept * cut->view.cols + at.c0 + j;
    GR_TT_TRY(gr_tt_rows_at(c, rows, gr_tt_reduce_row(job, kept, line), c0, nc, &words));
    const float *x = (const float *)(const void *)words;
    double *sum = sums + r * cut->width + j;
    if (job->last)
      *sum = gr_tt_reduce_two(job->kind, *sum, gr_tt_reduce_line(job->kind, x, nc));
    else
      for (int64_t k = 0; k < nc; ++k) sum[k] = gr_tt_reduce_two(job->kind, sum[k], x[k]);
  }
  return GR_OK;
}

static inline int32_t gr_tt_reduce_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_reduce_job *job = (const gr_tt_reduce_job *)ctx;
  int64_t elements = cut->height * cut->width;
  double *sums = (double *)(void *)c->space;
  float *out = (float *)(void *)(sums + elements);
  gr_tt_rows rows = {.view = &job->in, .data = (uint32_t *)(void *)(out + elements), .width = job->width};
  for (int64_t i = 0; i < elements; ++i) sums[i] = gr_tt_reduce_first(job->kind);
  if (job->last)
    for (int64_t c0 = 0; c0 < job->in.cols; c0 += job->width) {
      int64_t nc = gr_tt_lesser(job->width, job->in.cols - c0);
      GR_TT_TRY(gr_tt_reduce_columns(c, job, cut, at, c0, nc, &rows, sums));
    }
  else
    GR_TT_TRY(gr_tt_reduce_columns(c, job, cut, at, at.c0, at.nc, &rows, sums));
  for (int64_t i = 0; i < elements; ++i) out[i] = (float)(sums[i] / job->divisor);
  return gr_tt_store(c, &cut->view, at, out, cut->width, 0);
}

static inline int32_t gr_tt_reduce(const gr_call *call, uint64_t mask, int kind, int average) {
  const gr_arg *in = &call->args[0];
  gr_tt_panels cut = gr_tt_cut(call, &call->args[1], 4);
  gr_tt_reduce_job job = {.in = gr_tt_view_of(in), .mask = mask, .lines = 1, .kind = kind, .divisor = 1.0};
  job.last = in->ndim >= 1 && (mask >> (in->ndim - 1) & 1);
  job.rows_last = in->ndim >= 2 && (mask >> (in->ndim - 2) & 1);
  for (int32_t d = 0; d + 1 < in->ndim; ++d)
    if (mask >> d & 1) job.lines *= in->shape[d];
  job.width = job.last ? gr_tt_lesser(GR_TT_WINDOW, gr_tt_greater(1, job.in.cols)) : cut.width;
  if (average) job.divisor = (double)(job.lines * (job.last ? job.in.cols : 1));
  uint64_t bytes = 3 * gr_tt_bytes(cut.height, cut.width) + gr_tt_rows_bytes(job.width);
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_reduce_panel, &job);
}

/* gr-kernel: tt/sum */
static inline int32_t gr_tt_sum(const gr_call *call) {
  return gr_tt_reduce(call, (uint64_t)call->attrs[0], GR_TT_SUM, 0);
}

/* gr-kernel: tt/mean */
static inline int32_t gr_tt_mean(const gr_call *call) {
  return gr_tt_reduce(call, (uint64_t)call->attrs[0], GR_TT_SUM, 1);
}

/* gr-kernel: tt/max */
static inline int32_t gr_tt_max(const gr_call *call) {
  return gr_tt_reduce(call, (uint64_t)call->attrs[0], GR_TT_MOST, 0);
}

/* gr-kernel: tt/min */
static inline int32_t gr_tt_min(const gr_call *call) {
  return gr_tt_reduce(call, (uint64_t)call->attrs[0], GR_TT_LEAST, 0);
}

/* gr-kernel: tt/prod */
static inline int32_t gr_tt_prod(const gr_call *call) {
  return gr_tt_reduce(call, (uint64_t)call->attrs[0], GR_TT_PRODUCT, 0);
}

#define GR_TT_PLANES 12u    /* axes 2 and 3 of NCHW */

/* gr-kernel: tt/global_avg_pool2d */
static inline int32_t gr_tt_global_avg_pool2d(const gr_call *call) {
  return gr_tt_reduce(call, GR_TT_PLANES, GR_TT_SUM, 1);
}

/* gr-kernel: tt/global_max_pool2d */
static inline int32_t gr_tt_global_max_pool2d(const gr_call *call) {
  return gr_tt_reduce(call, GR_TT_PLANES, GR_TT_MOST, 0);
}

#endif
