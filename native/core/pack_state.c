/* pack_state.c: the bounds of an attempt of the packer, floors of its sections, and causes.
 *
 * Called by pack_search.c; an attempt is one thread's.
 * defines: gr_pack_make, gr_pack_drop, gr_pack_add_all, gr_pack_explain, gr_pack_enough, gr_pack_lift,
 * gr_pack_begin_touch, gr_pack_touch, gr_pack_refresh, gr_pack_buffer_fits, gr_pack_sections_fit
 */
#include "pack_state.h"

#include <stdlib.h>
#include <string.h>

/* **************** causes **************** */

void gr_pack_add_all(const search *s, uint64_t *set, const uint64_t *more) {
  for (int32_t w = 0; w < s->words; ++w) set[w] |= more[w];
}

void gr_pack_explain(const search *s, int32_t at, int64_t bound, uint64_t *set) {
  if (bound <= 0) return;
  int32_t c = s->why[at];
  while (c != NEVER && s->causes[c].before != NEVER && s->causes[s->causes[c].before].bound >= bound)
    c = s->causes[c].before;
  for (; c != NEVER; c = s->causes[c].before) {
    int32_t decision = s->causes[c].level;
    gr_pack_add(set, decision);
    if (s->levels[decision].placed == NEVER) gr_pack_add_all(s, set, s->lifted + (int64_t)decision * s->words);
  }
}

/* Adds the decisions because of which all unplaced buffers of a section lie at bound or above. */
static void explain_section(const search *s, int32_t t, int64_t bound, uint64_t *set) {
  for (int64_t k = s->in->alive_ptr[t]; k < s->in->alive_ptr[t + 1]; ++k)
    if (!s->placed[s->in->alive[k]]) gr_pack_explain(s, s->in->alive[k], bound, set);
}

static void *grown(void *array, int32_t *room, size_t element) {
  void *larger = realloc(array, (size_t)*room * 2 * element);
  if (larger) *room *= 2;
  return larger;
}

int gr_pack_lift(search *s, int32_t at, int64_t bound, int32_t decision, int32_t before) {
  if (s->trail_count == s->trail_room) {
    void *larger = grown(s->trail, &s->trail_room, sizeof *s->trail);
    if (!larger) return 0;
    s->trail = larger;
  }
  if (s->cause_count == s->cause_room) {
    void *larger = grown(s->causes, &s->cause_room, sizeof *s->causes);
    if (!larger) return 0;
    s->causes = larger;
  }
  s->trail[s->trail_count++] = (struct undo){s->low[at], at, s->why[at]};
  s->causes[s->cause_count] = (cause){bound, decision, before};
  s->low[at] = bound;
  s->why[at] = s->cause_count++;
  return 1;
}

int32_t gr_pack_enough(const search *s, int32_t at, int64_t offset) {
  int64_t size = s->in->size[at];
  if (size > offset) return NEVER;
  int32_t c = s->why[at];
  while (c != NEVER && s->causes[c].before != NEVER && s->causes[s->causes[c].before].bound + size > offset)
    c = s->causes[c].before;
  return c;
}

/* **************** sections **************** */

void gr_pack_touch(search *s, int32_t at) {
  for (int64_t k = s->in->of_ptr[at]; k < s->in->of_ptr[at + 1]; ++k) {
    int32_t t = s->in->of[k];
    if (s->mark[t] == s->stamp) continue;
    s->mark[t] = s->stamp;
    s->dirty[s->dirty_count++] = t;
  }
}

void gr_pack_begin_touch(search *s) {
  ++s->stamp;
  s->dirty_count = 0;
}

/* Works out floor and answers of the touched sections again. */
void gr_pack_refresh(search *s) {
  const gr_pack_instance *in = s->in;
  for (int32_t d = 0; d < s->dirty_count; ++d) {
    int32_t t = s->dirty[d], count = 0;
    int64_t floor = INT64_MAX;
    for (int64_t k = in->alive_ptr[t]; k < in->alive_ptr[t + 1]; ++k) {
      int32_t at = in->alive[k];
      if (s->placed[at] || s->low[at] > floor) continue;
      count = s->low[at] < floor ? 1 : count + 1;
      floor = s->low[at];
    }
    s->floor[t] = floor;
    s->answers_of[t] = count;
  }
}

int gr_pack_sections_fit(search *s) {
  for (int32_t d = 0; d < s->dirty_count; ++d) {
    int32_t t = s->dirty[d];
    if (!s->answers_of[t] || s->floor[t] + s->rest[t] <= s->in->capacity) continue;
    ++s->weight[t];
    explain_section(s, t, s->in->capacity - s->rest[t] + 1, s->conflict);
    return 0;
  }
  return 1;
}

int gr_pack_buffer_fits(search *s, int32_t at) {
  int64_t most = s->in->capacity - s->in->size[at];
  if (s->low[at] <= most) return 1;
  ++s->weight[s->in->of[s->in->of_ptr[at]]];
  gr_pack_explain(s, at, most + 1, s->conflict);
  return 0;
}

/* **************** memory **************** */

static int64_t most_alive(const gr_pack_instance *in) {
  int64_t most = 0;
  for (int32_t t = 0; t < in->sections; ++t)
    if (in->alive_ptr[t + 1] - in->alive_ptr[t] > most) most = in->alive_ptr[t + 1] - in->alive_ptr[t];
  return most;
}

int gr_pack_make(search *s) {
  const gr_pack_instance *in = s->in;
  size_t n = (size_t)in->count, m = (size_t)in->sections;
  s->max_depth = 2 * in->count + 62;
  s->words = (s->max_depth + 63) / 64;
  size_t depth = (size_t)s->max_depth, words = (size_t)s->words;
  s->trail_room = s->cause_room = 16 * in->count + 16;
  s->low = calloc(n, sizeof *s->low);
  s->why = malloc(n * sizeof *s->why);
  s->placed = calloc(n, 1);
  s->decided = malloc(n * sizeof *s->decided);
  s->rest = malloc(m * sizeof *s->rest);
  s->floor = malloc(m * sizeof *s->floor);
  s->answers_of = calloc(m, sizeof *s->answers_of);  /* where no buffer lives it stays 0 */
  s->mark = calloc(m, sizeof *s->mark);
  s->dirty = malloc(m * sizeof *s->dirty);
  s->trail = malloc((size_t)s->trail_room * sizeof *s->trail);
  s->causes = malloc((size_t)s->cause_room * sizeof *s->causes);
  s->levels = malloc(depth * sizeof *s->levels);
  s->answers = malloc((n + depth * (size_t)most_alive(in)) * sizeof *s->answers);
  s->conflict = malloc(words * sizeof *s->conflict);
  s->conflicts = malloc(depth * words * sizeof *s->conflicts);
  s->lifted = malloc(depth * words * sizeof *s->lifted);
  if (!s->low || !s->why || !s->placed || !s->decided || !s->rest || !s->floor || !s->answers_of || !s->mark ||
      !s->dirty || !s->trail || !s->causes || !s->levels || !s->answers || !s->conflict || !s->conflicts ||
      !s->lifted)
    return 0;
  memset(s->why, 0xff, n * sizeof *s->why);          /* NEVER */
  memcpy(s->rest, in->total, m * sizeof *s->rest);
  gr_pack_begin_touch(s);
  for (int32_t i = 0; i < in->count; ++i) gr_pack_touch(s, i);
  gr_pack_refresh(s);
  return 1;
}

void gr_pack_drop(search *s) {
  void *arrays[] = {s->low,   s->why,    s->placed, s->decided, s->rest,    s->floor,    s->answers_of, s->mark,
                    s->dirty, s->trail,  s->causes, s->levels,  s->answers, s->conflict, s->conflicts,  s->lifted};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) free(arrays[i]);
}

