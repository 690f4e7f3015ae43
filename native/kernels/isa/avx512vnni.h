/* avx512vnni.h: avx512.h with products of bytes (bytes.h); what is defined: any.h, and
 *
 * GR_ISA(gr_dot)(x, y, z)    z + the products of the 4 unsigned bytes of each lane of x and the signed ones of y
 * GR_ISA(gr_four)(x, zero, least, turn)    four vectors of numbers below 2^15, rounded, as bytes one behind the other:
 *                            + zero, no less than least, both in 16 bits; ^ turn. A NaN is the least
 * GR_ISA(gr_in_turn)(x, zero, least, turn)    the same, four bytes of each vector in turn
 * GR_ISA(gr_weave)(x, to)    bytes i of four vectors of 64 become lane i % 4 + i / 16 * 4 of to[i / 4 % 4], as
 *                            gr_in_turn brings them back
 * GR_ISA(gr_load_part)(from, n), GR_ISA(gr_store_first)(to, x, n)    the first n bytes of a vector, n <= 64
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

GR_PLAYED uint8_t GR_ISA(gr_byte_of)(float x, int zero, int least, int turn) {
  int all = (x > -32768.0f ? (int)__builtin_rintf(x) : -32768) + zero;
  return (uint8_t)((all > least ? all : least) ^ (turn & 0xff));
}

GR_PLAYED GR_VI GR_ISA(gr_four)(const GR_V *x, GR_VI zero, GR_VI least, GR_VI turn) {
  gr_unsigned_avx512vnni made;
  for (int i = 0; i < 64; ++i)
    made[i] = GR_ISA(gr_byte_of)(x[i / 16][i % 16], (int16_t)zero[0], (int16_t)least[0], turn[0]);
  return (GR_VI)made;
}

GR_PLAYED GR_VI GR_ISA(gr_in_turn)(const GR_V *x, GR_VI zero, GR_VI least, GR_VI turn) {
  gr_unsigned_avx512vnni made;
  for (int i = 0; i < 64; ++i)
    made[i] = GR_ISA(gr_byte_of)(x[i / 4 % 4][i % 4 + i / 16 * 4], (int16_t)zero[0], (int16_t)least[0], turn[0]);
  return (GR_VI)made;
}

GR_PLAYED void GR_ISA(gr_weave)(const GR_VI *x, GR_VI *to) {
  uint8_t made[4][64];
  for (int i = 0; i < 64; ++i)
    for (int t = 0; t < 4; ++t) made[i / 4 % 4][4 * (i % 4 + i / 16 * 4) + t] = ((const uint8_t *)&x[t])[i];
  memcpy(to, made, sizeof made);
}

GR_PLAYED GR_VI GR_ISA(gr_load_part)(const uint8_t *from, int64_t n) {
  GR_VI made = {0};
  memcpy(&made, from, (size_t)n);
  return made;
}

GR_PLAYED void GR_ISA(gr_store_first)(uint8_t *to, GR_VI x, int64_t n) { memcpy(to, &x, (size_t)n); }

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

GR_ALWAYS GR_VI GR_ISA(gr_in_turn)(const GR_V *x, GR_VI zero, GR_VI least, GR_VI turn) {
  __m512i made = _mm512_packus_epi16(GR_ISA(gr_rounded_words)(x[0], x[1], zero, least),
                                     GR_ISA(gr_rounded_words)(x[2], x[3], zero, least));
  return (GR_VI)made ^ turn;
}

GR_ALWAYS GR_VI GR_ISA(gr_four)(const GR_V *x, GR_VI zero, GR_VI least, GR_VI turn) {
  __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return (GR_VI)_mm512_permutexvar_epi32(order, (__m512i)GR_ISA(gr_in_turn)(x, zero, least, turn));
}

GR_ALWAYS void GR_ISA(gr_weave)(const GR_VI *x, GR_VI *to) {
  __m512i a = (__m512i)x[0], b = (__m512i)x[1], c = (__m512i)x[2], d = (__m512i)x[3];
  __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
  __m512i more = _mm512_unpacklo_epi8(c, d), most = _mm512_unpackhi_epi8(c, d);
  to[0] = (GR_VI)_mm512_unpacklo_epi16(low, more);
  to[1] = (GR_VI)_mm512_unpackhi_epi16(low, more);
  to[2] = (GR_VI)_mm512_unpacklo_epi16(high, most);
  to[3] = (GR_VI)_mm512_unpackhi_epi16(high, most);
}

GR_ALWAYS GR_VI GR_ISA(gr_load_part)(const uint8_t *from, int64_t n) {
  return (GR_VI)_mm512_maskz_loadu_epi8(~0ull >> (64 - n), from);
}

GR_ALWAYS void GR_ISA(gr_store_first)(uint8_t *to, GR_VI x, int64_t n) {
  _mm512_mask_storeu_epi8(to, ~0ull >> (64 - n), (__m512i)x);
}

GR_ALWAYS void GR_ISA(gr_store_part)(uint8_t *to, GR_VI x, int j, int size) {
  __m512i from = (__m512i)x;
  if (size == 32 && j == 0) _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(from));
  else if (size == 32) _mm256_storeu_si256((__m256i *)to, _mm512_extracti64x4_epi64(from, 1));
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
