/* pool.h: the state of the intra-op pool, between its workers (workers.c) and its jobs (parallel.c).
 *
 * Lock order: owners in the order of the places, then size, then sleep or error. Workers take only sleep and error.
 *
 * defines: gr_pool_state, gr_place, gr_split, gr_split_now, gr_run_share, gr_start_workers, gr_stop_workers,
 * gr_wake_spares, gr_in_task
 */
#ifndef GR_POOL_H
#define GR_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "parallel.h"
#include "status.h"

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

typedef struct gr_place {
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
} gr_place;

typedef struct gr_pool_state {
  gr_place places[MOST_PLACES];
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
  pthread_cond_t spare;          /* workers that serve none while so many programs run */
  _Atomic int32_t sleepers;
  _Atomic int32_t spares;
  _Atomic bool quit;
} gr_pool_state;

extern gr_pool_state gr_pool;
extern _Thread_local bool gr_in_task;          /* this thread runs a task: calls from it run inline */

/* Places that have workers now, and the threads of each, the owner counted. */
typedef struct gr_split {
  int32_t places, threads;
} gr_split;

gr_split gr_split_now(void);

/* This thread's part of a place's job. number: 0 the owner, from 1 the workers. */
void gr_run_share(gr_place *at, int32_t number);

/* Under an owner, so that none are stopped meanwhile. If the system refuses a thread, the job runs with fewer. */
void gr_start_workers(void);

/* Under size and all owners. */
void gr_stop_workers(void);

/* After more workers than before may serve a place. */
void gr_wake_spares(void);

#endif
