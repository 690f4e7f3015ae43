/* access.c: a buffer's holder takes it and gives it back, waits for queued work that uses it, and writes it.
 *
 * Called by graph_runtime/run/queues/buffer.py (any thread) and gather.c.
 * defines: gr_buffer_alloc, gr_buffer_borrow, gr_buffer_release, gr_buffer_return, gr_buffer_addr, gr_buffer_id,
 * gr_buffer_version, gr_buffer_pending, gr_buffer_wait, gr_buffer_failure, gr_buffer_write, gr_buffer_written,
 * gr_buffer_renew
 */
#include "async.h"
#include "clock.h"
#include "guard.h"
#include "status.h"

/* ---------------------------------------------------------------- taking and giving back */

gr_buffer *gr_buffer_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder, int32_t to_write) {
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer *buffer = gr_buffer_take(device, memory, extent, holder, to_write);
  pthread_mutex_unlock(&gr_async_lock);
  return buffer;
}

gr_buffer *gr_buffer_borrow(gr_device *device, int32_t memory, uint64_t addr, uint64_t extent) {
  pthread_mutex_lock(&gr_async_lock);
  gr_buffer *buffer = gr_buffer_find(device, memory, addr);
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

/* ---------------------------------------------------------------- waiting for what is queued */

/* A pending event of the buffer, with a reference to its run; 0 if there is none. */
static int find_pending(gr_buffer *buffer, int32_t readers, gr_event *event) {
  pthread_mutex_lock(&gr_async_lock);
  const gr_event *found = gr_events_pending(&buffer->writes);
  if (!found && readers) found = gr_events_pending(&buffer->reads);
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

/* ---------------------------------------------------------------- writing */

/* If nothing is pending, without letting go of the lock: the caller may write the contents. */
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
