/* avx512.h: vectors of sixteen floats, AVX-512; what is defined: any.h. */
#ifdef GR_PLAY_AVX512
#include "isa/played.h"
#else
#ifndef GR_ISA_AVX512_TYPES
#define GR_ISA_AVX512_TYPES
#include "isa/halves.h"

typedef float gr_floats_avx512 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t gr_ints_avx512 __attribute__((vector_size(64), aligned(4), may_alias));

GR_ISA_HALVES(avx512, 16, __attribute__((target("avx512f"))))

/* Elements outside the mask are not touched, which no builtin guarantees for memory. */
static inline __attribute__((always_inline, target("avx512f"))) gr_floats_avx512 gr_wide_some_avx512(
    const void *from, unsigned short mask) {
  gr_ints_avx512 made;
  __asm__("vpmovzxwd %1, %0%{%2%}%{z%}" : "=v"(made) : "m"(*(const gr_words_avx512 *)from), "Yk"(mask));
  return (gr_floats_avx512)(made << 16);
}

static inline __attribute__((always_inline, target("avx512f"))) void gr_narrow_some_avx512(
    void *to, gr_floats_avx512 x, unsigned short mask) {
  gr_bits_avx512 bits = __builtin_convertvector(gr_rounded_avx512(x), gr_bits_avx512);
  __asm__("vpmovdw %1, %0%{%2%}" : "+m"(*(gr_words_avx512 *)to) : "v"(bits), "Yk"(mask));
}
#endif

#define GR_ISA(name) name##_avx512
#define GR_ISA_LANES 16
#define GR_ISA_TARGET __attribute__((target("avx512f")))
#define GR_ISA_SPLAT(x) {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}
#define GR_ISA_EVERY ((unsigned short)-1)      /* lane; and 4: rounding as it is set */
#define GR_ISA_FUSED(x, y, z) __builtin_ia32_vfmaddps512_mask(x, y, z, GR_ISA_EVERY, 4)
#define GR_ISA_LOOK_UP(table, at) __builtin_ia32_permvarsf512_mask(table, at, table, GR_ISA_EVERY)
#define GR_ISA_SHUFFLE(x, at) GR_ISA_LOOK_UP(x, at)
#define GR_ISA_MAX(x, y) __builtin_ia32_maxps512_mask(x, y, y, GR_ISA_EVERY, 4)
#define GR_ISA_MIN(x, y) __builtin_ia32_minps512_mask(x, y, y, GR_ISA_EVERY, 4)
#define GR_ISA_MASKED
#define GR_ISA_SHORT GR_ISA_LANES
#define GR_ISA_FIRST(n) ((unsigned short)((n) >= 16 ? 0xffff : (n) <= 0 ? 0 : (1 << (n)) - 1))
#define GR_ISA_LOAD_SOME(from, mask) \
  (gr_floats_avx512) __builtin_ia32_loadups512_mask((const float *)(from), (gr_floats_avx512){0}, mask)
#define GR_ISA_STORE_SOME(to, x, mask) __builtin_ia32_storeups512_mask((float *)(to), x, mask)
#define GR_ISA_KEEP(x)
#define GR_V gr_floats_avx512
#define GR_VI gr_ints_avx512
#define GR_ALWAYS static inline __attribute__((always_inline)) GR_ISA_TARGET
#endif
