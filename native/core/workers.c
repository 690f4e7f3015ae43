/* workers.c: the intra-op pool's workers: the place that each serves, waiting, and their share of its job.
 *
 * Called by parallel.c, on any thread.
 * defines: gr_pool, gr_in_task, gr_split_now, gr_run_share, gr_start_workers, gr_stop_workers, gr_wake_spares
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE              /* sched_setaffinity */
#endif
#include <sched.h>
#include <string.h>

#include "clock.h"
#include "pool.h"
#include "threads.h"

gr_pool_state gr_pool = {.places = {[0 ... MOST_PLACES - 1] = {.owner = PTHREAD_MUTEX_INITIALIZER,
                                               .error = PTHREAD_MUTEX_INITIALIZER,
                                               .done = PTHREAD_COND_INITIALIZER}},
          .size = PTHREAD_MUTEX_INITIALIZER,
          .sleep = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .spare = PTHREAD_COND_INITIALIZER,
          .threads = 1};

_Thread_local bool gr_in_task;

/* ---------------------------------------------------------------- the places of workers */

gr_split gr_split_now(void) {
  int32_t threads = atomic_load_explicit(&gr_pool.threads, memory_order_relaxed);
  int32_t programs = atomic_load_explicit(&gr_pool.programs, memory_order_seq_cst);
  if (programs <= 1 || atomic_load_explicit(&gr_pool.gathered, memory_order_seq_cst)) return (gr_split){1, threads};
  if (programs > threads) return (gr_split){1, 1};
  return (gr_split){programs < MOST_PLACES ? programs : MOST_PLACES, threads / programs};
}

/* The place that a worker (thread: from 1) serves now, NULL: none; its number there, from 1, is *number. */
static gr_place *served_by(int32_t thread, int32_t *number) {
  gr_split now = gr_split_now();
  *number = now.places == 1 ? thread : (thread - 1) / now.places + 1;
  return *number < now.threads ? &gr_pool.places[now.places == 1 ? 0 : (thread - 1) % now.places] : NULL;
}

/* ---------------------------------------------------------------- a share of a job */

static void record_failure(gr_place *at, int64_t index, int32_t status) {
  pthread_mutex_lock(&at->error);
  if (index < atomic_load_explicit(&at->limit, memory_order_relaxed)) {
    atomic_store_explicit(&at->limit, index, memory_order_relaxed);
    at->error_status = status;
    memcpy(at->error_text, gr_error_text(), sizeof at->error_text);
  }
  pthread_mutex_unlock(&at->error);
}

/* All indices below one that failed are run: so the lowest failing index is the same whatever the
 * interleaving. */
static void run_stretch(gr_place *at, stretch *s) {
  for (;;) {
    int64_t index = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
    if (index >= s->end || index >= atomic_load_explicit(&at->limit, memory_order_relaxed)) return;
    int32_t status = at->task(at->ctx, index);
    if (status) record_failure(at, index, status);
  }
}

void gr_run_share(gr_place *at, int32_t number) {
  gr_in_task = true;
  gr_error_clear();
  for (int32_t i = 0; i < at->num_stretches; ++i) run_stretch(at, &at->stretches[(number + i) % at->num_stretches]);
  gr_in_task = false;
}

/* ---------------------------------------------------------------- workers */

/* A job that a worker finds, and the number of the last job of each place that it has seen. */
typedef struct found {
  gr_place *at;
  uint64_t gate;
  int32_t number;
  uint64_t seen[MOST_PLACES];
} found;

/* Whether there is a job that the worker has not seen where it serves now. */
static bool find_job(int32_t thread, found *f) {
  f->at = served_by(thread, &f->number);
  if (!f->at) return false;
  f->gate = atomic_load_explicit(&f->at->gate, memory_order_seq_cst);
  return f->gate / GATE_JOB != f->seen[f->at - gr_pool.places];
}

/* Waits until there is one, or the pool ends. */
static void wait_for_job(int32_t thread, found *f) {
  int64_t until = gr_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 64; ++i) {
      if (find_job(thread, f) || atomic_load_explicit(&gr_pool.quit, memory_order_relaxed)) return;
      gr_relax();
    }
  } while (gr_now_ns() < until);
  pthread_mutex_lock(&gr_pool.sleep);
  for (;;) {
    bool spare = !served_by(thread, &f->number);
    _Atomic int32_t *asleep = spare ? &gr_pool.spares : &gr_pool.sleepers;
    /* seq_cst here, in what find_job reads, open_gate and gr_wake_spares: either the other thread sees the sleeper, or
     * the sleeper what it did */
    atomic_fetch_add_explicit(asleep, 1, memory_order_seq_cst);
    bool over = find_job(thread, f) || gr_pool.quit;
    if (!over && spare == !f->at) pthread_cond_wait(spare ? &gr_pool.spare : &gr_pool.wake, &gr_pool.sleep);
    atomic_fetch_sub_explicit(asleep, 1, memory_order_relaxed);
    if (over) break;
  }
  pthread_mutex_unlock(&gr_pool.sleep);
}

void gr_wake_spares(void) {
  if (atomic_load_explicit(&gr_pool.spares, memory_order_seq_cst) == 0) return;
  pthread_mutex_lock(&gr_pool.sleep);
  pthread_cond_broadcast(&gr_pool.spare);
  pthread_mutex_unlock(&gr_pool.sleep);
}

static bool enter_gate(gr_place *at, uint64_t gate) {
  uint64_t job = gate / GATE_JOB;
  while ((gate & GATE_OPEN) &&
         gate / GATE_JOB == job)   /* acquire: the job's fields were written before it opened */
    if (atomic_compare_exchange_weak_explicit(&at->gate, &gate, gate + 1, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

static void leave_gate(gr_place *at) {
  /* seq_cst: either the owner sees that no worker is inside, or this thread sees that the owner sleeps */
  uint64_t before = atomic_fetch_sub_explicit(&at->gate, 1, memory_order_seq_cst);
  if ((before & GATE_INSIDE) == 1 && !(before & GATE_OPEN) &&
      atomic_load_explicit(&at->owner_sleeps, memory_order_seq_cst)) {
    pthread_mutex_lock(&gr_pool.sleep);
    pthread_cond_signal(&at->done);
    pthread_mutex_unlock(&gr_pool.sleep);
  }
}

/* This thread runs on its core only, if there are some to stay on. */
static void stay_on_core(int32_t thread) {
  if (!gr_pool.num_cores) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(gr_pool.cores[thread % gr_pool.num_cores], &own);
  sched_setaffinity(0, sizeof own, &own);      /* one that was taken away since leaves it where it is */
}

/* arg: the thread's number, from 1. */
static void *work(void *arg) {
  int32_t thread = (int32_t)(uintptr_t)arg;
  stay_on_core(thread);
  found f = {0};
  for (;;) {
    wait_for_job(thread, &f);
    if (atomic_load_explicit(&gr_pool.quit, memory_order_relaxed)) return NULL;
    f.seen[f.at - gr_pool.places] = f.gate / GATE_JOB;
    if (enter_gate(f.at, f.gate)) {
      gr_run_share(f.at, f.number);
      leave_gate(f.at);
    }
  }
}

void gr_start_workers(void) {
  if (gr_pool.num_workers >= gr_pool.threads - 1 || pthread_mutex_trylock(&gr_pool.size)) return;
  while (gr_pool.num_workers < gr_pool.threads - 1) {
    uintptr_t number = (uintptr_t)gr_pool.num_workers + 1;
    if (gr_thread_start(&gr_pool.workers[number - 1], work, (void *)number)) break;
    gr_pool.num_workers += 1;
  }
  pthread_mutex_unlock(&gr_pool.size);
}

void gr_stop_workers(void) {
  pthread_mutex_lock(&gr_pool.sleep);
  gr_pool.quit = true;
  pthread_cond_broadcast(&gr_pool.wake);
  pthread_cond_broadcast(&gr_pool.spare);
  pthread_mutex_unlock(&gr_pool.sleep);
  for (int32_t i = 0; i < gr_pool.num_workers; ++i) pthread_join(gr_pool.workers[i], NULL);
  gr_pool.num_workers = 0;
  gr_pool.quit = false;
}

/* A child of fork has the pool's memory but none of its threads, and perhaps locks of threads that are not
 * there. */
static void forget_threads(void) {
  for (gr_place *at = gr_pool.places; at < gr_pool.places + MOST_PLACES; ++at) {
    pthread_mutex_init(&at->owner, NULL);
    pthread_mutex_init(&at->error, NULL);
    pthread_cond_init(&at->done, NULL);
    at->gate = 0;
    at->owner_sleeps = false;
  }
  pthread_mutex_init(&gr_pool.size, NULL);
  pthread_mutex_init(&gr_pool.sleep, NULL);
  pthread_cond_init(&gr_pool.wake, NULL);
  pthread_cond_init(&gr_pool.spare, NULL);
  gr_pool.num_workers = 0;
  gr_pool.programs = 0;
  gr_pool.gathered = false;
  gr_pool.sleepers = 0;
  gr_pool.spares = 0;
  gr_pool.quit = false;
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_threads); }
