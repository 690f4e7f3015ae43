/* images_isa.h: images.h for one instruction set; included once for each, and by images.h only.
 *
 * defines: GR_ISA(gr_image_rows)
 */

#define GR_PIXELS 8                    /* sums side by side: as many as hide the latency of a multiply-add */

/* x where wanted (all bits of a lane set), else y */
GR_ALWAYS GR_V GR_ISA(gr_image_select)(GR_VI wanted, GR_V x, GR_V y) {
  return (GR_V)(((GR_VI)x & wanted) | ((GR_VI)y & ~wanted));
}

/* The taps of one row of output pixels. */
typedef struct GR_ISA(gr_taps) {
  const float *x;                      /* the image; then the tap p, q of column 0 and channel 0 */
  int64_t row, p0, p1;                 /* of the image where the window starts; kernel rows inside */
  const float *tail;                   /* depthwise: NULL, or the weights of the last GR_ISA_LANES channels */
} GR_ISA(gr_taps);

/* Vectors of channels. Where the last is not whole it begins earlier, with channels that the one before has, too. */
GR_ALWAYS int64_t GR_ISA(gr_image_vectors)(const gr_image *s, int last) {
  return s->c / GR_ISA_LANES + (last && s->c % GR_ISA_LANES != 0);
}

GR_ALWAYS int64_t GR_ISA(gr_image_channel)(const gr_image *s, int64_t vector) {
  return gr_min(vector * GR_ISA_LANES, s->c - GR_ISA_LANES);
}

/* ---------------------------------------------------------------- depthwise */

GR_ALWAYS void GR_ISA(gr_depthwise_finish)(const gr_image *s, GR_V y, float *out) {
  GR_V low = GR_ISA_SPLAT(s->least), high = GR_ISA_SPLAT(s->most);
  if (s->extra) y += *(const GR_V *)(s->extra + (out - s->out));
  if (s->clamp) y = GR_ISA_MIN(high, GR_ISA_MAX(low, y));
  *(GR_V *)out = y;
}

/* The weights of a vector of channels, [kh * kw] rows of 32. */
GR_ALWAYS const float *GR_ISA(gr_depthwise_weights)(const gr_image *s, const GR_ISA(gr_taps) *t, int64_t vector) {
  int64_t c = vector * GR_ISA_LANES;
  return c + GR_ISA_LANES > s->c ? t->tail : s->weights + c / 32 * s->kh * s->kw * 32 + c % 32;
}

/* ``pixels`` neighbouring output pixels from ox on, a vector of channels, kernel columns q0 .. q1-1. */
GR_ALWAYS void GR_ISA(gr_depthwise_pixels)(const gr_image *s, const GR_ISA(gr_taps) *t, int64_t ox, int64_t vector,
                                           int64_t q0, int64_t q1, int pixels, float *out) {
  const float *w = GR_ISA(gr_depthwise_weights)(s, t, vector);
  int64_t step = s->sw * s->c, c = GR_ISA(gr_image_channel)(s, vector);
  GR_V acc[GR_PIXELS], zero = {0};
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) acc[i] = s->bias ? *(const GR_V *)(s->bias + c) : zero;
  for (int64_t p = t->p0; p < t->p1; ++p) {
    const float *row = t->x + ((t->row + p * s->dh) * s->w + ox * s->sw - s->left) * s->c + c;
    for (int64_t q = q0; q < q1; ++q) {
      GR_V weight = *(const GR_V *)(w + (p * s->kw + q) * 32);
      const float *at = row + q * s->dw * s->c;
#pragma GCC unroll 8
      for (int i = 0; i < pixels; ++i) acc[i] = GR_ISA_FUSED(*(const GR_V *)(at + i * step), weight, acc[i]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) GR_ISA(gr_depthwise_finish)(s, acc[i], out + (ox + i) * s->c + c);
}

/* As above for kernels of three columns side by side, by a stride known here: each pixel of the image is read
 * once a kernel row, and goes into the sums of all windows that it lies in. Windows may stick out. */
GR_ALWAYS void GR_ISA(gr_depthwise_three)(const gr_image *s, const GR_ISA(gr_taps) *t, int64_t ox, int64_t vector,
                                          int pixels, int stride, float *out) {
  const float *w = GR_ISA(gr_depthwise_weights)(s, t, vector) + t->p0 * 3 * 32;
  int64_t left = ox * stride - s->left, c = GR_ISA(gr_image_channel)(s, vector);
  GR_V acc[GR_PIXELS], zero = {0};
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) acc[i] = s->bias ? *(const GR_V *)(s->bias + c) : zero;
  for (int64_t p = t->p0; p < t->p1; ++p, w += 3 * 32) {
    const float *row = t->x + ((t->row + p * s->dh) * s->w + left) * s->c + c;
    GR_V weights[3] = {*(const GR_V *)w, *(const GR_V *)(w + 32), *(const GR_V *)(w + 64)};
#pragma GCC unroll 32
    for (int j = 0; j < (pixels - 1) * stride + 3; ++j) {
      if ((uint64_t)(left + j) >= (uint64_t)s->w) continue;
      GR_V x = *(const GR_V *)(row + j * s->c);
#pragma GCC unroll 3
      for (int q = 0; q < 3; ++q)
        if (j >= q && (j - q) % stride == 0 && (j - q) / stride < pixels)
          acc[(j - q) / stride] = GR_ISA_FUSED(x, weights[q], acc[(j - q) / stride]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) GR_ISA(gr_depthwise_finish)(s, acc[i], out + (ox + i) * s->c + c);
}

/* A row of at least four pixels; those that a block would have beyond the end, it has twice. */
GR_ALWAYS void GR_ISA(gr_depthwise_row_three)(const gr_image *s, const GR_ISA(gr_taps) *t, int stride, float *out) {
  int64_t vectors = GR_ISA(gr_image_vectors)(s, t->tail != NULL);
  for (int64_t ox = 0; ox < s->ow;) {
    int64_t left = s->ow - ox, step = left > 4 && s->ow >= 7 ? 7 : 4, at = gr_min(ox, s->ow - step);
    for (int64_t v = 0; v < vectors; ++v) {
      if (step == 4)
        GR_ISA(gr_depthwise_three)(s, t, at, v, 4, stride, out);
      else
        GR_ISA(gr_depthwise_three)(s, t, at, v, 7, stride, out);
    }
    ox = at + step;
  }
}

/* Channels that fill no vector. */
GR_ALWAYS void GR_ISA(gr_depthwise_rest)(const gr_image *s, const GR_ISA(gr_taps) *t, int64_t ox, int64_t q0,
                                         int64_t q1, float *out) {
  for (int64_t c = s->c / GR_ISA_LANES * GR_ISA_LANES; c < s->c; ++c) {
    const float *w = s->weights + c / 32 * s->kh * s->kw * 32 + c % 32;
    float y = s->bias ? s->bias[c] : 0;
    for (int64_t p = t->p0; p < t->p1; ++p) {
      for (int64_t q = q0; q < q1; ++q) {
        int64_t column = ox * s->sw - s->left + q * s->dw;
        float x = t->x[((t->row + p * s->dh) * s->w + column) * s->c + c];
        y = __builtin_fmaf(x, w[(p * s->kw + q) * 32], y);
      }
    }
    if (s->extra) y += s->extra[out - s->out + ox * s->c + c];
    if (s->clamp) y = y < s->least ? s->least : y > s->most ? s->most : y;
    out[ox * s->c + c] = y;
  }
}

/* A row whatever the kernel. */
GR_ALWAYS void GR_ISA(gr_depthwise_row_any)(const gr_image *s, const GR_ISA(gr_taps) *t, float *out) {
  int64_t inside, outside, vectors = GR_ISA(gr_image_vectors)(s, t->tail != NULL), q0, q1;
  gr_image_inside(s, &inside, &outside);
  int64_t room = outside - inside, step = room >= GR_PIXELS ? GR_PIXELS : 4;
  for (int64_t ox = 0; ox < s->ow;) {
    if (ox < inside || ox >= outside || room < 4) {
      gr_image_taps(ox * s->sw - s->left, s->w, s->kw, s->dw, &q0, &q1);
      for (int64_t v = 0; v < vectors; ++v) GR_ISA(gr_depthwise_pixels)(s, t, ox, v, q0, q1, 1, out);
      ++ox;
      continue;
    }
    /* the last pixels inside go with some that are done already, rather than alone */
    int64_t at = gr_min(ox, outside - step);
    for (int64_t v = 0; v < vectors; ++v) {
      if (step == 4)
        GR_ISA(gr_depthwise_pixels)(s, t, at, v, 0, s->kw, 4, out);
      else
        GR_ISA(gr_depthwise_pixels)(s, t, at, v, 0, s->kw, GR_PIXELS, out);
    }
    ox = at + step;
  }
}

/* The weights of the last GR_ISA_LANES channels, which may lie in two panels. */
GR_ALWAYS void GR_ISA(gr_depthwise_tail)(const gr_image *s, float *tail) {
  int64_t taps = s->kh * s->kw, first = s->c - GR_ISA_LANES;
  for (int64_t i = 0; i < taps; ++i)
    for (int64_t l = 0; l < GR_ISA_LANES; ++l)
      tail[i * 32 + l] = s->weights[((first + l) / 32 * taps + i) * 32 + (first + l) % 32];
}

GR_ALWAYS void GR_ISA(gr_depthwise_row)(const gr_image *s, const GR_ISA(gr_taps) *t, float *out) {
  int three = s->kw == 3 && s->dw == 1 && s->ow >= 4;
  if (three && s->sw == 1)
    GR_ISA(gr_depthwise_row_three)(s, t, 1, out);
  else if (three && s->sw == 2)
    GR_ISA(gr_depthwise_row_three)(s, t, 2, out);
  else
    GR_ISA(gr_depthwise_row_any)(s, t, out);
  if (s->c % GR_ISA_LANES == 0 || t->tail) return;
  for (int64_t ox = 0; ox < s->ow; ++ox) {
    int64_t q0, q1;
    gr_image_taps(ox * s->sw - s->left, s->w, s->kw, s->dw, &q0, &q1);
    GR_ISA(gr_depthwise_rest)(s, t, ox, q0, q1, out);
  }
}

/* ---------------------------------------------------------------- pools */

/* The greatest (a NaN wins and stays) or the sum, of one window and the channels of a vector. */
GR_ALWAYS GR_V GR_ISA(gr_pool_vector)(const float *x, const gr_image *s, int64_t rows, int64_t columns, int mean) {
  GR_V total = {0};
  if (!mean) total = *(const GR_V *)x;
  for (int64_t p = 0; p < rows; ++p) {
    const float *at = x + p * s->w * s->c;
    GR_V sum = {0};                    /* of a row: sums of few, so that a whole image rounds little */
    for (int64_t q = 0; q < columns; ++q, at += s->c) {
      GR_V a = *(const GR_V *)at;
      if (mean)
        sum += a;
      else
        total = GR_ISA(gr_image_select)((a > total) | (a != a), a, total);
    }
    total += sum;
  }
  return total;
}

GR_ALWAYS float GR_ISA(gr_pool_one)(const float *x, const gr_image *s, int64_t rows, int64_t columns, int mean) {
  float total = mean ? 0 : *x;
  for (int64_t p = 0; p < rows; ++p) {
    const float *at = x + p * s->w * s->c;
    float sum = 0;
    for (int64_t q = 0; q < columns; ++q, at += s->c) {
      if (mean)
        sum += *at;
      else
        total = *at > total || *at != *at ? *at : total;
    }
    total += sum;
  }
  return total;
}

/* Elements of a window along one dimension that an average divides by. */
GR_ALWAYS int64_t GR_ISA(gr_pool_length)(int64_t at, int64_t size, int64_t kernel, int64_t end, int64_t taps,
                                         int64_t include_pad) {
  return include_pad ? gr_min(at + kernel, size + end) - at : taps;
}

GR_ALWAYS void GR_ISA(gr_pool_row)(const gr_image *s, const GR_ISA(gr_taps) *t, float *out, int mean) {
  int64_t rows = t->p1 - t->p0, q0, q1;
  int64_t height = GR_ISA(gr_pool_length)(t->row, s->h, s->kh, s->bottom, rows, s->include_pad);
  for (int64_t ox = 0; ox < s->ow; ++ox, out += s->c) {
    int64_t at = ox * s->sw - s->left;
    gr_image_taps(at, s->w, s->kw, 1, &q0, &q1);
    int64_t width = GR_ISA(gr_pool_length)(at, s->w, s->kw, s->right, q1 - q0, s->include_pad);
    const float *x = t->x + ((t->row + t->p0) * s->w + at + q0) * s->c;
    float count = (float)(height * width);
    GR_V counts = GR_ISA_SPLAT(count);
    int64_t vectors = GR_ISA(gr_image_vectors)(s, s->c >= GR_ISA_LANES);
    for (int64_t v = 0; v < vectors; ++v) {
      int64_t c = GR_ISA(gr_image_channel)(s, v);
      GR_V y = GR_ISA(gr_pool_vector)(x + c, s, rows, q1 - q0, mean);
      if (mean) y /= counts;
      *(GR_V *)(out + c) = y;
    }
    for (int64_t c = vectors ? s->c : 0; c < s->c; ++c) {
      float y = GR_ISA(gr_pool_one)(x + c, s, rows, q1 - q0, mean);
      out[c] = mean ? y / count : y;
    }
  }
}

/* ---------------------------------------------------------------- rows of output pixels */

static __attribute__((noinline)) GR_ISA_TARGET int32_t GR_ISA(gr_image_rows)(const gr_image *s, int64_t first,
                                                                             int64_t last, int work) {
  float tail[GR_TAIL_TAPS * 32];
  int has_tail = work == GR_DEPTHWISE && s->c > GR_ISA_LANES && s->c % GR_ISA_LANES != 0 &&
                 s->kh * s->kw <= GR_TAIL_TAPS;
  if (has_tail) GR_ISA(gr_depthwise_tail)(s, tail);
  for (int64_t i = first; i < last; ++i) {
    GR_ISA(gr_taps) t = {s->x + i / s->oh * s->h * s->w * s->c, i % s->oh * s->sh - s->top, 0, 0,
                         has_tail ? tail : NULL};
    float *out = s->out + i * s->ow * s->c;
    gr_image_taps(t.row, s->h, s->kh, s->dh, &t.p0, &t.p1);
    if (work == GR_DEPTHWISE)
      GR_ISA(gr_depthwise_row)(s, &t, out);
    else if (work == GR_MEAN)
      GR_ISA(gr_pool_row)(s, &t, out, 1);
    else
      GR_ISA(gr_pool_row)(s, &t, out, 0);
    if (s->after) s->after(s, i, out);
  }
  return GR_OK;
}

#undef GR_PIXELS
#include "isa/end.h"
