/* normalize.h: softmax, log_softmax, layer_norm and rms_norm: passes over what is normalised together, the first ones gather, the
 * last one writes.
 *
 * The contracts are those of ir/ops/reductions/normalize.py. What fits into one panel is read once; the rest is
 * read once a pass. Statistics are doubles. Thread: any.
 * defines: gr_tt_softmax, gr_tt_log_softmax, gr_tt_layer_norm, gr_tt_rms_norm
 */
#ifndef GR_TT_NORMALIZE_H
#define GR_TT_NORMALIZE_H

#include <math.h>

#include "cpu/softmax_row.h"
#include "tt/work.h"

/* A tensor that is only normalised: its input and output have one shape, so one cut serves both. */
typedef struct gr_tt_norm_job {
  gr_tt_panels cut;
  gr_tt_view in, scale, bias;
  int64_t steps, inner;     /* softmax, outer axis: its length, and the planes from one element to the next */
  int logarithm;            /* log_softmax */
  int64_t planes;           /* layer_norm: planes normalised together, or 0: every row alone */
  double count, epsilon;    /* layer_norm: elements normalised together */
  int first;                /* layer_norm: the pass to begin with; rms_norm has no mean and no bias */
} gr_tt_norm_job;

/* The chunk-th panel of a line of panels. */
static inline gr_tt_rect gr_tt_panel_rect(const gr_tt_panels *cut, int64_t plane, int64_t line,
                                          int64_t chunk) {
  gr_tt_rect at = {.plane = plane, .r0 = line * cut->height, .c0 = chunk * cut->width};
  at.nr = gr_tt_lesser(cut->height, cut->view.rows - at.r0);
  at.nc = gr_tt_lesser(cut->width, cut->view.cols - at.c0);
  return at;
}

/* The step-th of the panels that meet in a panel of statistics: that plane of an axis of so many steps, whose
 * elements are inner planes apart, or that line of panels of the plane (inner = 0). */
static inline gr_tt_rect gr_tt_step_rect(const gr_tt_panels *cut, gr_tt_rect panel, int64_t steps, int64_t inner,
                                         int64_t step) {
  if (inner == 0) return gr_tt_panel_rect(cut, panel.plane, step, panel.c0 / cut->width);
  panel.plane = (panel.plane / inner * steps + step) * inner + panel.plane % inner;
  return panel;
}

/* ---------------------------------------------------------------- softmax */

/* One element's share of a pass, and what is in its place after it. To the last pass it comes as the
 * exponential that the one before left there, or, where the panel was read anew, as it was. */
static inline float gr_tt_softmax_one(int logarithm, int pass, int anew, float x, float *most,
                                      double *total) {
  if (logarithm && pass == GR_SOFTMAX_WRITE) return (float)((double)(x - *most) - log(*total));
  if (pass == GR_SOFTMAX_GREATEST) {
    *most = x > *most ? x : *most;             /* a NaN shows in the total */
    return x;
  }
  float e = pass == GR_SOFTMAX_TOTAL || anew ? expf(x - *most) : x;
  if (pass == GR_SOFTMAX_TOTAL) *total += e;
  if (pass == GR_SOFTMAX_TOTAL) return logarithm ? x : e;
  return (float)(e / *total);
}

/* Along the last axis: a unit is one line of panels. */
static inline int32_t gr_tt_softmax_rows(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_norm_job *job = (const gr_tt_norm_job *)ctx;
  const gr_tt_panels *cut = &job->cut;
  float *x = (float *)(void *)c->space, most[32];
  double total[32];
  int anew = cut->across > 1;
  gr_softmax_part_fn part = gr_softmax_part_chosen();      /* the host's own */
  for (int r = 0; r < 32; ++r) most[r] = -INFINITY, total[r] = 0.0;
  for (int pass = 0; pass < GR_SOFTMAX_PASSES; ++pass)
    for (int64_t chunk = 0; chunk < cut->across; ++chunk) {
      gr_tt_rect at = gr_tt_panel_rect(cut, unit / cut->down, unit % cut->down, chunk);
      if (pass == 0 || anew) GR_TT_TRY(gr_tt_load(c, &job->in, at, x, cut->width));
      for (int64_t r = 0; r < at.nr; ++r)
        part(x + r * cut->width, at.nc, pass, job->logarithm, !anew, &most[r], &total[r]);
      if (pass == GR_SOFTMAX_WRITE) GR_TT_TRY(gr_tt_store(c, &cut->view, at, x, cut->width, 0));
    }
  return GR_OK;
}

/* Along another axis: a panel of statistics, and the panels that meet in it one after the other: the lines of
 * a plane (inner = 0) or the planes of the axis. */
static inline int32_t gr_tt_softmax_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                          gr_tt_rect panel) {
  const gr_tt_norm_job *job = (const gr_tt_norm_job *)ctx;
  int64_t elements = cut->height * cut->width;
  double *total = (double *)(void *)c->space;
  float *most = (float *)(void *)(total + elements), *x = most + elements;
  int anew = job->steps > 1;
  for (int64_t i = 0; i < elements; ++i) most[i] = -INFINITY, total[i] = 0.0;
  for (int pass = 0; pass < GR_SOFTMAX_PASSES; ++pass)
    for (int64_t step = 0; step < job->steps; ++step) {
      gr_tt_rect at = gr_tt_step_rect(&job->cut, panel, job->steps, job->inner, step);
      if (pass == 0 || anew) GR_TT_TRY(gr_tt_load(c, &job->in, at, x, cut->width));
      for (int64_t r = 0; r < at.nr; ++r)
        for (int64_t j = 0; j < at.nc; ++j) {
          int64_t i = r * cut->width + j, stat = job->inner > 0 ? i : j;
          x[i] = gr_tt_softmax_one(job->logarithm, pass, anew, x[i], &most[stat], &total[stat]);
        }
      if (pass == GR_SOFTMAX_WRITE) GR_TT_TRY(gr_tt_store(c, &job->cut.view, at, x, cut->width, 0));
    }
  return GR_OK;
}

static inline int32_t gr_tt_softmax_of(const gr_call *call, int logarithm) {
  const gr_arg *x = &call->args[0];
  int32_t from_back = x->ndim - 1 - (int32_t)call->attrs[0];
  gr_tt_norm_job job = {.cut = gr_tt_cut(call, &call->args[1], from_back == 0 ? 1 : 4),
                        .in = gr_tt_view_of(x), .logarithm = logarithm};
  uint64_t bytes = gr_tt_bytes(job.cut.height, job.cut.width);
  if (job.in.outer * job.in.rows * job.in.cols == 0) return GR_OK;
  if (from_back == 0) return gr_tt_run(call, job.in.outer * job.cut.down, bytes, gr_tt_softmax_rows, &job);
  gr_tt_panels panels = job.cut;       /* the output without its softmax axis */
  if (from_back == 1) {
    job.steps = job.cut.down;
    panels.down = 1;
  } else {
    job.steps = x->shape[call->attrs[0]];
    job.inner = 1;
    for (int32_t d = (int32_t)call->attrs[0] + 1; d < x->ndim - 2; ++d) job.inner *= x->shape[d];
    panels.view.outer /= job.steps;
  }
  return gr_tt_run_panels(call, &panels, 4 * bytes, gr_tt_softmax_panel, &job);
}

/* gr-kernel: tt/softmax */
static inline int32_t gr_tt_softmax(const gr_call *call) { return gr_tt_softmax_of(call, 0); }

/* gr-kernel: tt/log_softmax */
static inline int32_t gr_tt_log_softmax(const gr_call *call) { return gr_tt_softmax_of(call, 1); }

/* ---------------------------------------------------------------- layer_norm */

enum { GR_TT_MEAN, GR_TT_VARIANCE, GR_TT_NORMALIZED };

/* Sum of pass over n elements; the last pass writes them instead. mean and scale are of this row's group. */
static inline double gr_tt_layer_norm_row(int pass, float *x, int64_t n, double mean, double factor,
                                          const float *scale, const float *bias) {
  double sum = 0.0;
  for (int64_t j = 0; j < n; ++j) {
    double centred = x[j] - mean;
    if (pass == GR_TT_NORMALIZED)
      x[j] = (float)(centred * factor * scale[j] + bias[j]);
    else
      sum += pass == GR_TT_MEAN ? x[j] : centred * centred;
  }
  return sum;
}

/* One panel of one pass; stats[r][pass] gathers for row r, or all rows meet in stats[0]. */
static inline int32_t gr_tt_layer_norm_panel(const gr_tt_core *c, const gr_tt_norm_job *job, int pass,
                                             gr_tt_rect at, gr_tt_rect affine, int reload,
                                             double stats[32][2]) {
  int64_t width = job->cut.width, elements = job->cut.height * width;
  float *x = (float *)(void *)c->space, *scale = x + elements, *bias = scale + elements;
  if (reload) GR_TT_TRY(gr_tt_load(c, &job->in, at, x, width));
  if (pass == GR_TT_NORMALIZED) {
    GR_TT_TRY(gr_tt_load(c, &job->scale, affine, scale, width));
    if (job->first == GR_TT_MEAN)
      GR_TT_TRY(gr_tt_load(c, &job->bias, affine, bias, width));
    else
      memset(bias, 0, gr_tt_bytes(job->cut.height, width));
  }
  for (int64_t r = 0; r < at.nr; ++r) {
    double *stat = stats[job->planes > 0 ? 0 : r], mean = pass == GR_TT_MEAN ? 0.0 : stat[0] / job->count;
    double factor = pass == GR_TT_NORMALIZED ? 1.0 / sqrt(stat[1] / job->count + job->epsilon) : 0.0;
    int64_t row = affine.nr == 1 ? 0 : r * width;
    double sum = gr_tt_layer_norm_row(pass, x + r * width, at.nc, mean, factor, scale + row, bias + row);
    if (pass != GR_TT_NORMALIZED) stat[pass] += sum;
  }
  return pass == GR_TT_NORMALIZED ? gr_tt_store(c, &job->cut.view, at, x, width, 0) : GR_OK;
}

/* A unit is one line of panels (the last axis is normalised) or the planes of one group. */
static inline int32_t gr_tt_layer_norm_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_norm_job *job = (const gr_tt_norm_job *)ctx;
  const gr_tt_panels *cut = &job->cut;
  int64_t plane = unit / cut->down, line = unit % cut->down, planes = 1, lines = 1;
  if (job->planes > 0) plane = unit * job->planes, line = 0, planes = job->planes, lines = cut->down;
  int several = planes * lines * cut->across > 1;
  double stats[32][2] = {{0.0}};
  for (int pass = job->first; pass <= GR_TT_NORMALIZED; ++pass)
    for (int64_t i = 0; i < planes * lines * cut->across; ++i) {
      int64_t p = i / cut->across / lines, l = i / cut->across % lines;
      gr_tt_rect at = gr_tt_panel_rect(cut, plane + p, line + l, i % cut->across), affine = at;
      affine.plane = p;
      if (job->planes == 0) affine.r0 = 0, affine.nr = 1;
      GR_TT_TRY(gr_tt_layer_norm_panel(c, job, pass, at, affine, pass == job->first || several, stats));
    }
  return GR_OK;
}

/* The last argument but one of layer_norm is the bias, of rms_norm the scale. */
static inline int32_t gr_tt_norm(const gr_call *call, int first) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  gr_tt_norm_job job = {.cut = gr_tt_cut(call, &call->args[call->nargs - 1], 3), .in = gr_tt_view_of(x),
                        .scale = gr_tt_view_of(&call->args[1]),
                        .bias = gr_tt_view_of(&call->args[call->nargs - 2]), .first = first};
  memcpy(&job.epsilon, &call->attrs[1], sizeof job.epsilon);
  job.count = 1.0;
  for (int32_t d = axis; d < x->ndim; ++d) job.count *= (double)x->shape[d];
  if (axis < x->ndim - 1) job.planes = 1;
  for (int32_t d = axis; d < x->ndim - 2; ++d) job.planes *= x->shape[d];
  if (job.in.outer * job.in.rows * job.in.cols == 0) return GR_OK;
  int64_t units = job.planes > 0 ? job.in.outer / job.planes : job.in.outer * job.cut.down;
  return gr_tt_run(call, units, 3 * gr_tt_bytes(job.cut.height, job.cut.width), gr_tt_layer_norm_unit, &job);
}

/* gr-kernel: tt/layer_norm */
static inline int32_t gr_tt_layer_norm(const gr_call *call) { return gr_tt_norm(call, GR_TT_MEAN); }

/* gr-kernel: tt/rms_norm */
static inline int32_t gr_tt_rms_norm(const gr_call *call) { return gr_tt_norm(call, GR_TT_VARIANCE); }

#endif
