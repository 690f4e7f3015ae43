/* async.h: the inside of asynchronous execution, shared by the files that it names below and by access.c, ending.c,
 * gather.c, submit.c and template.c.
 *
 * One lock, gr_async_lock, orders submissions and guards buffers' events and the lists of idle buffers. It is the
 * innermost lock except a device's and a queue's, and never held while a kernel runs or a thread waits. A lane's
 * progress is published by `done` alone; workers take the lock only when a run ends.
 *
 * defines: gr_event, gr_wait, gr_lane_run, gr_run, gr_template, gr_buffer, and the internal functions
 */
#ifndef GR_ASYNC_INTERNAL_H
#define GR_ASYNC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "device.h"
#include "gr_async.h"
#include "moved.h"

typedef struct gr_queue gr_queue;

/* ---------------------------------------------------------------- the process (async.c) */
/* Fate of submissions: taken; refused for ever, with queued work left out; refused, because this process is a child of
 * fork and has none of its parent's threads. */
enum { GR_ASYNC_OPEN, GR_ASYNC_SHUT, GR_ASYNC_FORKED };

extern pthread_mutex_t gr_async_lock;
extern _Atomic int32_t gr_async_state;       /* GR_ASYNC_* */
extern _Atomic int32_t gr_async_started;     /* 1: a queue's thread was started at some time */
extern gr_queue *_Atomic gr_queues;          /* all of them */

/* Steps of a lane before `value` are over. Holds a reference to the run. */
typedef struct gr_event {
  gr_run *run;
  int32_t lane;
  int32_t value;
} gr_event;

typedef struct gr_events {
  gr_event *items;       /* [capacity] */
  int32_t count;
  int32_t capacity;
} gr_events;

/* An event of an earlier run, to be over before step `step` of a lane. */
typedef struct gr_wait {
  gr_event event;
  int32_t step;
  int32_t data;          /* 1: the step reads what that event wrote, so its failure is ours */
} gr_wait;

/* A failure, shared by all the work that it poisoned. */
typedef struct gr_cause {
  _Atomic int32_t refs;
  gr_failure failure;
} gr_cause;

/* An input had failed; the step refused, or never began; its kernel gave up, perhaps after some writes. */
enum { GR_FAILED_BEFORE, GR_FAILED_UNBEGUN, GR_FAILED_MIDWAY };

/* A lane of a run. Its queue's worker writes; others read done (acquire), then failed_at and cause. */
typedef struct gr_lane_run {
  gr_run *run;
  struct gr_lane_run *next;          /* in its queue; the worker's own once it took it */
  _Atomic int32_t done;              /* steps that are over */
  _Atomic int32_t failed_at;         /* first step that failed or was left out; INT32_MAX: none */
  gr_cause *cause;                   /* set before failed_at */
  int64_t failed_step;               /* the template's index of that step; set before failed_at */
  int32_t itself;                    /* GR_FAILED_*: how that step failed; set before failed_at */
  uint64_t number;                   /* of the lanes that came to its queue, from 1 */
  int32_t num_waits;
  int32_t next_wait;                 /* waits before this one are over */
  gr_wait *waits;                    /* [num_waits] by step */
  _Atomic(gr_queue *) wanted_by;     /* a queue that sleeps until this lane goes on; GR_MANY: several */
  _Atomic int32_t wanted_at;         /* the fewest steps that those queues wait for; 0: none waits */
} gr_lane_run;

#define GR_WATCH_END 1             /* a thread sleeps until the run ends, */
#define GR_WATCH_STEPS 2           /* until one of its lanes goes on */
#define GR_MANY ((gr_queue *)(uintptr_t)1)

struct gr_run {
  _Atomic int32_t refs;              /* the caller, the lanes together, every event */
  _Atomic int32_t left;              /* lanes that are not over */
  _Atomic int32_t over;              /* 1: nothing of the run is to come, and its template may go */
  _Atomic int32_t cancelled;
  _Atomic int32_t watched;           /* GR_WATCH_*: what threads sleep for */
  gr_template *tmpl;                 /* valid until over */
  int32_t num_lanes;
  uint64_t *base;                    /* [slots] address of each slot's buffer */
  gr_lane_run lanes[];
};

/* A lane's uses of a slot: places in the lane, -1 for never. */
typedef struct gr_usage {
  int32_t lane;
  int32_t first_read, last_read, first_write, last_write;
} gr_usage;

/* A step in the worker's form. */
typedef struct gr_lane_step {
  int64_t step;                      /* index in the template */
  int64_t first_wait;
  int32_t num_waits;
  int32_t reserved;
} gr_lane_step;

struct gr_template {
  _Atomic int32_t busy;
  _Atomic(int64_t *) clock;          /* NULL, or where workers write when each step began and ended */
  int32_t num_lanes, num_slots;
  int64_t num_steps;
  char holder[64];
  gr_step *steps;                    /* [num_steps] */
  const gr_arg *args;
  const int32_t *arg_slot;
  const uint8_t *tensors;
  gr_slot *slots;                    /* [num_slots] */
  gr_queue **queues;                 /* [num_lanes] */
  uint32_t *circular;                /* [num_lanes] bytes that each keeps free for its circular buffers */
  gr_lane_step *lane_steps;          /* [num_steps], lane after lane */
  int64_t *lane_ptr;                 /* [num_lanes + 1] */
  gr_event *waits;                   /* lane and value of each wait in a run; run is not used */
  gr_usage *usages;                  /* slot after slot */
  int64_t *usage_ptr;                /* [num_slots + 1] */
  uint8_t *reads_first;              /* [num_slots]: the first step that touches it reads: a value comes in */
  gr_moving *moves;                    /* [num_moves] movements of copies among the steps, by device and kind */
  int64_t num_moves;
};

struct gr_buffer {
  _Atomic int32_t refs;
  int32_t owned;                     /* 1: allocated by us */
  int32_t on_host;                   /* 1: and memory of the host */
  gr_device *device;                 /* NULL: closed */
  int32_t memory;
  uint64_t addr, extent, id;
  uint64_t version;
  gr_events writes;                  /* what wrote it last */
  gr_events reads;                   /* what reads it since */
  int32_t arriving;                  /* the most events that the present submission adds */
  gr_buffer *next, *before;          /* neighbours in a bucket of addresses, of all devices */
  gr_buffer *later;                  /* the idle ones of its size, oldest first */
  int32_t hollow;                    /* 1: another buffer has its block now */
  int32_t leaves;                    /* idle: it is freed as soon as no work needs it */
};

/* ---------------------------------------------------------------- events (buffer.c) */
static inline int gr_event_over(const gr_event *event) {
  return atomic_load_explicit(&event->run->lanes[event->lane].done, memory_order_acquire) >= event->value;
}

/* The cause of failure of an event that is over, NULL if its steps succeeded. */
static inline gr_cause *gr_event_cause(const gr_event *event) {
  const gr_lane_run *lane = event->run->lanes + event->lane;
  return atomic_load_explicit(&lane->failed_at, memory_order_acquire) < event->value ? lane->cause : NULL;
}

/* The first event that is not over, NULL if there is none; under gr_async_lock. */
static inline const gr_event *gr_events_pending(const gr_events *events) {
  for (int32_t i = 0; i < events->count; ++i)
    if (!gr_event_over(events->items + i)) return events->items + i;
  return NULL;
}

/* Whether queued work still writes or reads a buffer; under gr_async_lock. */
static inline int gr_buffer_in_use(const gr_buffer *buffer) {
  return gr_events_pending(&buffer->writes) || gr_events_pending(&buffer->reads);
}

/* Under gr_async_lock. */
void gr_events_prune(gr_events *events);
int32_t gr_events_reserve(gr_events *events, int32_t more);   /* room for so many gr_events_add */
void gr_events_add(gr_events *events, gr_run *run, int32_t lane, int32_t value);
void gr_events_clear(gr_events *events);

/* ---------------------------------------------------------------- runs (run.c) */
void gr_watch_wake(void);
void gr_watch_reset(void);
int32_t gr_event_wait(const gr_event *event, int64_t deadline_ns);
void gr_run_end(gr_run *run);          /* by the worker that ended its last lane */
gr_cause *gr_cause_make(const gr_step *step, int64_t index, int32_t status, const char *text);
void gr_cause_release(gr_cause *cause);

/* ---------------------------------------------------------------- buffers (buffer.c, idle.c), under gr_async_lock */
gr_buffer *gr_buffer_make(gr_device *device, int32_t memory, uint64_t addr, uint64_t extent, int32_t owned);
void gr_buffer_unmake(gr_buffer *buffer);
/* The buffer with a holder that begins at an address, NULL if there is none. */
gr_buffer *gr_buffer_find(const gr_device *device, int32_t memory, uint64_t addr);
gr_buffer *gr_buffer_idle_at(const gr_device *device, int32_t memory, uint64_t addr);   /* without a holder */
void gr_buffer_renumber(gr_buffer *buffer);          /* gives it an id of its own anew */
void gr_buffers_close(const gr_device *device);      /* its buffers know that it is gone */
/* to_write: the host will write it, and would wait for what queued work does with the block. */
gr_buffer *gr_buffer_take(gr_device *device, int32_t memory, uint64_t extent, const char *holder, int to_write);
/* Drops a reference. After the last one a block that no work needs becomes idle, or with `now` is freed as soon as no
 * work needs it. */
void gr_buffer_drop(gr_buffer *buffer, int now);

/* In a child of fork: idle blocks with work to come are never used again, because no thread ends that work. */
void gr_buffers_abandon(void);
/* By a worker after a run, not under the lock: gives back blocks without a holder that shall not stay idle: those in
 * L1, and those dropped with `now`. */
void gr_buffers_run_ended(void);
/* While a device is closed (ending.c), not under the lock: idle blocks are freed, others know that it is gone. */
void gr_buffers_forget(gr_device *device);

/* ---------------------------------------------------------------- queues (queue.c, worker.c) */
/* The queue of a device, made at first use; NULL with gr_last_error. */
gr_queue *gr_queue_of(gr_device *device, int32_t role);
/* Queues a lane; under gr_async_lock. */
void gr_queue_push(gr_queue *queue, gr_lane_run *lane);
void gr_queue_poke(gr_queue *queue);       /* wakes its worker, if that sleeps */
int32_t gr_queue_depth(const gr_queue *queue);
/* GR_OK, or why nothing can be queued now: closed, forked, shut down. */
int32_t gr_queue_usable(const gr_queue *queue);

#endif
