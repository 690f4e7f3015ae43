/* buffer.c: the records of blocks of device memory, with their events: the last write of a block, and the reads since.
 *
 * Called under gr_async_lock by access.c, idle.c and submit.c, and by graph_runtime/run/queues/blocks.py (any thread).
 * defines: gr_events_*, gr_buffer_make, gr_buffer_unmake, gr_buffer_find, gr_buffer_idle_at, gr_buffer_renumber,
 * gr_buffers_close, gr_device_blocks
 */
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "status.h"

#define NUM_BUCKETS 1024

static gr_buffer *all[NUM_BUCKETS];          /* by address */
static uint64_t buffers_made;

/* ---------------------------------------------------------------- events */

void gr_events_clear(gr_events *events) {
  for (int32_t i = 0; i < events->count; ++i) gr_run_release(events->items[i].run);
  events->count = 0;
}

/* Forgets reads that are over: whether they succeeded does not matter to the buffer. */
void gr_events_prune(gr_events *events) {
  int32_t kept = 0;
  for (int32_t i = 0; i < events->count; ++i) {
    gr_event event = events->items[i];
    if (gr_event_over(&event)) gr_run_release(event.run);
    else events->items[kept++] = event;
  }
  events->count = kept;
}

int32_t gr_events_reserve(gr_events *events, int32_t more) {
  int32_t wanted = events->count + more;
  if (wanted <= events->capacity) return GR_OK;
  gr_event *items = realloc(events->items, (size_t)wanted * 2 * sizeof *items);
  if (!items) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for the events of a buffer");
  events->items = items;
  events->capacity = wanted * 2;
  return GR_OK;
}

void gr_events_add(gr_events *events, gr_run *run, int32_t lane, int32_t value) {
  gr_run_retain(run);
  events->items[events->count++] = (gr_event){run, lane, value};
}

/* ---------------------------------------------------------------- making and unmaking */

static gr_buffer **bucket_of(uint64_t addr) { return &all[(addr >> 6 ^ addr >> 16) & (NUM_BUCKETS - 1)]; }

gr_buffer *gr_buffer_make(gr_device *device, int32_t memory, uint64_t addr, uint64_t extent, int32_t owned) {
  gr_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a buffer");
    return NULL;
  }
  *buffer = (gr_buffer){.refs = 1, .owned = owned, .device = device, .memory = memory, .addr = addr,
                        .extent = extent, .id = ++buffers_made, .next = *bucket_of(addr)};
  buffer->on_host = owned && device->memories[memory].desc.kind == GR_HOST;
  if (buffer->next) buffer->next->before = buffer;
  return *bucket_of(addr) = buffer;
}

void gr_buffer_unmake(gr_buffer *buffer) {
  if (buffer->owned && buffer->device) gr_device_free(buffer->device, buffer->memory, buffer->addr);
  if (buffer->next) buffer->next->before = buffer->before;
  if (buffer->before) buffer->before->next = buffer->next;
  else *bucket_of(buffer->addr) = buffer->next;
  gr_events_clear(&buffer->writes);
  gr_events_clear(&buffer->reads);
  free(buffer->writes.items);
  free(buffer->reads.items);
  free(buffer);
}

static gr_buffer *find(const gr_device *device, int32_t memory, uint64_t addr, int held) {
  gr_buffer *buffer = *bucket_of(addr);
  while (buffer && !(buffer->addr == addr && buffer->device == device && buffer->memory == memory &&
                     !buffer->hollow && held == !!atomic_load_explicit(&buffer->refs, memory_order_relaxed)))
    buffer = buffer->next;
  return buffer;
}

gr_buffer *gr_buffer_find(const gr_device *device, int32_t memory, uint64_t addr) {
  return find(device, memory, addr, 1);
}

gr_buffer *gr_buffer_idle_at(const gr_device *device, int32_t memory, uint64_t addr) {
  return find(device, memory, addr, 0);
}

void gr_buffer_renumber(gr_buffer *buffer) { buffer->id = ++buffers_made; }

void gr_buffers_close(const gr_device *device) {
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (gr_buffer *buffer = all[b]; buffer; buffer = buffer->next)
      if (buffer->device == device) buffer->device = NULL;
}

/* ---------------------------------------------------------------- what a memory holds */

/* The blocks of a memory's ledger; all are GR_BLOCK_RESERVED. */
static int64_t list_ledger(gr_device *device, int32_t memory, gr_block *out, int64_t most) {
  const gr_ledger *ledger = &device->memories[memory].ledger;
  pthread_mutex_lock(&device->lock);
  int64_t count = ledger->count;
  for (int64_t i = 0; i < count && i < most; ++i) {
    const gr_holding *item = ledger->items + i;
    out[i] = (gr_block){.addr = item->addr, .extent = item->extent, .state = GR_BLOCK_RESERVED};
    memcpy(out[i].holder, item->holder, sizeof out[i].holder);
  }
  pthread_mutex_unlock(&device->lock);
  return count;
}

static gr_block *block_at(gr_block *blocks, int64_t count, uint64_t addr) {
  int64_t low = 0, high = count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (blocks[middle].addr < addr) low = middle + 1;
    else high = middle;
  }
  return low < count && blocks[low].addr == addr ? blocks + low : NULL;
}

int64_t gr_device_blocks(gr_device *device, int32_t memory, gr_block *out, int64_t most) {
  if (memory < 0 || memory >= device->num_memories) return 0;
  pthread_mutex_lock(&gr_async_lock);
  int64_t count = list_ledger(device, memory, out, most);
  int64_t listed = count < most ? count : most;
  for (int b = 0; b < NUM_BUCKETS && listed; ++b)
    for (const gr_buffer *buffer = all[b]; buffer; buffer = buffer->next) {
      if (!buffer->owned || buffer->device != device || buffer->memory != memory) continue;
      gr_block *block = block_at(out, listed, buffer->addr);
      if (!block) continue;
      int held = atomic_load_explicit(&buffer->refs, memory_order_relaxed) > 0;
      block->state = held ? GR_BLOCK_HELD : gr_buffer_in_use(buffer) ? GR_BLOCK_QUEUED : GR_BLOCK_IDLE;
    }
  pthread_mutex_unlock(&gr_async_lock);
  return count;
}
