/* run.c: the state of a submission while it is queued and after: causes of failures, ends, and the threads that wait
 * for them.
 *
 * Called by graph_runtime/run/queues/run.py, access.c and ending.c (any thread), and by the queues' workers.
 * defines: gr_run_*, gr_runs_ended, gr_event_wait, gr_watch_*, gr_cause_*
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "async.h"
#include "clock.h"
#include "status.h"

/* Threads that sleep for a run or a lane. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  _Atomic uint64_t ended;          /* runs so far; changes under the lock where a thread waits for it */
  _Atomic int32_t watchers;        /* that wait for `ended` */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---------------------------------------------------------------- causes */

/* The cause of failures for which there is no memory to describe them. Its first reference is never dropped. */
static gr_cause no_memory = {.refs = 1,
                             .failure = {.status = GR_ERR_OUT_OF_MEMORY,
                                         .op = "queued work",
                                         .text = "the host has no memory to say what failed"}};

gr_cause *gr_cause_make(const gr_step *step, int64_t index, int32_t status, const char *text) {
  gr_cause *cause = calloc(1, sizeof *cause);
  if (!cause) {
    atomic_fetch_add_explicit(&no_memory.refs, 1, memory_order_relaxed);
    return &no_memory;
  }
  cause->refs = 1;
  gr_failure *failure = &cause->failure;
  failure->status = status;
  failure->step = (int32_t)index;
  snprintf(failure->node, sizeof failure->node, "%s", step->node ? step->node : "");
  snprintf(failure->op, sizeof failure->op, "%s", step->op ? step->op : "");
  const gr_device *device = gr_env_device(step->env);
  snprintf(failure->device, sizeof failure->device, "%s", device ? device->name : "");
  snprintf(failure->text, sizeof failure->text, "%s", text);
  return cause;
}

void gr_cause_release(gr_cause *cause) {
  if (cause && atomic_fetch_sub_explicit(&cause->refs, 1, memory_order_acq_rel) == 1) free(cause);
}

/* ---------------------------------------------------------------- runs */

void gr_run_retain(gr_run *run) { atomic_fetch_add_explicit(&run->refs, 1, memory_order_relaxed); }

void gr_run_release(gr_run *run) {
  if (!run || atomic_fetch_sub_explicit(&run->refs, 1, memory_order_acq_rel) > 1) return;
  for (int32_t l = 0; l < run->num_lanes; ++l) gr_cause_release(run->lanes[l].cause);
  free(run);
}

int32_t gr_run_done(const gr_run *run) {
  return atomic_load_explicit(&run->over, memory_order_seq_cst);
}

int32_t gr_run_failure(const gr_run *run, gr_failure *out) {
  const gr_lane_run *first = NULL;
  for (int32_t l = 0; l < run->num_lanes; ++l) {
    const gr_lane_run *lane = run->lanes + l;
    if (atomic_load_explicit(&lane->failed_at, memory_order_acquire) == INT32_MAX) continue;
    if (!first || lane->failed_step < first->failed_step) first = lane;
  }
  if (!first) return GR_OK;
  if (out) *out = first->cause->failure;
  return first->cause->failure.status;
}

int32_t gr_run_left(const gr_run *run, const gr_template *t, int32_t slot) {
  int written = 1, unchanged = 1, own = 0;
  for (int64_t u = t->usage_ptr[slot]; u < t->usage_ptr[slot + 1]; ++u) {
    const gr_usage *use = t->usages + u;
    if (use->first_write < 0) continue;
    const gr_lane_run *lane = run->lanes + use->lane;
    if (atomic_load_explicit(&lane->done, memory_order_acquire) <= use->last_write) return GR_LEFT_PENDING;
    int32_t failed_at = atomic_load_explicit(&lane->failed_at, memory_order_acquire);
    written &= failed_at > use->last_write;
    unchanged &= failed_at < use->first_write ||
                 (failed_at == use->first_write && lane->itself != GR_FAILED_MIDWAY);
  }
  for (int32_t l = 0; l < run->num_lanes; ++l)
    own |= atomic_load_explicit(&run->lanes[l].failed_at, memory_order_acquire) != INT32_MAX &&
           run->lanes[l].itself != GR_FAILED_BEFORE;
  if (written) return GR_LEFT_WRITTEN;
  return !unchanged ? GR_LEFT_UNDEFINED : own ? GR_LEFT_UNCHANGED : GR_LEFT_UNREACHED;
}

void gr_run_cancel(gr_run *run) { atomic_store_explicit(&run->cancelled, 1, memory_order_relaxed); }

void gr_run_end(gr_run *run) {
  atomic_fetch_sub_explicit(&run->tmpl->busy, 1, memory_order_release);
  atomic_fetch_add_explicit(&watch.ended, 1, memory_order_seq_cst);
  /* seq_cst: either the waiter sees that the run is over, or we see the waiter */
  atomic_store_explicit(&run->over, 1, memory_order_seq_cst);
  if (atomic_load_explicit(&run->watched, memory_order_seq_cst) ||
      atomic_load_explicit(&watch.watchers, memory_order_seq_cst))
    gr_watch_wake();
  gr_run_release(run);
}

/* ---------------------------------------------------------------- waiting */

__attribute__((constructor)) static void init_watch(void) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&watch.changed, &attr);
  pthread_condattr_destroy(&attr);
}

void gr_watch_wake(void) {
  pthread_mutex_lock(&watch.lock);
  pthread_cond_broadcast(&watch.changed);
  pthread_mutex_unlock(&watch.lock);
}

/* After fork: the child has none of the threads that might hold the lock or sleep. */
void gr_watch_reset(void) {
  pthread_mutex_init(&watch.lock, NULL);
  init_watch();
}

/* Under watch.lock; 0 when the deadline has passed. */
static int sleep_until(int64_t deadline_ns) {
  struct timespec at = {deadline_ns / 1000000000, deadline_ns % 1000000000};
  return pthread_cond_timedwait(&watch.changed, &watch.lock, &at) != ETIMEDOUT;
}

static int32_t wait_for(gr_run *run, const gr_event *event, int64_t deadline_ns) {
  int32_t bit = event ? GR_WATCH_STEPS : GR_WATCH_END, status = GR_OK;
  if (event ? gr_event_over(event) : gr_run_done(run)) return GR_OK;
  if ((status = gr_async_usable())) return status;      /* after fork no thread will end it */
  pthread_mutex_lock(&watch.lock);
  atomic_fetch_or_explicit(&run->watched, bit, memory_order_seq_cst);
  while (!(event ? gr_event_over(event) : gr_run_done(run)))
    if (!sleep_until(deadline_ns)) {
      status = GR_INTERRUPTED;
      break;
    }
  pthread_mutex_unlock(&watch.lock);
  return status;
}

int32_t gr_event_wait(const gr_event *event, int64_t deadline_ns) {
  return wait_for(event->run, event, deadline_ns);
}

int32_t gr_run_wait(gr_run *run, int64_t budget_ns) { return wait_for(run, NULL, gr_now_ns() + budget_ns); }

uint64_t gr_runs_ended(uint64_t seen, int64_t budget_ns) {
  uint64_t ended = atomic_load_explicit(&watch.ended, memory_order_seq_cst);
  if (ended != seen || budget_ns <= 0) return ended;
  int64_t deadline = gr_now_ns() + budget_ns;
  atomic_fetch_add_explicit(&watch.watchers, 1, memory_order_seq_cst);
  pthread_mutex_lock(&watch.lock);
  while ((ended = atomic_load_explicit(&watch.ended, memory_order_seq_cst)) == seen && sleep_until(deadline))
    ;
  pthread_mutex_unlock(&watch.lock);
  atomic_fetch_sub_explicit(&watch.watchers, 1, memory_order_seq_cst);
  return ended;
}
