/* async.c: the process-wide state of asynchronous execution: its lock, its list of queues, and whether it still takes
 * work.
 *
 * Called by all files that include async.h, and by graph_runtime/run/queues/run.py; any thread.
 * Lock order: gr_async_lock, then a queue's or a device's lock.
 * defines: gr_async_lock, gr_async_state, gr_async_started, gr_queues, gr_async_usable
 */
#include "async.h"
#include "status.h"

pthread_mutex_t gr_async_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic int32_t gr_async_state = GR_ASYNC_OPEN;
_Atomic int32_t gr_async_started;
gr_queue *_Atomic gr_queues;

int32_t gr_async_usable(void) {
  int32_t state = atomic_load_explicit(&gr_async_state, memory_order_relaxed);
  if (state == GR_ASYNC_FORKED)
    return gr_fail(GR_ERR_ARGUMENT,
                   "the queues' threads stayed in the parent process: start children before the first "
                   "asynchronous run, or by multiprocessing's \"spawn\"");
  if (state == GR_ASYNC_SHUT)
    return gr_fail(GR_ERR_ARGUMENT, "the interpreter is ending: nothing can be queued any more");
  return GR_OK;
}
