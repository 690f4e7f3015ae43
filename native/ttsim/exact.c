/* exact.c: the border of the exact numerics (exact.h) to Python: checks what does not exist, loops over
 * arrays.
 *
 * Called by graph_runtime/run/oracle.py; without state, any thread.
 * defines: gr_oracle_*
 */
#include "exact.h"
#include "exact_sfpu.h"
#include "gr_oracle.h"
#include "status.h"

static int32_t bad_format(const char *stage, int32_t format) {
  return gr_fail(GR_ERR_ARGUMENT, "%s knows no format %d", stage, (int)format);
}

static int32_t check_mode(int32_t phases, int32_t dst_bits) {
  if (phases < 1 || phases > GR_EXACT_MOST_PHASES)
    return gr_fail(GR_ERR_ARGUMENT, "the multiplier has 1 to 4 phases, got %d", (int)phases);
  if (dst_bits != 16 && dst_bits != 32)
    return gr_fail(GR_ERR_ARGUMENT, "Dst has 16 or 32 bits, got %d", (int)dst_bits);
  return GR_OK;
}

static int is_tile_format(int32_t format) {
  return format >= 0 && format <= UINT8_MAX && gr_format_converts((uint8_t)format);
}

int32_t gr_oracle_unpack(int32_t format, int32_t reg, const void *tile, uint32_t *source) {
  if (!is_tile_format(format)) return bad_format("the unpacker", format);
  if (reg != GR_BF16 && reg != GR_ORACLE_TF32) return bad_format("a source register", reg);
  if (format != GR_F32 || reg == GR_ORACLE_TF32)
    gr_exact_unpack_tile((uint8_t)format, tile, source);
  else
    for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i)
      source[i] = gr_exact_source_bf16(((const uint32_t *)tile)[gr_tile_index(i / 32, i % 32)]);
  return GR_OK;
}

int32_t gr_oracle_mvmul(const uint32_t *srcb, const uint32_t *srca, int32_t phase, int32_t dst_bits,
                        uint32_t *dst) {
  int32_t status = check_mode(phase + 1, dst_bits);
  for (int32_t i = 0; status == GR_OK && i < 8 * 16; ++i) {
    gr_exact_part b[16], a[16];
    for (int32_t k = 0; k < 16; ++k) {
      b[k] = gr_exact_split_b(srcb[i / 16 * 16 + k], phase);
      a[k] = gr_exact_split_a(srca[k * 16 + i % 16], phase);
    }
    dst[i] = gr_exact_dot16(b, a, phase, dst[i], dst_bits);
  }
  return status;
}

int32_t gr_oracle_matmul(const uint32_t *in0, const uint32_t *in1, int64_t tiles, int32_t phases,
                         int32_t dst_bits, uint32_t *dst) {
  int32_t status = check_mode(phases, dst_bits);
  for (int64_t t = 0; status == GR_OK && t < tiles; ++t) {
    uint32_t block[GR_TILE_ELEMENTS];
    for (int32_t r = 0; r < 32; ++r) memcpy(block + 32 * r, in0 + (r * tiles + t) * 32, 32 * sizeof *in0);
    gr_exact_matmul_tile(dst, block, in1 + t * GR_TILE_ELEMENTS, phases, dst_bits);
  }
  return status;
}

int32_t gr_oracle_elementwise(int32_t op, const uint32_t *a, const uint32_t *b, int64_t n, int32_t phases,
                              int32_t dst_bits, uint32_t *dst) {
  int32_t status = check_mode(phases, dst_bits);
  if (status != GR_OK) return status;
  if (op < GR_EXACT_ADD || op > GR_EXACT_MUL)
    return gr_fail(GR_ERR_ARGUMENT, "the matrix unit has no element-wise op %d", (int)op);
  gr_exact_elementwise(op, dst, a, b, n, phases, dst_bits);
  return GR_OK;
}

int32_t gr_oracle_pack(int32_t format, int32_t intermediate, int32_t dst_bits, const uint32_t *dst,
                       void *tile) {
  int32_t status = check_mode(1, dst_bits), wide = dst_bits == 16 ? GR_BF16 : GR_F32;
  if (status != GR_OK) return status;
  if (!is_tile_format(format)) return bad_format("the packer", format);
  int block = format != GR_F32 && format != GR_BF16;
  int known = format == GR_BF16 ? intermediate == GR_BF16
                                : intermediate == wide || (block && intermediate == GR_ORACLE_BFP8);
  if (!known)
    return gr_fail(GR_ERR_ARGUMENT, "from a Dst of %d bits format %d is not packed by way of %d",
                   (int)dst_bits, (int)format, (int)intermediate);
  gr_exact_pack_via((uint8_t)format, (uint8_t)intermediate, dst_bits, dst, tile);
  return GR_OK;
}

int32_t gr_oracle_accumulate(int32_t format, const uint32_t *dst, int64_t n, void *l1) {
  if (format != GR_F32 && format != GR_BF16) return bad_format("accumulation in L1", format);
  for (int64_t i = 0; i < n; ++i) {
    if (format == GR_F32) {
      uint32_t *at = (uint32_t *)l1 + i;
      *at = gr_exact_accumulate_f32(*at, dst[i]);
    } else {
      uint16_t *at = (uint16_t *)l1 + i;
      *at = gr_exact_accumulate_bf16(*at, gr_bf16_pack(gr_float_of(dst[i])));
    }
  }
  return GR_OK;
}

int32_t gr_oracle_mad(const uint32_t *x, const uint32_t *y, const uint32_t *z, int64_t n, uint32_t *out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gr_exact_mad(x[i], y[i], z[i]);
  return GR_OK;
}

int32_t gr_oracle_store16(const uint32_t *x, int32_t nearest, int64_t n, uint16_t *out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = nearest ? gr_exact_round16(x[i]) : gr_exact_store16(x[i]);
  return GR_OK;
}
