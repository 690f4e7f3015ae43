/* convolutions.h: conv3d conv_transpose2d conv2d_backward_weight of floats. Template; plain loops over rows of pixels.
 *
 * Attribute words: ir/ops/products/convolutions.py.
 *
 * defines: gr_cpu_{conv3d conv_transpose2d conv2d_backward_weight}__<suffix>
 */
#include "cpu/common.h"

#define GR_ROW 64 /* output pixels of a row that are summed side by side */

/* ---------------------------------------------------------------- conv3d */

/* Output pixels for which j * stride + shift lies in 0 .. n-1, among j0 .. j0 + width - 1. */
GR_INLINE void GR_FN(inside)(int64_t shift, int64_t stride, int64_t n, int64_t j0, int64_t width, int64_t *first,
                             int64_t *last) {
  *first = gr_max(j0, shift >= 0 ? 0 : gr_ceil_div(-shift, stride));
  *last = gr_min(j0 + width, n > shift ? gr_ceil_div(n - shift, stride) : 0);
}

/* Sums of a piece of one output row: position (i, k) of depth and height, columns j0 .. j0 + width - 1. */
GR_INLINE void GR_FN(volume_row)(const gr_call *call, const GR_T *x, const GR_T *w, int64_t i, int64_t k, int64_t j0,
                                 int64_t width, GR_U *sums) {
  const int64_t *words = call->attrs, *in = call->args[0].shape + 2, *taps = call->args[1].shape + 1;
  for (int64_t c = 0; c < taps[0]; c++) {
    for (int64_t a = 0; a < taps[1]; a++) {
      int64_t z = i * words[0] - words[3] + a * words[6];
      for (int64_t b = 0; b < taps[2]; b++, w += taps[3]) {
        int64_t y = k * words[1] - words[4] + b * words[7];
        if (z < 0 || z >= in[0] || y < 0 || y >= in[1]) continue;
        const GR_T *row = x + ((c * in[0] + z) * in[1] + y) * in[2];
        for (int64_t q = 0; q < taps[3]; q++) {
          int64_t shift = q * words[8] - words[5], first, last;
          GR_U weight = (GR_U)GR_LOAD(w[q]);
          GR_FN(inside)(shift, words[2], in[2], j0, width, &first, &last);
          for (int64_t j = first; j < last; j++) sums[j - j0] += weight * (GR_U)GR_LOAD(row[j * words[2] + shift]);
        }
      }
    }
  }
}

/* Output planes (n, o) first .. last-1. */
static int32_t GR_FN(conv3d_planes)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t outputs = w->shape[0], channels = w->shape[1], per_group = outputs / call->attrs[9];
  int64_t volume = gr_span(x, 2, 5), depth = out->shape[2], height = out->shape[3], columns = out->shape[4];
  for (int64_t plane = first; plane < last; plane++) {
    int64_t n = plane / outputs, o = plane % outputs;
    const GR_T *image = (const GR_T *)gr_ptr(x) + (n * x->shape[1] + o / per_group * channels) * volume;
    const GR_T *taps = (const GR_T *)gr_ptr(w) + o * gr_span(w, 1, 5);
    GR_U bias = call->nargs == 4 ? (GR_U)GR_LOAD(((const GR_T *)gr_ptr(&call->args[2]))[o]) : 0;
    for (int64_t row = 0; row < depth * height; row++) {
      GR_T *to = (GR_T *)gr_ptr(out) + (plane * depth * height + row) * columns;
      for (int64_t j0 = 0; j0 < columns; j0 += GR_ROW) {
        int64_t width = gr_min(GR_ROW, columns - j0);
        GR_U sums[GR_ROW] = {0};
        GR_FN(volume_row)(call, image, taps, row / height, row % height, j0, width, sums);
        for (int64_t j = 0; j < width; j++) to[j0 + j] = GR_STORE((GR_C)(sums[j] + bias));
      }
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/conv3d : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(conv3d)(const gr_call *call) {
  const gr_arg *w = &call->args[1], *out = &call->args[call->nargs - 1];
  if (gr_size(out) == 0) return GR_OK;
  int64_t cost = gr_max(1, 2 * gr_span(w, 1, 5) * gr_span(out, 2, 5));
  return gr_parallel(call->env, out->shape[0] * out->shape[1], gr_ceil_div(GR_GRAIN, cost),
                     GR_FN(conv3d_planes), (void *)(uintptr_t)call);
}

/* ---------------------------------------------------------------- conv_transpose2d */

/* One row of x, times one weight, onto the sums of output columns j0 .. j0 + width - 1: element z goes to column
 * z * stride + shift. */
GR_INLINE void GR_FN(spread_row)(const GR_T *row, int64_t n, GR_U weight, int64_t stride, int64_t shift, int64_t j0,
                                 int64_t width, GR_U *sums) {
  int64_t first = gr_max(0, j0 > shift ? gr_ceil_div(j0 - shift, stride) : 0);
  int64_t last = gr_min(n, j0 + width > shift ? gr_ceil_div(j0 + width - shift, stride) : 0);
  if (stride == 1) {
    for (int64_t z = first; z < last; z++) sums[z + shift - j0] += weight * (GR_U)GR_LOAD(row[z]);
  } else {
    for (int64_t z = first; z < last; z++) sums[z * stride + shift - j0] += weight * (GR_U)GR_LOAD(row[z]);
  }
}

/* Output planes (n, o) first .. last-1. */
static int32_t GR_FN(transpose_conv_planes)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  const int64_t *words = call->attrs, *in = x->shape, *taps = w->shape;
  int64_t outputs = out->shape[1], rows = out->shape[2], columns = out->shape[3], channels = in[1] / words[6];
  for (int64_t plane = first; plane < last; plane++) {
    int64_t n = plane / outputs, o = plane % outputs, c0 = o / taps[1] * channels;
    GR_U bias = call->nargs == 4 ? (GR_U)GR_LOAD(((const GR_T *)gr_ptr(&call->args[2]))[o]) : 0;
    for (int64_t piece = 0; piece < rows * gr_ceil_div(columns, GR_ROW); piece++) {
      int64_t i = piece % rows, j0 = piece / rows * GR_ROW, width = gr_min(GR_ROW, columns - j0);
      GR_U sums[GR_ROW] = {0};
      for (int64_t c = c0; c < c0 + channels; c++) {
        for (int64_t p = 0; p < taps[2]; p++) {
          int64_t at = i + words[2] - p * words[4]; /* the row of x that tap p brings here, times the stride */
          if (at < 0 || at % words[0] || at / words[0] >= in[2]) continue;
          const GR_T *row = (const GR_T *)gr_ptr(x) + ((n * in[1] + c) * in[2] + at / words[0]) * in[3];
          const GR_T *tap = (const GR_T *)gr_ptr(w) + ((c * taps[1] + o % taps[1]) * taps[2] + p) * taps[3];
          for (int64_t q = 0; q < taps[3]; q++) {
            GR_FN(spread_row)(row, in[3], (GR_U)GR_LOAD(tap[q]), words[1], q * words[5] - words[3], j0, width,
                              sums);
          }
        }
      }
      GR_T *to = (GR_T *)gr_ptr(out) + (plane * rows + i) * columns + j0;
      for (int64_t j = 0; j < width; j++) to[j] = GR_STORE((GR_C)(sums[j] + bias));
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/conv_transpose2d : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(conv_transpose2d)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  if (gr_size(out) == 0) return GR_OK;
  int64_t cost = gr_max(1, 2 * gr_span(x, 1, 4) / call->attrs[6] * w->shape[2] * w->shape[3]);
  return gr_parallel(call->env, out->shape[0] * out->shape[1], gr_ceil_div(GR_GRAIN, cost),
                     GR_FN(transpose_conv_planes), (void *)(uintptr_t)call);
}
#undef GR_ROW

/* ---------------------------------------------------------------- conv2d_backward_weight */

#define GR_LANES 8 /* partial sums, so that the order of additions does not depend on the machine */

/* Sum of x[j * stride] * grad[j] over n pixels. */
GR_INLINE GR_WIDE GR_FN(strided_dot)(const GR_T *x, int64_t stride, const GR_T *grad, int64_t n) {
  GR_WIDE lane[GR_LANES] = {0}, sum = 0;
  int64_t j = 0;
  for (; j + GR_LANES <= n; j += GR_LANES) {
    for (int l = 0; l < GR_LANES; l++) {
      lane[l] += (GR_WIDE)GR_LOAD(x[(j + l) * stride]) * (GR_WIDE)GR_LOAD(grad[j + l]);
    }
  }
  for (; j < n; j++) sum += (GR_WIDE)GR_LOAD(x[j * stride]) * (GR_WIDE)GR_LOAD(grad[j]);
  for (int l = 0; l < GR_LANES; l++) sum += lane[l];
  return sum;
}
#undef GR_LANES

/* Elements (o, c, p, q) first .. last-1 of the weight's gradient. */
static int32_t GR_FN(weight_taps)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const gr_arg *x = &call->args[0], *grad = &call->args[1], *out = &call->args[2];
  const int64_t *words = call->attrs, *in = x->shape, *made = grad->shape, *taps = out->shape;
  int64_t per_group = taps[0] / words[6];
  for (int64_t index = first; index < last; index++) {
    int64_t q = index % taps[3], p = index / taps[3] % taps[2], c = index / (taps[3] * taps[2]) % taps[1];
    int64_t o = index / (taps[3] * taps[2] * taps[1]), shift = q * words[5] - words[3];
    int64_t from = shift >= 0 ? 0 : gr_ceil_div(-shift, words[1]);
    int64_t to = gr_max(from, gr_min(made[3], in[3] > shift ? gr_ceil_div(in[3] - shift, words[1]) : 0));
    GR_WIDE sum = 0;
    for (int64_t n = 0; n < in[0]; n++) {
      const GR_T *image = (const GR_T *)gr_ptr(x) + (n * in[1] + o / per_group * taps[1] + c) * in[2] * in[3];
      const GR_T *plane = (const GR_T *)gr_ptr(grad) + (n * made[1] + o) * made[2] * made[3];
      for (int64_t i = 0; i < made[2]; i++) {
        int64_t y = i * words[0] - words[2] + p * words[4];
        if (y < 0 || y >= in[2]) continue;
        sum += GR_FN(strided_dot)(image + y * in[3] + from * words[1] + shift, words[1],
                                  plane + i * made[3] + from, to - from);
      }
    }
    ((GR_T *)gr_ptr(out))[index] = GR_STORE((GR_C)sum);
  }
  return GR_OK;
}

/* gr-kernel: cpu/conv2d_backward_weight : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(conv2d_backward_weight)(const gr_call *call) {
  const gr_arg *grad = &call->args[1];
  int64_t cost = gr_max(1, 2 * grad->shape[0] * grad->shape[2] * grad->shape[3]);
  return gr_parallel(call->env, gr_size(&call->args[2]), gr_ceil_div(GR_GRAIN, cost), GR_FN(weight_taps),
                     (void *)(uintptr_t)call);
}
