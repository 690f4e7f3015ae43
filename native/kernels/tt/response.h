/* response.h: lrn: each element over a power of the sum of its neighbours' squares, along the channels.
 *
 * The contract is that of ir/ops/reductions/normalize.py. A panel of the output is one core's work: it loads what
 * lies a neighbour further, once for each neighbour. Channels may be planes, rows or columns. Sums are doubles.
 * Thread: any.
 * defines: gr_tt_lrn
 */
#ifndef GR_TT_RESPONSE_H
#define GR_TT_RESPONSE_H

#include <math.h>

#include "tt/work.h"

typedef struct gr_tt_response_job {
  gr_tt_view x;
  int64_t channels, inner;    /* inner: planes from one channel to the next; 0: channels are rows, -1: columns */
  int64_t before, after;      /* neighbours */
  double alpha, beta, bias;   /* alpha: over the number of channels that are summed */
} gr_tt_response_job;

/* Adds the squares of the neighbours `shift` channels further of the elements in `at`, where there are such. */
static inline int32_t gr_tt_response_add(const gr_tt_core *c, const gr_tt_response_job *job, gr_tt_rect at,
                                         int64_t shift, int64_t width, float *x, double *sums) {
  int64_t r = 0, j = 0;       /* the first element that has this neighbour */
  gr_tt_rect from = at;
  if (job->inner > 0) {
    int64_t channel = at.plane / job->inner % job->channels + shift;
    if (channel < 0 || channel >= job->channels) return GR_OK;
    from.plane += shift * job->inner;
  } else {
    int64_t *first = job->inner == 0 ? &from.r0 : &from.c0, *n = job->inner == 0 ? &from.nr : &from.nc;
    int64_t lo = gr_tt_greater(*first + shift, 0), end = gr_tt_lesser(*first + shift + *n, job->channels);
    if (lo >= end) return GR_OK;
    *(job->inner == 0 ? &r : &j) = lo - shift - *first;
    *first = lo;
    *n = end - lo;
  }
  GR_TT_TRY(gr_tt_load(c, &job->x, from, x, width));
  for (int64_t i = 0; i < from.nr; ++i)
    for (int64_t k = 0; k < from.nc; ++k)
      sums[(r + i) * width + j + k] += (double)x[i * width + k] * (double)x[i * width + k];
  return GR_OK;
}

static inline int32_t gr_tt_response_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                           gr_tt_rect at) {
  const gr_tt_response_job *job = (const gr_tt_response_job *)ctx;
  int64_t elements = cut->height * cut->width;
  double *sums = (double *)(void *)c->space;
  float *x = (float *)(void *)(sums + elements);
  memset(sums, 0, (size_t)elements * sizeof *sums);
  for (int64_t shift = -job->before; shift <= job->after; ++shift)
    if (shift != 0) GR_TT_TRY(gr_tt_response_add(c, job, at, shift, cut->width, x, sums));
  GR_TT_TRY(gr_tt_response_add(c, job, at, 0, cut->width, x, sums));      /* and leaves the elements themselves in x */
  for (int64_t r = 0; r < at.nr; ++r)
    for (int64_t i = r * cut->width; i < r * cut->width + at.nc; ++i)
      x[i] = (float)((double)x[i] / pow(job->bias + job->alpha * sums[i], job->beta));
  return gr_tt_store(c, &cut->view, at, x, cut->width, 0);
}

/* gr-kernel: tt/lrn */
static inline int32_t gr_tt_lrn(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  int64_t size = call->attrs[0];
  gr_tt_panels cut = gr_tt_cut(call, &call->args[1], 3);     /* sums take two */
  gr_tt_response_job job = {.x = gr_tt_view_of(x), .channels = x->shape[1], .inner = x->ndim - 3};
  if (cut.view.outer * cut.view.rows * cut.view.cols == 0) return GR_OK;
  if (x->ndim > 3) job.inner = 1;
  for (int32_t d = 2; d + 2 < x->ndim; ++d) job.inner *= x->shape[d];
  job.before = gr_tt_lesser((size - 1) / 2, job.channels - 1);
  job.after = gr_tt_lesser(size - 1 - (size - 1) / 2, job.channels - 1);
  memcpy(&job.alpha, &call->attrs[1], sizeof job.alpha);
  memcpy(&job.beta, &call->attrs[2], sizeof job.beta);
  memcpy(&job.bias, &call->attrs[3], sizeof job.bias);
  job.alpha /= (double)size;
  return gr_tt_run_panels(call, &cut, 3 * gr_tt_bytes(cut.height, cut.width), gr_tt_response_panel, &job);
}

#endif
