/* queue.c: queues are made at first use, and filled by submissions.
 *
 * Called by template.c and submit.c, any thread.
 * defines: gr_queue_of, gr_queue_push, gr_queue_depth, gr_queue_usable
 */
#define _GNU_SOURCE            /* pthread_setname_np */
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "threads.h"

/* Under gr_async_lock. */
static int32_t start(gr_queue *queue) {
  static const char *const roles[] = {"", "-in", "-out"};
  int refused = gr_thread_start(&queue->thread, gr_queue_work, queue);
  if (refused)
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "the system refuses a thread for a queue of %s: %s",
                   queue->device->name, strerror(refused));
  char name[16];
  snprintf(name, sizeof name, "gr-%.8s%s", queue->device->name, roles[queue->role]);
  pthread_setname_np(queue->thread, name);
  queue->started = 1;
  atomic_store_explicit(&gr_async_started, 1, memory_order_relaxed);
  return GR_OK;
}

gr_queue *gr_queue_of(gr_device *device, int32_t role) {
  if (!device || role < GR_COMPUTE || role > GR_COPY_OUT) {
    gr_fail(GR_ERR_ARGUMENT, "a queue has a device, and a role from 0 to 2, not %d", role);
    return NULL;
  }
  if (gr_async_usable()) return NULL;
  pthread_mutex_lock(&gr_async_lock);
  gr_queue *queue = device->queues[role];
  if (!queue && (queue = calloc(1, sizeof *queue))) {
    queue->device = device;
    queue->role = role;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->wake, NULL);
    queue->next = atomic_load_explicit(&gr_queues, memory_order_relaxed);
    atomic_store_explicit(&gr_queues, queue, memory_order_release);
    device->queues[role] = queue;
  }
  int32_t status = !queue ? gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a queue")
                   : queue->started ? GR_OK
                                    : start(queue);
  pthread_mutex_unlock(&gr_async_lock);
  return status ? NULL : queue;
}

void gr_queue_push(gr_queue *queue, gr_lane_run *lane) {
  atomic_fetch_add_explicit(&queue->depth, 1, memory_order_relaxed);
  lane->number = atomic_load_explicit(&queue->pushed, memory_order_relaxed) + 1;
  atomic_store_explicit(&queue->pushed, lane->number, memory_order_release);
  gr_lane_run *newest = atomic_load_explicit(&queue->inbox, memory_order_relaxed);
  do lane->next = newest;
  while (!atomic_compare_exchange_weak_explicit(&queue->inbox, &newest, lane, memory_order_seq_cst,
                                                memory_order_relaxed));
}

int32_t gr_queue_depth(const gr_queue *queue) {
  return atomic_load_explicit(&queue->depth, memory_order_acquire);
}

int32_t gr_queue_usable(const gr_queue *queue) {
  if (atomic_load_explicit(&queue->closed, memory_order_relaxed))
    return gr_fail(GR_ERR_ARGUMENT, "the device of a queue is closed");
  return gr_async_usable();
}
