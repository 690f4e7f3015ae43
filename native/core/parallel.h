/* parallel.h: the intra-op pool, one a process.
 *
 * defines: gr_pool_first, gr_pool_run, gr_pool_run_team, gr_pool_enter, gr_pool_leave, gr_pool_in_task,
 * gr_pool_on_resize
 */
#ifndef GR_PARALLEL_H
#define GR_PARALLEL_H

#include <stdbool.h>

#include "gr_core.h"

/* The first index of the part-th of `parts` stretches of n indices; of the last + 1: n. */
static inline int64_t gr_pool_first(int64_t n, int64_t parts, int64_t part) {
  int64_t more = n % parts;
  return n / parts * part + (part < more ? part : more);
}

/* Runs task(ctx, 0 .. n-1), the caller taking part; inline if its program has no free place, the pool is of size 1, or
 * the caller is itself a task. Neighbouring indices go to one thread, equal ones of two jobs of equal n to the same; after a
 * failure only lower ones begin. Returns the result of the lowest index that failed, whose error text becomes
 * the caller's. */
int32_t gr_pool_run(int64_t n, gr_task task, void *ctx);

/* Runs task(ctx, 0 .. *team-1) all at the same time, so that they may wait for each other. *team is set
 * before the first begins: at most `most` (0: as many as the pool has), 1 if the pool is busy. */
int32_t gr_pool_run_team(int32_t most, int32_t *team, gr_task task, void *ctx);

/* Around the run of a program: programs that run at the same time share the pool's threads equally. */
void gr_pool_enter(void);
void gr_pool_leave(void);

/* Whether this thread runs a task now. */
bool gr_pool_in_task(void);

/* After each change of the pool's size, hook(threads) is called under no lock, in the thread that changed it. There
 * is one hook, registered while the library is loaded. */
void gr_pool_on_resize(void (*hook)(int32_t threads));

#endif
