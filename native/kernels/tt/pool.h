/* pool.h: max_pool2d and avg_pool2d. (The global pools are reductions: reduce.h.)
 *
 * The contract is that of ir/ops/spatial/pool.py. Thread: any; a panel of the output is one core's work.
 * defines: gr_tt_max_pool2d, gr_tt_max_pool2d_dilated, gr_tt_avg_pool2d
 */
#ifndef GR_TT_POOL_H
#define GR_TT_POOL_H

#include <math.h>

#include "tt/windows.h"
#include "tt/work.h"

#define GR_TT_POOL_BYTES 393216      /* L1 of the image under an output panel: of more, fewer rows at a time */

typedef struct gr_tt_pool_job {
  gr_tt_view x;
  int64_t kernel[2], stride[2], begin[2], end[2];   /* height, width; begin and end: padding */
  int64_t band;                                      /* output rows of a panel at a time */
  int64_t in_rows, in_cols;                          /* most that they look at */
  int average, include_pad;
} gr_tt_pool_job;

/* Along dimension d, window i covers first .. last-1 of the image; padded is its length inside the padded
 * image. */
typedef struct gr_tt_span {
  int64_t first, last, padded;
} gr_tt_span;

static inline gr_tt_span gr_tt_window(const gr_tt_pool_job *job, int d, int64_t i) {
  int64_t size = d == 0 ? job->x.rows : job->x.cols, at = i * job->stride[d] - job->begin[d];
  return (gr_tt_span){gr_tt_greater(at, 0), gr_tt_lesser(at + job->kernel[d], size),
                      gr_tt_lesser(at + job->kernel[d], size + job->end[d]) - at};
}

/* One window of x, whose first element is row r0, column c0 of the image. */
static inline float gr_tt_pool_window(const gr_tt_pool_job *job, const float *x, int64_t r0, int64_t c0,
                                      gr_tt_span h, gr_tt_span w) {
  double sum = 0.0;
  float most = -INFINITY;
  for (int64_t r = h.first; r < h.last; ++r)
    for (int64_t j = w.first; j < w.last; ++j) {
      float value = x[(r - r0) * job->in_cols + j - c0];
      sum += value;
      most = value > most || value != value ? value : most;
    }
  if (!job->average) return most;
  int64_t count = job->include_pad ? h.padded * w.padded : (h.last - h.first) * (w.last - w.first);
  return (float)(sum / (double)count);
}

static inline int32_t gr_tt_pool_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                       gr_tt_rect at) {
  const gr_tt_pool_job *job = (const gr_tt_pool_job *)ctx;
  float *y = (float *)(void *)c->space, *x = y + cut->height * cut->width;
  int64_t w0 = gr_tt_window(job, 1, at.c0).first, w1 = gr_tt_window(job, 1, at.c0 + at.nc - 1).last;
  for (int64_t first = 0; first < at.nr; first += job->band) {
    int64_t end = gr_tt_lesser(first + job->band, at.nr);
    int64_t h0 = gr_tt_window(job, 0, at.r0 + first).first, h1 = gr_tt_window(job, 0, at.r0 + end - 1).last;
    GR_TT_TRY(gr_tt_load(c, &job->x, (gr_tt_rect){at.plane, h0, h1 - h0, w0, w1 - w0}, x, job->in_cols));
    for (int64_t r = first; r < end; ++r)
      for (int64_t j = 0; j < at.nc; ++j)
        y[r * cut->width + j] = gr_tt_pool_window(job, x, h0, w0, gr_tt_window(job, 0, at.r0 + r),
                                                  gr_tt_window(job, 1, at.c0 + j));
  }
  return gr_tt_store(c, &cut->view, at, y, cut->width, 0);
}

static inline int32_t gr_tt_pool(const gr_call *call, int average) {
  const int64_t *words = call->attrs;
  gr_tt_pool_job job = {.x = gr_tt_view_of(&call->args[0]), .kernel = {words[0], words[1]},
                        .stride = {words[2], words[3]}, .begin = {words[4], words[5]},
                        .end = {words[6], words[7]}, .average = average, .include_pad = words[8] != 0};
  /* an output element looks at about stride x stride elements of its own */
  gr_tt_panels cut = gr_tt_cut(call, &call->args[1],
                               1 + (int32_t)gr_tt_lesser(64, job.stride[0] * job.stride[1]));
  job.in_cols = gr_tt_lesser(job.x.cols, (cut.width - 1) * job.stride[1] + job.kernel[1]);
  for (job.band = cut.height;; job.band = (job.band + 1) / 2) {
    job.in_rows = gr_tt_lesser(job.x.rows, (job.band - 1) * job.stride[0] + job.kernel[0]);
    if (job.band == 1 || gr_tt_bytes(job.in_rows, job.in_cols) <= GR_TT_POOL_BYTES) break;
  }
  uint64_t bytes = gr_tt_bytes(cut.height, cut.width) + gr_tt_bytes(job.in_rows, job.in_cols);
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_pool_panel, &job);
}

/* gr-kernel: tt/max_pool2d */
static inline int32_t gr_tt_max_pool2d(const gr_call *call) { return gr_tt_pool(call, 0); }

/* Dilated windows, and integers: as volumes of depth 1. */
/* gr-kernel: tt/max_pool2d_dilated */
static inline int32_t gr_tt_max_pool2d_dilated(const gr_call *call) {
  const int64_t *w = call->attrs;     /* pool.py's words, as windows.py's */
  const int64_t words[16] = {1, w[0], w[1], 1, w[2], w[3], 0, w[4], w[5], 0, w[6], w[7], 1, w[9], w[10], 0};
  gr_call inner = *call;
  inner.attrs = words;
  return gr_tt_volume_run(&inner, GR_TT_VOLUME_MAX);
}

/* gr-kernel: tt/avg_pool2d */
static inline int32_t gr_tt_avg_pool2d(const gr_call *call) { return gr_tt_pool(call, 1); }

#endif
