/* worker.c: the queues' threads. A worker runs steps of the oldest lane in its queue that is not waiting. With nothing
 * to run it spins for a while, then sleeps; before that it leaves its name with the lanes that its own lanes wait for,
 * so that only those lanes wake it.
 *
 * Waking a sleeping thread costs about 25 us, a spinning one 0.1 us: so workers spin 50 us, as the pool's do, but no
 * more of them at once than there are cores besides one.
 *
 * Kernels run under no lock.
 * defines: gr_queue_poke, gr_queue_work
 */
#define _GNU_SOURCE            /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "../tvm/packed.h"
#include "clock.h"
#include "guard.h"
#include "parallel.h"
#include "queue.h"
#include "status.h"
#include "threads.h"

#define SPIN_NS 50000
#define WINDOW 64            /* lanes that a worker looks at; the oldest of all runs is among its queues' first */
#define DLTENSOR_BYTES 48
#define ALIGNMENT 64u

static _Atomic int32_t spinners;

/* ---------------------------------------------------------------- sleeping and waking */

void gr_queue_poke(gr_queue *queue) {
  if (atomic_load_explicit(&queue->state, memory_order_seq_cst) == GR_AWAKE) return;
  pthread_mutex_lock(&queue->lock);
  pthread_cond_signal(&queue->wake);
  pthread_mutex_unlock(&queue->lock);
}

static void poke_all(void) {
  for (gr_queue *queue = atomic_load_explicit(&gr_queues, memory_order_acquire); queue; queue = queue->next)
    gr_queue_poke(queue);
}

/* After a lane went on (seq_cst) to done steps: wakes the queues that wait for them. Waking takes 10 us of this
 * thread, so queues that wait for later steps sleep on. wanted_at is cleared before wanted_by. A queue that arrives in
 * between registers again, at once or after it was woken too early. */
static void lane_went_on(gr_lane_run *lane, int32_t done) {
  int32_t at = atomic_load_explicit(&lane->wanted_at, memory_order_seq_cst);
  if (at && at <= done) {
    atomic_compare_exchange_strong_explicit(&lane->wanted_at, &at, 0, memory_order_seq_cst, memory_order_seq_cst);
    gr_queue *wanted = atomic_exchange_explicit(&lane->wanted_by, NULL, memory_order_seq_cst);
    if (wanted == GR_MANY) poke_all();
    else if (wanted) gr_queue_poke(wanted);
  }
  if (atomic_load_explicit(&lane->run->watched, memory_order_seq_cst) & GR_WATCH_STEPS) gr_watch_wake();
}

/* Leaves the queue's name with a lane until so many of its steps are over. */
static void want(gr_queue *queue, gr_lane_run *lane, int32_t steps) {
  int32_t at;
  do {
    at = atomic_load_explicit(&lane->wanted_at, memory_order_seq_cst);
    while ((!at || at > steps) &&
           !atomic_compare_exchange_weak_explicit(&lane->wanted_at, &at, steps, memory_order_seq_cst,
                                                  memory_order_seq_cst))
      ;
    gr_queue *none = NULL;
    if (!atomic_compare_exchange_strong_explicit(&lane->wanted_by, &none, queue, memory_order_seq_cst,
                                                 memory_order_seq_cst) &&
        none != queue)
      atomic_store_explicit(&lane->wanted_by, GR_MANY, memory_order_seq_cst);
    at = atomic_load_explicit(&lane->wanted_at, memory_order_seq_cst);
  } while (!at || at > steps);           /* the lane went on, and forgot it before it saw the name */
}

/* ---------------------------------------------------------------- what is ready */

static const gr_lane_step *step_of(const gr_lane_run *lane) {
  const gr_template *t = lane->run->tmpl;
  int64_t first = t->lane_ptr[lane - lane->run->lanes];
  return t->lane_steps + first + atomic_load_explicit(&lane->done, memory_order_relaxed);
}

static void poison(gr_lane_run *lane, gr_cause *cause, int32_t at, int64_t step, int32_t itself) {
  atomic_fetch_add_explicit(&cause->refs, 1, memory_order_relaxed);
  lane->cause = cause;
  lane->failed_step = step;
  lane->itself = itself;
  atomic_store_explicit(&lane->failed_at, at, memory_order_release);
}

/* NULL if the lane's next step may run, else the lane that it waits for, and the number of its steps to be over. */
static gr_lane_run *blocked_by(gr_lane_run *lane, int32_t *steps) {
  int32_t place = atomic_load_explicit(&lane->done, memory_order_relaxed);
  const gr_lane_step *step = step_of(lane);
  for (; lane->next_wait < lane->num_waits && lane->waits[lane->next_wait].step <= place; ++lane->next_wait) {
    const gr_wait *wait = lane->waits + lane->next_wait;
    *steps = wait->event.value;
    if (!gr_event_over(&wait->event)) return wait->event.run->lanes + wait->event.lane;
    gr_cause *cause = wait->data ? gr_event_cause(&wait->event) : NULL;
    if (cause && !lane->cause) poison(lane, cause, place, step->step, GR_FAILED_BEFORE);
    gr_run_release(wait->event.run);
  }
  const gr_event *waits = lane->run->tmpl->waits + step->first_wait;
  for (int32_t w = 0; w < step->num_waits; ++w) {
    gr_lane_run *other = lane->run->lanes + waits[w].lane;
    *steps = waits[w].value;
    if (atomic_load_explicit(&other->done, memory_order_acquire) < waits[w].value) return other;
    if (lane->cause) continue;
    if (atomic_load_explicit(&other->failed_at, memory_order_acquire) < waits[w].value)
      poison(lane, other->cause, place, step->step, GR_FAILED_BEFORE);
  }
  return NULL;
}

/* Appends the lanes submitted since the last call. */
static void take_inbox(gr_queue *queue) {
  if (!atomic_load_explicit(&queue->inbox, memory_order_relaxed)) return;
  gr_lane_run *newest = atomic_exchange_explicit(&queue->inbox, NULL, memory_order_acquire), *oldest = NULL;
  gr_lane_run *tail = newest;
  while (newest) {
    gr_lane_run *before = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = before;
  }
  if (!oldest) return;
  if (queue->first) queue->last->next = oldest;
  else queue->first = oldest;
  queue->last = tail;
}

/* The oldest lane that can go on, and the one before it in the list. */
static gr_lane_run *find_ready(gr_queue *queue, gr_lane_run **before) {
  take_inbox(queue);
  gr_lane_run *lane = queue->first;
  int32_t steps;
  *before = NULL;
  for (int i = 0; lane && i < WINDOW; ++i, *before = lane, lane = lane->next)
    if (!blocked_by(lane, &steps)) return lane;
  return NULL;
}

/* The same; leaves the queue's name where it is waited for, if there is none. */
static gr_lane_run *find_ready_or_want(gr_queue *queue, gr_lane_run **before) {
  gr_lane_run *lane = find_ready(queue, before);
  if (lane) return lane;
  *before = NULL;
  lane = queue->first;
  for (int i = 0; lane && i < WINDOW; ++i, *before = lane, lane = lane->next) {
    gr_lane_run *other;
    int32_t steps, still;
    while ((other = blocked_by(lane, &steps))) {
      want(queue, other, steps);
      if (blocked_by(lane, &still) == other && still == steps) break;     /* else it went on before it saw our name */
    }
    if (!other) return lane;
  }
  return NULL;
}

/* ---------------------------------------------------------------- running */

static int32_t make_room(gr_queue *queue, const gr_step *step) {
  if (step->nargs > queue->args_room || !queue->args) {      /* memcpy wants an address, of no bytes, too */
    size_t room = (size_t)step->nargs + 16;
    free(queue->args);
    free(queue->packed);
    queue->args_room = 0;
    queue->args = malloc(room * sizeof *queue->args);
    queue->packed = malloc(room * (DLTENSOR_BYTES + sizeof(uint64_t) + sizeof(int32_t)));
    if (!queue->args || !queue->packed) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for arguments");
    queue->args_room = (int32_t)room;
  }
  if (step->scratch > queue->scratch_room) {
    free(queue->scratch);
    queue->scratch_room = 0;
    void *block = NULL;
    uint64_t bytes = (step->scratch + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (posix_memalign(&block, ALIGNMENT, bytes)) block = NULL;
    queue->scratch = block;
    if (!block) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for %llu B of scratch",
                               (unsigned long long)step->scratch);
    queue->scratch_room = bytes;
  }
  return GR_OK;
}

/* A packed function's arguments: DLTensors as the template has them, at this run's addresses. */
static int32_t call_packed(gr_queue *queue, const gr_template *t, const gr_step *step, gr_call *call) {
  uint8_t *tensors = queue->packed;
  uint64_t *values = (uint64_t *)(void *)(tensors + (size_t)queue->args_room * DLTENSOR_BYTES);
  int32_t *codes = (int32_t *)(void *)(values + queue->args_room);
  memcpy(tensors, t->tensors + (size_t)step->first_arg * DLTENSOR_BYTES, (size_t)step->nargs * DLTENSOR_BYTES);
  for (int32_t a = 0; a < step->nargs; ++a) {
    uint8_t *tensor = tensors + (size_t)a * DLTENSOR_BYTES;
    memcpy(tensor, &queue->args[a].addr, sizeof(uint64_t));      /* data comes first */
    values[a] = (uint64_t)(uintptr_t)tensor;
    codes[a] = TVM_TENSOR;
  }
  gr_packed_call packed = *(const gr_packed_call *)(const void *)step->attrs;
  packed.values = values;
  packed.codes = codes;
  packed.nargs = step->nargs;
  call->attrs = (const int64_t *)(const void *)&packed;
  return gr_packed_call_run(call);
}

/* In guard mode: opens or closes the host memory that a step writes. */
static void open_written(const gr_queue *queue, const gr_step *step, int on) {
  for (int32_t a = step->num_inputs; a < step->nargs; ++a)
    if (queue->args[a].memory == GR_HOST) (on ? gr_guard_open : gr_guard_close)(queue->args[a].addr);
}

/* *itself: GR_FAILED_MIDWAY as soon as the kernel may write. */
static int32_t run_step(gr_queue *queue, const gr_run *run, const gr_step *step, int32_t *itself) {
  const gr_template *t = run->tmpl;
  int32_t status = make_room(queue, step);
  if (status) return status;
  memcpy(queue->args, t->args + step->first_arg, (size_t)step->nargs * sizeof(gr_arg));
  for (int32_t a = 0; a < step->nargs; ++a)
    queue->args[a].addr += run->base[t->arg_slot[step->first_arg + a]];
  gr_call call = {GR_ABI_VERSION, step->nargs, queue->args, step->attrs, queue->scratch, step->env};
  gr_device *guarded = gr_devices_guarded() ? gr_env_device(step->env) : NULL;
  gr_error_clear();
  gr_pool_enter();
  gr_device_enter(guarded);
  int guards = atomic_load_explicit(&gr_guard_blocks, memory_order_relaxed) > 0;
  if (guards) open_written(queue, step, 1);
  *itself = GR_FAILED_MIDWAY;
  status = step->fn == gr_packed_kernel_fn() ? call_packed(queue, t, step, &call) : step->fn(&call);
  if (guards) open_written(queue, step, 0);
  gr_device_leave(guarded);
  gr_pool_leave();
  if (status) status = gr_kernel_status(status);
  if (status == GR_ERR_REFUSED) *itself = GR_FAILED_UNBEGUN;
  return status;
}

static int leaves_out(const gr_queue *queue, const gr_run *run) {
  return atomic_load_explicit(&run->cancelled, memory_order_relaxed) ||
         atomic_load_explicit(&queue->closed, memory_order_relaxed) ||
         atomic_load_explicit(&gr_async_state, memory_order_relaxed) != GR_ASYNC_OPEN;
}

/* Runs the lane's next step, or leaves it out where something before it failed; 1: that was the last. */
static int advance(gr_queue *queue, gr_lane_run *lane) {
  gr_run *run = lane->run;
  const gr_template *t = run->tmpl;
  int64_t index = step_of(lane)->step;
  int64_t *clock = atomic_load_explicit(&run->tmpl->clock, memory_order_acquire);
  int32_t place = atomic_load_explicit(&lane->done, memory_order_relaxed);
  if (clock) clock[2 * index] = gr_now_ns();
  if (!lane->cause) {
    int32_t itself = GR_FAILED_UNBEGUN;
    int32_t status = leaves_out(queue, run) ? gr_fail(GR_ERR_CANCELLED, "cancelled before it began")
                                            : run_step(queue, run, t->steps + index, &itself);
    if (status) {
      gr_cause *cause = gr_cause_make(t->steps + index, index, status, gr_error_text());
      poison(lane, cause, place, index, itself);
      gr_cause_release(cause);
    }
  }
  if (clock) clock[2 * index + 1] = gr_now_ns();
  int64_t me = lane - run->lanes;
  int last = place + 1 == t->lane_ptr[me + 1] - t->lane_ptr[me];
  /* seq_cst: either a thread that is about to sleep sees this, or we see that it wants to be woken */
  atomic_store_explicit(&lane->done, place + 1, memory_order_seq_cst);
  lane_went_on(lane, place + 1);
  return last;
}

static void finish(gr_queue *queue, gr_lane_run *lane, gr_lane_run *before) {
  if (before) before->next = lane->next;
  else queue->first = lane->next;
  if (queue->last == lane) queue->last = before;
  gr_run *run = lane->run;
  gr_circular_drop(queue->device, run->tmpl->circular[lane - run->lanes]);
  if (lane->number > queue->newest) queue->newest = lane->number;
  /* seq_cst, and before the run ends: a waiter that is woken by that end sees it */
  if (!before)
    atomic_store_explicit(&queue->passed, queue->first ? queue->first->number - 1 : queue->newest, memory_order_seq_cst);
  if (atomic_fetch_sub_explicit(&run->left, 1, memory_order_acq_rel) == 1) {
    gr_run_end(run);
    gr_buffers_run_ended();
  }
  atomic_fetch_sub_explicit(&queue->depth, 1, memory_order_release);
}

/* ---------------------------------------------------------------- the thread */

static int64_t most_spinners(void) {
  static _Atomic int64_t cores;
  int64_t known = atomic_load_explicit(&cores, memory_order_relaxed);
  if (known) return known;
  cpu_set_t set;
  known = sched_getaffinity(0, sizeof set, &set) ? 2 : CPU_COUNT(&set);
  known = known > 1 ? known - 1 : 1;
  atomic_store_explicit(&cores, known, memory_order_relaxed);
  return known;
}

static gr_lane_run *spin(gr_queue *queue, gr_lane_run **before) {
  gr_lane_run *lane = NULL;
  if (atomic_fetch_add_explicit(&spinners, 1, memory_order_relaxed) < most_spinners()) {
    int64_t until = gr_now_ns() + SPIN_NS;
    do {
      for (int i = 0; i < 32 && !lane; ++i) {
        lane = find_ready(queue, before);
        if (!lane) gr_relax();
      }
      if (!lane) sched_yield();            /* the thread that we wait for may want this core */
    } while (!lane && gr_now_ns() < until);
  }
  atomic_fetch_sub_explicit(&spinners, 1, memory_order_relaxed);
  return lane;
}

/* Sleeps until there is something to run; NULL when the queue quits. */
static gr_lane_run *sleep_for_work(gr_queue *queue, gr_lane_run **before) {
  pthread_mutex_lock(&queue->lock);
  atomic_store_explicit(&queue->state, GR_SLEEPS, memory_order_seq_cst);
  gr_lane_run *lane;
  while (!(lane = find_ready_or_want(queue, before)) &&
         !atomic_load_explicit(&queue->quit, memory_order_seq_cst)) {
    if (atomic_load_explicit(&queue->inbox, memory_order_seq_cst)) continue;
    pthread_cond_wait(&queue->wake, &queue->lock);
  }
  atomic_store_explicit(&queue->state, GR_AWAKE, memory_order_seq_cst);
  pthread_mutex_unlock(&queue->lock);
  return lane;
}

void *gr_queue_work(void *of) {
  gr_queue *queue = of;
  for (;;) {
    gr_lane_run *before, *lane = find_ready(queue, &before);
    if (!lane) lane = spin(queue, &before);
    if (!lane) lane = sleep_for_work(queue, &before);
    if (!lane) return NULL;
    int over;
    int32_t steps;
    while (!(over = advance(queue, lane)) && !before && !blocked_by(lane, &steps))
      ;                                   /* the oldest goes on; others only while no older one can */
    if (over) finish(queue, lane, before);
  }
}
