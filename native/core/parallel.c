/* parallel.c: the intra-op pool, one a process: gr_pool_set_threads(n) counts the caller, so it has n - 1
 * workers, started by the first job that can use them. Programs that run at the same time have a place each, with a
 * job and as many of the threads as the others. A job that finds no free place is done inline by its caller, so
 * nothing waits for the pool.
 *
 * Called by kernels through gr_env.parallel_for and by the copy engine, on any thread.
 * Lock order: owners in the order of the places, then size, then sleep or error. Workers take only sleep and error.
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
#define _GNU_SOURCE              /* sched_setaffinity */
#endif
#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "clock.h"
#include "status.h"
#include "threads.h"

#define MOST_THREADS 256
#define MOST_PLACES 8
#define SPIN_NS 50000
#define GATE_INSIDE 0xFFFFull
#define GATE_OPEN 0x10000ull
#define GATE_JOB 0x20000ull      /* one in the job number, which is all bits from here up */

/* A thread's stretch of a job, in a cache line of its own. */
typedef struct stretch {
  _Alignas(64) _Atomic int64_t next;   /* index to begin */
  int64_t end;
} stretch;

typedef struct place {
  pthread_mutex_t owner;         /* held by the thread whose job runs here */
  /* the job; written by the owner while the gate is shut */
  gr_task task;
  void *ctx;
  int32_t num_stretches;
  stretch stretches[MOST_THREADS];
  _Atomic int64_t limit;         /* no index from here up begins: the lowest that failed */
  _Atomic uint64_t gate;
  /* the failure with the lowest index */
  pthread_mutex_t error;
  int32_t error_status;
  char error_text[GR_ERROR_BYTES];
  pthread_cond_t done;           /* the owner waits for it, under sleep */
  _Atomic bool owner_sleeps;
} place;

static struct {
  place places[MOST_PLACES];
  pthread_mutex_t size;          /* held by the thread that starts or stops workers */
  pthread_t workers[MOST_THREADS];
  int32_t num_cores, cores[MOST_THREADS];   /* worker w stays on cores[w % num_cores]; none: anywhere */
  _Atomic int32_t num_workers;   /* grows under size; shrinks under size and all owners */
  _Atomic int32_t threads;       /* wanted size, caller counted */
  _Atomic int32_t programs;      /* that run now */
  _Atomic bool gathered;         /* all workers serve the first place, whatever runs: a team waits for them */
  /* sleeping: flags are set under the lock, and read without it by a thread that might have to wake others */
  pthread_mutex_t sleep;
  pthread_cond_t wake;           /* workers that serve a place */
  pthread_cond_t spare;          /* those that serve none as long as so many programs run */
  _Atomic int32_t sleepers;
  _Atomic int32_t spares;
  _Atomic bool quit;
} pool = {.places = {[0 ... MOST_PLACES - 1] = {.owner = PTHREAD_MUTEX_INITIALIZER,
                                               .error = PTHREAD_MUTEX_INITIALIZER,
                                               .done = PTHREAD_COND_INITIALIZER}},
          .size = PTHREAD_MUTEX_INITIALIZER,
          .sleep = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .spare = PTHREAD_COND_INITIALIZER,
          .threads = 1};

static _Thread_local bool in_task;   /* this thread runs a task: calls from it run inline */
static _Thread_local int32_t last_place;   /* of this thread's jobs */
static void (*resized)(int32_t threads);   /* gr_pool_on_resize */

/* ---------------------------------------------------------------- the places of workers */

/* Places that have workers now, and the threads of each, the owner counted. */
typedef struct split {
  int32_t places, threads;
} split;

static split split_now(void) {
  int32_t threads = atomic_load_explicit(&pool.threads, memory_order_relaxed);
  int32_t programs = atomic_load_explicit(&pool.programs, memory_order_seq_cst);
  if (programs <= 1 || atomic_load_explicit(&pool.gathered, memory_order_seq_cst)) return (split){1, threads};
  if (programs > threads) return (split){1, 1};
  return (split){programs < MOST_PLACES ? programs : MOST_PLACES, threads / programs};
}

/* The place that a worker (thread: from 1) serves now, NULL: none; its number there, from 1, is *number. */
static place *served_by(int32_t thread, int32_t *number) {
  split now = split_now();
  *number = now.places == 1 ? thread : (thread - 1) / now.places + 1;
  return *number < now.threads ? &pool.places[now.places == 1 ? 0 : (thread - 1) % now.places] : NULL;
}

/* ---------------------------------------------------------------- a share of a job */

static void record_failure(place *at, int64_t index, int32_t status) {
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
static void run_stretch(place *at, stretch *s) {
  for (;;) {
    int64_t index = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
    if (index >= s->end || index >= atomic_load_explicit(&at->limit, memory_order_relaxed)) return;
    int32_t status = at->task(at->ctx, index);
    if (status) record_failure(at, index, status);
  }
}

/* number: 0 the owner, from 1 the workers. */
static void run_share(place *at, int32_t number) {
  in_task = true;
  gr_error_clear();
  for (int32_t i = 0; i < at->num_stretches; ++i) run_stretch(at, &at->stretches[(number + i) % at->num_stretches]);
  in_task = false;
}

/* ---------------------------------------------------------------- workers */

/* What a worker finds, and what it has seen: the number of the last job of each place. */
typedef struct found {
  place *at;
  uint64_t gate;
  int32_t number;
  uint64_t seen[MOST_PLACES];
} found;

/* Whether there is a job that the worker has not seen where it serves now. */
static bool find_job(int32_t thread, found *f) {
  f->at = served_by(thread, &f->number);
  if (!f->at) return false;
  f->gate = atomic_load_explicit(&f->at->gate, memory_order_seq_cst);
  return f->gate / GATE_JOB != f->seen[f->at - pool.places];
}

/* Until there is one, or the end. */
static void wait_for_job(int32_t thread, found *f) {
  int64_t until = gr_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 64; ++i) {
      if (find_job(thread, f) || atomic_load_explicit(&pool.quit, memory_order_relaxed)) return;
      gr_relax();
    }
  } while (gr_now_ns() < until);
  pthread_mutex_lock(&pool.sleep);
  for (;;) {
    bool spare = !served_by(thread, &f->number);
    _Atomic int32_t *asleep = spare ? &pool.spares : &pool.sleepers;
    /* seq_cst here, in what find_job reads, open_gate and wake_spares: either the other thread sees the sleeper, or
     * the sleeper what it did */
    atomic_fetch_add_explicit(asleep, 1, memory_order_seq_cst);
    bool over = find_job(thread, f) || pool.quit;
    if (!over && spare == !f->at) pthread_cond_wait(spare ? &pool.spare : &pool.wake, &pool.sleep);
    atomic_fetch_sub_explicit(asleep, 1, memory_order_relaxed);
    if (over) break;
  }
  pthread_mutex_unlock(&pool.sleep);
}

/* After more workers than before may serve a place. */
static void wake_spares(void) {
  if (atomic_load_explicit(&pool.spares, memory_order_seq_cst) == 0) return;
  pthread_mutex_lock(&pool.sleep);
  pthread_cond_broadcast(&pool.spare);
  pthread_mutex_unlock(&pool.sleep);
}

static bool enter_gate(place *at, uint64_t gate) {
  uint64_t job = gate / GATE_JOB;
  while ((gate & GATE_OPEN) &&
         gate / GATE_JOB == job)   /* acquire: the job's fields were written before it opened */
    if (atomic_compare_exchange_weak_explicit(&at->gate, &gate, gate + 1, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

static void leave_gate(place *at) {
  /* seq_cst: either the owner sees that no worker is inside, or this thread sees that the owner sleeps */
  uint64_t before = atomic_fetch_sub_explicit(&at->gate, 1, memory_order_seq_cst);
  if ((before & GATE_INSIDE) == 1 && !(before & GATE_OPEN) &&
      atomic_load_explicit(&at->owner_sleeps, memory_order_seq_cst)) {
    pthread_mutex_lock(&pool.sleep);
    pthread_cond_signal(&at->done);
    pthread_mutex_unlock(&pool.sleep);
  }
}

/* This thread runs on its core only, if there are some to stay on. */
static void stay_on_core(int32_t thread) {
  if (!pool.num_cores) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(pool.cores[thread % pool.num_cores], &own);
  sched_setaffinity(0, sizeof own, &own);      /* one that was taken away since leaves it where it is */
}

/* arg: the thread's number, from 1. */
static void *work(void *arg) {
  int32_t thread = (int32_t)(uintptr_t)arg;
  stay_on_core(thread);
  found f = {0};
  for (;;) {
    wait_for_job(thread, &f);
    if (atomic_load_explicit(&pool.quit, memory_order_relaxed)) return NULL;
    f.seen[f.at - pool.places] = f.gate / GATE_JOB;
    if (enter_gate(f.at, f.gate)) {
      run_share(f.at, f.number);
      leave_gate(f.at);
    }
  }
}

/* Under an owner, so that none are stopped meanwhile. Where the system refuses a thread, the job runs with those
 * there are. */
static void start_workers(void) {
  if (pool.num_workers >= pool.threads - 1 || pthread_mutex_trylock(&pool.size)) return;
  while (pool.num_workers < pool.threads - 1) {
    uintptr_t number = (uintptr_t)pool.num_workers + 1;
    if (gr_thread_start(&pool.workers[number - 1], work, (void *)number)) break;
    pool.num_workers += 1;
  }
  pthread_mutex_unlock(&pool.size);
}

/* Under size and all owners. */
static void stop_workers(void) {
  pthread_mutex_lock(&pool.sleep);
  pool.quit = true;
  pthread_cond_broadcast(&pool.wake);
  pthread_cond_broadcast(&pool.spare);
  pthread_mutex_unlock(&pool.sleep);
  for (int32_t i = 0; i < pool.num_workers; ++i) pthread_join(pool.workers[i], NULL);
  pool.num_workers = 0;
  pool.quit = false;
}

/* A child of fork has the pool's memory but none of its threads, and perhaps locks of threads that are not
 * there. */
static void forget_threads(void) {
  for (place *at = pool.places; at < pool.places + MOST_PLACES; ++at) {
    pthread_mutex_init(&at->owner, NULL);
    pthread_mutex_init(&at->error, NULL);
    pthread_cond_init(&at->done, NULL);
    at->gate = 0;
    at->owner_sleeps = false;
  }
  pthread_mutex_init(&pool.size, NULL);
  pthread_mutex_init(&pool.sleep, NULL);
  pthread_cond_init(&pool.wake, NULL);
  pthread_cond_init(&pool.spare, NULL);
  pool.num_workers = 0;
  pool.programs = 0;
  pool.gathered = false;
  pool.sleepers = 0;
  pool.spares = 0;
  pool.quit = false;
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_threads); }

/* ---------------------------------------------------------------- jobs */

static int32_t run_inline(int64_t n, gr_task task, void *ctx) {
  for (int64_t i = 0; i < n; ++i) {
    int32_t status = task(ctx, i);
    if (status) return status;
  }
  return GR_OK;
}

static void open_gate(place *at) {
  uint64_t gate = atomic_load_explicit(&at->gate, memory_order_relaxed);
  atomic_store_explicit(&at->gate, (gate / GATE_JOB + 1) * GATE_JOB | GATE_OPEN, memory_order_seq_cst);
  if (atomic_load_explicit(&pool.sleepers, memory_order_seq_cst) == 0) return;
  pthread_mutex_lock(&pool.sleep);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.sleep);
}

/* Lets no more workers in and waits for those inside. */
static void close_gate(place *at) {
  uint64_t gate = atomic_fetch_and_explicit(&at->gate, ~GATE_OPEN, memory_order_acq_rel);
  if (!(gate & GATE_INSIDE)) return;
  int64_t until = gr_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 64; ++i) {
      if (!(atomic_load_explicit(&at->gate, memory_order_acquire) & GATE_INSIDE)) return;
      gr_relax();
    }
  } while (gr_now_ns() < until);
  pthread_mutex_lock(&pool.sleep);
  atomic_store_explicit(&at->owner_sleeps, true, memory_order_seq_cst);
  while (atomic_load_explicit(&at->gate, memory_order_seq_cst) & GATE_INSIDE)
    pthread_cond_wait(&at->done, &pool.sleep);
  at->owner_sleeps = false;
  pthread_mutex_unlock(&pool.sleep);
}

/* Under the place's owner; threads: that it has, the owner counted. */
static int32_t run_job(place *at, int64_t threads, int64_t n, gr_task task, void *ctx) {
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
  run_share(at, 0);
  close_gate(at);
  int32_t status = at->error_status;
  if (status) gr_fail(status, "%s", at->error_text);
  return status;
}

void gr_pool_enter(void) { atomic_fetch_add_explicit(&pool.programs, 1, memory_order_relaxed); }

void gr_pool_leave(void) {
  atomic_fetch_sub_explicit(&pool.programs, 1, memory_order_seq_cst);
  wake_spares();
}

/* A free place, which the caller owns then, NULL: none. That of its last job, if it can. */
static place *take_place(int32_t places) {
  for (int32_t i = 0; i < places; ++i) {
    int32_t number = (last_place + i) % places;
    if (pthread_mutex_trylock(&pool.places[number].owner)) continue;
    last_place = number;
    return &pool.places[number];
  }
  return NULL;
}

/* Of `wanted` threads, the caller counted, those that there are. */
static int32_t with_workers(int32_t wanted) {
  start_workers();
  int32_t threads = pool.num_workers + 1;
  return threads < wanted ? threads : wanted;
}

int32_t gr_pool_run(int64_t n, gr_task task, void *ctx) {
  split now = split_now();
  if (n <= 1 || in_task || now.threads == 1) return run_inline(n, task, ctx);
  place *at = take_place(now.places);
  if (!at) return run_inline(n, task, ctx);
  int32_t status = run_job(at, with_workers(now.threads), n, task, ctx);
  pthread_mutex_unlock(&at->owner);
  return status;
}

int32_t gr_pool_run_team(int32_t most, int32_t *team, gr_task task, void *ctx) {
  split now = split_now();
  place *first = pool.places;
  bool alone = most == 1 || in_task || now.threads == 1;
  if (alone || pthread_mutex_trylock(&first->owner)) {
    bool outer = in_task;
    *team = 1;
    in_task = true; /* a task alone is a task too: what it may call does not depend on how busy the pool is */
    int32_t status = task(ctx, 0);
    in_task = outer;
    return status;
  }
  *team = with_workers(now.threads);
  if (most > 0 && most < *team) *team = most;
  atomic_store_explicit(&pool.gathered, true, memory_order_seq_cst); /* or a worker might serve others for ever */
  wake_spares();
  int32_t status = run_job(first, *team, *team, task, ctx);
  atomic_store_explicit(&pool.gathered, false, memory_order_seq_cst);
  pthread_mutex_unlock(&first->owner);
  return status;
}

bool gr_pool_in_task(void) { return in_task; }

void gr_pool_on_resize(void (*hook)(int32_t threads)) { resized = hook; }

static void lock_size(void) {
  for (int32_t i = 0; i < MOST_PLACES; ++i) pthread_mutex_lock(&pool.places[i].owner);
  pthread_mutex_lock(&pool.size);
}

static void unlock_size(void) {
  pthread_mutex_unlock(&pool.size);
  for (int32_t i = MOST_PLACES - 1; i >= 0; --i) pthread_mutex_unlock(&pool.places[i].owner);
}

int32_t gr_pool_set_threads(int32_t n) {
  if (n < 1 || n > MOST_THREADS)
    return gr_fail(GR_ERR_ARGUMENT, "the pool takes 1 to %d threads, the caller counted, not %d",
                   MOST_THREADS, n);
  if (in_task) return gr_fail(GR_ERR_ARGUMENT, "the pool's size cannot be changed from inside a task");
  lock_size();
  if (n - 1 < pool.num_workers) stop_workers();
  atomic_store_explicit(&pool.threads, n, memory_order_relaxed);
  unlock_size();
  if (resized) resized(n);
  return GR_OK;
}

int32_t gr_pool_set_cores(int32_t n, const int32_t *cores) {
  cpu_set_t allowed;
  if (n < 0 || n > MOST_THREADS) return gr_fail(GR_ERR_ARGUMENT, "a pool of at most %d threads cannot stay on %d cores",
                                                MOST_THREADS, n);
  if (in_task) return gr_fail(GR_ERR_ARGUMENT, "the pool's cores cannot be changed from inside a task");
  int known = !sched_getaffinity(0, sizeof allowed, &allowed);
  for (int32_t i = 0; i < n; ++i)
    if (cores[i] < 0 || cores[i] >= CPU_SETSIZE || (known && !CPU_ISSET(cores[i], &allowed)))
      return gr_fail(GR_ERR_ARGUMENT, "the pool's threads cannot stay on core %d, which this process may not use",
                     cores[i]);
  lock_size();
  if (n != pool.num_cores || (n && memcmp(pool.cores, cores, (size_t)n * sizeof *cores))) {
    stop_workers();                            /* the next job starts them where they are to be */
    pool.num_cores = n;
    if (n) memcpy(pool.cores, cores, (size_t)n * sizeof *cores);
  }
  unlock_size();
  return GR_OK;
}

int32_t gr_pool_threads(void) { return atomic_load_explicit(&pool.threads, memory_order_relaxed); }
