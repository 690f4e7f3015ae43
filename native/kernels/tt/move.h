/* move.h: transpose and concatenate: every panel of the output gathers rectangles of the inputs.
 *
 * The contract is that of ir/ops/moving/movement.py. Where input and output have one format, bits are
 * kept. Thread: any.
 * defines: gr_tt_transpose, gr_tt_concatenate
 */
#ifndef GR_TT_MOVE_H
#define GR_TT_MOVE_H

#include "tt/work.h"

/* All inputs are stored as the output is, so bits can be kept. */
static inline int gr_tt_same_format(const gr_call *call, int32_t inputs) {
  for (int32_t i = 0; i < inputs; ++i)
    if (call->args[i].format != call->args[call->nargs - 1].format) return 0;
  return 1;
}

/* ---------------------------------------------------------------- transpose */

typedef struct gr_tt_transpose_job {
  gr_tt_view in;
  const int64_t *perm;
  int32_t ndim, keep;
} gr_tt_transpose_job;

/* Stride of one step along input dimension d: in columns, rows or planes of the input. */
typedef struct gr_tt_step {
  int64_t plane, row, col;
} gr_tt_step;

static inline gr_tt_step gr_tt_step_of(const gr_arg *in, int64_t d) {
  gr_tt_step step = {.plane = 1};
  if (d == in->ndim - 1) return (gr_tt_step){.col = 1};
  if (d == in->ndim - 2) return (gr_tt_step){.row = 1};
  for (int64_t k = d + 1; k < in->ndim - 2; ++k) step.plane *= in->shape[k];
  return step;
}

/* The input element at row 0, column 0 of an output plane. */
static inline gr_tt_rect gr_tt_transpose_origin(const gr_tt_transpose_job *job, const gr_arg *out,
                                                int64_t plane) {
  gr_tt_rect at = {.nr = 1, .nc = 1};
  for (int32_t d = job->ndim - 3; d >= 0; --d) {
    gr_tt_step step = gr_tt_step_of(job->in.arg, job->perm[d]);
    int64_t i = plane % out->shape[d];
    plane /= out->shape[d];
    at.plane += i * step.plane;
    at.r0 += i * step.row;
    at.c0 += i * step.col;
  }
  return at;
}

/* An output panel whose rows walk along one input dimension and whose columns along another. Those that are
 * rows or columns of the input too come as one rectangle; the others are separate planes, read one by one. */
static inline int32_t gr_tt_transpose_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                            gr_tt_rect at) {
  const gr_tt_transpose_job *job = (const gr_tt_transpose_job *)ctx;
  uint32_t *out = (uint32_t *)(void *)c->space, *piece = out + cut->height * cut->width;
  gr_tt_step down = gr_tt_step_of(job->in.arg, job->perm[job->ndim - 2]);
  gr_tt_step right = gr_tt_step_of(job->in.arg, job->perm[job->ndim - 1]);
  gr_tt_rect origin = gr_tt_transpose_origin(job, cut->view.arg, at.plane);
  int64_t rows = down.plane ? 1 : at.nr, cols = right.plane ? 1 : at.nc;   /* of the output, in one piece */
  for (int64_t r = 0; r < at.nr; r += rows)
    for (int64_t j = 0; j < at.nc; j += cols) {
      int64_t i = at.r0 + r, k = at.c0 + j;
      gr_tt_rect from = {origin.plane + i * down.plane + k * right.plane,
                         origin.r0 + i * down.row + k * right.row,
                         down.row ? rows : right.row ? cols : 1, origin.c0 + i * down.col + k * right.col,
                         down.col ? rows : right.col ? cols : 1};
      int64_t ld = from.nc, row_step = down.row * ld + down.col, col_step = right.row * ld + right.col;
      GR_TT_TRY(gr_tt_load(c, &job->in, from, piece, ld));
      for (int64_t y = 0; y < rows; ++y)
        for (int64_t x = 0; x < cols; ++x)
          out[(r + y) * cut->width + j + x] = piece[y * row_step + x * col_step];
    }
  return gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

/* gr-kernel: tt/transpose */
static inline int32_t gr_tt_transpose(const gr_call *call) {
  static const int64_t same[2] = {0, 1};
  const gr_arg *in = &call->args[0];
  gr_tt_panels cut = gr_tt_cut(call, &call->args[1], 2);
  /* below two dimensions there is nothing to permute: a row of the view stays a row */
  int64_t shape[2] = {1, in->ndim == 1 ? in->shape[0] : 1};
  gr_arg row = *in;
  if (in->ndim < 2) row.ndim = 2, row.shape = shape;
  gr_tt_transpose_job job = {.perm = in->ndim < 2 ? same : call->attrs, .ndim = row.ndim,
                             .keep = gr_tt_same_format(call, 1)};
  job.in = gr_tt_view_of(&row);
  return gr_tt_run_panels(call, &cut, 2 * gr_tt_bytes(cut.height, cut.width), gr_tt_transpose_panel, &job);
}

/* ---------------------------------------------------------------- concatenate */

typedef struct gr_tt_concatenate_job {
  const gr_call *call;
  int32_t axis, ndim, keep;
  int64_t inner;            /* an axis of planes: planes from one element of it to the next */
} gr_tt_concatenate_job;

/* The part of a panel that an input gives, whose elements along the axis are first .. first+count-1 of the
 * output's. */
static inline int32_t gr_tt_concatenate_part(const gr_tt_core *c, const gr_tt_concatenate_job *job,
                                             const gr_tt_panels *cut, gr_tt_rect at, const gr_arg *in,
                                             int64_t first, uint32_t *out) {
  gr_tt_view v = gr_tt_view_of(in);
  int64_t count = in->shape[job->axis], total = cut->view.arg->shape[job->axis];
  gr_tt_rect from = at;
  if (job->axis == job->ndim - 1) {
    int64_t begin = gr_tt_greater(at.c0, first), end = gr_tt_lesser(at.c0 + at.nc, first + count);
    if (begin >= end) return GR_OK;
    from.c0 = begin - first;
    from.nc = end - begin;
    return gr_tt_load(c, &v, from, out + begin - at.c0, cut->width);
  }
  if (job->axis == job->ndim - 2) {
    int64_t begin = gr_tt_greater(at.r0, first), end = gr_tt_lesser(at.r0 + at.nr, first + count);
    if (begin >= end) return GR_OK;
    from.r0 = begin - first;
    from.nr = end - begin;
    return gr_tt_load(c, &v, from, out + (begin - at.r0) * cut->width, cut->width);
  }
  int64_t i = at.plane / job->inner % total;
  if (i < first || i >= first + count) return GR_OK;
  from.plane = (at.plane / job->inner / total * count + i - first) * job->inner + at.plane % job->inner;
  return gr_tt_load(c, &v, from, out, cut->width);
}

static inline int32_t gr_tt_concatenate_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                              gr_tt_rect at) {
  const gr_tt_concatenate_job *job = (const gr_tt_concatenate_job *)ctx;
  uint32_t *out = (uint32_t *)(void *)c->space;
  int64_t first = 0;
  for (int32_t i = 0; i < job->call->nargs - 1; ++i) {
    const gr_arg *in = &job->call->args[i];
    GR_TT_TRY(gr_tt_concatenate_part(c, job, cut, at, in, first, out));
    first += in->shape[job->axis];
  }
  return gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

/* gr-kernel: tt/concatenate */
static inline int32_t gr_tt_concatenate(const gr_call *call) {
  const gr_arg *out = &call->args[call->nargs - 1];
  gr_tt_panels cut = gr_tt_cut(call, out, 1);
  gr_tt_concatenate_job job = {call, (int32_t)call->attrs[0], out->ndim,
                               gr_tt_same_format(call, call->nargs - 1), 1};
  for (int32_t d = job.axis + 1; d < out->ndim - 2; ++d) job.inner *= out->shape[d];
  return gr_tt_run_panels(call, &cut, gr_tt_bytes(cut.height, cut.width), gr_tt_concatenate_panel, &job);
}

#endif
