/* avx512vnni.h: avx512.h with products of bytes (bytes.h); what is defined: any.h, and
 *
 * GR_ISA(gr_dot)(x, y, z)    z + the products of the 4 unsigned bytes of each lane of x and the signed ones of y
 *
 * Sums wrap, nothing saturates.
 */
#include "isa/avx512.h"
#undef GR_ISA
#define GR_ISA(name) name##_avx512vnni
#ifndef GR_PLAY_AVX512
#undef GR_ISA_TARGET
#define GR_ISA_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#endif
#define GR_ISA_DOTS

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
#else
#include <immintrin.h>

GR_ALWAYS GR_VI GR_ISA(gr_dot)(GR_VI x, GR_VI y, GR_VI z) {
  return (GR_VI)_mm512_dpbusd_epi32((__m512i)z, (__m512i)x, (__m512i)y);
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
