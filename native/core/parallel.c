/* parallel.c: the intra-op pool, one a process: gr_pool_set_threads(n) counts the caller, so it has n - 1
 * workers, started by the first job that can use them. One job runs at a time. A job that comes while
 * another runs is done inline by its caller, so nothing waits for the pool.
 *
 * Called by kernels through gr_env.parallel_for and by the copy engine, on any thread.
 * Lock order: owner, then sleep or error. Workers take only sleep and error.
 *
 * A job is published by the gate, one word: job number, whether it may still be entered, workers inside. A
 * worker enters only an open gate, so the owner never waits for one that sleeps: it closes the gate and
 * waits for those inside. Waking a sleeping thread costs about 25 us, a spinning one 0.1 us; so everyone
 * spins 50 us before sleeping.
 *
 * The indices of a job are cut into a stretch for each thread, always the same one for the same thread: what a
 * thread left in its caches in one kernel, it finds there in the next. A thread that is done with its own stretch
 * goes on with those of others.
 *
 * defines: gr_pool_run, gr_pool_run_team, gr_pool_enter, gr_pool_leave, gr_pool_in_task,
 * gr_pool_on_resize, gr_pool_set_threads, gr_pool_threads
 */
#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "clock.h"
#include "status.h"
#include "threads.h"

#define MOST_THREADS 256
#define SPIN_NS 50000
#define GATE_INSIDE 0xFFFFull
#define GATE_OPEN 0x10000ull
#define GATE_JOB 0x20000ull      /* one in the job number, which is all bits from here up */

/* A thread's stretch of a job, in a cache line of its own. */
typedef struct stretch {
  _Alignas(64) _Atomic int64_t next;   /* index to begin */
  int64_t end;
} stretch;

static struct {
  pthread_mutex_t owner;         /* held by the thread whose job runs, or that changes the size */
  pthread_t workers[MOST_THREADS];
  int32_t num_workers;           /* under owner */
  _Atomic int32_t threads;       /* wanted size, caller counted */
  _Atomic int32_t programs;      /* that run now */
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
  /* sleeping: flags are set under the lock, and read without it by a thread that might have to wake others */
  pthread_mutex_t sleep;
  pthread_cond_t wake;           /* workers */
  pthread_cond_t done;           /* the owner */
  _Atomic int32_t sleepers;
  _Atomic bool owner_sleeps;
  _Atomic bool quit;
} pool = {.owner = PTHREAD_MUTEX_INITIALIZER,
          .error = PTHREAD_MUTEX_INITIALIZER,
          .sleep = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER,
          .threads = 1};

static _Thread_local bool in_task;   /* this thread runs a task: calls from it run inline */
static void (*resized)(int32_t threads);   /* gr_pool_on_resize */

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* ---------------------------------------------------------------- a share of a job */

static void record_failure(int64_t index, int32_t status) {
  pthread_mutex_lock(&pool.error);
  if (index < atomic_load_explicit(&pool.limit, memory_order_relaxed)) {
    atomic_store_explicit(&pool.limit, index, memory_order_relaxed);
    pool.error_status = status;
    memcpy(pool.error_text, gr_error_text(), sizeof pool.error_text);
  }
  pthread_mutex_unlock(&pool.error);
}

/* All indices below one that failed are run: so the lowest failing index is the same whatever the
 * interleaving. */
static void run_stretch(stretch *s) {
  for (;;) {
    int64_t index = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
    if (index >= s->end || index >= atomic_load_explicit(&pool.limit, memory_order_relaxed)) return;
    int32_t status = pool.task(pool.ctx, index);
    if (status) record_failure(index, status);
  }
}

/* thread: 0 the owner, from 1 the workers. */
static void run_share(int32_t thread) {
  in_task = true;
  gr_error_clear();
  for (int32_t i = 0; i < pool.num_stretches; ++i) run_stretch(&pool.stretches[(thread + i) % pool.num_stretches]);
  in_task = false;
}

/* ---------------------------------------------------------------- workers */

/* Until there is a job other than seen, or the end. */
static uint64_t wait_for_job(uint64_t seen) {
  int64_t until = gr_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 64; ++i) {
      uint64_t gate = atomic_load_explicit(&pool.gate, memory_order_acquire);
      if (gate / GATE_JOB != seen || atomic_load_explicit(&pool.quit, memory_order_relaxed)) return gate;
      relax();
    }
  } while (gr_now_ns() < until);
  pthread_mutex_lock(&pool.sleep);
  /* seq_cst here and in gr_pool_run: either the owner sees the sleeper, or the sleeper sees the job */
  atomic_fetch_add_explicit(&pool.sleepers, 1, memory_order_seq_cst);
  uint64_t gate;
  while ((gate = atomic_load_explicit(&pool.gate, memory_order_seq_cst)) / GATE_JOB == seen && !pool.quit)
    pthread_cond_wait(&pool.wake, &pool.sleep);
  atomic_fetch_sub_explicit(&pool.sleepers, 1, memory_order_relaxed);
  pthread_mutex_unlock(&pool.sleep);
  return gate;
}

static bool enter_gate(uint64_t gate) {
  uint64_t job = gate / GATE_JOB;
  while ((gate & GATE_OPEN) &&
         gate / GATE_JOB == job)   /* acquire: the job's fields were written before it opened */
    if (atomic_compare_exchange_weak_explicit(&pool.gate, &gate, gate + 1, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

static void leave_gate(void) {
  /* seq_cst: either the owner sees that no worker is inside, or this thread sees that the owner sleeps */
  uint64_t before = atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_seq_cst);
  if ((before & GATE_INSIDE) == 1 && !(before & GATE_OPEN) &&
      atomic_load_explicit(&pool.owner_sleeps, memory_order_seq_cst)) {
    pthread_mutex_lock(&pool.sleep);
    pthread_cond_signal(&pool.done);
    pthread_mutex_unlock(&pool.sleep);
  }
}

/* arg: the job that was last when the thread was made, times MOST_THREADS, and the thread's number. */
static void *work(void *arg) {
  uint64_t seen = (uint64_t)(uintptr_t)arg / MOST_THREADS;
  int32_t thread = (int32_t)((uint64_t)(uintptr_t)arg % MOST_THREADS);
  for (;;) {
    uint64_t gate = wait_for_job(seen);
    if (atomic_load_explicit(&pool.quit, memory_order_relaxed)) return NULL;
    seen = gate / GATE_JOB;
    if (enter_gate(gate)) {
      run_share(thread);
      leave_gate();
    }
  }
}

/* Under owner. Where the system refuses a thread, the job runs with those there are. */
static void start_workers(void) {
  uint64_t seen = atomic_load_explicit(&pool.gate, memory_order_relaxed) / GATE_JOB;
  while (pool.num_workers < pool.threads - 1) {
    uint64_t arg = seen * MOST_THREADS + (uint64_t)pool.num_workers + 1;
    if (gr_thread_start(&pool.workers[pool.num_workers], work, (void *)(uintptr_t)arg)) break;
    pool.num_workers += 1;
  }
}

/* Under owner. */
static void stop_workers(void) {
  pthread_mutex_lock(&pool.sleep);
  pool.quit = true;
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.sleep);
  for (int32_t i = 0; i < pool.num_workers; ++i) pthread_join(pool.workers[i], NULL);
  pool.num_workers = 0;
  pool.quit = false;
}

/* A child of fork has the pool's memory but none of its threads, and perhaps locks of threads that are not
 * there. */
static void forget_threads(void) {
  pthread_mutex_init(&pool.owner, NULL);
  pthread_mutex_init(&pool.error, NULL);
  pthread_mutex_init(&pool.sleep, NULL);
  pthread_cond_init(&pool.wake, NULL);
  pthread_cond_init(&pool.done, NULL);
  pool.num_workers = 0;
  pool.programs = 0;
  pool.gate = 0;
  pool.sleepers = 0;
  pool.owner_sleeps = false;
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

static void open_gate(void) {
  uint64_t gate = atomic_load_explicit(&pool.gate, memory_order_relaxed);
  atomic_store_explicit(&pool.gate, (gate / GATE_JOB + 1) * GATE_JOB | GATE_OPEN, memory_order_seq_cst);
  if (atomic_load_explicit(&pool.sleepers, memory_order_seq_cst) == 0) return;
  pthread_mutex_lock(&pool.sleep);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.sleep);
}

/* Lets no more workers in and waits for those inside. */
static void close_gate(void) {
  uint64_t gate = atomic_fetch_and_explicit(&pool.gate, ~GATE_OPEN, memory_order_acq_rel);
  if (!(gate & GATE_INSIDE)) return;
  int64_t until = gr_now_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 64; ++i) {
      if (!(atomic_load_explicit(&pool.gate, memory_order_acquire) & GATE_INSIDE)) return;
      relax();
    }
  } while (gr_now_ns() < until);
  pthread_mutex_lock(&pool.sleep);
  atomic_store_explicit(&pool.owner_sleeps, true, memory_order_seq_cst);
  while (atomic_load_explicit(&pool.gate, memory_order_seq_cst) & GATE_INSIDE)
    pthread_cond_wait(&pool.done, &pool.sleep);
  pool.owner_sleeps = false;
  pthread_mutex_unlock(&pool.sleep);
}

/* Under owner. */
static int32_t run_job(int64_t n, gr_task task, void *ctx) {
  pool.task = task;
  pool.ctx = ctx;
  pool.error_status = GR_OK;
  atomic_store_explicit(&pool.limit, n, memory_order_relaxed);
  int64_t parts = n < pool.num_workers + 1 ? n : pool.num_workers + 1, each = n / parts, more = n % parts;
  pool.num_stretches = (int32_t)parts;
  for (int64_t i = 0, first = 0; i < parts; ++i) {
    atomic_store_explicit(&pool.stretches[i].next, first, memory_order_relaxed);
    first += each + (i < more);
    pool.stretches[i].end = first;
  }
  open_gate();
  run_share(0);
  close_gate();
  int32_t status = pool.error_status;
  if (status) gr_fail(status, "%s", pool.error_text);
  return status;
}

void gr_pool_enter(void) { atomic_fetch_add_explicit(&pool.programs, 1, memory_order_relaxed); }

void gr_pool_leave(void) { atomic_fetch_sub_explicit(&pool.programs, 1, memory_order_relaxed); }

/* Threads for this job, the caller counted: the pool's, by the number of programs that run now. */
static int32_t fair_share(void) {
  int32_t threads = atomic_load_explicit(&pool.threads, memory_order_relaxed);
  int32_t programs = atomic_load_explicit(&pool.programs, memory_order_relaxed);
  if (programs <= 1) return threads;
  return programs < threads ? threads / programs : 1;
}

int32_t gr_pool_run(int64_t n, gr_task task, void *ctx) {
  if (n <= 1 || in_task || fair_share() == 1)
    return run_inline(n, task, ctx);
  if (pthread_mutex_trylock(&pool.owner)) return run_inline(n, task, ctx);
  if (pool.num_workers < pool.threads - 1) start_workers();
  int32_t status = run_job(n, task, ctx);
  pthread_mutex_unlock(&pool.owner);
  return status;
}

int32_t gr_pool_run_team(int32_t most, int32_t *team, gr_task task, void *ctx) {
  int32_t share = fair_share();
  bool alone = most == 1 || in_task || share == 1;
  if (alone || pthread_mutex_trylock(&pool.owner)) {
    bool outer = in_task;
    *team = 1;
    in_task = true; /* a task alone is a task too: what it may call does not depend on how busy the pool is */
    int32_t status = task(ctx, 0);
    in_task = outer;
    return status;
  }
  if (pool.num_workers < pool.threads - 1) start_workers();
  *team = pool.num_workers + 1 < share ? pool.num_workers + 1 : share;
  if (most > 0 && most < *team) *team = most;
  int32_t status = run_job(*team, task, ctx);
  pthread_mutex_unlock(&pool.owner);
  return status;
}

bool gr_pool_in_task(void) { return in_task; }

void gr_pool_on_resize(void (*hook)(int32_t threads)) { resized = hook; }

int32_t gr_pool_set_threads(int32_t n) {
  if (n < 1 || n > MOST_THREADS)
    return gr_fail(GR_ERR_ARGUMENT, "the pool takes 1 to %d threads, the caller counted, not %d",
                   MOST_THREADS, n);
  if (in_task) return gr_fail(GR_ERR_ARGUMENT, "the pool's size cannot be changed from inside a task");
  pthread_mutex_lock(&pool.owner);
  if (n - 1 < pool.num_workers) stop_workers();
  atomic_store_explicit(&pool.threads, n, memory_order_relaxed);
  pthread_mutex_unlock(&pool.owner);
  if (resized) resized(n);
  return GR_OK;
}

int32_t gr_pool_threads(void) { return atomic_load_explicit(&pool.threads, memory_order_relaxed); }
