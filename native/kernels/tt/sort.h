/* sort.h: topk of many elements, up to a whole sort: every line of the axis is sorted in host memory, where silicon
 * merges parts of it in DRAM.
 *
 * The contract is that of ir/ops/reductions/axis.py. Scratch: 20 bytes an element of x.
 * Thread: any.
 * defines: gr_tt_topk_sorted
 */
#ifndef GR_TT_SORT_H
#define GR_TT_SORT_H

#include "tt/work.h"

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

/* ---------------------------------------------------------------- in, sorted, out */

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
