/* reduce.h: sum, mean, prod, max and min over any axes, and the global pools, which are reductions of H and W.
 *
 * The contract is that of graph_runtime/ir/ops/reduce.py. Accumulators are doubles in L1, of integers 64-bit ones.
 * Thread: any; a panel of the output is one core's work.
 * defines: gr_tt_reduce_run, for what finds something along an axis; gr_tt_sum, gr_tt_mean, gr_tt_prod, gr_tt_max,
 * gr_tt_min, gr_tt_global_avg_pool2d, gr_tt_global_max_pool2d
 */
#ifndef GR_TT_REDUCE_H
#define GR_TT_REDUCE_H

#include <math.h>

#include "tt/rows.h"
#include "tt/work.h"

#define GR_TT_WINDOW 512    /* columns of a reduced last axis that are in L1 at a time */

enum gr_tt_reduction { GR_TT_SUM, GR_TT_MOST, GR_TT_LEAST, GR_TT_PRODUCT };

/* What has been made of the elements of one target up to now. */
typedef union gr_tt_total {
  double real;
  int64_t integer;
} gr_tt_total;

typedef struct gr_tt_reduce_job gr_tt_reduce_job;

/* Brings x[n] into the targets: into all[0] where the last axis is reduced, else x[k] into all[k]. found: the words
 * that a target becomes; at: the first one's index along what is reduced. */
typedef void (*gr_tt_fold)(const gr_tt_reduce_job *job, gr_tt_total *all, uint32_t *found, const uint32_t *x,
                           int64_t n, int64_t at);

struct gr_tt_reduce_job {
  gr_tt_view in;
  uint64_t mask;            /* bit d: axis d is reduced */
  int64_t lines;            /* rows of the input that meet in one row or element of the output */
  int64_t width;            /* columns of the input in L1 */
  int last, rows_last;      /* the last axis is reduced; the one before it is */
  int kind;                 /* enum gr_tt_reduction */
  double divisor;
  gr_tt_fold fold;
  gr_tt_total first;        /* what nothing is reduced to */
  int finds, of_equals;     /* the fold writes the results itself; of equal elements it names the last */
};

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

static inline void gr_tt_fold_floats(const gr_tt_reduce_job *job, gr_tt_total *all, uint32_t *found,
                                     const uint32_t *words, int64_t n, int64_t at) {
  const float *x = (const float *)(const void *)words;
  (void)found, (void)at;
  if (job->last)
    all->real = gr_tt_reduce_two(job->kind, all->real, gr_tt_reduce_line(job->kind, x, n));
  else
    for (int64_t k = 0; k < n; ++k) all[k].real = gr_tt_reduce_two(job->kind, all[k].real, x[k]);
}

/* An integer or bool from its four-byte form. */
static inline int64_t gr_tt_reduce_integer(const gr_tt_reduce_job *job, uint32_t word) {
  return job->in.arg->dtype == GR_U32 ? (int64_t)word : (int64_t)(int32_t)word;
}

/* Sums and products wrap: they are computed as unsigned. */
static inline void gr_tt_fold_ints(const gr_tt_reduce_job *job, gr_tt_total *all, uint32_t *found,
                                   const uint32_t *x, int64_t n, int64_t at) {
  (void)found, (void)at;
  for (int64_t k = 0; k < n; ++k) {
    int64_t *total = &all[job->last ? 0 : k].integer, value = gr_tt_reduce_integer(job, x[k]);
    if (job->kind == GR_TT_SUM)
      *total = (int64_t)((uint64_t)*total + (uint64_t)value);
    else if (job->kind == GR_TT_PRODUCT)
      *total = (int64_t)((uint64_t)*total * (uint64_t)value);
    else
      *total = job->kind == GR_TT_MOST ? gr_tt_greater(*total, value) : gr_tt_lesser(*total, value);
  }
}

/* Brings input columns c0 .. c0+nc-1 into the targets of one panel: a row goes to a row, or all of it to one
 * element. */
static inline int32_t gr_tt_reduce_columns(const gr_tt_core *c, const gr_tt_reduce_job *job,
                                           const gr_tt_panels *cut, gr_tt_rect at, int64_t c0, int64_t nc,
                                           gr_tt_rows *rows, gr_tt_total *all, uint32_t *found) {
  int64_t wide = job->last ? at.nc : 1, targets = at.nr * wide;
  for (int64_t i = 0; i < targets * job->lines; ++i) {
    /* walk along the input's rows: neighbours lie in one tile */
    int64_t target = job->rows_last ? i / job->lines : i % targets;
    int64_t line = job->rows_last ? i % job->lines : i / targets;
    int64_t r = target / wide, j = target % wide, kept = at.plane * cut->view.rows + at.r0 + r;
    const uint32_t *words;
    if (job->last) kept = kept * cut->view.cols + at.c0 + j;
    GR_TT_TRY(gr_tt_rows_at(c, rows, gr_tt_reduce_row(job, kept, line), c0, nc, &words));
    job->fold(job, all + r * cut->width + j, found + r * cut->width + j, words, nc, job->last ? c0 : line);
  }
  return GR_OK;
}

static inline int32_t gr_tt_reduce_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_reduce_job *job = (const gr_tt_reduce_job *)ctx;
  int64_t elements = cut->height * cut->width;
  int floats = gr_tt_is_float(job->in.arg->format);
  gr_tt_total *all = (gr_tt_total *)(void *)c->space;
  uint32_t *out = (uint32_t *)(void *)(all + elements);
  gr_tt_rows rows = {.view = &job->in, .data = out + elements, .width = job->width};
  for (int64_t i = 0; i < elements; ++i) all[i] = job->first, out[i] = 0;
  if (job->last)
    for (int64_t c0 = 0; c0 < job->in.cols; c0 += job->width) {
      int64_t nc = gr_tt_lesser(job->width, job->in.cols - c0);
      GR_TT_TRY(gr_tt_reduce_columns(c, job, cut, at, c0, nc, &rows, all, out));
    }
  else
    GR_TT_TRY(gr_tt_reduce_columns(c, job, cut, at, at.c0, at.nc, &rows, all, out));
  for (int64_t i = 0; i < elements && !job->finds; ++i)
    out[i] = floats ? gr_bits_of((float)(all[i].real / job->divisor)) : (uint32_t)all[i].integer;
  return gr_tt_store(c, &cut->view, at, out, cut->width, 0);
}

/* Runs a job that says what is made of the elements, over the axes of the mask. */
static inline int32_t gr_tt_reduce_run(const gr_call *call, uint64_t mask, gr_tt_reduce_job job, int average) {
  const gr_arg *in = &call->args[0];
  gr_tt_panels cut = gr_tt_cut(call, &call->args[1], 4);
  job.in = gr_tt_view_of(in);
  job.mask = mask;
  job.lines = 1;
  job.divisor = 1.0;
  job.last = in->ndim >= 1 && (mask >> (in->ndim - 1) & 1);
  job.rows_last = in->ndim >= 2 && (mask >> (in->ndim - 2) & 1);
  for (int32_t d = 0; d + 1 < in->ndim; ++d)
    if (mask >> d & 1) job.lines *= in->shape[d];
  job.width = job.last ? gr_tt_lesser(GR_TT_WINDOW, gr_tt_greater(1, job.in.cols)) : cut.width;
  if (average) job.divisor = (double)(job.lines * (job.last ? job.in.cols : 1));
  uint64_t bytes = 3 * gr_tt_bytes(cut.height, cut.width) + gr_tt_rows_bytes(job.width);
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_reduce_panel, &job);
}

static inline int32_t gr_tt_reduce(const gr_call *call, uint64_t mask, int kind, int average) {
  static const int64_t ints[] = {[GR_TT_SUM] = 0, [GR_TT_MOST] = INT64_MIN, [GR_TT_LEAST] = INT64_MAX,
                                 [GR_TT_PRODUCT] = 1};
  gr_tt_reduce_job job = {.kind = kind, .fold = gr_tt_fold_floats, .first = {.real = gr_tt_reduce_first(kind)}};
  if (!gr_tt_is_float(call->args[0].format)) job.fold = gr_tt_fold_ints, job.first.integer = ints[kind];
  return gr_tt_reduce_run(call, mask, job, average);
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
