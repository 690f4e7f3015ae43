/* scatter.h: scatter_elements and scatter_nd: data with updates at places that indices say.
 *
 * The contract is that of ir/ops/moving/scatter.py; indices are int32 here. All indices are looked at before
 * any core writes. A core makes a panel of the output and looks for the updates that fall on it, in their order: so
 * no two cores write one element, and sums do not depend on how many there are. Where the output takes the data's
 * place, panels without an update are left alone.
 * Floats are joined as float32 and rounded once, when the panel is packed. Thread: any.
 * defines: gr_tt_scatter_elements, gr_tt_scatter_nd
 */
#ifndef GR_TT_SCATTER_H
#define GR_TT_SCATTER_H

#include "tt/gather.h"

enum gr_tt_joining { GR_TT_PUT, GR_TT_JOIN_ADD, GR_TT_JOIN_MULTIPLY, GR_TT_JOIN_MOST, GR_TT_JOIN_LEAST };

typedef struct gr_tt_scatter_job gr_tt_scatter_job;
typedef struct gr_tt_scatter gr_tt_scatter;

/* Applies all updates that fall on a panel. */
typedef int32_t (*gr_tt_scatter_fn)(gr_tt_scatter *s);

struct gr_tt_scatter_job {
  gr_tt_view data, indices, updates;
  gr_tt_scatter_fn apply;
  gr_tt_indices in;
  int32_t axis;              /* scatter_elements */
  int64_t count, slice;      /* scatter_nd: tuples, elements of each slice */
  int joining;               /* enum gr_tt_joining */
  int32_t keep, in_place;
};

/* One panel while it is made. */
struct gr_tt_scatter {
  const gr_tt_core *c;
  const gr_tt_scatter_job *job;
  gr_tt_rect at;
  uint32_t *out;             /* [at.nr][width] */
  int64_t width;
  int loaded;
  gr_tt_rows indices, updates;
};

/* ---------------------------------------------------------------- one update */

static inline float gr_tt_join_floats(int joining, float x, float y) {
  if (joining == GR_TT_JOIN_ADD) return x + y;
  if (joining == GR_TT_JOIN_MULTIPLY) return x * y;
  if (x != x || y != y) return x != x ? x : y;
  return (joining == GR_TT_JOIN_MOST) == (x > y) ? x : y;
}

/* Of integers and bools in their four-byte form; narrowing is the store's. */
static inline uint32_t gr_tt_join_words(uint8_t dtype, int joining, uint32_t x, uint32_t y) {
  if (joining == GR_TT_JOIN_ADD) return dtype == GR_BOOL ? x | y : x + y;
  if (joining == GR_TT_JOIN_MULTIPLY) return x * y;
  int above = dtype == GR_U32 ? x > y : (int32_t)x > (int32_t)y;
  return (joining == GR_TT_JOIN_MOST) == above ? x : y;
}

/* The panel's data, when the first update comes. */
static inline int32_t gr_tt_scatter_begin(gr_tt_scatter *s) {
  if (s->loaded) return GR_OK;
  s->loaded = 1;
  return gr_tt_load(s->c, &s->job->data, s->at, s->out, s->width);
}

static inline void gr_tt_scatter_one(const gr_tt_scatter *s, uint32_t *to, uint32_t update) {
  const gr_arg *data = s->job->data.arg;
  if (s->job->joining == GR_TT_PUT)
    *to = update;
  else if (gr_tt_is_float(data->format))
    *to = gr_bits_of(gr_tt_join_floats(s->job->joining, gr_float_of(*to), gr_float_of(update)));
  else
    *to = gr_tt_join_words(data->dtype, s->job->joining, *to, update);
}

/* ---------------------------------------------------------------- scatter_elements */

/* A row of indices. Along the last axis all of it falls on one row of the data, `row`; else its elements fall on
 * rows `row` + index * step, in their own columns. */
static inline int32_t gr_tt_scatter_row(gr_tt_scatter *s, int64_t i, int64_t row, int64_t step, int64_t first,
                                        int64_t end) {
  const gr_tt_scatter_job *job = s->job;
  const gr_arg *data = job->data.arg;
  int64_t top = s->at.plane * job->data.rows + s->at.r0, n;
  for (int64_t j = first; j < end; j += n) {
    const uint32_t *updates;
    int64_t flat = i * job->indices.cols + j;
    GR_TT_TRY(gr_tt_run_at(s->c, &s->updates, flat, &updates, &n));
    n = gr_tt_lesser(n, end - j);
    for (int64_t k = 0; k < n; ++k) {
      int64_t index;
      GR_TT_TRY(gr_tt_index(s->c, job->in.op, &s->indices, flat + k, data->shape[job->axis], &index));
      int64_t r = row + index * step - top, col = step == 0 ? index : j + k;
      if (r < 0 || r >= s->at.nr || col < s->at.c0 || col >= s->at.c0 + s->at.nc) continue;
      GR_TT_TRY(gr_tt_scatter_begin(s));
      gr_tt_scatter_one(s, s->out + r * s->width + col - s->at.c0, updates[k]);
    }
  }
  return GR_OK;
}

static inline int32_t gr_tt_scatter_panel_elements(gr_tt_scatter *s) {
  const gr_tt_scatter_job *job = s->job;
  const gr_arg *data = job->data.arg, *indices = job->indices.arg;
  int64_t top = s->at.plane * job->data.rows + s->at.r0, step = 0;
  int64_t first = 0, end = job->indices.cols, reach = 0;
  if (job->axis < data->ndim - 1) {
    step = gr_tt_span_of(data, job->axis) / job->data.cols;
    reach = (data->shape[job->axis] - 1) * step;
    first = s->at.c0;
    end = gr_tt_lesser(end, s->at.c0 + s->at.nc);
  }
  for (int64_t i = 0; i < job->indices.outer * job->indices.rows; ++i) {
    int64_t row = 0, left = i, span = 1;
    for (int32_t d = data->ndim - 2; d >= 0; --d) {
      if (d != job->axis) row += left % indices->shape[d] * span;
      left /= indices->shape[d];
      span *= data->shape[d];
    }
    if (row >= top + s->at.nr || row + reach < top) continue;
    GR_TT_TRY(gr_tt_scatter_row(s, i, row, step, first, end));
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- scatter_nd */

/* The t-th slice, which begins at data element `begin`. */
static inline int32_t gr_tt_scatter_slice(gr_tt_scatter *s, int64_t t, int64_t begin) {
  const gr_tt_scatter_job *job = s->job;
  int64_t cols = job->data.cols, top = s->at.plane * job->data.rows + s->at.r0, end = begin + job->slice;
  int64_t last = gr_tt_lesser((end - 1) / cols, top + s->at.nr - 1);
  for (int64_t row = gr_tt_greater(begin / cols, top); row <= last; ++row) {
    int64_t right = gr_tt_lesser(s->at.c0 + s->at.nc, end - row * cols), n;
    for (int64_t j = gr_tt_greater(s->at.c0, begin - row * cols); j < right; j += n) {
      const uint32_t *updates;
      GR_TT_TRY(gr_tt_run_at(s->c, &s->updates, t * job->slice + row * cols + j - begin, &updates, &n));
      GR_TT_TRY(gr_tt_scatter_begin(s));
      n = gr_tt_lesser(n, right - j);
      for (int64_t k = 0; k < n; ++k)
        gr_tt_scatter_one(s, s->out + (row - top) * s->width + j + k - s->at.c0, updates[k]);
    }
  }
  return GR_OK;
}

static inline int32_t gr_tt_scatter_panel_nd(gr_tt_scatter *s) {
  for (int64_t t = 0; t < s->job->count; ++t) {
    int64_t begin;
    GR_TT_TRY(gr_tt_tuple(s->c, s->job->in.op, &s->indices, s->job->data.arg, 0, t, &begin));
    GR_TT_TRY(gr_tt_scatter_slice(s, t, begin));
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- panels */

static inline int32_t gr_tt_scatter_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                          gr_tt_rect at) {
  const gr_tt_scatter_job *job = (const gr_tt_scatter_job *)ctx;
  uint32_t *out = (uint32_t *)(void *)c->space, *rows = out + cut->height * cut->width;
  gr_tt_scatter s = {.c = c, .job = job, .at = at, .out = out, .width = cut->width,
                     .indices = {.view = &job->indices, .data = rows, .width = GR_TT_COVER},
                     .updates = {.view = &job->updates, .data = rows + 32 * GR_TT_COVER, .width = GR_TT_COVER}};
  GR_TT_TRY(job->apply(&s));
  if (!s.loaded && job->in_place) return GR_OK;
  GR_TT_TRY(gr_tt_scatter_begin(&s));
  return gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

static inline int32_t gr_tt_scatter_run(const gr_call *call, gr_tt_scatter_job job) {
  const gr_arg *args = call->args;
  gr_tt_panels cut = gr_tt_cut(call, &args[3], 2);
  job.data = gr_tt_view_of(&args[0]);
  job.indices = gr_tt_view_of(&args[1]);
  job.updates = gr_tt_view_of(&args[2]);
  job.in_place = args[0].addr == args[3].addr && args[0].memory == args[3].memory;
  job.keep = job.joining == GR_TT_PUT && args[0].format == args[3].format && args[2].format == args[3].format;
  if (cut.view.outer * cut.view.rows * cut.view.cols == 0) return GR_OK;
  GR_TT_TRY(gr_tt_indices_fit(call, &job.in));
  return gr_tt_run_panels(call, &cut, gr_tt_bytes(cut.height, cut.width) + 2 * gr_tt_rows_bytes(GR_TT_COVER),
                          gr_tt_scatter_panel, &job);
}

/* gr-kernel: tt/scatter_elements */
static inline int32_t gr_tt_scatter_elements(const gr_call *call) {
  gr_tt_scatter_job job = {.apply = gr_tt_scatter_panel_elements, .axis = (int32_t)call->attrs[0],
                           .in = {"scatter_elements", &call->args[0].shape[call->attrs[0]], 0},
                           .joining = (int)call->attrs[1]};
  return gr_tt_scatter_run(call, job);
}

/* gr-kernel: tt/scatter_nd */
static inline int32_t gr_tt_scatter_nd(const gr_call *call) {
  const gr_arg *indices = &call->args[1];
  int32_t k = (int32_t)indices->shape[indices->ndim - 1];
  gr_tt_scatter_job job = {.apply = gr_tt_scatter_panel_nd, .in = {"scatter_nd", call->args[0].shape, 1},
                           .count = 1, .joining = (int)call->attrs[0],
                           .slice = gr_tt_span_of(&call->args[0], k - 1)};
  for (int32_t d = 0; d + 1 < indices->ndim; ++d) job.count *= indices->shape[d];
  return gr_tt_scatter_run(call, job);
}

#endif
