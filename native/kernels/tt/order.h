/* order.h: argmax, argmin, cumsum and topk: what goes along one axis.
 *
 * The contract is that of ir/ops/reductions/axis.py; indices are int32 here.
 * Thread: any.
 * defines: gr_tt_argmax, gr_tt_argmin, gr_tt_cumsum, gr_tt_topk
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

/* ---------------------------------------------------------------- topk */

typedef struct gr_tt_topk_job {
  gr_tt_view in, values, indices;
  int64_t k, lines;          /* lines of 32 rows in a plane */
  int64_t n, inner;          /* not the last axis: its length, and the planes from one element to the next, 0 for rows */
  int64_t across;            /* units beside each other, 32 columns each; 1: a unit has whole rows */
  int largest, total, keep;  /* total: floats by IEEE 754's totalOrder */
} gr_tt_topk_job;

static inline int64_t gr_tt_total_order(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

/* Whether x comes before y, which lies before it in the tensor: not if they are equal. NaN is the greatest, unless
 * total. */
static inline int gr_tt_topk_before(const gr_tt_topk_job *job, double x, double y) {
  int largest = job->largest;
  if (job->total) {
    int64_t p = gr_tt_total_order(x), q = gr_tt_total_order(y);
    return largest ? p > q : p < q;
  }
  if (x != x || y != y) return largest ? x != x && y == y : x == x && y != y;
  return largest ? x > y : x < y;
}

/* Element `at` of a row goes to its place among the `kept` best of those before it, whose last one falls out when
 * there are k; the number that are kept then. */
static inline int64_t gr_tt_topk_insert(const gr_tt_topk_job *job, uint32_t word, int64_t at, int64_t kept,
                                        uint32_t *values, uint32_t *indices) {
  double x = gr_tt_number(job->in.arg, word);
  if (kept == job->k && !gr_tt_topk_before(job, x, gr_tt_number(job->in.arg, values[kept - 1])))
    return kept;
  int64_t place = kept < job->k ? kept++ : kept - 1;
  for (; place > 0; --place) {
    if (!gr_tt_topk_before(job, x, gr_tt_number(job->in.arg, values[place - 1]))) break;
    values[place] = values[place - 1];
    indices[place] = indices[place - 1];
  }
  values[place] = word;
  indices[place] = (uint32_t)at;
  return kept;
}

/* Up to 32 rows. */
static inline int32_t gr_tt_topk_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_topk_job *job = (const gr_tt_topk_job *)ctx;
  uint32_t *values = (uint32_t *)(void *)c->space, *indices = values + 32 * job->k, *x = indices + 32 * job->k;
  gr_tt_rect at = {.plane = unit / job->lines, .r0 = unit % job->lines * 32};
  int64_t kept[32] = {0};
  at.nr = gr_tt_lesser(32, job->in.rows - at.r0);
  for (at.c0 = 0; at.c0 < job->in.cols; at.c0 += GR_TT_WINDOW) {
    at.nc = gr_tt_lesser(GR_TT_WINDOW, job->in.cols - at.c0);
    GR_TT_TRY(gr_tt_load(c, &job->in, at, x, GR_TT_WINDOW));
    for (int64_t r = 0; r < at.nr; ++r)
      for (int64_t j = 0; j < at.nc; ++j)
        kept[r] = gr_tt_topk_insert(job, x[r * GR_TT_WINDOW + j], at.c0 + j, kept[r], values + r * job->k,
                                    indices + r * job->k);
  }
  at.c0 = 0;
  at.nc = job->k;
  GR_TT_TRY(gr_tt_store(c, &job->values, at, values, job->k, job->keep));
  return gr_tt_store(c, &job->indices, at, indices, job->k, 0);
}

/* Along another axis each element of a block of 32 columns, and where planes are the axis of 32 rows, has a list of
 * its own. The i-th rectangle of the block, of an input whose axis has n elements or an output of k: */
static inline gr_tt_rect gr_tt_topk_rect(const gr_tt_topk_job *job, int64_t line, int64_t c0, int64_t n, int64_t i) {
  gr_tt_rect at = {.plane = line, .r0 = i, .nr = gr_tt_lesser(32, n - i), .c0 = c0};
  at.nc = gr_tt_lesser(32, job->in.cols - c0);
  if (job->inner == 0) return at;
  int64_t plane = line / job->lines;
  at.plane = (plane / job->inner * n + i) * job->inner + plane % job->inner;
  at.r0 = line % job->lines * 32;
  at.nr = gr_tt_lesser(32, job->in.rows - at.r0);
  return at;
}

static inline int32_t gr_tt_topk_store(const gr_tt_core *c, const gr_tt_topk_job *job, const gr_tt_view *to,
                                       const uint32_t *lists, int64_t line, int64_t c0, uint32_t *x, int keep) {
  for (int64_t i = 0; i < job->k; i += job->inner > 0 ? 1 : 32) {
    gr_tt_rect at = gr_tt_topk_rect(job, line, c0, job->k, i);
    for (int64_t r = 0; r < at.nr; ++r)
      for (int64_t j = 0; j < at.nc; ++j)
        x[r * 32 + j] = job->inner > 0 ? lists[(r * 32 + j) * job->k + i] : lists[j * job->k + i + r];
    GR_TT_TRY(gr_tt_store(c, to, at, x, 32, keep));
  }
  return GR_OK;
}

static inline int32_t gr_tt_topk_block(const gr_tt_core *c, const gr_tt_topk_job *job, int64_t line, int64_t c0) {
  int64_t count = (job->inner > 0 ? gr_tt_lesser(32, job->in.rows) : 1) * 32 * job->k;
  uint32_t *values = (uint32_t *)(void *)c->space, *indices = values + count, *x = indices + count;
  for (int64_t i = 0; i < job->n; i += job->inner > 0 ? 1 : 32) {
    gr_tt_rect at = gr_tt_topk_rect(job, line, c0, job->n, i);
    GR_TT_TRY(gr_tt_load(c, &job->in, at, x, 32));
    for (int64_t r = 0; r < at.nr; ++r)
      for (int64_t j = 0; j < at.nc; ++j) {
        int64_t place = job->inner > 0 ? i : i + r, list = (job->inner > 0 ? r * 32 + j : j) * job->k;
        gr_tt_topk_insert(job, x[r * 32 + j], place, gr_tt_lesser(place, job->k), values + list, indices + list);
      }
  }
  GR_TT_TRY(gr_tt_topk_store(c, job, &job->values, values, line, c0, x, job->keep));
  return gr_tt_topk_store(c, job, &job->indices, indices, line, c0, x, 0);
}

static inline int32_t gr_tt_topk_blocks(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_topk_job *job = (const gr_tt_topk_job *)ctx;
  int64_t line = unit / job->across, first = job->across > 1 ? unit % job->across * 32 : 0;
  int64_t end = job->across > 1 ? gr_tt_lesser(first + 32, job->in.cols) : job->in.cols;
  for (int64_t c0 = first; c0 < end; c0 += 32) GR_TT_TRY(gr_tt_topk_block(c, job, line, c0));
  return GR_OK;
}

/* gr-kernel: tt/topk */
static inline int32_t gr_tt_topk(const gr_call *call) {
  const gr_arg *args = call->args, *x = &args[0];
  int32_t axis = (int32_t)call->attrs[0];
  gr_tt_topk_job job = {.in = gr_tt_view_of(x), .values = gr_tt_view_of(&args[1]),
                        .indices = gr_tt_view_of(&args[2]), .largest = call->attrs[1] != 0,
                        .total = call->attrs[2] != 0, .keep = args[0].format == args[1].format, .across = 1};
  job.k = args[1].ndim > 0 ? args[1].shape[axis] : 1;
  job.lines = gr_tt_ceil_div(job.in.rows, 32);
  if (job.k == 0 || job.in.outer * job.in.rows * job.in.cols == 0) return GR_OK;
  if (axis >= x->ndim - 1)
    return gr_tt_run(call, job.in.outer * job.lines, gr_tt_bytes(32, 2 * job.k + GR_TT_WINDOW), gr_tt_topk_unit, &job);
  job.n = x->shape[axis];
  int64_t lines = job.in.outer, lists = 32;
  if (axis < x->ndim - 2) {
    job.inner = 1;
    for (int32_t d = axis + 1; d < x->ndim - 2; ++d) job.inner *= x->shape[d];
    lines = job.in.outer / job.n * job.lines;
    lists = 32 * gr_tt_lesser(32, job.in.rows);
  }
  if (args[1].layout == GR_TILE && args[2].layout == GR_TILE) job.across = gr_tt_ceil_div(job.in.cols, 32);
  return gr_tt_run(call, lines * job.across, gr_tt_bytes(1, lists * 2 * job.k + 32 * 32), gr_tt_topk_blocks, &job);
}

#endif
