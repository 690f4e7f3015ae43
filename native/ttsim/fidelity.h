/* fidelity.h: the passes that a fidelity makes of one matrix product, for the fast kernels.
 *
 * The multiplier takes 5 bits of SrcA (in1 of a product) and 7 of SrcB (in0). An operand is cut into what the
 * first phase sees (HIGH) and the rest (LOW); a pass is a product of parts, summed in float32. With a 32-bit
 * Dst, passes that differ in one operand's part only are one pass over the sum of those parts: sums are the
 * same up to float32 rounding. With a 16-bit Dst each phase rounds Dst of its own, so each is a pass.
 * Products of parts are exact in float32 and denormal operands are zero. What differs from the
 * hardware (exact.h): the 16 products of a step are summed in float32 without aligning them to the largest,
 * and exponent 255 is Inf or NaN.
 *
 * Read by tt kernels; static inline and without state, any thread.
 * defines: gr_part, gr_side, gr_part_take, gr_passes, gr_passes_of, gr_dst16_round
 */
#ifndef GR_FIDELITY_H
#define GR_FIDELITY_H

#include "formats.h"

/* ---------------------------------------------------------------- parts of operands */

enum gr_part { GR_PART_RAW, GR_PART_FULL, GR_PART_HIGH, GR_PART_LOW };

enum gr_side { GR_SRC_A = 0, GR_SRC_B = 1 };

/* The bits of x that a part keeps. A register has 10 bits of mantissa, of which SrcA's last is never used;
 * HIGH keeps 4 (SrcA) or 6 (SrcB) and the hidden bit. */
static inline float gr_part_take(int part, int side, float x) {
  uint32_t bits = gr_bits_of(x), high = side == GR_SRC_A ? 0xFFF80000u : 0xFFFE0000u;
  uint32_t full = bits & (side == GR_SRC_A ? 0xFFFFC000u : 0xFFFFE000u);
  full = bits & 0x7F800000u ? full : 0u;
  if (part == GR_PART_FULL) return gr_float_of(full);
  if (part == GR_PART_HIGH) return gr_float_of(full & high);
  return part == GR_PART_LOW ? gr_float_of(full) - gr_float_of(full & high) : x;
}

/* ---------------------------------------------------------------- passes */

typedef struct gr_passes {
  int32_t count;
  int32_t parts[2];          /* [side]: parts that an operand is kept in, 1 or 2 */
  uint8_t part[2][2];        /* [side][index]: enum gr_part */
  uint8_t use[2][4];         /* [side][pass]: index into part */
} gr_passes;

static inline gr_passes gr_passes_of(int64_t phases, int64_t dst_bits) {
  static const gr_passes wide[] = {
    {1, {1, 1}, {{GR_PART_RAW}, {GR_PART_RAW}}, {{0}, {0}}},
    {1, {1, 1}, {{GR_PART_HIGH}, {GR_PART_HIGH}}, {{0}, {0}}},
    {1, {1, 1}, {{GR_PART_FULL}, {GR_PART_HIGH}}, {{0}, {0}}},
    {2, {2, 2}, {{GR_PART_FULL, GR_PART_HIGH}, {GR_PART_HIGH, GR_PART_LOW}}, {{0, 1}, {0, 1}}},
    {1, {1, 1}, {{GR_PART_FULL}, {GR_PART_FULL}}, {{0}, {0}}},
  };
  static const gr_passes narrow = {
    4, {2, 2}, {{GR_PART_HIGH, GR_PART_LOW}, {GR_PART_HIGH, GR_PART_LOW}}, {{0, 1, 0, 1}, {0, 0, 1, 1}}};
  phases = phases < 0 ? 0 : phases > 4 ? 4 : phases;
  if (dst_bits != 16) return wide[phases];
  gr_passes p = narrow;
  p.count = (int32_t)phases;
  p.parts[GR_SRC_A] = phases > 1 ? 2 : 1;
  p.parts[GR_SRC_B] = phases > 2 ? 2 : 1;
  return p;
}

/* ---------------------------------------------------------------- Dst */

/* A float32 sum as a 16-bit Dst keeps it: to nearest, ties away from zero, denormals to +0. */
static inline float gr_dst16_round(float x) {
  uint32_t bits = (gr_bits_of(x) + 0x8000u) & 0xFFFF0000u;
  return gr_float_of(bits & 0x7F800000u ? bits : 0u);
}

#endif
