/* shard.h: the places of a device tensor's pages in its banks. Interleaved pages go round over the banks; a sharded
 * tensor has in its address, above its bank address, the number of a gr_shard in its device's table.
 *
 * Used by the copy engine and the device kinds; lookups from any thread.
 * defines: gr_shard_table, gr_shard_add, gr_shard_of, gr_shard_table_clear, gr_bank_address, gr_page_stride,
 * gr_bank_extent
 */
#ifndef GR_SHARD_H
#define GR_SHARD_H

#include <stdatomic.h>

#include "gr_core.h"

#define GR_SHARD_SHIFT 48            /* bits of an address below the shard's number, which counts from 1 */
#define GR_SHARD_CHUNK 256
#define GR_SHARD_CHUNKS 255          /* 65280 cuts a device, kept until it is closed */

/* Grows and never moves, so that lookups need no lock. */
typedef struct gr_shard_table {
  gr_shard *_Atomic chunks[GR_SHARD_CHUNKS];
  _Atomic int32_t count;
} gr_shard_table;

/* Under the device's lock: the number of a cut, found or added; GR_ERR_ARGUMENT for one that cannot be. */
int32_t gr_shard_add(gr_shard_table *table, const gr_shard *shard, const char *device, uint64_t *number);
/* The cut of a tensor, NULL in *shard for an interleaved one. GR_ERR_BOUNDS for a number that was not given. */
int32_t gr_shard_of(const gr_shard_table *table, const gr_arg *arg, const gr_shard **shard);
void gr_shard_table_clear(gr_shard_table *table);

static inline uint64_t gr_bank_address(const gr_arg *arg) {
  return arg->memory == GR_HOST ? arg->addr : arg->addr & (((uint64_t)1 << GR_SHARD_SHIFT) - 1);
}

/* Bytes from one page (of a shard: unit) of `bytes` to the next in a bank, with its tile header and the padding. */
static inline uint64_t gr_page_stride(const gr_memory_desc *memory, const gr_arg *arg, uint64_t bytes) {
  uint64_t header = arg->layout == GR_TILE ? memory->tile_header : 0;
  return (bytes + header + memory->alignment - 1) / memory->alignment * memory->alignment;
}

/* Bytes of a tensor in each bank; returns 0 if they overflow. */
int gr_bank_extent(const gr_memory_desc *memory, const gr_arg *arg, const gr_shard *shard, uint64_t *extent);

#endif
