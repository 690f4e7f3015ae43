/* softmax_row.h: softmax and log_softmax of one contiguous row of floats, and of neighbouring columns, for each
 * instruction set. The last elements of a row are computed as whole lanes, too, of a copy. Sums are kept in GR_SUMS
 * lanes of float for GR_SUMMED elements, then in double: neither the machine nor a long row changes much of them.
 *
 * Included by: cpu/normalize.h, cpu/attention_panels.h, tt/normalize.h. Thread: any.
 * defines: gr_softmax_row, gr_softmax_part, gr_softmax_row_chosen, gr_softmax_part_chosen, the passes, gr_softmax_columns_chosen, GR_SUMS, GR_FEW_COLUMNS
 */
#ifndef GR_CPU_SOFTMAX_ROW_H
#define GR_CPU_SOFTMAX_ROW_H

#include "cpu/common.h"

#define GR_SUMS 16
#define GR_SUMMED 1024
#define GR_FEW_COLUMNS 64

/* a * b + c: rounded once where `fused`, which is constant; the machine can then. */
GR_INLINE float gr_times_plus(float a, float b, float c, int fused) {
  return fused ? __builtin_fmaf(a, b, c) : a * b + c;
}

/* e^x of x <= 0 or NaN, as gr_expf, within 2 ulp; below the normal numbers 0. */
GR_INLINE float gr_exp_below(float x, int fused) {
  const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves an integer in the low bits */
  float shifted = gr_times_plus(gr_select(x < -88.0f, -88.0f, x), 1.44269504f, round, fused), n = shifted - round;
  float r = gr_times_plus(n, 2.12194440e-4f, gr_times_plus(n, -0.693359375f, x, fused), fused);
  float y = gr_times_plus(1.9875691500e-4f, r, 1.3981999507e-3f, fused);
  y = gr_times_plus(y, r, 8.3334519073e-3f, fused);
  y = gr_times_plus(y, r, 4.1665795894e-2f, fused);
  y = gr_times_plus(y, r, 1.6666665459e-1f, fused);
  y = gr_times_plus(y, r, 5.0000001201e-1f, fused);
  y = gr_times_plus(y, r * r, r, fused) + 1.0f;
  uint32_t bits;
  float power;
  memcpy(&bits, &shifted, 4);
  bits = (bits << 23) + 0x3f800000u;
  memcpy(&power, &bits, 4);
  return gr_select(x < -87.0f, 0.0f, y * power); /* a NaN is in y, whatever the power is then */
}

/* The lanes as one number, by halves; loops of constant length, so that they become vector code. */
#define GR_HALVES(step)                          \
  for (int l = 0; l < 8; ++l) step(l, 8)         \
  for (int l = 0; l < 4; ++l) step(l, 4)         \
  for (int l = 0; l < 2; ++l) step(l, 2)         \
  step(0, 1)
#define GR_HALF_MAX(l, n) half[l] = half[l + n] > half[l] ? half[l + n] : half[l];
#define GR_HALF_SUM(l, n) half[l] += half[l + n];

GR_INLINE float gr_lanes_max(const float *lanes) {
  float half[GR_SUMS];
  for (int l = 0; l < GR_SUMS; ++l) half[l] = lanes[l];
  GR_HALVES(GR_HALF_MAX)
  return half[0];
}

GR_INLINE double gr_lanes_sum(const float *lanes) {
  double half[GR_SUMS];
  for (int l = 0; l < GR_SUMS; ++l) half[l] = lanes[l];
  GR_HALVES(GR_HALF_SUM)
  return half[0];
}
#undef GR_HALVES
#undef GR_HALF_MAX
#undef GR_HALF_SUM

/* The last lanes of a row of n elements: its last GR_SUMS ones, of which `twice` are whole lanes' already; of a shorter
 * row all, behind as many -infinities. Computed before anything is written, as out may be x. */
GR_INLINE int64_t gr_softmax_rest(const float *x, int64_t n, float *rest) {
  int64_t left = n % GR_SUMS, missing = gr_max(GR_SUMS - n, 0);
  if (left == 0) left = GR_SUMS; /* the last whole lanes are the rest */
  if (!missing) {
    memcpy(rest, x + n - GR_SUMS, GR_SUMS * sizeof(float));
    return GR_SUMS - left;
  }
  for (int l = 0; l < GR_SUMS; ++l) rest[l] = -INFINITY;
  for (int64_t j = 0; j < n; ++j) rest[missing + j] = x[j];
  return 0;
}

/* `fused`: whether multiply-adds round once.
 * out[i] = exp(x[i] - most) / total, or x[i] - most - log(total), with total the sum of exp(x[i] - most). The quotient
 * is a product with the reciprocal. out may be x; n > 0. */
GR_INLINE void gr_softmax_row(const float *x, float *out, int64_t n, int logs, int fused) {
  float top[GR_SUMS], sums[GR_SUMS], rest[GR_SUMS], block[GR_SUMMED];
  int64_t whole = (n - 1) / GR_SUMS * GR_SUMS, first = 0;
  int twice = (int)gr_softmax_rest(x, n, rest);
  double total = 0;
  for (int l = 0; l < GR_SUMS; ++l) top[l] = rest[l];
  for (int64_t j = 0; j < whole; j += GR_SUMS)
    for (int l = 0; l < GR_SUMS; ++l) top[l] = x[j + l] > top[l] ? x[j + l] : top[l];
  float most = gr_lanes_max(top);
  for (int l = 0; l < GR_SUMS; ++l) rest[l] = gr_exp_below(rest[l] - most, fused);
  for (int l = 0; l < GR_SUMS; ++l) sums[l] = gr_select(l < twice, 0.0f, rest[l]);
  do {
    int64_t last = gr_min(whole, first + GR_SUMMED);
    float *e = logs ? block : out + first;
    for (int64_t j = 0; j < last - first; j += GR_SUMS) {
      GR_INDEPENDENT
      for (int l = 0; l < GR_SUMS; ++l) e[j + l] = gr_exp_below(x[first + j + l] - most, fused);
      for (int l = 0; l < GR_SUMS; ++l) sums[l] += e[j + l];
    }
    total += gr_lanes_sum(sums);
    for (int l = 0; l < GR_SUMS; ++l) sums[l] = 0;
    first = last;
  } while (first < whole);
  if (logs) {
    float logarithm = (float)log(total);
    GR_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) out[j] = x[j] - most - logarithm;
    return;
  }
  float part = (float)(1 / total);
  for (int64_t j = 0; j < whole; j += GR_SUMS) {
    GR_INDEPENDENT
    for (int l = 0; l < GR_SUMS; ++l) out[j + l] *= part;
  }
  for (int l = 0; l < GR_SUMS; ++l) rest[l] *= part;
  if (n >= GR_SUMS)
    memcpy(out + n - GR_SUMS, rest, GR_SUMS * sizeof(float));
  else
    for (int64_t j = 0; j < n; ++j) out[j] = rest[GR_SUMS - n + j];
}

/* The passes over a row that comes in parts. */
enum { GR_SOFTMAX_GREATEST, GR_SOFTMAX_TOTAL, GR_SOFTMAX_WRITE, GR_SOFTMAX_PASSES };

/* A part of a row in one pass, in place: its share of *most or *total, or the results. `kept`: what the pass before left
 * in x is there in the next one, so it leaves exponentials. */
GR_INLINE void gr_softmax_part(float *x, int64_t n, int pass, int logs, int kept, float *most, double *total,
                               int fused) {
  float lanes[GR_SUMS], block[GR_SUMMED], top = *most;
  if (pass == GR_SOFTMAX_GREATEST) {
    int64_t whole = n / GR_SUMS * GR_SUMS;
    for (int l = 0; l < GR_SUMS; ++l) lanes[l] = l < n - whole ? x[whole + l] : -INFINITY;
    for (int64_t j = 0; j < whole; j += GR_SUMS)
      for (int l = 0; l < GR_SUMS; ++l) lanes[l] = x[j + l] > lanes[l] ? x[j + l] : lanes[l];
    float found = gr_lanes_max(lanes);
    *most = found > top ? found : top;          /* a NaN shows in the total */
  } else if (pass == GR_SOFTMAX_TOTAL) {
    for (int64_t first = 0; first < n; first += GR_SUMMED) {
      int64_t count = gr_min(GR_SUMMED, n - first), whole = count / GR_SUMS * GR_SUMS;
      float *e = logs || !kept ? block : x + first;
      for (int64_t j = 0; j < count % GR_SUMS; ++j) lanes[j] = x[first + whole + j];
      for (int64_t j = count % GR_SUMS; j < GR_SUMS; ++j) lanes[j] = -INFINITY;
      for (int l = 0; l < GR_SUMS; ++l) lanes[l] = gr_exp_below(lanes[l] - top, fused);
      for (int64_t j = 0; j < count % GR_SUMS; ++j) e[whole + j] = lanes[j];
      for (int64_t j = count % GR_SUMS; j < GR_SUMS; ++j) lanes[j] = 0;
      GR_INDEPENDENT
      for (int64_t j = 0; j < whole; ++j) e[j] = gr_exp_below(x[first + j] - top, fused);
      for (int64_t j = 0; j < whole; j += GR_SUMS)
        for (int l = 0; l < GR_SUMS; ++l) lanes[l] += e[j + l];
      *total += gr_lanes_sum(lanes);
    }
  } else if (logs) {
    float logarithm = (float)log(*total);
    GR_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) x[j] = x[j] - top - logarithm;
  } else {
    float part = (float)(1 / *total);
    GR_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) x[j] = (kept ? x[j] : gr_exp_below(x[j] - top, fused)) * part;
  }
}

/* The first `width` lanes; the rest become 0. */
GR_INLINE void gr_lanes_load(float *lanes, const float *x, int64_t width) {
  if (width == GR_SUMS) {
    memcpy(lanes, x, GR_SUMS * sizeof(float));
    return;
  }
  for (int l = 0; l < GR_SUMS; ++l) lanes[l] = 0;
  for (int64_t l = 0; l < width; ++l) lanes[l] = x[l];
}

/* The first `width` lanes. */
GR_INLINE void gr_lanes_store(float *out, const float *lanes, int64_t width) {
  if (width == GR_SUMS) {
    memcpy(out, lanes, GR_SUMS * sizeof(float));
    return;
  }
  for (int64_t l = 0; l < width; ++l) out[l] = lanes[l];
}

/* The same down `width` columns, at most GR_SUMS, of n rows that are `stride` elements apart. */
GR_INLINE void gr_softmax_columns(const float *x, float *out, int64_t n, int64_t stride, int64_t width, int logs,
                                  int fused) {
  float top[GR_SUMS], a[GR_SUMS], sums[GR_SUMS], part[GR_SUMS];
  double total[GR_SUMS] = {0};
  gr_lanes_load(top, x, width);
  for (int64_t k = 1; k < n; ++k) {
    gr_lanes_load(a, x + k * stride, width);
    for (int l = 0; l < GR_SUMS; ++l) top[l] = a[l] > top[l] ? a[l] : top[l];
  }
  for (int64_t first = 0; first < n; first += GR_SUMMED) {
    int64_t last = gr_min(n, first + GR_SUMMED);
    for (int l = 0; l < GR_SUMS; ++l) sums[l] = 0;
    for (int64_t k = first; k < last; ++k) {
      gr_lanes_load(a, x + k * stride, width);
      for (int l = 0; l < GR_SUMS; ++l) a[l] = gr_exp_below(a[l] - top[l], fused);
      for (int l = 0; l < GR_SUMS; ++l) sums[l] += a[l];
      if (!logs) gr_lanes_store(out + k * stride, a, width);
    }
    for (int l = 0; l < GR_SUMS; ++l) total[l] += sums[l];
  }
  for (int64_t l = 0; l < width; ++l) part[l] = (float)(logs ? log(total[l]) : 1 / total[l]);
  for (int64_t l = width; l < GR_SUMS; ++l) part[l] = 0;
  for (int64_t k = 0; k < n; ++k) {
    gr_lanes_load(a, (logs ? x : out) + k * stride, width);
    for (int l = 0; l < GR_SUMS; ++l) a[l] = logs ? a[l] - top[l] - part[l] : a[l] * part[l];
    gr_lanes_store(out + k * stride, a, width);
  }
}

/* The same down all columns, fewer than GR_FEW_COLUMNS, of n rows that lie one behind the other: GR_SUMS rows are whole
 * lanes, whose element p is always of column p % columns. */
GR_INLINE void gr_softmax_narrow(const float *x, float *out, int64_t n, int64_t columns, int logs, int fused) {
  float top[GR_SUMS * GR_FEW_COLUMNS], some[GR_SUMS * GR_FEW_COLUMNS]; /* sums, then what is made of them */
  double total[GR_FEW_COLUMNS] = {0};
  int64_t turn = GR_SUMS * columns, all = n * columns;
  for (int64_t p = 0; p < turn; ++p) top[p] = -INFINITY;
  for (int64_t at = 0; at < all; at += turn) {
    int64_t count = gr_min(turn, all - at);
    GR_INDEPENDENT
    for (int64_t p = 0; p < count; ++p) top[p] = x[at + p] > top[p] ? x[at + p] : top[p];
  }
  for (int64_t p = columns; p < turn; ++p) top[p % columns] = top[p] > top[p % columns] ? top[p] : top[p % columns];
  for (int64_t p = columns; p < turn; ++p) top[p] = top[p - columns];
  for (int64_t first = 0; first < all; first += turn * (GR_SUMMED / GR_SUMS)) {
    int64_t last = gr_min(all, first + turn * (GR_SUMMED / GR_SUMS));
    for (int64_t p = 0; p < turn; ++p) some[p] = 0;
    for (int64_t at = first; at < last; at += turn) {
      int64_t count = gr_min(turn, last - at);
      GR_INDEPENDENT
      for (int64_t p = 0; p < count; ++p) {
        float e = gr_exp_below(x[at + p] - top[p], fused);
        some[p] += e;
        if (!logs) out[at + p] = e;
      }
    }
    for (int64_t p = 0; p < turn; ++p) total[p % columns] += some[p];
  }
  for (int64_t p = 0; p < columns; ++p) some[p] = (float)(logs ? log(total[p]) : 1 / total[p]);
  for (int64_t p = columns; p < turn; ++p) some[p] = some[p - columns];
  for (int64_t at = 0; at < all; at += turn) {
    int64_t count = gr_min(turn, all - at);
    GR_INDEPENDENT
    for (int64_t p = 0; p < count; ++p) out[at + p] = logs ? x[at + p] - top[p] - some[p] : out[at + p] * some[p];
  }
}

/* The same on each instruction set. */
#define GR_SOFTMAX_ROW(isa, fused, attributes)                                                                 \
  static __attribute__(attributes) void gr_softmax_row_##isa(const float *x, float *out, int64_t n, int logs) { \
    gr_softmax_row(x, out, n, logs, fused);                                                                    \
  }                                                                                                            \
  static __attribute__(attributes) void gr_softmax_part_##isa(float *x, int64_t n, int pass, int logs,         \
                                                              int kept, float *most, double *total) {          \
    gr_softmax_part(x, n, pass, logs, kept, most, total, fused);                                               \
  }                                                                                                            \
  static __attribute__(attributes) void gr_softmax_columns_##isa(const float *x, float *out, int64_t n,        \
                                                                 int64_t stride, int64_t width, int logs) {    \
    if (stride == width && width < GR_FEW_COLUMNS)                                                             \
      gr_softmax_narrow(x, out, n, width, logs, fused);                                                        \
    else                                                                                                       \
      gr_softmax_columns(x, out, n, stride, width, logs, fused);                                               \
  }
GR_SOFTMAX_ROW(any, 0, (noinline))
#if defined(__x86_64__)
GR_SOFTMAX_ROW(avx2, 1, (noinline, target("avx2,fma")))
GR_SOFTMAX_ROW(avx512, 1, (noinline, target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#elif defined(__aarch64__)
#include "isa/neon.h"
#include "isa/end.h"
GR_SOFTMAX_ROW(neon, 1, (noinline))
#endif
#undef GR_SOFTMAX_ROW

/* What this machine runs fastest. */
static void (*gr_softmax_row_chosen(void))(const float *, float *, int64_t, int) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return gr_softmax_row_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return gr_softmax_row_avx2;
#elif defined(__aarch64__)
  if (GR_NEON) return gr_softmax_row_neon;
#endif
  return gr_softmax_row_any;
}

typedef void (*gr_softmax_part_fn)(float *, int64_t, int, int, int, float *, double *);
static gr_softmax_part_fn gr_softmax_part_chosen(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return gr_softmax_part_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return gr_softmax_part_avx2;
#elif defined(__aarch64__)
  if (GR_NEON) return gr_softmax_part_neon;
#endif
  return gr_softmax_part_any;
}

static void (*gr_softmax_columns_chosen(void))(const float *, float *, int64_t, int64_t, int64_t, int) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return gr_softmax_columns_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return gr_softmax_columns_avx2;
#endif
  return gr_softmax_columns_any;
}

#endif
