/* grid.h: stretches of float32 to bytes on a grid and back, for each instruction set.
 *
 * Included by: quantized.h, dequantized.h, fused.h. Thread: any.
 * defines: gr_grid, gr_to_grid, gr_from_grid, gr_grid_pair, gr_grid_pair_run, gr_grid_fuses, gr_is_plain_scale
 */
#ifndef GR_CPU_GRID_H
#define GR_CPU_GRID_H

#include "cpu/common.h"

typedef struct gr_grid {
  float scale;
  int32_t zero;
  int is_signed;
} gr_grid;

/* Factors that bring numbers to a grid. x / scale is made of products, which take a fourth of a division's time: x is
 * kept where the grid's ends are, so that nothing overflows and a NaN is the least, and two steps of Newton's bring x *
 * (1 / scale), which may be two units off, to the quotient that a division rounds to (Markstein, IBM J. Res. Dev. 34,
 * 1990). Where 1 / scale or the ends are no normal numbers, or the machine does not fuse, it divides. */
typedef struct gr_to_grid_by {
  float scale, inverse, least, most;   /* least, most: of x */
  int32_t zero;                        /* less the bits of 1.5 * 2^23 */
} gr_to_grid_by;

static inline gr_to_grid_by gr_to_grid_by_of(const gr_grid *g) {
  float least = (float)((g->is_signed ? INT8_MIN : 0) - g->zero);
  float most = (float)((g->is_signed ? INT8_MAX : UINT8_MAX) - g->zero);
  return (gr_to_grid_by){g->scale, 1.0f / g->scale, least * g->scale, most * g->scale, g->zero - 0x4b400000};
}

/* Whether products make the quotient of a grid: a scale of 2^-80 to 2^80. */
static inline int gr_is_plain_scale(float scale) { return scale >= 0x1p-80f && scale <= 0x1p80f; }

GR_INLINE uint8_t gr_to_grid_one(const gr_to_grid_by *by, float x) {
  x = gr_select(x > by->least, x, by->least);
  x = gr_select(x < by->most, x, by->most);
  float q = x * by->inverse;
  q = __builtin_fmaf(__builtin_fmaf(-q, by->scale, x), by->inverse, q);
  q = __builtin_fmaf(__builtin_fmaf(-q, by->scale, x), by->inverse, q);
  q += 12582912.0f;                    /* 1.5 * 2^23: an integer in the low bits */
  int32_t bits;
  memcpy(&bits, &q, 4);
  return (uint8_t)(bits + by->zero);
}

GR_INLINE void gr_to_grid_fused(const gr_to_grid_by *given, const float *x, uint8_t *out, int64_t n) {
  gr_to_grid_by by = *given;
  GR_INDEPENDENT
  for (int64_t i = 0; i < n; i++) out[i] = gr_to_grid_one(&by, x[i]);
}

/* Round x / scale to nearest, ties to even, plus the zero point, saturated; a NaN is the least. */
static void gr_to_grid_loop(const gr_grid *g, const float *x, uint8_t *out, int64_t n) {
  float scale = g->scale, least = (float)((g->is_signed ? INT8_MIN : 0) - g->zero);
  float most = (float)((g->is_signed ? INT8_MAX : UINT8_MAX) - g->zero);
  int32_t zero = g->zero - 0x4b400000;
  GR_INDEPENDENT
  for (int64_t i = 0; i < n; i++) {
    float value = x[i] / scale;
    value = gr_select(value > least, value, least);
    value = gr_select(value < most, value, most) + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &value, 4);
    out[i] = (uint8_t)(bits + zero);
  }
}

/* The sum or the product of two tensors of bytes on grids of plain scales, to such a grid: what dequantize, one op and
 * quantize make. flip: 0x80 for int8, whose bytes then count from 0 as others do. */
typedef struct gr_grid_pair {
  float a_scale, b_scale;
  int32_t a_zero, b_zero;              /* of the turned bytes */
  uint8_t a_flip, b_flip;
  int multiplies;
  gr_to_grid_by to;
} gr_grid_pair;

static inline gr_grid_pair gr_grid_pair_of(const gr_grid *a, const gr_grid *b, const gr_grid *to, int multiplies) {
  return (gr_grid_pair){a->scale, b->scale, a->zero + (a->is_signed ? 128 : 0), b->zero + (b->is_signed ? 128 : 0),
                        a->is_signed ? 0x80 : 0, b->is_signed ? 0x80 : 0, multiplies, gr_to_grid_by_of(to)};
}

/* b_step: 0 where b is one number. */
GR_INLINE void gr_grid_pair_loop(const gr_grid_pair *given, const uint8_t *a, const uint8_t *b, int b_step,
                                 uint8_t *out, int64_t n) {
  gr_grid_pair g = *given;
  float one = (float)((b[0] ^ g.b_flip) - g.b_zero) * g.b_scale;
#define GR_PAIR(y, op)                                                                   \
  GR_INDEPENDENT                                                                         \
  for (int64_t i = 0; i < n; i++) {                                                      \
    float x = (float)((uint8_t)(a[i] ^ g.a_flip) - g.a_zero) * g.a_scale;                \
    out[i] = gr_to_grid_one(&g.to, x op (y));                                            \
  }
#define GR_EACH ((float)((uint8_t)(b[i] ^ g.b_flip) - g.b_zero) * g.b_scale)
  if (b_step && g.multiplies) {
    GR_PAIR(GR_EACH, *)
  } else if (b_step) {
    GR_PAIR(GR_EACH, +)
  } else if (g.multiplies) {
    GR_PAIR(one, *)
  } else {
    GR_PAIR(one, +)
  }
#undef GR_PAIR
#undef GR_EACH
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
#ifndef GR_PLAY_AVX512
#define GR_GRID_NEAR
#include "cpu/grid_pair_avx512.h"
#endif
#define GR_GRID_TARGET(name, features)                                                                            \
  static __attribute__((target(features), optimize("O3"))) void gr_to_grid_##name(                                \
      const gr_to_grid_by *by, const float *x, uint8_t *out, int64_t n) {                                         \
    gr_to_grid_fused(by, x, out, n);                                                                              \
  }                                                                                                               \
  static __attribute__((target(features), optimize("O3"))) void gr_from_grid_##name(                              \
      const gr_grid *g, const uint8_t *x, float *out, int64_t n) {                                                \
    gr_from_grid_loop(g, x, out, n);                                                                              \
  }                                                                                                               \
  static __attribute__((target(features), optimize("O3"))) void gr_grid_pair_##name(                              \
      const gr_grid_pair *g, const uint8_t *a, const uint8_t *b, int b_step, uint8_t *out, int64_t n) {           \
    gr_grid_pair_loop(g, a, b, b_step, out, n);                                                                   \
  }
GR_GRID_TARGET(avx512, "avx512f,avx512bw,avx512vl,fma,prefer-vector-width=512")
GR_GRID_TARGET(avx2, "avx2,fma")
#undef GR_GRID_TARGET
#define GR_GRID_CHOOSE(name, ...)                                                                  \
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {                  \
    name##_avx512(__VA_ARGS__);                                                                    \
    return;                                                                                        \
  }                                                                                                \
  if (gr_grid_fuses()) {                                                                           \
    name##_avx2(__VA_ARGS__);                                                                      \
    return;                                                                                        \
  }
/* Whether products that make a quotient are fused here. */
static inline int gr_grid_fuses(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
#define GR_GRID_CHOOSE(name, ...)
static inline int gr_grid_fuses(void) { return 0; }
#endif

static inline void gr_to_grid_plain(const gr_to_grid_by *by, const float *x, uint8_t *out, int64_t n) {
  GR_GRID_CHOOSE(gr_to_grid, by, x, out, n)
  gr_to_grid_fused(by, x, out, n);
}

static inline void gr_to_grid(const gr_grid *g, const float *x, uint8_t *out, int64_t n) {
  if (!gr_grid_fuses() || !gr_is_plain_scale(g->scale)) {
    gr_to_grid_loop(g, x, out, n);
    return;
  }
  gr_to_grid_by by = gr_to_grid_by_of(g);
  gr_to_grid_plain(&by, x, out, n);
}

static inline void gr_from_grid(const gr_grid *g, const uint8_t *x, float *out, int64_t n) {
  GR_GRID_CHOOSE(gr_from_grid, g, x, out, n)
  gr_from_grid_loop(g, x, out, n);
}

/* Only where gr_grid_fuses. */
static inline void gr_grid_pair_run(const gr_grid_pair *g, const uint8_t *a, const uint8_t *b, int b_step, uint8_t *out,
                                    int64_t n) {
#ifdef GR_GRID_NEAR
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    int64_t made = gr_grid_pair_near_avx512(g, a, b, b_step, out, n, gr_grid_pair_avx512);
    if (made < n) gr_grid_pair_avx512(g, a + made, b + (b_step ? made : 0), b_step, out + made, n - made);
    return;
  }
#endif
  GR_GRID_CHOOSE(gr_grid_pair, g, a, b, b_step, out, n)
  gr_grid_pair_loop(g, a, b, b_step, out, n);
}
#undef GR_GRID_CHOOSE

#endif
