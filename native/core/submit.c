/* submit.c: submissions: an instance of a template is ordered after what is queued, and handed to the queues.
 *
 * Called by graph_runtime/run.py and eager execution (any thread), and by the queues' workers.
 * defines: gr_submit, gr_submit_op, gr_run_*, gr_runs_ended, gr_event_wait, gr_watch_*, gr_cause_*
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "async.h"
#include "status.h"

#define DEPTH_MOST 1024            /* lanes that gr_submit_op lets wait in a queue */
#define SLICE_NS 50000000

/* Whoever sleeps for a run or a lane. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  _Atomic uint64_t ended;          /* runs so far; changes under the lock where somebody waits for it */
  _Atomic int32_t watchers;        /* who wait for `ended` */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {                    /* under gr_async_lock: waits of the submission at hand */
  gr_wait *items;
  int32_t *lanes;
  int32_t count, capacity;
} found;

int64_t gr_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---------------------------------------------------------------- causes */

/* For failures that there is no memory to tell apart. Its first reference is never dropped. */
static gr_cause no_memory = {.refs = 1,
                             .failure = {.status = GR_ERR_OUT_OF_MEMORY,
                                         .op = "queued work",
                                         .text = "the host has no memory to say what failed"}};

gr_cause *gr_cause_make(const gr_step *step, int64_t index, int32_t status, const char *text) {
  gr_cause *cause = calloc(1, sizeof *cause);
  if (!cause) {
    atomic_fetch_add_explicit(&no_memory.refs, 1, memory_order_relaxed);
    return &no_memory;
  }
  cause->refs = 1;
  gr_failure *failure = &cause->failure;
  failure->status = status;
  failure->step = (int32_t)index;
  snprintf(failure->node, sizeof failure->node, "%s", step->node ? step->node : "");
  snprintf(failure->op, sizeof failure->op, "%s", step->op ? step->op : "");
  const gr_device *device = gr_env_device(step->env);
  snprintf(failure->device, sizeof failure->device, "%s", device ? device->name : "");
  snprintf(failure->text, sizeof failure->text, "%s", text);
  return cause;
}

void gr_cause_release(gr_cause *cause) {
  if (cause && atomic_fetch_sub_explicit(&cause->refs, 1, memory_order_acq_rel) == 1) free(cause);
}

/* ---------------------------------------------------------------- runs */

void gr_run_retain(gr_run *run) { atomic_fetch_add_explicit(&run->refs, 1, memory_order_relaxed); }

void gr_run_release(gr_run *run) {
  if (!run || atomic_fetch_sub_explicit(&run->refs, 1, memory_order_acq_rel) > 1) return;
  for (int32_t l = 0; l < run->num_lanes; ++l) gr_cause_release(run->lanes[l].cause);
  free(run);
}

/* One block: the run, its lanes, the slots' addresses, the lanes' waits. */
static gr_run *make_run(gr_template *t) {
  size_t lanes = (size_t)t->num_lanes, slots = (size_t)t->num_slots;
  size_t bytes = sizeof(gr_run) + lanes * sizeof(gr_lane_run) + slots * sizeof(uint64_t) +
                 (size_t)found.count * sizeof(gr_wait);
  gr_run *run = malloc(bytes);
  if (!run) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a run");
    return NULL;
  }
  memset(run, 0, sizeof *run + lanes * sizeof(gr_lane_run));
  run->refs = 2;
  run->left = t->num_lanes;
  run->tmpl = t;
  run->num_lanes = t->num_lanes;
  run->base = (uint64_t *)(void *)(run->lanes + lanes);
  gr_wait *next = (gr_wait *)(void *)(run->base + slots);
  for (int32_t l = 0; l < t->num_lanes; ++l) {
    gr_lane_run *lane = run->lanes + l;
    lane->run = run;
    lane->failed_at = INT32_MAX;
    lane->waits = next;
    for (int32_t i = 0; i < found.count; ++i)
      if (found.lanes[i] == l) {
        int32_t at = lane->num_waits++;               /* sorted by step: few, and mostly in order */
        for (; at > 0 && next[at - 1].step > found.items[i].step; --at) next[at] = next[at - 1];
        next[at] = found.items[i];
      }
    next += lane->num_waits;
  }
  return run;
}

int32_t gr_run_done(const gr_run *run) {
  return atomic_load_explicit(&run->over, memory_order_seq_cst);
}

int32_t gr_run_failure(const gr_run *run, gr_failure *out) {
  const gr_lane_run *first = NULL;
  for (int32_t l = 0; l < run->num_lanes; ++l) {
    const gr_lane_run *lane = run->lanes + l;
    if (atomic_load_explicit(&lane->failed_at, memory_order_acquire) == INT32_MAX) continue;
    if (!first || lane->failed_step < first->failed_step) first = lane;
  }
  if (!first) return GR_OK;
  if (out) *out = first->cause->failure;
  return first->cause->failure.status;
}

void gr_run_cancel(gr_run *run) { atomic_store_explicit(&run->cancelled, 1, memory_order_relaxed); }

void gr_run_end(gr_run *run) {
  atomic_fetch_sub_explicit(&run->tmpl->busy, 1, memory_order_release);
  atomic_fetch_add_explicit(&watch.ended, 1, memory_order_seq_cst);
  /* seq_cst: either the waiter sees that the run is over, or we see the waiter */
  atomic_store_explicit(&run->over, 1, memory_order_seq_cst);
  if (atomic_load_explicit(&run->watched, memory_order_seq_cst) ||
      atomic_load_explicit(&watch.watchers, memory_order_seq_cst))
    gr_watch_wake();
  gr_run_release(run);
}

/* ---------------------------------------------------------------- waiting */

__attribute__((constructor)) static void init_watch(void) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&watch.changed, &attr);
  pthread_condattr_destroy(&attr);
}

void gr_watch_wake(void) {
  pthread_mutex_lock(&watch.lock);
  pthread_cond_broadcast(&watch.changed);
  pthread_mutex_unlock(&watch.lock);
}

/* After fork: the child has none of the threads that might hold the lock or sleep. */
void gr_watch_reset(void) {
  pthread_mutex_init(&watch.lock, NULL);
  init_watch();
}

/* Under watch.lock; 0 when the deadline has passed. */
static int sleep_until(int64_t deadline_ns) {
  struct timespec at = {deadline_ns / 1000000000, deadline_ns % 1000000000};
  return pthread_cond_timedwait(&watch.changed, &watch.lock, &at) != ETIMEDOUT;
}

static int32_t wait_for(gr_run *run, const gr_event *event, int64_t deadline_ns) {
  int32_t bit = event ? GR_WATCH_STEPS : GR_WATCH_END, status = GR_OK;
  if (event ? gr_event_over(event) : gr_run_done(run)) return GR_OK;
  if ((status = gr_async_usable())) return status;      /* after fork nobody will end it */
  pthread_mutex_lock(&watch.lock);
  atomic_fetch_or_explicit(&run->watched, bit, memory_order_seq_cst);
  while (!(event ? gr_event_over(event) : gr_run_done(run)))
    if (!sleep_until(deadline_ns)) {
      status = GR_INTERRUPTED;
      break;
    }
  pthread_mutex_unlock(&watch.lock);
  return status;
}

int32_t gr_event_wait(const gr_event *event, int64_t deadline_ns) {
  return wait_for(event->run, event, deadline_ns);
}

int32_t gr_run_wait(gr_run *run, int64_t budget_ns) { return wait_for(run, NULL, gr_now_ns() + budget_ns); }

uint64_t gr_runs_ended(uint64_t seen, int64_t budget_ns) {
  uint64_t ended = atomic_load_explicit(&watch.ended, memory_order_seq_cst);
  if (ended != seen || budget_ns <= 0) return ended;
  int64_t deadline = gr_now_ns() + budget_ns;
  atomic_fetch_add_explicit(&watch.watchers, 1, memory_order_seq_cst);
  pthread_mutex_lock(&watch.lock);
  while ((ended = atomic_load_explicit(&watch.ended, memory_order_seq_cst)) == seen && sleep_until(deadline))
    ;
  pthread_mutex_unlock(&watch.lock);
  atomic_fetch_sub_explicit(&watch.watchers, 1, memory_order_seq_cst);
  return ended;
}

/* ---------------------------------------------------------------- submitting, under gr_async_lock */

static int32_t find_wait(const gr_event *event, int32_t lane, int32_t step, int32_t data) {
  if (gr_event_over(event) && !(data && gr_event_cause(event))) return GR_OK;
  if (found.count == found.capacity) {
    int32_t capacity = found.capacity ? 2 * found.capacity : 64;
    gr_wait *items = realloc(found.items, (size_t)capacity * sizeof *items);
    if (items) found.items = items;
    int32_t *lanes = realloc(found.lanes, (size_t)capacity * sizeof *lanes);
    if (lanes) found.lanes = lanes;
    if (!items || !lanes) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for the waits of a run");
    found.capacity = capacity;
  }
  found.lanes[found.count] = lane;
  found.items[found.count++] = (gr_wait){*event, step, data};
  return GR_OK;
}

/* What a lane's use of a slot waits for. */
static int32_t find_waits(const gr_buffer *buffer, const gr_usage *use, int reads_first) {
  int32_t status = GR_OK;
  int reads = use->first_read >= 0 && (use->first_write < 0 || use->first_read <= use->first_write);
  int32_t first = reads ? use->first_read : use->first_write;
  for (int32_t i = 0; i < buffer->writes.count && !status; ++i)
    status = find_wait(buffer->writes.items + i, use->lane, first, reads && reads_first);
  if (use->first_write < 0) return status;
  for (int32_t i = 0; i < buffer->reads.count && !status; ++i)
    status = find_wait(buffer->reads.items + i, use->lane, use->first_write, 0);
  return status;
}

static void forget_others(gr_events *events, const gr_run *run) {
  int32_t kept = 0;
  for (int32_t i = 0; i < events->count; ++i) {
    gr_event event = events->items[i];
    if (event.run == run) events->items[kept++] = event;
    else gr_run_release(event.run);
  }
  events->count = kept;
}

/* The run is the buffer's last writer, or one more reader. A read counts unless a later write of the same
 * lane stands for it. */
static void add_events(gr_buffer *buffer, gr_run *run, const gr_usage *uses, int64_t count) {
  int writes = 0;
  for (int64_t u = 0; u < count; ++u) writes |= uses[u].first_write >= 0;
  if (writes) {
    forget_others(&buffer->writes, run);
    forget_others(&buffer->reads, run);
    buffer->version += 1;
  } else {
    gr_events_prune(&buffer->reads);
  }
  for (int64_t u = 0; u < count; ++u) {
    if (uses[u].last_write >= 0) gr_events_add(&buffer->writes, run, uses[u].lane, uses[u].last_write + 1);
    if (uses[u].last_read > uses[u].last_write)
      gr_events_add(&buffer->reads, run, uses[u].lane, uses[u].last_read + 1);
  }
}

/* Gives each slot a buffer; taken[s] says which are new. */
static int32_t take_buffers(const gr_template *t, gr_buffer **buffers, uint8_t *taken) {
  for (int32_t s = 0; s < t->num_slots; ++s) {
    taken[s] = 0;
    if (buffers[s]) {
      if (!buffers[s]->device && buffers[s]->owned)
        return gr_fail(GR_ERR_ARGUMENT, "a buffer's device is closed");
      continue;
    }
    const gr_slot *slot = t->slots + s;
    if (!slot->extent || !slot->device) return gr_fail(GR_ERR_ARGUMENT, "slot %d was given no buffer", s);
    buffers[s] = gr_buffer_take(slot->device, slot->memory, slot->extent, t->holder);
    if (!buffers[s]) return gr_last_status();
    taken[s] = 1;
  }
  return GR_OK;
}

static int32_t find_all(const gr_template *t, gr_buffer **buffers) {
  found.count = 0;
  int32_t status = GR_OK;
  for (int32_t s = 0; s < t->num_slots; ++s) buffers[s]->arriving = 0;
  for (int32_t s = 0; s < t->num_slots && !status; ++s) {
    gr_buffer *buffer = buffers[s];
    int64_t first = t->usage_ptr[s], last = t->usage_ptr[s + 1];
    buffer->arriving += (int32_t)(last - first);           /* one buffer may be given for several slots */
    status = gr_events_reserve(&buffer->writes, buffer->arriving);
    if (!status) status = gr_events_reserve(&buffer->reads, buffer->arriving);
    for (int64_t u = first; u < last && !status; ++u)
      status = find_waits(buffer, t->usages + u, t->reads_first[s]);
  }
  return status;
}

static gr_run *enqueue(gr_template *t, gr_buffer **buffers) {
  if (find_all(t, buffers)) return NULL;
  gr_run *run = make_run(t);
  if (!run) return NULL;
  for (int32_t i = 0; i < found.count; ++i) gr_run_retain(found.items[i].event.run);
  for (int32_t s = 0; s < t->num_slots; ++s) {
    run->base[s] = buffers[s]->addr;
    add_events(buffers[s], run, t->usages + t->usage_ptr[s], t->usage_ptr[s + 1] - t->usage_ptr[s]);
  }
  atomic_fetch_add_explicit(&t->busy, 1, memory_order_relaxed);
  if (!t->num_lanes) gr_run_end(run);
  for (int32_t l = 0; l < t->num_lanes; ++l) gr_queue_push(t->queues[l], run->lanes + l);
  return run;
}

/* Drops what was taken: all of it after a failure, and then it is freed, so that whoever looks for memory to
 * give back does not find it again and again; else what nobody keeps. */
static void drop_taken(const gr_template *t, gr_buffer **buffers, const uint8_t *taken, int all) {
  for (int32_t s = 0; s < t->num_slots; ++s)
    if (taken[s] && (all || !t->slots[s].keep)) {
      gr_buffer_drop(buffers[s], all);
      buffers[s] = NULL;
    }
}

gr_run *gr_submit(gr_template *tmpl, gr_buffer **buffers) {
  for (int32_t l = 0; l < tmpl->num_lanes; ++l)
    if (gr_queue_usable(tmpl->queues[l])) return NULL;
  uint8_t few[64], *taken = tmpl->num_slots <= 64 ? few : malloc((size_t)tmpl->num_slots);
  if (!taken) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a run");
    return NULL;
  }
  memset(taken, 0, (size_t)tmpl->num_slots);
  pthread_mutex_lock(&gr_async_lock);
  gr_run *run = take_buffers(tmpl, buffers, taken) ? NULL : enqueue(tmpl, buffers);
  drop_taken(tmpl, buffers, taken, run == NULL);
  pthread_mutex_unlock(&gr_async_lock);
  if (run)
    for (int32_t l = 0; l < tmpl->num_lanes; ++l) gr_queue_poke(tmpl->queues[l]);
  if (taken != few) free(taken);
  return run;
}

gr_buffer *gr_submit_op(gr_template *tmpl, gr_buffer *a, gr_buffer *b, gr_buffer *c) {
  gr_buffer *buffers[4] = {a, b, c, NULL};
  if (tmpl->num_slots < 1 || tmpl->num_slots > 4 || !tmpl->slots[tmpl->num_slots - 1].keep) {
    gr_fail(GR_ERR_ARGUMENT, "a template of %d slots is not one of up to three inputs and an output",
            tmpl->num_slots);
    return NULL;
  }
  int64_t deadline = 0;
  while (tmpl->num_lanes && gr_queue_depth(tmpl->queues[0]) >= DEPTH_MOST) {
    if (!deadline) deadline = gr_now_ns() + SLICE_NS;
    int64_t left = deadline - gr_now_ns();
    if (left <= 0) {
      gr_fail(GR_INTERRUPTED, "too much is queued already");
      return NULL;
    }
    gr_runs_ended(gr_runs_ended(0, 0), left < 1000000 ? left : 1000000);
  }
  gr_buffer **output = buffers + tmpl->num_slots - 1;
  *output = NULL;
  gr_run *run = gr_submit(tmpl, buffers);
  if (!run) return NULL;
  gr_run_release(run);
  return *output;
}
