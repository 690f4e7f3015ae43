/* softmax_row.h: softmax and log_softmax of one contiguous row of floats, for each instruction set. The last
 * elements of a row are computed as whole lanes, too, of a copy. Sums are kept in GR_SUMS lanes of float for
 * GR_SUMMED elements, then in double: neither the machine nor a long row changes much of them.
 *
 * Included by: normalize.h, attention_panels.h. Thread: any.
 * defines: gr_softmax_row, gr_softmax_row_chosen, GR_SUMS
 */
#ifndef GR_CPU_SOFTMAX_ROW_H
#define GR_CPU_SOFTMAX_ROW_H

#include "cpu/common.h"

#define GR_SUMS 16
#define GR_SUMMED 1024

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

/* `fused`: whether multiply-adds round once.
 * out[i] = exp(x[i] - most) / total, or x[i] - most - log(total), with total the sum of exp(x[i] - most). The quotient
 * is a product with the reciprocal. out may be x; n > 0. */
GR_INLINE void gr_softmax_row(const float *x, float *out, int64_t n, int logs, int fused) {
  float top[GR_SUMS], sums[GR_SUMS], rest[GR_SUMS], block[GR_SUMMED];
  int64_t whole = n / GR_SUMS * GR_SUMS, left = n - whole, first = 0;
  double total = 0;
  for (int l = 0; l < GR_SUMS; ++l) rest[l] = -INFINITY;
  for (int64_t j = 0; j < left; ++j) rest[j] = x[whole + j];
  for (int l = 0; l < GR_SUMS; ++l) top[l] = rest[l];
  for (int64_t j = 0; j < whole; j += GR_SUMS)
    for (int l = 0; l < GR_SUMS; ++l) top[l] = x[j + l] > top[l] ? x[j + l] : top[l];
  float most = gr_lanes_max(top);
  for (int l = 0; l < GR_SUMS; ++l) rest[l] = gr_exp_below(rest[l] - most, fused);
  for (int l = 0; l < GR_SUMS; ++l) sums[l] = rest[l];
  do {
    int64_t last = gr_min(whole, first + GR_SUMMED);
    float *e = logs ? block : out + first;
    GR_INDEPENDENT
    for (int64_t j = 0; j < last - first; ++j) e[j] = gr_exp_below(x[first + j] - most, fused);
    for (int64_t j = 0; j < last - first; j += GR_SUMS)
      for (int l = 0; l < GR_SUMS; ++l) sums[l] += e[j + l];
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
  GR_INDEPENDENT
  for (int64_t j = 0; j < whole; ++j) out[j] *= part;
  for (int64_t j = 0; j < left; ++j) out[whole + j] = rest[j] * part;
}

/* The same on each instruction set. */
#define GR_SOFTMAX_ROW(isa, fused, attributes)                                                                 \
  static __attribute__(attributes) void gr_softmax_row_##isa(const float *x, float *out, int64_t n, int logs) { \
    gr_softmax_row(x, out, n, logs, fused);                                                                    \
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

#endif
