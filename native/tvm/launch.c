/* launch.c: parallel loops of TVM operators over the intra-op pool.
 *
 * A lambda splits its loop by env->num_task, so any number of tasks is right; a body with a barrier needs
 * all of them to run at once, so a launch takes as many as the pool gives it now, one if another session
 * has the pool. Where a task fails, the barrier lets the others go with an error instead of waiting for a
 * task that will not come.
 *
 * Called by operators, on the thread that runs the program.
 * defines: TVMBackendParallelLaunch, TVMBackendParallelBarrier
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "parallel.h"
#include "status.h"
#include "tvm_backend.h"

typedef struct launch {
  tvm_parallel_lambda lambda;
  void *cdata;
  tvm_parallel_env env;         /* sync_handle points back here; num_task is set before the first task begins */
  _Atomic int32_t arrived;      /* tasks inside the present barrier */
  _Atomic int32_t generation;   /* barriers passed */
  _Atomic int32_t failed;       /* tasks that returned an error */
  pthread_mutex_t lock;         /* text */
  size_t used;
  char text[GR_ERROR_BYTES];
} launch;

static void record_error(launch *l, int32_t task) {
  pthread_mutex_lock(&l->lock);
  int n = snprintf(l->text + l->used, sizeof l->text - l->used, "%sTask %d error: %s", l->used ? "\n" : "", task,
                   *gr_error_text() ? gr_error_text() : "no message");
  if (n > 0) l->used = l->used + (size_t)n < sizeof l->text ? l->used + (size_t)n : sizeof l->text - 1;
  pthread_mutex_unlock(&l->lock);
  atomic_fetch_add_explicit(&l->failed, 1, memory_order_release);
}

static int32_t run_task(void *ctx, int64_t index) {
  launch *l = ctx;
  gr_error_clear();
  if (l->lambda((int32_t)index, &l->env, l->cdata)) record_error(l, (int32_t)index);
  return GR_OK;                 /* the other tasks still begin: they may be waited for in a barrier */
}

int32_t TVMBackendParallelLaunch(tvm_parallel_lambda lambda, void *cdata, int32_t num_task) {
  if (gr_pool_in_task()) {
    gr_fail(GR_ERR_KERNEL, "Cannot launch parallel job inside worker, consider fuse then parallel");
    return -1;
  }
  launch l = {.lambda = lambda, .cdata = cdata, .lock = PTHREAD_MUTEX_INITIALIZER};
  l.env.sync_handle = &l;
  gr_pool_run_team(num_task, &l.env.num_task, run_task, &l);
  pthread_mutex_destroy(&l.lock);
  if (!atomic_load_explicit(&l.failed, memory_order_acquire)) return 0;
  gr_fail(GR_ERR_KERNEL, "%s", l.text);
  return -1;
}

int32_t TVMBackendParallelBarrier(int32_t task, tvm_parallel_env *env) {
  (void)task;
  launch *l = env->sync_handle;
  int32_t generation = atomic_load_explicit(&l->generation, memory_order_acquire);
  /* acq_rel: what every task wrote before the barrier is seen by all after it */
  if (atomic_fetch_add_explicit(&l->arrived, 1, memory_order_acq_rel) + 1 == env->num_task) {
    atomic_store_explicit(&l->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&l->generation, generation + 1, memory_order_release);
    return 0;
  }
  for (int64_t spins = 1; atomic_load_explicit(&l->generation, memory_order_acquire) == generation; ++spins) {
    if (atomic_load_explicit(&l->failed, memory_order_acquire)) {
      gr_fail(GR_ERR_KERNEL, "another task of this parallel loop failed before the barrier");
      return -1;
    }
    if (spins % 1024 == 0) sched_yield();
  }
  return 0;
}
