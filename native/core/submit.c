/* submit.c: submissions: an instance of a template is ordered after what is queued, and handed to the queues.
 *
 * Called by graph_runtime/run/queues/template.py, any thread.
 * defines: gr_submit, gr_submit_call, gr_submit_op
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "queue.h"
#include "status.h"

#define DEPTH_MOST 1024            /* lanes that gr_submit_call lets wait in a queue */
#define SLICE_NS 50000000

static struct {                    /* under gr_async_lock: waits of the submission at hand */
  gr_wait *items;
  int32_t *lanes;
  int32_t count, capacity;
} found;

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

/* ---------------------------------------------------------------- under gr_async_lock */

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

/* Adds the events that a lane's use of a slot waits for. */
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
 * lane implies it. */
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
      if (buffers[s]->hollow)
        return gr_fail(GR_ERR_ARGUMENT, "the memory of values that never came is given back");
      continue;
    }
    const gr_slot *slot = t->slots + s;
    if (!slot->extent || !slot->device) return gr_fail(GR_ERR_ARGUMENT, "slot %d was given no buffer", s);
    buffers[s] = gr_buffer_take(slot->device, slot->memory, slot->extent, t->holder, 0);
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

/* Drops buffers that were taken: those that the caller does not keep, or after a failure all, which are then freed, so
 * that gr_reclaim does not find them again and again. */
static void drop_taken(const gr_template *t, gr_buffer **buffers, const uint8_t *taken, int all) {
  for (int32_t s = 0; s < t->num_slots; ++s)
    if (taken[s] && (all || !t->slots[s].keep)) {
      gr_buffer_drop(buffers[s], all);
      buffers[s] = NULL;
    }
}

/* Keeps room for the circular buffers of all lanes, or on failure for none. */
static int32_t hold_circular(const gr_template *t) {
  for (int32_t l = 0; l < t->num_lanes; ++l)
    if (t->circular[l] && gr_circular_hold(t->queues[l]->device, t->circular[l], t->holder)) {
      while (l-- > 0) gr_circular_drop(t->queues[l]->device, t->circular[l]);
      return GR_ERR_OUT_OF_MEMORY;
    }
  return GR_OK;
}

static void drop_circular(const gr_template *t) {
  for (int32_t l = 0; l < t->num_lanes; ++l) gr_circular_drop(t->queues[l]->device, t->circular[l]);
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
  gr_run *run = NULL;
  if (!hold_circular(tmpl)) {
    run = take_buffers(tmpl, buffers, taken) ? NULL : enqueue(tmpl, buffers);
    drop_taken(tmpl, buffers, taken, run == NULL);
    if (!run) drop_circular(tmpl);
  }
  pthread_mutex_unlock(&gr_async_lock);
  if (run) {
    for (int64_t m = 0; m < tmpl->num_moves; ++m) gr_moved_add(tmpl->moves + m);
    for (int32_t l = 0; l < tmpl->num_lanes; ++l) gr_queue_poke(tmpl->queues[l]);
  }
  if (taken != few) free(taken);
  return run;
}

int32_t gr_submit_call(gr_template *tmpl, gr_buffer **buffers) {
  int64_t deadline = 0;
  int32_t status = tmpl->num_lanes ? GR_OK : gr_async_usable();
  if (status) return status;
  while (tmpl->num_lanes && gr_queue_depth(tmpl->queues[0]) >= DEPTH_MOST) {
    if (!deadline) deadline = gr_now_ns() + SLICE_NS;
    int64_t left = deadline - gr_now_ns();
    if (left <= 0) return gr_fail(GR_INTERRUPTED, "too much is queued already");
    gr_runs_ended(gr_runs_ended(0, 0), left < 1000000 ? left : 1000000);
  }
  gr_run *run = gr_submit(tmpl, buffers);
  if (!run) return gr_last_status();
  gr_run_release(run);
  return GR_OK;
}

gr_buffer *gr_submit_op(gr_template *tmpl, gr_buffer *a, gr_buffer *b, gr_buffer *c) {
  gr_buffer *buffers[4] = {a, b, c, NULL};
  if (tmpl->num_slots < 1 || tmpl->num_slots > 4 || !tmpl->slots[tmpl->num_slots - 1].keep) {
    gr_fail(GR_ERR_ARGUMENT, "a template of %d slots is not one of up to three inputs and an output",
            tmpl->num_slots);
    return NULL;
  }
  gr_buffer **output = buffers + tmpl->num_slots - 1;
  *output = NULL;
  return gr_submit_call(tmpl, buffers) ? NULL : *output;
}
