/* template.c: the steps of a submission, worked out once: each lane's steps, and each lane's uses of each slot, which
 * is all that gr_submit needs to order it after the work that is queued already.
 *
 * Called by graph_runtime/run/queues/template.py, any thread.
 * defines: gr_template_create, gr_template_busy, gr_template_clock, gr_template_destroy
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "status.h"

static int32_t check(const gr_template_desc *desc) {
  if (desc->num_steps < 0 || desc->num_steps > INT32_MAX || desc->num_args < 0 || desc->num_lanes < 0 ||
      desc->num_slots < 0 || desc->num_waits < 0)
    return gr_fail(GR_ERR_ARGUMENT, "a template of negative or too many parts cannot be");
  for (int64_t a = 0; a < desc->num_args; ++a)
    if (desc->arg_slot[a] < 0 || desc->arg_slot[a] >= desc->num_slots)
      return gr_fail(GR_ERR_ARGUMENT, "argument %lld has no slot", (long long)a);
  for (int64_t s = 0; s < desc->num_steps; ++s) {
    const gr_step *step = desc->steps + s;
    if (!step->fn || step->lane < 0 || step->lane >= desc->num_lanes || step->nargs < 0 ||
        step->first_arg < 0 || step->first_arg + step->nargs > desc->num_args || step->num_waits < 0 ||
        step->first_wait < 0 || step->first_wait + step->num_waits > desc->num_waits)
      return gr_fail(GR_ERR_ARGUMENT, "step %lld of the template has no kernel, lane, arguments or waits",
                     (long long)s);
    for (int32_t w = 0; w < step->num_waits; ++w)
      if (desc->waits[step->first_wait + w] < 0 || desc->waits[step->first_wait + w] >= s)
        return gr_fail(GR_ERR_ARGUMENT, "step %lld waits for a step that does not come before it",
                       (long long)s);
  }
  return GR_OK;
}

static void *copy_of(const void *from, int64_t count, size_t size) {
  void *made = calloc((size_t)count + 1, size);
  if (made && count) memcpy(made, from, (size_t)count * size);
  return made;
}

/* Each lane's steps one after another, and each wait as a place in a lane. */
static int32_t split(gr_template *t, const gr_template_desc *desc) {
  int64_t steps = desc->num_steps;
  int32_t *place = calloc((size_t)steps + 1, sizeof *place);   /* of a step in its lane */
  t->lane_ptr = calloc((size_t)desc->num_lanes + 1, sizeof *t->lane_ptr);
  t->lane_steps = calloc((size_t)steps + 1, sizeof *t->lane_steps);
  t->waits = calloc((size_t)desc->num_waits + 1, sizeof *t->waits);
  if (!place || !t->lane_ptr || !t->lane_steps || !t->waits) {
    free(place);
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a template");
  }
  for (int64_t s = 0; s < steps; ++s) t->lane_ptr[desc->steps[s].lane + 1] += 1;
  for (int32_t l = 0; l < desc->num_lanes; ++l) t->lane_ptr[l + 1] += t->lane_ptr[l];
  int64_t *next = copy_of(t->lane_ptr, desc->num_lanes, sizeof *next);
  if (!next) {
    free(place);
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a template");
  }
  for (int64_t s = 0; s < steps; ++s) {
    const gr_step *step = desc->steps + s;
    int64_t at = next[step->lane]++;
    place[s] = (int32_t)(at - t->lane_ptr[step->lane]);
    t->lane_steps[at] = (gr_lane_step){s, step->first_wait, step->num_waits, 0};
    for (int32_t w = 0; w < step->num_waits; ++w) {
      int64_t other = desc->waits[step->first_wait + w];
      t->waits[step->first_wait + w] = (gr_event){NULL, desc->steps[other].lane, place[other] + 1};
    }
  }
  free(next);
  free(place);
  return GR_OK;
}

static void note(gr_usage *usage, int32_t place, int write) {
  int32_t *first = write ? &usage->first_write : &usage->first_read;
  if (*first < 0) *first = place;
  *(write ? &usage->last_write : &usage->last_read) = place;
}

/* Each lane's uses of each slot. */
static int32_t survey(gr_template *t, const gr_template_desc *desc) {
  int64_t cells = (int64_t)desc->num_slots * desc->num_lanes;
  gr_usage *table = malloc(((size_t)cells + 1) * sizeof *table);
  uint8_t *touched = calloc((size_t)desc->num_slots + 1, 1);
  t->usage_ptr = calloc((size_t)desc->num_slots + 1, sizeof *t->usage_ptr);
  t->reads_first = calloc((size_t)desc->num_slots + 1, 1);
  if (!table || !touched || !t->usage_ptr || !t->reads_first) {
    free(table);
    free(touched);
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a template");
  }
  for (int64_t c = 0; c < cells; ++c)
    table[c] = (gr_usage){.lane = (int32_t)(c % desc->num_lanes), .first_read = -1, .last_read = -1,
                          .first_write = -1, .last_write = -1};
  int32_t *places = calloc((size_t)desc->num_lanes + 1, sizeof *places);
  for (int64_t s = 0; places && s < desc->num_steps; ++s) {
    const gr_step *step = desc->steps + s;
    int32_t place = places[step->lane]++;
    for (int32_t a = 0; a < step->nargs; ++a) {
      int32_t slot = desc->arg_slot[step->first_arg + a], write = a >= step->num_inputs;
      note(table + (int64_t)slot * desc->num_lanes + step->lane, place, write);
      if (!touched[slot]) t->reads_first[slot] = (uint8_t)!write;
      touched[slot] = 1;
    }
  }
  int64_t used = 0;
  for (int32_t slot = 0; slot < desc->num_slots; ++slot) {
    t->usage_ptr[slot] = used;
    for (int32_t l = 0; l < desc->num_lanes; ++l) {
      gr_usage usage = table[(int64_t)slot * desc->num_lanes + l];
      if (usage.first_read >= 0 || usage.first_write >= 0) table[used++] = usage;
    }
  }
  t->usage_ptr[desc->num_slots] = used;
  t->usages = table;
  free(touched);
  int32_t status = places ? GR_OK : gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a template");
  free(places);
  return status;
}

/* Copies are counted when they are queued: the step is then the copy that counts nothing. */
static int32_t find_moves(gr_template *t) {
  int64_t copies = 0;
  for (int64_t s = 0; s < t->num_steps; ++s) copies += t->steps[s].fn == gr_copy_kernel;
  if (!copies) return GR_OK;
  t->moves = calloc((size_t)copies, sizeof *t->moves);
  if (!t->moves) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a template");
  for (int64_t s = 0; s < t->num_steps; ++s) {
    gr_step *step = t->steps + s;
    if (step->fn != gr_copy_kernel || step->nargs != 2 || !step->attrs) continue;
    step->fn = gr_copy_queued;
    const gr_copy_envs *envs = (const gr_copy_envs *)(const void *)step->attrs;
    const gr_arg *args = t->args + step->first_arg;
    gr_moving move = gr_move_of(envs->src, args, envs->dst, args + 1);
    if (!move.moved) continue;
    int64_t m = 0;
    while (m < t->num_moves && (t->moves[m].moved != move.moved || t->moves[m].kind != move.kind)) ++m;
    if (m == t->num_moves) t->moves[t->num_moves++] = move;
    else t->moves[m].count += 1, t->moves[m].bytes += move.bytes;
  }
  return GR_OK;
}

static int32_t find_queues(gr_template *t, const gr_template_desc *desc) {
  t->queues = calloc((size_t)desc->num_lanes + 1, sizeof *t->queues);
  t->circular = calloc((size_t)desc->num_lanes + 1, sizeof *t->circular);
  if (!t->queues || !t->circular) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a template");
  for (int32_t l = 0; l < desc->num_lanes; ++l) {
    t->circular[l] = desc->lanes[l].circular;
    t->queues[l] = gr_queue_of(desc->lanes[l].device, desc->lanes[l].role);
    if (!t->queues[l]) return GR_ERR_ARGUMENT;
  }
  return GR_OK;
}

gr_template *gr_template_create(const gr_template_desc *desc) {
  if (check(desc)) return NULL;
  gr_template *t = calloc(1, sizeof *t);
  if (!t) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a template");
    return NULL;
  }
  snprintf(t->holder, sizeof t->holder, "%s", desc->holder ? desc->holder : "");
  t->num_lanes = desc->num_lanes;
  t->num_slots = desc->num_slots;
  t->num_steps = desc->num_steps;
  t->args = desc->args;
  t->arg_slot = desc->arg_slot;
  t->tensors = desc->tensors;
  t->steps = copy_of(desc->steps, desc->num_steps, sizeof *t->steps);
  t->slots = copy_of(desc->slots, desc->num_slots, sizeof *t->slots);
  int32_t status = t->steps && t->slots ? GR_OK : gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a template");
  if (!status) status = split(t, desc);
  if (!status) status = survey(t, desc);
  if (!status) status = find_queues(t, desc);
  if (!status) status = find_moves(t);
  if (!status) return t;
  gr_template_destroy(t);
  return NULL;
}

int32_t gr_template_busy(const gr_template *tmpl) {
  return atomic_load_explicit(&tmpl->busy, memory_order_acquire);
}

void gr_template_clock(gr_template *tmpl, int64_t *times) {
  atomic_store_explicit(&tmpl->clock, times, memory_order_release);
}

void gr_template_destroy(gr_template *tmpl) {
  if (!tmpl) return;
  free(tmpl->steps);
  free(tmpl->slots);
  free(tmpl->queues);
  free(tmpl->circular);
  free(tmpl->lane_steps);
  free(tmpl->lane_ptr);
  free(tmpl->waits);
  free(tmpl->usages);
  free(tmpl->usage_ptr);
  free(tmpl->reads_first);
  free(tmpl->moves);
  free(tmpl);
}
