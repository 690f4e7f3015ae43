/* image.c: one side of a copy: its checks, and the movement of its 32x32 blocks.
 *
 * Called by copy.c, blocks by several threads at once.
 * defines: gr_image_*
 */
#include "image.h"

#include "status.h"
#include "stream.h"
#include "tile.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* planes, rows, cols and row_bytes; GR_ERR_ARGUMENT where a size is negative or the bytes of the tensor
 * overflow. */
static int32_t measure(const gr_arg *arg, const char *which, gr_image *image) {
  if (arg->ndim < 0 || (arg->ndim && !arg->shape))
    return gr_fail(GR_ERR_ARGUMENT, "copy: the %s has no shape", which);
  int64_t bytes = image->itemsize ? image->itemsize : 1;
  image->planes = image->rows = image->cols = 1;
  for (int32_t d = 0; d < arg->ndim; ++d) {
    int64_t n = arg->shape[d];
    int64_t *factor = d == arg->ndim - 1 ? &image->cols : d == arg->ndim - 2 ? &image->rows : &image->planes;
    /* every factor is at most the product of the non-zero sizes, so none of them can overflow alone */
    if (n < 0 || __builtin_mul_overflow(bytes, n ? n : 1, &bytes))
      return gr_fail(GR_ERR_ARGUMENT, "copy: size %lld in dimension %d of the %s cannot be", (long long)n, d,
                     which);
    *factor *= n;
  }
  image->row_bytes = (uint64_t)image->cols * image->itemsize;
  return GR_OK;
}

/* A device tensor's pages must be those of its shape, and lie in one allocation. */
static int32_t check_pages(const gr_image *image, const char *which) {
  const gr_arg *arg = image->arg;
  int64_t count = arg->layout == GR_TILE ? gr_image_blocks(image) : image->planes * image->rows;
  uint64_t bytes = arg->layout == GR_TILE ? gr_tile_bytes(arg->format) : image->row_bytes;
  if (arg->layout == GR_ROW_MAJOR && !image->itemsize && arg->format != GR_OPAQUE)
    return gr_fail(GR_ERR_ARGUMENT, "copy: the %s has a block format, which exists in tile layout only",
                   which);
  if (arg->num_pages != count || arg->page_bytes != bytes)
    return gr_fail(GR_ERR_BOUNDS, "copy: the %s says %u pages of %u B, its shape makes %lld of %llu B", which,
                   arg->num_pages, arg->page_bytes, (long long)count, (unsigned long long)bytes);
  gr_device_memory *memory = gr_device_memory_of(image->device, arg->memory);
  if (!memory)
    return gr_fail(GR_ERR_ARGUMENT, "copy: device %s has no memory for the %s", image->device->name, which);
  const gr_shard *shard;
  uint64_t extent, addr = gr_bank_address(arg);
  if (gr_shard_of(&image->device->shards, arg, &shard)) return GR_ERR_BOUNDS;
  if (!gr_bank_extent(&memory->desc, arg, shard, &extent))
    return gr_fail(GR_ERR_BOUNDS, "copy: the %s has more bytes than a bank can have", which);
  pthread_mutex_lock(&image->device->lock);
  int held = extent == 0 || gr_ledger_find(&memory->ledger, addr, extent) != NULL;
  pthread_mutex_unlock(&image->device->lock);
  if (held) return GR_OK;
  return gr_fail(GR_ERR_BOUNDS,
                 "copy: the %s, %llu B a bank at address %llu of %s, is not inside an allocation", which,
                 (unsigned long long)extent, (unsigned long long)addr, image->device->name);
}

int32_t gr_image_open(const gr_env *env, const gr_arg *arg, const char *which, gr_image *image) {
  *image = (gr_image){.arg = arg};
  image->itemsize = arg->format == GR_OPAQUE ? arg->page_bytes : gr_format_bytes(arg->format);
  int32_t status = measure(arg, which, image);
  if (status) return status;
  if (arg->memory == GR_HOST) {
    if (arg->layout != GR_ROW_MAJOR || !image->itemsize)
      return gr_fail(GR_ERR_ARGUMENT,
                     "copy: the %s is on the host, so it must be row-major, of a format with whole bytes",
                     which);
    image->host = (uint8_t *)(uintptr_t)arg->addr;
    if (!image->host && image->planes && image->rows && image->cols)
      return gr_fail(GR_ERR_ARGUMENT, "copy: the %s has no memory", which);
    return GR_OK;
  }
  image->device = gr_env_device(env);
  if (!image->device || !image->device->ops->copy_in)
    return gr_fail(GR_ERR_ARGUMENT, "copy: the %s has a device address and no device", which);
  return check_pages(image, which);
}

/* ---------------------------------------------------------------- blocks */

int64_t gr_image_blocks(const gr_image *image) {
  return image->planes * ceil_div(image->rows, GR_TILE_DIM) * ceil_div(image->cols, GR_TILE_DIM);
}

gr_block gr_image_block(const gr_image *image, int64_t index) {
  int64_t across = ceil_div(image->cols, GR_TILE_DIM), down = ceil_div(image->rows, GR_TILE_DIM);
  gr_block block = {
      .plane = index / (across * down), .tile_row = index / across % down, .tile_col = index % across};
  int64_t rows = image->rows - block.tile_row * GR_TILE_DIM,
          cols = image->cols - block.tile_col * GR_TILE_DIM;
  block.rows = (int32_t)(rows < GR_TILE_DIM ? rows : GR_TILE_DIM);
  block.cols = (int32_t)(cols < GR_TILE_DIM ? cols : GR_TILE_DIM);
  return block;
}

static int64_t first_row(const gr_image *image, const gr_block *block) {
  return block->plane * image->rows + block->tile_row * GR_TILE_DIM;
}

static gr_pages row_pages(const gr_image *image, const gr_block *block) {
  return (gr_pages){.first = first_row(image, block),
                    .count = block->rows,
                    .offset = (uint64_t)block->tile_col * GR_TILE_DIM * image->itemsize,
                    .bytes = (uint64_t)block->cols * image->itemsize,
                    .streaming = image->streaming};
}

uint8_t *gr_image_host_rows(const gr_image *image, const gr_block *block) {
  return image->host + (uint64_t)first_row(image, block) * image->row_bytes +
         (uint64_t)block->tile_col * GR_TILE_DIM * image->itemsize;
}

int32_t gr_image_load_rows(const gr_image *image, const gr_block *block, uint8_t *buffer,
                           const uint8_t **rows, uint64_t *stride) {
  if (!image->device) {
    *rows = gr_image_host_rows(image, block);
    *stride = image->row_bytes;
    return GR_OK;
  }
  *rows = buffer;
  *stride = (uint64_t)GR_TILE_DIM * image->itemsize;
  return image->device->ops->copy_out(image->device, image->arg, row_pages(image, block), buffer, *stride);
}

int32_t gr_image_store_rows(const gr_image *image, const gr_block *block, const uint8_t *rows,
                            uint64_t stride) {
  if (image->device)
    return image->device->ops->copy_in(image->device, image->arg, row_pages(image, block), rows, stride);
  uint8_t *to = gr_image_host_rows(image, block);
  uint64_t bytes = (uint64_t)block->cols * image->itemsize;
  for (int32_t r = 0; r < block->rows; ++r)
    gr_move(to + (uint64_t)r * image->row_bytes, rows + (uint64_t)r * stride, bytes, image->streaming);
  return GR_OK;
}

static gr_pages run_pages(const gr_image *image, int64_t row, int64_t col, int64_t count) {
  return (gr_pages){.first = row,
                    .count = 1,
                    .offset = (uint64_t)col * image->itemsize,
                    .bytes = (uint64_t)count * image->itemsize,
                    .streaming = image->streaming};
}

int32_t gr_image_load_run(const gr_image *image, int64_t row, int64_t col, int64_t count, uint8_t *buffer,
                          const uint8_t **run) {
  *run = buffer;
  if (image->device)
    return image->device->ops->copy_out(image->device, image->arg, run_pages(image, row, col, count), buffer,
                                        0);
  *run = image->host + (uint64_t)row * image->row_bytes + (uint64_t)col * image->itemsize;
  return GR_OK;
}

int32_t gr_image_store_run(const gr_image *image, int64_t row, int64_t col, int64_t count, const void *run) {
  if (image->device)
    return image->device->ops->copy_in(image->device, image->arg, run_pages(image, row, col, count), run, 0);
  gr_move(image->host + (uint64_t)row * image->row_bytes + (uint64_t)col * image->itemsize, run,
          (uint64_t)count * image->itemsize, image->streaming);
  return GR_OK;
}

int32_t gr_image_store_untilized(const gr_image *image, const gr_block *block, const uint8_t *tile,
                                 uint8_t *buffer) {
  uint32_t itemsize = image->itemsize;
  if (image->device) {
    gr_tile_untilize(itemsize, tile, block->rows, block->cols, buffer, (uint64_t)GR_TILE_DIM * itemsize);
    return gr_image_store_rows(image, block, buffer, (uint64_t)GR_TILE_DIM * itemsize);
  }
  gr_tile_untilize(itemsize, tile, block->rows, block->cols, gr_image_host_rows(image, block),
                   image->row_bytes);
  return GR_OK;
}

static gr_pages tile_pages(const gr_image *image, int64_t first, int64_t count) {
  return (gr_pages){
      .first = first, .count = count, .bytes = image->arg->page_bytes, .streaming = image->streaming};
}

int32_t gr_image_load_tiles(const gr_image *image, int64_t first, int64_t count, uint8_t *tiles) {
  return image->device->ops->copy_out(image->device, image->arg, tile_pages(image, first, count), tiles,
                                      image->arg->page_bytes);
}

int32_t gr_image_store_tiles(const gr_image *image, int64_t first, int64_t count, const uint8_t *tiles) {
  return image->device->ops->copy_in(image->device, image->arg, tile_pages(image, first, count), tiles,
                                     image->arg->page_bytes);
}

int32_t gr_image_locate_tiles(const gr_image *image, int64_t first, int64_t count, uint8_t **at) {
  return image->device->ops->locate(image->device, image->arg, tile_pages(image, first, count), at);
}

void gr_image_count_tiles(const gr_image *image, int64_t first, int64_t count, int32_t into) {
  image->device->ops->count(image->device, image->arg, tile_pages(image, first, count), into);
}
