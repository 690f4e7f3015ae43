/* exact_pack.h: the packer to the last bit: early conversion (Dst to the intermediate format), late
 * conversion (to the format in L1), block exponents, and accumulation in L1.
 *
 * Rounding is deterministic, to nearest, ties away from zero; ReLU, exponent thresholds and raw reads are
 * off. tile.h's packing is this with the widest intermediate format, and is used here.
 *
 * Read by exact.h; static inline and without state, any thread.
 * defines: gr_exact_early, gr_exact_pack_via, gr_exact_accumulate_f32, gr_exact_accumulate_bf16
 */
#ifndef GR_EXACT_PACK_H
#define GR_EXACT_PACK_H

#include "gr_oracle.h"
#include "tile.h"

/* ---------------------------------------------------------------- early and late conversion */

/* The bf16 bits of a Dst value as they reach the search of a block's exponent. */
static inline uint16_t gr_exact_early(uint8_t intermediate, int32_t dst_bits, uint32_t dst) {
  float x = gr_float_of(dst);
  uint32_t nan = (dst & 0x7FFFFFFFu) > 0x7F800000u;
  uint16_t value = dst_bits == 16 ? gr_bf16_pack(x) : gr_bf16_cut(x);
  if (intermediate != GR_ORACLE_BFP8) return value;
  if (nan) value = (uint16_t)(dst >> 31 << 15 | 0x7F80u);
  return (uint16_t)((value + 1u) & ~1u);
}

/* The bytes of dst[1024] (row-major) in L1 as a tile of `format` by way of `intermediate`: bf16 by bf16; f32
 * by f32 of a 32-bit Dst and by bf16 of a 16-bit one; block floats by the same or by GR_ORACLE_BFP8. */
static inline void gr_exact_pack_via(uint8_t format, uint8_t intermediate, int32_t dst_bits,
                                     const uint32_t *dst, void *tile) {
  for (int32_t r = 0; r < GR_TILE_DIM; ++r) {
    uint16_t values[GR_TILE_DIM];
    const uint32_t *row = dst + GR_TILE_DIM * r;
    for (int i = 0; i < GR_TILE_DIM; ++i)
      values[i] = format == GR_BF16 ? gr_bf16_pack(gr_float_of(row[i]))
                                    : gr_exact_early(intermediate, dst_bits, row[i]);
    for (int32_t h = 0; h < 2; ++h) {
      int32_t at = gr_tile_half_row(r, h);
      if (format == GR_BF16)
        memcpy((uint16_t *)tile + at, values + 16 * h, 32);
      else if (format != GR_F32)
        gr_tile_pack_block(format, values + 16 * h, (uint8_t *)tile, at);
      else
        for (int i = 0; i < 16; ++i)
          ((uint32_t *)tile)[at + i] = dst_bits == 16 ? (uint32_t)values[16 * h + i] << 16 : row[16 * h + i];
    }
  }
}

/* ---------------------------------------------------------------- accumulation in L1 */

static inline uint32_t gr_exact_flush(uint32_t x) { return x & 0x7F800000u ? x : x & 0x80000000u; }

/* L1 after the packer has added x to float32 `l1`: IEEE, to nearest even; denormals count and come out as zero of their
 * sign, every NaN is 0x7FC00000. */
static inline uint32_t gr_exact_accumulate_f32(uint32_t l1, uint32_t x) {
  uint32_t sum = gr_bits_of(gr_float_of(gr_exact_flush(l1)) + gr_float_of(gr_exact_flush(x)));
  return (sum & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : gr_exact_flush(sum);
}

/* The same in bf16: the sum to nearest even (a float32 holds every bit that can decide it). A NaN in L1
 * counts as a huge finite number of its sign; x has come through the packer and is none. */
static inline uint16_t gr_exact_accumulate_bf16(uint16_t l1, uint16_t x) {
  uint32_t a = gr_exact_flush((uint32_t)l1 << 16), b = gr_exact_flush((uint32_t)x << 16);
  if ((a & 0x7FFFFFFFu) > 0x7F800000u)
    return (uint16_t)((b & 0x7FFFFFFFu) == 0x7F800000u ? b >> 16 : (a & 0x80000000u) >> 16 | 0x7F80u);
  float sum = gr_float_of(a) + gr_float_of(b);
  if (sum != sum) return 0x7FC0u;
  return (uint16_t)(gr_exact_flush((uint32_t)gr_bf16_encode(sum) << 16) >> 16);
}

#endif
