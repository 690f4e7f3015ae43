/* slice.h: slice and slice_update: output rows come from rows of the inputs at a stride.
 *
 * The contract is that of ir/ops/moving/slicing.py. Where input and output have one format, bits are
 * kept. Thread: any.
 * defines: gr_tt_slice, gr_tt_slice_update
 */
#ifndef GR_TT_SLICE_H
#define GR_TT_SLICE_H

#include "tt/move.h"
#include "tt/rows.h"
#include "tt/work.h"

/* Along one dimension: element i of the slice is element start + i * step of x. */
typedef struct gr_tt_stride {
  int64_t start, step;
} gr_tt_stride;

/* Dimension d, counted from the back; beyond the first it is one element. */
static inline gr_tt_stride gr_tt_stride_of(const int64_t *words, int32_t ndim, int32_t from_back) {
  int32_t d = ndim - 1 - from_back;
  return d < 0 ? (gr_tt_stride){0, 1} : (gr_tt_stride){words[2 * d], words[2 * d + 1]};
}

/* ---------------------------------------------------------------- slice */

typedef struct gr_tt_slice_job {
  const gr_call *call;
  gr_tt_view x;
  int32_t keep;
} gr_tt_slice_job;

static inline int64_t gr_tt_slice_plane(const gr_tt_slice_job *job, const gr_arg *out, int64_t plane) {
  int64_t at = 0, stride = 1;
  for (int32_t d = out->ndim - 3; d >= 0; --d) {
    gr_tt_stride s = {job->call->attrs[2 * d], job->call->attrs[2 * d + 1]};
    at += (s.start + plane % out->shape[d] * s.step) * stride;
    plane /= out->shape[d];
    stride *= job->x.arg->shape[d];
  }
  return at;
}

static inline int32_t gr_tt_slice_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                        gr_tt_rect at) {
  const gr_tt_slice_job *job = (const gr_tt_slice_job *)ctx;
  const gr_arg *x = job->x.arg;
  gr_tt_stride down = gr_tt_stride_of(job->call->attrs, x->ndim, 1);
  gr_tt_stride right = gr_tt_stride_of(job->call->attrs, x->ndim, 0);
  int64_t plane = gr_tt_slice_plane(job, cut->view.arg, at.plane);
  int64_t distance = right.step < 0 ? -right.step : right.step;
  uint32_t *out = (uint32_t *)(void *)c->space;
  gr_tt_rows rows = {.view = &job->x, .data = out + cut->height * cut->width, .width = GR_TT_COVER};
  int64_t most = (GR_TT_COVER - 1) / distance + 1;       /* elements under one cover */
  for (int64_t j = 0; j < at.nc; j += most) {
    int64_t n = gr_tt_lesser(most, at.nc - j), first = right.start + (at.c0 + j) * right.step;
    int64_t left = right.step < 0 ? first + (n - 1) * right.step : first;
    for (int64_t r = 0; r < at.nr; ++r) {
      const uint32_t *row;
      int64_t from = plane * job->x.rows + down.start + (at.r0 + r) * down.step;
      GR_TT_TRY(gr_tt_rows_at(c, &rows, from, left, (n - 1) * distance + 1, &row));
      for (int64_t i = 0; i < n; ++i) out[r * cut->width + j + i] = row[first - left + i * right.step];
    }
  }
  return gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

/* gr-kernel: tt/slice */
static inline int32_t gr_tt_slice(const gr_call *call) {
  gr_tt_panels cut = gr_tt_cut(call, &call->args[1], 2);
  gr_tt_slice_job job = {call, gr_tt_view_of(&call->args[0]), gr_tt_same_format(call, 1)};
  uint64_t bytes = gr_tt_bytes(cut.height, cut.width) + gr_tt_rows_bytes(GR_TT_COVER);
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_slice_panel, &job);
}

/* ---------------------------------------------------------------- slice_update */

typedef struct gr_tt_update_job {
  const gr_call *call;
  gr_tt_view x, update;
  int32_t keep, in_place;
} gr_tt_update_job;

/* Index of the update, of count, that falls on element i of x; -1 if none does. */
static inline int64_t gr_tt_update_at(gr_tt_stride s, int64_t count, int64_t i) {
  int64_t k = (i - s.start) / s.step;
  return k >= 0 && k < count && s.start + k * s.step == i ? k : -1;
}

/* The plane of update that falls on a plane of x; -1 if none. */
static inline int64_t gr_tt_update_plane(const gr_tt_update_job *job, int64_t plane) {
  const gr_arg *x = job->x.arg, *update = job->update.arg;
  int64_t at = 0, stride = 1;
  for (int32_t d = x->ndim - 3; d >= 0; --d) {
    gr_tt_stride s = {job->call->attrs[2 * d], job->call->attrs[2 * d + 1]};
    int64_t k = gr_tt_update_at(s, update->shape[d], plane % x->shape[d]);
    if (k < 0) return -1;
    at += k * stride;
    plane /= x->shape[d];
    stride *= update->shape[d];
  }
  return at;
}

/* The update's columns that fall on columns at.c0 .. of x: from *first on, so many. */
static inline int64_t gr_tt_update_columns(gr_tt_stride s, int64_t count, gr_tt_rect at, int64_t *first) {
  int64_t last = -1;
  *first = count;
  for (int64_t j = at.c0; j < at.c0 + at.nc; ++j) {
    int64_t k = gr_tt_update_at(s, count, j);
    if (k < 0) continue;
    *first = gr_tt_lesser(*first, k);
    last = gr_tt_greater(last, k);
  }
  return last < 0 ? 0 : last - *first + 1;
}

static inline int32_t gr_tt_update_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_update_job *job = (const gr_tt_update_job *)ctx;
  int32_t ndim = job->x.arg->ndim;
  gr_tt_stride down = gr_tt_stride_of(job->call->attrs, ndim, 1);
  gr_tt_stride right = gr_tt_stride_of(job->call->attrs, ndim, 0);
  uint32_t *out = (uint32_t *)(void *)c->space;
  gr_tt_rows rows = {.view = &job->update, .data = out + cut->height * cut->width, .width = cut->width};
  int64_t plane = gr_tt_update_plane(job, at.plane), first, changed = 0;
  int64_t count = gr_tt_update_columns(right, job->update.cols, at, &first);
  int hit = plane >= 0 && count > 0;
  if (!hit && job->in_place) return GR_OK;
  GR_TT_TRY(gr_tt_load(c, &job->x, at, out, cut->width));
  for (int64_t r = 0; r < at.nr && hit; ++r) {
    const uint32_t *row;
    int64_t k = gr_tt_update_at(down, job->update.rows, at.r0 + r);
    if (k < 0) continue;
    changed = 1;
    GR_TT_TRY(gr_tt_rows_at(c, &rows, plane * job->update.rows + k, first, count, &row));
    for (int64_t i = 0; i < count; ++i)
      out[r * cut->width + right.start + (first + i) * right.step - at.c0] = row[i];
  }
  return job->in_place && !changed ? GR_OK : gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

/* gr-kernel: tt/slice_update */
static inline int32_t gr_tt_slice_update(const gr_call *call) {
  const gr_arg *x = &call->args[0], *out = &call->args[2];
  gr_tt_panels cut = gr_tt_cut(call, out, 2);
  gr_tt_update_job job = {call, gr_tt_view_of(x), gr_tt_view_of(&call->args[1]), gr_tt_same_format(call, 2),
                          x->addr == out->addr && x->memory == out->memory};
  uint64_t bytes = gr_tt_bytes(cut.height, cut.width) + gr_tt_rows_bytes(cut.width);
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_update_panel, &job);
}

#endif
