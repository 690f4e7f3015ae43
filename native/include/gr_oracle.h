/* gr_oracle.h: the exact numerics of a simulated core, one stage at a time, for graph_runtime/run/oracle.py: tests
 * compare it with recorded bits, users learn from it what the machine does to a value.
 *
 * Arrays are row-major and hold the bits of float32, uint32 each: source registers with their low 13 bits 0, Dst of 16
 * bits with its low 16 bits 0. A gr_status is returned; GR_ERR_ARGUMENT for a format, phase or mode that does not
 * exist.
 *
 * defines: gr_oracle_*
 */
#ifndef GR_ORACLE_H
#define GR_ORACLE_H

#include "gr_abi.h"

/* cdef-begin */
/* Formats of the machine that no tensor has. */
enum gr_oracle_format {
  GR_ORACLE_BFP8 = 97,     /* intermediate of the packer: 8 exponent and 6 mantissa bits */
  GR_ORACLE_TF32 = 98      /* register: 8 exponent and 10 mantissa bits */
};

/* One tile in L1 -> source[32][32]. reg: GR_ORACLE_TF32, or GR_BF16, which only float32 tells apart. */
int32_t gr_oracle_unpack(int32_t format, int32_t reg, const void *tile, uint32_t *source);

/* One instruction: dst[8][16] += srcb[8][16] * srca[16][16], phase 0..3. */
int32_t gr_oracle_mvmul(const uint32_t *srcb, const uint32_t *srca, int32_t phase, int32_t dst_bits,
                        uint32_t *dst);

/* dst[32][32] += in0[32][32 * tiles] * in1[32 * tiles][32], in0 in SrcB and in1 in SrcA, phases 1..4. */
int32_t gr_oracle_matmul(const uint32_t *in0, const uint32_t *in1, int64_t tiles, int32_t phases,
                         int32_t dst_bits, uint32_t *dst);

/* dst[n] += a op b, a in SrcA; op 0 add, 1 subtract, 2 multiply. */
int32_t gr_oracle_elementwise(int32_t op, const uint32_t *a, const uint32_t *b, int64_t n, int32_t phases,
                              int32_t dst_bits, uint32_t *dst);

/* dst[32][32] -> one tile in L1 by way of an intermediate format. */
int32_t gr_oracle_pack(int32_t format, int32_t intermediate, int32_t dst_bits, const uint32_t *dst,
                       void *tile);

/* l1[n] += dst[n] of a 32-bit Dst by the packer; format GR_F32 (l1 is uint32) or GR_BF16 (uint16). */
int32_t gr_oracle_accumulate(int32_t format, const uint32_t *dst, int64_t n, void *l1);

/* The vector unit: out[n] = x * y + z. */
int32_t gr_oracle_mad(const uint32_t *x, const uint32_t *y, const uint32_t *z, int64_t n, uint32_t *out);

/* The vector unit's store to a 16-bit Dst: rounded to nearest first, or cut. */
int32_t gr_oracle_store16(const uint32_t *x, int32_t nearest, int64_t n, uint16_t *out);
/* cdef-end */

#endif
