/* avx2.h: vectors of eight floats, AVX2 with FMA; what is defined: any.h. */
#ifndef GR_ISA_AVX2_TYPES
#define GR_ISA_AVX2_TYPES
#include "isa/halves.h"

typedef float gr_floats_avx2 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t gr_ints_avx2 __attribute__((vector_size(32), aligned(4), may_alias));
typedef short gr_shorts_avx2 __attribute__((vector_size(32)));
typedef uint8_t gr_eight_avx2 __attribute__((vector_size(8)));
typedef char gr_chars_avx2 __attribute__((vector_size(32), aligned(1), may_alias));
typedef long long gr_halves_avx2 __attribute__((vector_size(16), aligned(1), may_alias));
typedef long long gr_quads_avx2 __attribute__((vector_size(32), aligned(1), may_alias));

/* The lowest byte of each lane: brought together in both halves of the vector, then side by side. */
static inline __attribute__((always_inline, target("avx2"))) gr_eight_avx2 gr_lowest_avx2(gr_ints_avx2 x) {
  gr_chars_avx2 places = {0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                          -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1};
  gr_quads_avx2 made = (gr_quads_avx2)__builtin_ia32_pshufb256((gr_chars_avx2)x, places);
  gr_halves_avx2 all = __builtin_shufflevector(made, made, 0, 1) | __builtin_shufflevector(made, made, 2, 3);
  return (gr_eight_avx2)all[0];
}

/* Each byte in a lane of its own. */
static inline __attribute__((always_inline, target("avx2"))) gr_ints_avx2 gr_widen_avx2(gr_eight_avx2 x) {
  typedef char bytes __attribute__((vector_size(16)));
  gr_halves_avx2 all = {(long long)x, 0};
  return (gr_ints_avx2)__builtin_ia32_pmovzxbd256((bytes)all);
}

static inline __attribute__((always_inline, target("avx2"))) void gr_spread_avx2(uint8_t *to, const uint8_t *from) {
  gr_chars_avx2 places = {0, -1, 2, -1, 1, -1, 3, -1, 4, -1, 6, -1, 5, -1, 7, -1,
                          8, -1, 10, -1, 9, -1, 11, -1, 12, -1, 14, -1, 13, -1, 15, -1};
  gr_halves_avx2 half = *(const gr_halves_avx2 *)from;
  gr_quads_avx2 both = {half[0], half[1], half[0], half[1]};
  *(gr_chars_avx2 *)to = __builtin_ia32_pshufb256((gr_chars_avx2)both, places);
}

GR_ISA_HALVES(avx2, 8, __attribute__((target("avx2,fma"))))
#endif

#define GR_ISA(name) name##_avx2
#define GR_ISA_LANES 8
#define GR_ISA_TARGET __attribute__((target("avx2,fma")))
#define GR_ISA_SPLAT(x) {x, x, x, x, x, x, x, x}
#define GR_ISA_FUSED(x, y, z) __builtin_ia32_vfmaddps256(x, y, z)
#define GR_ISA_SHUFFLE(x, at) __builtin_ia32_permvarsf256(x, at)
#define GR_ISA_MAX(x, y) __builtin_ia32_maxps256(x, y)
#define GR_ISA_MIN(x, y) __builtin_ia32_minps256(x, y)
#define GR_ISA_DOT_SHORTS(x, y) ((gr_ints_avx2)__builtin_ia32_pmaddwd256((gr_shorts_avx2)(x), (gr_shorts_avx2)(y)))
#define GR_ISA_LOWEST(x) gr_lowest_avx2((gr_ints_avx2)(x))
#define GR_ISA_WIDEN(x) gr_widen_avx2((gr_eight_avx2)(x))
#define GR_ISA_SPREAD(to, from) gr_spread_avx2(to, from)
#define GR_ISA_KEEP(x) __asm__("" : "+x"(x))
#define GR_ISA_SHORT (1 << 30)         /* any number */
#define GR_V gr_floats_avx2
#define GR_VI gr_ints_avx2
#define GR_ALWAYS static inline __attribute__((always_inline)) GR_ISA_TARGET
