/* sfpu.h: the vector unit (SFPU) of a Tensix core as scalar functions of one lane, to the last bit: what its
 * instructions make of float32 registers, and what a store to a 16-bit Dst keeps.
 *
 * A kernel of ttnn is a chain of these (sfpu_blocks.h and what reads it). Comparisons with 0 look at the sign bit, as
 * SFPSETCC does: -0 is below 0, and only +0 equals 0; those of two numbers look at their difference. Sources: pages
 * SFPMAD, SFPSETCC, SFPSWAP, SFPCAST, SFPSHFT, SFPSTOCHRND, SFPSTORE of tenstorrent/tt-isa-documentation, WormholeB0.
 *
 * Included by: sfpu_blocks.h. Static inline and without state, any thread.
 * defines: gr_sfpu, gr_sfpu_{mad add sub mul below at_least above at_most equal min max clamp exponent mantissa
 * with_exponent with_mantissa with_sign absolute negative scaled shift cast rounded round even stored result horner}
 */
#ifndef GR_TT_SFPU_H
#define GR_TT_SFPU_H

#include <stdint.h>

#include "exact_sfpu.h"

/* The width of Dst that a kernel was built for: 32 bits, or 16. */
typedef struct gr_sfpu {
  int wide;
} gr_sfpu;

/* ---------------------------------------------------------------- arithmetic */

static inline float gr_sfpu_mad(float x, float y, float z) {
  return gr_float_of(gr_exact_mad(gr_bits_of(x), gr_bits_of(y), gr_bits_of(z)));
}

static inline float gr_sfpu_negative(float x) { return gr_float_of(gr_bits_of(x) ^ 0x80000000u); }

static inline float gr_sfpu_add(float x, float y) { return gr_sfpu_mad(x, 1.0f, y); }

/* y times -1, onto x: what a NaN's sign comes from. */
static inline float gr_sfpu_sub(float x, float y) { return gr_sfpu_mad(y, -1.0f, x); }

static inline float gr_sfpu_mul(float x, float y) { return gr_sfpu_mad(x, y, 0.0f); }

/* c[0] + x (c[1] + ... + x c[n - 1]) */
static inline float gr_sfpu_horner(float x, const float *c, int n) {
  float sum = c[n - 1];
  for (int k = n - 2; k >= 0; --k) sum = gr_sfpu_mad(sum, x, c[k]);
  return sum;
}

#define GR_SFPU_POLYNOMIAL(x, ...) \
  gr_sfpu_horner(x, (const float[]){__VA_ARGS__}, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

/* ---------------------------------------------------------------- conditions */

static inline int gr_sfpu_is_negative(float x) { return (int)(gr_bits_of(x) >> 31); }

static inline int gr_sfpu_is_zero(float x) { return gr_bits_of(x) == 0; }

static inline int gr_sfpu_below(float x, float y) { return gr_sfpu_is_negative(gr_sfpu_sub(x, y)); }

static inline int gr_sfpu_equal(float x, float y) { return gr_sfpu_is_zero(gr_sfpu_sub(x, y)); }

static inline int gr_sfpu_at_least(float x, float y) { return !gr_sfpu_below(x, y); }

static inline int gr_sfpu_at_most(float x, float y) { return gr_sfpu_below(x, y) || gr_sfpu_equal(x, y); }

static inline int gr_sfpu_above(float x, float y) { return !gr_sfpu_at_most(x, y); }

/* SFPSWAP's order: -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN. */
static inline int32_t gr_sfpu_rank(float x) {
  int32_t bits = (int32_t)gr_bits_of(x);
  return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
}

static inline float gr_sfpu_min(float x, float y) { return gr_sfpu_rank(y) < gr_sfpu_rank(x) ? y : x; }

static inline float gr_sfpu_max(float x, float y) { return gr_sfpu_rank(x) < gr_sfpu_rank(y) ? y : x; }

static inline float gr_sfpu_clamp(float x, float low, float high) {
  return gr_sfpu_min(gr_sfpu_max(x, low), high);
}

/* ---------------------------------------------------------------- fields */

static inline int32_t gr_sfpu_exponent(float x) { return gr_exact_exponent(gr_bits_of(x)); } /* biased by 127 */

static inline uint32_t gr_sfpu_mantissa(float x) { return gr_bits_of(x) & 0x7FFFFFu; }

static inline float gr_sfpu_with_exponent(float x, int32_t biased) {
  return gr_float_of((gr_bits_of(x) & 0x807FFFFFu) | ((uint32_t)biased & 0xFFu) << 23);
}

static inline float gr_sfpu_with_mantissa(float x, uint32_t mantissa) {
  return gr_float_of((gr_bits_of(x) & 0xFF800000u) | (mantissa & 0x7FFFFFu));
}

static inline float gr_sfpu_with_sign(float x, float of) {
  return gr_float_of((gr_bits_of(x) & 0x7FFFFFFFu) | (gr_bits_of(of) & 0x80000000u));
}

static inline float gr_sfpu_absolute(float x) { return gr_float_of(gr_bits_of(x) & 0x7FFFFFFFu); }

/* x 2^by by its exponent's field; a number with exponent 0 stays. SFPDIVP2 */
static inline float gr_sfpu_scaled(float x, int32_t by) {
  int32_t exponent = gr_sfpu_exponent(x);
  return exponent == 0 ? x : gr_sfpu_with_exponent(x, exponent + by);
}

/* ---------------------------------------------------------------- integers */

static inline uint32_t gr_sfpu_shift(uint32_t x, int32_t by) {
  return by >= 0 ? x << (by & 31) : x >> (-by & 31);
}

/* Sign and magnitude to the nearest float, ties to even. */
static inline float gr_sfpu_cast(uint32_t sign, uint32_t magnitude) {
  return gr_float_of(gr_bits_of((float)magnitude) | sign << 31);
}

/* |x| to the nearest integer, ties away from 0, at most `most`; what is below 1/2 is 0. */
static inline uint32_t gr_sfpu_rounded(float x, uint32_t most) {
  int32_t exponent = gr_sfpu_exponent(x) - 127;
  if (exponent < -1) return 0;
  if (exponent >= 16) return most;
  uint64_t whole = (uint64_t)(0x800000u | gr_sfpu_mantissa(x));
  whole = exponent >= 0 ? whole << exponent : whole >> -exponent;
  uint32_t nearest = (uint32_t)(whole >> 23) + ((whole & 0x7FFFFFu) >= 0x400000u);
  return nearest > most ? most : nearest;
}

/* ---------------------------------------------------------------- stores */

/* Rounded to the nearest bf16, ties away from 0; NaN becomes infinite, denormals +0. */
static inline float gr_sfpu_bf16(float x) {
  uint32_t bits = gr_bits_of(x);
  if (gr_exact_is_zero(bits)) return 0.0f;
  if (gr_exact_exponent(bits) == 255) return gr_float_of(bits & 0xFF800000u);
  return gr_float_of((bits + 0x8000u) & 0xFFFF0000u);
}

/* Before a store to a 16-bit Dst, which cuts. */
static inline float gr_sfpu_round(float x, gr_sfpu m) { return m.wide ? x : gr_sfpu_bf16(x); }

/* As a kernel does it by integers: to the nearest bf16, ties to even. */
static inline float gr_sfpu_even(float x, gr_sfpu m) {
  uint32_t bits = gr_bits_of(x);
  return m.wide ? x : gr_float_of((bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u);
}

/* Value of a register in Dst: truncated in 16 bits. */
static inline float gr_sfpu_stored(float x, gr_sfpu m) {
  uint32_t bits = gr_bits_of(x);
  if (gr_exact_is_zero(bits)) return gr_float_of(bits & 0x80000000u);
  if (m.wide) return x;
  return gr_float_of(gr_exact_is_nan(bits) ? bits & 0xFF800000u : bits & 0xFFFF0000u);
}

/* Value of a register after Dst and the packer: 0 has no sign, and in 16 bits a NaN is infinite. */
static inline float gr_sfpu_result(float x, gr_sfpu m) {
  x = gr_sfpu_stored(x, m);
  return gr_exact_is_zero(gr_bits_of(x)) ? 0.0f : x;
}

#endif
