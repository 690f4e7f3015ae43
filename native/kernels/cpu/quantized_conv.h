/* quantized_conv.h: quantized_conv2d over NCHW images with weights as int16, and over NHWC images with weights in panels
 * of bytes: one group as a product whose rows are windows (byte_panels.h), groups of one channel over channels
 * (byte_images.h).
 *
 * Arguments and attribute words: ir/ops/integers/quantized_conv.py.
 *
 * defines: gr_cpu_quantized_conv2d__f32, gr_cpu_quantized_conv2d_packed__f32
 */
#include "byte_panels.h"
#include "cpu/byte_images.h"
#include "cpu/finish.h"
#include "cpu/requant.h"

typedef struct gr_byte_windows {
  int64_t h, w, c, oh, ow;
  int64_t sh, sw, top, left, dh, dw;
  int64_t runs, run;             /* copies a kernel row, taps of each: 1 and kw, or with a dilation kw and 1 */
  uint8_t zero;                  /* what lies around the image */
  int64_t kh, inner, inner_end;  /* columns of the output whose windows lie between the image's sides */
  const uint8_t *end;            /* of all images */
} gr_byte_windows;

/* Elements first .. last-1 of a run that begins at element ``begin`` (maybe outside) of a row of the image. */
GR_INLINE void gr_byte_run(const uint8_t *row, int64_t width, int64_t begin, int64_t first, int64_t last, uint8_t zero,
                           uint8_t *to) {
  int64_t from = begin + first, until = begin + last;
  if (from >= 0 && until <= width) {
    gr_copy_bytes(to, row + from, until - from);
    return;
  }
  int64_t inside = gr_min(gr_max(from, 0), width), end = gr_max(inside, gr_min(until, width));
  memset(to, zero, (size_t)(until - from));
  if (end > inside) memcpy(to + (inside - from), row + inside, (size_t)(end - inside));
}

/* The elements first .. last-1 of the window whose upper left corner is at (y, x), maybe outside. */
GR_INLINE void gr_byte_window(const uint8_t *image, const gr_byte_windows *s, int64_t y, int64_t x, int64_t first,
                              int64_t last, uint8_t *to) {
  int64_t length = s->run * s->c, width = s->w * s->c;
  int64_t run = first / length, from = first - run * length, p = run / s->runs, q = run % s->runs;
  for (int64_t left = last - first; left > 0; from = 0) {
    int64_t row = y + p * s->dh, end = gr_min(from + left, length);
    if (row >= 0 && row < s->h)
      gr_byte_run(image + row * width, width, (x + q * s->dw) * s->c, from, end, s->zero, to);
    else
      memset(to, s->zero, (size_t)(end - from));
    to += end - from;
    left -= end - from;
    if (++q == s->runs) {
      q = 0;
      ++p;
    }
  }
}

GR_INLINE void gr_copy_runs(const uint8_t *from, int64_t step, int64_t count, int64_t bytes, uint8_t *to,
                            int64_t to_row) {
  for (int64_t i = 0; i < count; ++i) memcpy(to + i * to_row, from + i * step, (size_t)bytes);
}

/* ``count`` windows beside each other, whole, the first with its upper left corner at (y, x), none of which reaches
 * over a side of the image. A short run is copied with what lies behind it, in one piece: what that overwrites is a
 * part of the same line that is written later, or behind all of them. */
static void gr_byte_inner_windows(const uint8_t *image, const gr_byte_windows *s, int64_t y, int64_t x, int64_t count,
                                  uint8_t *to, int64_t to_row) {
  int64_t length = s->run * s->c, width = s->w * s->c, step = s->sw * s->c, piece = length <= 16 ? 16 : 32;
  for (int64_t p = 0, at = 0; p < s->kh; ++p) {
    int64_t row = y + p * s->dh;
    for (int64_t q = 0; q < s->runs; ++q, at += length) {
      if (row < 0 || row >= s->h) {
        for (int64_t i = 0; i < count; ++i) memset(to + at + i * to_row, s->zero, (size_t)length);
        continue;
      }
      const uint8_t *from = image + row * width + (x + q * s->dw) * s->c;
      int fits = length <= piece && at + piece <= to_row && from + (count - 1) * step + piece <= s->end;
      if (fits && piece == 16) gr_copy_runs(from, step, count, 16, to + at, to_row);
      else if (fits) gr_copy_runs(from, step, count, 32, to + at, to_row);
      else
        for (int64_t i = 0; i < count; ++i) gr_copy_bytes(to + at + i * to_row, from + i * step, length);
    }
  }
}

static void gr_gather_byte_windows(const gr_bytes *p, int64_t first_row, int64_t rows, int64_t first, int64_t last,
                                   uint8_t *to, int64_t to_row) {
  const gr_byte_windows *s = p->image;
  int64_t x = first_row % s->ow, y = first_row / s->ow % s->oh, n = first_row / s->ow / s->oh;
  int whole = first == 0 && last == p->k;
  for (int64_t i = 0, count; i < rows; i += count, to += count * to_row) {
    const uint8_t *image = p->a + n * s->h * s->w * s->c;
    count = whole && x >= s->inner ? gr_min(rows - i, s->inner_end - x) : 0;
    if (count > 0) {
      gr_byte_inner_windows(image, s, y * s->sh - s->top, x * s->sw - s->left, count, to, to_row);
    } else {
      count = 1;
      gr_byte_window(image, s, y * s->sh - s->top, x * s->sw - s->left, first, last, to);
    }
    x += count;
    if (x < s->ow) continue;
    x = 0;
    if (++y < s->oh) continue;
    y = 0;
    ++n;
  }
}

static void gr_after_quantized_conv(const gr_bytes *p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  gr_finish_block(p->steps, row, rows, column, columns, (float *)p->c + row * p->c_row + column, p->c_row);
}

static void gr_after_byte_row(const gr_byte_image *s, int64_t row, void *out) {
  gr_finish_block(s->steps, row * s->ow, s->ow, 0, s->c, out, s->c);
}

/* gr-kernel: cpu/quantized_conv2d_packed : f32 */
static inline int32_t GR_BODY(quantized_conv2d_packed)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  const int64_t *k = call->attrs, *words = call->attrs + 14;
  int64_t kh = k[9], kw = k[10], c = x->shape[3], n = out->shape[3];
  if (gr_size(out) == 0) return GR_OK;
  int depthwise = k[8] > 1;
  int32_t own = gr_steps_own(call, words);
  int64_t depth = depthwise ? 4 * kw * gr_ceil_div(kh, 4) : kh * kw * c;
  uint8_t flip = x->dtype == GR_I8 ? 0x80 : 0, zero = gr_bytes_zero(&call->args[2]);
  const uint8_t *b = gr_ptr(w);
  gr_requant made;
  const int32_t *shift;
  gr_bytes_prepare(&made, &shift, call->scratch, n, (const int32_t *)(b + gr_bytes_units(depth) * 4 * GR_PANEL),
                   gr_bytes_panel(depth) / 4, zero ^ flip, own > 3 ? &call->args[3] : NULL,
                   own > 4 ? &call->args[4] : NULL, out, k + 11);
  gr_steps steps;
  gr_steps_open(&steps, call, words, 0, 3);
  if (depthwise) {
    gr_byte_image s = {.x = gr_ptr(x), .out = gr_ptr(out), .h = x->shape[1], .w = x->shape[2], .c = c,
                       .oh = out->shape[1], .ow = out->shape[2], .kh = kh, .kw = kw, .sh = k[0], .sw = k[1],
                       .top = k[2], .left = k[3], .dh = k[6], .dw = k[7], .flip = flip, .zero = zero ^ flip,
                       .weights = b, .shift = shift, .made = made,
                       .after = steps.count ? gr_after_byte_row : NULL, .steps = &steps};
    return gr_byte_images_run(call->env, &s, out->shape[0]);
  }
  int apart = k[7] != 1;
  int64_t reach = (kw - 1) * k[7] + 1, inside = x->shape[2] + k[3] - reach;
  gr_byte_windows windows = {x->shape[1], x->shape[2], c, out->shape[1], out->shape[2], k[0], k[1], k[2], k[3], k[6],
                             k[7], apart ? kw : 1, apart ? 1 : kw, zero, kh, gr_ceil_div(k[3], k[1]),
                             inside < 0 ? 0 : gr_min(inside / k[1] + 1, out->shape[2]),
                             (const uint8_t *)gr_ptr(x) + gr_size(x)};
  int plain = kh == 1 && kw == 1 && k[0] == 1 && k[1] == 1 && k[2] + k[3] + k[4] + k[5] == 0;
  gr_bytes p = {.rows = gr_span(out, 0, 3), .n = n, .k = depth, .a = gr_ptr(x), .a_row = c, .flip = flip,
                .zero = zero ^ flip, .gather = plain ? NULL : gr_gather_byte_windows, .image = &windows, .b = b,
                .shift = shift, .c = gr_ptr(out), .c_row = n, .made = made,
                .after = steps.count ? gr_after_quantized_conv : NULL, .steps = &steps};
  return gr_bytes_run(call->env, &p);
}

/* ---------------------------------------------------------------- weights as they are, NCHW */

typedef struct gr_quantized_image {
  const gr_call *call;
  gr_plain_requant made;
} gr_quantized_image;

/* Rows of the output, counted over all images and channels. */
static int32_t gr_quantized_conv_rows(void *ctx, int64_t first, int64_t last) {
  const gr_quantized_image *s = ctx;
  const gr_arg *x = &s->call->args[0], *weight = &s->call->args[1], *out = &s->call->args[s->call->nargs - 1];
  const int64_t *k = s->call->attrs;
  int64_t c = x->shape[1], h = x->shape[2], wide = x->shape[3], o = out->shape[1], oh = out->shape[2];
  int64_t ow = out->shape[3], cg = weight->shape[1], kh = weight->shape[2], kw = weight->shape[3];
  int32_t zero = gr_plain_zero(&s->call->args[2]);
  const int16_t *w = gr_ptr(weight);
  for (int64_t row = first; row < last; ++row) {
    int64_t i = row % oh, channel = row / oh % o, n = row / oh / o, group = channel / (o / k[8]);
    for (int64_t j = 0; j < ow; ++j) {
      uint32_t sum = 0;
      for (int64_t in = 0; in < cg; ++in) {
        int64_t plane = (n * c + group * cg + in) * h;
        for (int64_t p = 0; p < kh; ++p) {
          int64_t y = i * k[0] - k[2] + p * k[6];
          if (y < 0 || y >= h) continue;
          for (int64_t q = 0; q < kw; ++q) {
            int64_t at = j * k[1] - k[3] + q * k[7];
            if (at < 0 || at >= wide) continue;
            int32_t value = gr_plain_byte(x, (plane + y) * wide + at) - zero;
            sum += (uint32_t)(value * (int32_t)w[((channel * cg + in) * kh + p) * kw + q]);
          }
        }
      }
      gr_plain_store(&s->made, (int32_t)sum, channel, row * ow + j);
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/quantized_conv2d : f32 */
static inline int32_t GR_BODY(quantized_conv2d)(const gr_call *call) {
  const gr_arg *w = &call->args[1], *out = &call->args[call->nargs - 1];
  const int64_t *words = call->attrs + 12;
  if (gr_size(out) == 0) return GR_OK;
  gr_quantized_image s = {call, gr_plain_requant_of(call, gr_steps_own(call, words), call->attrs + 9)};
  int64_t cost = gr_max(1, out->shape[3] * w->shape[1] * w->shape[2] * w->shape[3]);
  int32_t status = gr_parallel(call->env, gr_span(out, 0, 3), gr_ceil_div(GR_GRAIN, cost), gr_quantized_conv_rows, &s);
  gr_steps steps;
  gr_steps_open(&steps, call, words, 1, 2);
  int64_t rows = out->shape[1], columns = out->shape[2] * out->shape[3];
  for (int64_t n = 0; !status && steps.count && n < out->shape[0]; ++n) {
    float *image = (float *)gr_ptr(out) + n * rows * columns;
    GR_FN(GR_CAT(finish_steps_, block))(&steps, n, 0, 0, rows, columns, image, columns, image, columns);
  }
  return status;
}
