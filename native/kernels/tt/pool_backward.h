/* pool_backward.h: max_pool2d_backward: each value of the gradient goes to the element that its window took.
 *
 * The contract is that of ir/ops/spatial/pool_indices.py. A core makes a panel of the output: it looks at all
 * windows that reach into the panel and keeps what falls on it, so no two cores write one element. Thread: any.
 * defines: gr_tt_max_pool2d_backward
 */
#ifndef GR_TT_POOL_BACKWARD_H
#define GR_TT_POOL_BACKWARD_H

#include "tt/work.h"

typedef struct gr_tt_unpool_job {
  gr_tt_view x, grad;
  int64_t kernel[2], stride[2], pad[2], dilation[2];   /* height, width */
  int64_t cols, windows;     /* most columns of x, of windows that a panel looks at */
} gr_tt_unpool_job;

/* The windows that reach into elements first .. first+count-1 along dimension d: *n of them. */
static inline int64_t gr_tt_unpool_windows(const gr_tt_unpool_job *job, int d, int64_t first, int64_t count,
                                           int64_t *n) {
  int64_t size = d == 0 ? job->grad.rows : job->grad.cols;
  int64_t least = first + job->pad[d] - (job->kernel[d] - 1) * job->dilation[d];
  int64_t lo = least > 0 ? gr_tt_ceil_div(least, job->stride[d]) : 0;
  *n = gr_tt_greater(0, gr_tt_lesser(size, (first + count - 1 + job->pad[d]) / job->stride[d] + 1) - lo);
  return lo;
}

/* The elements that n windows from lo on look at: *count of them. */
static inline int64_t gr_tt_unpool_seen(const gr_tt_unpool_job *job, int d, int64_t lo, int64_t n, int64_t *count) {
  int64_t size = d == 0 ? job->x.rows : job->x.cols, first = gr_tt_greater(0, lo * job->stride[d] - job->pad[d]);
  int64_t end = (lo + n - 1) * job->stride[d] - job->pad[d] + (job->kernel[d] - 1) * job->dilation[d] + 1;
  *count = gr_tt_lesser(end, size) - first;
  return first;
}

/* Place of the window's first greatest element, or its last NaN, in x[.., cols], which begins at element (r0, c0). */
static inline int64_t gr_tt_unpool_winner(const gr_tt_unpool_job *job, const float *x, int64_t r0, int64_t c0,
                                          int64_t row, int64_t column) {
  int64_t found = -1;
  for (int64_t p = 0; p < job->kernel[0]; ++p)
    for (int64_t q = 0; q < job->kernel[1]; ++q) {
      int64_t r = row * job->stride[0] - job->pad[0] + p * job->dilation[0];
      int64_t c = column * job->stride[1] - job->pad[1] + q * job->dilation[1];
      if (r < 0 || r >= job->x.rows || c < 0 || c >= job->x.cols) continue;
      int64_t at = (r - r0) * job->cols + c - c0;
      if (found < 0 || x[at] > x[found] || x[at] != x[at]) found = at;
    }
  return found;
}

static inline int32_t gr_tt_unpool_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_unpool_job *job = (const gr_tt_unpool_job *)ctx;
  float *out = (float *)(void *)c->space, *grad = out + cut->height * cut->width;
  gr_tt_rect of_grad = {.plane = at.plane}, seen = {.plane = at.plane};
  of_grad.r0 = gr_tt_unpool_windows(job, 0, at.r0, at.nr, &of_grad.nr);
  of_grad.c0 = gr_tt_unpool_windows(job, 1, at.c0, at.nc, &of_grad.nc);
  memset(out, 0, gr_tt_bytes(cut->height, cut->width));
  if (of_grad.nr > 0 && of_grad.nc > 0) {
    seen.r0 = gr_tt_unpool_seen(job, 0, of_grad.r0, of_grad.nr, &seen.nr);
    seen.c0 = gr_tt_unpool_seen(job, 1, of_grad.c0, of_grad.nc, &seen.nc);
    float *x = grad + gr_tt_up(of_grad.nr * job->windows, 16);
    GR_TT_TRY(gr_tt_load(c, &job->grad, of_grad, grad, job->windows));
    GR_TT_TRY(gr_tt_load(c, &job->x, seen, x, job->cols));
    for (int64_t i = 0; i < of_grad.nr; ++i)
      for (int64_t j = 0; j < of_grad.nc; ++j) {
        int64_t won = gr_tt_unpool_winner(job, x, seen.r0, seen.c0, of_grad.r0 + i, of_grad.c0 + j);
        int64_t r = seen.r0 + won / job->cols - at.r0, col = seen.c0 + won % job->cols - at.c0;
        if (won >= 0 && r >= 0 && r < at.nr && col >= 0 && col < at.nc)
          out[r * cut->width + col] += grad[i * job->windows + j];
      }
  }
  return gr_tt_store(c, &cut->view, at, out, cut->width, 0);
}

/* gr-kernel: tt/max_pool2d_backward */
static inline int32_t gr_tt_max_pool2d_backward(const gr_call *call) {
  const int64_t *words = call->attrs;      /* of three dimensions, of which the first is one element */
  gr_tt_panels cut = gr_tt_cut(call, &call->args[2], 8);
  gr_tt_unpool_job job = {gr_tt_view_of(&call->args[0]), gr_tt_view_of(&call->args[1]), {words[1], words[2]},
                          {words[4], words[5]}, {words[7], words[8]}, {words[13], words[14]}, 0, 0};
  int64_t most[2], sides[2] = {cut.height, cut.width}, sizes[2] = {job.x.rows, job.x.cols}, rows;
  for (int d = 0; d < 2; ++d) {
    int64_t reach = (job.kernel[d] - 1) * job.dilation[d];
    most[d] = (sides[d] - 1 + reach) / job.stride[d] + 2;
    sizes[d] = gr_tt_lesser(sizes[d], sides[d] + 2 * reach);
  }
  rows = sizes[0];
  job.windows = gr_tt_lesser(most[1], gr_tt_greater(1, job.grad.cols));
  job.cols = sizes[1];
  uint64_t bytes = gr_tt_bytes(cut.height, cut.width) + gr_tt_bytes(rows, job.cols) +
                   gr_tt_bytes(gr_tt_lesser(most[0], gr_tt_greater(1, job.grad.rows)), job.windows);
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_unpool_panel, &job);
}

#endif
