/* convert.c: blocks between layouts and formats through 16 KB on the stack, rows between f32 and bf16.
 *
 * Called by copy.c, from any thread of the pool.
 * defines: gr_convert_block, gr_retile_block, gr_convert_rows, gr_encode_row, gr_decode_row
 */
#include "convert.h"

#include "stream.h"
#include "tile.h"

/* Conversions use wider vectors than the wheel is built for if the machine has them. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define GR_WIDE \
  __attribute__((target_clones("avx2", "default"), flatten)) /* what it calls must be inside to be cloned */
#else
#define GR_WIDE
#endif

#define ROW_ELEMENTS 1024      /* of a row, converted at a time */

/* ---------------------------------------------------------------- blocks */

/* Rows of f32 or bf16 as a row-major 32x32 matrix whose padding is zero. A host row may stand at any
 * address. */
static inline void decode_rows(uint8_t format, const gr_block *block, const uint8_t *rows, uint64_t stride,
                               float *matrix) {
  for (int32_t r = 0; r < block->rows; ++r) {
    const uint8_t *row = rows + (uint64_t)r * stride;
    float *to = matrix + GR_TILE_DIM * r;
    if (format == GR_F32) {
      memcpy(to, row, (size_t)block->cols * sizeof(float));
      continue;
    }
    uint16_t words[GR_TILE_DIM];
    memcpy(words, row, (size_t)block->cols * sizeof words[0]);
    for (int32_t c = 0; c < block->cols; ++c) to[c] = gr_bf16_decode(words[c]);
  }
  gr_tile_clear_padding(matrix, block->rows, block->cols);
}

/* rows x cols floats of a matrix into a tile or rows of any float format. */
static inline int32_t store_values(const gr_image *image, int64_t index, const gr_block *block,
                                   uint8_t *buffer, const void *rows, uint64_t stride) {
  if (image->arg->layout == GR_TILE) {
    gr_tile_encode(image->arg->format, rows, stride, buffer);
    return gr_image_store_tiles(image, index, 1, buffer);
  }
  if (image->arg->format == GR_F32) return gr_image_store_rows(image, block, rows, stride);
  for (int32_t r = 0; r < block->rows; ++r) {
    float from[GR_TILE_DIM] = {0};
    uint16_t words[GR_TILE_DIM];
    memcpy(from, (const uint8_t *)rows + (uint64_t)r * stride, (size_t)block->cols * sizeof from[0]);
    for (int32_t c = 0; c < GR_TILE_DIM; ++c) words[c] = gr_bf16_encode(from[c]);
    memcpy(buffer + sizeof words * (size_t)r, words, sizeof words);
  }
  return gr_image_store_rows(image, block, buffer, GR_TILE_DIM * sizeof(uint16_t));
}

GR_WIDE int32_t gr_convert_block(const gr_image *src, const gr_image *dst, int64_t index) {
  uint8_t buffer[GR_TILE_MOST_BYTES] __attribute__((aligned(64)));
  float matrix[GR_TILE_ELEMENTS] __attribute__((aligned(64)));
  const gr_arg *from = src->arg;
  gr_block block = gr_image_block(src, index);
  const uint8_t *rows = (const uint8_t *)matrix;
  uint64_t stride = GR_TILE_DIM * sizeof(float);
  int32_t status;
  if (from->layout == GR_TILE) {
    status = gr_image_load_tiles(src, index, 1, buffer);
    if (status) return status;
    gr_tile_unpack(from->format, buffer, matrix);
    gr_tile_clear_padding(matrix, block.rows, block.cols);
  } else {
    status = gr_image_load_rows(src, &block, buffer, &rows, &stride);
    if (status) return status;
    int whole = block.rows == GR_TILE_DIM && block.cols == GR_TILE_DIM;
    if (from->format != GR_F32 || !whole || rows == buffer) {
      decode_rows(from->format, &block, rows, stride, matrix);
      rows = (const uint8_t *)matrix;
      stride = GR_TILE_DIM * sizeof(float);
    }
  }
  return store_values(dst, index, &block, buffer, rows, stride);
}

int32_t gr_retile_block(const gr_image *src, const gr_image *dst, int64_t index) {
  uint8_t buffer[GR_TILE_MOST_BYTES] __attribute__((aligned(64)));
  uint8_t tile[GR_TILE_MOST_BYTES] __attribute__((aligned(64)));
  gr_block block = gr_image_block(src, index);
  int32_t status;
  if (src->arg->layout == GR_TILE) {
    status = gr_image_load_tiles(src, index, 1, tile);
    return status ? status : gr_image_store_untilized(dst, &block, tile, buffer);
  }
  const uint8_t *rows;
  uint64_t stride;
  status = gr_image_load_rows(src, &block, buffer, &rows, &stride);
  if (status) return status;
  gr_tile_tilize(src->itemsize, rows, stride, block.rows, block.cols, tile);
  return gr_image_store_tiles(dst, index, 1, tile);
}

/* ---------------------------------------------------------------- rows */

GR_WIDE void gr_encode_row(const uint8_t *in, int64_t count, uint16_t *out) {
  for (int64_t i = 0; i < count; ++i) {
    float value;
    memcpy(&value, in + i * (int64_t)sizeof value, sizeof value);
    out[i] = gr_bf16_encode(value);
  }
}

GR_WIDE void gr_decode_row(const uint8_t *in, int64_t count, uint8_t *out) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t word;
    memcpy(&word, in + i * (int64_t)sizeof word, sizeof word);
    float value = gr_bf16_decode(word);
    memcpy(out + i * (int64_t)sizeof value, &value, sizeof value);
  }
}

int32_t gr_convert_rows(const gr_image *src, const gr_image *dst, int64_t first, int64_t last) {
  uint8_t in[ROW_ELEMENTS * sizeof(float)] __attribute__((aligned(64)));
  uint16_t words[ROW_ELEMENTS];
  uint8_t floats[ROW_ELEMENTS * sizeof(float)];
  int encode = src->arg->format == GR_F32;
  for (int64_t row = first; row < last; ++row)
    for (int64_t col = 0; col < src->cols; col += ROW_ELEMENTS) {
      int64_t count = src->cols - col < ROW_ELEMENTS ? src->cols - col : ROW_ELEMENTS;
      const uint8_t *from;
      int32_t status = gr_image_load_run(src, row, col, count, in, &from);
      if (status) return status;
      if (encode) gr_encode_row(from, count, words);
      else gr_decode_row(from, count, floats);
      const void *out = encode ? (const void *)words : floats;
      status = gr_image_store_run(dst, row, col, count, out);
      if (status) return status;
    }
  return GR_OK;
}
