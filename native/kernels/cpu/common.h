/* common.h: what every cpu body uses: arguments, shapes, errors, bfloat16, parallel ranges.
 *
 * Included by: the templates of this directory, through begin_*.h. Runs on: whichever thread executes the
 * kernel. Bodies read shapes from their call, so a wrapper whose shapes are constants folds every test and
 * loop bound here.
 *
 * defines: GR_INDEPENDENT, GR_CAT, GR_MAX_DIMS, GR_GRAIN, gr_same_shape, gr_min, gr_max, gr_ceil_div,
 *          gr_b1 gr_b2 gr_b4 gr_b8, gr_copy_row, gr_bf16_to_float, gr_float_to_bf16, gr_select, gr_select_wide,
 *          gr_strides, gr_advance, gr_seek, gr_parallel, gr_each; those of gr_kernel.h and exponentials.h
 */
#ifndef GR_CPU_COMMON_H
#define GR_CPU_COMMON_H

#include <math.h>
#include <string.h>

#include "gr_kernel.h"

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

/* Elements that are only moved, whatever they mean. */
typedef uint8_t __attribute__((may_alias)) gr_b1;
typedef uint16_t __attribute__((may_alias)) gr_b2;
typedef uint32_t __attribute__((may_alias)) gr_b4;
typedef uint64_t __attribute__((may_alias)) gr_b8;

typedef uint32_t __attribute__((may_alias, aligned(1))) gr_four_bytes;
typedef uint64_t __attribute__((may_alias, aligned(1))) gr_eight_bytes;
typedef uint64_t __attribute__((vector_size(16), may_alias, aligned(1))) gr_sixteen_bytes;

#define GR_FEW_BYTES 256
/* A memcpy for short rows, whose copy takes less time than a call: the last part overlaps the one before. */
GR_INLINE void gr_copy_row(void *to, const void *from, int64_t n) {
  char *out = to;
  const char *in = from;
  if (__builtin_constant_p(n) || n > GR_FEW_BYTES || n < 4) {
    memcpy(out, in, (size_t)n);
  } else if (n >= 16) {
    for (int64_t i = 0; i < n - 16; i += 16) *(gr_sixteen_bytes *)(out + i) = *(const gr_sixteen_bytes *)(in + i);
    *(gr_sixteen_bytes *)(out + n - 16) = *(const gr_sixteen_bytes *)(in + n - 16);
  } else if (n >= 8) {
    gr_eight_bytes last = *(const gr_eight_bytes *)(in + n - 8);
    *(gr_eight_bytes *)out = *(const gr_eight_bytes *)in;
    *(gr_eight_bytes *)(out + n - 8) = last;
  } else {
    gr_four_bytes last = *(const gr_four_bytes *)(in + n - 4);
    *(gr_four_bytes *)out = *(const gr_four_bytes *)in;
    *(gr_four_bytes *)(out + n - 4) = last;
  }
}
#undef GR_FEW_BYTES

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

/* ---------------------------------------------------------------- functions of floats
 * gr_expf and so on, the same bits on every machine, and gr_expf_fused and so on, for code of machines that round a
 * multiply-add once. */

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

#define GR_FUSED 0
#define GR_FLOATS(name) gr_##name##f
#include "cpu/exponentials.h"
#define GR_FUSED 1
#define GR_FLOATS(name) gr_##name##f_fused
#include "cpu/exponentials.h"

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

/* run(ctx, first, last) over [0, n), in even pieces of about ``grain`` items or more on the pool's threads; inline if
 * there is one piece. */
typedef struct gr_range {
  int32_t (*run)(void *ctx, int64_t first, int64_t last);
  void *ctx;
  int64_t n, pieces;
} gr_range;

static inline int32_t gr_range_task(void *ctx, int64_t index) {
  const gr_range *r = ctx;
  return r->run(r->ctx, r->n * index / r->pieces, r->n * (index + 1) / r->pieces);
}

GR_INLINE int32_t gr_parallel(const gr_env *env, int64_t n, int64_t grain,
                              int32_t (*run)(void *ctx, int64_t first, int64_t last), void *ctx) {
  int64_t threads = env->num_cores;
  if (n <= grain || threads == 1) return n > 0 ? run(ctx, 0, n) : GR_OK;
  /* a few pieces a thread, so that a slow thread does not hold up the rest, and each thread as many: so it has the
   * same part of a tensor in every node */
  int64_t pieces = gr_min(gr_ceil_div(n, grain), 4 * threads);
  if (pieces > threads) pieces = pieces / threads * threads;
  gr_range range = {run, ctx, n, pieces};
  return env->parallel_for(env, pieces, gr_range_task, &range);
}

/* run(call, first, last) over the elements of the output of a call with one input. */
static inline int32_t gr_each(const gr_call *call, int64_t grain,
                              int32_t (*run)(void *call, int64_t first, int64_t last)) {
  return gr_parallel(call->env, gr_size(&call->args[1]), grain, run, (void *)(uintptr_t)call);
}

#endif
