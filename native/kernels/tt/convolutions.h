/* convolutions.h: conv_transpose2d and conv2d_backward_weight, the gradients of conv2d by its input and its weight.
 *
 * The contract is that of graph_runtime/ir/ops/convolutions.py. Products are float32's, whatever fidelity is named.
 * conv_transpose2d: output pixels that are a multiple of the stride apart see the same taps, and each of these sees
 * neighbouring input pixels: so each such set of pixels is a product of weights with an image that is not dilated.
 * conv2d_backward_weight: for each input channel a product of the gradient [outputs][pixels] with the image under
 * each tap [pixels][taps].
 * Thread: any; a core makes some output channels of a band of rows, or some channels of the weight.
 * defines: gr_tt_conv_transpose2d, gr_tt_conv2d_backward_weight
 */
#ifndef GR_TT_CONVOLUTIONS_H
#define GR_TT_CONVOLUTIONS_H

#include "gemm.h"
#include "tt/work.h"

#define GR_TT_GRADIENT_OUTPUTS 16     /* output channels at a time */
#define GR_TT_GRADIENT_COLS 64        /* most columns of a window of conv_transpose2d */
#define GR_TT_GRADIENT_FLOATS 49152   /* of the image as the product reads it */

/* One dimension: 0 height, 1 width. */
typedef struct gr_tt_gradient_side {
  int64_t stride, pad, dilation, taps;
  int64_t out, in;                    /* pixels of a window at most, and of the input that they look at */
} gr_tt_gradient_side;

typedef struct gr_tt_gradient_job {
  gr_tt_view x, w, bias, y;           /* w: the weight, or the gradient of y; bias.arg is NULL where there is none */
  gr_tt_gradient_side side[2];
  int64_t groups, channels, outputs;  /* C and O of one group */
  int64_t block, blocks;              /* output channels at a time */
  int64_t chunk, chunks;              /* input channels at a time */
  int64_t bands;                      /* windows down a plane */
  int64_t depth;                      /* of K at a time */
  int64_t area;                       /* floats of an output channel's sums */
  int kind;                           /* enum gr_gemm_kind */
} gr_tt_gradient_job;

static inline int gr_tt_gradient_kind(const gr_arg *a, const gr_arg *b) {
  return a->format != GR_F32 && b->format != GR_F32 ? GR_GEMM_FUSED : GR_GEMM_PLAIN;
}

/* Element (row, column) of a matrix in stripes [columns / STRIPE][depth][STRIPE]. */
static inline float *gr_tt_striped(float *b, int64_t depth, int64_t row, int64_t column) {
  return b + column / GR_STRIPE * depth * GR_STRIPE + row * GR_STRIPE + column % GR_STRIPE;
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

/* A window while it is made: pixels (r0, c0) .. of the planes of `outputs` channels from `output` on. In L1: sums
 * [block][area], the image for the product [pixels / STRIPE][depth][STRIPE], weights for it [block][depth], input
 * pixels [chunk][in][in], weights [chunk][block][taps], a plane's window [out][out]. */
typedef struct gr_tt_transposed {
  const gr_tt_core *c;
  const gr_tt_gradient_job *job;
  int64_t image, group, output, outputs, first[2], count[2];
  int64_t lo[2], seen[2];              /* of the input */
  float *sums, *b, *a, *x, *w, *stage;
} gr_tt_transposed;

static inline int32_t gr_tt_transposed_load(const gr_tt_transposed *t, int64_t ch0, int64_t channels) {
  const gr_tt_gradient_job *job = t->job;
  int64_t taps = job->side[0].taps * job->side[1].taps, in = job->side[0].in * job->side[1].in;
  int64_t first = t->group * job->channels + ch0, planes = job->groups * job->channels;
  for (int64_t ch = 0; ch < channels; ++ch) {
    gr_tt_rect at = {t->image * planes + first + ch, t->lo[0], t->seen[0], t->lo[1], t->seen[1]};
    if (at.nr > 0 && at.nc > 0) GR_TT_TRY(gr_tt_load(t->c, &job->x, at, t->x + ch * in, job->side[1].in));
    for (int64_t o = 0; o < t->outputs; ++o) {
      gr_tt_rect of_w = {(first + ch) * job->outputs + t->output + o, 0, job->side[0].taps, 0, job->side[1].taps};
      GR_TT_TRY(gr_tt_load(t->c, &job->w, of_w, t->w + (ch * job->block + o) * taps, job->side[1].taps));
    }
  }
  return GR_OK;
}

/* Row k of the image: what rows x cols pixels see of a channel by tap (p, q); top, left: the input pixel that the
 * first of them sees, counted from what is loaded. */
static inline void gr_tt_transposed_row(const gr_tt_transposed *t, int64_t k, const float *x, int64_t top,
                                        int64_t left, int64_t rows, int64_t cols) {
  int64_t ld = t->job->side[1].in;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      int inside = top + i >= 0 && top + i < t->seen[0] && left + j >= 0 && left + j < t->seen[1];
      *gr_tt_striped(t->b, t->job->depth, k, i * cols + j) = inside ? x[(top + i) * ld + left + j] : 0.0f;
    }
}

/* Adds what `channels` channels give to the pixels of one phase, whose sums begin at `sums`. */
static inline void gr_tt_transposed_add(const gr_tt_transposed *t, int64_t channels, int64_t a, int64_t b,
                                        float *sums) {
  const gr_tt_gradient_job *job = t->job;
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t r, col, rows = gr_tt_transposed_phase(h, a, t->first[0], t->count[0], &r), k = 0;
  int64_t cols = gr_tt_transposed_phase(w, b, t->first[1], t->count[1], &col), taps = h->taps * w->taps;
  gr_gemm g = {.rows = t->outputs, .stripes = gr_tt_ceil_div(rows * cols, GR_STRIPE), .a = t->a, .a_row = job->depth,
               .b = t->b, .b_stripe = GR_STRIPE * job->depth, .c = sums, .c_row = job->area};
  for (int64_t i = 0; i < channels * taps; ++i) {
    int64_t p = i % taps / w->taps, q = i % w->taps, ch = i / taps;
    if (p * h->dilation % h->stride == a && q * w->dilation % w->stride == b) {
      gr_tt_transposed_row(t, k, t->x + ch * h->in * w->in, (r + h->pad - p * h->dilation) / h->stride - t->lo[0],
                           (col + w->pad - q * w->dilation) / w->stride - t->lo[1], rows, cols);
      for (int64_t o = 0; o < t->outputs; ++o)
        t->a[o * job->depth + k] = t->w[(ch * job->block + o) * taps + i % taps];
      ++k;
    }
    if (k == 0 || (k < job->depth && i + 1 < channels * taps)) continue;
    g.k = k;
    gr_gemm_run(&g, job->kind);
    k = 0;
  }
}

/* Puts the sums of a channel where their pixels are, adds its bias. */
static inline void gr_tt_transposed_place(const gr_tt_transposed *t, const float *sums, float bias) {
  const gr_tt_gradient_side *h = &t->job->side[0], *w = &t->job->side[1];
  for (int64_t a = 0; a < h->stride; ++a)
    for (int64_t b = 0; b < w->stride; ++b) {
      int64_t r, col, rows = gr_tt_transposed_phase(h, a, t->first[0], t->count[0], &r);
      int64_t cols = gr_tt_transposed_phase(w, b, t->first[1], t->count[1], &col);
      for (int64_t i = 0; i < rows * cols; ++i) {
        int64_t y = r - t->first[0] + i / cols * h->stride, x = col - t->first[1] + i % cols * w->stride;
        t->stage[y * w->out + x] = sums[i] + bias;
      }
      sums += gr_tt_up(rows * cols, GR_STRIPE);
    }
}

static inline int32_t gr_tt_transposed_window(gr_tt_transposed *t) {
  const gr_tt_gradient_job *job = t->job;
  int64_t first = t->group * job->outputs + t->output, planes = job->groups * job->outputs;
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
        sums += gr_tt_up(pixels, GR_STRIPE);
      }
  }
  for (int64_t o = 0; o < t->outputs; ++o) {
    gr_tt_rect at = {t->image * planes + first + o, t->first[0], t->count[0], t->first[1], t->count[1]};
    float bias = 0.0f;
    if (job->bias.arg != NULL) GR_TT_TRY(gr_tt_load(t->c, &job->bias, (gr_tt_rect){0, 0, 1, first + o, 1}, &bias, 1));
    gr_tt_transposed_place(t, t->sums + o * job->area, bias);
    GR_TT_TRY(gr_tt_store(t->c, &job->y, at, t->stage, job->side[1].out, 0));
  }
  return GR_OK;
}

/* Floats of L1, in the order of gr_tt_transposed; t, unless NULL, gets their places. */
static inline int64_t gr_tt_transposed_layout(const gr_tt_gradient_job *job, float *at, gr_tt_transposed *t) {
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t pixels = gr_tt_up(gr_tt_ceil_div(h->out, h->stride) * gr_tt_ceil_div(w->out, w->stride), GR_STRIPE);
  int64_t b = job->block * job->area, a = b + pixels * job->depth, x = a + job->block * job->depth;
  int64_t of_w = x + job->chunk * h->in * w->in, stage = of_w + job->chunk * job->block * h->taps * w->taps;
  if (t != NULL)
    t->sums = at, t->b = at + b, t->a = at + a, t->x = at + x, t->w = at + of_w, t->stage = at + stage;
  return stage + h->out * w->out;
}

/* Some output channels of a band of rows, window after window along it. */
static inline int32_t gr_tt_transposed_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_gradient_job *job = (const gr_tt_gradient_job *)ctx;
  int64_t rest = unit / job->bands, width = job->side[1].out;
  gr_tt_transposed t = {.c = c, .job = job, .image = rest / job->blocks / job->groups,
                        .group = rest / job->blocks % job->groups, .output = rest % job->blocks * job->block};
  t.outputs = gr_tt_lesser(job->block, job->outputs - t.output);
  gr_tt_transposed_layout(job, (float *)(void *)c->space, &t);
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
                            .y = gr_tt_view_of(&call->args[call->nargs - 1]), .groups = words[6],
                            .kind = gr_tt_gradient_kind(&call->args[0], &call->args[1])};
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
  job.block = gr_tt_lesser(GR_TT_GRADIENT_OUTPUTS, job.outputs);
  job.blocks = gr_tt_ceil_div(job.outputs, job.block);
  h->out = gr_tt_lesser(32, job.y.rows);
  w->out = gr_tt_lesser(GR_TT_GRADIENT_COLS, job.y.cols);
  job.bands = gr_tt_ceil_div(job.y.rows, h->out);
  for (int d = 0; d < 2; ++d) {
    gr_tt_gradient_side *s = &job.side[d];
    int64_t reach = (s->out - 1 + (s->taps - 1) * s->dilation) / s->stride + 1;
    s->in = gr_tt_lesser(d == 0 ? job.x.rows : job.x.cols, reach);
  }
  int64_t pixels = gr_tt_up(gr_tt_ceil_div(h->out, h->stride) * gr_tt_ceil_div(w->out, w->stride), GR_STRIPE);
  int64_t phases = gr_tt_lesser(h->stride, h->out) * gr_tt_lesser(w->stride, w->out);
  job.area = gr_tt_up(h->out * w->out, GR_STRIPE) + GR_STRIPE * phases;
  job.depth = gr_tt_lesser(256, GR_TT_GRADIENT_FLOATS / pixels);
  int64_t least = gr_tt_greater(4 * job.block * h->taps * w->taps, h->in * w->in);
  job.chunk = gr_tt_greater(1, gr_tt_lesser(job.channels, 16384 / least));
  return gr_tt_run(call, call->args[0].shape[0] * job.groups * job.blocks * job.bands,
                   gr_tt_bytes(1, gr_tt_transposed_layout(&job, NULL, NULL)), gr_tt_transposed_unit, &job);
}

/* ---------------------------------------------------------------- conv2d_backward_weight */

/* Adds what one window of one image's gradient gives: rows and columns of `at`, whose plane is the image. In L1: sums
 * [chunk][block][area], the image under the taps [area / STRIPE][pixels][STRIPE], the gradient [block][pixels], input
 * pixels [in][in]. */
static inline int32_t gr_tt_weight_window(const gr_tt_core *c, const gr_tt_gradient_job *job, gr_tt_rect at,
                                          int64_t output, int64_t outputs, int64_t channel, int64_t channels) {
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  float *sums = (float *)(void *)c->space, *b = sums + job->chunk * job->block * job->area;
  float *a = b + job->area * job->depth, *x = a + job->block * job->depth;
  int64_t pixels = at.nr * at.nc, top = at.r0 * h->stride - h->pad, left = at.c0 * w->stride - w->pad;
  int64_t bottom = top + (at.nr - 1) * h->stride + (h->taps - 1) * h->dilation + 1;
  int64_t right = left + (at.nc - 1) * w->stride + (w->taps - 1) * w->dilation + 1;
  gr_tt_rect seen = {.r0 = gr_tt_greater(0, top), .c0 = gr_tt_greater(0, left)};
  seen.nr = gr_tt_greater(0, gr_tt_lesser(bottom, job->x.rows) - seen.r0);
  seen.nc = gr_tt_greater(0, gr_tt_lesser(right, job->x.cols) - seen.c0);
  for (int64_t o = 0; o < outputs; ++o) {
    gr_tt_rect from = at;
    from.plane = at.plane * job->groups * job->outputs + output + o;
    GR_TT_TRY(gr_tt_load(c, &job->w, from, a + o * job->depth, at.nc));
  }
  for (int64_t ch = 0; ch < channels; ++ch) {
    seen.plane = at.plane * job->groups * job->channels + channel + ch;
    if (seen.nr > 0 && seen.nc > 0) GR_TT_TRY(gr_tt_load(c, &job->x, seen, x, w->in));
    for (int64_t tap = 0; tap < h->taps * w->taps; ++tap)
      for (int64_t i = 0; i < pixels; ++i) {
        int64_t r = top + i / at.nc * h->stride + tap / w->taps * h->dilation - seen.r0;
        int64_t col = left + i % at.nc * w->stride + tap % w->taps * w->dilation - seen.c0;
        int inside = r >= 0 && r < seen.nr && col >= 0 && col < seen.nc;
        *gr_tt_striped(b, job->depth, i, tap) = inside ? x[r * w->in + col] : 0.0f;
      }
    gr_gemm g = {.rows = outputs, .stripes = job->area / GR_STRIPE, .k = pixels, .a = a, .a_row = job->depth, .b = b,
                 .b_stripe = GR_STRIPE * job->depth, .c = sums + ch * job->block * job->area, .c_row = job->area};
    gr_gemm_run(&g, job->kind);
  }
  return GR_OK;
}

/* Some input channels of some output channels of the weight: all pixels of all images. */
static inline int32_t gr_tt_weight_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_gradient_job *job = (const gr_tt_gradient_job *)ctx;
  int64_t group = unit / job->chunks / job->blocks, o0 = unit / job->chunks % job->blocks * job->block;
  int64_t ch0 = unit % job->chunks * job->chunk, outputs = gr_tt_lesser(job->block, job->outputs - o0);
  int64_t channels = gr_tt_lesser(job->chunk, job->channels - ch0), height = job->side[0].out;
  float *sums = (float *)(void *)c->space;
  memset(sums, 0, (size_t)(job->chunk * job->block * job->area) * 4);
  for (int64_t image = 0; image < job->x.arg->shape[0]; ++image)
    for (int64_t r = 0; r < job->w.rows; r += height)
      for (int64_t col = 0; col < job->w.cols; col += 32) {
        gr_tt_rect at = {image, r, gr_tt_lesser(height, job->w.rows - r), col, gr_tt_lesser(32, job->w.cols - col)};
        GR_TT_TRY(gr_tt_weight_window(c, job, at, group * job->outputs + o0, outputs, group * job->channels + ch0,
                                      channels));
      }
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t ch = 0; ch < channels; ++ch) {
      gr_tt_rect to = {(group * job->outputs + o0 + o) * job->channels + ch0 + ch, 0, job->y.rows, 0, job->y.cols};
      GR_TT_TRY(gr_tt_store(c, &job->y, to, sums + (ch * job->block + o) * job->area, job->y.cols, 0));
    }
  return GR_OK;
}

/* gr-kernel: tt/conv2d_backward_weight */
static inline int32_t gr_tt_conv2d_backward_weight(const gr_call *call) {
  gr_tt_gradient_job job = gr_tt_gradient_of(call, &call->args[2]);
  gr_tt_gradient_side *h = &job.side[0], *w = &job.side[1];
  if (job.y.outer * job.y.rows * job.y.cols == 0) return GR_OK;
  job.outputs = call->args[1].shape[1] / job.groups;
  job.block = gr_tt_lesser(GR_TT_GRADIENT_OUTPUTS, job.outputs);
  job.blocks = gr_tt_ceil_div(job.outputs, job.block);
  job.area = gr_tt_up(h->taps * w->taps, GR_STRIPE);
  job.chunk = gr_tt_greater(1, gr_tt_lesser(job.channels, 16384 / (job.block * job.area)));
  job.chunks = gr_tt_ceil_div(job.channels, job.chunk);
  h->out = gr_tt_greater(1, gr_tt_lesser(32, GR_TT_GRADIENT_FLOATS / 32 / job.area));
  w->out = 32;
  job.depth = h->out * w->out;
  for (int d = 0; d < 2; ++d) {
    gr_tt_gradient_side *s = &job.side[d];
    int64_t reach = (s->out - 1) * s->stride + (s->taps - 1) * s->dilation + 1;
    s->in = gr_tt_lesser(d == 0 ? job.x.rows : job.x.cols, reach);
  }
  int64_t floats = job.chunk * job.block * job.area + job.area * job.depth + job.block * job.depth + h->in * w->in;
  return gr_tt_run(call, job.groups * job.blocks * job.chunks, gr_tt_bytes(1, floats), gr_tt_weight_unit, &job);
}

#endif
