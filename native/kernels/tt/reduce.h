/* reduce.h: the reductions of folds.h over any axes, and the global pools, which are reductions of H and W.
 *
 * The contract is that of ir/ops/reductions/reduce.py. Totals are doubles in L1, of integers 64-bit ones.
 * Thread: any; a panel of the output is one core's work.
 * defines: gr_tt_reduce_run, for what finds something along an axis; gr_tt_{names of folds.h},
 * gr_tt_global_avg_pool2d, gr_tt_global_max_pool2d
 */
#ifndef GR_TT_REDUCE_H
#define GR_TT_REDUCE_H

#include <math.h>

#include "tt/rows.h"
#include "tt/work.h"

#define GR_TT_WINDOW 512    /* columns of a reduced last axis that are in L1 at a time */

/* Result of the elements of one target up to now. */
typedef union gr_tt_total {
  double real;
  int64_t integer;
} gr_tt_total;

typedef struct gr_tt_reduce_job gr_tt_reduce_job;

/* Brings x[n] into the targets: into all[0] where the last axis is reduced, else x[k] into all[k]. found: the words
 * that a target becomes; at: the first one's index along what is reduced. */
typedef void (*gr_tt_bring)(const gr_tt_reduce_job *job, gr_tt_total *all, uint32_t *found, const uint32_t *x,
                            int64_t n, int64_t at);

/* A kind of reduction. */
typedef struct gr_tt_fold {
  gr_tt_total start;        /* what nothing is reduced to */
  gr_tt_bring bring;
  /* the results of width targets, each of count elements; NULL: bring writes them itself */
  void (*end)(uint32_t *out, const gr_tt_total *all, int64_t width, int64_t count);
} gr_tt_fold;

struct gr_tt_reduce_job {
  gr_tt_view in;
  uint64_t mask;            /* bit d: axis d is reduced */
  int64_t lines;            /* rows of the input that meet in one row or element of the output */
  int64_t count;            /* elements that meet in one of the output */
  int64_t width;            /* columns of the input in L1 */
  int last, rows_last;      /* the last axis is reduced; the one before it is */
  const gr_tt_fold *fold;
  int greatest, of_equals;  /* what finds one looks for the greatest, else the least; of equals it names the last */
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
    job->fold->bring(job, all + r * cut->width + j, found + r * cut->width + j, words, nc, job->last ? c0 : line);
  }
  return GR_OK;
}

static inline int32_t gr_tt_reduce_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_reduce_job *job = (const gr_tt_reduce_job *)ctx;
  int64_t elements = cut->height * cut->width;
  gr_tt_total *all = (gr_tt_total *)(void *)c->space;
  uint32_t *out = (uint32_t *)(void *)(all + elements);
  gr_tt_rows rows = {.view = &job->in, .data = out + elements, .width = job->width};
  for (int64_t i = 0; i < elements; ++i) all[i] = job->fold->start, out[i] = 0;
  if (job->last)
    for (int64_t c0 = 0; c0 < job->in.cols; c0 += job->width) {
      int64_t nc = gr_tt_lesser(job->width, job->in.cols - c0);
      GR_TT_TRY(gr_tt_reduce_columns(c, job, cut, at, c0, nc, &rows, all, out));
    }
  else
    GR_TT_TRY(gr_tt_reduce_columns(c, job, cut, at, at.c0, at.nc, &rows, all, out));
  if (job->fold->end) job->fold->end(out, all, elements, job->count);
  return gr_tt_store(c, &cut->view, at, out, cut->width, 0);
}

/* Runs a job that says what is made of the elements, over the axes of the mask. */
static inline int32_t gr_tt_reduce_run(const gr_call *call, uint64_t mask, gr_tt_reduce_job job) {
  const gr_arg *in = &call->args[0];
  gr_tt_panels cut = gr_tt_cut(call, &call->args[1], 4);
  job.in = gr_tt_view_of(in);
  job.mask = mask;
  job.lines = 1;
  job.last = in->ndim >= 1 && (mask >> (in->ndim - 1) & 1);
  job.rows_last = in->ndim >= 2 && (mask >> (in->ndim - 2) & 1);
  for (int32_t d = 0; d + 1 < in->ndim; ++d)
    if (mask >> d & 1) job.lines *= in->shape[d];
  job.width = job.last ? gr_tt_lesser(GR_TT_WINDOW, gr_tt_greater(1, job.in.cols)) : cut.width;
  job.count = job.lines * (job.last ? job.in.cols : 1);
  uint64_t bytes = 3 * gr_tt_bytes(cut.height, cut.width) + gr_tt_rows_bytes(job.width);
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_reduce_panel, &job);
}

/* ---------------------------------------------------------------- the lines of folds.h */

#define GR_A double
#define GR_E double
#define GR_LOWEST (-(double)INFINITY)
#define GR_HIGHEST ((double)INFINITY)
#define GR_ABS(x) fabs(x)
#define GR_IS_NAN(a) ((a) != (a))
#define GR_ELEMENT(word, is_u32) gr_float_of(word)
#define GR_MEMBER real
#define GR_RESULT(a) gr_bits_of((float)(a))
#define GR_NAMED(name) gr_tt_##name##_floats
#define GR_FLOAT_FOLD GR_FOLD_PARTS
#include "tt/folded.h"

#define GR_A uint64_t
#define GR_E int64_t
#define GR_LOWEST ((uint64_t)INT64_MIN)
#define GR_HIGHEST ((uint64_t)INT64_MAX)
#define GR_ABS(x) ((int64_t)(x) < 0 ? -(x) : (x))
#define GR_IS_NAN(a) 0
#define GR_ELEMENT(word, is_u32) ((is_u32) ? (uint64_t)(word) : (uint64_t)(int32_t)(word))
#define GR_MEMBER integer
#define GR_RESULT(a) (uint32_t)(a)
#define GR_NAMED(name) gr_tt_##name##_ints
#include "tt/folded.h"

static inline int32_t gr_tt_reduce(const gr_call *call, uint64_t mask, const gr_tt_fold *fold) {
  gr_tt_reduce_job job = {.fold = fold};
  return gr_tt_reduce_run(call, mask, job);
}

/* gr-folds: tt */
#define GR_FOLD(name, start, element, joined, end)                                                   \
  static inline int32_t gr_tt_##name(const gr_call *call) {                                          \
    int floats = gr_tt_is_float(call->args[0].format);                                               \
    return gr_tt_reduce(call, (uint64_t)call->attrs[0], floats ? &gr_tt_##name##_floats : &gr_tt_##name##_ints); \
  }
/* gr-number-folds: tt */
#define GR_NUMBER_FOLD GR_FOLD
/* gr-float-folds: tt */
#define GR_FLOAT_FOLD(name, start, element, joined, end)                                             \
  static inline int32_t gr_tt_##name(const gr_call *call) {                                          \
    return gr_tt_reduce(call, (uint64_t)call->attrs[0], &gr_tt_##name##_floats);                     \
  }
#include "folds.h"

#define GR_TT_PLANES 12u    /* axes 2 and 3 of NCHW */

/* gr-kernel: tt/global_avg_pool2d */
static inline int32_t gr_tt_global_avg_pool2d(const gr_call *call) {
  return gr_tt_reduce(call, GR_TT_PLANES, &gr_tt_mean_floats);
}

/* gr-kernel: tt/global_max_pool2d */
static inline int32_t gr_tt_global_max_pool2d(const gr_call *call) {
  return gr_tt_reduce(call, GR_TT_PLANES, &gr_tt_max_floats);
}

#endif
