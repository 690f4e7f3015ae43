/* grid.h: stretches of float32 to bytes on a grid and back, for each instruction set.
 *
 * Included by: quantized.h, dequantized.h, fused.h. Thread: any.
 * defines: gr_grid, gr_grid_of_bytes, gr_to_grid, gr_from_grid
 */
#ifndef GR_CPU_GRID_H
#define GR_CPU_GRID_H

#include "cpu/common.h"

typedef struct gr_grid {
  float scale;
  int32_t zero;
  int is_signed;
} gr_grid;

/* Round x / scale to nearest, ties to even, plus the zero point, saturated; a NaN is the least. */
GR_INLINE void gr_to_grid_loop(const gr_grid *g, const float *x, uint8_t *out, int64_t n) {
  float scale = g->scale, least = (float)((g->is_signed ? INT8_MIN : 0) - g->zero);
  float most = (float)((g->is_signed ? INT8_MAX : UINT8_MAX) - g->zero);
  int32_t zero = g->zero - 0x4b400000;
  GR_INDEPENDENT
  for (int64_t i = 0; i < n; i++) {
    float value = x[i] / scale;
    value = gr_select(value > least, value, least);
    value = gr_select(value < most, value, most) + 12582912.0f; /* 1.5 * 2^23: an integer in the low bits */
    int32_t bits;
    memcpy(&bits, &value, 4);
    out[i] = (uint8_t)(bits + zero);
  }
}

GR_INLINE void gr_from_grid_loop(const gr_grid *g, const uint8_t *x, float *out, int64_t n) {
  float scale = g->scale;
  int32_t zero = g->zero;
  if (g->is_signed) {
    const int8_t *from = (const int8_t *)x;
    GR_INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i] = (float)(from[i] - zero) * scale;
    return;
  }
  GR_INDEPENDENT
  for (int64_t i = 0; i < n; i++) out[i] = (float)(x[i] - zero) * scale;
}

#if defined(__x86_64__)
#define GR_GRID_TARGET(name, features)                                                                             \
  static __attribute__((target(features), optimize("O3"))) void gr_to_grid_##name(const gr_grid *g, const float *x, \
                                                                                  uint8_t *out, int64_t n) {       \
    gr_to_grid_loop(g, x, out, n);                                                                                 \
  }                                                                                                                \
  static __attribute__((target(features), optimize("O3"))) void gr_from_grid_##name(const gr_grid *g, const uint8_t *x, \
                                                                                    float *out, int64_t n) {       \
    gr_from_grid_loop(g, x, out, n);                                                                               \
  }
GR_GRID_TARGET(avx512, "avx512f,avx512bw,avx512vl,prefer-vector-width=512")
GR_GRID_TARGET(avx2, "avx2")
#undef GR_GRID_TARGET
#define GR_GRID_CHOOSE(name, ...)                                                                  \
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {                  \
    name##_avx512(__VA_ARGS__);                                                                    \
    return;                                                                                        \
  }                                                                                                \
  if (__builtin_cpu_supports("avx2")) {                                                            \
    name##_avx2(__VA_ARGS__);                                                                      \
    return;                                                                                        \
  }
#else
#define GR_GRID_CHOOSE(name, ...)
#endif

static inline void gr_to_grid(const gr_grid *g, const float *x, uint8_t *out, int64_t n) {
  GR_GRID_CHOOSE(gr_to_grid, g, x, out, n)
  gr_to_grid_loop(g, x, out, n);
}

static inline void gr_from_grid(const gr_grid *g, const uint8_t *x, float *out, int64_t n) {
  GR_GRID_CHOOSE(gr_from_grid, g, x, out, n)
  gr_from_grid_loop(g, x, out, n);
}
#undef GR_GRID_CHOOSE

#endif
