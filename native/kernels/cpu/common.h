/* common.h: what every cpu body uses: arguments, shapes, errors, bfloat16, parallel ranges.
 *
 * Included by: the templates of this directory, through begin_*.h. Runs on: whichever thread executes the
 * kernel. Bodies read shapes from their call, so a wrapper whose shapes are constants folds every test and
 * loop bound here.
 *
 * defines: GR_INLINE, GR_INDEPENDENT, GR_CAT, GR_MAX_DIMS, GR_GRAIN, gr_ptr, gr_word, gr_span, gr_size,
 *          gr_same_shape, gr_min, gr_max, gr_ceil_div, gr_refuse, gr_b1 gr_b2 gr_b4 gr_b8, gr_bf16_to_float,
 *          gr_float_to_bf16, gr_select, gr_select_wide, gr_expf, gr_expm1f, gr_log1pf, gr_tanhf,
 *          gr_erff, gr_erfcf, gr_geluf, gr_strides, gr_advance, gr_seek, gr_parallel, gr_each
 */
#ifndef GR_CPU_COMMON_H
#define GR_CPU_COMMON_H

#include <math.h>
#include <string.h>

#include "gr_abi.h"

#define GR_INLINE static inline __attribute__((always_inline))
/* gcc may assume that iterations of the next loop do not depend on each other: out[i] is made from a[i] and
 * b[i] only, also where out is one of them. */
#define GR_INDEPENDENT _Pragma("GCC ivdep")
#define GR_CAT_(a, b) a##b
#define GR_CAT(a, b) GR_CAT_(a, b)

/* Loops over dimensions keep their counters on the stack; the ops' type rules refuse tensors of more
 * dimensions. */
#define GR_MAX_DIMS 16
/* Work (about flops) below which waking another thread costs more than it gives. */
#define GR_GRAIN 65536

GR_INLINE void *gr_ptr(const gr_arg *arg) { return (void *)(uintptr_t)arg->addr; }

/* A double attribute word. */
GR_INLINE double gr_word(int64_t word) {
  double value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* Product of shape[first .. last-1]. */
GR_INLINE int64_t gr_span(const gr_arg *arg, int32_t first, int32_t last) {
  int64_t n = 1;
  for (int32_t d = first; d < last; d++) n *= arg->shape[d];
  return n;
}

GR_INLINE int64_t gr_size(const gr_arg *arg) { return gr_span(arg, 0, arg->ndim); }

GR_INLINE int gr_same_shape(const gr_arg *a, const gr_arg *b) {
  if (a->ndim != b->ndim) return 0;
  for (int32_t d = 0; d < a->ndim; d++) {
    if (a->shape[d] != b->shape[d]) return 0;
  }
  return 1;
}

GR_INLINE int64_t gr_min(int64_t a, int64_t b) { return a < b ? a : b; }
GR_INLINE int64_t gr_max(int64_t a, int64_t b) { return a > b ? a : b; }
GR_INLINE int64_t gr_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Before the first write to an output: that it kept its contents is what the result says. */
static inline int32_t gr_refuse(const gr_call *call, const char *text) {
  call->env->set_error(call->env, text);
  return GR_ERR_REFUSED;
}

/* Elements that are only moved, whatever they mean. */
typedef uint8_t __attribute__((may_alias)) gr_b1;
typedef uint16_t __attribute__((may_alias)) gr_b2;
typedef uint32_t __attribute__((may_alias)) gr_b4;
typedef uint64_t __attribute__((may_alias)) gr_b8;

/* ---------------------------------------------------------------- bfloat16: the upper half of a float */

GR_INLINE float gr_bf16_to_float(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

/* Round to nearest even; a NaN stays a NaN (its payload may lie in the lower half only). */
GR_INLINE uint16_t gr_float_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40u;
  return (uint16_t)(value != value ? quiet : rounded);
}

/* ---------------------------------------------------------------- exp and tanh of floats
 * Without branches, tables or calls, so that loops over them become vector code; no fused operations, so that
 * every machine gives the same bits. Within 2 ulp of the exact value. */

/* yes where wanted, else no: by bits, because a compiler may not run what could trap on both sides of a
 * branch. */
GR_INLINE float gr_select(int wanted, float yes, float no) {
  uint32_t a, b, mask = 0u - (uint32_t)wanted;
  memcpy(&a, &yes, 4);
  memcpy(&b, &no, 4);
  a = (a & mask) | (b & ~mask);
  memcpy(&yes, &a, 4);
  return yes;
}

/* The same of doubles. */
GR_INLINE double gr_select_wide(int wanted, double yes, double no) {
  uint64_t a, b, mask = wanted ? ~(uint64_t)0 : 0;
  memcpy(&a, &yes, 8);
  memcpy(&b, &no, 8);
  a = (a & mask) | (b & ~mask);
  memcpy(&yes, &a, 8);
  return yes;
}

/* e^r - 1 for |r| <= ln 2 / 2: a polynomial. */
GR_INLINE float gr_exp_rest(float r) {
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  return y * (r * r) + r;
}

/* e^x: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r, then 2^n in two factors (n = -149 .. 128).
 * */
GR_INLINE float gr_expf(float x) {
  const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves an integer in the low bits */
  float clamped = gr_select(x > 89.0f, 89.0f, gr_select(x < -104.0f, -104.0f, x));
  float shifted = clamped * 1.44269504f + round, n = shifted - round;
  float r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
  float y = gr_exp_rest(r) + 1.0f;
  int32_t bits, base;
  memcpy(&bits, &shifted, 4);
  memcpy(&base, &round, 4);
  int32_t power = (int32_t)((uint32_t)bits - (uint32_t)base), half = power >> 1;
  uint32_t first = (uint32_t)(half + 127) << 23, second = (uint32_t)(power - half + 127) << 23;
  float a, b;
  memcpy(&a, &first, 4);
  memcpy(&b, &second, 4);
  return y * a * b; /* a NaN is in y, whatever the powers are then */
}

/* e^x - 1, within 2 ulp: as gr_expf, but 1 is taken from the power, which is exact where the result is small. */
GR_INLINE float gr_expm1f(float x) {
  const float round = 12582912.0f; /* as in gr_expf */
  float clamped = gr_select(x > 89.0f, 89.0f, gr_select(x < -18.0f, -18.0f, x));
  float shifted = clamped * 1.44269504f + round, n = shifted - round;
  float rest = gr_exp_rest(clamped - n * 0.693359375f + n * 2.12194440e-4f);
  int32_t bits, base;
  memcpy(&bits, &shifted, 4);
  memcpy(&base, &round, 4);
  int32_t power = (int32_t)((uint32_t)bits - (uint32_t)base), half = power >> 1;
  uint32_t first = (uint32_t)(half + 127) << 23, second = (uint32_t)(power - half + 127) << 23;
  uint32_t inverse = (uint32_t)(half - power + 127) << 23;
  float a, b, one; /* 1 / b, which b makes 1 */
  memcpy(&a, &first, 4);
  memcpy(&b, &second, 4);
  memcpy(&one, &inverse, 4);
  return (rest * a + (a - one)) * b;
}

/* log(1 + t), of 0 <= t <= 1 or NaN only, within 2 ulp: 2 artanh(s) with s = t / (2 + t) <= 1/3, its series. */
GR_INLINE float gr_log1pf(float t) {
  float s = t / (2.0f + t), z = s * s;
  float p = 0.153846154f;
  p = p * z + 0.181818182f;
  p = p * z + 0.222222222f;
  p = p * z + 0.285714286f;
  p = p * z + 0.4f;
  p = p * z + 0.666666667f;
  return 2.0f * s + s * z * p;
}

GR_INLINE float gr_tanhf(float x) {
  float z = x * x, small = -5.70498872745e-3f;
  small = small * z + 2.06390887954e-2f;
  small = small * z - 5.37397155531e-2f;
  small = small * z + 1.33314422036e-1f;
  small = small * z - 3.33332819422e-1f;
  small = small * z * x + x;
  float large = 1.0f - 2.0f / (gr_expf(2.0f * fabsf(x)) + 1.0f);
  return copysignf(gr_select(fabsf(x) < 0.625f, small, large), x); /* -0, too */
}

/* ---------------------------------------------------------------- erf and erfc of floats
 * As exp and tanh above: vector code, the same bits on every machine; erf within 3 ulp, erfc within 8. */

/* For |x| < 0.85: x P(x^2). */
GR_INLINE float gr_erf_near(float x) {
  float z = x * x;
  float p = 8.83625471e-05f;
  p = p * z - 0.000824429095f;
  p = p * z + 0.0052092988f;
  p = p * z - 0.0268624816f;
  p = p * z + 0.112837471f;
  p = p * z - 0.376126379f;
  p = p * z + 1.12837923f;
  return x * p;
}

/* erfc(z) = t P(t) e^(-z^2) with t = 1 / (1 + z / 2), z = |x|. What squaring drops of z is made good by a few
 * terms of its exponential. */
GR_INLINE float gr_erfcf(float x) {
  float z = fabsf(x);
  z = gr_select(z > 10.1f, 10.1f, z); /* there it is 0 */
  uint32_t bits;
  float high, t = 1.0f / (1.0f + 0.5f * z);
  memcpy(&bits, &z, 4);
  bits &= 0xfffff000u;
  memcpy(&high, &bits, 4);
  float q = 0.0357671455f;
  q = q * t - 0.191033587f;
  q = q * t + 0.381420046f;
  q = q * t - 0.289592415f;
  q = q * t - 0.021959994f;
  q = q * t + 0.0354058221f;
  q = q * t + 0.0548779443f;
  q = q * t + 0.185594946f;
  q = q * t + 0.245179161f;
  q = q * t + 0.282252401f;
  q = q * t + 0.282088518f;
  float low = (high - z) * (high + z);
  float rest = 1.0f + low * (1.0f + low * (0.5f + low * (0.166666667f + low * 0.0416666667f)));
  float y = t * q * rest * gr_expf(-high * high);
  return gr_select(z < 0.5f, 1.0f - gr_erf_near(x), gr_select(x < 0.0f, 2.0f - y, y));
}

GR_INLINE float gr_erff(float x) {
  float z = fabsf(x);
  return gr_select(z < 0.85f, gr_erf_near(x), copysignf(1.0f - gr_erfcf(z), x));
}

/* gelu(x) = max(x, 0) - z Q(z), z = |x|, Q the upper tail of the normal distribution: nothing cancels, neither near 0
 * nor far below it. Q(z) = e^(-z^2 / 2) P(z) / S(z), whose quotient is within 6e-9 (a minimax fit on 0 .. 13.5). The
 * exponent is the square of the upper half of z, which is exact, and the rest of the square; 2^(n + 100) and the
 * product by 2^-100 reach the least numbers. Within 8 ulp of the exact value. */
GR_INLINE float gr_geluf(float x) {
  const float round = 12582912.0f; /* as in gr_expf */
  float z = fabsf(x), high, power;
  z = gr_select(z > 14.5f, 14.5f, z); /* there Q is 0 */
  uint32_t bits;
  memcpy(&bits, &z, 4);
  bits &= 0xfffff000u;
  memcpy(&high, &bits, 4);
  float square = -0.5f * high * high, rest = 0.5f * (high - z) * (high + z);
  float shifted = (square + rest) * 1.44269504f + round, n = shifted - round;
  float r = square - n * 0.693359375f + (rest + n * 2.12194440e-4f);
  float y = gr_exp_rest(r) + 1.0f;
  memcpy(&bits, &shifted, 4);
  bits = (bits << 23) + (227u << 23);
  memcpy(&power, &bits, 4);
  float above = 0.00403695321f;
  above = above * z + 0.0400977805f;
  above = above * z + 0.181645036f;
  above = above * z + 0.436145216f;
  above = above * z + 0.5f;
  float below = 0.010119002f;
  below = below * z + 0.100517444f;
  below = below * z + 0.465273112f;
  below = below * z + 1.19589293f;
  below = below * z + 1.67017531f;
  below = below * z + 1.0f;
  float upper = gr_select(x < 0, 0.0f * x, x); /* NaN of -infinity, as 0 times it is */
  return upper - above / below * y * power * z * 0x1p-100f;
}

/* ---------------------------------------------------------------- strides and counters */

/* Element strides of arg seen through a broadcast to ndim dimensions (right-aligned): 0 where its size is 1.
 * */
GR_INLINE void gr_strides(const gr_arg *arg, int32_t ndim, int64_t *strides) {
  int64_t step = 1;
  for (int32_t d = ndim - 1; d >= 0; d--) {
    int32_t own = d - (ndim - arg->ndim);
    int64_t n = own < 0 ? 1 : arg->shape[own];
    strides[d] = n == 1 ? 0 : step;
    step *= n;
  }
}

/* Step an odometer over dims 0 .. ndim-1 and the offsets that hang on it by their strides. */
GR_INLINE void gr_advance(int32_t ndim, const int64_t *shape, int64_t *count, int64_t *a, const int64_t *sa,
                          int64_t *b, const int64_t *sb) {
  for (int32_t d = ndim - 1; d >= 0; d--) {
    *a += sa[d];
    *b += sb[d];
    if (++count[d] < shape[d]) return;
    *a -= shape[d] * sa[d];
    *b -= shape[d] * sb[d];
    count[d] = 0;
  }
}

/* Set the odometer to its index-th position. */
GR_INLINE void gr_seek(int64_t index, int32_t ndim, const int64_t *shape, int64_t *count, int64_t *a,
                       const int64_t *sa, int64_t *b, const int64_t *sb) {
  *a = *b = 0;
  for (int32_t d = ndim - 1; d >= 0; d--) {
    count[d] = index % shape[d];
    index /= shape[d];
    *a += count[d] * sa[d];
    *b += count[d] * sb[d];
  }
}

/* ---------------------------------------------------------------- parallel ranges */

/* run(ctx, first, last) over [0, n), in pieces of at least ``grain`` items on the pool's threads; inline if
 * there is one piece. */
typedef struct gr_range {
  int32_t (*run)(void *ctx, int64_t first, int64_t last);
  void *ctx;
  int64_t n, piece;
} gr_range;

static inline int32_t gr_range_task(void *ctx, int64_t index) {
  const gr_range *r = ctx;
  return r->run(r->ctx, index * r->piece, gr_min(r->n, (index + 1) * r->piece));
}

GR_INLINE int32_t gr_parallel(const gr_env *env, int64_t n, int64_t grain,
                              int32_t (*run)(void *ctx, int64_t first, int64_t last), void *ctx) {
  if (n <= grain || env->num_cores == 1) return n > 0 ? run(ctx, 0, n) : GR_OK;
  /* a few pieces a thread, so that a slow thread does not hold up the rest */
  int64_t piece = gr_max(grain, gr_ceil_div(n, 4 * (int64_t)env->num_cores));
  gr_range range = {run, ctx, n, piece};
  return env->parallel_for(env, gr_ceil_div(n, piece), gr_range_task, &range);
}

/* run(call, first, last) over the elements of the output of a call with one input. */
static inline int32_t gr_each(const gr_call *call, int64_t grain,
                              int32_t (*run)(void *call, int64_t first, int64_t last)) {
  return gr_parallel(call->env, gr_size(&call->args[1]), grain, run, (void *)(uintptr_t)call);
}

#endif
