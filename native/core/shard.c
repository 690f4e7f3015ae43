/* shard.c: the cuts of sharded tensors that a device knows, and a tensor's bytes in each bank.
 *
 * Called by device.c (under the device's lock) to add, by copies and page transfers on any thread to look up.
 * defines: gr_shard_add, gr_shard_of, gr_shard_table_clear, gr_bank_extent
 */
#include "shard.h"

#include <stdlib.h>
#include <string.h>

#include "status.h"

static const gr_shard *entry(const gr_shard_table *table, int32_t index) {
  return atomic_load_explicit(&table->chunks[index / GR_SHARD_CHUNK], memory_order_acquire) +
         index % GR_SHARD_CHUNK;
}

/* Below 2^31 each, so that products of two never overflow. */
static int is_sane(const gr_shard *shard) {
  const int64_t sizes[] = {shard->across, shard->rows, shard->cols,  shard->unit_bytes,
                           shard->split,  shard->line, shard->outer, shard->inner};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i)
    if (sizes[i] < 1 || sizes[i] > INT32_MAX) return 0;
  if (shard->table ? shard->listed < 1 || shard->slots < 1 || shard->slots > INT32_MAX : shard->listed || shard->slots)
    return 0;
  return shard->first >= 0 && shard->first <= INT32_MAX;
}

int32_t gr_shard_add(gr_shard_table *table, const gr_shard *shard, const char *device, uint64_t *number) {
  if (!is_sane(shard))
    return gr_fail(GR_ERR_ARGUMENT, "%s: a shard's sizes are 1 to %d, its first bank is 0 or more", device,
                   INT32_MAX);
  int32_t count = atomic_load_explicit(&table->count, memory_order_relaxed);
  for (int32_t i = 0; i < count; ++i)
    if (memcmp(entry(table, i), shard, sizeof *shard) == 0) {
      *number = (uint64_t)i + 1;
      return GR_OK;
    }
  if (count == GR_SHARD_CHUNK * GR_SHARD_CHUNKS)
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "%s knows %d ways to shard a tensor already, which is as many as it can",
                   device, count);
  gr_shard *chunk = atomic_load_explicit(&table->chunks[count / GR_SHARD_CHUNK], memory_order_relaxed);
  if (!chunk) {
    chunk = calloc(GR_SHARD_CHUNK, sizeof *chunk);
    if (!chunk) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for the shards of %s", device);
    atomic_store_explicit(&table->chunks[count / GR_SHARD_CHUNK], chunk, memory_order_release);
  }
  chunk[count % GR_SHARD_CHUNK] = *shard;
  atomic_store_explicit(&table->count, count + 1, memory_order_release);
  *number = (uint64_t)count + 1;
  return GR_OK;
}

int32_t gr_shard_of(const gr_shard_table *table, const gr_arg *arg, const gr_shard **shard) {
  uint64_t number = arg->memory == GR_HOST ? 0 : arg->addr >> GR_SHARD_SHIFT;
  *shard = NULL;
  if (!number) return GR_OK;
  if (number > (uint64_t)atomic_load_explicit(&table->count, memory_order_acquire))
    return gr_fail(GR_ERR_BOUNDS, "address %llu names shard %llu, which its device does not know",
                   (unsigned long long)arg->addr, (unsigned long long)number);
  *shard = entry(table, (int32_t)number - 1);
  return GR_OK;
}

void gr_shard_table_clear(gr_shard_table *table) {
  for (int32_t i = 0; i < GR_SHARD_CHUNKS; ++i) {
    free(atomic_load_explicit(&table->chunks[i], memory_order_relaxed));
    atomic_store_explicit(&table->chunks[i], NULL, memory_order_relaxed);
  }
  atomic_store_explicit(&table->count, 0, memory_order_relaxed);
}

int gr_bank_extent(const gr_memory_desc *memory, const gr_arg *arg, const gr_shard *shard, uint64_t *extent) {
  uint64_t bytes = arg->page_bytes, units;
  if (shard) {
    bytes = (uint64_t)shard->unit_bytes;
    units = shard->table ? (uint64_t)shard->slots : (uint64_t)shard->rows * (uint64_t)shard->cols;
  } else {
    units = ((uint64_t)arg->num_pages + (uint64_t)memory->banks - 1) / (uint64_t)memory->banks;
  }
  return !__builtin_mul_overflow(units, gr_page_stride(memory, arg, bytes), extent);
}
