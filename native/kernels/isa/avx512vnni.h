/* avx512vnni.h: avx512.h with products of bytes (bytes.h); what is defined: any.h, and
 *
 * GR_ISA(gr_dot)(x, y, z)    z + the products of the 4 unsigned bytes of each lane of x and the signed ones of y
 * GR_ISA(gr_four)(x, zero, least, turn)    four vectors of numbers below 2^15, rounded, as bytes one behind the other:
 *                            + zero, no less than least, both in 16 bits; ^ turn. A NaN is the least
 * GR_ISA(gr_store_part)(to, x, j, size)    bytes j * size .. (j + 1) * size - 1 of a vector; size 16 or 32
 *
 * Sums of gr_dot wrap, nothing saturates.
 */
#include "isa/avx512.h"
#undef GR_ISA
#define GR_ISA(name) name##_avx512vnni
#ifndef GR_PLAY_AVX512
#undef GR_ISA_TARGET
#define GR_ISA_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#endif
#define GR_ISA_DOTS
#define GR_ISA_FOUR

#ifndef GR_ISA_AVX512VNNI_TYPES
#define GR_ISA_AVX512VNNI_TYPES
#ifdef GR_PLAY_AVX512
typedef uint8_t gr_unsigned_avx512vnni __attribute__((vector_size(64), may_alias));
typedef int8_t gr_signed_avx512vnni __attribute__((vector_size(64), may_alias));

GR_PLAYED GR_VI GR_ISA(gr_dot)(GR_VI x, GR_VI y, GR_VI z) {
  gr_unsigned_avx512vnni a = (gr_unsigned_avx512vnni)x;
  gr_signed_avx512vnni b = (gr_signed_avx512vnni)y;
  for (int i = 0; i < 64; ++i) z[i / 4] = (int32_t)((uint32_t)z[i / 4] + (uint32_t)(a[i] * b[i]));
  return z;
}

GR_PLAYED GR_VI GR_ISA(gr_four)(const GR_V *x, GR_VI zero, GR_VI least, GR_VI turn) {
  gr_unsigned_avx512vnni made;
  int16_t from = (int16_t)zero[0], low = (int16_t)least[0];
  for (int i = 0; i < 64; ++i) {
    float one = x[i / 16][i % 16];
    int all = (one > -32768.0f ? (int)__builtin_rintf(one) : -32768) + from;
    made[i] = (uint8_t)((all > low ? all : low) ^ (turn[0] & 0xff));
  }
  return (GR_VI)made;
}

GR_PLAYED void GR_ISA(gr_store_part)(uint8_t *to, GR_VI x, int j, int size) {
  memcpy(to, (const uint8_t *)&x + j * size, (size_t)size);
}
#else
#include <immintrin.h>

GR_ALWAYS GR_VI GR_ISA(gr_dot)(GR_VI x, GR_VI y, GR_VI z) {
  return (GR_VI)_mm512_dpbusd_epi32((__m512i)z, (__m512i)x, (__m512i)y);
}

GR_ALWAYS __m512i GR_ISA(gr_rounded_words)(GR_V x, GR_V y, GR_VI zero, GR_VI least) {
  __m512i made = _mm512_packs_epi32(_mm512_cvtps_epi32((__m512)x), _mm512_cvtps_epi32((__m512)y));
  return _mm512_max_epi16(_mm512_add_epi16(made, (__m512i)zero), (__m512i)least);
}

GR_ALWAYS GR_VI GR_ISA(gr_four)(const GR_V *x, GR_VI zero, GR_VI least, GR_VI turn) {
  __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i made = _mm512_packus_epi16(GR_ISA(gr_rounded_words)(x[0], x[1], zero, least),
                                     GR_ISA(gr_rounded_words)(x[2], x[3], zero, least));
  return (GR_VI)_mm512_permutexvar_epi32(order, made) ^ turn;
}

GR_ALWAYS void GR_ISA(gr_store_part)(uint8_t *to, GR_VI x, int j, int size) {
  __m512i from = (__m512i)x;
  if (size == 32) _mm256_storeu_si256((__m256i *)to, j ? _mm512_extracti64x4_epi64(from, 1) : _mm512_castsi512_si256(from));
  else if (j == 0) _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(from));
  else if (j == 1) _mm_storeu_si128((__m128i *)to, _mm512_extracti32x4_epi32(from, 1));
  else if (j == 2) _mm_storeu_si128((__m128i *)to, _mm512_extracti32x4_epi32(from, 2));
  else _mm_storeu_si128((__m128i *)to, _mm512_extracti32x4_epi32(from, 3));
}
#endif
#endif
#ifndef GR_PLAY_AVX512
/* GCC 12 makes __builtin_convertvector between bytes and int32 of 16 lanes lane by lane */
#define GR_ISA_LOWEST(x) _mm512_cvtepi32_epi8((__m512i)(x))
#define GR_ISA_WIDEN(x) ((GR_VI)_mm512_cvtepu8_epi32((__m128i)(x)))
#define GR_ISA_LOAD_BYTES(from, n) _mm_maskz_loadu_epi8(GR_ISA_FIRST(n), from)
#define GR_ISA_STORE_BYTES(to, x, n) _mm_mask_storeu_epi8(to, GR_ISA_FIRST(n), (__m128i)(x))
#endif
