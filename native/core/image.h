/* image.h: one side of a copy: a tensor's elements where and how they are stored, as planes x rows x cols.
 *
 * Used by the copy engine only.
 * defines: gr_image, gr_block, gr_image_open, gr_image_*
 */
#ifndef GR_IMAGE_H
#define GR_IMAGE_H

#include "device.h"

typedef struct gr_image {
  const gr_arg *arg;
  gr_device *device;        /* NULL: a host tensor */
  uint8_t *host;            /* its elements, contiguous */
  int64_t planes;           /* product of all dimensions but the last two */
  int64_t rows, cols;       /* the last two; a vector is one row, a scalar one element */
  uint32_t itemsize;        /* bytes of a stored element; 0 for block floats */
  uint64_t row_bytes;       /* bytes of a row of elements */
  int32_t streaming;        /* written around the cache */
} gr_image;

/* A 32x32 block of an image: its plane, its place in tiles, and how much of it is tensor. */
typedef struct gr_block {
  int64_t plane, tile_row, tile_col;
  int32_t rows, cols;
} gr_block;

/* Checks an argument of a copy: its sizes, that a device tensor is allocated, and its page geometry. */
int32_t gr_image_open(const gr_env *env, const gr_arg *arg, const char *which, gr_image *image);

int64_t gr_image_blocks(const gr_image *image);
gr_block gr_image_block(const gr_image *image, int64_t index);

/* A row-major image's block: *rows points to its first element, rows *stride bytes apart; buffer is used
 * where the elements are not the host's. */
int32_t gr_image_load_rows(const gr_image *image, const gr_block *block, uint8_t *buffer,
                           const uint8_t **rows, uint64_t *stride);
int32_t gr_image_store_rows(const gr_image *image, const gr_block *block, const uint8_t *rows,
                            uint64_t stride);
/* count elements of a row-major image's row from col on; as above. */
int32_t gr_image_load_run(const gr_image *image, int64_t row, int64_t col, int64_t count, uint8_t *buffer,
                          const uint8_t **run);
int32_t gr_image_store_run(const gr_image *image, int64_t row, int64_t col, int64_t count, const void *run);
/* First element of a host image's block. */
uint8_t *gr_image_host_rows(const gr_image *image, const gr_block *block);
/* Elements of a block from a tile of the same format into a row-major image; buffer holds a tile. */
int32_t gr_image_store_untilized(const gr_image *image, const gr_block *block, const uint8_t *tile,
                                 uint8_t *buffer);
/* Block i of a tiled image is page i. Tiles stand page_bytes apart. */
int32_t gr_image_load_tiles(const gr_image *image, int64_t first, int64_t count, uint8_t *tiles);
int32_t gr_image_store_tiles(const gr_image *image, int64_t first, int64_t count, const uint8_t *tiles);
/* Where tiles stand, for a copy that moves them itself and counts them. */
int32_t gr_image_locate_tiles(const gr_image *image, int64_t first, int64_t count, uint8_t **at);
void gr_image_count_tiles(const gr_image *image, int64_t first, int64_t count, int32_t into);

#endif
