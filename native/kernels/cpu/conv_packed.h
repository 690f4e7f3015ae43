/* conv_packed.h: conv2d over NHWC images with weights in panels, float32 only.
 *
 * Groups of one channel (depthwise) run over channels (images.h); one group is a product of panels.h whose rows
 * are the windows of output pixels, gathered from the image block by block: where the taps of a kernel row lie
 * side by side in the image, so do their channels, and they are one copy. Attribute words:
 * graph_runtime/ops/conv.py.
 *
 * defines: gr_cpu_conv2d_packed__f32
 */
#include "cpu/images.h"
#include "panels.h"

typedef struct gr_windows {
  int64_t h, w, channels, oh, ow;
  int64_t sh, sw, top, left, dh, dw;
  int64_t runs, run;             /* copies a kernel row, taps of each: 1 and kw, or with a dilation kw and 1 */
} gr_windows;

/* Elements first .. last-1 of a run that begins at column x (maybe outside) of a row of the image. */
GR_INLINE void gr_gather_run(const float *row, const gr_windows *s, int64_t x, int64_t first, int64_t last,
                             float *to) {
  int64_t begin = x * s->channels, least = gr_max(first, gr_min(last, -begin));
  int64_t most = gr_max(least, gr_min(last, s->w * s->channels - begin));
  for (int64_t i = first; i < least; ++i) *to++ = 0;
  gr_copy_floats(to, row + begin + least, most - least);
  to += most - least;
  for (int64_t i = most; i < last; ++i) *to++ = 0;
}

static void gr_gather_windows(const gr_panels *p, int64_t first_row, int64_t rows, int64_t first, int64_t last,
                              float *to) {
  const gr_windows *s = p->image;
  int64_t length = s->run * s->channels;                        /* of a run */
  for (int64_t i = 0; i < rows; ++i, to += GR_A_ROW) {
    int64_t pixel = first_row + i, x = pixel % s->ow, y = pixel / s->ow % s->oh, n = pixel / s->ow / s->oh;
    const float *image = p->a + n * s->h * s->w * s->channels;
    float *at = to;
    for (int64_t run = first / length; run * length < last; ++run) {
      int64_t row = y * s->sh - s->top + run / s->runs * s->dh;
      int64_t column = x * s->sw - s->left + run % s->runs * s->dw;
      int64_t from = gr_max(first - run * length, 0), end = gr_min(last - run * length, length);
      if (row >= 0 && row < s->h)
        gr_gather_run(image + row * s->w * s->channels, s, column, from, end, at);
      else
        memset(at, 0, (size_t)(end - from) * 4);
      at += end - from;
    }
  }
}

/* gr-kernel: cpu/conv2d_packed : f32 */
static inline int32_t GR_BODY(conv2d_packed)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *out = &call->args[call->nargs - 1];
  const int64_t *words = call->attrs;
  int64_t kh = words[9], kw = words[10], channels = x->shape[3];
  if (gr_size(out) == 0) return GR_OK;
  const float *bias = call->nargs > 3 ? gr_ptr(&call->args[2]) : NULL;
  if (words[8] > 1) {
    gr_image s = {.kh = kh, .kw = kw, .sh = words[0], .sw = words[1], .top = words[2], .left = words[3],
                  .dh = words[6], .dw = words[7], .weights = gr_ptr(&call->args[1]), .bias = bias};
    return gr_images_run(call, &s, gr_depthwise_rows);
  }
  gr_windows windows = {x->shape[1], x->shape[2], channels, out->shape[1], out->shape[2], words[0], words[1],
                        words[2], words[3], words[6], words[7], words[7] == 1 ? 1 : kw, words[7] == 1 ? kw : 1};
  gr_panels p = {.rows = gr_span(out, 0, 3), .n = out->shape[3], .k = kh * kw * channels, .a = gr_ptr(x),
                 .a_row = channels, .gather = gr_gather_windows, .image = &windows,
                 .b = gr_ptr(&call->args[1]), .c = gr_ptr(out), .c_row = out->shape[3], .bias = bias};
  int pointwise = kh == 1 && kw == 1 && words[0] == 1 && words[1] == 1;
  if (pointwise && words[2] + words[3] + words[4] + words[5] == 0) p.gather = NULL;
  return gr_panels_run(call->env, &p);
}
