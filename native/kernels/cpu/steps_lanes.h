/* steps_lanes.h: one instruction of a program of steps (steps.h) on lanes of floats or doubles. All families and
 * dtypes of a unit share them: gr_steps_lanesf for what computes in float (f32, f16, bf16), gr_steps_lanes for f64.
 *
 * Included by: steps_block.h, which has the lanes of integers; unary.h. Thread: any.
 * defines: GR_STEP, GR_STEPS_ARITHMETIC, GR_STEPS_LANES_ARGS, gr_steps_lanes[f], gr_step_alonef
 */
#ifndef GR_CPU_STEPS_LANES_H
#define GR_CPU_STEPS_LANES_H

#include "cpu/scalars.h"
#include "steps.h"

/* An instruction on n elements of type T, a multiple of GR_STEPS_LANES, so many at a time: each loop is vector
 * code once, with no rest. x_next, y_next: GR_STEPS_LANES, or 0 where the same lanes stand for all elements. */
#define GR_STEPS_LANES_ARGS(T) \
  const int64_t *w, const T *x, int64_t x_next, const T *y, int64_t y_next, T *d, int64_t n

#define GR_STEP(T, code, value)                                                         \
  case code:                                                                            \
    for (; n > 0; n -= GR_STEPS_LANES, x += x_next, y += y_next, d += GR_STEPS_LANES) { \
      GR_INDEPENDENT                                                                    \
      for (int l = 0; l < GR_STEPS_LANES; l++) {                                        \
        T a = x[l], b = y[l];                                                           \
        (void)b;                                                                        \
        d[l] = (T)(value);                                                              \
      }                                                                                 \
    }                                                                                   \
    break;

/* U: what sums and products of T are computed in. */
#define GR_STEPS_ARITHMETIC(T, U, IS_NAN)                             \
  GR_STEP(T, GR_STEP_ADD, (U)a + (U)b)                                \
  GR_STEP(T, GR_STEP_SUBTRACT, (U)a - (U)b)                           \
  GR_STEP(T, GR_STEP_MULTIPLY, (U)a * (U)b)                           \
  GR_STEP(T, GR_STEP_MAXIMUM, a >= b || IS_NAN(a) ? a : b)            \
  GR_STEP(T, GR_STEP_MINIMUM, a <= b || IS_NAN(a) ? a : b)

#define GR_STEPS_IS_NAN(x) ((x) != (x))
/* Functions that functions.h lacks. */
#define GR_STEPS_OTHERS(T, F)                       \
  GR_STEPS_ARITHMETIC(T, T, GR_STEPS_IS_NAN)        \
  GR_STEP(T, GR_STEP_DIVIDE, a / b)                 \
  GR_STEP(T, GR_STEP_GELU, gr_gelu_erf##F(a))       \
  GR_STEP(T, GR_STEP_GELU_TANH, gr_gelu_tanh##F(a))

GR_INLINE void gr_steps_lanes_off(GR_STEPS_LANES_ARGS(float)) {
  double p = gr_steps_parameter(w, 0), q = gr_steps_parameter(w, 1);
  switch (w[0]) {
    GR_STEPS_OTHERS(float, f)
#define GR_STEP_NUMBER(name, code, words, formula) GR_STEP(float, code, gr_fn_##name##f(a, p, q))
#define GR_STEP_FUNCTION(name, code, words, cost, formula) GR_STEP_NUMBER(name, code, words, formula)
#include "functions.h"
    default: break; /* ir/ops/steps.py makes no other code */
  }
}

GR_INLINE void gr_steps_lanes_off_fused(GR_STEPS_LANES_ARGS(float)) {
  double p = gr_steps_parameter(w, 0), q = gr_steps_parameter(w, 1);
  switch (w[0]) {
    GR_STEPS_OTHERS(float, f_fused)
#define GR_STEP_NUMBER(name, code, words, formula) GR_STEP(float, code, gr_fn_##name##f_fused(a, p, q))
#define GR_STEP_FUNCTION(name, code, words, cost, formula) GR_STEP_NUMBER(name, code, words, formula)
#include "functions.h"
    default: break; /* ir/ops/steps.py makes no other code */
  }
}

GR_INLINE void gr_steps_lanes_of(GR_STEPS_LANES_ARGS(double)) {
  double p = gr_steps_parameter(w, 0), q = gr_steps_parameter(w, 1);
  switch (w[0]) {
    GR_STEPS_OTHERS(double, )
#define GR_STEP_NUMBER(name, code, words, formula) GR_STEP(double, code, gr_fn_##name(a, p, q))
#define GR_STEP_FUNCTION(name, code, words, cost, formula) GR_STEP_NUMBER(name, code, words, formula)
#include "functions.h"
    default: break; /* ir/ops/steps.py makes no other code */
  }
}
#undef GR_STEPS_OTHERS

static __attribute__((noinline)) void gr_steps_lanes(GR_STEPS_LANES_ARGS(double)) {
  gr_steps_lanes_of(w, x, x_next, y, y_next, d, n);
}

/* Floats once for each instruction set, chosen when it runs. Those that fuse multiply-adds give the same bits. */
#define GR_STEPS_LANES_FOR(isa, lanes, attributes)                                        \
  static __attribute__(attributes) void gr_steps_lanesf_##isa(GR_STEPS_LANES_ARGS(float)) { \
    lanes(w, x, x_next, y, y_next, d, n);                                                 \
  }
#ifdef __FP_FAST_FMAF
GR_STEPS_LANES_FOR(any, gr_steps_lanes_off_fused, (noinline))
#else
GR_STEPS_LANES_FOR(any, gr_steps_lanes_off, (noinline))
#endif
#if defined(__x86_64__) && !defined(__AVX512F__)
#if !defined(__AVX2__) || !defined(__FMA__)
GR_STEPS_LANES_FOR(avx2, gr_steps_lanes_off_fused, (noinline, target("avx2,fma")))
#endif
GR_STEPS_LANES_FOR(avx512, gr_steps_lanes_off_fused, (noinline, target("avx512f,avx512dq,fma")))
#endif
#undef GR_STEPS_LANES_FOR

GR_INLINE void gr_steps_lanesf(GR_STEPS_LANES_ARGS(float)) {
#if defined(__x86_64__) && !defined(__AVX512F__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    gr_steps_lanesf_avx512(w, x, x_next, y, y_next, d, n);
    return;
  }
#if !defined(__AVX2__) || !defined(__FMA__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    gr_steps_lanesf_avx2(w, x, x_next, y, y_next, d, n);
    return;
  }
#endif
#endif
  gr_steps_lanesf_any(w, x, x_next, y, y_next, d, n);
}

/* The step of a function, by itself, on n elements, of any number. `attrs`: its attribute words, `count` of them. */
static inline void gr_step_alonef(int64_t code, const int64_t *attrs, int count, const float *x, float *out,
                                  int64_t n) {
  const int64_t w[GR_STEPS_WORDS] = {code, 0, 0, 0, count > 0 ? attrs[0] : 0, count > 1 ? attrs[1] : 0};
  int64_t whole = n / GR_STEPS_LANES * GR_STEPS_LANES, rest = n - whole;
  _Alignas(64) float last[GR_STEPS_LANES] = {0};
  if (whole) gr_steps_lanesf(w, x, GR_STEPS_LANES, x, GR_STEPS_LANES, out, whole);
  if (!rest) return;
  memcpy(last, x + whole, (size_t)rest * sizeof(float));
  gr_steps_lanesf(w, last, 0, last, 0, last, GR_STEPS_LANES);
  memcpy(out + whole, last, (size_t)rest * sizeof(float));
}

#endif
