/* parallel.c: the intra-op pool, one a process: gr_pool_set_threads(n) counts the caller, so it has n - 1
 * workers, started by the first job that can use them. Programs that run at the same time have a place each, with a
 * job and as many of the threads as the others. A job that finds no free place is done inline by its caller, so
 * nothing waits for the pool.
 *
 * Called by kernels through gr_env.parallel_for and by the copy engine, on any thread.
 *
 * A job is published by its place's gate, one word: job number, whether it may still be entered, workers inside. A
 * worker enters only an open gate, so the owner never waits for one that sleeps: it closes the gate and
 * waits for those inside. Waking a sleeping thread costs about 25 us, a spinning one 0.1 us; so everyone
 * spins 50 us before sleeping.
 *
 * The indices of a job are cut into a stretch for each thread, always the same one for the same thread: what a
 * thread left in its caches in one kernel, it finds there in the next. A thread that is done with its own stretch
 * goes on with those of others.
 *
 * defines: gr_pool_run, gr_pool_run_team, gr_pool_enter, gr_pool_leave, gr_pool_in_task,
 * gr_pool_on_resize, gr_pool_set_threads, gr_pool_set_cores, gr_pool_threads
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE              /* sched_getaffinity */
#endif
#include "parallel.h"

#include <sched.h>
#include <string.h>

#include "clock.h"
#include "pool.h"
#include "threads.h"

static _Thread_local int32_t last_place;   /* of this thread's jobs */
static void (*resized)(int32_t threads);   /* gr_pool_on_resize */

/* ---------------------------------------------------------------- jobs */

static int32_t run_inline(int64_t n, gr_task task, void *ctx) {
  for (int64_t i = 0; i < n; ++i) {
    int32_t status = task(ctx, i);
    if (status) return status;
  }
  return GR_OK;
}

static void open_gate(gr_place *at) {
  uint64_t gate = atomic_load_explicit(&at->gate, memory_order_relaxed);
  atomic_store_explicit(&at->gate, (gate / GATE_JOB + 1) * GATE_JOB | GATE_OPEN, memory_order_seq_cst);
  if (atomic_load_explicit(&gr_pool.sleepers, memory_order_seq_cst) == 0) return;
  pthread_mutex_lock(&gr_pool.sleep);
  pthread_cond_broadcast(&gr_pool.wake);
  pthread_mutex_unlock(&gr_pool.sleep);
}

/* Lets no more workers in and waits for those inside. */
static void close_gate(gr_place *at) {
  uint64_t gate = atomic_fetch_and_explicit(&at->gate, ~GATE_OPEN, memory_order_acq_rel);
  if (!(gate & GATE_INSIDE)) return;
  int64_t until = gr_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 64; ++i) {
      if (!(atomic_load_explicit(&at->gate, memory_order_acquire) & GATE_INSIDE)) return;
      gr_relax();
    }
  } while (gr_now_ns() < until);
  pthread_mutex_lock(&gr_pool.sleep);
  atomic_store_explicit(&at->owner_sleeps, true, memory_order_seq_cst);
  while (atomic_load_explicit(&at->gate, memory_order_seq_cst) & GATE_INSIDE)
    pthread_cond_wait(&at->done, &gr_pool.sleep);
  at->owner_sleeps = false;
  pthread_mutex_unlock(&gr_pool.sleep);
}

/* Under the place's owner. threads: its number of threads, the owner included. */
static int32_t run_job(gr_place *at, int64_t threads, int64_t n, gr_task task, void *ctx) {
  at->task = task;
  at->ctx = ctx;
  at->error_status = GR_OK;
  atomic_store_explicit(&at->limit, n, memory_order_relaxed);
  int64_t parts = n < threads ? n : threads;
  at->num_stretches = (int32_t)parts;
  for (int64_t i = 0; i < parts; ++i) {
    atomic_store_explicit(&at->stretches[i].next, gr_pool_first(n, parts, i), memory_order_relaxed);
    at->stretches[i].end = gr_pool_first(n, parts, i + 1);
  }
  open_gate(at);
  gr_run_share(at, 0);
  close_gate(at);
  int32_t status = at->error_status;
  if (status) gr_fail(status, "%s", at->error_text);
  return status;
}

void gr_pool_enter(void) { atomic_fetch_add_explicit(&gr_pool.programs, 1, memory_order_relaxed); }

void gr_pool_leave(void) {
  atomic_fetch_sub_explicit(&gr_pool.programs, 1, memory_order_seq_cst);
  gr_wake_spares();
}

/* A free place, which the caller owns then, NULL: none. That of its last job, if it can. */
static gr_place *take_place(int32_t places) {
  for (int32_t i = 0; i < places; ++i) {
    int32_t number = (last_place + i) % places;
    if (pthread_mutex_trylock(&gr_pool.places[number].owner)) continue;
    last_place = number;
    return &gr_pool.places[number];
  }
  return NULL;
}

/* The number of available threads, at most `wanted`, the caller included. */
static int32_t with_workers(int32_t wanted) {
  gr_start_workers();
  int32_t threads = gr_pool.num_workers + 1;
  return threads < wanted ? threads : wanted;
}

int32_t gr_pool_run(int64_t n, gr_task task, void *ctx) {
  gr_split now = gr_split_now();
  if (n <= 1 || gr_in_task || now.threads == 1) return run_inline(n, task, ctx);
  gr_place *at = take_place(now.places);
  if (!at) return run_inline(n, task, ctx);
  int32_t status = run_job(at, with_workers(now.threads), n, task, ctx);
  pthread_mutex_unlock(&at->owner);
  return status;
}

int32_t gr_pool_run_team(int32_t most, int32_t *team, gr_task task, void *ctx) {
  gr_split now = gr_split_now();
  gr_place *first = gr_pool.places;
  bool alone = most == 1 || gr_in_task || now.threads == 1;
  if (alone || pthread_mutex_trylock(&first->owner)) {
    bool outer = gr_in_task;
    *team = 1;
    gr_in_task = true; /* a task alone is a task too: what it may call does not depend on how busy the pool is */
    int32_t status = task(ctx, 0);
    gr_in_task = outer;
    return status;
  }
  *team = with_workers(now.threads);
  if (most > 0 && most < *team) *team = most;
  atomic_store_explicit(&gr_pool.gathered, true, memory_order_seq_cst); /* or a worker might serve others for ever */
  gr_wake_spares();
  int32_t status = run_job(first, *team, *team, task, ctx);
  atomic_store_explicit(&gr_pool.gathered, false, memory_order_seq_cst);
  pthread_mutex_unlock(&first->owner);
  return status;
}

bool gr_pool_in_task(void) { return gr_in_task; }

void gr_pool_on_resize(void (*hook)(int32_t threads)) { resized = hook; }

static void lock_size(void) {
  for (int32_t i = 0; i < MOST_PLACES; ++i) pthread_mutex_lock(&gr_pool.places[i].owner);
  pthread_mutex_lock(&gr_pool.size);
}

static void unlock_size(void) {
  pthread_mutex_unlock(&gr_pool.size);
  for (int32_t i = MOST_PLACES - 1; i >= 0; --i) pthread_mutex_unlock(&gr_pool.places[i].owner);
}

int32_t gr_pool_set_threads(int32_t n) {
  if (n < 1 || n > MOST_THREADS)
    return gr_fail(GR_ERR_ARGUMENT, "the pool takes 1 to %d threads, the caller counted, not %d",
                   MOST_THREADS, n);
  if (gr_in_task) return gr_fail(GR_ERR_ARGUMENT, "the pool's size cannot be changed from inside a task");
  lock_size();
  if (n - 1 < gr_pool.num_workers) gr_stop_workers();
  atomic_store_explicit(&gr_pool.threads, n, memory_order_relaxed);
  unlock_size();
  if (resized) resized(n);
  return GR_OK;
}

int32_t gr_pool_set_cores(int32_t n, const int32_t *cores) {
  cpu_set_t allowed;
  if (n < 0 || n > MOST_THREADS) return gr_fail(GR_ERR_ARGUMENT, "a pool of at most %d threads cannot stay on %d cores",
                                                MOST_THREADS, n);
  if (gr_in_task) return gr_fail(GR_ERR_ARGUMENT, "the pool's cores cannot be changed from inside a task");
  int known = !sched_getaffinity(0, sizeof allowed, &allowed);
  for (int32_t i = 0; i < n; ++i)
    if (cores[i] < 0 || cores[i] >= CPU_SETSIZE || (known && !CPU_ISSET(cores[i], &allowed)))
      return gr_fail(GR_ERR_ARGUMENT, "the pool's threads cannot stay on core %d, which this process may not use",
                     cores[i]);
  lock_size();
  if (n != gr_pool.num_cores || (n && memcmp(gr_pool.cores, cores, (size_t)n * sizeof *cores))) {
    gr_stop_workers();                            /* the next job starts them where they are to be */
    gr_pool.num_cores = n;
    if (n) memcpy(gr_pool.cores, cores, (size_t)n * sizeof *cores);
  }
  unlock_size();
  return GR_OK;
}

int32_t gr_pool_threads(void) { return atomic_load_explicit(&gr_pool.threads, memory_order_relaxed); }
