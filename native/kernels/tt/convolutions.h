/* convolutions.h: conv_transpose2d and conv2d_backward_weight, the gradients of conv2d by its input and its weight.
 *
 * The contract is that of ir/ops/products/convolutions.py. Products are float32's, whatever fidelity is named.
 * conv_transpose2d: output pixels that are a multiple of the stride apart see the same taps, and each of these sees
 * neighbouring input pixels: so each such set of pixels is a product of weights with an image that is not dilated.
 * conv2d_backward_weight: for some input channels a product of the gradient [outputs][pixels] with the images under
 * each tap [pixels][channels][taps].
 * Where a plane is one window, several images are done at a time: a weight is then moved once for all of them.
 * Thread: any; a core makes some output channels of a band of rows, or some channels of the weight.
 * defines: gr_tt_conv_transpose2d, gr_tt_conv2d_backward_weight
 */
#ifndef GR_TT_CONVOLUTIONS_H
#define GR_TT_CONVOLUTIONS_H

#include "gemm.h"
#include "tt/work.h"

#define GR_TT_GRADIENT_UNITS 4        /* units worth having: each reads the input, or the gradient, anew */
#define GR_TT_GRADIENT_OUTPUTS 128    /* most output channels at a time */
#define GR_TT_GRADIENT_COLS 64        /* most columns of a window of conv_transpose2d */
#define GR_TT_GRADIENT_PIXELS 1024    /* of a window of several images */
#define GR_TT_GRADIENT_TAPS 144       /* columns of conv2d_backward_weight: 16 channels of nine taps */
#define GR_TT_GRADIENT_FLOATS 49152   /* of the image as the product reads it */
#define GR_TT_GRADIENT_INPUTS 8192    /* floats of input channels, and of their weights, in L1 at a time */
#define GR_TT_GRADIENT_DEPTH 128      /* of K at a time in conv_transpose2d */
#define GR_TT_GRADIENT_SUMS 36864     /* floats of sums, where that leaves 16 output channels */
#define GR_TT_GRADIENT_STAGE 4096     /* floats of planes on their way, where one plane has no more */

/* One dimension: 0 height, 1 width. */
typedef struct gr_tt_gradient_side {
  int64_t stride, pad, dilation, taps;
  int64_t out, in;                    /* pixels of a window at most, and of the input that they look at */
} gr_tt_gradient_side;

typedef struct gr_tt_gradient_job {
  gr_tt_view x, w, bias, y;           /* w: the weight, or the gradient of y; bias.arg is NULL where there is none */
  gr_tt_gradient_side side[2];
  int64_t groups, channels, outputs;  /* C and O of one group */
  int64_t images, rounds;             /* images at a time, windows of them */
  int64_t block, blocks;              /* output channels at a time */
  int64_t chunk, chunks;              /* input channels at a time */
  int64_t bands;                      /* windows down a plane */
  int64_t depth;                      /* of K at a time */
  int64_t area;                       /* floats of an output channel's sums */
} gr_tt_gradient_job;

/* Element (row, column) of a matrix in stripes [columns / STRIPE][depth][STRIPE]. */
static inline float *gr_tt_striped(float *b, int64_t depth, int64_t row, int64_t column) {
  return b + column / GR_STRIPE * depth * GR_STRIPE + row * GR_STRIPE + column % GR_STRIPE;
}

/* `count` things in even parts of at most `most`: the size of a part. */
static inline int64_t gr_tt_even(int64_t count, int64_t most) {
  return gr_tt_ceil_div(count, gr_tt_ceil_div(count, gr_tt_greater(1, most)));
}

/* Planes of `area` floats that are staged at a time, and the floats that they take. */
static inline int64_t gr_tt_staged(int64_t area) {
  return gr_tt_greater(1, GR_TT_GRADIENT_STAGE / gr_tt_greater(1, area));
}

static inline int64_t gr_tt_stage_floats(int64_t area) { return gr_tt_greater(GR_TT_GRADIENT_STAGE, area); }

/* Images at a time, and how many times that is. */
static inline void gr_tt_gradient_images(gr_tt_gradient_job *job, int64_t images, int64_t most) {
  job->images = gr_tt_even(gr_tt_greater(1, images), most);
  job->rounds = gr_tt_ceil_div(images, job->images);
}

/* Output channels at a time: their sums are bounded, and `shares` units for each block make units enough. At most
 * `most`, or 16. */
static inline void gr_tt_gradient_blocks(gr_tt_gradient_job *job, int64_t shares, int64_t most) {
  int64_t pieces = gr_tt_ceil_div(GR_TT_GRADIENT_UNITS, gr_tt_greater(1, shares));
  most = gr_tt_lesser(gr_tt_lesser(most, GR_TT_GRADIENT_OUTPUTS), GR_TT_GRADIENT_SUMS / job->area);
  most = gr_tt_greater(16, gr_tt_lesser(most, gr_tt_ceil_div(job->outputs, pieces)));
  job->block = gr_tt_even(job->outputs, most);
  job->blocks = gr_tt_ceil_div(job->outputs, job->block);
}

/* ---------------------------------------------------------------- conv_transpose2d */

/* Pixels first .. first+count-1 of the output along a dimension look at input pixels lo .. lo+n-1. */
static inline int64_t gr_tt_transposed_reach(const gr_tt_gradient_side *s, int64_t size, int64_t first, int64_t count,
                                             int64_t *n) {
  int64_t least = first + s->pad - (s->taps - 1) * s->dilation, last = (first + count - 1 + s->pad) / s->stride;
  int64_t lo = least > 0 ? gr_tt_ceil_div(least, s->stride) : 0;
  *n = gr_tt_greater(0, gr_tt_lesser(last + 1, size) - lo);
  return lo;
}

/* The pixels of a phase among first .. first+count-1: from *at on, one each stride. */
static inline int64_t gr_tt_transposed_phase(const gr_tt_gradient_side *s, int64_t phase, int64_t first,
                                             int64_t count, int64_t *at) {
  int64_t gap = (phase - (first + s->pad) % s->stride + s->stride) % s->stride;
  *at = first + gap;
  return gap < count ? (count - gap - 1) / s->stride + 1 : 0;
}

/* A window while it is made: pixels (first[0], first[1]) .. of the planes of `outputs` channels from `output` on, of
 * some images. In L1: sums [block][area], the images for the product [pixels / STRIPE][depth][STRIPE] and a row of it
 * [pixels], weights for it [block][depth], input pixels [chunk][images][in][in], weights [chunk][block][taps], the
 * bias [block], planes of the window [staged][out][out], the taps of a phase [taps]. */
typedef struct gr_tt_transposed {
  const gr_tt_core *c;
  const gr_tt_gradient_job *job;
  int64_t image, images, group, output, outputs, first[2], count[2];
  int64_t lo[2], seen[2];              /* of the input */
  float *sums, *b, *row, *a, *x, *w, *bias, *stage;
  int32_t *taps;
} gr_tt_transposed;

static inline int32_t gr_tt_transposed_load(const gr_tt_transposed *t, int64_t ch0, int64_t channels) {
  const gr_tt_gradient_job *job = t->job;
  int64_t taps = job->side[0].taps * job->side[1].taps, seen = t->seen[0] * t->seen[1];
  int64_t first = t->group * job->channels + ch0, planes = job->groups * job->channels;
  for (int64_t i = 0; i < t->images && seen > 0; ++i) {
    gr_tt_rect at = {(t->image + i) * planes + first, t->lo[0], t->seen[0], t->lo[1], t->seen[1]};
    GR_TT_TRY(gr_tt_load_planes(t->c, &job->x, at, channels, t->x + i * job->chunk * seen));
  }
  for (int64_t ch = 0; ch < channels; ++ch) {
    gr_tt_rect at = {(first + ch) * job->outputs + t->output, 0, job->side[0].taps, 0, job->side[1].taps};
    GR_TT_TRY(gr_tt_load_planes(t->c, &job->w, at, t->outputs, t->w + ch * job->block * taps));
  }
  return GR_OK;
}

/* The pixels, of 0 .. count-1 which read input pixels from `first` on, that read one of 0 .. size-1: *begin ..
 * *end-1. */
static inline void gr_tt_within(int64_t first, int64_t step, int64_t count, int64_t size, int64_t *begin,
                                int64_t *end) {
  *begin = first < 0 ? gr_tt_lesser(count, gr_tt_ceil_div(-first, step)) : 0;
  *end = size > first ? gr_tt_greater(*begin, gr_tt_lesser(count, gr_tt_ceil_div(size - first, step))) : *begin;
}

/* Row k for the product: what rows x cols pixels of each image see of channel ch by one tap; top, left: the input pixel
 * that the first of them sees, counted from what is loaded. */
static inline void gr_tt_transposed_row(const gr_tt_transposed *t, int64_t k, int64_t ch, int64_t top, int64_t left,
                                        int64_t rows, int64_t cols) {
  int64_t seen = t->seen[0] * t->seen[1], pixels = t->images * rows * cols, r0, r1, c0, c1;
  gr_tt_within(top, 1, rows, t->seen[0], &r0, &r1);
  gr_tt_within(left, 1, cols, t->seen[1], &c0, &c1);
  if (r1 - r0 < rows || c1 - c0 < cols) memset(t->row, 0, (size_t)pixels * 4);
  for (int64_t i = 0; i < t->images; ++i) {
    const float *x = t->x + (i * t->job->chunk + ch) * seen;
    for (int64_t r = r0; r < r1; ++r) {
      const float *from = x + (top + r) * t->seen[1] + left;
      float *to = t->row + (i * rows + r) * cols;
      for (int64_t j = c0; j < c1; ++j) to[j] = from[j];
    }
  }
  for (int64_t p = 0; p < pixels; p += GR_STRIPE)
    memcpy(gr_tt_striped(t->b, t->job->depth, k, p), t->row + p, GR_STRIPE * 4);
}

/* n floats, inlined for numbers of taps that are frequent. */
static inline void gr_tt_copy_taps(float *to, const float *from, int64_t n) {
  if (n == 1)
    *to = *from;
  else if (n == 9)
    memcpy(to, from, 36);
  else
    memcpy(to, from, (size_t)n * 4);
}

/* The weights of steps k0 .. k1-1 as the product reads them, a[block][depth]: k is tap taps[k % count] of channel
 * k / count. */
static inline void gr_tt_transposed_weights(const gr_tt_transposed *t, const int32_t *taps, int64_t count, int64_t k0,
                                            int64_t k1) {
  const gr_tt_gradient_job *job = t->job;
  int64_t each = job->side[0].taps * job->side[1].taps;
  for (int64_t o = 0; o < t->outputs; ++o)
    for (int64_t k = k0, n; k < k1; k += n) {
      int64_t first = k % count;
      const float *from = t->w + (k / count * job->block + o) * each;
      float *to = t->a + o * job->depth + k - k0;
      n = gr_tt_lesser(count - first, k1 - k);
      if (count == each)
        gr_tt_copy_taps(to, from + first, n);
      else
        for (int64_t j = 0; j < n; ++j) to[j] = from[taps[first + j]];
    }
}

/* The taps that pixels of phase (a, b) see: their number. */
static inline int64_t gr_tt_transposed_taps(const gr_tt_gradient_job *job, int64_t a, int64_t b, int32_t *taps) {
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t count = 0;
  for (int64_t p = 0; p < h->taps; ++p)
    for (int64_t q = 0; q < w->taps; ++q)
      if (p * h->dilation % h->stride == a && q * w->dilation % w->stride == b)
        taps[count++] = (int32_t)(p * w->taps + q);
  return count;
}

/* Adds what `channels` channels give to the pixels of one phase, whose sums begin at `sums`. Steps of K are of whole
 * channels where that fits. */
static inline void gr_tt_transposed_add(const gr_tt_transposed *t, int64_t channels, int64_t a, int64_t b,
                                        float *sums) {
  const gr_tt_gradient_job *job = t->job;
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t r, col, rows = gr_tt_transposed_phase(h, a, t->first[0], t->count[0], &r);
  int64_t cols = gr_tt_transposed_phase(w, b, t->first[1], t->count[1], &col);
  int64_t count = gr_tt_transposed_taps(job, a, b, t->taps), all = channels * count;
  int64_t step = job->depth >= count && count > 0 ? job->depth / count * count : job->depth;
  for (int64_t k0 = 0, k1; k0 < all; k0 = k1) {
    k1 = gr_tt_lesser(all, k0 + step);
    for (int64_t k = k0; k < k1; ++k) {
      int64_t p = t->taps[k % count] / w->taps, q = t->taps[k % count] % w->taps;
      gr_tt_transposed_row(t, k - k0, k / count, (r + h->pad - p * h->dilation) / h->stride - t->lo[0],
                           (col + w->pad - q * w->dilation) / w->stride - t->lo[1], rows, cols);
    }
    gr_tt_transposed_weights(t, t->taps, count, k0, k1);
    gr_gemm g = {.rows = t->outputs, .stripes = gr_tt_ceil_div(t->images * rows * cols, GR_STRIPE), .k = k1 - k0,
                 .a = t->a, .a_row = job->depth, .b = t->b, .b_stripe = GR_STRIPE * job->depth, .c = sums,
                 .c_row = job->area};
    gr_gemm_run(&g, GR_GEMM_FUSED);
  }
}

/* Puts the sums of a channel of an image where their pixels are, in to[rows][cols] of the window, adds its bias. */
static inline void gr_tt_transposed_place(const gr_tt_transposed *t, const float *sums, int64_t image, float bias,
                                          float *to) {
  const gr_tt_gradient_side *h = &t->job->side[0], *w = &t->job->side[1];
  for (int64_t a = 0; a < h->stride; ++a)
    for (int64_t b = 0; b < w->stride; ++b) {
      int64_t r, col, rows = gr_tt_transposed_phase(h, a, t->first[0], t->count[0], &r);
      int64_t cols = gr_tt_transposed_phase(w, b, t->first[1], t->count[1], &col);
      for (int64_t i = 0; i < rows; ++i) {
        float *line = to + (r - t->first[0] + i * h->stride) * t->count[1] + col - t->first[1];
        for (int64_t j = 0; j < cols; ++j) line[j * w->stride] = sums[(image * rows + i) * cols + j] + bias;
      }
      sums += gr_tt_up(t->images * rows * cols, GR_STRIPE);
    }
}

static inline int32_t gr_tt_transposed_store(const gr_tt_transposed *t) {
  const gr_tt_gradient_job *job = t->job;
  int64_t first = t->group * job->outputs + t->output, planes = job->groups * job->outputs;
  int64_t area = t->count[0] * t->count[1], staged = gr_tt_staged(area);
  if (job->bias.arg != NULL)
    GR_TT_TRY(gr_tt_load(t->c, &job->bias, (gr_tt_rect){0, 0, 1, first, t->outputs}, t->bias, t->outputs));
  for (int64_t i = 0; i < t->images; ++i)
    for (int64_t o = 0; o < t->outputs; o += staged) {
      int64_t n = gr_tt_lesser(staged, t->outputs - o);
      gr_tt_rect at = {(t->image + i) * planes + first + o, t->first[0], t->count[0], t->first[1], t->count[1]};
      for (int64_t k = o; k < o + n; ++k)
        gr_tt_transposed_place(t, t->sums + k * job->area, i, job->bias.arg != NULL ? t->bias[k] : 0.0f,
                               t->stage + (k - o) * area);
      GR_TT_TRY(gr_tt_store_planes(t->c, &job->y, at, n, t->stage));
    }
  return GR_OK;
}

static inline int32_t gr_tt_transposed_window(gr_tt_transposed *t) {
  const gr_tt_gradient_job *job = t->job;
  for (int d = 0; d < 2; ++d)
    t->lo[d] = gr_tt_transposed_reach(&job->side[d], d == 0 ? job->x.rows : job->x.cols, t->first[d], t->count[d],
                                      &t->seen[d]);
  memset(t->sums, 0, (size_t)(job->block * job->area) * 4);
  for (int64_t ch = 0; ch < job->channels; ch += job->chunk) {
    int64_t channels = gr_tt_lesser(job->chunk, job->channels - ch), r, col;
    float *sums = t->sums;
    GR_TT_TRY(gr_tt_transposed_load(t, ch, channels));
    for (int64_t a = 0; a < job->side[0].stride; ++a)
      for (int64_t b = 0; b < job->side[1].stride; ++b) {
        int64_t pixels = gr_tt_transposed_phase(&job->side[0], a, t->first[0], t->count[0], &r) *
                         gr_tt_transposed_phase(&job->side[1], b, t->first[1], t->count[1], &col);
        if (pixels > 0) gr_tt_transposed_add(t, channels, a, b, sums);
        sums += gr_tt_up(t->images * pixels, GR_STRIPE);
      }
  }
  return gr_tt_transposed_store(t);
}

/* Pixels of the largest phase of a window, all its images together. */
static inline int64_t gr_tt_transposed_pixels(const gr_tt_gradient_job *job) {
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  return gr_tt_up(job->images * gr_tt_ceil_div(h->out, h->stride) * gr_tt_ceil_div(w->out, w->stride), GR_STRIPE);
}

/* Floats of L1, in the order of gr_tt_transposed; t, unless NULL, gets their places. */
static inline int64_t gr_tt_transposed_layout(const gr_tt_gradient_job *job, float *at, gr_tt_transposed *t) {
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t pixels = gr_tt_transposed_pixels(job), b = job->block * job->area, row = b + pixels * job->depth;
  int64_t a = row + pixels, x = a + job->block * job->depth, of_w = x + job->chunk * job->images * h->in * w->in;
  int64_t bias = of_w + job->chunk * job->block * h->taps * w->taps, stage = bias + job->block;
  int64_t taps = stage + gr_tt_stage_floats(h->out * w->out);
  if (t != NULL) {
    t->sums = at, t->b = at + b, t->row = at + row, t->a = at + a, t->x = at + x, t->w = at + of_w;
    t->bias = at + bias, t->stage = at + stage, t->taps = (int32_t *)(void *)(at + taps);
  }
  return taps + h->taps * w->taps;
}

/* Some output channels of a band of rows of some images, window after window along it. */
static inline int32_t gr_tt_transposed_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_gradient_job *job = (const gr_tt_gradient_job *)ctx;
  int64_t rest = unit / job->bands, width = job->side[1].out;
  gr_tt_transposed t = {.c = c, .job = job, .image = rest / job->blocks / job->groups * job->images,
                        .group = rest / job->blocks % job->groups, .output = rest % job->blocks * job->block};
  t.images = gr_tt_lesser(job->images, job->x.arg->shape[0] - t.image);
  t.outputs = gr_tt_lesser(job->block, job->outputs - t.output);
  gr_tt_transposed_layout(job, (float *)(void *)c->space, &t);
  memset(t.row, 0, (size_t)gr_tt_transposed_pixels(job) * 4);
  t.first[0] = unit % job->bands * job->side[0].out;
  t.count[0] = gr_tt_lesser(job->side[0].out, job->y.rows - t.first[0]);
  for (t.first[1] = 0; t.first[1] < job->y.cols; t.first[1] += width) {
    t.count[1] = gr_tt_lesser(width, job->y.cols - t.first[1]);
    GR_TT_TRY(gr_tt_transposed_window(&t));
  }
  return GR_OK;
}

static inline gr_tt_gradient_job gr_tt_gradient_of(const gr_call *call, const gr_arg *taps) {
  const int64_t *words = call->attrs;
  gr_tt_gradient_job job = {.x = gr_tt_view_of(&call->args[0]), .w = gr_tt_view_of(&call->args[1]),
                            .y = gr_tt_view_of(&call->args[call->nargs - 1]), .groups = words[6]};
  for (int d = 0; d < 2; ++d)
    job.side[d] = (gr_tt_gradient_side){.stride = words[d], .pad = words[2 + d], .dilation = words[4 + d],
                                        .taps = taps->shape[2 + d]};
  job.channels = call->args[0].shape[1] / job.groups;
  return job;
}

/* gr-kernel: tt/conv_transpose2d */
static inline int32_t gr_tt_conv_transpose2d(const gr_call *call) {
  gr_tt_gradient_job job = gr_tt_gradient_of(call, &call->args[1]);
  gr_tt_gradient_side *h = &job.side[0], *w = &job.side[1];
  if (call->nargs == 4) job.bias = gr_tt_view_of(&call->args[2]);
  if (job.y.outer * job.y.rows * job.y.cols == 0) return GR_OK;
  job.outputs = call->args[1].shape[1];
  h->out = gr_tt_lesser(32, job.y.rows);
  w->out = gr_tt_lesser(GR_TT_GRADIENT_COLS, job.y.cols);
  job.bands = gr_tt_ceil_div(job.y.rows, h->out);
  for (int d = 0; d < 2; ++d) {
    gr_tt_gradient_side *s = &job.side[d];
    int64_t reach = (s->out - 1 + (s->taps - 1) * s->dilation) / s->stride + 1;
    s->in = gr_tt_lesser(d == 0 ? job.x.rows : job.x.cols, reach);
  }
  int64_t pixels = h->out * w->out, whole = pixels == job.y.rows * job.y.cols;
  int64_t phases = gr_tt_lesser(h->stride, h->out) * gr_tt_lesser(w->stride, w->out);
  gr_tt_gradient_images(&job, call->args[0].shape[0], whole ? GR_TT_GRADIENT_PIXELS / pixels : 1);
  job.area = gr_tt_up(job.images * pixels, GR_STRIPE) + (phases > 1 ? GR_STRIPE * phases : 0);
  int64_t of_w = gr_tt_greater(1, h->taps * w->taps);
  gr_tt_gradient_blocks(&job, job.rounds * job.groups * job.bands, GR_TT_GRADIENT_INPUTS / of_w);
  job.depth = gr_tt_lesser(GR_TT_GRADIENT_DEPTH, GR_TT_GRADIENT_FLOATS / gr_tt_transposed_pixels(&job));
  int64_t least = gr_tt_greater(job.block * of_w, job.images * h->in * w->in);
  job.chunk = gr_tt_greater(1, gr_tt_lesser(job.channels, GR_TT_GRADIENT_INPUTS / least));
  return gr_tt_run(call, job.rounds * job.groups * job.blocks * job.bands,
                   gr_tt_bytes(1, gr_tt_transposed_layout(&job, NULL, NULL)), gr_tt_transposed_unit, &job);
}

/* ---------------------------------------------------------------- conv2d_backward_weight */

/* Channels channel .. channel+channels-1 of the weight for outputs output .. output+outputs-1, counted over groups.
 * In L1: sums [block][area], the images under the taps [area / STRIPE][depth][STRIPE], the gradient [block][depth],
 * planes on their way. */
typedef struct gr_tt_weight {
  const gr_tt_core *c;
  const gr_tt_gradient_job *job;
  int64_t output, outputs, channel, channels;
  float *sums, *b, *a, *stage;
} gr_tt_weight;

/* Inputs of one image's pixels from a channel for each tap: the channel's columns of the product, from row `first` on.
 * top, left: the input pixel that the first of them sees by the first tap, counted from x[nr][nc] of `seen`. */
static inline void gr_tt_weight_columns(const gr_tt_weight *t, gr_tt_rect at, gr_tt_rect seen, const float *x,
                                        int64_t channel, int64_t first, int64_t top, int64_t left) {
  const gr_tt_gradient_side *h = &t->job->side[0], *w = &t->job->side[1];
  for (int64_t tap = 0, r0, r1, c0, c1; tap < h->taps * w->taps; ++tap) {
    int64_t row = top + tap / w->taps * h->dilation, col = left + tap % w->taps * w->dilation;
    float *to = gr_tt_striped(t->b, t->job->depth, first, channel * h->taps * w->taps + tap);
    gr_tt_within(row, h->stride, at.nr, seen.nr, &r0, &r1);
    gr_tt_within(col, w->stride, at.nc, seen.nc, &c0, &c1);
    if (r1 - r0 < at.nr || c1 - c0 < at.nc)
      for (int64_t i = 0; i < at.nr * at.nc; ++i) to[i * GR_STRIPE] = 0.0f;
    for (int64_t r = r0; r < r1; ++r) {
      const float *from = x + (row + r * h->stride) * seen.nc + col;
      for (int64_t j = c0; j < c1; ++j) to[(r * at.nc + j) * GR_STRIPE] = from[j * w->stride];
    }
  }
}

/* An image's pixels `at`, from pixel `first` of the product on: the gradient's and those under the taps. */
static inline int32_t gr_tt_weight_load(const gr_tt_weight *t, gr_tt_rect at, int64_t image, int64_t first) {
  const gr_tt_gradient_job *job = t->job;
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t pixels = at.nr * at.nc, top = at.r0 * h->stride - h->pad, left = at.c0 * w->stride - w->pad;
  int64_t bottom = top + (at.nr - 1) * h->stride + (h->taps - 1) * h->dilation + 1;
  int64_t right = left + (at.nc - 1) * w->stride + (w->taps - 1) * w->dilation + 1;
  gr_tt_rect seen = {.r0 = gr_tt_greater(0, top), .c0 = gr_tt_greater(0, left)};
  seen.nr = gr_tt_greater(0, gr_tt_lesser(bottom, job->x.rows) - seen.r0);
  seen.nc = gr_tt_greater(0, gr_tt_lesser(right, job->x.cols) - seen.c0);
  for (int64_t o = 0, n, staged = gr_tt_staged(pixels); o < t->outputs; o += n) {
    n = gr_tt_lesser(staged, t->outputs - o);
    at.plane = image * job->groups * job->outputs + t->output + o;
    GR_TT_TRY(gr_tt_load_planes(t->c, &job->w, at, n, t->stage));
    for (int64_t i = 0; i < n; ++i)
      memcpy(t->a + (o + i) * job->depth + first, t->stage + i * pixels, (size_t)pixels * 4);
  }
  for (int64_t ch = 0, n, staged = gr_tt_staged(seen.nr * seen.nc); ch < t->channels; ch += n) {
    n = gr_tt_lesser(staged, t->channels - ch);
    seen.plane = image * job->groups * job->channels + t->channel + ch;
    if (seen.nr * seen.nc > 0) GR_TT_TRY(gr_tt_load_planes(t->c, &job->x, seen, n, t->stage));
    for (int64_t i = 0; i < n; ++i)
      gr_tt_weight_columns(t, at, seen, t->stage + i * seen.nr * seen.nc, ch + i, first, top - seen.r0,
                           left - seen.c0);
  }
  return GR_OK;
}

/* Floats of L1, in the order of gr_tt_weight; t, unless NULL, gets their places. */
static inline int64_t gr_tt_weight_layout(const gr_tt_gradient_job *job, float *at, gr_tt_weight *t) {
  int64_t b = job->block * job->area, a = b + job->area * job->depth, stage = a + job->block * job->depth;
  int64_t seen = job->side[0].in * job->side[1].in;
  if (t != NULL) t->sums = at, t->b = at + b, t->a = at + a, t->stage = at + stage;
  return stage + gr_tt_stage_floats(gr_tt_greater(seen, job->side[0].out * job->side[1].out));
}

/* Some input channels of some output channels of the weight: all pixels of all images. */
static inline int32_t gr_tt_weight_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_gradient_job *job = (const gr_tt_gradient_job *)ctx;
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t group = unit / job->chunks / job->blocks, o0 = unit / job->chunks % job->blocks * job->block;
  int64_t ch0 = unit % job->chunks * job->chunk, images = job->x.arg->shape[0];
  gr_tt_weight t = {.c = c, .job = job, .output = group * job->outputs + o0, .channel = group * job->channels + ch0,
                    .outputs = gr_tt_lesser(job->block, job->outputs - o0),
                    .channels = gr_tt_lesser(job->chunk, job->channels - ch0)};
  gr_tt_weight_layout(job, (float *)(void *)c->space, &t);
  memset(t.sums, 0, (size_t)(job->block * job->area + job->area * job->depth) * 4);
  for (int64_t image = 0; image < images; image += job->images)
    for (int64_t r = 0; r < job->w.rows; r += h->out)
      for (int64_t col = 0; col < job->w.cols; col += w->out) {
        gr_tt_rect at = {0, r, gr_tt_lesser(h->out, job->w.rows - r), col, gr_tt_lesser(w->out, job->w.cols - col)};
        int64_t count = gr_tt_lesser(job->images, images - image);
        for (int64_t i = 0; i < count; ++i) GR_TT_TRY(gr_tt_weight_load(&t, at, image + i, i * at.nr * at.nc));
        gr_gemm g = {.rows = t.outputs, .stripes = gr_tt_ceil_div(t.channels * h->taps * w->taps, GR_STRIPE),
                     .k = count * at.nr * at.nc, .a = t.a, .a_row = job->depth, .b = t.b,
                     .b_stripe = GR_STRIPE * job->depth, .c = t.sums, .c_row = job->area};
        gr_gemm_run(&g, GR_GEMM_FUSED);
      }
  for (int64_t o = 0; o < t.outputs; ++o) {
    gr_tt_rect to = {(t.output + o) * job->channels + ch0, 0, job->y.rows, 0, job->y.cols};
    GR_TT_TRY(gr_tt_store_planes(c, &job->y, to, t.channels, t.sums + o * job->area));
  }
  return GR_OK;
}

/* gr-kernel: tt/conv2d_backward_weight */
static inline int32_t gr_tt_conv2d_backward_weight(const gr_call *call) {
  gr_tt_gradient_job job = gr_tt_gradient_of(call, &call->args[2]);
  gr_tt_gradient_side *h = &job.side[0], *w = &job.side[1];
  if (job.y.outer * job.y.rows * job.y.cols == 0) return GR_OK;
  job.outputs = call->args[1].shape[1] / job.groups;
  job.chunk = gr_tt_lesser(job.channels, gr_tt_greater(1, GR_TT_GRADIENT_TAPS / gr_tt_greater(1, h->taps * w->taps)));
  job.chunks = gr_tt_ceil_div(job.channels, job.chunk);
  job.area = gr_tt_up(job.chunk * h->taps * w->taps, GR_STRIPE);
  int64_t most = gr_tt_greater(1, gr_tt_lesser(256, GR_TT_GRADIENT_FLOATS / job.area));
  w->out = gr_tt_greater(1, gr_tt_lesser(32, job.w.cols));
  h->out = gr_tt_greater(1, gr_tt_lesser(gr_tt_lesser(32, job.w.rows), most / w->out));
  int whole = h->out >= job.w.rows && w->out >= job.w.cols;
  gr_tt_gradient_images(&job, call->args[0].shape[0], whole ? most / (h->out * w->out) : 1);
  gr_tt_gradient_blocks(&job, job.groups * job.chunks, GR_TT_GRADIENT_OUTPUTS);
  job.depth = job.images * h->out * w->out;
  for (int d = 0; d < 2; ++d) {
    gr_tt_gradient_side *s = &job.side[d];
    int64_t reach = (s->out - 1) * s->stride + (s->taps - 1) * s->dilation + 1;
    s->in = gr_tt_lesser(d == 0 ? job.x.rows : job.x.cols, reach);
  }
  return gr_tt_run(call, job.groups * job.blocks * job.chunks, gr_tt_bytes(1, gr_tt_weight_layout(&job, NULL, NULL)),
                   gr_tt_weight_unit, &job);
}

#endif
