/* conv_packed.h: conv2d over NHWC images with weights in panels, summed in float32. Weights may be bf16, but not of
 * groups of few channels; beside them, of one group or of groups of one channel, images, too.
 *
 * Groups of one channel (depthwise) run over channels (images.h), and so do groups of few that make as many
 * (grouped.h); one group is a product of panels.h whose rows are the windows of output pixels, gathered from the image block by block: where the taps of a kernel row lie
 * side by side in the image, so do their channels, and they are one copy. More groups are a product for each
 * bundle of groups whose columns share panels (packed.py). Attribute words:
 * ir/ops/products/conv.py.
 *
 * defines: gr_cpu_conv2d_packed__f32
 */
#include "cpu/finish.h"
#include "cpu/grouped.h"
#include "cpu/images.h"
#include "panels.h"

typedef struct gr_windows {
  int64_t h, w, pixel, oh, ow;   /* pixel: elements of a pixel of the image */
  int64_t channels;              /* of them, those that the product reads: all, or those of a bundle of groups */
  int64_t column;                /* of the result, where the product's first is */
  int64_t sh, sw, top, left, dh, dw;
  int64_t runs, run;             /* copies a kernel row, taps of each: 1 and kw, or with a dilation kw and 1 */
  int64_t unit;                  /* of k an element has: 1, or 2 where the image is pairs of bf16 */
  int odd;                       /* elements are bf16, which make no pairs */
} gr_windows;

/* Elements first .. last-1 of a run that begins at element ``begin`` (maybe outside) of a row of the image. */
GR_INLINE void gr_gather_run(const float *row, int64_t width, int64_t begin, int64_t first, int64_t last, float *to,
                             int odd) {
  if (begin + first >= 0 && begin + last <= width) {
    if (odd) gr_copy_halves((gr_half *)to, (const gr_half *)row + begin + first, last - first);
    else gr_copy_floats(to, row + begin + first, last - first);
    return;
  }
  for (int64_t i = 0; i < last - first; ++i) {
    int64_t at = begin + first + i;
    int inside = at >= 0 && at < width;
    if (odd) ((gr_half *)to)[i] = inside ? ((const gr_half *)row)[at] : 0;
    else to[i] = inside ? row[at] : 0;
  }
}

/* The elements first .. last-1 of the window whose upper left corner is at (y, x), maybe outside. */
GR_INLINE void gr_gather_window(const float *image, const gr_windows *s, int64_t y, int64_t x, int64_t first,
                                int64_t last, float *to, int odd) {
  int64_t length = s->run * s->channels, width = s->w * s->pixel;
  int64_t run = first / length, from = first - run * length, p = run / s->runs, q = run % s->runs;
  for (int64_t left = last - first; left > 0; from = 0) {
    int64_t row = y + p * s->dh, end = gr_min(from + left, length);
    if (row >= 0 && row < s->h)
      gr_gather_run(gr_element(image, row * width, odd), width, (x + q * s->dw) * s->pixel, from, end, to, odd);
    else
      memset(to, 0, (size_t)(end - from) * (odd ? 2 : 4));
    to = gr_element(to, end - from, odd);
    left -= end - from;
    if (++q == s->runs) {
      q = 0;
      ++p;
    }
  }
}

GR_INLINE void gr_gather_all(const gr_panels *p, int64_t first_row, int64_t rows, int64_t first, int64_t last,
                             float *to, int odd) {
  const gr_windows *s = p->image;
  int64_t x = first_row % s->ow, y = first_row / s->ow % s->oh, n = first_row / s->ow / s->oh;
  for (int64_t i = 0; i < rows; ++i, to += GR_A_ROW) {
    const float *image = gr_element(p->a, n * s->h * s->w * s->pixel, odd);
    gr_gather_window(image, s, y * s->sh - s->top, x * s->sw - s->left, first, last, to, odd);
    if (++x < s->ow) continue;
    x = 0;
    if (++y < s->oh) continue;
    y = 0;
    ++n;
  }
}

static void gr_gather_windows(const gr_panels *p, int64_t first_row, int64_t rows, int64_t first, int64_t last,
                              float *to) {
  const gr_windows *s = p->image;
  if (s->odd) gr_gather_all(p, first_row, rows, first, last, to, 1);
  else gr_gather_all(p, first_row, rows, first / s->unit, last / s->unit, to, 0);
}

/* Kernel rows that lie inside of the image for some of these rows' windows: the others are zeros. */
static void gr_windows_extent(const gr_panels *p, int64_t first_row, int64_t rows, int64_t *from, int64_t *to) {
  const gr_windows *s = p->image;
  int64_t line = first_row / s->ow, last = (first_row + rows - 1) / s->ow, length = s->runs * s->run * s->channels;
  length *= s->unit;
  int64_t taps = p->k / length, first_tap = taps, last_tap = 0, begin, end;
  for (; line <= last; ++line) {
    gr_image_taps(line % s->oh * s->sh - s->top, s->h, taps, s->dh, &begin, &end);
    if (begin >= end) continue;
    first_tap = gr_min(first_tap, begin);
    last_tap = gr_max(last_tap, end);
  }
  *from = first_tap * length;
  *to = last_tap * length;
}

/* Number of windows from the first on in one row of output pixels, inside the image: a line is a kernel row. */
static int64_t gr_windows_inside(const gr_panels *p, int64_t first_row, int64_t rows, gr_a_rows *found) {
  const gr_windows *s = p->image;
  int64_t column = first_row % s->ow, line = first_row / s->ow, length = s->run * s->channels;
  int64_t x = column * s->sw - s->left, y = line % s->oh * s->sh - s->top;
  int64_t kernel_rows = p->k / s->unit / length / s->runs;
  int64_t room = s->w - (x + (s->runs - 1) * s->dw + s->run), bottom = y + (kernel_rows - 1) * s->dh + 1;
  if (x < 0 || y < 0 || room < 0 || bottom > s->h) return 0;
  *found = (gr_a_rows){p->a + ((line / s->oh * s->h + y) * s->w + x) * s->pixel, s->sw * s->pixel, kernel_rows,
                       s->dh * s->w * s->pixel, s->runs, s->dw * s->pixel, length};
  return gr_min(rows, gr_min(s->ow - column, room / s->sw + 1));
}

static void gr_after_conv(const gr_panels *p, int64_t row, int64_t rows, int64_t column, int64_t columns,
                          float *sums, int64_t sums_row) {
  const gr_windows *s = p->image;
  if (p->halves)
    gr_finish_halves(p->steps, row, rows, column, columns, sums, sums_row,
                     gr_element(p->c, row * p->c_row + column, 1), p->c_row);
  else
    gr_finish_block(p->steps, row, rows, s->column + column, columns, sums, sums_row);
}

/* Sums of bf16 are also rounded before the steps. */
static void gr_after_depthwise(const gr_image *s, int64_t row, void *out) {
  const gr_finish *finish = s->steps;
  if (finish->steps.count && s->halves) gr_finish_rounded(&finish->steps, row * s->ow, s->ow, s->c, out);
  else if (finish->steps.count) gr_finish_block(&finish->steps, row * s->ow, s->ow, 0, s->c, out, s->c);
}

/* Groups of ``each`` channels. */
GR_INLINE int32_t gr_narrow(const gr_call *call, int64_t each, const float *bias, gr_finish *finish) {
  const int64_t *k = call->attrs;
  gr_image s = {.kh = k[9], .kw = k[10], .sh = k[0], .sw = k[1], .top = k[2], .left = k[3], .dh = k[6],
                .dw = k[7], .each = each, .weights = gr_ptr(&call->args[1]), .bias = bias, .extra = finish->extra,
                .clamp = finish->clamp, .least = finish->least, .most = finish->most,
                .after = gr_after_depthwise, .steps = finish};
  return each == 1 ? gr_images_run(call, &s, gr_depthwise_rows) : gr_grouped_run(call, &s);
}

/* Bundles of groups, each a product over some of the channels, rows in pieces. */
typedef struct gr_bundles {
  gr_panels all;                 /* of the first bundle */
  gr_windows windows;
  int64_t columns, panels;       /* of a bundle */
  int64_t pieces;
} gr_bundles;

static int32_t gr_bundles_task(void *ctx, int64_t index) {
  const gr_bundles *s = ctx;
  int64_t bundle = index / s->pieces, piece = index % s->pieces, first = bundle * s->columns;
  int64_t blocks = gr_ceil_div(s->all.rows, GR_BLOCK_ROWS);
  gr_windows windows = s->windows;
  gr_panels p = s->all;
  windows.column = first;
  p.image = &windows;
  p.a += bundle * windows.channels;
  p.b += bundle * s->panels * gr_ceil_div(p.k, p.pairs ? 2 : 1) * GR_PANEL;
  p.c += first;
  if (p.bias) p.bias += first;
  if (p.extra) p.extra += first;
  gr_panels_block(&p, blocks * piece / s->pieces * GR_BLOCK_ROWS,
                  gr_min(p.rows, blocks * (piece + 1) / s->pieces * GR_BLOCK_ROWS), 0, s->panels);
  return GR_OK;
}

static int32_t gr_bundles_run(const gr_call *call, const gr_panels *p, const gr_windows *windows) {
  int64_t bundles = windows->pixel / windows->channels, blocks = gr_ceil_div(p->rows, GR_BLOCK_ROWS);
  gr_bundles s = {*p, *windows, p->n / bundles, 0, 1};
  s.all.n = s.columns;
  s.panels = gr_ceil_div(s.columns, GR_PANEL);
  if (call->env->num_cores > 1) {
    int64_t flops = 2 * p->rows * s.columns * p->k;
    s.pieces = gr_max(1, gr_min(gr_min(blocks, 2 * (int64_t)call->env->num_cores), flops / GR_PANELS_GRAIN));
  }
  return call->env->parallel_for(call->env, bundles * s.pieces, gr_bundles_task, &s);
}

/* gr-kernel: cpu/conv2d_packed : f32 */
static inline int32_t GR_BODY(conv2d_packed)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  const int64_t *words = call->attrs;
  int64_t kh = words[9], kw = words[10], pixel = x->shape[3], group = words[8];
  if (gr_size(out) == 0) return GR_OK;
  const float *bias = gr_steps_own(call, words + 11) == 3 ? gr_ptr(&call->args[2]) : NULL;
  gr_finish finish;
  gr_finish_open(&finish, call, words + 11, 0, 3);
  if (gr_takes_groups(group, pixel, out->shape[3])) return gr_narrow(call, pixel / group, bias, &finish);
  /* of all groups, or of a bundle of them: in pairs only where their number of elements is even */
  int64_t channels = group == 1 ? pixel : w->shape[1] * (w->dtype == GR_BF16 ? 2 : 1) / (kh * kw);
  int apart = words[7] != 1 || channels != pixel, halves = x->dtype == GR_BF16, odd = halves && pixel % 2;
  int64_t unit = halves && !odd ? 2 : 1;
  gr_windows windows = {x->shape[1], x->shape[2], pixel / unit, out->shape[1], out->shape[2], channels / unit, 0,
                        words[0], words[1], words[2], words[3], words[6], words[7], apart ? kw : 1, apart ? 1 : kw,
                        unit, odd};
  int plain = kh == 1 && kw == 1 && words[0] == 1 && words[1] == 1 &&
              words[2] + words[3] + words[4] + words[5] == 0 && channels == pixel;
  gr_panels p = {.rows = gr_span(out, 0, 3), .n = out->shape[3], .k = kh * kw * channels, .a = gr_ptr(x),
                 .a_row = pixel, .halves = halves, .gather = plain ? NULL : gr_gather_windows,
                 .in_place = plain || odd ? NULL : gr_windows_inside,
                 .extent = kh > 1 ? gr_windows_extent : NULL, .image = &windows, .b = gr_ptr(w),
                 .pairs = w->dtype == GR_BF16, .c = gr_ptr(out), .c_row = out->shape[3], .bias = bias, .extra = finish.extra,
                 .clamp = finish.clamp, .least = finish.least, .most = finish.most,
                 .after = finish.steps.count ? gr_after_conv : NULL, .steps = &finish.steps};
  return channels == pixel ? gr_panels_run(call->env, &p) : gr_bundles_run(call, &p, &windows);
}
