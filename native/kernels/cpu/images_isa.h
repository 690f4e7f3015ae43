/* images_isa.h: images.h for one instruction set and one type of images; included once for each, and by images.h
 * only. GR_IMAGE_HALVES: images are bf16, and what is computed of them float32, else they are that, too.
 * GR_IMAGE_PAIRED: the instruction set converts two vectors to bf16 at a time (gr_mixed).
 *
 * defines: GR_OF(gr_image_rows)
 */

#if GR_IMAGE_HALVES
#define GR_OF_(name) GR_ISA(name)
#define GR_OF(name) GR_OF_(name##_halves)
#define GR_E gr_half
#define GR_E_LOAD(from) GR_ISA(gr_wide)(from)
#define GR_E_STORE(to, x) GR_ISA(gr_narrow)(to, x)
#define GR_E_ONE(from) gr_bf16_to_float(*(from))
#define GR_E_PUT(to, x) (*(to) = gr_float_to_bf16(x))
#else
#define GR_OF(name) GR_ISA(name)
#define GR_E float                     /* an element of an image */
#define GR_E_LOAD(from) (*(const GR_V *)(from))
#define GR_E_STORE(to, x) (*(GR_V *)(to) = (x))
#define GR_E_ONE(from) (*(from))
#define GR_E_PUT(to, x) (*(to) = (x))
#endif

#define GR_LINE 4096                   /* floats of a line of windows' rows: half of the nearest cache */
#define GR_NEAR_TAPS 11                /* columns of a kernel: weights and sums of seven pixels fit into 32 registers */
#define GR_PAIRED_TAPS 5               /* of two vectors of channels, beside sums of seven pixels */
#define GR_PIXELS 8                    /* sums side by side: as many as hide the latency of a multiply-add */

/* x where wanted (all bits of a lane set), else y */
GR_ALWAYS GR_V GR_OF(gr_image_select)(GR_VI wanted, GR_V x, GR_V y) {
  return (GR_V)(((GR_VI)x & wanted) | ((GR_VI)y & ~wanted));
}

/* The taps of one row of output pixels. */
typedef struct GR_OF(gr_taps) {
  const GR_E *x;                       /* the image; then the tap p, q of column 0 and channel 0 */
  int64_t row, p0, p1;                 /* of the image where the window starts; kernel rows inside */
  const float *tail;                   /* depthwise: NULL, or the weights of the last GR_ISA_LANES channels */
} GR_OF(gr_taps);

/* Vectors of channels. Where the last is not whole it begins earlier, with channels that the one before has, too. */
GR_ALWAYS int64_t GR_OF(gr_image_vectors)(const gr_image *s, int last) {
  return s->end / GR_ISA_LANES + (last && s->end % GR_ISA_LANES != 0);
}

GR_ALWAYS int64_t GR_OF(gr_image_channel)(const gr_image *s, int64_t vector) {
  return gr_min(vector * GR_ISA_LANES, s->c - GR_ISA_LANES);
}

/* ---------------------------------------------------------------- depthwise */

/* The bounds of the result; a clamp to infinities changes nothing, and a NaN stays one. */
typedef struct GR_OF(gr_bounds) {
  GR_V low, high;
} GR_OF(gr_bounds);

GR_ALWAYS GR_OF(gr_bounds) GR_OF(gr_depthwise_bounds)(const gr_image *s) {
  float least = s->clamp ? s->least : -INFINITY, most = s->clamp ? s->most : INFINITY;
  return (GR_OF(gr_bounds)){GR_ISA_SPLAT(least), GR_ISA_SPLAT(most)};
}

/* The sums of neighbouring pixels as results, a vector of channels from ``out`` on. */
GR_ALWAYS void GR_OF(gr_depthwise_finish)(const gr_image *s, GR_V *acc, int pixels, GR_E *out) {
  const GR_OF(gr_bounds) bounds = GR_OF(gr_depthwise_bounds)(s);
  const int64_t step = s->c;           /* known here, as what is written may be anything of the image's */
  const GR_E *extra = s->extra ? (const GR_E *)s->extra + (out - (GR_E *)s->out) : NULL;
#pragma GCC unroll 8
  for (int i = 0; extra && i < pixels; ++i) acc[i] += GR_E_LOAD(extra + i * step);
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i, out += step)
    GR_E_STORE(out, GR_ISA_MIN(bounds.high, GR_ISA_MAX(bounds.low, acc[i])));
}

/* The weights of a vector of channels, [kh * kw] rows of 32. */
GR_ALWAYS const float *GR_OF(gr_depthwise_weights)(const gr_image *s, const GR_OF(gr_taps) *t, int64_t vector) {
  int64_t c = vector * GR_ISA_LANES;
  return c + GR_ISA_LANES > s->c ? t->tail : s->weights + c / 32 * s->kh * s->kw * 32 + c % 32;
}

/* ``pixels`` neighbouring output pixels from ox on, a vector of channels, kernel columns q0 .. q1-1. */
GR_ALWAYS void GR_OF(gr_depthwise_pixels)(const gr_image *s, const GR_OF(gr_taps) *t, int64_t ox, int64_t vector,
                                           int64_t q0, int64_t q1, int pixels, GR_E *out) {
  const float *w = GR_OF(gr_depthwise_weights)(s, t, vector);
  int64_t step = s->sw * s->c, c = GR_OF(gr_image_channel)(s, vector);
  GR_V acc[GR_PIXELS], zero = {0};
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) acc[i] = s->bias ? *(const GR_V *)(s->bias + c) : zero;
  for (int64_t p = t->p0; p < t->p1; ++p) {
    const GR_E *row = t->x + ((t->row + p * s->dh) * s->w + ox * s->sw - s->left) * s->c + c;
    for (int64_t q = q0; q < q1; ++q) {
      GR_V weight = *(const GR_V *)(w + (p * s->kw + q) * 32);
      const GR_E *at = row + q * s->dw * s->c;
#pragma GCC unroll 8
      for (int i = 0; i < pixels; ++i) acc[i] = GR_ISA_FUSED(GR_E_LOAD(at + i * step), weight, acc[i]);
    }
  }
  GR_OF(gr_depthwise_finish)(s, acc, pixels, out + ox * s->c + c);
}

/* As above for kernels of few columns side by side, ``taps``, by a stride, both known here: each pixel of the image is
 * read once a kernel row, and goes into the sums of all windows it lies in. Windows stick out unless ``inside``. */
GR_ALWAYS void GR_OF(gr_depthwise_near)(const gr_image *s, const GR_OF(gr_taps) *t, int64_t ox, int64_t vector,
                                         int pixels, int taps, int stride, int inside, GR_E *out) {
  const float *w = GR_OF(gr_depthwise_weights)(s, t, vector) + t->p0 * taps * 32;
  int64_t left = ox * stride - s->left, c = GR_OF(gr_image_channel)(s, vector), line = s->dh * s->w * s->c;
  const GR_E *row = t->x + ((t->row + t->p0 * s->dh) * s->w + left) * s->c + c;
  GR_V acc[GR_PIXELS], zero = {0};
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) acc[i] = s->bias ? *(const GR_V *)(s->bias + c) : zero;
  for (int64_t p = t->p0; p < t->p1; ++p, w += taps * 32, row += line) {
    const GR_E *at = row;
    GR_V weights[GR_NEAR_TAPS];
#pragma GCC unroll 16
    for (int q = 0; q < taps; ++q) weights[q] = *(const GR_V *)(w + q * 32);
#pragma GCC unroll 32
    for (int j = 0; j < (pixels - 1) * stride + taps; ++j, at += s->c) {
      if (!inside && (uint64_t)(left + j) >= (uint64_t)s->w) continue;
      GR_V x = GR_E_LOAD(at);
#pragma GCC unroll 16
      for (int q = 0; q < taps; ++q)
        if (j >= q && (j - q) % stride == 0 && (j - q) / stride < pixels)
          acc[(j - q) / stride] = GR_ISA_FUSED(x, weights[q], acc[(j - q) / stride]);
    }
  }
  GR_OF(gr_depthwise_finish)(s, acc, pixels, out + ox * s->c + c);
}

#if GR_IMAGE_PAIRED
/* As above for two vectors of channels, from an even one on, of images in bf16: what is read is parted into its even and
 * its odd channels, by a shift and a mask, which is less work than to widen both of its halves. */
GR_ALWAYS void GR_OF(gr_depthwise_paired)(const gr_image *s, const GR_OF(gr_taps) *t, int64_t ox, int64_t vector,
                                           int pixels, int taps, int stride, int inside, GR_E *out) {
  const int64_t c = vector * GR_ISA_LANES, step = s->c, left = ox * stride - s->left, line = s->dh * s->w * s->c;
  const float *w = s->weights + (c / 32 * s->kh + t->p0) * taps * 32;
  const GR_E *row = t->x + ((t->row + t->p0 * s->dh) * s->w + left) * s->c + c;
  GR_V even[GR_PIXELS], odd[GR_PIXELS], first = {0}, second = {0};
  if (s->bias) {
    first = GR_ISA(gr_every_other)(*(const GR_V *)(s->bias + c), *(const GR_V *)(s->bias + c + GR_ISA_LANES), 0);
    second = GR_ISA(gr_every_other)(*(const GR_V *)(s->bias + c), *(const GR_V *)(s->bias + c + GR_ISA_LANES), 1);
  }
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) even[i] = first, odd[i] = second;
  for (int64_t p = t->p0; p < t->p1; ++p, w += taps * 32, row += line) {
    const GR_E *at = row;
    GR_V evens[GR_PAIRED_TAPS], odds[GR_PAIRED_TAPS];
#pragma GCC unroll 8
    for (int q = 0; q < taps; ++q) {
      const GR_V *both = (const GR_V *)(w + q * 32);
      evens[q] = GR_ISA(gr_every_other)(both[0], both[1], 0);
      odds[q] = GR_ISA(gr_every_other)(both[0], both[1], 1);
    }
#pragma GCC unroll 32
    for (int j = 0; j < (pixels - 1) * stride + taps; ++j, at += step) {
      if (!inside && (uint64_t)(left + j) >= (uint64_t)s->w) continue;
      GR_VI both = GR_ISA(gr_pairs_at)(at);
      GR_V x = (GR_V)(both << 16), y = (GR_V)(both & ~0xffff);
#pragma GCC unroll 8
      for (int q = 0; q < taps; ++q) {
        if (j < q || (j - q) % stride != 0 || (j - q) / stride >= pixels) continue;
        int i = (j - q) / stride;
        even[i] = GR_ISA_FUSED(x, evens[q], even[i]);
        odd[i] = GR_ISA_FUSED(y, odds[q], odd[i]);
      }
    }
  }
  const GR_OF(gr_bounds) bounds = GR_OF(gr_depthwise_bounds)(s);
  GR_E *to = out + ox * step + c;
  const GR_E *extra = s->extra ? (const GR_E *)s->extra + (to - (GR_E *)s->out) : NULL;
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) {
    if (extra) {
      GR_VI both = GR_ISA(gr_pairs_at)(extra + i * step);
      even[i] += (GR_V)(both << 16);
      odd[i] += (GR_V)(both & ~0xffff);
    }
    GR_V x = GR_ISA_MIN(bounds.high, GR_ISA_MAX(bounds.low, even[i]));
    GR_V y = GR_ISA_MIN(bounds.high, GR_ISA_MAX(bounds.low, odd[i]));
    GR_ISA(gr_put_pairs)(to + i * step, GR_ISA(gr_mixed)(x, y));
  }
}
#endif

/* A row of at least four pixels; those that a block would have beyond the end, it has twice. */
GR_ALWAYS void GR_OF(gr_depthwise_row_near)(const gr_image *s, const GR_OF(gr_taps) *t, int taps, int stride,
                                             GR_E *out) {
  int64_t vectors = GR_OF(gr_image_vectors)(s, t->tail != NULL), inside, outside;
  gr_image_inside(s, &inside, &outside);
  for (int64_t ox = 0; ox < s->ow;) {
    int64_t left = s->ow - ox, step = left > 4 && s->ow >= 7 ? 7 : 4, at = gr_min(ox, s->ow - step);
    int whole = at >= inside && at + step <= outside;
    int64_t v = s->begin / GR_ISA_LANES;
#if GR_IMAGE_PAIRED
    for (; taps <= GR_PAIRED_TAPS && v + 2 <= s->end / GR_ISA_LANES; v += 2) {
      if (step == 4)
        GR_OF(gr_depthwise_paired)(s, t, at, v, 4, taps, stride, 0, out);
      else if (whole)
        GR_OF(gr_depthwise_paired)(s, t, at, v, 7, taps, stride, 1, out);
      else
        GR_OF(gr_depthwise_paired)(s, t, at, v, 7, taps, stride, 0, out);
    }
#endif
    for (; v < vectors; ++v) {
      if (step == 4)
        GR_OF(gr_depthwise_near)(s, t, at, v, 4, taps, stride, 0, out);
      else if (whole)
        GR_OF(gr_depthwise_near)(s, t, at, v, 7, taps, stride, 1, out);
      else
        GR_OF(gr_depthwise_near)(s, t, at, v, 7, taps, stride, 0, out);
    }
    ox = at + step;
  }
}

/* One function for each kernel, so that each has all of the registers. */
#define GR_NEAR_ROW(taps, stride)                                                                                    \
  static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_depthwise_row_##taps##_##stride)(                    \
      const gr_image *s, const GR_OF(gr_taps) *t, GR_E *out) {                                                      \
    const gr_image own = *s;             /* what is written cannot be of it */                                         \
  const GR_OF(gr_taps) at = *t;                                                                                     \
  GR_OF(gr_depthwise_row_near)(&own, &at, taps, stride, out);                                                       \
  }
GR_NEAR_ROW(3, 1)
GR_NEAR_ROW(3, 2)
GR_NEAR_ROW(5, 1)
GR_NEAR_ROW(5, 2)
GR_NEAR_ROW(7, 1)
GR_NEAR_ROW(7, 2)
GR_NEAR_ROW(9, 1)
GR_NEAR_ROW(11, 1)
#undef GR_NEAR_ROW

/* Channels that fill no vector. */
GR_ALWAYS void GR_OF(gr_depthwise_rest)(const gr_image *s, const GR_OF(gr_taps) *t, int64_t ox, int64_t q0,
                                         int64_t q1, GR_E *out) {
  for (int64_t c = s->c / GR_ISA_LANES * GR_ISA_LANES; c < s->c; ++c) {
    const float *w = s->weights + c / 32 * s->kh * s->kw * 32 + c % 32;
    float y = s->bias ? s->bias[c] : 0;
    for (int64_t p = t->p0; p < t->p1; ++p) {
      for (int64_t q = q0; q < q1; ++q) {
        int64_t column = ox * s->sw - s->left + q * s->dw;
        float x = GR_E_ONE(t->x + ((t->row + p * s->dh) * s->w + column) * s->c + c);
        y = __builtin_fmaf(x, w[(p * s->kw + q) * 32], y);
      }
    }
    if (s->extra) y += GR_E_ONE((const GR_E *)s->extra + (out - (GR_E *)s->out) + ox * s->c + c);
    if (s->clamp) y = y < s->least ? s->least : y > s->most ? s->most : y;
    GR_E_PUT(out + ox * s->c + c, y);
  }
}

/* A row whatever the kernel. */
GR_ALWAYS void GR_OF(gr_depthwise_row_any)(const gr_image *s, const GR_OF(gr_taps) *t, GR_E *out) {
  int64_t inside, outside, vectors = GR_OF(gr_image_vectors)(s, t->tail != NULL), q0, q1;
  gr_image_inside(s, &inside, &outside);
  int64_t room = outside - inside, step = room >= GR_PIXELS ? GR_PIXELS : 4;
  for (int64_t ox = 0; ox < s->ow;) {
    if (ox < inside || ox >= outside || room < 4) {
      gr_image_taps(ox * s->sw - s->left, s->w, s->kw, s->dw, &q0, &q1);
      for (int64_t v = s->begin / GR_ISA_LANES; v < vectors; ++v)
        GR_OF(gr_depthwise_pixels)(s, t, ox, v, q0, q1, 1, out);
      ++ox;
      continue;
    }
    /* the last pixels inside go with some that are done already, rather than alone */
    int64_t at = gr_min(ox, outside - step);
    for (int64_t v = s->begin / GR_ISA_LANES; v < vectors; ++v) {
      if (step == 4)
        GR_OF(gr_depthwise_pixels)(s, t, at, v, 0, s->kw, 4, out);
      else
        GR_OF(gr_depthwise_pixels)(s, t, at, v, 0, s->kw, GR_PIXELS, out);
    }
    ox = at + step;
  }
}

/* The weights of the last GR_ISA_LANES channels, which may lie in two panels. */
GR_ALWAYS void GR_OF(gr_depthwise_tail)(const gr_image *s, float *tail) {
  int64_t taps = s->kh * s->kw, first = s->c - GR_ISA_LANES;
  for (int64_t i = 0; i < taps; ++i)
    for (int64_t l = 0; l < GR_ISA_LANES; ++l)
      tail[i * 32 + l] = s->weights[((first + l) / 32 * taps + i) * 32 + (first + l) % 32];
}

GR_ALWAYS void GR_OF(gr_depthwise_row)(const gr_image *s, const GR_OF(gr_taps) *t, GR_E *out) {
  int near = s->dw == 1 && s->ow >= 4 && (s->sw == 1 || s->sw == 2);
  if (near && s->kw == 3)
    (s->sw == 1 ? GR_OF(gr_depthwise_row_3_1) : GR_OF(gr_depthwise_row_3_2))(s, t, out);
  else if (near && s->kw == 5)
    (s->sw == 1 ? GR_OF(gr_depthwise_row_5_1) : GR_OF(gr_depthwise_row_5_2))(s, t, out);
  else if (near && s->kw == 7)
    (s->sw == 1 ? GR_OF(gr_depthwise_row_7_1) : GR_OF(gr_depthwise_row_7_2))(s, t, out);
  else if (near && s->sw == 1 && s->kw == 9)
    GR_OF(gr_depthwise_row_9_1)(s, t, out);
  else if (near && s->sw == 1 && s->kw == 11)
    GR_OF(gr_depthwise_row_11_1)(s, t, out);
  else
    GR_OF(gr_depthwise_row_any)(s, t, out);
  if (s->end % GR_ISA_LANES == 0 || t->tail) return;
  for (int64_t ox = 0; ox < s->ow; ++ox) {
    int64_t q0, q1;
    gr_image_taps(ox * s->sw - s->left, s->w, s->kw, s->dw, &q0, &q1);
    GR_OF(gr_depthwise_rest)(s, t, ox, q0, q1, out);
  }
}

/* ---------------------------------------------------------------- pools */

/* The greatest (a NaN wins and stays) or the sum, of one window and the channels of a vector. */
GR_ALWAYS GR_V GR_OF(gr_pool_vector)(const GR_E *x, const gr_image *s, int64_t rows, int64_t columns, int mean) {
  GR_V total = {0};
  if (!mean) total = GR_E_LOAD(x);
  for (int64_t p = 0; p < rows; ++p) {
    const GR_E *at = x + p * s->w * s->c;
    GR_V sum = {0};                    /* of a row: sums of few, so that a whole image rounds little */
    for (int64_t q = 0; q < columns; ++q, at += s->c) {
      GR_V a = GR_E_LOAD(at);
      if (mean)
        sum += a;
      else
        total = GR_OF(gr_image_select)((a > total) | (a != a), a, total);
    }
    total += sum;
  }
  return total;
}

GR_ALWAYS float GR_OF(gr_pool_one)(const GR_E *x, const gr_image *s, int64_t rows, int64_t columns, int mean) {
  float total = mean ? 0 : GR_E_ONE(x);
  for (int64_t p = 0; p < rows; ++p) {
    const GR_E *at = x + p * s->w * s->c;
    float sum = 0;
    for (int64_t q = 0; q < columns; ++q, at += s->c) {
      float a = GR_E_ONE(at);
      if (mean)
        sum += a;
      else
        total = a > total || a != a ? a : total;
    }
    total += sum;
  }
  return total;
}

/* Elements of a window along one dimension that an average divides by. */
GR_ALWAYS int64_t GR_OF(gr_pool_length)(int64_t at, int64_t size, int64_t kernel, int64_t end, int64_t taps,
                                         int64_t include_pad) {
  return include_pad ? gr_min(at + kernel, size + end) - at : taps;
}

/* The greater of each lane; a NaN of either stays one. */
GR_ALWAYS GR_V GR_OF(gr_pool_greater)(GR_V x, GR_V y) {
  GR_VI nan = x != x;
  return (GR_V)((GR_VI)GR_ISA_MAX(x, y) | nan);      /* of two numbers or where y is a NaN: GR_ISA_MAX */
}

/* Operands of gr_pool_run: elements of an image, or (lined) floats of a line. */
GR_ALWAYS GR_V GR_OF(gr_pool_load)(const void *from, int64_t at, int lined) {
  return lined ? *(const GR_V *)((const float *)from + at) : GR_E_LOAD((const GR_E *)from + at);
}

GR_ALWAYS float GR_OF(gr_pool_element)(const void *from, int64_t at, int lined) {
  return lined ? ((const float *)from)[at] : GR_E_ONE((const GR_E *)from + at);
}

GR_ALWAYS void GR_OF(gr_pool_store)(void *to, int64_t at, GR_V x, int lined) {
  if (lined)
    *(GR_V *)((float *)to + at) = x;
  else
    GR_E_STORE((GR_E *)to + at, x);
}

/* One element of gr_pool_run. */
GR_ALWAYS float GR_OF(gr_pool_few)(const void *from, int64_t at, int64_t step, int64_t count, int mean, int lined) {
  float total = GR_OF(gr_pool_element)(from, at, lined);
  for (int64_t q = 1; q < count; ++q) {
    float x = GR_OF(gr_pool_element)(from, at + q * step, lined);
    total = mean ? total + x : x > total || x != x ? x : total;
  }
  return total;
}

/* ``blocks`` vectors of gr_pool_run, from element ``at`` on. */
GR_ALWAYS void GR_OF(gr_pool_vectors)(const void *from, int64_t at, int64_t step, int64_t count, void *to, float by,
                                      int mean, int blocks, int lined, int to_line) {
  GR_V total[4], divide = GR_ISA_SPLAT(by);
#pragma GCC unroll 4
  for (int i = 0; i < blocks; ++i) total[i] = GR_OF(gr_pool_load)(from, at + i * GR_ISA_LANES, lined);
  for (int64_t q = 1; q < count; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < blocks; ++i) {
      GR_V x = GR_OF(gr_pool_load)(from, at + q * step + i * GR_ISA_LANES, lined);
      if (mean)
        total[i] += x;
      else
        total[i] = GR_OF(gr_pool_greater)(total[i], x);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < blocks; ++i) {
    if (by != 1) total[i] /= divide;
    GR_OF(gr_pool_store)(to, at + i * GR_ISA_LANES, total[i], to_line);
  }
}

/* to[i] for i < n: of from[i + q step], q < count, the greatest or the sum divided by ``by``. lined: ``from`` is a
 * line's; to_line: and ``to``. */
GR_ALWAYS void GR_OF(gr_pool_run)(const void *from, int64_t step, int64_t count, int64_t n, void *to, float by,
                                  int mean, int lined, int to_line) {
  int64_t i = 0;
  for (; i + 4 * GR_ISA_LANES <= n; i += 4 * GR_ISA_LANES)
    GR_OF(gr_pool_vectors)(from, i, step, count, to, by, mean, 4, lined, to_line);
  for (; i + GR_ISA_LANES <= n; i += GR_ISA_LANES)
    GR_OF(gr_pool_vectors)(from, i, step, count, to, by, mean, 1, lined, to_line);
  if (i < n && n >= GR_ISA_LANES) { /* the last vector has elements that the one before has, too */
    GR_OF(gr_pool_vectors)(from, n - GR_ISA_LANES, step, count, to, by, mean, 1, lined, to_line);
    return;
  }
  for (; i < n; ++i) {
    float x = GR_OF(gr_pool_few)(from, i, step, count, mean, lined) / by;
    if (to_line)
      ((float *)to)[i] = x;
    else
      GR_E_PUT((GR_E *)to + i, x);
  }
}

/* Output pixels first .. last-1 of a row: the windows' rows become one line, whose windows are reduced then. So an
 * element is read as often as a window has rows and columns, not as it has both. */
GR_ALWAYS void GR_OF(gr_pool_pixels)(const gr_image *s, const GR_OF(gr_taps) *t, int64_t first, int64_t last,
                                      int64_t height, GR_E *out, int mean) {
  float line[GR_LINE];
  int64_t rows = t->p1 - t->p0, c = s->c, inside, outside, q0, q1;
  int64_t begin = gr_max(0, first * s->sw - s->left), end = gr_min(s->w, (last - 1) * s->sw - s->left + s->kw);
  const GR_E *from = t->x + ((t->row + t->p0) * s->w + begin) * c;
  if (rows > 1) GR_OF(gr_pool_run)(from, s->w * c, rows, (end - begin) * c, line, 1, mean, 0, 1);
  gr_image_inside(s, &inside, &outside);
  for (int64_t ox = first; ox < last;) {
    int64_t at = ox * s->sw - s->left, pixels = 1;
    if (s->sw == 1 && ox >= inside && ox < outside) pixels = gr_min(outside, last) - ox; /* their windows lie alike */
    gr_image_taps(at, s->w, s->kw, 1, &q0, &q1);
    int64_t width = GR_OF(gr_pool_length)(at, s->w, s->kw, s->right, q1 - q0, s->include_pad);
    int64_t skip = (at + q0 - begin) * c;
    float by = mean ? (float)(height * width) : 1;
    if (rows > 1)
      GR_OF(gr_pool_run)(line + skip, c, q1 - q0, pixels * c, out + ox * c, by, mean, 1, 0);
    else
      GR_OF(gr_pool_run)(from + skip, c, q1 - q0, pixels * c, out + ox * c, by, mean, 0, 0);
    ox += pixels;
  }
}

/* Whether windows are so small that a line has several, and none lies outside of the image. */
GR_ALWAYS int GR_OF(gr_pool_by_lines)(const gr_image *s, const GR_OF(gr_taps) *t, int64_t *pixels) {
  *pixels = (GR_LINE / s->c - s->kw) / s->sw + 1;
  int full = s->left < s->kw && (s->ow - 1) * s->sw - s->left < s->w;
  return full && t->p1 > t->p0 && *pixels >= 2 && s->ow >= 2;
}

GR_ALWAYS void GR_OF(gr_pool_row)(const gr_image *s, const GR_OF(gr_taps) *t, GR_E *out, int mean) {
  int64_t rows = t->p1 - t->p0, q0, q1, pixels;
  int64_t height = GR_OF(gr_pool_length)(t->row, s->h, s->kh, s->bottom, rows, s->include_pad);
  if (GR_OF(gr_pool_by_lines)(s, t, &pixels)) {
    for (int64_t ox = 0; ox < s->ow; ox += pixels)
      GR_OF(gr_pool_pixels)(s, t, ox, gr_min(s->ow, ox + pixels), height, out, mean);
    return;
  }
  for (int64_t ox = 0; ox < s->ow; ++ox, out += s->c) {
    int64_t at = ox * s->sw - s->left;
    gr_image_taps(at, s->w, s->kw, 1, &q0, &q1);
    int64_t width = GR_OF(gr_pool_length)(at, s->w, s->kw, s->right, q1 - q0, s->include_pad);
    const GR_E *x = t->x + ((t->row + t->p0) * s->w + at + q0) * s->c;
    float count = (float)(height * width);
    GR_V counts = GR_ISA_SPLAT(count);
    int64_t vectors = GR_OF(gr_image_vectors)(s, s->c >= GR_ISA_LANES);
    for (int64_t v = 0; v < vectors; ++v) {
      int64_t c = GR_OF(gr_image_channel)(s, v);
      GR_V y = GR_OF(gr_pool_vector)(x + c, s, rows, q1 - q0, mean);
      if (mean) y /= counts;
      GR_E_STORE(out + c, y);
    }
    for (int64_t c = vectors ? s->c : 0; c < s->c; ++c) {
      float y = GR_OF(gr_pool_one)(x + c, s, rows, q1 - q0, mean);
      GR_E_PUT(out + c, mean ? y / count : y);
    }
  }
}

/* ---------------------------------------------------------------- rows of output pixels */

static __attribute__((noinline)) GR_ISA_TARGET int32_t GR_OF(gr_image_rows)(const gr_image *s, int64_t first,
                                                                             int64_t last, int work) {
  float tail[GR_TAIL_TAPS * 32];
  int has_tail = work == GR_DEPTHWISE && s->c > GR_ISA_LANES && s->end % GR_ISA_LANES != 0 &&
                 s->kh * s->kw <= GR_TAIL_TAPS;
  if (has_tail) GR_OF(gr_depthwise_tail)(s, tail);
  for (int64_t i = first; i < last; ++i) {
    GR_OF(gr_taps) t = {(const GR_E *)s->x + i / s->oh * s->h * s->w * s->c, i % s->oh * s->sh - s->top, 0, 0,
                         has_tail ? tail : NULL};
    GR_E *out = (GR_E *)s->out + i * s->ow * s->c;
    gr_image_taps(t.row, s->h, s->kh, s->dh, &t.p0, &t.p1);
    if (work == GR_DEPTHWISE)
      GR_OF(gr_depthwise_row)(s, &t, out);
    else if (work == GR_MEAN)
      GR_OF(gr_pool_row)(s, &t, out, 1);
    else
      GR_OF(gr_pool_row)(s, &t, out, 0);
    if (s->after) s->after(s, i, out);
  }
  return GR_OK;
}

#undef GR_PIXELS
#undef GR_PAIRED_TAPS
#undef GR_IMAGE_PAIRED
#undef GR_NEAR_TAPS
#undef GR_LINE
#undef GR_OF
#undef GR_OF_
#undef GR_E
#undef GR_E_LOAD
#undef GR_E_STORE
#undef GR_E_ONE
#undef GR_E_PUT
#undef GR_IMAGE_HALVES
#include "isa/end.h"
