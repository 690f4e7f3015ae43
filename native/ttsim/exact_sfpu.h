/* exact_sfpu.h: Wormhole B0's vector unit to the last bit: MAD (and with it add, x = 1, and multiply, z = 0),
 * rounding to bf16 and the store to a 16-bit Dst.
 *
 * Not IEEE: a product keeps 3 bits below its float32 place, denormals are zero, no -0 comes out of a sum, and
 * NaNs carry what the sum happened to be. Values are the bits of float32.
 *
 * Read by exact.c; static inline and without state, any thread.
 * defines: gr_exact_mad, gr_exact_round16, gr_exact_store16
 */
#ifndef GR_EXACT_SFPU_H
#define GR_EXACT_SFPU_H

#include <stdint.h>

#include "formats.h"

/* (-1)^sign * magnitude * 2^(exponent - 127 - 26): 24 bits and 3 guard bits; a product may have one more. */
typedef struct gr_exact_wide {
  uint32_t sign, magnitude;
  int32_t exponent;
} gr_exact_wide;

static inline uint32_t gr_exact_is_nan(uint32_t x) { return (x & 0x7FFFFFFFu) > 0x7F800000u; }

static inline uint32_t gr_exact_is_inf(uint32_t x) { return (x & 0x7FFFFFFFu) == 0x7F800000u; }

static inline uint32_t gr_exact_is_zero(uint32_t x) { return (x & 0x7F800000u) == 0; }

static inline uint32_t gr_exact_mantissa(uint32_t x) {
  return gr_exact_is_zero(x) ? 0u : 0x800000u | (x & 0x7FFFFFu);
}

static inline int32_t gr_exact_exponent(uint32_t x) { return (int32_t)(x >> 23 & 0xFFu); }

/* Shifts right, the lost bits ORed into the last one unless all are lost: then 0. */
static inline uint32_t gr_exact_sticky(uint32_t x, int32_t shift) {
  if (shift >= 32 || x >> shift == 0) return 0;
  return x >> shift | ((x & ((1u << shift) - 1u)) != 0);
}

/* The sum as a finite float32, to nearest even; +0 below the smallest normal, +-Inf above the largest. */
static inline uint32_t gr_exact_wide_sum(gr_exact_wide p, gr_exact_wide z) {
  int32_t most = p.exponent > z.exponent ? p.exponent : z.exponent;
  uint32_t a = gr_exact_sticky(p.magnitude, most - p.exponent);
  uint32_t b = gr_exact_sticky(z.magnitude, most - z.exponent), sign = a >= b ? p.sign : z.sign;
  uint32_t sum = p.sign == z.sign ? a + b : a > b ? a - b : b - a;
  if (sum == 0) return 0;
  int32_t shift = __builtin_clz(sum) - 5;
  sum = shift >= 0 ? sum << shift : sum >> -shift | (sum & 1u);   /* of lost bits only the last one counts */
  most -= shift;
  if (most < 0) return 0;
  uint32_t rounded = (sum + 3u + (sum >> 3 & 1u)) >> 3;
  if (rounded >> 24) {
    rounded >>= 1;
    most += 1;
  }
  if (most == 0) return 0;
  if (most >= 255) return sign << 31 | 0x7F800000u;
  return sign << 31 | (uint32_t)most << 23 | (rounded & 0x7FFFFFu);
}

/* x * y + z */
static inline uint32_t gr_exact_mad(uint32_t x, uint32_t y, uint32_t z) {
  uint64_t product = (uint64_t)gr_exact_mantissa(x) * gr_exact_mantissa(y);
  int32_t exponent = gr_exact_exponent(x) + gr_exact_exponent(y) - 127;
  uint32_t sign = (x ^ y) >> 31, nothing = product == 0 || exponent < 0, sum;
  if (nothing) {
    sum = gr_exact_is_zero(z) ? 0u : z;
  } else {
    gr_exact_wide p = {sign, (uint32_t)(product >> 20) | ((product & 0xFFFFFu) != 0),
                       exponent > 255 ? 255 : exponent};
    sum = gr_exact_wide_sum(p, (gr_exact_wide){z >> 31, gr_exact_mantissa(z) << 3, gr_exact_exponent(z)});
  }
  uint32_t infinite = gr_exact_is_inf(x) || gr_exact_is_inf(y);
  uint32_t bad = gr_exact_is_nan(x) || gr_exact_is_nan(y) || (infinite && product == 0);
  infinite = infinite || (!nothing && exponent >= 255);
  if (bad || gr_exact_is_nan(z) || (infinite && gr_exact_is_inf(z) && sign != z >> 31)) {
    uint32_t of = !bad && gr_exact_is_nan(z) ? z >> 31 : sign;
    uint32_t leaked = gr_exact_exponent(sum) == 255 ? 0u : sum & 0x7FFFFFu;
    return of << 31 | 0x7F800000u | leaked | 1u;
  }
  if (infinite) return sign << 31 | 0x7F800000u;
  return gr_exact_is_inf(z) ? z : sum;
}

/* Rounding to bf16 in the nearest mode: as the packer's, but denormals are zero before it. */
static inline uint16_t gr_exact_round16(uint32_t x) {
  return gr_exact_is_zero(x) ? 0u : gr_bf16_pack(gr_float_of(x));
}

/* A plain store to a 16-bit Dst as bf16: cut; denormals become zero of their sign. */
static inline uint16_t gr_exact_store16(uint32_t x) {
  return (uint16_t)((gr_exact_is_zero(x) ? x & 0x80000000u : x) >> 16);
}

#endif
