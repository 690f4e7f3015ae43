/* avx512vnni.h: avx512.h with products of bytes (bytes.h); what is defined: any.h, and
 *
 * GR_ISA(gr_dot)(x, y, z)    z + the products of the 4 unsigned bytes of each lane of x and the signed ones of y
 *
 * Sums wrap, nothing saturates.
 */
#include "isa/avx512.h"
#undef GR_ISA
#define GR_ISA(name) name##_avx512vnni
#undef GR_ISA_TARGET
#define GR_ISA_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define GR_ISA_DOTS

#ifndef GR_ISA_AVX512VNNI_TYPES
#define GR_ISA_AVX512VNNI_TYPES
#include <immintrin.h>

GR_ALWAYS GR_VI GR_ISA(gr_dot)(GR_VI x, GR_VI y, GR_VI z) {
  return (GR_VI)_mm512_dpbusd_epi32((__m512i)z, (__m512i)x, (__m512i)y);
}
#endif
