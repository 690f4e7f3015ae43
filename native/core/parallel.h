/* parallel.h: the intra-op pool, one a process.
 *
 * defines: gr_pool_run
 */
#ifndef GR_PARALLEL_H
#define GR_PARALLEL_H

#include "gr_core.h"

/* Runs task(ctx, 0 .. n-1), the caller taking part; inline if the pool is busy, of size 1, or the caller is itself a task.
 * Indices begin in order; after a failure no further one begins. Returns the result of the lowest index that failed,
 * whose error text becomes the caller's. */
int32_t gr_pool_run(int64_t n, gr_task task, void *ctx);

#endif
