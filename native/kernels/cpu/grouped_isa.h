/* grouped_isa.h: grouped.h for one instruction set; included once for each, and by grouped.h only.
 *
 * defines: GR_ISA(gr_grouped_rows)
 */

#if GR_ISA_LANES == 16
#define GR_PIXELS 14                   /* sums side by side: they and three weights are in registers */
#else
#define GR_PIXELS 7
#endif
#define GR_TAIL_ROWS 200               /* of a panel: the last channels, where they fill no vector, have their own */
#define GR_AHEAD 4                     /* rows that a vector's weights serve while they are in the nearest cache */

/* A vector of output channels of one row of output pixels. */
typedef struct GR_ISA(gr_columns) {
  const float *x;                      /* the image, from the first channel on that they read */
  const float *w;                      /* [kh][kw][each] rows of 32 */
  int64_t channel, row, p0, p1;        /* the first; of the image where the window starts; kernel rows inside */
  GR_VI first;                         /* of each lane the first lane of its group */
} GR_ISA(gr_columns);

/* The sums of neighbouring pixels as results, from ``out`` on. */
GR_ALWAYS void GR_ISA(gr_grouped_finish)(const gr_image *s, GR_V *acc, int pixels, float *out) {
  const float least = s->clamp ? s->least : -INFINITY, most = s->clamp ? s->most : INFINITY;
  const GR_V low = GR_ISA_SPLAT(least), high = GR_ISA_SPLAT(most);
  const int64_t step = s->c;           /* known here, as what is written may be anything of the image's */
  const float *extra = s->extra ? (const float *)s->extra + (out - (float *)s->out) : NULL;
#pragma GCC unroll 16
  for (int i = 0; extra && i < pixels; ++i) acc[i] += *(const GR_V *)(extra + i * step);
#pragma GCC unroll 16
  for (int i = 0; i < pixels; ++i, out += step)
    *(GR_V *)out = GR_ISA_MIN(high, GR_ISA_MAX(low, acc[i]));
}

GR_ALWAYS void GR_ISA(gr_grouped_begin)(const gr_image *s, const GR_ISA(gr_columns) *t, GR_V *acc, int pixels) {
  GR_V start = {0};
  if (s->bias) start = *(const GR_V *)(s->bias + t->channel);
#pragma GCC unroll 16
  for (int i = 0; i < pixels; ++i) acc[i] = start;
}

/* In each lane channel j of its group, of the pixel at ``at``. */
GR_ALWAYS GR_V GR_ISA(gr_grouped_channel)(const float *at, GR_VI lanes, int64_t j, int shuffled) {
  if (shuffled) return GR_ISA_SHUFFLE(*(const GR_V *)at, lanes);
  GR_V all = GR_ISA_SPLAT(at[j]);
  return all;
}

/* ``pixels`` output pixels from ox on, by kernels of three columns side by side; the stride is known here. A pixel of
 * the image is spread once a channel, and goes into the sums of all windows it lies in. ``shuffled``: a vector has
 * whole groups, else it is part of one. Windows stick out unless ``inside``. */
GR_ALWAYS void GR_ISA(gr_grouped_near)(const gr_image *s, const GR_ISA(gr_columns) *t, int64_t ox, int pixels,
                                       int stride, int shuffled, int inside, float *out) {
  int64_t left = ox * stride - s->left, c = s->c, each = s->each, width = s->w, line = s->dh * width * c;
  const float *row = t->x + ((t->row + t->p0 * s->dh) * width + left) * c, *w = t->w + t->p0 * 3 * each * 32;
  GR_V acc[GR_PIXELS];
  GR_ISA(gr_grouped_begin)(s, t, acc, pixels);
  for (int64_t p = t->p0; p < t->p1; ++p, w += 3 * each * 32, row += line) {
    GR_VI lanes = t->first;
    for (int64_t j = 0; j < each; ++j, lanes += 1) {
      GR_V weights[3];
      const float *at = row;
#pragma GCC unroll 3
      for (int q = 0; q < 3; ++q) weights[q] = *(const GR_V *)(w + (q * each + j) * 32);
#pragma GCC unroll 32
      for (int k = 0; k < (pixels - 1) * stride + 3; ++k, at += c) {
        __asm__("" : "+r"(at));         /* one address after the other: all of them fit into no registers */
        if (!inside && (uint64_t)(left + k) >= (uint64_t)width) continue;
        GR_V x = GR_ISA(gr_grouped_channel)(at, lanes, j, shuffled);
#pragma GCC unroll 3
        for (int q = 0; q < 3; ++q)
          if (k >= q && (k - q) % stride == 0 && (k - q) / stride < pixels)
            acc[(k - q) / stride] = GR_ISA_FUSED(x, weights[q], acc[(k - q) / stride]);
      }
    }
  }
  GR_ISA(gr_grouped_finish)(s, acc, pixels, out + ox * c + t->channel);
}

/* As above for any kernel, columns q0 .. q1-1 of which lie inside for all of the pixels. */
GR_ALWAYS void GR_ISA(gr_grouped_pixels)(const gr_image *s, const GR_ISA(gr_columns) *t, int64_t ox, int64_t q0,
                                         int64_t q1, int pixels, int shuffled, float *out) {
  int64_t step = s->sw * s->c, each = s->each;
  GR_V acc[GR_PIXELS];
  GR_ISA(gr_grouped_begin)(s, t, acc, pixels);
  for (int64_t p = t->p0; p < t->p1; ++p) {
    const float *row = t->x + ((t->row + p * s->dh) * s->w + ox * s->sw - s->left) * s->c;
    GR_VI lanes = t->first;
    for (int64_t j = 0; j < each; ++j, lanes += 1) {
      for (int64_t q = q0; q < q1; ++q) {
        GR_V weight = *(const GR_V *)(t->w + ((p * s->kw + q) * each + j) * 32);
        const float *at = row + q * s->dw * s->c;
#pragma GCC unroll 16
        for (int i = 0; i < pixels; ++i)
          acc[i] = GR_ISA_FUSED(GR_ISA(gr_grouped_channel)(at + i * step, lanes, j, shuffled), weight, acc[i]);
      }
    }
  }
  GR_ISA(gr_grouped_finish)(s, acc, pixels, out + ox * s->c + t->channel);
}

/* A row of at least four pixels; those that a block would have beyond the end, it has twice. */
GR_ALWAYS void GR_ISA(gr_grouped_row_near)(const gr_image *s, const GR_ISA(gr_columns) *t, int stride, int shuffled,
                                           float *out) {
  int64_t inside, outside;
  gr_image_inside(s, &inside, &outside);
  for (int64_t ox = 0; ox < s->ow;) {
    int64_t left = s->ow - ox, step = left > 7 && s->ow >= GR_PIXELS ? GR_PIXELS : left > 4 && s->ow >= 7 ? 7 : 4;
    int64_t at = gr_min(ox, s->ow - step);
    int whole = at >= inside && at + step <= outside;
    if (step == 4)
      GR_ISA(gr_grouped_near)(s, t, at, 4, stride, shuffled, 0, out);
    else if (step == 7 && GR_PIXELS > 7)
      GR_ISA(gr_grouped_near)(s, t, at, 7, stride, shuffled, 0, out);
    else if (whole)
      GR_ISA(gr_grouped_near)(s, t, at, GR_PIXELS, stride, shuffled, 1, out);
    else
      GR_ISA(gr_grouped_near)(s, t, at, GR_PIXELS, stride, shuffled, 0, out);
    ox = at + step;
  }
}

/* A row whatever the kernel. */
GR_ALWAYS void GR_ISA(gr_grouped_row_any)(const gr_image *s, const GR_ISA(gr_columns) *t, int shuffled, float *out) {
  int64_t inside, outside, q0, q1;
  gr_image_inside(s, &inside, &outside);
  for (int64_t ox = 0; ox < s->ow;) {
    if (ox < inside || ox >= outside || outside - inside < 7) {
      gr_image_taps(ox * s->sw - s->left, s->w, s->kw, s->dw, &q0, &q1);
      GR_ISA(gr_grouped_pixels)(s, t, ox, q0, q1, 1, shuffled, out);
      ++ox;
      continue;
    }
    int64_t at = gr_min(ox, outside - 7); /* the last with some that are done already, rather than alone */
    GR_ISA(gr_grouped_pixels)(s, t, at, 0, s->kw, 7, shuffled, out);
    ox = at + 7;
  }
}

/* One function for each form, so that each has all of the registers. */
#define GR_GROUPED_ROW(name, call)                                                                                   \
  static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(name)(const gr_image *s, const GR_ISA(gr_columns) *t,   \
                                                                   float *out) {                                     \
    const gr_image own = *s;             /* what is written cannot be of it */                                         \
    const GR_ISA(gr_columns) at = *t;                                                                                \
    call;                                                                                                            \
  }
GR_GROUPED_ROW(gr_grouped_row_whole_1, GR_ISA(gr_grouped_row_near)(&own, &at, 1, 1, out))
GR_GROUPED_ROW(gr_grouped_row_whole_2, GR_ISA(gr_grouped_row_near)(&own, &at, 2, 1, out))
GR_GROUPED_ROW(gr_grouped_row_part_1, GR_ISA(gr_grouped_row_near)(&own, &at, 1, 0, out))
GR_GROUPED_ROW(gr_grouped_row_part_2, GR_ISA(gr_grouped_row_near)(&own, &at, 2, 0, out))
GR_GROUPED_ROW(gr_grouped_row_whole, GR_ISA(gr_grouped_row_any)(&own, &at, 1, out))
GR_GROUPED_ROW(gr_grouped_row_part, GR_ISA(gr_grouped_row_any)(&own, &at, 0, out))
#undef GR_GROUPED_ROW

GR_ALWAYS void GR_ISA(gr_grouped_row)(const gr_image *s, const GR_ISA(gr_columns) *t, float *out) {
  int near = s->kw == 3 && s->dw == 1 && s->ow >= 4 && (s->sw == 1 || s->sw == 2), whole = s->each < GR_ISA_LANES;
  if (near && whole)
    (s->sw == 1 ? GR_ISA(gr_grouped_row_whole_1) : GR_ISA(gr_grouped_row_whole_2))(s, t, out);
  else if (near)
    (s->sw == 1 ? GR_ISA(gr_grouped_row_part_1) : GR_ISA(gr_grouped_row_part_2))(s, t, out);
  else
    (whole ? GR_ISA(gr_grouped_row_whole) : GR_ISA(gr_grouped_row_part))(s, t, out);
}

/* One element, in the order of the vectors' sums. */
GR_ALWAYS float GR_ISA(gr_grouped_one)(const gr_image *s, const float *x, int64_t row, int64_t ox, int64_t c) {
  const float *w = s->weights + c / 32 * s->kh * s->kw * s->each * 32 + c % 32;
  int64_t p0, p1, q0, q1, column = ox * s->sw - s->left;
  float y = s->bias ? s->bias[c] : 0;
  gr_image_taps(row, s->h, s->kh, s->dh, &p0, &p1);
  gr_image_taps(column, s->w, s->kw, s->dw, &q0, &q1);
  for (int64_t p = p0; p < p1; ++p)
    for (int64_t j = 0; j < s->each; ++j)
      for (int64_t q = q0; q < q1; ++q) {
        float one = x[((row + p * s->dh) * s->w + column + q * s->dw) * s->c + c / s->each * s->each + j];
        y = __builtin_fmaf(one, w[((p * s->kw + q) * s->each + j) * 32], y);
      }
  return y;
}

/* Channels that fill no vector. */
GR_ALWAYS void GR_ISA(gr_grouped_rest)(const gr_image *s, const float *x, int64_t row, float *out) {
  for (int64_t ox = 0; ox < s->ow; ++ox)
    for (int64_t c = s->c / GR_ISA_LANES * GR_ISA_LANES; c < s->c; ++c) {
      float *to = out + ox * s->c + c, y = GR_ISA(gr_grouped_one)(s, x, row, ox, c);
      if (s->extra) y += ((const float *)s->extra)[to - (float *)s->out];
      if (s->clamp) y = y < s->least ? s->least : y > s->most ? s->most : y;
      *to = y;
    }
}

/* The vector of output channels from ``channel`` on, output rows first .. last-1. */
GR_ALWAYS void GR_ISA(gr_grouped_vector)(const gr_image *s, int64_t channel, const float *w, int64_t first,
                                         int64_t last) {
  GR_ISA(gr_columns) t = {.w = w, .channel = channel};
  int32_t lanes[GR_ISA_LANES];
  int64_t from = s->each < GR_ISA_LANES ? channel : channel / s->each * s->each;
  for (int32_t l = 0; l < GR_ISA_LANES; ++l) lanes[l] = l / (int32_t)s->each * (int32_t)s->each;
  t.first = *(const GR_VI *)lanes;
  for (int64_t i = first; i < last; ++i) {
    t.x = (const float *)s->x + i / s->oh * s->h * s->w * s->c + from;
    t.row = i % s->oh * s->sh - s->top;
    gr_image_taps(t.row, s->h, s->kh, s->dh, &t.p0, &t.p1);
    GR_ISA(gr_grouped_row)(s, &t, (float *)s->out + i * s->ow * s->c);
  }
}

/* The weights of the last GR_ISA_LANES channels, which may lie in two panels. */
GR_ALWAYS void GR_ISA(gr_grouped_tail)(const gr_image *s, float *tail) {
  int64_t rows = s->kh * s->kw * s->each, first = s->c - GR_ISA_LANES;
  for (int64_t l = 0; l < GR_ISA_LANES; ++l) {
    const float *w = s->weights + (first + l) / 32 * rows * 32 + (first + l) % 32;
    for (int64_t i = 0; i < rows; ++i) tail[i * 32 + l] = w[i * 32];
  }
}

static __attribute__((noinline)) GR_ISA_TARGET int32_t GR_ISA(gr_grouped_rows)(const gr_image *s, int64_t first,
                                                                               int64_t last) {
  float tail[GR_TAIL_ROWS * 32];
  int64_t rows = s->kh * s->kw * s->each, vectors = s->c / GR_ISA_LANES, rest = s->c % GR_ISA_LANES;
  int has_tail = rest && vectors && rows <= GR_TAIL_ROWS;
  if (has_tail) GR_ISA(gr_grouped_tail)(s, tail);
  for (int64_t begin = first; begin < last; begin += GR_AHEAD) {
    int64_t end = gr_min(last, begin + GR_AHEAD);
    for (int64_t c = 0; c + GR_ISA_LANES <= s->c; c += GR_ISA_LANES)
      GR_ISA(gr_grouped_vector)(s, c, s->weights + c / 32 * rows * 32 + c % 32, begin, end);
    if (has_tail) GR_ISA(gr_grouped_vector)(s, s->c - GR_ISA_LANES, tail, begin, end);
    for (int64_t i = begin; i < end; ++i) {
      float *out = (float *)s->out + i * s->ow * s->c;
      if (rest && !has_tail)
        GR_ISA(gr_grouped_rest)(s, (const float *)s->x + i / s->oh * s->h * s->w * s->c, i % s->oh * s->sh - s->top, out);
      if (s->after) s->after(s, i, out);
    }
  }
  return GR_OK;
}

#undef GR_PIXELS
#undef GR_AHEAD
#undef GR_TAIL_ROWS
#include "isa/end.h"
