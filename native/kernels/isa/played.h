/* played.h: AVX-512's vectors in plain C, which GR_PLAY_AVX512 puts in place of its instructions, so that a machine
 * with AVX2 runs the code that is written for them (GR_BUILD=avx512). What is defined: any.h. Slow: for tests only.
 */
#ifndef GR_ISA_AVX512_TYPES
#define GR_ISA_AVX512_TYPES
#include "isa/halves.h"

typedef float gr_floats_avx512 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t gr_ints_avx512 __attribute__((vector_size(64), aligned(4), may_alias));
/* no function is inlined: in unrolled loops, with sanitizers, that takes minutes to compile */
#define GR_PLAYED static __attribute__((noinline, unused, target("avx2,fma")))

#define GR_PLAY(name, element)                                                                           \
  GR_PLAYED gr_floats_avx512 name(gr_floats_avx512 x, gr_floats_avx512 y, gr_floats_avx512 z) {          \
    gr_floats_avx512 made = {0};                                                                         \
    for (int i = 0; i < 16; ++i) made[i] = element;                                                      \
    (void)z;                                                                                             \
    return made;                                                                                         \
  }
GR_PLAY(gr_play_fused, __builtin_fmaf(x[i], y[i], z[i]))
GR_PLAY(gr_play_greater, x[i] > y[i] ? x[i] : y[i])
GR_PLAY(gr_play_less, x[i] < y[i] ? x[i] : y[i])
#undef GR_PLAY

GR_PLAYED gr_floats_avx512 gr_play_look_up(gr_floats_avx512 table, gr_ints_avx512 at) {
  gr_floats_avx512 made = {0};
  for (int i = 0; i < 16; ++i) made[i] = table[at[i] & 15];
  return made;
}

GR_PLAYED gr_floats_avx512 gr_play_load(const float *from, unsigned mask) {
  gr_floats_avx512 made = {0};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) made[i] = from[i];
  return made;
}

GR_PLAYED void gr_play_store(float *to, gr_floats_avx512 x, unsigned mask) {
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) to[i] = x[i];
}

GR_ISA_HALVES(avx512, 16, __attribute__((target("avx2,fma"))))

GR_PLAYED gr_floats_avx512 gr_wide_some_avx512(const void *from, unsigned mask) {
  gr_ints_avx512 made = {0};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) made[i] = (int32_t)((uint32_t)((const gr_half *)from)[i] << 16);
  return (gr_floats_avx512)made;
}

GR_PLAYED void gr_narrow_some_avx512(void *to, gr_floats_avx512 x, unsigned mask) {
  gr_words_avx512 made = gr_rounded_avx512(x);
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) ((gr_half *)to)[i] = made[i];
}
#endif

#define GR_ISA(name) name##_avx512
#define GR_ISA_LANES 16
#define GR_ISA_TARGET __attribute__((target("avx2,fma")))
#define GR_ISA_SPLAT(x) {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}
#define GR_ISA_FUSED(x, y, z) gr_play_fused(x, y, z)
#define GR_ISA_LOOK_UP(table, at) gr_play_look_up(table, at)
#define GR_ISA_SHUFFLE(x, at) GR_ISA_LOOK_UP(x, at)
#define GR_ISA_MAX(x, y) gr_play_greater(x, y, y)
#define GR_ISA_MIN(x, y) gr_play_less(x, y, y)
#define GR_ISA_MASKED
#define GR_ISA_SHORT GR_ISA_LANES
#define GR_ISA_FIRST(n) ((unsigned short)((n) >= 16 ? 0xffff : (n) <= 0 ? 0 : (1 << (n)) - 1))
#define GR_ISA_LOAD_SOME(from, mask) gr_play_load((const float *)(from), mask)
#define GR_ISA_STORE_SOME(to, x, mask) gr_play_store((float *)(to), x, mask)
#define GR_ISA_KEEP(x)
#define GR_V gr_floats_avx512
#define GR_VI gr_ints_avx512
#define GR_ALWAYS static inline __attribute__((always_inline)) GR_ISA_TARGET
