/* conv.h: conv2d, NCHW and OIHW. Template over floats and int32 (which wraps).
 *
 * Groups of several output channels are a matrix product whose right operand, a column of the image under the
 * window for every output pixel, is made while it is packed. Groups of few (depthwise) run over rows of
 * pixels instead. Attribute words: ir/ops/products/conv.py.
 *
 * defines: gr_cpu_conv2d__<suffix>
 */
#define GR_STEPS(name) GR_FN(GR_CAT(conv_steps_, name))
#include "cpu/steps_block.h"
#define GR_GEMM(name) GR_FN(GR_CAT(conv_, name))
#include "cpu/gemm.h"

#define GR_FEW_CHANNELS 3      /* output channels a group, up to which packing costs more than it gives */
#define GR_ROW 64              /* output pixels of a row that are summed side by side */

typedef struct GR_FN(image) {
  const GR_T *x;               /* the channels of one group of one image */
  int64_t h, w, oh, ow, channels, kh, kw;
  int64_t sh, sw, top, left, dh, dw;
} GR_FN(image);

/* ---------------------------------------------------------------- many channels: matrix product */

/* Columns of the window's elements (c, p, q), for the output pixels first_column .. first_column + columns -
 * 1. */
static void GR_FN(pack_image)(const GR_GEMM(args) *g, int64_t first_column, int64_t columns, GR_U *to) {
  const GR_FN(image) *s = g->b;
  int64_t y[GR_GEMM_COLS], z[GR_GEMM_COLS], row[GR_GEMM_COLS];
  for (int64_t l = 0; l < GR_GEMM_COLS; l++) {
    int64_t pixel = gr_min(first_column + l, first_column + columns - 1);
    y[l] = pixel / s->ow * s->sh - s->top;
    z[l] = pixel % s->ow * s->sw - s->left;
  }
  /* pixels of one row with stride 1 lie side by side in the image too */
  int side_by_side = columns == GR_GEMM_COLS && y[0] == y[GR_GEMM_COLS - 1] && s->sw == 1;
  for (int64_t c = 0; c < s->channels; c++) {
    const GR_T *x = s->x + c * s->h * s->w;
    for (int64_t p = 0; p < s->kh; p++) {
      for (int64_t l = 0; l < GR_GEMM_COLS; l++) {
        int64_t i = y[l] + p * s->dh;
        row[l] = i >= 0 && i < s->h ? i * s->w : -1;
      }
      for (int64_t q = 0; q < s->kw; q++, to += GR_GEMM_COLS) {
        int64_t shift = q * s->dw, first = z[0] + shift;
        if (side_by_side && row[0] >= 0 && first >= 0 && first + GR_GEMM_COLS <= s->w) {
          for (int64_t l = 0; l < GR_GEMM_COLS; l++) to[l] = (GR_U)GR_LOAD(x[row[0] + first + l]);
          continue;
        }
        for (int64_t l = 0; l < GR_GEMM_COLS; l++) {
          /* without a branch: element 0 is read in place of one that is outside */
          int64_t j = z[l] + shift, inside = (row[l] >= 0) & (j >= 0) & (j < s->w);
          GR_U value = (GR_U)GR_LOAD(x[inside ? row[l] + j : 0]);
          to[l] = inside ? value : 0;
        }
      }
    }
  }
}

/* ---------------------------------------------------------------- few channels: rows of pixels */

typedef struct GR_FN(direct) {
  GR_FN(image) image;          /* x: the first group of the first image */
  const GR_T *w, *bias;
  GR_T *out;
  int64_t group, per_group;    /* output channels a group */
  const gr_steps *steps;       /* the epilogue */
} GR_FN(direct);

/* Add one weight times its pixels to the sums of output pixels j0 .. j0 + width - 1 of a row. */
GR_INLINE void GR_FN(add_tap)(GR_U *sums, GR_U weight, const GR_T *x, const GR_FN(image) *s, int64_t q,
                              int64_t j0, int64_t width) {
  int64_t shift = q * s->dw - s->left; /* column of output pixel j is j * sw + shift */
  int64_t first = shift >= 0 ? 0 : gr_ceil_div(-shift, s->sw);
  int64_t last = s->w > shift ? gr_ceil_div(s->w - shift, s->sw) : 0;
  first = gr_max(first, j0);
  last = gr_min(last, j0 + width);
  if (s->sw == 1) {
    for (int64_t j = first; j < last; j++) sums[j - j0] += weight * (GR_U)GR_LOAD(x[j + shift]);
  } else {
    for (int64_t j = first; j < last; j++) sums[j - j0] += weight * (GR_U)GR_LOAD(x[j * s->sw + shift]);
  }
}

/* Output planes (image, channel) first .. last-1. */
static int32_t GR_FN(direct_planes)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(direct) *d = ctx;
  const GR_FN(image) *s = &d->image;
  int64_t out_channels = d->group * d->per_group, taps = s->channels * s->kh * s->kw;
  for (int64_t plane = first; plane < last; plane++) {
    int64_t n = plane / out_channels, o = plane % out_channels;
    const GR_T *x = s->x + (n * d->group + o / d->per_group) * s->channels * s->h * s->w;
    for (int64_t i = 0; i < s->oh; i++) {
      for (int64_t j0 = 0; j0 < s->ow; j0 += GR_ROW) {
        GR_U sums[GR_ROW] = {0};
        const GR_T *w = d->w + o * taps;
        int64_t width = gr_min(GR_ROW, s->ow - j0);
        for (int64_t c = 0; c < s->channels; c++) {
          for (int64_t p = 0; p < s->kh; p++, w += s->kw) {
            int64_t y = i * s->sh - s->top + p * s->dh;
            if (y < 0 || y >= s->h) continue;
            const GR_T *row = x + (c * s->h + y) * s->w;
            for (int64_t q = 0; q < s->kw; q++) {
              GR_FN(add_tap)(sums, (GR_U)GR_LOAD(w[q]), row, s, q, j0, width);
            }
          }
        }
        GR_U bias = d->bias ? (GR_U)GR_LOAD(d->bias[o]) : 0;
        GR_T *out = d->out + (plane * s->oh + i) * s->ow + j0;
        if (d->steps) {
          GR_C values[GR_ROW];
          for (int64_t j = 0; j < width; j++) values[j] = (GR_C)(sums[j] + bias);
          GR_STEPS(block)(d->steps, n, o, i * s->ow + j0, 1, width, values, width, out, width);
          continue;
        }
        for (int64_t j = 0; j < width; j++) out[j] = GR_STORE((GR_C)(sums[j] + bias));
      }
    }
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- conv2d */

/* gr-kernel: cpu/conv2d : f32 f64 f16 bf16 i32 */
static inline int32_t GR_BODY(conv2d)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  const int64_t *words = call->attrs;
  const GR_T *bias = gr_steps_own(call, words + 9) == 3 ? gr_ptr(&call->args[2]) : NULL;
  gr_steps steps;
  gr_steps_open(&steps, call, words + 9, 1, 2);
  int64_t group = words[8], channels = w->shape[1], per_group = w->shape[0] / group;
  int64_t pixels = out->shape[2] * out->shape[3], taps = channels * w->shape[2] * w->shape[3];
  if (gr_size(out) == 0) return GR_OK;
  GR_FN(image) image = {gr_ptr(x), x->shape[2], x->shape[3], out->shape[2], out->shape[3], channels,
                        w->shape[2], w->shape[3], words[0], words[1], words[2], words[3], words[6], words[7]};
  if (per_group <= GR_FEW_CHANNELS) {
    GR_FN(direct) d = {image, gr_ptr(w), bias, gr_ptr(out), group, per_group,
                       steps.count ? &steps : NULL};
    int64_t cost = gr_max(1, 2 * taps * pixels);
    return gr_parallel(call->env, x->shape[0] * w->shape[0], gr_ceil_div(GR_GRAIN, cost),
                       GR_FN(direct_planes), &d);
  }
  GR_GEMM(args) g = {.m = per_group, .n = pixels, .k = taps, .a_row = taps, .a_col = 1, .b = &image,
                     .pack_b = GR_FN(pack_image), .c_row = pixels, .bias_row = 1, .steps = steps.count ? &steps : NULL};
  for (int64_t o = 0; o < group; o++) {
    g.a = (const GR_T *)gr_ptr(w) + o * per_group * taps;
    g.bias = bias ? bias + o * per_group : NULL;
    g.a_is_packed = 0;
    g.first_row = o * per_group;
    for (int64_t n = 0; n < x->shape[0]; n++) {
      int64_t plane = n * group + o;
      image.x = (const GR_T *)gr_ptr(x) + plane * channels * image.h * image.w;
      g.c = (GR_T *)gr_ptr(out) + plane * per_group * pixels;
      g.plane = n;
      int32_t status = GR_GEMM(run)(call, &g);
      if (status) return status;
      g.a_is_packed = 1; /* the weights stay for the next image */
    }
  }
  return GR_OK;
}
#undef GR_FEW_CHANNELS
#undef GR_ROW
#undef GR_STEPS
#undef GR_GEMM
#undef GR_GEMM_LANES
#undef GR_GEMM_COLS
