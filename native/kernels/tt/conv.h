/* conv.h: conv2d on NCHW images with OIHW weights.
 *
 * The contract is that of graph_runtime/ops/conv.py. A core makes some output channels of some images, 32
 * rows (or fewer) at a time: their weights stay in L1, one input channel after the other is read with its
 * zero border and added in. Thread: any.
 * defines: gr_tt_conv2d
 */
#ifndef GR_TT_CONV_H
#define GR_TT_CONV_H

#include "tt/exact_conv.h"
#include "tt/work.h"

#define GR_TT_CONV_UNITS 16   /* units worth having: each reads weights and input anew, so not one a core */
#define GR_TT_CONV_NARROW 128 /* rows up to here are short of work when taken one by one */

typedef struct gr_tt_conv_job {
  gr_tt_view x, w, bias, y;                 /* bias.arg is NULL where there is none */
  int64_t stride[2], pad[2], dilation[2];   /* height, width; pad is top, left */
  int64_t images, channels, outputs;        /* of the batch; C and O of one group */
  int64_t height, lines;                    /* output rows at a time, and how often that is */
  int64_t block, blocks;                    /* output channels at a time, and how often that is in all */
  int64_t share;                            /* images of one unit */
  int64_t in_rows, in_cols;                 /* what `height` output rows look at */
  int64_t pitch;                            /* of the sums: in_cols where rows are taken together, else OW */
  int together;
} gr_tt_conv_job;

/* sum[ow] += weight * x[ow * stride] */
static inline void gr_tt_conv_row(float *sum, const float *x, float weight, int64_t n, int64_t stride) {
  if (stride == 1)
    for (int64_t i = 0; i < n; ++i) sum[i] += weight * x[i];
  else
    for (int64_t i = 0; i < n; ++i) sum[i] += weight * x[i * stride];
}

/* Adds one input channel, seen through kh x kw weights, to nr rows of one output channel. Without strides and
 * with sums as far apart as the input's rows, all rows are one long row; what comes to stand between them,
 * nobody reads. */
static inline void gr_tt_conv_channel(const gr_tt_conv_job *job, const float *x, const float *w, int64_t nr,
                                      float *sums) {
  int64_t rows = job->together ? 1 : nr, n = job->y.cols + (job->together ? (nr - 1) * job->pitch : 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t p = 0; p < job->w.rows; ++p) {
      const float *row = x + (r * job->stride[0] + p * job->dilation[0]) * job->in_cols;
      for (int64_t q = 0; q < job->w.cols; ++q)
        gr_tt_conv_row(sums + r * job->pitch, row + q * job->dilation[1], w[p * job->w.cols + q], n,
                       job->stride[1]);
    }
}

/* The input rows below output rows r0 .. of one plane, with zeros where the window hangs over the image. */
static inline int32_t gr_tt_conv_input(const gr_tt_core *c, const gr_tt_conv_job *job, int64_t plane,
                                       int64_t r0, float *x) {
  int64_t top = r0 * job->stride[0] - job->pad[0], left = -job->pad[1];
  int64_t h0 = gr_tt_greater(top, 0), h1 = gr_tt_lesser(top + job->in_rows, job->x.rows);
  int64_t w0 = gr_tt_greater(left, 0), w1 = gr_tt_lesser(left + job->in_cols, job->x.cols);
  memset(x, 0, (size_t)(job->in_rows * job->in_cols) * 4);
  if (h0 >= h1 || w0 >= w1) return GR_OK;
  gr_tt_rect at = {plane, h0, h1 - h0, w0, w1 - w0};
  return gr_tt_load(c, &job->x, at, x + (h0 - top) * job->in_cols + w0 - left, job->in_cols);
}

/* Bias [count] and weights [count][channels][kh][kw] of output channels first .. */
static inline int32_t gr_tt_conv_weights(const gr_tt_core *c, const gr_tt_conv_job *job, int64_t first,
                                         int64_t count, float *bias, float *w) {
  int64_t taps = job->w.rows * job->w.cols, planes = count * job->channels;
  memset(bias, 0, (size_t)count * 4);
  if (job->bias.arg != NULL)
    GR_TT_TRY(gr_tt_load(c, &job->bias, (gr_tt_rect){0, 0, 1, first, count}, bias, count));
  for (int64_t p = 0; p < planes && taps > 0; ++p) {
    gr_tt_rect at = {first * job->channels + p, 0, job->w.rows, 0, job->w.cols};
    GR_TT_TRY(gr_tt_load(c, &job->w, at, w + p * taps, job->w.cols));
  }
  return GR_OK;
}

static inline int32_t gr_tt_conv_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_conv_job *job = (const gr_tt_conv_job *)ctx;
  int64_t line = unit % job->lines, block = unit / job->lines % job->blocks;
  int64_t share = unit / job->lines / job->blocks;
  int64_t per_group = gr_tt_ceil(job->outputs, job->block), group = block / per_group;
  int64_t in_group = block % per_group * job->block;
  int64_t count = gr_tt_lesser(job->block, job->outputs - in_group);
  int64_t first = group * job->outputs + in_group, taps = job->w.rows * job->w.cols;
  int64_t r0 = line * job->height, nr = gr_tt_lesser(job->height, job->y.rows - r0);
  int64_t area = job->height * job->pitch;
  int64_t groups = job->blocks / per_group;
  float *x = (float *)(void *)c->space, *sums = x + job->in_rows * job->in_cols;
  float *bias = sums + job->block * area, *w = bias + job->block;
  GR_TT_TRY(gr_tt_conv_weights(c, job, first, count, bias, w));
  for (int64_t n = share * job->share; n < gr_tt_lesser(job->images, (share + 1) * job->share); ++n) {
    for (int64_t o = 0; o < count; ++o)
      for (int64_t i = 0; i < area; ++i) sums[o * area + i] = bias[o];
    for (int64_t ch = 0; ch < job->channels; ++ch) {
      GR_TT_TRY(gr_tt_conv_input(c, job, (n * groups + group) * job->channels + ch, r0, x));
      for (int64_t o = 0; o < count; ++o)
        gr_tt_conv_channel(job, x, w + (o * job->channels + ch) * taps, nr, sums + o * area);
    }
    for (int64_t o = 0; o < count; ++o) {
      gr_tt_rect at = {n * groups * job->outputs + first + o, r0, nr, 0, job->y.cols};
      GR_TT_TRY(gr_tt_store(c, &job->y, at, sums + o * area, job->pitch, 0));
    }
  }
  return GR_OK;
}

/* Chooses rows and channels of a unit so that its L1 stays in its share; one channel is taken in any case. */
static inline uint64_t gr_tt_conv_plan(gr_tt_conv_job *job, int64_t groups) {
  int64_t taps = job->channels * job->w.rows * job->w.cols, most = GR_TT_PANEL_BYTES / 4, fixed, each;
  job->height = gr_tt_lesser(32, job->y.rows);
  job->in_cols = (job->y.cols - 1) * job->stride[1] + (job->w.cols - 1) * job->dilation[1] + 1;
  job->together = job->stride[0] == 1 && job->stride[1] == 1 && job->in_cols <= GR_TT_CONV_NARROW;
  job->pitch = job->together ? job->in_cols : job->y.cols;
  for (;;) {
    job->in_rows = (job->height - 1) * job->stride[0] + (job->w.rows - 1) * job->dilation[0] + 1;
    fixed = (int64_t)(gr_tt_bytes(job->in_rows, job->in_cols) / 4);
    each = job->height * job->pitch + taps + 1;
    /* a tile's 32 rows are stored together; rows of a row-major tensor need not be */
    if (fixed + each <= most || job->y.arg->layout == GR_TILE || job->height == 1) break;
    job->height = (job->height + 1) / 2;
  }
  job->lines = gr_tt_ceil(job->y.rows, job->height);
  int64_t pieces = gr_tt_ceil(GR_TT_CONV_UNITS, job->lines * groups * job->images);
  job->block = gr_tt_greater(1, gr_tt_lesser((most - fixed) / each, gr_tt_ceil(job->outputs, pieces)));
  job->blocks = gr_tt_ceil(job->outputs, job->block) * groups;
  job->share = gr_tt_ceil(job->images, gr_tt_ceil(GR_TT_CONV_UNITS, job->lines * job->blocks));
  return gr_tt_bytes(1, fixed) + gr_tt_bytes(job->block, each);
}

/* gr-kernel: tt/conv2d */
static inline int32_t gr_tt_conv2d(const gr_call *call) {
  const gr_arg *y = &call->args[call->nargs - 1];
  const int64_t *words = call->attrs;
  gr_tt_conv_job job = {.x = gr_tt_view_of(&call->args[0]), .w = gr_tt_view_of(&call->args[1]),
                        .y = gr_tt_view_of(y), .stride = {words[0], words[1]},
                        .pad = {words[2], words[3]}, .dilation = {words[6], words[7]}};
  int64_t groups = words[8];
  if (call->nargs == 4) job.bias = gr_tt_view_of(&call->args[2]);
  job.images = y->shape[0];
  job.channels = call->args[1].shape[1];
  job.outputs = y->shape[1] / groups;
  if (job.y.outer * job.y.rows * job.y.cols == 0) return GR_OK;
  gr_tt_words numerics = gr_tt_words_of(words + 9);
  if (numerics.exact) {
    gr_tt_exact_conv_job exact = {job.x, job.w, job.bias, job.y, {job.stride[0], job.stride[1]},
                                  {job.pad[0], job.pad[1]}, {job.dilation[0], job.dilation[1]}, groups,
                                  job.channels, job.outputs, numerics};
    return gr_tt_exact_conv(call, &exact);
  }
  uint64_t bytes = gr_tt_conv_plan(&job, groups);
  int64_t units = job.lines * job.blocks * gr_tt_ceil(job.images, job.share);
  return gr_tt_run(call, units, bytes, gr_tt_conv_unit, &job);
}

#endif
