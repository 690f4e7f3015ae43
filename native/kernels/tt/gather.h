/* gather.h: take, take_along_axis and gather_nd: runs of output elements come from where indices say.
 *
 * The contracts are those of ir/ops/moving/movement.py and scatter.py; indices are int32 here. Where data and
 * output have one format, bits are kept. Thread: any; a core makes a panel of the output.
 * All indices are looked at before anything is written.
 * defines: gr_tt_index, gr_tt_indices, gr_tt_indices_fit, gr_tt_tuple, gr_tt_take, gr_tt_take_along_axis,
 *          gr_tt_gather_nd
 */
#ifndef GR_TT_GATHER_H
#define GR_TT_GATHER_H

#include <stdio.h>

#include "tt/scan.h"

/* ---------------------------------------------------------------- indices */

/* Records it, and returns GR_ERR_KERNEL. */
static inline int32_t gr_tt_bad_index(const gr_tt_core *c, const char *op, int64_t index, int64_t size) {
  char text[96];
  snprintf(text, sizeof text, "%s: index %lld is out of range for %lld elements", op, (long long)index,
           (long long)size);
  return c->env->set_error(c->env, text);
}

/* The i-th index, counted from the front of `size` elements. Fails where it is out of range; op is its name. */
static inline int32_t gr_tt_index(const gr_tt_core *c, const char *op, gr_tt_rows *indices, int64_t i, int64_t size,
                                  int64_t *out) {
  const uint32_t *word;
  int64_t n;
  GR_TT_TRY(gr_tt_run_at(c, indices, i, &word, &n));
  int64_t index = (int32_t)*word;
  *out = index < 0 ? index + size : index;
  return *out >= 0 && *out < size ? GR_OK : gr_tt_bad_index(c, op, index, size);
}

/* Units of indices: column j of them counts sizes[j * step] elements. */
typedef struct gr_tt_indices {
  const char *op;
  const int64_t *sizes;
  int64_t step;
} gr_tt_indices;

static inline int32_t gr_tt_indices_row(const gr_tt_core *c, const void *job, const uint32_t *row, int64_t c0,
                                        int64_t n) {
  const gr_tt_indices *in = (const gr_tt_indices *)job;
  for (int64_t j = 0; j < n; ++j) {
    int64_t index = (int32_t)row[j], size = in->sizes[(c0 + j) * in->step];
    if (index >= -size && index < size) continue;
    gr_tt_bad_index(c, in->op, index, size);
    return GR_ERR_REFUSED;
  }
  return GR_OK;
}

/* Fails where one of the call's indices is out of range. */
static inline int32_t gr_tt_indices_fit(const gr_call *call, const gr_tt_indices *in) {
  return gr_tt_scan(call, &call->args[1], gr_tt_indices_row, in);
}

/* Elements that one step along dimension d spans. */
static inline int64_t gr_tt_span_of(const gr_arg *arg, int32_t d) {
  int64_t span = 1;
  for (int32_t e = d + 1; e < arg->ndim; ++e) span *= arg->shape[e];
  return span;
}

/* The first element of the slice that the t-th tuple of indices [.., k] names, in dimensions `batch` .. batch+k-1
 * of the data and counted inside of these. */
static inline int32_t gr_tt_tuple(const gr_tt_core *c, const char *op, gr_tt_rows *indices, const gr_arg *data,
                                  int64_t batch, int64_t t, int64_t *out) {
  const gr_arg *arg = indices->view->arg;
  int64_t k = arg->shape[arg->ndim - 1];
  *out = 0;
  for (int64_t j = 0; j < k; ++j) {
    int64_t index;
    GR_TT_TRY(gr_tt_index(c, op, indices, t * k + j, data->shape[batch + j], &index));
    *out += index * gr_tt_span_of(data, (int32_t)(batch + j));
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- runs of the output */

typedef struct gr_tt_gather_job gr_tt_gather_job;

/* Source of output element `to`, and the number of elements that follow it from there on. */
typedef int32_t (*gr_tt_locate)(const gr_tt_core *c, const gr_tt_gather_job *job, gr_tt_rows *indices, int64_t to,
                                int64_t *from, int64_t *run);

struct gr_tt_gather_job {
  gr_tt_view data, indices;
  gr_tt_locate locate;
  gr_tt_indices in;
  int32_t axis;              /* gather_nd: the batch dimensions */
  int64_t size, count, after; /* elements along the axis, indices, elements after the axis or in a slice */
  int32_t keep;
};

/* A piece of a row at a time: as far as one index, one panel and what is in L1 reach. */
static inline int32_t gr_tt_gather_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_gather_job *job = (const gr_tt_gather_job *)ctx;
  uint32_t *out = (uint32_t *)(void *)c->space;
  gr_tt_rows data = {.view = &job->data, .data = out + cut->height * cut->width, .width = GR_TT_COVER};
  gr_tt_rows indices = {.view = &job->indices, .data = data.data + 32 * GR_TT_COVER, .width = GR_TT_COVER};
  for (int64_t r = 0; r < at.nr; ++r)
    for (int64_t j = 0, n; j < at.nc; j += n) {
      int64_t to = (at.plane * cut->view.rows + at.r0 + r) * cut->view.cols + at.c0 + j, from, run;
      const uint32_t *words;
      GR_TT_TRY(job->locate(c, job, &indices, to, &from, &run));
      GR_TT_TRY(gr_tt_run_at(c, &data, from, &words, &n));
      n = gr_tt_lesser(gr_tt_lesser(n, run), at.nc - j);
      memcpy(out + r * cut->width + j, words, (size_t)n * 4);
    }
  return gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

static inline int32_t gr_tt_gather(const gr_call *call, gr_tt_gather_job job) {
  gr_tt_panels cut = gr_tt_cut(call, &call->args[2], 2);
  job.data = gr_tt_view_of(&call->args[0]);
  job.indices = gr_tt_view_of(&call->args[1]);
  job.keep = call->args[0].format == call->args[2].format;
  if (cut.view.outer * cut.view.rows * cut.view.cols == 0) return GR_OK;
  GR_TT_TRY(gr_tt_indices_fit(call, &job.in));
  return gr_tt_run_panels(call, &cut, gr_tt_bytes(cut.height, cut.width) + 2 * gr_tt_rows_bytes(GR_TT_COVER),
                          gr_tt_gather_panel, &job);
}

/* ---------------------------------------------------------------- take */

/* data is [before, size, after], the output [before, count, after]. */
static inline int32_t gr_tt_take_from(const gr_tt_core *c, const gr_tt_gather_job *job, gr_tt_rows *indices,
                                      int64_t to, int64_t *from, int64_t *run) {
  int64_t index, slice = to / job->after;
  GR_TT_TRY(gr_tt_index(c, job->in.op, indices, slice % job->count, job->size, &index));
  *from = (slice / job->count * job->size + index) * job->after + to % job->after;
  *run = job->after - to % job->after;
  return GR_OK;
}

/* gr-kernel: tt/take */
static inline int32_t gr_tt_take(const gr_call *call) {
  const gr_arg *x = &call->args[0], *indices = &call->args[1];
  gr_tt_gather_job job = {.locate = gr_tt_take_from, .in = {"take", &x->shape[call->attrs[0]], 0},
                          .size = x->shape[call->attrs[0]], .count = 1,
                          .after = gr_tt_span_of(x, (int32_t)call->attrs[0])};
  for (int32_t d = 0; d < indices->ndim; ++d) job.count *= indices->shape[d];
  return gr_tt_gather(call, job);
}

/* ---------------------------------------------------------------- take_along_axis */

/* An index for each output element, whose place is that of the data's but along the axis. */
static inline int32_t gr_tt_take_along_from(const gr_tt_core *c, const gr_tt_gather_job *job, gr_tt_rows *indices,
                                            int64_t to, int64_t *from, int64_t *run) {
  const gr_arg *data = job->data.arg, *arg = job->indices.arg;
  int64_t index, left = to, span = 1;
  GR_TT_TRY(gr_tt_index(c, job->in.op, indices, to, job->size, &index));
  *from = 0;
  for (int32_t d = data->ndim - 1; d >= 0; --d) {
    *from += (d == job->axis ? index : left % arg->shape[d]) * span;
    left /= arg->shape[d];
    span *= data->shape[d];
  }
  *run = 1;
  return GR_OK;
}

/* gr-kernel: tt/take_along_axis */
static inline int32_t gr_tt_take_along_axis(const gr_call *call) {
  gr_tt_gather_job job = {.locate = gr_tt_take_along_from, .axis = (int32_t)call->attrs[0],
                          .in = {"take_along_axis", &call->args[0].shape[call->attrs[0]], 0},
                          .size = call->args[0].shape[call->attrs[0]]};
  return gr_tt_gather(call, job);
}

/* ---------------------------------------------------------------- gather_nd */

/* A tuple for each slice of `after` elements, `count` of them a batch, whose data are `size` elements. */
static inline int32_t gr_tt_gather_nd_from(const gr_tt_core *c, const gr_tt_gather_job *job, gr_tt_rows *indices,
                                           int64_t to, int64_t *from, int64_t *run) {
  int64_t t = to / job->after;
  GR_TT_TRY(gr_tt_tuple(c, job->in.op, indices, job->data.arg, job->axis, t, from));
  *from += t / job->count * job->size + to % job->after;
  *run = job->after - to % job->after;
  return GR_OK;
}

/* gr-kernel: tt/gather_nd */
static inline int32_t gr_tt_gather_nd(const gr_call *call) {
  const gr_arg *x = &call->args[0], *indices = &call->args[1];
  int32_t batch = (int32_t)call->attrs[0], k = (int32_t)indices->shape[indices->ndim - 1];
  gr_tt_gather_job job = {.locate = gr_tt_gather_nd_from, .in = {"gather_nd", x->shape + batch, 1},
                          .axis = batch, .size = 1, .count = 1,
                          .after = gr_tt_span_of(x, batch + k - 1)};
  for (int32_t d = batch; d < x->ndim; ++d) job.size *= x->shape[d];
  for (int32_t d = batch; d + 1 < indices->ndim; ++d) job.count *= indices->shape[d];
  return gr_tt_gather(call, job);
}

#endif
