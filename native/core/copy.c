/* copy.c: the copy engine: between any two devices, layouts and formats. Equal storage moves as bytes; else 32x32 block
 * by block: whole blocks between host and device in strips (strip.c), others through 16 KB on the stack (convert.c), so
 * a copy takes no memory of its own. Large copies are spread over the pool.
 *
 * Rules: the logical dtype and the elements in row-major order stay (another shape: reshape.c); between two host
 * tensors of equal bytes anything may be reinterpreted (TVM's __copy). Formats convert to nearest, ties to even
 * (tile.h, gr_tile_encode). Padding of a tile is zero after a copy from rows, and what lies in padding never reaches an
 * element or a block exponent.
 *
 * A copy is counted (moved.h) when it is done, except a queued step's, which was counted when it was queued (submit.c).
 *
 * Called by gr_copy_kernel in the executor, by the queues' workers, and by graph_runtime/binding/core.py; any thread.
 * defines: gr_copy, gr_copy_kernel, gr_copy_kernel_fn, gr_copy_queued
 */
#include <string.h>

#include "convert.h"
#include "image.h"
#include "moved.h"
#include "parallel.h"
#include "reshape.h"
#include "status.h"
#include "stream.h"
#include "strip.h"
#include "tile.h"

/* A smaller copy is done before a second thread would have begun. */
#define PARALLEL_BYTES (1 << 20)
#define SCRATCH_BYTES 4096
#define BATCH_BYTES 16384      /* four tiles of 32-bit elements: half of a first-level cache */

typedef struct copy_job {
  gr_image src, dst;
  int32_t (*move)(const struct copy_job *job, int64_t first, int64_t last);   /* units first .. last-1 */
  int64_t units;
  int64_t per_task;
} copy_job;

/* ---------------------------------------------------------------- bytes */

/* Units are bytes. */
static int32_t move_host_bytes(const copy_job *job, int64_t first, int64_t last) {
  memmove(job->dst.host + first, job->src.host + first, (size_t)(last - first));
  return GR_OK;
}

/* Units are row-major pages, of one side at least. */
static int32_t move_row_pages(const copy_job *job, int64_t first, int64_t last) {
  const gr_image *src = &job->src, *dst = &job->dst;
  gr_pages pages = {
      .first = first, .count = last - first, .bytes = src->row_bytes, .streaming = dst->streaming};
  if (!src->device)
    return dst->device->ops->copy_in(dst->device, dst->arg, pages,
                                     src->host + (uint64_t)first * src->row_bytes, src->row_bytes);
  if (!dst->device)
    return src->device->ops->copy_out(src->device, src->arg, pages,
                                      dst->host + (uint64_t)first * dst->row_bytes, dst->row_bytes);
  uint8_t scratch[SCRATCH_BYTES];
  for (pages.count = 1; pages.first < last; ++pages.first)
    for (pages.offset = 0; pages.offset < src->row_bytes; pages.offset += SCRATCH_BYTES) {
      uint64_t left = src->row_bytes - pages.offset;
      pages.bytes = left < SCRATCH_BYTES ? left : SCRATCH_BYTES;
      int32_t status = src->device->ops->copy_out(src->device, src->arg, pages, scratch, 0);
      if (!status) status = dst->device->ops->copy_in(dst->device, dst->arg, pages, scratch, 0);
      if (status) return status;
    }
  return GR_OK;
}

/* Units are tiles of one format on two devices, a few at a time. */
static int32_t move_tiles(const copy_job *job, int64_t first, int64_t last) {
  uint8_t tiles[BATCH_BYTES] __attribute__((aligned(64)));
  int64_t most = BATCH_BYTES / job->src.arg->page_bytes;
  for (; first < last; first += most) {
    int64_t count = last - first < most ? last - first : most;
    int32_t status = gr_image_load_tiles(&job->src, first, count, tiles);
    if (!status) status = gr_image_store_tiles(&job->dst, first, count, tiles);
    if (status) return status;
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- layouts and formats
 * Units are blocks: in strips where they are whole and may be, else one by one. */

static int32_t move_blocks(const copy_job *job, int64_t first, int64_t last) {
  const gr_image *src = &job->src, *dst = &job->dst;
  int into = gr_strip_can(src, dst), out = gr_strip_can(dst, src);
  while (first < last) {
    int32_t moved = 0, status = GR_OK;
    if (into) status = gr_strip_tilize(src, dst, first, last, &moved);
    else if (out) status = gr_strip_untilize(src, dst, first, last, &moved);
    if (status) return status;
    if (!moved) {
      status = src->arg->format == dst->arg->format ? gr_retile_block(src, dst, first)
                                                    : gr_convert_block(src, dst, first);
      moved = 1;
    }
    if (status) return status;
    first += moved;
  }
  return GR_OK;
}

/* Units are rows. */
static int32_t move_converted_rows(const copy_job *job, int64_t first, int64_t last) {
  return gr_convert_rows(&job->src, &job->dst, first, last);
}

static int32_t move_reshaped(const copy_job *job, int64_t first, int64_t last) {
  return gr_reshape_blocks(&job->src, &job->dst, first, last);
}

/* ---------------------------------------------------------------- choice */

static int same_shape(const gr_arg *a, const gr_arg *b) {
  return a->ndim == b->ndim &&
         (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

static int64_t elements(const gr_image *image) { return image->planes * image->rows * image->cols; }

static int32_t choose_host(copy_job *job) {
  int64_t from = elements(&job->src) * job->src.itemsize, to = elements(&job->dst) * job->dst.itemsize;
  if (from != to)
    return gr_fail(GR_ERR_ARGUMENT, "copy: the source has %lld B, the destination %lld B", (long long)from,
                   (long long)to);
  job->move = move_host_bytes;
  job->units = from;
  return GR_OK;
}

static int32_t choose(copy_job *job) {
  const gr_arg *src = job->src.arg, *dst = job->dst.arg;
  if (!job->src.device && !job->dst.device) return choose_host(job);
  if (src->dtype != dst->dtype)
    return gr_fail(GR_ERR_ARGUMENT,
                   "copy: source and destination differ in dtype, which only two host tensors may");
  if (elements(&job->src) != elements(&job->dst))
    return gr_fail(GR_ERR_ARGUMENT, "copy: the source has %lld elements, the destination %lld",
                   (long long)elements(&job->src), (long long)elements(&job->dst));
  if (src->format != dst->format && !(gr_format_converts(src->format) && gr_format_converts(dst->format)))
    return gr_fail(GR_ERR_ARGUMENT, "copy: format %d cannot be converted to format %d", src->format,
                   dst->format);
  if (!same_shape(src, dst)) {
    job->move = move_reshaped;
    job->units = gr_image_blocks(&job->dst);
    return GR_OK;
  }
  job->units = gr_image_blocks(&job->src);
  job->move = move_blocks;
  if (src->layout == GR_TILE && dst->layout == GR_TILE && src->format == dst->format) job->move = move_tiles;
  if (src->layout == GR_TILE || dst->layout == GR_TILE) return GR_OK;
  job->units = job->src.planes * job->src.rows;
  job->move = src->format == dst->format ? move_row_pages : move_converted_rows;
  return GR_OK;
}

static int32_t run_task(void *ctx, int64_t index) {
  const copy_job *job = ctx;
  int64_t first = index * job->per_task, last = first + job->per_task;
  int32_t status = job->move(job, first, last < job->units ? last : job->units);
  if (job->dst.streaming) gr_stream_end();
  return status;
}

/* Host ranges that overlap must be moved as one. */
static int overlap(const copy_job *job) {
  if (job->move != move_host_bytes) return 0;
  uint64_t a = (uint64_t)(uintptr_t)job->src.host, b = (uint64_t)(uintptr_t)job->dst.host,
           n = (uint64_t)job->units;
  return a < b + n && b < a + n;
}

static int32_t run(copy_job *job) {
  int64_t bytes = elements(&job->src) * (job->src.itemsize ? job->src.itemsize : 1);
  if (bytes < PARALLEL_BYTES || overlap(job)) return job->move(job, 0, job->units);
  job->dst.streaming = bytes >= GR_STREAM_BYTES;
  int64_t tasks = 4 * (int64_t)gr_pool_threads();
  job->per_task = (job->units + tasks - 1) / tasks;
  return gr_pool_run((job->units + job->per_task - 1) / job->per_task, run_task, job);
}

static int32_t copy(const gr_env *src_env, const gr_arg *src, const gr_env *dst_env, const gr_arg *dst) {
  copy_job job;
  int32_t status = gr_image_open(src_env, src, "source", &job.src);
  if (!status) status = gr_image_open(dst_env, dst, "destination", &job.dst);
  if (!status) status = choose(&job);
  if (status || !elements(&job.src)) return status;    /* rows of no elements are pages, but of no bytes */
  gr_device_enter(job.src.device);
  gr_device_enter(job.dst.device);
  status = run(&job);
  gr_device_leave(job.dst.device);
  gr_device_leave(job.src.device);
  return status;
}

int32_t gr_copy(const gr_env *src_env, const gr_arg *src, const gr_env *dst_env, const gr_arg *dst) {
  int32_t status = copy(src_env, src, dst_env, dst);
  if (status) return status;
  gr_moving move = gr_move_of(src_env, src, dst_env, dst);
  gr_moved_add(&move);
  return GR_OK;
}

/* NULL, and an error, if the call is no copy. */
static const gr_copy_envs *envs_of(const gr_call *call) {
  if (call->nargs == 2 && call->attrs) return (const gr_copy_envs *)(const void *)call->attrs;
  gr_fail(GR_ERR_ARGUMENT, "a copy takes a source and a destination");
  return NULL;
}

int32_t gr_copy_kernel(const gr_call *call) {
  const gr_copy_envs *envs = envs_of(call);
  return envs ? gr_copy(envs->src, call->args, envs->dst, call->args + 1) : GR_ERR_ARGUMENT;
}

int32_t gr_copy_queued(const gr_call *call) {
  const gr_copy_envs *envs = envs_of(call);
  return envs ? copy(envs->src, call->args, envs->dst, call->args + 1) : GR_ERR_ARGUMENT;
}

gr_kernel_fn gr_copy_kernel_fn(void) { return gr_copy_kernel; }
