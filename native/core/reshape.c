/* reshape.c: the copy engine's path for a reshape that moves bytes: each 32x32 block of the destination is
 * gathered from blocks of the source, run by run of elements that are neighbours in both. A source block
 * is kept while runs come from it.
 *
 * Called by copy.c, from any thread of the pool.
 * defines: gr_reshape_blocks
 */
#include "reshape.h"

#include <string.h>

#include "tile.h"

/* 32x32 units, row-major: elements where both sides have one format of whole bytes, else floats. */
typedef union matrix {
  uint8_t at[GR_TILE_MOST_BYTES] __attribute__((aligned(64)));
  float values[GR_TILE_ELEMENTS];
} matrix;

typedef struct gather {
  const gr_image *src;
  uint32_t unit;            /* bytes */
  int as_floats;
  int64_t held;             /* index of the source block in block, -1 for none */
  matrix block;
} gather;

static int32_t load_block(gather *from, int64_t index) {
  const gr_image *src = from->src;
  gr_block block = gr_image_block(src, index);
  uint64_t stride = (uint64_t)GR_TILE_DIM * from->unit;
  matrix raw;
  int32_t status;
  from->held = index;
  if (src->arg->layout == GR_TILE) {
    status = gr_image_load_tiles(src, index, 1, raw.at);
    if (status) return status;
    if (from->as_floats) gr_tile_unpack(src->arg->format, raw.at, from->block.values);
    else gr_tile_untilize(from->unit, raw.at, block.rows, block.cols, from->block.at, stride);
    return GR_OK;
  }
  const uint8_t *rows;
  uint64_t apart;
  status = gr_image_load_rows(src, &block, raw.at, &rows, &apart);
  if (status) return status;
  for (int32_t r = 0; r < block.rows; ++r) {
    uint8_t *to = from->block.at + (uint64_t)r * stride;
    if (!from->as_floats || src->arg->format == GR_F32) {
      memcpy(to, rows + (uint64_t)r * apart, (size_t)block.cols * from->unit);
      continue;
    }
    for (int32_t c = 0; c < block.cols; ++c) {
      uint16_t word;
      memcpy(&word, rows + (uint64_t)r * apart + sizeof word * (uint64_t)c, sizeof word);
      float value = gr_bf16_decode(word);
      memcpy(to + sizeof value * (uint64_t)c, &value, sizeof value);
    }
  }
  return GR_OK;
}

/* count elements from the linear index on, into out. */
static int32_t load_run(gather *from, int64_t linear, int32_t count, uint8_t *out) {
  const gr_image *src = from->src;
  int64_t across = (src->cols + GR_TILE_DIM - 1) / GR_TILE_DIM,
          down = (src->rows + GR_TILE_DIM - 1) / GR_TILE_DIM;
  while (count > 0) {
    int64_t line = linear / src->cols, col = linear % src->cols;
    int64_t plane = line / src->rows, row = line % src->rows;
    int64_t index = (plane * down + row / GR_TILE_DIM) * across + col / GR_TILE_DIM;
    int32_t status = index == from->held ? GR_OK : load_block(from, index);
    if (status) return status;
    int64_t run = GR_TILE_DIM - col % GR_TILE_DIM;
    if (run > src->cols - col) run = src->cols - col;
    if (run > count) run = count;
    uint64_t at = (uint64_t)(row % GR_TILE_DIM * GR_TILE_DIM + col % GR_TILE_DIM) * from->unit;
    memcpy(out, from->block.at + at, (size_t)run * from->unit);
    out += (uint64_t)run * from->unit;
    linear += run;
    count -= (int32_t)run;
  }
  return GR_OK;
}

/* whole holds zeros outside of the block. */
static int32_t store_block(const gr_image *dst, int64_t index, const gr_block *block, const gather *from,
                           matrix *whole) {
  uint64_t stride = (uint64_t)GR_TILE_DIM * from->unit;
  matrix tile;
  if (dst->arg->layout == GR_TILE) {
    if (from->as_floats) gr_tile_encode(dst->arg->format, whole->at, stride, tile.at);
    else gr_tile_tilize(from->unit, whole->at, stride, block->rows, block->cols, tile.at);
    return gr_image_store_tiles(dst, index, 1, tile.at);
  }
  if (!from->as_floats || dst->arg->format == GR_F32)
    return gr_image_store_rows(dst, block, whole->at, stride);
  for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i) {
    uint16_t word = gr_bf16_encode(whole->values[i]);
    memcpy(tile.at + sizeof word * (uint32_t)i, &word, sizeof word);
  }
  return gr_image_store_rows(dst, block, tile.at, GR_TILE_DIM * sizeof(uint16_t));
}

int32_t gr_reshape_blocks(const gr_image *src, const gr_image *dst, int64_t first, int64_t last) {
  gather from = {.src = src, .held = -1};
  from.as_floats = src->arg->format != dst->arg->format || !src->itemsize;
  from.unit = from.as_floats ? (uint32_t)sizeof(float) : src->itemsize;
  for (int64_t i = first; i < last; ++i) {
    gr_block block = gr_image_block(dst, i);
    matrix whole = {{0}};
    for (int32_t r = 0; r < block.rows; ++r) {
      int64_t line = block.plane * dst->rows + block.tile_row * GR_TILE_DIM + r;
      int32_t status = load_run(&from, line * dst->cols + block.tile_col * GR_TILE_DIM, block.cols,
                                whole.at + (uint64_t)r * GR_TILE_DIM * from.unit);
      if (status) return status;
    }
    int32_t status = store_block(dst, i, &block, &from, &whole);
    if (status) return status;
  }
  return GR_OK;
}
