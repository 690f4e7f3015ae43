/* strip.c: whole tiles side by side between host rows and device pages. A row of the strip is read or
 * written in one go: memory sees long runs at the host's side and whole cache lines at the device's.
 *
 * Called by copy.c, from any thread of the pool.
 * defines: gr_strip_*
 */
#include "strip.h"

#include "convert.h"
#include "stream.h"
#include "tile.h"

/* Tiles of a strip. For writes around the cache a longer run of a row is faster to read; otherwise half a kilobyte of a
 * row is long enough, and more pages at a time fall out of the first-level cache. */
#define STREAMED 32
#define CACHED 4

/* The pages of a strip and, behind them, of the next one. */
typedef struct strip {
  uint8_t *tiles[2 * STREAMED];
  uint8_t *host;             /* its first element */
  uint64_t stride;           /* bytes from row to row */
  int32_t width;             /* tiles; 0: its first block is not wholly tensor */
  int32_t ahead;             /* tiles of the next strip that are known */
} strip;

int gr_strip_can(const gr_image *rows, const gr_image *tiles) {
  uint8_t host = rows->arg->format, device = tiles->arg->format;
  if (rows->device || !tiles->device || tiles->arg->layout != GR_TILE) return 0;
  return (host == device && rows->itemsize == tiles->itemsize) || (host == GR_F32 && device == GR_BF16);
}

static int32_t locate(const gr_image *rows, const gr_image *tiles, int64_t first, int64_t last, int32_t into,
                      strip *at) {
  gr_block block = gr_image_block(rows, first);
  at->width = 0;
  if (block.rows < GR_TILE_DIM || block.cols < GR_TILE_DIM) return GR_OK;
  int64_t most = into && tiles->streaming ? STREAMED : CACHED, left = last - first;
  int64_t width = rows->cols / GR_TILE_DIM - block.tile_col;
  width = width < most ? width : most;
  width = width < left ? width : left;
  int64_t known = left < 2 * width ? left : 2 * width;
  at->width = (int32_t)width;
  at->ahead = (int32_t)(known - width);
  at->host = gr_image_host_rows(rows, &block);
  at->stride = rows->row_bytes;
  int32_t status = gr_image_locate_tiles(tiles, first, known, at->tiles);
  if (!status) gr_image_count_tiles(tiles, first, width, into);
  return status;
}

/* ---------------------------------------------------------------- towards the device */

/* itemsize is a constant in each use, so moves become a few vector instructions. */
static inline __attribute__((always_inline)) void tilize(const strip *at, uint32_t itemsize,
                                                         int streaming) {
  uint32_t half = 16 * itemsize;
  for (int32_t r = 0; r < GR_TILE_DIM; ++r) {
    const uint8_t *from = at->host + (uint64_t)r * at->stride;
    for (int32_t k = 0; k < at->width; ++k, from += 2 * half)
      for (uint32_t h = 0; h < 2; ++h)
        gr_move(at->tiles[k] + (uint32_t)gr_tile_half_row(r, (int32_t)h) * itemsize, from + h * half, half,
                streaming);
  }
}

/* Two rows at a time make cache lines of a tile. */
static void tilize_bf16(const strip *at, int streaming) {
  for (int32_t r = 0; r < GR_TILE_DIM; r += 2) {
    uint16_t words[2][STREAMED * GR_TILE_DIM];
    for (int32_t i = 0; i < 2; ++i)
      gr_encode_row(at->host + (uint64_t)(r + i) * at->stride, (int64_t)at->width * GR_TILE_DIM, words[i]);
    for (int32_t k = 0; k < at->width; ++k)
      for (int32_t h = 0; h < 2; ++h) {
        uint16_t line[32];
        memcpy(line, words[0] + (ptrdiff_t)k * 32 + (ptrdiff_t)h * 16, 32);
        memcpy(line + 16, words[1] + (ptrdiff_t)k * 32 + (ptrdiff_t)h * 16, 32);
        gr_move(at->tiles[k] + (uint32_t)gr_tile_half_row(r, h) * sizeof line[0], line, sizeof line,
                streaming);
      }
  }
}

int32_t gr_strip_tilize(const gr_image *rows, const gr_image *tiles, int64_t first, int64_t last,
                        int32_t *moved) {
  strip at;
  int32_t status = locate(rows, tiles, first, last, 1, &at);
  *moved = at.width;
  if (status || !at.width) return status;
  if (rows->arg->format != tiles->arg->format) tilize_bf16(&at, tiles->streaming);
  else if (rows->itemsize == 1) tilize(&at, 1, tiles->streaming);
  else if (rows->itemsize == 2) tilize(&at, 2, tiles->streaming);
  else if (rows->itemsize == 4) tilize(&at, 4, tiles->streaming);
  else tilize(&at, 8, tiles->streaming);
  return GR_OK;
}

/* ---------------------------------------------------------------- towards the host */

/* A row's share of the next strip's pages, for a copy whose pages are in no cache. */
static inline void prefetch(const strip *at, int32_t k, int32_t r, uint32_t row_bytes) {
  if (k >= at->ahead) return;
  const uint8_t *page = at->tiles[at->width + k] + (uint32_t)r * row_bytes;
  for (uint32_t i = 0; i < row_bytes; i += 64) __builtin_prefetch(page + i);
}

static inline __attribute__((always_inline)) void untilize(const strip *at, uint32_t itemsize,
                                                           int streaming) {
  uint32_t half = 16 * itemsize;
  for (int32_t r = 0; r < GR_TILE_DIM; ++r) {
    uint8_t row[CACHED * GR_TILE_DIM * 8], *host = at->host + (uint64_t)r * at->stride;
    uint8_t *to = streaming ? row : host;
    for (int32_t k = 0; k < at->width; ++k) {
      if (streaming) prefetch(at, k, r, 2 * half);
      for (int32_t h = 0; h < 2; ++h, to += half)
        memcpy(to, at->tiles[k] + (uint32_t)gr_tile_half_row(r, h) * itemsize, half);
    }
    if (streaming) gr_move(host, row, (uint64_t)at->width * 2 * half, 1);
  }
}

static void untilize_bf16(const strip *at, int streaming) {
  for (int32_t r = 0; r < GR_TILE_DIM; ++r) {
    uint8_t words[CACHED * GR_TILE_DIM * sizeof(uint16_t)];
    uint8_t row[CACHED * GR_TILE_DIM * sizeof(float)], *host = at->host + (uint64_t)r * at->stride;
    int64_t count = (int64_t)at->width * GR_TILE_DIM;
    for (int32_t k = 0; k < at->width; ++k) {
      if (streaming) prefetch(at, k, r, 64);
      for (int32_t h = 0; h < 2; ++h)
        memcpy(words + (ptrdiff_t)k * 64 + (ptrdiff_t)h * 32,
               at->tiles[k] + (uint32_t)gr_tile_half_row(r, h) * sizeof(uint16_t), 32);
    }
    gr_decode_row(words, count, streaming ? row : host);
    if (streaming) gr_move(host, row, (uint64_t)count * sizeof(float), 1);
  }
}

int32_t gr_strip_untilize(const gr_image *tiles, const gr_image *rows, int64_t first, int64_t last,
                          int32_t *moved) {
  strip at;
  int32_t status = locate(rows, tiles, first, last, 0, &at);
  *moved = at.width;
  if (status || !at.width) return status;
  if (rows->arg->format != tiles->arg->format) untilize_bf16(&at, rows->streaming);
  else if (rows->itemsize == 1) untilize(&at, 1, rows->streaming);
  else if (rows->itemsize == 2) untilize(&at, 2, rows->streaming);
  else if (rows->itemsize == 4) untilize(&at, 4, rows->streaming);
  else untilize(&at, 8, rows->streaming);
  return GR_OK;
}
