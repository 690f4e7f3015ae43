/* exact.h: the numerics of a Tensix core to the last bit, a 32x32 tile at a time: unpack, matmul,
 * element-wise, spill, pack. Scalar on purpose: this is the oracle that the fast kernels are measured
 * against, and what `gr.numerics: exact` runs. docs/numerics.md says what is known to be equal to what.
 *
 * Tiles are row-major 32x32 arrays of float32 bits. Sources come from gr_exact_source or
 * gr_exact_unpack_tile; Dst starts as zeros (gr_exact_clear) and is packed by gr_exact_pack_tile, or by
 * gr_exact_packed where the caller packs words himself.
 *
 * Read by tt kernels and exact.c; static inline and without state, any thread.
 * defines: gr_exact_source, gr_exact_unpack_tile, gr_exact_clear, gr_exact_matmul_tile, gr_exact_elementwise,
 * gr_exact_packed, gr_exact_pack_tile, gr_exact_spill_tile
 */
#ifndef GR_EXACT_H
#define GR_EXACT_H

#include "exact_matrix.h"
#include "exact_pack.h"

/* ---------------------------------------------------------------- unpack */

/* A decoded element (float32 bits, as gr_tile_unpack or gr_tt_load give them) as it lies in SrcA or SrcB:
 * float32 is cut to tf32, the others fit as they are. */
static inline uint32_t gr_exact_source(uint8_t format, uint32_t word) {
  return format == GR_F32 ? word & 0xFFFFE000u : word;
}

/* float32 unpacked to a bf16 register: cut, denormals to zero of their sign. */
static inline uint32_t gr_exact_source_bf16(uint32_t word) {
  return word & (word & 0x7F800000u ? 0xFFFF0000u : 0x80000000u);
}

/* A tile's bytes (f32, bf16 or a block float) as sources[1024]. */
static inline void gr_exact_unpack_tile(uint8_t format, const void *tile, uint32_t *sources) {
  float values[GR_TILE_ELEMENTS];
  gr_tile_unpack(format, tile, values);
  for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i) sources[i] = gr_exact_source(format, gr_bits_of(values[i]));
}

/* ---------------------------------------------------------------- math */

/* ZEROACC: a cleared Dst reads as +0. */
static inline void gr_exact_clear(uint32_t *dst) { memset(dst, 0, GR_TILE_ELEMENTS * sizeof *dst); }

/* dst += in0 * in1, in0 in SrcB (7-bit side) and in1 in SrcA (5-bit side), as ttnn and Buda map a matmul:
 * the phases 0 .. phases-1 (1 LoFi .. 4 HiFi4) one after the other over the whole tile, K ascending by 16
 * within each. dst_bits 16 or 32. */
static inline void gr_exact_matmul_tile(uint32_t *dst, const uint32_t *in0, const uint32_t *in1,
                                        int32_t phases, int32_t dst_bits) {
  gr_exact_part b[GR_TILE_ELEMENTS], a[GR_TILE_ELEMENTS];      /* b[row][k], a[column][k] */
  for (int32_t phase = 0; phase < phases; ++phase) {
    for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i) {
      b[i] = gr_exact_split_b(in0[i], phase);
      a[i] = gr_exact_split_a(in1[i % 32 * 32 + i / 32], phase);
    }
    for (int32_t half = 0; half < 32; half += 16)
      for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i)
        dst[i] = gr_exact_dot16(b + i / 32 * 32 + half, a + i % 32 * 32 + half, phase, dst[i], dst_bits);
  }
}

enum gr_exact_op { GR_EXACT_ADD = 0, GR_EXACT_SUB = 1, GR_EXACT_MUL = 2 };

/* dst[n] += a op b of sources, a in SrcA and b in SrcB. Multiplication makes one pass a phase; addition and
 * subtraction know no fidelity. */
static inline void gr_exact_elementwise(int32_t op, uint32_t *dst, const uint32_t *a, const uint32_t *b,
                                        int64_t n, int32_t phases, int32_t dst_bits) {
  uint32_t turn = op == GR_EXACT_SUB ? 0x80000000u : 0u;
  for (int64_t i = 0; i < n; ++i) {
    if (op != GR_EXACT_MUL) {
      dst[i] = gr_exact_add(a[i], b[i] ^ turn, dst[i], dst_bits);
      continue;
    }
    for (int32_t phase = 0; phase < phases; ++phase)
      dst[i] = gr_exact_mul(a[i], b[i], phase, dst[i], dst_bits);
  }
}

/* ---------------------------------------------------------------- pack */

/* Value that the packer makes of one Dst value before a block's exponent is found, as float32 bits: for a caller that
 * packs by gr_tile_pack or gr_tt_store, which do the rest. */
static inline uint32_t gr_exact_packed(uint32_t dst, int32_t dst_bits) {
  return dst_bits == 16 ? (uint32_t)gr_bf16_pack(gr_float_of(dst)) << 16 : dst;
}

/* The bytes that the packer writes of dst[1024] as a tile of `format` (f32, bf16 or a block float), the
 * intermediate format being the widest that Dst has: float32 of 32 bits, bf16 of 16. */
static inline void gr_exact_pack_tile(uint8_t format, int32_t dst_bits, const uint32_t *dst, void *tile) {
  uint8_t wide = dst_bits == 16 || format == GR_BF16 ? GR_BF16 : GR_F32;
  gr_exact_pack_via(format, wide, dst_bits, dst, tile);
}

/* A K block's end without L1 accumulation: Dst packed to the intermediate format and loaded again. float32
 * goes back to a 32-bit Dst without a loss. */
static inline void gr_exact_spill_tile(uint8_t format, int32_t dst_bits, uint32_t *dst) {
  uint8_t tile[GR_TILE_ELEMENTS * 4];
  float values[GR_TILE_ELEMENTS];
  gr_exact_pack_tile(format, dst_bits, dst, tile);
  gr_tile_unpack(format, tile, values);
  memcpy(dst, values, sizeof values);
}

#endif
