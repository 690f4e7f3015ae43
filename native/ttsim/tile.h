/* tile.h: the 32x32 tile: where its elements stand, and its conversion from and to a plain row-major 32x32
 * matrix.
 *
 * A tile is four 16x16 faces (top left, top right, bottom left, bottom right), each row-major. A
 * block-float tile has its 64 shared exponents first, one per face row in face order, then the data in
 * face order, low bits first.
 *
 * Read by the copy engine and by tt kernels; static inline and without state.
 * defines: gr_tile_index, gr_tile_bytes, gr_tile_tilize, gr_tile_untilize, gr_tile_unpack, gr_tile_unpack_to,
 * gr_tile_unpack_bits, gr_tile_pack, gr_tile_cut_data, gr_tile_pack_dst16, gr_tile_encode, gr_tile_unpack_i32,
 * gr_tile_pack_i32, gr_tile_clear_padding
 */
#ifndef GR_TILE_H
#define GR_TILE_H

#include "formats.h"

#define GR_TILE_DIM 32
#define GR_TILE_ELEMENTS 1024
#define GR_TILE_EXPONENTS 64
#define GR_TILE_MOST_BYTES 8192     /* a tile of 64-bit elements */

/* Place of row r, column c (0..31) among the 1024 elements of a tile. */
static inline int32_t gr_tile_index(int32_t r, int32_t c) {
  return (2 * (r / 16) + c / 16) * 256 + (r % 16) * 16 + c % 16;
}

/* Bytes of a tile, block exponents included; 0 for a format that has no tiles. */
static inline uint32_t gr_tile_bytes(uint8_t format) {
  uint32_t bits = gr_block_bits(format);
  if (bits) return GR_TILE_EXPONENTS + GR_TILE_ELEMENTS / 8 * bits;
  return GR_TILE_ELEMENTS * gr_format_bytes(format);
}

/* Element index of the k-th half row (16 elements) of a tile in row-major order: k = 2 * row + half ->
 * face order. */
static inline int32_t gr_tile_half_row(int32_t row, int32_t half) {
  return (2 * (row / 16) + half) * 256 + (row % 16) * 16;
}

/* ---------------------------------------------------------------- bits, for data movement */

/* rows x cols elements of itemsize bytes, row_bytes apart, into a tile; the padding becomes zero. */
static inline void gr_tile_tilize(uint32_t itemsize, const void *in, uint64_t row_bytes, int32_t rows,
                                  int32_t cols, void *tile) {
  const uint8_t *from = (const uint8_t *)in;
  uint8_t *to = (uint8_t *)tile;
  if (rows == 32 && cols == 32 && itemsize == 4) {       /* constant sizes become plain vector moves */
    for (int32_t r = 0; r < 32; ++r)
      for (int32_t h = 0; h < 2; ++h)
        memcpy(to + gr_tile_half_row(r, h) * 4, from + (uint64_t)r * row_bytes + h * 64, 64);
    return;
  }
  if (rows < 32 || cols < 32) memset(to, 0, (size_t)GR_TILE_ELEMENTS * itemsize);
  for (int32_t r = 0; r < rows; ++r)
    for (int32_t h = 0; h < 2 && cols > 16 * h; ++h) {
      uint32_t n = (uint32_t)(cols - 16 * h > 16 ? 16 : cols - 16 * h);
      memcpy(to + (uint32_t)gr_tile_half_row(r, h) * itemsize,
             from + (uint64_t)r * row_bytes + (uint32_t)h * 16 * itemsize, n * itemsize);
    }
}

/* The inverse: only rows x cols elements are written. */
static inline void gr_tile_untilize(uint32_t itemsize, const void *tile, int32_t rows, int32_t cols,
                                    void *out, uint64_t row_bytes) {
  const uint8_t *from = (const uint8_t *)tile;
  uint8_t *to = (uint8_t *)out;
  if (rows == 32 && cols == 32 && itemsize == 4) {
    for (int32_t r = 0; r < 32; ++r)
      for (int32_t h = 0; h < 2; ++h)
        memcpy(to + (uint64_t)r * row_bytes + h * 64, from + gr_tile_half_row(r, h) * 4, 64);
    return;
  }
  for (int32_t r = 0; r < rows; ++r)
    for (int32_t h = 0; h < 2 && cols > 16 * h; ++h) {
      uint32_t n = (uint32_t)(cols - 16 * h > 16 ? 16 : cols - 16 * h);
      memcpy(to + (uint64_t)r * row_bytes + (uint32_t)h * 16 * itemsize,
             from + (uint32_t)gr_tile_half_row(r, h) * itemsize, n * itemsize);
    }
}

/* ---------------------------------------------------------------- values */

/* One face row of 16 elements at element index `from` of a tile of a block float. */
static inline void gr_tile_unpack_bits(uint32_t bits, const void *tile, int32_t from, float *to) {
  const uint8_t *exponents = (const uint8_t *)tile, *data = exponents + GR_TILE_EXPONENTS;
  uint32_t each = 8 / bits, mask = (1u << (bits - 1)) - 1u;
  for (uint32_t i = 0; i < 16; ++i) {
    uint32_t datum = data[((uint32_t)from + i) / each] >> (bits * (i % each));
    uint32_t magnitude = (datum & mask) << (8 - bits);
    to[i] = gr_decode_block_datum(exponents[from / 16], datum >> (bits - 1) & 1u, magnitude);
  }
}

/* The same of f32, bf16, bfp8_b and bfp4_b, in loops that are vectorised; others than these go to
 * gr_tile_unpack_bits, as one more branch here would keep these from being inlined. f32 and bf16 keep their
 * bits; block floats as gr_decode_block_datum. */
static inline void gr_tile_unpack_half(uint8_t format, const void *tile, int32_t from, float *to) {
  const uint8_t *exponents = (const uint8_t *)tile, *data = exponents + GR_TILE_EXPONENTS;
  if (format == GR_F32) {
    memcpy(to, (const float *)tile + from, 64);
  } else if (format == GR_BF16) {
    const uint16_t *in = (const uint16_t *)tile + from;
    for (int i = 0; i < 16; ++i) to[i] = gr_bf16_decode(in[i]);
  } else if (format == GR_BFP8_B) {
#pragma GCC unroll 1                           /* unrolled, it would not be vectorised */
    for (int i = 0; i < 16; ++i)
      to[i] = gr_decode_block_datum(exponents[from / 16], data[from + i] >> 7, data[from + i] & 0x7Fu);
  } else {
    float low[8], high[8];
#pragma GCC unroll 1
    for (int i = 0; i < 8; ++i) {
      uint32_t byte = data[from / 2 + i];
      low[i] = gr_decode_block_datum(exponents[from / 16], byte >> 3 & 1u, (byte & 7u) << 4);
      high[i] = gr_decode_block_datum(exponents[from / 16], byte >> 7, byte & 0x70u);
    }
    for (int i = 0; i < 16; ++i) to[i] = i % 2 ? high[i / 2] : low[i / 2];
  }
}

/* A tile with its element (r, c) at out[r * row + c / 16 * half + c % 16]. */
static inline void gr_tile_unpack_to(uint8_t format, const void *tile, float *out, int64_t row,
                                     int64_t half) {
#define GR_EACH_HALF(UNPACK, FORMAT)                         \
  for (int32_t r = 0; r < 32; ++r)                           \
    for (int32_t h = 0; h < 2; ++h)                          \
      UNPACK(FORMAT, tile, gr_tile_half_row(r, h), out + r * row + h * half)
  switch (format) {                            /* a constant in each loop: the test is made once a tile */
    case GR_F32: GR_EACH_HALF(gr_tile_unpack_half, GR_F32); break;
    case GR_BF16: GR_EACH_HALF(gr_tile_unpack_half, GR_BF16); break;
    case GR_BFP8_B: GR_EACH_HALF(gr_tile_unpack_half, GR_BFP8_B); break;
    case GR_BFP4_B: GR_EACH_HALF(gr_tile_unpack_half, GR_BFP4_B); break;
    default: GR_EACH_HALF(gr_tile_unpack_bits, gr_block_bits(format)); break;
  }
#undef GR_EACH_HALF
}

/* The same as out[1024], row-major. */
static inline void gr_tile_unpack(uint8_t format, const void *tile, float *out) {
  gr_tile_unpack_to(format, tile, out, 32, 16);
}

/* Writes a half row of 16 sign-magnitude data (sign on top of the magnitude) at element index at. */
static inline void gr_tile_put_data(uint32_t bits, uint8_t *data, int32_t at, const uint8_t *values) {
  if (bits == 8) {
    memcpy(data + at, values, 16);
  } else if (bits == 4) {
    for (int i = 0; i < 8; ++i) data[at / 2 + i] = (uint8_t)(values[2 * i] | values[2 * i + 1] << 4);
  } else {
    uint32_t each = 8 / bits;
    memset(data + (uint32_t)at / each, 0, 16 / each);
    for (uint32_t i = 0; i < 16; ++i)
      data[((uint32_t)at + i) / each] |= (uint8_t)(values[i] << (bits * (i % each)));
  }
}

/* Row r of a tile of 16-bit elements. */
static inline void gr_tile_put_row16(void *tile, int32_t r, const uint16_t *values) {
  memcpy((uint16_t *)tile + gr_tile_half_row(r, 0), values, 32);
  memcpy((uint16_t *)tile + gr_tile_half_row(r, 1), values + 16, 32);
}

/* The top bits of 16 data of 8: a sign whose magnitude becomes 0 goes. */
static inline void gr_tile_cut_data(uint32_t bits, uint8_t *data) {
  for (int i = 0; i < 16; ++i) {
    uint32_t top = (uint32_t)data[i] >> (8 - bits);
    data[i] = (uint8_t)(top & ((1u << (bits - 1)) - 1u) ? top : 0u);
  }
}

/* Packs 16 bf16 patterns as one block; those of fewer bits are bfp8_b cut to its top bits. */
static inline void gr_tile_pack_block(uint8_t format, const uint16_t *values, uint8_t *tile, int32_t at) {
  uint8_t data[16];
  uint32_t bits = gr_block_bits(format);
  tile[at / 16] = gr_block_pack(values, data);
  if (bits == 4)                               /* a constant in the loop, as where tiles are unpacked */
    gr_tile_cut_data(4, data);
  else if (bits < 8)
    gr_tile_cut_data(bits, data);
  gr_tile_put_data(bits, tile + GR_TILE_EXPONENTS, at, data);
}

/* Writes in[1024] (row-major) of a 32-bit Dst as the packer does: f32 as it is, bf16 by gr_bf16_pack, block floats by
 * gr_bf16_cut and gr_block_pack. A block's exponent is that of its largest element, padding included: clear the padding
 * of ragged tiles first (gr_tile_clear_padding). */
static inline void gr_tile_pack(uint8_t format, const float *in, void *tile) {
  if (format == GR_F32) {
    gr_tile_tilize(4, in, 128, 32, 32, tile);
    return;
  }
  for (int32_t r = 0; r < GR_TILE_DIM;
       ++r) {            /* 32 at a time: 16 would be unrolled before they are vectorised */
    uint16_t values[GR_TILE_DIM];
    if (format == GR_BF16) {
      for (int i = 0; i < GR_TILE_DIM; ++i) values[i] = gr_bf16_pack(in[GR_TILE_DIM * r + i]);
      gr_tile_put_row16(tile, r, values);
    } else {
      for (int i = 0; i < GR_TILE_DIM; ++i) values[i] = gr_bf16_cut(in[GR_TILE_DIM * r + i]);
      gr_tile_pack_block(format, values, (uint8_t *)tile, gr_tile_half_row(r, 0));
      gr_tile_pack_block(format, values + 16, (uint8_t *)tile, gr_tile_half_row(r, 1));
    }
  }
}

/* The same from a 16-bit Dst: every value goes through bf16 by gr_bf16_pack first, also towards f32. */
static inline void gr_tile_pack_dst16(uint8_t format, const float *in, void *tile) {
  float rounded[GR_TILE_ELEMENTS];
  for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i) rounded[i] = gr_bf16_decode(gr_bf16_pack(in[i]));
  gr_tile_pack(format, rounded, tile);
}

/* Writes 32x32 floats whose rows are row_bytes apart, at any address, as a copy does: f32 as it is, bf16 by
 * gr_bf16_encode, block floats by gr_block_encode. */
static inline void gr_tile_encode(uint8_t format, const void *in, uint64_t row_bytes, void *tile) {
  if (format == GR_F32) {
    gr_tile_tilize(4, in, row_bytes, 32, 32, tile);
    return;
  }
  for (int32_t r = 0; r < GR_TILE_DIM; ++r) {
    float from[GR_TILE_DIM];
    memcpy(from, (const uint8_t *)in + (uint64_t)r * row_bytes, sizeof from);
    if (format == GR_BF16) {
      uint16_t values[GR_TILE_DIM];
      for (int i = 0; i < GR_TILE_DIM; ++i) values[i] = gr_bf16_encode(from[i]);
      gr_tile_put_row16(tile, r, values);
    } else {
      for (int32_t h = 0; h < 2; ++h) {
        int32_t at = gr_tile_half_row(r, h);
        uint8_t data[16];
        uint32_t bits = gr_block_bits(format);
        ((uint8_t *)tile)[at / 16] = gr_block_encode(from + 16 * h, (int)bits - 1, data);
        gr_tile_put_data(bits, (uint8_t *)tile + GR_TILE_EXPONENTS, at, data);
      }
    }
  }
}

/* Sets what is outside of rows x cols in a row-major 32x32 matrix to zero. */
static inline void gr_tile_clear_padding(float *matrix, int32_t rows, int32_t cols) {
  for (int32_t r = 0; r < rows && cols < 32; ++r)
    memset(matrix + 32 * r + cols, 0, (size_t)(32 - cols) * sizeof(float));
  if (rows < 32) memset(matrix + 32 * rows, 0, (size_t)(32 - rows) * 32 * sizeof(float));
}

/* A tile of an integer format or bool as out[1024], row-major; u32 as its bits. */
static inline void gr_tile_unpack_i32(uint8_t format, const void *tile, int32_t *out) {
#define GR_UNPACK(T) \
  for (int32_t k = 0; k < 64; ++k) \
    for (int32_t i = 0; i < 16; ++i) \
  out[16 * k + i] = (int32_t)((const T *)tile)[gr_tile_half_row(k / 2, k % 2) + i]
  switch (format) {
    case GR_I8: GR_UNPACK(int8_t); break;
    case GR_I16: GR_UNPACK(int16_t); break;
    case GR_U16: GR_UNPACK(uint16_t); break;
    case GR_I32:
    case GR_U32: GR_UNPACK(int32_t); break;
    default: GR_UNPACK(uint8_t); break;
  }
#undef GR_UNPACK
}

/* The inverse: values are cut to the format's bits, as a C cast does. */
static inline void gr_tile_pack_i32(uint8_t format, const int32_t *in, void *tile) {
#define GR_PACK(T) \
  for (int32_t k = 0; k < 64; ++k) \
    for (int32_t i = 0; i < 16; ++i) ((T *)tile)[gr_tile_half_row(k / 2, k % 2) + i] = (T)in[16 * k + i]
  switch (format) {
    case GR_I8: GR_PACK(int8_t); break;
    case GR_I16: GR_PACK(int16_t); break;
    case GR_U16: GR_PACK(uint16_t); break;
    case GR_I32:
    case GR_U32: GR_PACK(int32_t); break;
    default: GR_PACK(uint8_t); break;
  }
#undef GR_PACK
}

#endif
