/* idle.c: blocks that have no holder, by device, memory and size, together with their events. The next user of a block
 * waits for them, so freeing never waits and a block is never used by two at once.
 *
 * Order of choice: a block that leaves and whose events are over is freed, not taken again; then the oldest idle block
 * if its events are over; else fresh memory, so that submissions need not wait for one another, until PENDING_MOST
 * blocks of that size are idle with work to come; then the oldest. For the host, which would wait itself, fresh memory
 * is taken beyond that while those blocks hold less than PENDING_BYTES_MOST.
 *
 * In L1, where scripts reckon with addresses, a block lies where it would if idle blocks were free: it takes the idle
 * block that has this place and its size, or waits until those in the way are no longer needed.
 *
 * Called by access.c and submit.c under gr_async_lock, by worker.c and ending.c, and by
 * graph_runtime/run/queues/buffer.py and blocks.py.
 * defines: gr_buffer_take, gr_buffer_drop, gr_reclaim, gr_buffers_*
 */
#include <stdlib.h>

#include "async.h"
#include "guard.h"
#include "status.h"

#define NUM_BUCKETS 256
#define PENDING_MOST 16
#define PENDING_BYTES_MOST (64ull << 20)
#define IDLE_BYTES_MOST (256ull << 20)   /* bytes of one memory that idle blocks may keep from the system */

typedef struct idle_class {
  gr_device *device;
  int32_t memory;
  int32_t count;
  uint64_t extent;
  gr_buffer *oldest, *newest;
  struct idle_class *next;
} idle_class;

static idle_class *buckets[NUM_BUCKETS];
static _Atomic int32_t leaving;           /* idle blocks that go back as soon as no work needs them */

static idle_class *class_of(gr_device *device, int32_t memory, uint64_t extent) {
  uint64_t hash = ((uint64_t)(uintptr_t)device >> 6) + (uint64_t)memory * 131 + extent / 64 * 0x9E3779B97F4A7C15ull;
  idle_class **bucket = &buckets[hash >> 32 & (NUM_BUCKETS - 1)];
  for (idle_class *at = *bucket; at; at = at->next)
    if (at->device == device && at->memory == memory && at->extent == extent) return at;
  idle_class *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  *made = (idle_class){.device = device, .memory = memory, .extent = extent, .next = *bucket};
  return *bucket = made;
}

static void take_out(idle_class *class, gr_buffer *buffer) {
  gr_buffer **at = &class->oldest, *earlier = NULL;
  for (; *at != buffer; at = &(*at)->later) earlier = *at;
  *at = buffer->later;
  if (class->newest == buffer) class->newest = earlier;
  class->count -= 1;
  buffer->later = NULL;
  gr_device_memory *m = class->device->memories + class->memory;
  m->idle -= buffer->extent;
  if (m->desc.kind == GR_L1) gr_device_give_back(class->device, class->memory, buffer->addr, 0);
  if (buffer->leaves) atomic_fetch_sub_explicit(&leaving, 1, memory_order_relaxed);
}

static gr_buffer *pop(idle_class *class) {
  gr_buffer *buffer = class->oldest;
  take_out(class, buffer);
  return buffer;
}

static void push(idle_class *class, gr_buffer *buffer) {
  if (class->newest) class->newest->later = buffer;
  else class->oldest = buffer;
  class->newest = buffer;
  class->count += 1;
  gr_device_memory *m = class->device->memories + class->memory;
  m->idle += buffer->extent;
  buffer->leaves |= m->desc.kind == GR_L1;
  if (m->desc.kind == GR_L1) gr_device_give_back(class->device, class->memory, buffer->addr, 1);
  if (buffer->leaves) atomic_fetch_add_explicit(&leaving, 1, memory_order_relaxed);
}

/* Whether a block that no work needs goes back at once: in L1, which circular buffers need; in guard mode, so that
 * fresh memory is filled; and if idle blocks hold too much. */
static int goes_back(const gr_buffer *buffer) {
  const gr_device_memory *m = buffer->device->memories + buffer->memory;
  return m->desc.kind == GR_L1 || buffer->device->guard ||
         (m->idle + buffer->extent) * (uint64_t)m->desc.banks > IDLE_BYTES_MOST;
}

/* Whether too many blocks of a size are idle with work to come to take fresh memory. */
static int are_many(const idle_class *class, int to_write) {
  uint64_t banks = (uint64_t)class->device->memories[class->memory].desc.banks;
  return class->count >= PENDING_MOST &&
         !(to_write && (uint64_t)class->count * class->extent * banks < PENDING_BYTES_MOST);
}

static gr_buffer *reuse(idle_class *class, gr_buffer *buffer) {
  if (gr_events_reserve(&buffer->reads, buffer->writes.count)) return NULL;
  take_out(class, buffer);
  for (int32_t i = 0; i < buffer->writes.count; ++i) {   /* old values: to be waited for, not to be read */
    gr_event event = buffer->writes.items[i];
    gr_events_add(&buffer->reads, event.run, event.lane, event.value);
  }
  gr_events_clear(&buffer->writes);
  buffer->refs = 1;
  buffer->leaves = 0;
  buffer->version = 0;
  gr_buffer_renumber(buffer);
  return buffer;
}

/* Under gr_async_lock: updates the most bytes a bank that a memory has held, and that were in use, without idle
 * blocks. */
static void note_use(gr_device_memory *m, gr_device *device, int32_t anew) {
  pthread_mutex_lock(&device->lock);
  uint64_t held = m->ledger.held;
  pthread_mutex_unlock(&device->lock);
  if (anew || held > m->most_held) m->most_held = held;
  if (anew || held - m->idle > m->most_used) m->most_used = held - m->idle;
}

static gr_buffer *take_fresh(gr_device *device, int32_t memory, uint64_t extent, const char *holder) {
  uint64_t addr;
  if (gr_device_alloc(device, memory, extent, holder, &addr)) return NULL;
  gr_buffer *buffer = gr_buffer_make(device, memory, addr, extent, 1);
  if (!buffer) gr_device_free(device, memory, addr);
  else if (device->memories[memory].desc.kind == GR_HOST) gr_guard_close(addr);
  return buffer;
}

static gr_buffer *take(gr_device *device, int32_t memory, uint64_t extent, const char *holder, int to_write) {
  idle_class *class = class_of(device, memory, extent);
  while (class && class->oldest && class->oldest->leaves && !gr_buffer_in_use(class->oldest))
    gr_buffer_unmake(pop(class));      /* its worker is about to */
  if (class && class->oldest && (are_many(class, to_write) || !gr_buffer_in_use(class->oldest)))
    return reuse(class, class->oldest);
  gr_buffer *buffer = take_fresh(device, memory, extent, holder);
  return buffer || !class || !class->oldest ? buffer : reuse(class, class->oldest);
}

static gr_buffer *take_in_place(gr_device *device, int32_t memory, uint64_t extent, const char *holder) {
  uint64_t addr, there;
  while (device->memories[memory].idle && gr_device_place_later(device, memory, extent, &addr, &there)) {
    gr_buffer *buffer = gr_buffer_idle_at(device, memory, there);
    idle_class *class = buffer ? class_of(device, memory, buffer->extent) : NULL;
    if (!class) break;
    if (gr_buffer_in_use(buffer)) {
      if (there == addr && buffer->extent == extent) return reuse(class, buffer);
      gr_fail(GR_ERR_OUT_OF_MEMORY, "%s has its place in L1 of %s when queued work is over", holder, device->name);
      return NULL;
    }
    take_out(class, buffer);           /* its worker is about to */
    gr_buffer_unmake(buffer);
  }
  return take_fresh(device, memory, extent, holder);
}

gr_buffer *gr_buffer_take(gr_device *device, int32_t memory, uint64_t extent, const char *holder, int to_write) {
  if (memory < 0 || memory >= device->num_memories) {
    gr_fail(GR_ERR_ARGUMENT, "device %s has memories 0 to %d, not %d", device->name, device->num_memories - 1,
            memory);
    return NULL;
  }
  gr_buffer *buffer = device->memories[memory].desc.kind == GR_L1
                        ? take_in_place(device, memory, extent, holder)
                        : take(device, memory, extent, holder, to_write);
  if (buffer) note_use(device->memories + memory, device, 0);
  return buffer;
}

void gr_buffer_drop(gr_buffer *buffer, int now) {
  if (atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) > 1) return;
  idle_class *class = NULL;
  if (buffer->owned && buffer->device && (gr_buffer_in_use(buffer) || !(now || goes_back(buffer))))
    class = class_of(buffer->device, buffer->memory, buffer->extent);
  if (class) {
    buffer->leaves = now;
    push(class, buffer);
  } else {
    gr_buffer_unmake(buffer);
  }
}

enum { ALL, LEAVING, LET_GO };    /* which blocks trim frees; LET_GO: all, and those in use when they no longer are */

/* Frees idle blocks of a class that no work needs; returns how many, and whether others will follow. */
static int64_t trim(idle_class *class, int which, int *more) {
  int64_t freed = 0;
  for (int32_t left = class->count; left > 0; --left) {
    gr_buffer *buffer = pop(class);
    int used = gr_buffer_in_use(buffer);
    if (used || (which == LEAVING && !buffer->leaves)) {
      buffer->leaves |= which == LET_GO;
      push(class, buffer);
      *more |= used;
    } else {
      gr_buffer_unmake(buffer);
      freed += 1;
    }
  }
  return freed;
}

int32_t gr_reclaim(gr_device *device, int32_t memory, int64_t budget_ns) {
  if (memory < 0 || memory >= device->num_memories) return 0;
  int more = 0;
  int64_t freed = 0;
  uint64_t seen = gr_runs_ended(0, 0);
  pthread_mutex_lock(&gr_async_lock);
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (idle_class *class = buckets[b]; class; class = class->next)
      if (class->device == device && class->memory == memory) freed += trim(class, ALL, &more);
  pthread_mutex_unlock(&gr_async_lock);
  if (freed) return 1;
  uint64_t kept[3];
  gr_circular_stats(device, memory, kept);
  if (!more && !kept[0]) return 0;
  gr_runs_ended(seen, budget_ns);
  return 2;
}

void gr_buffers_run_ended(void) {
  if (!atomic_load_explicit(&leaving, memory_order_relaxed)) return;
  int more = 0;
  pthread_mutex_lock(&gr_async_lock);
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (idle_class *class = buckets[b]; class; class = class->next) trim(class, LEAVING, &more);
  pthread_mutex_unlock(&gr_async_lock);
}

void gr_buffers_let_go(gr_device *device) {
  int more = 0;
  pthread_mutex_lock(&gr_async_lock);
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (idle_class *class = buckets[b]; class; class = class->next)
      if (class->device == device) trim(class, LET_GO, &more);
  pthread_mutex_unlock(&gr_async_lock);
}

uint64_t gr_buffers_idle(gr_device *device, int32_t memory) {
  if (memory < 0 || memory >= device->num_memories) return 0;
  pthread_mutex_lock(&gr_async_lock);
  uint64_t idle = device->memories[memory].idle;
  pthread_mutex_unlock(&gr_async_lock);
  return idle;
}

int32_t gr_buffers_most(gr_device *device, int32_t memory, int32_t reset, uint64_t *out) {
  if (memory < 0 || memory >= device->num_memories)
    return gr_fail(GR_ERR_ARGUMENT, "device %s has no memory %d", device->name, memory);
  gr_device_memory *m = device->memories + memory;
  pthread_mutex_lock(&gr_async_lock);
  note_use(m, device, 0);
  out[0] = m->most_used;
  out[1] = m->most_held;
  if (reset) note_use(m, device, 1);
  pthread_mutex_unlock(&gr_async_lock);
  return GR_OK;
}

void gr_buffers_abandon(void) {
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (idle_class *class = buckets[b]; class; class = class->next)
      for (int32_t left = class->count; left > 0; --left) {
        gr_buffer *buffer = pop(class);
        if (!gr_buffer_in_use(buffer)) push(class, buffer);
      }
}

void gr_buffers_forget(gr_device *device) {
  pthread_mutex_lock(&gr_async_lock);
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (idle_class **at = &buckets[b]; *at;) {
      idle_class *class = *at;
      if (class->device != device) {
        at = &class->next;
        continue;
      }
      while (class->oldest) gr_buffer_unmake(pop(class));
      *at = class->next;
      free(class);
    }
  gr_buffers_close(device);
  pthread_mutex_unlock(&gr_async_lock);
}
