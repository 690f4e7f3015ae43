/* softmax_row.h: softmax and log_softmax of one row of floats that comes in parts, for each instruction set, and what
 * that of whole rows (cpu/softmax_rows.h) shares. Sums are kept in GR_SUMS lanes of float for GR_SUMMED elements, then
 * in double: neither the machine nor a long row changes much of them.
 *
 * Included by: cpu/softmax_rows.h, tt/normalize.h. Thread: any.
 * defines: gr_softmax_part, gr_softmax_part_chosen, the passes, gr_lanes_{max sum}, GR_SUMS, GR_SUMMED
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

/* e^x of x <= 0 or NaN, as gr_expf, within 2 ulp; from -87.7 down 0: the power's exponent is. */
GR_INLINE float gr_exp_below(float x, int fused) {
  const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves an integer in the low bits */
  float clamped = gr_select(x < -88.0f, -88.0f, x);
  float shifted = gr_times_plus(clamped, 1.44269504f, round, fused), n = shifted - round;
  float r = gr_times_plus(n, 2.12194440e-4f, gr_times_plus(n, -0.693359375f, clamped, fused), fused);
  float y = gr_times_plus(8.290282139e-3f, r, 4.189815714e-2f, fused);
  y = gr_times_plus(y, r, 1.666763793e-1f, fused);
  y = gr_times_plus(y, r, 4.999914786e-1f, fused);
  y = gr_times_plus(y, r, 9.999997064e-1f, fused);
  y = gr_times_plus(y, r, 1.0f, fused);
  uint32_t bits;
  float power;
  memcpy(&bits, &shifted, 4);
  bits = (bits << 23) + 0x3f800000u;
  memcpy(&power, &bits, 4);
  return y * power; /* a NaN is in y, whatever the power is then */
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

/* The same on each instruction set. */
#define GR_SOFTMAX_PART(isa, fused, attributes)                                                                \
  static __attribute__(attributes) void gr_softmax_part_##isa(float *x, int64_t n, int pass, int logs,         \
                                                              int kept, float *most, double *total) {          \
    gr_softmax_part(x, n, pass, logs, kept, most, total, fused);                                               \
  }
GR_SOFTMAX_PART(any, 0, (noinline))
#if defined(__x86_64__)
GR_SOFTMAX_PART(avx2, 1, (noinline, target("avx2,fma")))
GR_SOFTMAX_PART(avx512, 1, (noinline, target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#elif defined(__aarch64__)
#include "isa/neon.h"
#include "isa/end.h"
GR_SOFTMAX_PART(neon, 1, (noinline))
#endif
#undef GR_SOFTMAX_PART

/* The fastest form on this machine. */
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

#endif
