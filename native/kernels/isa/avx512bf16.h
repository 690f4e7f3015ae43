/* avx512bf16.h: avx512.h with products of bf16; what is defined: any.h, and
 *
 * GR_ISA(gr_dot)(x, y, z)    z + the products of both bf16 of each 4 bytes of x and y
 * GR_ISA(gr_pairs)(x, y)     the floats of x, then those of y, rounded to bf16
 * GR_ISA(gr_mixed)(x, y)     the same, one of x beside one of y
 * GR_ISA(gr_every_other)(x, y, odd)  of the floats of x, then of y: the first, third .., or the second, fourth ..
 * GR_ISA(gr_pairs_at)(from)  32 bf16 that begin at any even address; GR_ISA(gr_put_pairs)(to, x) writes them so
 *
 * The instruction rounds after each of the two products, to nearest even, and takes denormals for zero. It is written
 * as assembly, because compilers differ in the types of its builtin.
 */
#include "isa/avx512.h"
#undef GR_ISA
#define GR_ISA(name) name##_avx512bf16

#ifndef GR_ISA_AVX512BF16_TYPES
#define GR_ISA_AVX512BF16_TYPES
#include <string.h>

typedef float gr_even_avx512bf16 __attribute__((vector_size(64), aligned(2), may_alias));

GR_ALWAYS GR_VI GR_ISA(gr_pairs_at)(const void *from) { return (GR_VI) * (const gr_even_avx512bf16 *)from; }
GR_ALWAYS void GR_ISA(gr_put_pairs)(void *to, GR_V x) { *(gr_even_avx512bf16 *)to = x; }

#ifdef GR_PLAY_AVX512
typedef uint16_t gr_halves_avx512bf16 __attribute__((vector_size(64), may_alias));

GR_PLAYED float gr_widened_avx512bf16(gr_halves_avx512bf16 x, int i) {
  uint32_t bits = (uint32_t)x[i] << 16;
  float made;
  if (!(bits & 0x7f800000)) bits &= 0x80000000;
  memcpy(&made, &bits, sizeof made);
  return made;
}

GR_PLAYED GR_V GR_ISA(gr_dot)(GR_V x, GR_V y, GR_V z) {
  gr_halves_avx512bf16 a = (gr_halves_avx512bf16)x, b = (gr_halves_avx512bf16)y;
  for (int i = 0; i < 32; ++i)
    z[i / 2] = __builtin_fmaf(gr_widened_avx512bf16(a, i), gr_widened_avx512bf16(b, i), z[i / 2]);
  return z;
}

GR_PLAYED GR_V GR_ISA(gr_pairs)(GR_V x, GR_V y) {
  gr_halves_avx512bf16 made = {0};
  for (int i = 0; i < 32; ++i) {
    float value = i < 16 ? x[i] : y[i - 16];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (!(bits & 0x7f800000)) bits &= 0x80000000;
    made[i] = (uint16_t)(value != value ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  return (GR_V)made;
}

GR_PLAYED GR_V GR_ISA(gr_mixed)(GR_V x, GR_V y) {
  gr_halves_avx512bf16 all = (gr_halves_avx512bf16)GR_ISA(gr_pairs)(x, y), made = {0};
  for (int i = 0; i < 32; ++i) made[i] = all[i / 2 + i % 2 * 16];
  return (GR_V)made;
}

GR_PLAYED GR_V GR_ISA(gr_every_other)(GR_V x, GR_V y, int odd) {
  GR_V made = {0};
  for (int i = 0; i < 16; ++i) made[i] = i < 8 ? x[2 * i + odd] : y[2 * i + odd - 16];
  return made;
}

#define GR_WORDS_AVX512BF16(x) gr_rounded_avx512(x)
#define GR_STORE_WORDS_AVX512BF16(to, made, mask) \
  for (int i = 0; i < 16; ++i)                    \
    if ((mask) >> i & 1) ((gr_half *)(to))[i] = (made)[i]
#else
GR_ALWAYS GR_V GR_ISA(gr_dot)(GR_V x, GR_V y, GR_V z) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(z) : "v"(x), "v"(y));
  return z;
}

GR_ALWAYS GR_V GR_ISA(gr_pairs)(GR_V x, GR_V y) {
  GR_V made;
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(made) : "v"(y), "v"(x));
  return made;
}

GR_ALWAYS GR_V GR_ISA(gr_mixed)(GR_V x, GR_V y) {
  static const uint16_t at[32] __attribute__((aligned(64))) = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                              8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  GR_V made = GR_ISA(gr_pairs)(x, y);
  __asm__("vpermw %1, %2, %0" : "=v"(made) : "v"(made), "v"(*(const GR_V *)at));
  return made;
}

GR_ALWAYS GR_V GR_ISA(gr_every_other)(GR_V x, GR_V y, int odd) {
  GR_VI at = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  return __builtin_ia32_vpermt2varps512_mask(at + odd, x, y, GR_ISA_EVERY);
}

GR_ALWAYS gr_words_avx512 gr_converted_avx512bf16(GR_V x) {
  gr_words_avx512 made;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(made) : "v"(x));
  return made;
}

#define GR_WORDS_AVX512BF16(x) gr_converted_avx512bf16(x)
#define GR_STORE_WORDS_AVX512BF16(to, made, mask) \
  __asm__("vmovdqu16 %1, %0%{%2%}" : "+m"(*(gr_words_avx512 *)(to)) : "v"(made), "Yk"((unsigned short)(mask)))
#endif

GR_ALWAYS GR_V GR_ISA(gr_wide)(const void *from) { return gr_wide_avx512(from); }
GR_ALWAYS GR_V GR_ISA(gr_wide_some)(const void *from, unsigned short mask) { return gr_wide_some_avx512(from, mask); }
GR_ALWAYS void GR_ISA(gr_narrow)(void *to, GR_V x) { *(gr_words_avx512 *)to = GR_WORDS_AVX512BF16(x); }
GR_ALWAYS void GR_ISA(gr_narrow_some)(void *to, GR_V x, unsigned short mask) {
  gr_words_avx512 made = GR_WORDS_AVX512BF16(x);
  GR_STORE_WORDS_AVX512BF16(to, made, mask);
}
#endif
