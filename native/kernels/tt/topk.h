/* topk.h: topk, which keeps the best elements of a line in L1, and topk_sorted for more of them, up to a whole sort:
 * every line of the axis is sorted in host memory, where silicon merges parts of it in DRAM.
 *
 * The contract is that of ir/ops/reductions/axis.py; indices are int32 here. Scratch of topk_sorted: 20 bytes an
 * element of x.
 * Thread: any.
 * defines: gr_tt_topk, gr_tt_topk_sorted
 */
#ifndef GR_TT_TOPK_H
#define GR_TT_TOPK_H

#include "tt/order.h"

/* ---------------------------------------------------------------- the best of a line */

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

/* ---------------------------------------------------------------- whole lines, sorted */

typedef struct gr_tt_sort_job {
  gr_tt_view in;
  int64_t n, k, inner;       /* length of the axis, elements kept, elements from one of the axis to the next */
  int largest, total;        /* total: floats by IEEE 754's totalOrder */
  int keep, of_values;       /* of the output that is stored */
  uint64_t *items, *spare;   /* [lines][n] order << 32 | place on the axis */
  uint32_t *words;           /* [lines][n] the elements in their four-byte form */
} gr_tt_sort_job;

/* Where element `at` of a tensor whose axis has m elements lies among [lines][n]. */
static inline int64_t gr_tt_sort_at(const gr_tt_sort_job *job, int64_t at, int64_t m) {
  int64_t line = at / (job->inner * m) * job->inner + at % job->inner;
  return line * job->n + at / job->inner % m;
}

/* A number that grows as elements do: of floats -0 is 0 and NaN the greatest, unless total. */
static inline uint32_t gr_tt_sort_order(const gr_tt_sort_job *job, uint32_t word) {
  const uint32_t sign = 0x80000000u, infinity = 0x7F800000u;
  uint32_t order = word ^ sign;
  if (gr_tt_is_float(job->in.arg->format)) {
    if (!job->total && (word & ~sign) > infinity) word = ~sign;
    if (!job->total && word == sign) word = 0;
    order = word & sign ? ~word : word | sign;
  } else if (job->in.arg->dtype == GR_U32) {
    order = word;
  }
  return job->largest ? ~order : order;
}

static inline int32_t gr_tt_sort_take(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut, gr_tt_rect at) {
  const gr_tt_sort_job *job = (const gr_tt_sort_job *)ctx;
  uint32_t *x = (uint32_t *)(void *)c->space;
  GR_TT_TRY(gr_tt_load(c, &job->in, at, x, cut->width));
  for (int64_t r = 0; r < at.nr; ++r) {
    int64_t first = (at.plane * job->in.rows + at.r0 + r) * job->in.cols + at.c0;
    for (int64_t j = 0; j < at.nc; ++j) {
      int64_t to = gr_tt_sort_at(job, first + j, job->n);
      uint32_t word = x[r * cut->width + j];
      job->words[to] = word;
      job->items[to] = (uint64_t)gr_tt_sort_order(job, word) << 32 | (uint64_t)(to % job->n);
    }
  }
  return GR_OK;
}

/* A line by the bytes of the order, the last one first: equal elements stay as they are. */
static inline int32_t gr_tt_sort_line(const gr_tt_core *c, const void *ctx, int64_t line) {
  const gr_tt_sort_job *job = (const gr_tt_sort_job *)ctx;
  uint64_t *from = job->items + line * job->n, *to = job->spare + line * job->n;
  int64_t starts[4][256] = {{0}};
  (void)c;
  for (int64_t i = 0; i < job->n; ++i)
    for (int32_t b = 0; b < 4; ++b) starts[b][from[i] >> (32 + 8 * b) & 255] += 1;
  for (int32_t b = 0; b < 4; ++b) {
    if (starts[b][from[0] >> (32 + 8 * b) & 255] == job->n) continue;   /* all have the same byte */
    int64_t next = 0;
    for (int32_t v = 0; v < 256; ++v) {
      int64_t count = starts[b][v];
      starts[b][v] = next;
      next += count;
    }
    for (int64_t i = 0; i < job->n; ++i) to[starts[b][from[i] >> (32 + 8 * b) & 255]++] = from[i];
    uint64_t *other = from;
    from = to;
    to = other;
  }
  if (from != job->items + line * job->n) memcpy(to, from, (size_t)job->n * sizeof *to);
  return GR_OK;
}

static inline int32_t gr_tt_sort_give(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut, gr_tt_rect at) {
  const gr_tt_sort_job *job = (const gr_tt_sort_job *)ctx;
  uint32_t *x = (uint32_t *)(void *)c->space;
  for (int64_t r = 0; r < at.nr; ++r) {
    int64_t first = (at.plane * cut->view.rows + at.r0 + r) * cut->view.cols + at.c0;
    for (int64_t j = 0; j < at.nc; ++j) {
      int64_t from = gr_tt_sort_at(job, first + j, job->k);
      uint32_t place = (uint32_t)job->items[from];
      x[r * cut->width + j] = job->of_values ? job->words[from / job->n * job->n + place] : place;
    }
  }
  return gr_tt_store(c, &cut->view, at, x, cut->width, job->keep);
}

static inline int32_t gr_tt_sort_panels(const gr_call *call, const gr_arg *of, gr_tt_panel_fn panel,
                                        const gr_tt_sort_job *job) {
  gr_tt_panels cut = gr_tt_cut(call, of, 1);
  return gr_tt_run_panels(call, &cut, gr_tt_bytes(cut.height, cut.width), panel, job);
}

/* gr-kernel: tt/topk_sorted */
static inline int32_t gr_tt_topk_sorted(const gr_call *call) {
  const gr_arg *args = call->args, *x = &args[0];
  int32_t axis = (int32_t)call->attrs[0];
  gr_tt_sort_job job = {.in = gr_tt_view_of(x), .n = 1, .k = 1, .inner = 1, .largest = call->attrs[1] != 0,
                        .total = call->attrs[2] != 0};
  if (x->ndim > 0) job.n = x->shape[axis], job.k = args[1].shape[axis];
  for (int32_t d = axis + 1; d < x->ndim; ++d) job.inner *= x->shape[d];
  int64_t size = job.in.outer * job.in.rows * job.in.cols;
  if (job.k == 0 || size == 0) return GR_OK;
  job.items = (uint64_t *)call->scratch;
  job.spare = job.items + size;
  job.words = (uint32_t *)(void *)(job.spare + size);
  GR_TT_TRY(gr_tt_sort_panels(call, x, gr_tt_sort_take, &job));
  GR_TT_TRY(gr_tt_run(call, size / job.n, 0, gr_tt_sort_line, &job));
  GR_TT_TRY(gr_tt_sort_panels(call, &args[2], gr_tt_sort_give, &job));
  job.of_values = 1;
  job.keep = x->format == args[1].format;
  return gr_tt_sort_panels(call, &args[1], gr_tt_sort_give, &job);
}

#endif
