/* queue.h: the inside of a queue, which queue.c makes, worker.c runs and ending.c ends.
 *
 * defines: struct gr_queue, gr_queue_work
 */
#ifndef GR_QUEUE_H
#define GR_QUEUE_H

#include "async.h"

enum { GR_AWAKE, GR_SLEEPS };

struct gr_queue {
  gr_device *device;
  int32_t role;
  int32_t started;                     /* under gr_async_lock */
  pthread_t thread;
  _Atomic(gr_lane_run *) inbox;        /* newest first */
  _Atomic int32_t depth;               /* lanes that are not over */
  _Atomic uint64_t pushed;             /* number of the lane that came last; set under gr_async_lock */
  _Atomic uint64_t passed;             /* lanes up to this one are over */
  _Atomic int32_t closed;              /* takes nothing more, leaves out what it has */
  _Atomic int32_t quit;
  pthread_mutex_t lock;                /* for sleeping */
  pthread_cond_t wake;
  _Atomic int32_t state;
  struct gr_queue *next;               /* all queues; they stay to the end of the process */
  /* the worker's own */
  gr_lane_run *first;                  /* oldest first */
  gr_lane_run *last;
  uint64_t newest;                     /* number of the newest lane that is over */
  gr_arg *args;
  int32_t args_room;
  uint8_t *scratch;
  uint64_t scratch_room;
  uint8_t *packed;                     /* for args_room arguments: DLTensors, values, codes */
};

void *gr_queue_work(void *queue);            /* a queue's thread */

#endif
