/* buffer.c: blocks of device memory that know their events: who wrote them last, who reads them since.
 *
 * Called by graph_runtime/run/queues/buffer.py (any thread), idle.c and submit.c.
 * defines: gr_buffer_*, gr_events_*, gr_device_blocks, gr_async_lock
 */
#include <stdlib.h>

#include "async.h"
#include "guard.h"
#include "status.h"

#define NUM_BUCKETS 1024

pthread_mutex_t gr_async_lock = PTHREAD_MUTEX_INITIALIZER;
static gr_buffer *all[NUM_BUCKETS];          /* by address */
static uint64_t buffers_made;

/* ---------------------------------------------------------------- events */

void gr_events_clear(gr_events *events) {
  for (int32_t i = 0; i < events->count; ++i) gr_run_release(events->items[i].run);
  events->count = 0;
}

/* Forgets events that are over. For reads: whether what they did went well is of no matter to the buffer. */
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

static const gr_event *first_pending(const gr_events *events) {
  for (int32_t i = 0; i < events->count; ++i)
    if (!gr_event_over(events->items + i)) return events->items + i;
  return NULL;
}

int gr_buffer_in_use(const gr_buffer *buffer) {
  return first_pending(&buffer->writes) || first_pending(&buffer->reads);
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

void gr_buffer_renumber(gr_buffer *buffer) { buffer->id = ++buffers_made; }

void gr_buffers_close(const gr_device *device) {
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (gr_buffer *buffer = all[b]; buffer; buffer = buffer->next)
      if (buffer->device == device) buffer->device = NULL;
}

/* ---------------------------------------------------------------- what Python calls */

gr_buffer *gr_buffer_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder, int32_t to_write) {
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer *buffer = gr_buffer_take(device, memory, extent, holder, to_write);
  pthread_mutex_unlock(&gr_async_lock);
  return buffer;
}

gr_buffer *gr_buffer_borrow(gr_device *device, int32_t memory, uint64_t addr, uint64_t extent) {
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer *buffer = *bucket_of(addr);
  while (buffer && !(buffer->addr == addr && buffer->device == device && buffer->memory == memory &&
                     !buffer->hollow && atomic_load_explicit(&buffer->refs, memory_order_relaxed)))
    buffer = buffer->next;
  if (buffer) atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
  else buffer = gr_buffer_make(device, memory, addr, extent, 0);
  pthread_mutex_unlock(&gr_async_lock);
  return buffer;
}

void gr_buffer_release(gr_buffer *buffer) {
  if (!buffer) return;
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer_drop(buffer, 0);
  pthread_mutex_unlock(&gr_async_lock);
}

void gr_buffer_return(gr_buffer *buffer) {
  if (!buffer) return;
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer_drop(buffer, 1);
  pthread_mutex_unlock(&gr_async_lock);
}

uint64_t gr_buffer_addr(const gr_buffer *buffer) { return buffer->addr; }

uint64_t gr_buffer_id(const gr_buffer *buffer) { return buffer->id; }

uint64_t gr_buffer_version(gr_buffer *buffer) {
  pthread_mutex_lock(&gr_async_lock);
  uint64_t version = buffer->version;
  pthread_mutex_unlock(&gr_async_lock);
  return version;
}

/* A pending event of the buffer, with a reference to its run; 0 where there is none. */
static int find_pending(gr_buffer *buffer, int32_t readers, gr_event *event) {
  pthread_mutex_lock(&gr_async_lock);
  const gr_event *found = first_pending(&buffer->writes);
  if (!found && readers) found = first_pending(&buffer->reads);
  if (found) {
    *event = *found;
    gr_run_retain(event->run);
  }
  pthread_mutex_unlock(&gr_async_lock);
  return found != NULL;
}

int32_t gr_buffer_pending(gr_buffer *buffer, int32_t readers) {
  gr_event event;
  if (!find_pending(buffer, readers, &event)) return 0;
  gr_run_release(event.run);
  return 1;
}

int32_t gr_buffer_wait(gr_buffer *buffer, int32_t readers, int64_t budget_ns) {
  int64_t deadline = gr_now_ns() + budget_ns;
  gr_event event;
  while (find_pending(buffer, readers, &event)) {
    int32_t status = gr_event_wait(&event, deadline);
    gr_run_release(event.run);
    if (status) return status;
  }
  return GR_OK;
}

int32_t gr_buffer_failure(gr_buffer *buffer, gr_failure *out) {
  int32_t status = GR_OK;
  pthread_mutex_lock(&gr_async_lock);
  for (int32_t i = 0; i < buffer->writes.count && !status; ++i) {
    const gr_event *event = buffer->writes.items + i;
    const gr_cause *cause = gr_event_over(event) ? gr_event_cause(event) : NULL;
    if (!cause) continue;
    status = cause->failure.status;
    if (out) *out = cause->failure;
  }
  pthread_mutex_unlock(&gr_async_lock);
  return status;
}

/* Where nothing is pending, in the same hold of the lock: the contents are the caller's to write. */
static int32_t begin_write(gr_buffer *buffer) {
  int32_t status = GR_OK;
  pthread_mutex_lock(&gr_async_lock);
  if (buffer->owned && !buffer->device) {
    status = gr_fail(GR_ERR_ARGUMENT, "a buffer's device is closed");
  } else if (buffer->hollow) {
    status = gr_fail(GR_ERR_ARGUMENT, "the memory of values that never came is given back");
  } else if (gr_buffer_in_use(buffer)) {
    status = GR_INTERRUPTED;
  } else {
    gr_events_clear(&buffer->writes);
    gr_events_prune(&buffer->reads);
    buffer->version += 1;
    if (buffer->on_host) gr_guard_open(buffer->addr);
  }
  pthread_mutex_unlock(&gr_async_lock);
  return status;
}

int32_t gr_buffer_write(gr_buffer *buffer, int64_t budget_ns) {
  int64_t deadline = 0;
  int32_t status;
  while ((status = begin_write(buffer)) == GR_INTERRUPTED) {
    if (!deadline) deadline = gr_now_ns() + budget_ns;
    status = gr_buffer_wait(buffer, 1, deadline - gr_now_ns());
    if (status) break;
  }
  return status;
}

gr_buffer *gr_buffer_renew(gr_buffer *buffer, uint64_t version) {
  gr_buffer *fresh = NULL;
  pthread_mutex_lock(&gr_async_lock);
  if (!buffer->hollow && buffer->device && buffer->version == version && !gr_buffer_in_use(buffer))
    fresh = gr_buffer_make(buffer->device, buffer->memory, buffer->addr, buffer->extent, buffer->owned);
  if (fresh) {
    fresh->version = version + 1;
    buffer->owned = buffer->on_host = 0;
    buffer->hollow = 1;
  }
  pthread_mutex_unlock(&gr_async_lock);
  return fresh;
}

void gr_buffer_written(gr_buffer *buffer) {
  if (buffer->on_host) gr_guard_close(buffer->addr);
}

/* ---------------------------------------------------------------- what a memory holds */

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
  int64_t count = gr_device_list(device, memory, out, most);
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
