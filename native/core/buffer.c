/* buffer.c: blocks of device memory that know their events. A block that nobody holds goes to the idle list
 * of its device, memory and size together with its events; whoever takes it waits for them, so freeing
 * never waits and a block is never used by two at once.
 *
 * Which idle block: the oldest if its events are over; else fresh memory, so that submissions need not wait
 * for one another, until PENDING_MOST of that size are idle with work to come; then the oldest.
 *
 * Called by graph_runtime/buffer.py (any thread) and submit.c.
 * defines: gr_buffer_*, gr_buffers_idle, gr_reclaim, gr_events_*, gr_async_lock
 */
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "status.h"

#define NUM_BUCKETS 256
#define PENDING_MOST 16
#define IDLE_BYTES_MOST (256ull << 20)   /* of one memory: what idle blocks may keep from the system */

typedef struct idle_class {
  gr_device *device;
  int32_t memory;
  int32_t count;
  uint64_t extent;
  gr_buffer *oldest, *newest;
  struct idle_class *next;
} idle_class;

pthread_mutex_t gr_async_lock = PTHREAD_MUTEX_INITIALIZER;
static idle_class *buckets[NUM_BUCKETS];
static gr_buffer *all;
static uint64_t buffers_made;
static _Atomic int32_t l1_waiting;        /* idle blocks of L1, which go back when work is over */

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

static int pending(const gr_buffer *buffer) {
  return first_pending(&buffer->writes) || first_pending(&buffer->reads);
}

/* ---------------------------------------------------------------- making and unmaking */

static gr_buffer *make(gr_device *device, int32_t memory, uint64_t addr, uint64_t extent, int32_t owned) {
  gr_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a buffer");
    return NULL;
  }
  *buffer = (gr_buffer){.refs = 1, .owned = owned, .device = device, .memory = memory, .addr = addr,
                        .extent = extent, .id = ++buffers_made, .next = all};
  if (all) all->before = buffer;
  all = buffer;
  return buffer;
}

static void unmake(gr_buffer *buffer) {
  if (buffer->owned && buffer->device) gr_device_free(buffer->device, buffer->memory, buffer->addr);
  if (buffer->next) buffer->next->before = buffer->before;
  if (buffer->before) buffer->before->next = buffer->next;
  else all = buffer->next;
  gr_events_clear(&buffer->writes);
  gr_events_clear(&buffer->reads);
  free(buffer->writes.items);
  free(buffer->reads.items);
  free(buffer);
}

/* ---------------------------------------------------------------- idle blocks */

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

static gr_buffer *pop(idle_class *class) {
  gr_buffer *buffer = class->oldest;
  class->oldest = buffer->later;
  if (!class->oldest) class->newest = NULL;
  class->count -= 1;
  buffer->later = NULL;
  gr_device_memory *m = class->device->memories + class->memory;
  m->idle -= buffer->extent;
  if (m->desc.kind == GR_L1) atomic_fetch_sub_explicit(&l1_waiting, 1, memory_order_relaxed);
  return buffer;
}

static void push(idle_class *class, gr_buffer *buffer) {
  if (class->newest) class->newest->later = buffer;
  else class->oldest = buffer;
  class->newest = buffer;
  class->count += 1;
  gr_device_memory *m = class->device->memories + class->memory;
  m->idle += buffer->extent;
  if (m->desc.kind == GR_L1) atomic_fetch_add_explicit(&l1_waiting, 1, memory_order_relaxed);
}

/* Whether a block that no work needs goes back at once: L1, because circular buffers want it; in guard mode,
 * so that fresh memory is filled; and what would be too much. */
static int give_back(const gr_buffer *buffer) {
  const gr_device_memory *m = buffer->device->memories + buffer->memory;
  return m->desc.kind == GR_L1 || buffer->device->guard ||
         (m->idle + buffer->extent) * (uint64_t)m->desc.banks > IDLE_BYTES_MOST;
}

static gr_buffer *reuse(idle_class *class) {
  if (gr_events_reserve(&class->oldest->reads, class->oldest->writes.count)) return NULL;
  gr_buffer *buffer = pop(class);
  for (int32_t i = 0; i < buffer->writes.count; ++i) {   /* old values: to be waited for, not to be read */
    gr_event event = buffer->writes.items[i];
    gr_events_add(&buffer->reads, event.run, event.lane, event.value);
  }
  gr_events_clear(&buffer->writes);
  buffer->refs = 1;
  buffer->version = 0;
  buffer->id = ++buffers_made;
  return buffer;
}

gr_buffer *gr_buffer_take(gr_device *device, int32_t memory, uint64_t extent, const char *holder) {
  if (memory < 0 || memory >= device->num_memories) {
    gr_fail(GR_ERR_ARGUMENT, "device %s has memories 0 to %d, not %d", device->name, device->num_memories - 1,
            memory);
    return NULL;
  }
  idle_class *class = class_of(device, memory, extent);
  if (class && class->oldest && (class->count >= PENDING_MOST || !pending(class->oldest))) return reuse(class);
  uint64_t addr;
  if (gr_device_alloc(device, memory, extent, holder, &addr)) return class && class->oldest ? reuse(class) : NULL;
  gr_buffer *buffer = make(device, memory, addr, extent, 1);
  if (!buffer) gr_device_free(device, memory, addr);
  return buffer;
}

void gr_buffer_drop(gr_buffer *buffer, int now) {
  if (atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) > 1) return;
  idle_class *class = NULL;
  if (buffer->owned && buffer->device && (pending(buffer) || !(now || give_back(buffer))))
    class = class_of(buffer->device, buffer->memory, buffer->extent);
  if (class) push(class, buffer);
  else unmake(buffer);
}

/* Frees idle blocks that no work needs; returns how many, and whether others will follow. */
static int64_t trim(const gr_device *device, int32_t memory, int *more) {
  int64_t freed = 0;
  *more = 0;
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (idle_class *class = buckets[b]; class; class = class->next) {
      if (class->device != device || class->memory != memory) continue;
      for (int32_t left = class->count; left > 0; --left) {
        gr_buffer *buffer = pop(class);
        if (pending(buffer)) {
          push(class, buffer);
          *more = 1;
        } else {
          unmake(buffer);
          freed += 1;
        }
      }
    }
  return freed;
}

int32_t gr_reclaim(gr_device *device, int32_t memory, int64_t budget_ns) {
  if (memory < 0 || memory >= device->num_memories) return 0;
  int more;
  uint64_t seen = gr_runs_ended(0, 0);
  pthread_mutex_lock(&gr_async_lock);
  int64_t freed = trim(device, memory, &more);
  pthread_mutex_unlock(&gr_async_lock);
  if (freed) return 1;
  if (!more) return 0;
  gr_runs_ended(seen, budget_ns);
  return 2;
}

void gr_buffers_run_ended(void) {
  if (!atomic_load_explicit(&l1_waiting, memory_order_relaxed)) return;
  int more;
  pthread_mutex_lock(&gr_async_lock);
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (idle_class *class = buckets[b]; class; class = class->next)
      if (class->oldest && class->device->memories[class->memory].desc.kind == GR_L1)
        trim(class->device, class->memory, &more);
  pthread_mutex_unlock(&gr_async_lock);
}

uint64_t gr_buffers_idle(gr_device *device, int32_t memory) {
  if (memory < 0 || memory >= device->num_memories) return 0;
  pthread_mutex_lock(&gr_async_lock);
  uint64_t idle = device->memories[memory].idle;
  pthread_mutex_unlock(&gr_async_lock);
  return idle;
}

void gr_buffers_abandon(void) {
  for (int b = 0; b < NUM_BUCKETS; ++b)
    for (idle_class *class = buckets[b]; class; class = class->next)
      for (int32_t left = class->count; left > 0; --left) {
        gr_buffer *buffer = pop(class);
        if (!pending(buffer)) push(class, buffer);
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
      while (class->oldest) unmake(pop(class));
      *at = class->next;
      free(class);
    }
  for (gr_buffer *buffer = all; buffer; buffer = buffer->next)
    if (buffer->device == device) buffer->device = NULL;
  pthread_mutex_unlock(&gr_async_lock);
}

/* ---------------------------------------------------------------- what Python calls */

gr_buffer *gr_buffer_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder) {
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer *buffer = gr_buffer_take(device, memory, extent, holder);
  pthread_mutex_unlock(&gr_async_lock);
  return buffer;
}

gr_buffer *gr_buffer_borrow(gr_device *device, int32_t memory, uint64_t addr, uint64_t extent) {
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer *buffer = make(device, memory, addr, extent, 0);
  pthread_mutex_unlock(&gr_async_lock);
  return buffer;
}

void gr_buffer_retain(gr_buffer *buffer) {
  atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
}

void gr_buffer_release(gr_buffer *buffer) {
  if (!buffer) return;
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer_drop(buffer, 0);
  pthread_mutex_unlock(&gr_async_lock);
}

uint64_t gr_buffer_addr(const gr_buffer *buffer) { return buffer->addr; }

uint64_t gr_buffer_extent(const gr_buffer *buffer) { return buffer->extent; }

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

void gr_buffer_overwritten(gr_buffer *buffer) {
  pthread_mutex_lock(&gr_async_lock);
  gr_events_clear(&buffer->writes);
  gr_events_prune(&buffer->reads);
  buffer->version += 1;
  pthread_mutex_unlock(&gr_async_lock);
}
