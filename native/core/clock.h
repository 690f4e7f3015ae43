/* clock.h: the time of deadlines and of timed steps.
 *
 * Called by everything in core/ that waits or measures, on any thread.
 * defines: gr_now_ns
 */
#ifndef GR_CLOCK_H
#define GR_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of the monotonic clock. */
static inline int64_t gr_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
