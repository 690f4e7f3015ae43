/* exact_matrix.h: the matrix unit of Wormhole B0 to the last bit: MVMUL, ELWMUL, ELWADD, ELWSUB and the join
 * that adds their results to Dst.
 *
 * Operands are the 19-bit SrcA and SrcB registers as the bits of a float32 (sign, 8 exponent bits, 10
 * mantissa bits; the low 13 bits are 0). Dst is the bits of a float32; in 16-bit mode the low 16 bits are 0.
 * Exponent 0 is zero whatever its mantissa, exponent 255 one more binade: no NaN comes out and an Inf in Dst
 * does not stick. The rules are those of a public simulator (docs/numerics.md), not measured on silicon.
 *
 * Read by exact.h; static inline and without state, any thread.
 * defines: gr_exact_part, gr_exact_split_a, gr_exact_split_b, gr_exact_dot16, gr_exact_mul, gr_exact_add
 */
#ifndef GR_EXACT_MATRIX_H
#define GR_EXACT_MATRIX_H

#include <stdint.h>

#define GR_EXACT_MOST_PHASES 4

/* ---------------------------------------------------------------- operands of one phase */

/* The integer that a phase takes of an operand, with its sign, and the operand's exponent field. */
typedef struct gr_exact_part {
  int32_t value, exponent;
} gr_exact_part;

/* A zero operand's exponent: so low that no product with it is ever a group's largest. */
#define GR_EXACT_ZERO_EXPONENT (-1024)

static inline gr_exact_part gr_exact_part_of(uint32_t reg, uint32_t magnitude) {
  int32_t exponent = (int32_t)(reg >> 23 & 0xFFu), value = (int32_t)magnitude;
  if (exponent == 0) return (gr_exact_part){0, GR_EXACT_ZERO_EXPONENT};
  return (gr_exact_part){reg >> 31 ? -value : value, exponent};
}

/* SrcA, 5 bits: phases 0 and 2 take the hidden bit and man[9:6], 1 and 3 man[5:1]; bit 0 is never used. */
static inline gr_exact_part gr_exact_split_a(uint32_t reg, int32_t phase) {
  uint32_t mantissa = reg >> 13 & 0x3FFu;
  return gr_exact_part_of(reg, phase & 1 ? mantissa >> 1 & 0x1Fu : 0x10u | mantissa >> 6);
}

/* SrcB, 7 bits: phases 0 and 1 take the hidden bit and man[9:4], 2 and 3 man[3:0] at the top of the field. */
static inline gr_exact_part gr_exact_split_b(uint32_t reg, int32_t phase) {
  uint32_t mantissa = reg >> 13 & 0x3FFu;
  return gr_exact_part_of(reg, phase & 2 ? (mantissa & 0xFu) << 3 : 0x40u | mantissa >> 4);
}

/* Exponent that a phase adds to its products. */
static inline int32_t gr_exact_adjust(int32_t phase) {
  return (phase & 1 ? -5 : 0) + (phase & 2 ? -7 : 0);
}

/* ---------------------------------------------------------------- the join with Dst */

/* A summand: (-1)^sign * magnitude * 2^(exponent - 127 - 23). */
typedef struct gr_exact_term {
  int32_t exponent;
  uint32_t magnitude, sign;
} gr_exact_term;

/* Shifts a magnitude right to a larger exponent, half up; `down` is 1 where a tie shall go down. */
static inline uint32_t gr_exact_align(uint32_t magnitude, int32_t shift, uint32_t down) {
  if (shift == 0) return magnitude;
  if (shift >= 31) return 0;
  return (magnitude + (1u << (shift - 1)) - down) >> shift;
}

/* (-1)^sign * magnitude * 2^(exponent - 127 - 23) as the bits that Dst keeps. No denormal and no -0 come
 * out; overflow is Inf. */
static inline uint32_t gr_exact_to_dst(uint32_t sign, uint32_t magnitude, int32_t exponent,
                                       int32_t dst_bits) {
  if (magnitude == 0) return 0;
  int32_t shift = __builtin_clz(magnitude) - 8;
  if (sign && magnitude == 1) {
    exponent += 4;      /* Wormhole's bug: a rest of minus one last place is normalised the wrong way */
    magnitude = 0x800000u;
  } else {
    exponent -= shift;
    magnitude = shift >= 0 ? magnitude << shift : gr_exact_align(magnitude, -shift, 0);
  }
  if (dst_bits == 16) magnitude = (magnitude + 0x8000u) & ~0xFFFFu;
  if (magnitude >> 24) {
    magnitude >>= 1;
    exponent += 1;
  }
  if (exponent <= 0) return 0;
  if (exponent >= 255) return sign << 31 | 0x7F800000u;
  return sign << 31 | (uint32_t)exponent << 23 | (magnitude & 0x7FFFFFu);
}

/* Dst plus two summands: aligned to the largest exponent, each rounded, then added. Ties of the summands go
 * up (a negative magnitude rounds them down), ties of Dst away from zero. */
static inline uint32_t gr_exact_join(gr_exact_term x, gr_exact_term y, uint32_t dst, int32_t dst_bits) {
  int32_t exponent = (int32_t)(dst >> 23 & 0xFFu);
  uint32_t mantissa = exponent ? 0x800000u | (dst & 0x7FFFFFu) : 0u, sign = dst >> 31;
  int32_t most = exponent > x.exponent ? exponent : x.exponent;
  most = most > y.exponent ? most : y.exponent;
  if (most <= 0) return 0;
  x.magnitude = gr_exact_align(x.magnitude, most - x.exponent, x.sign);
  y.magnitude = gr_exact_align(y.magnitude, most - y.exponent, y.sign);
  mantissa = gr_exact_align(mantissa, most - exponent, 0);
  if (dst_bits == 16) {
    x.magnitude = (x.magnitude + 4096u - x.sign) & ~8191u;
    y.magnitude = (y.magnitude + 4096u - y.sign) & ~8191u;
    mantissa = (mantissa + 4096u) & ~8191u;
  }
  int32_t sum = (int32_t)(x.sign ? 0u - x.magnitude : x.magnitude);
  sum += (int32_t)(y.sign ? 0u - y.magnitude : y.magnitude);
  sum += (int32_t)(sign ? 0u - mantissa : mantissa);
  return gr_exact_to_dst(sum < 0, sum < 0 ? 0u - (uint32_t)sum : (uint32_t)sum, most, dst_bits);
}

/* ---------------------------------------------------------------- MVMUL */

/* Eight products, rounded to the largest exponent among them and added. Products with a part that is 0 take
 * part in the maximum. */
static inline gr_exact_term gr_exact_group(const gr_exact_part *b, const gr_exact_part *a, int32_t bias) {
  int32_t exponents[8], most = b[0].exponent + a[0].exponent, sum = 0;
  for (int i = 0; i < 8; ++i) {
    exponents[i] = b[i].exponent + a[i].exponent;
    most = exponents[i] > most ? exponents[i] : most;
  }
  if (most + bias <= 0) return (gr_exact_term){0, 0, 0};
  for (int i = 0; i < 8; ++i) {
    int32_t product = b[i].value * a[i].value, away = most - exponents[i];
    away = away > 30 ? 30 : away;
    sum += (2 * product + (1 << away) - (product < 0)) >> (away + 1);   /* to nearest, ties away from zero */
  }
  return (gr_exact_term){most + bias, (uint32_t)(sum < 0 ? -sum : sum) << 13, sum < 0};
}

/* One element of an MVMUL: 16 products of a phase's parts, in two groups of 8 of K, added to Dst. */
static inline uint32_t gr_exact_dot16(const gr_exact_part *b, const gr_exact_part *a, int32_t phase,
                                      uint32_t dst, int32_t dst_bits) {
  int32_t bias = gr_exact_adjust(phase) - 127;
  return gr_exact_join(gr_exact_group(b, a, bias), gr_exact_group(b + 8, a + 8, bias), dst, dst_bits);
}

/* ---------------------------------------------------------------- element-wise */

/* One phase of ELWMUL: dst + a * b. */
static inline uint32_t gr_exact_mul(uint32_t a, uint32_t b, int32_t phase, uint32_t dst, int32_t dst_bits) {
  gr_exact_part pa = gr_exact_split_a(a, phase), pb = gr_exact_split_b(b, phase);
  gr_exact_term none = {0, 0, 0}, term = none;
  int32_t product = pa.value * pb.value, exponent = pa.exponent + pb.exponent - 127 + gr_exact_adjust(phase);
  if (exponent > 0)
    term = (gr_exact_term){exponent, (uint32_t)(product < 0 ? -product : product) << 13, product < 0};
  return gr_exact_join(term, none, dst, dst_bits);
}

/* ELWADD, or ELWSUB with the sign of b turned: dst + (a + b), where the smaller operand is rounded half up
 * to the 11 bits of the larger. */
static inline uint32_t gr_exact_add(uint32_t a, uint32_t b, uint32_t dst, int32_t dst_bits) {
  uint32_t large = a & 0x7FFFFFFFu, small = b & 0x7FFFFFFFu, large_sign = a >> 31, small_sign = b >> 31;
  if (small > large) {
    large = b & 0x7FFFFFFFu;
    small = a & 0x7FFFFFFFu;
    large_sign = b >> 31;
    small_sign = a >> 31;
  }
  int32_t exponent = (int32_t)(large >> 23), shift = exponent - (int32_t)(small >> 23);
  uint32_t x = large >> 23 ? 0x400u | (large >> 13 & 0x3FFu) : 0u;
  uint32_t y = small >> 23 ? 0x400u | (small >> 13 & 0x3FFu) : 0u;
  y = shift >= 12 ? 0u : gr_exact_align(y, shift, 0);
  uint32_t sum = large_sign == small_sign ? x + y : x - y;
  gr_exact_term none = {0, 0, 0}, term = {exponent, sum << 13, sum ? large_sign : 0u};
  return gr_exact_join(term, none, dst, dst_bits);
}

#endif
