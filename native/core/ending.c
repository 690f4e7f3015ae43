/* ending.c: the end of asynchronous execution: on a device that is closed, in a process that exits, and in a child of
 * fork, which has none of its parent's threads.
 *
 * Called by device.c through its hook, by graph_runtime/run/queues/buffer.py, and by fork; any thread.
 * defines: gr_async_drain, gr_async_marks, gr_async_reached, gr_async_within, gr_async_shutdown. Registers the hook of
 * device.c and the handlers of fork.
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "queue.h"

static int is_child(void) {
  return atomic_load_explicit(&gr_async_state, memory_order_relaxed) == GR_ASYNC_FORKED;
}

/* Under no lock; all lanes are over. */
static void stop(gr_queue *queue) {
  atomic_store_explicit(&queue->quit, 1, memory_order_seq_cst);
  pthread_mutex_lock(&queue->lock);
  pthread_cond_signal(&queue->wake);
  pthread_mutex_unlock(&queue->lock);
  pthread_join(queue->thread, NULL);
  queue->started = 0;
  free(queue->args);
  free(queue->packed);
  free(queue->scratch);
  queue->args = NULL;
  queue->packed = NULL;
  queue->scratch = NULL;
}

/* Waits until the queues (of a device, or all) are empty; 0 when the deadline has passed. */
static int drain(const gr_device *device, int64_t deadline_ns) {
  for (gr_queue *queue = atomic_load_explicit(&gr_queues, memory_order_acquire); queue; queue = queue->next)
    while ((!device || queue->device == device) && gr_queue_depth(queue)) {
      if (gr_now_ns() >= deadline_ns) return 0;
      gr_queue_poke(queue);                  /* an end must not depend on being woken */
      gr_runs_ended(gr_runs_ended(0, 0), 1000000);
    }
  return 1;
}

int32_t gr_async_drain(const gr_device *device, int64_t budget_ns) {
  return is_child() || drain(device, gr_now_ns() + budget_ns) ? GR_OK : GR_INTERRUPTED;
}

/* ---------------------------------------------------------------- the end of what came before */

static uint64_t pushed_to(const gr_queue *queue) {
  return atomic_load_explicit(&queue->pushed, memory_order_acquire);
}

/* Waits until the lanes of a queue up to number `mark` are over; 0 when the deadline has passed. */
static int reached(gr_queue *queue, uint64_t mark, int64_t deadline_ns) {
  for (;;) {
    uint64_t ended = gr_runs_ended(0, 0);    /* before the check: an end after it wakes this thread */
    if (atomic_load_explicit(&queue->passed, memory_order_seq_cst) >= mark) return 1;
    if (gr_now_ns() >= deadline_ns) return 0;
    gr_queue_poke(queue);
    gr_runs_ended(ended, 1000000);
  }
}

void gr_async_marks(const gr_device *device, uint64_t *marks) {
  memset(marks, 0, 3 * sizeof *marks);
  for (gr_queue *queue = atomic_load_explicit(&gr_queues, memory_order_acquire); queue; queue = queue->next)
    if (queue->device == device) marks[queue->role] = pushed_to(queue);
}

int32_t gr_async_reached(const gr_device *device, const uint64_t *marks, int64_t budget_ns) {
  int64_t deadline_ns = gr_now_ns() + budget_ns;
  if (is_child()) return GR_OK;
  for (gr_queue *queue = atomic_load_explicit(&gr_queues, memory_order_acquire); queue; queue = queue->next)
    if (queue->device == device && !reached(queue, marks[queue->role], deadline_ns)) return GR_INTERRUPTED;
  return GR_OK;
}

int32_t gr_async_within(const gr_device *device, uint64_t most, int64_t budget_ns) {
  uint64_t marks[3];
  gr_async_marks(device, marks);
  for (int32_t role = 0; role < 3; ++role) marks[role] = marks[role] > most ? marks[role] - most : 0;
  return gr_async_reached(device, marks, budget_ns);
}

/* ---------------------------------------------------------------- the end of a device */

/* Skips work that is queued on a device and joins its threads. */
static void close_queues(gr_device *device) {
  if (is_child()) return;
  for (int32_t role = 0; role < 3; ++role)
    if (device->queues[role]) atomic_store_explicit(&device->queues[role]->closed, 1, memory_order_seq_cst);
  drain(device, INT64_MAX);
  for (int32_t role = 0; role < 3; ++role)
    if (device->queues[role] && device->queues[role]->started) stop(device->queues[role]);
}

static void close_device(gr_device *device) {
  close_queues(device);
  gr_buffers_forget(device);
}

__attribute__((constructor)) static void watch_devices(void) { gr_device_on_close(close_device); }

/* ---------------------------------------------------------------- the end of the process */

int32_t gr_async_shutdown(int64_t budget_ns) {
  if (is_child()) return GR_OK;
  pthread_mutex_lock(&gr_async_lock);       /* a submission under way is queued by now, or will be refused */
  atomic_store_explicit(&gr_async_state, GR_ASYNC_SHUT, memory_order_seq_cst);
  pthread_mutex_unlock(&gr_async_lock);
  if (!drain(NULL, gr_now_ns() + budget_ns)) return GR_INTERRUPTED;
  for (gr_queue *queue = atomic_load_explicit(&gr_queues, memory_order_acquire); queue; queue = queue->next)
    if (queue->started) stop(queue);
  return GR_OK;
}

/* ---------------------------------------------------------------- fork */

/* While the process is copied no worker is in a section that these locks guard, so the child can use it. */
static void before_fork(void) {
  pthread_mutex_lock(&gr_async_lock);
  gr_devices_lock(1);
}

static void in_parent(void) {
  gr_devices_lock(0);
  pthread_mutex_unlock(&gr_async_lock);
}

static void in_child(void) {
  if (atomic_load_explicit(&gr_async_started, memory_order_relaxed)) {
    atomic_store_explicit(&gr_async_state, GR_ASYNC_FORKED, memory_order_relaxed);
    gr_buffers_abandon();
  }
  gr_devices_forget_circular();
  gr_devices_lock(0);
  pthread_mutex_unlock(&gr_async_lock);
  gr_watch_reset();
}

__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(before_fork, in_parent, in_child);
}
