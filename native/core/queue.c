/* queue.c: queues are made at first use, filled by submissions, and ended: with their device, with the process,
 * or by fork, which leaves their threads in the parent.
 *
 * Lock order: gr_async_lock, then a queue's or a device's lock.
 * defines: gr_queue_of, gr_queue_push, gr_queue_depth, gr_queue_usable, gr_async_usable, gr_queues_close,
 * gr_async_shutdown
 */
#define _GNU_SOURCE            /* pthread_setname_np */
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "threads.h"

gr_queue *_Atomic gr_queues;
_Atomic int32_t gr_queues_shut;
static _Atomic int32_t forked;         /* this is a child, and the threads are its parent's */
static _Atomic int32_t any_started;

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
  atomic_store_explicit(&any_started, 1, memory_order_relaxed);
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
  gr_lane_run *newest = atomic_load_explicit(&queue->inbox, memory_order_relaxed);
  do lane->next = newest;
  while (!atomic_compare_exchange_weak_explicit(&queue->inbox, &newest, lane, memory_order_seq_cst,
                                                memory_order_relaxed));
}

int32_t gr_queue_depth(const gr_queue *queue) {
  return atomic_load_explicit(&queue->depth, memory_order_acquire);
}

int32_t gr_async_usable(void) {
  if (atomic_load_explicit(&forked, memory_order_relaxed))
    return gr_fail(GR_ERR_ARGUMENT,
                   "the queues' threads stayed in the parent process: start children before the first "
                   "asynchronous run, or by multiprocessing's \"spawn\"");
  if (atomic_load_explicit(&gr_queues_shut, memory_order_relaxed))
    return gr_fail(GR_ERR_ARGUMENT, "the interpreter is ending: nothing can be queued any more");
  return GR_OK;
}

int32_t gr_queue_usable(const gr_queue *queue) {
  if (atomic_load_explicit(&queue->closed, memory_order_relaxed))
    return gr_fail(GR_ERR_ARGUMENT, "the device of a queue is closed");
  return gr_async_usable();
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
      gr_runs_ended(gr_runs_ended(0, 0), 1000000);
    }
  return 1;
}

void gr_queues_close(gr_device *device) {
  if (atomic_load_explicit(&forked, memory_order_relaxed)) return;
  for (int32_t role = 0; role < 3; ++role)
    if (device->queues[role]) atomic_store_explicit(&device->queues[role]->closed, 1, memory_order_seq_cst);
  drain(device, INT64_MAX);
  for (int32_t role = 0; role < 3; ++role)
    if (device->queues[role] && device->queues[role]->started) stop(device->queues[role]);
}

int32_t gr_async_shutdown(int64_t budget_ns) {
  if (atomic_load_explicit(&forked, memory_order_relaxed)) return GR_OK;
  pthread_mutex_lock(&gr_async_lock);       /* who is submitting has submitted, or will see it */
  atomic_store_explicit(&gr_queues_shut, 1, memory_order_seq_cst);
  pthread_mutex_unlock(&gr_async_lock);
  if (!drain(NULL, gr_now_ns() + budget_ns)) return GR_INTERRUPTED;
  for (gr_queue *queue = atomic_load_explicit(&gr_queues, memory_order_acquire); queue; queue = queue->next)
    if (queue->started) stop(queue);
  return GR_OK;
}

/* ---------------------------------------------------------------- fork */

/* No worker is inside of what these locks guard while the process is copied, so the child can use it. */
static void before_fork(void) {
  pthread_mutex_lock(&gr_async_lock);
  gr_devices_lock(1);
}

static void in_parent(void) {
  gr_devices_lock(0);
  pthread_mutex_unlock(&gr_async_lock);
}

static void in_child(void) {
  if (atomic_load_explicit(&any_started, memory_order_relaxed)) {
    atomic_store_explicit(&forked, 1, memory_order_relaxed);
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
