/* conv3d.h: conv3d: for a window of one plane of the output a product of weights with what the window's taps see of the
 * input, channel by channel and plane by plane of the kernel's depth.
 *
 * The contract is that of ir/ops/products/convolutions.py. Products are float32's, whatever fidelity is named.
 * Thread: any; a core makes some output channels of a band of rows of one plane.
 * defines: gr_tt_conv3d
 */
#ifndef GR_TT_CONV3D_H
#define GR_TT_CONV3D_H

#include "tt/convolutions.h"

#define GR_TT_CONV3D_INPUT 32768      /* floats of input pixels that a wide window may take */

#define GR_TT_CONV3D_OUTPUTS 16       /* output channels at a time */

typedef struct gr_tt_conv3d_job {
  gr_tt_gradient_job of;              /* its sides: rows and columns; area: [rows][columns] of a window */
  gr_tt_gradient_side deep;           /* depth: out, in: planes of a volume of y, of x */
} gr_tt_conv3d_job;

/* A window while it is made: `outputs` channels of its group from `output` on; plane: of the output volume. In L1: sums
 * [block][area], the image for the product [area / STRIPE][depth][STRIPE], weights for it [block][depth], a plane's
 * input pixels [in][in], its weights [block][taps], what is stored [out][out]. */
typedef struct gr_tt_conv3d_window {
  const gr_tt_core *c;
  const gr_tt_conv3d_job *job;
  int64_t image, group, output, outputs, plane;
  gr_tt_rect at, seen;                /* of a plane of y, of x */
  int64_t top, left;                  /* of x, where the first pixel's first tap lies */
  int64_t k;                          /* rows of the image that wait for a product */
  float *sums, *b, *a, *x, *w, *stage;
} gr_tt_conv3d_window;

/* Floats of L1; t, unless NULL, gets their places. */
static inline int64_t gr_tt_conv3d_layout(const gr_tt_gradient_job *job, float *at, gr_tt_conv3d_window *t) {
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t b = job->block * job->area, a = b + job->area * job->depth, x = a + job->block * job->depth;
  int64_t of_w = x + h->in * w->in, stage = of_w + job->block * h->taps * w->taps;
  if (t != NULL)
    t->sums = at, t->b = at + b, t->a = at + a, t->x = at + x, t->w = at + of_w, t->stage = at + stage;
  return stage + h->out * w->out;
}

/* The waiting rows' product. */
static inline void gr_tt_conv3d_multiply(gr_tt_conv3d_window *t) {
  const gr_tt_gradient_job *job = &t->job->of;
  gr_gemm g = {.rows = t->outputs, .stripes = gr_tt_ceil_div(t->at.nr * t->at.nc, GR_STRIPE), .k = t->k, .a = t->a,
               .a_row = job->depth, .b = t->b, .b_stripe = GR_STRIPE * job->depth, .c = t->sums, .c_row = job->area};
  if (t->k > 0) gr_gemm_run(&g, GR_GEMM_FUSED);
  t->k = 0;
}

/* Inputs of the window's pixels for each tap of the plane in L1, and the taps' weights. */
static inline void gr_tt_conv3d_taps(gr_tt_conv3d_window *t) {
  const gr_tt_gradient_job *job = &t->job->of;
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  int64_t taps = h->taps * w->taps;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t top = t->top + tap / w->taps * h->dilation - t->seen.r0;
    int64_t left = t->left + tap % w->taps * w->dilation - t->seen.c0;
    for (int64_t i = 0; i < t->at.nr; ++i)
      for (int64_t j = 0; j < t->at.nc; ++j) {
        int64_t r = top + i * h->stride, col = left + j * w->stride;
        int inside = r >= 0 && r < t->seen.nr && col >= 0 && col < t->seen.nc;
        *gr_tt_striped(t->b, job->depth, t->k, i * t->at.nc + j) = inside ? t->x[r * w->in + col] : 0.0f;
      }
    for (int64_t o = 0; o < t->outputs; ++o) t->a[o * job->depth + t->k] = t->w[o * taps + tap];
    if (++t->k == job->depth) gr_tt_conv3d_multiply(t);
  }
}

/* All channels and planes that the window sees; `first` is its first tap's plane. */
static inline int32_t gr_tt_conv3d_sum(gr_tt_conv3d_window *t) {
  const gr_tt_gradient_job *job = &t->job->of;
  const gr_tt_gradient_side *d = &t->job->deep;
  int64_t first = t->plane * d->stride - d->pad, channels = job->groups * job->channels;
  for (int64_t ch = 0; ch < job->channels; ++ch)
    for (int64_t q = 0; q < d->taps; ++q) {
      int64_t slice = first + q * d->dilation;
      if (slice < 0 || slice >= d->in) continue;
      t->seen.plane = (t->image * channels + t->group * job->channels + ch) * d->in + slice;
      if (t->seen.nr > 0 && t->seen.nc > 0) GR_TT_TRY(gr_tt_load(t->c, &job->x, t->seen, t->x, job->side[1].in));
      for (int64_t o = 0; o < t->outputs; ++o) {
        gr_tt_rect of_w = {((t->group * job->outputs + t->output + o) * job->channels + ch) * d->taps + q, 0,
                           job->side[0].taps, 0, job->side[1].taps};
        GR_TT_TRY(gr_tt_load(t->c, &job->w, of_w, t->w + o * of_w.nr * of_w.nc, of_w.nc));
      }
      gr_tt_conv3d_taps(t);
    }
  gr_tt_conv3d_multiply(t);
  return GR_OK;
}

static inline int32_t gr_tt_conv3d_made(gr_tt_conv3d_window *t) {
  const gr_tt_gradient_job *job = &t->job->of;
  const gr_tt_gradient_side *h = &job->side[0], *w = &job->side[1];
  t->top = t->at.r0 * h->stride - h->pad;
  t->left = t->at.c0 * w->stride - w->pad;
  int64_t bottom = t->top + (t->at.nr - 1) * h->stride + (h->taps - 1) * h->dilation + 1;
  int64_t right = t->left + (t->at.nc - 1) * w->stride + (w->taps - 1) * w->dilation + 1;
  t->seen = (gr_tt_rect){.r0 = gr_tt_greater(0, t->top), .c0 = gr_tt_greater(0, t->left)};
  t->seen.nr = gr_tt_greater(0, gr_tt_lesser(bottom, job->x.rows) - t->seen.r0);
  t->seen.nc = gr_tt_greater(0, gr_tt_lesser(right, job->x.cols) - t->seen.c0);
  memset(t->sums, 0, (size_t)(job->block * job->area) * 4);
  GR_TT_TRY(gr_tt_conv3d_sum(t));
  for (int64_t o = 0; o < t->outputs; ++o) {
    int64_t channel = t->group * job->outputs + t->output + o;
    float bias = 0.0f;
    if (job->bias.arg != NULL) GR_TT_TRY(gr_tt_load(t->c, &job->bias, (gr_tt_rect){0, 0, 1, channel, 1}, &bias, 1));
    for (int64_t i = 0; i < t->at.nr; ++i)
      for (int64_t j = 0; j < t->at.nc; ++j)
        t->stage[i * w->out + j] = t->sums[o * job->area + i * t->at.nc + j] + bias;
    t->at.plane = (t->image * job->groups * job->outputs + channel) * t->job->deep.out + t->plane;
    GR_TT_TRY(gr_tt_store(t->c, &job->y, t->at, t->stage, w->out, 0));
  }
  return GR_OK;
}

/* Some output channels of a band of rows of one plane, window after window along it. */
static inline int32_t gr_tt_conv3d_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_conv3d_job *job = (const gr_tt_conv3d_job *)ctx;
  const gr_tt_gradient_job *of = &job->of;
  int64_t plane = unit / of->bands, rest = plane / job->deep.out, width = of->side[1].out;
  gr_tt_conv3d_window t = {.c = c, .job = job, .plane = plane % job->deep.out,
                           .image = rest / of->blocks / of->groups, .group = rest / of->blocks % of->groups,
                           .output = rest % of->blocks * of->block};
  t.outputs = gr_tt_lesser(of->block, of->outputs - t.output);
  gr_tt_conv3d_layout(of, (float *)(void *)c->space, &t);
  t.at.r0 = unit % of->bands * of->side[0].out;
  t.at.nr = gr_tt_lesser(of->side[0].out, of->y.rows - t.at.r0);
  for (t.at.c0 = 0; t.at.c0 < of->y.cols; t.at.c0 += width) {
    t.at.nc = gr_tt_lesser(width, of->y.cols - t.at.c0);
    GR_TT_TRY(gr_tt_conv3d_made(&t));
  }
  return GR_OK;
}

/* Most input pixels under a window along a dimension of `size`. */
static inline int64_t gr_tt_conv3d_reach(const gr_tt_gradient_side *s, int64_t size) {
  return gr_tt_lesser(size, (s->out - 1) * s->stride + (s->taps - 1) * s->dilation + 1);
}

/* gr-kernel: tt/conv3d */
static inline int32_t gr_tt_conv3d(const gr_call *call) {
  const int64_t *words = call->attrs;
  const gr_arg *args = call->args, *y = &args[call->nargs - 1];
  gr_tt_conv3d_job job = {.of = {.x = gr_tt_view_of(&args[0]), .w = gr_tt_view_of(&args[1]), .y = gr_tt_view_of(y),
                                 .groups = words[9]}};
  gr_tt_gradient_job *of = &job.of;
  gr_tt_gradient_side *h = &of->side[0], *w = &of->side[1], *sides[3] = {&job.deep, h, w};
  if (of->y.outer * of->y.rows * of->y.cols == 0) return GR_OK;
  if (call->nargs == 4) of->bias = gr_tt_view_of(&args[2]);
  for (int d = 0; d < 3; ++d)
    *sides[d] = (gr_tt_gradient_side){.stride = words[d], .pad = words[3 + d], .dilation = words[6 + d],
                                      .taps = args[1].shape[2 + d], .out = y->shape[2 + d], .in = args[0].shape[2 + d]};
  of->channels = args[1].shape[1];
  of->outputs = y->shape[1] / of->groups;
  of->block = gr_tt_lesser(GR_TT_CONV3D_OUTPUTS, of->outputs);
  of->blocks = gr_tt_ceil_div(of->outputs, of->block);
  h->out = gr_tt_lesser(32, of->y.rows);
  h->in = gr_tt_conv3d_reach(h, of->x.rows);
  w->out = gr_tt_lesser(GR_TT_GRADIENT_COLS, of->y.cols);
  if (h->in * gr_tt_conv3d_reach(w, of->x.cols) > GR_TT_CONV3D_INPUT) w->out = gr_tt_lesser(32, w->out);
  w->in = gr_tt_conv3d_reach(w, of->x.cols);
  of->bands = gr_tt_ceil_div(of->y.rows, h->out);
  of->area = gr_tt_up(h->out * w->out, GR_STRIPE);
  of->depth = gr_tt_lesser(256, GR_TT_GRADIENT_FLOATS / of->area);
  return gr_tt_run(call, args[0].shape[0] * of->groups * of->blocks * job.deep.out * of->bands,
                   gr_tt_bytes(1, gr_tt_conv3d_layout(of, NULL, NULL)), gr_tt_conv3d_unit, &job);
}

#endif
