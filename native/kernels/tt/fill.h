/* fill.h: broadcast_to, tile and pad: every panel of the output gathers rectangles of the input.
 *
 * The contract is that of ir/ops/moving/fill.py; pad has mode constant only. Where input and output have one
 * format, bits are kept. Thread: any.
 * defines: gr_tt_broadcast_to, gr_tt_tile, gr_tt_pad
 */
#ifndef GR_TT_FILL_H
#define GR_TT_FILL_H

#include "tt/move.h"

typedef struct gr_tt_fill_job {
  const gr_call *call;
  gr_tt_view in;
  int32_t keep;
} gr_tt_fill_job;

static inline int32_t gr_tt_fill(const gr_call *call, gr_tt_panel_fn panel) {
  gr_tt_panels cut = gr_tt_cut(call, &call->args[1], 1);
  gr_tt_fill_job job = {call, gr_tt_view_of(&call->args[0]), gr_tt_same_format(call, 1)};
  return gr_tt_run_panels(call, &cut, gr_tt_bytes(cut.height, cut.width), panel, &job);
}

/* ---------------------------------------------------------------- broadcast_to */

static inline int32_t gr_tt_broadcast_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                            gr_tt_rect at) {
  const gr_tt_fill_job *job = (const gr_tt_fill_job *)ctx;
  uint32_t *out = (uint32_t *)(void *)c->space;
  GR_TT_TRY(gr_tt_load_broadcast(c, &job->in, &cut->view, at, out, cut->width));
  return gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

/* gr-kernel: tt/broadcast_to */
static inline int32_t gr_tt_broadcast_to(const gr_call *call) { return gr_tt_fill(call, gr_tt_broadcast_panel); }

/* ---------------------------------------------------------------- tile */

/* The plane of the input that an output plane repeats. */
static inline int64_t gr_tt_tiled_plane(const gr_arg *in, const gr_arg *out, int64_t plane) {
  int64_t at = 0, stride = 1;
  for (int32_t d = out->ndim - 3; d >= 0; --d) {
    at += plane % out->shape[d] % in->shape[d] * stride;
    plane /= out->shape[d];
    stride *= in->shape[d];
  }
  return at;
}

/* A panel, in pieces that end where the input does. */
static inline int32_t gr_tt_tile_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                       gr_tt_rect at) {
  const gr_tt_fill_job *job = (const gr_tt_fill_job *)ctx;
  uint32_t *out = (uint32_t *)(void *)c->space;
  gr_tt_rect from = {.plane = gr_tt_tiled_plane(job->in.arg, cut->view.arg, at.plane)};
  for (int64_t r = 0; r < at.nr; r += from.nr) {
    from.r0 = (at.r0 + r) % job->in.rows;
    from.nr = gr_tt_lesser(at.nr - r, job->in.rows - from.r0);
    for (int64_t j = 0; j < at.nc; j += from.nc) {
      from.c0 = (at.c0 + j) % job->in.cols;
      from.nc = gr_tt_lesser(at.nc - j, job->in.cols - from.c0);
      GR_TT_TRY(gr_tt_load(c, &job->in, from, out + r * cut->width + j, cut->width));
    }
  }
  return gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

/* gr-kernel: tt/tile */
static inline int32_t gr_tt_tile(const gr_call *call) { return gr_tt_fill(call, gr_tt_tile_panel); }

/* ---------------------------------------------------------------- pad */

/* Elements before dimension d, counted from the back. */
static inline int64_t gr_tt_before(const gr_call *call, int32_t from_back) {
  int32_t d = call->args[0].ndim - 1 - from_back;
  return d < 0 ? 0 : call->attrs[2 + d];
}

/* The plane of the input that an output plane shows; -1: none, the value. */
static inline int64_t gr_tt_padded_plane(const gr_tt_fill_job *job, const gr_arg *out, int64_t plane) {
  int64_t at = 0, stride = 1;
  for (int32_t d = out->ndim - 3; d >= 0; --d) {
    int64_t n = job->in.arg->shape[d], i = plane % out->shape[d] - job->call->attrs[2 + d];
    if (i < 0 || i >= n) return -1;
    at += i * stride;
    plane /= out->shape[d];
    stride *= n;
  }
  return at;
}

/* The value's four-byte form: the second word has the bits that the input's dtype gives it. */
static inline uint32_t gr_tt_pad_value(const gr_call *call) {
  uint32_t bits = (uint32_t)call->attrs[1];
  switch (call->args[0].dtype) {
    case GR_BF16: return bits << 16;
    case GR_I16: return (uint32_t)(int16_t)bits;
    case GR_I8: return (uint32_t)(int8_t)bits;
    default: return bits;
  }
}

static inline int32_t gr_tt_pad_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                      gr_tt_rect at) {
  const gr_tt_fill_job *job = (const gr_tt_fill_job *)ctx;
  uint32_t *out = (uint32_t *)(void *)c->space, value = gr_tt_pad_value(job->call);
  int64_t above = gr_tt_before(job->call, 1), left = gr_tt_before(job->call, 0);
  int64_t top = gr_tt_greater(at.r0, above), bottom = gr_tt_lesser(at.r0 + at.nr, above + job->in.rows);
  int64_t first = gr_tt_greater(at.c0, left), last = gr_tt_lesser(at.c0 + at.nc, left + job->in.cols);
  gr_tt_rect from = {gr_tt_padded_plane(job, cut->view.arg, at.plane), top - above, bottom - top, first - left,
                     last - first};
  for (int64_t r = 0; r < at.nr; ++r)
    for (int64_t j = 0; j < at.nc; ++j) out[r * cut->width + j] = value;
  if (from.plane >= 0 && from.nr > 0 && from.nc > 0)
    GR_TT_TRY(gr_tt_load(c, &job->in, from, out + (top - at.r0) * cut->width + first - at.c0, cut->width));
  return gr_tt_store(c, &cut->view, at, out, cut->width, job->keep);
}

/* gr-kernel: tt/pad */
static inline int32_t gr_tt_pad(const gr_call *call) { return gr_tt_fill(call, gr_tt_pad_panel); }

#endif
