/* pack_search.c: offsets that fit a capacity, for buffers of which those of a section share no byte: a depth-first
 * search that learns why it fails.
 *
 * Called by pack.c, any number of threads at a time with a state each.
 * defines: gr_pack_attempt
 *
 * A solution can be pushed down until every buffer lies at 0 or on top of another of one of its sections. The
 * search builds such a solution from below. Of each unplaced buffer it knows the lowest offset that is left; of each
 * section, a span of time mostly, the lowest such offset of its unplaced buffers (its floor) and how many bytes they
 * need. What the section has beyond that is its slack: if it is negative, the branch is dead.
 *   - It branches on a section: which of its unplaced buffers lies exactly on the floor; where there is slack, "none"
 *     is a last answer, which lifts them to the tops of what they could lie on instead. The section with the fewest
 *     answers goes first (often one: a forced move), and sections that killed many branches before the others.
 *   - Every bound remembers the decisions that it follows from. A dead branch gives the set of decisions that killed
 *     it, and the search jumps back to the last of these: trouble at one time is not tried again for each way to fill
 *     another.
 */
#include "pack_state.h"

#include <string.h>

#include "clock.h"

enum { CLOCK_EVERY = 256 };  /* nodes between two looks at the clock */

static int has(const uint64_t *set, int32_t decision) { return set[decision / 64] >> decision % 64 & 1; }

/* **************** decisions **************** */

/* Places a buffer at its bound: nothing unplaced fits below it, so the others at its time go on top. Returns 1, 0 if
 * the branch is dead (and why is in conflict), GR_ERR_OUT_OF_MEMORY. */
static int32_t place(search *s, int32_t at) {
  const gr_pack_instance *in = s->in;
  int64_t top = s->low[at] + in->size[at];
  int32_t fits = 1;
  gr_pack_begin_touch(s);
  s->placed[at] = 1;
  s->decided[at] = s->depth;
  for (int64_t k = in->of_ptr[at]; k < in->of_ptr[at + 1]; ++k) s->rest[in->of[k]] -= in->size[at];
  gr_pack_touch(s, at);
  for (int32_t k = in->near_ptr[at]; k < in->near_ptr[at + 1]; ++k) {
    int32_t other = in->near[k];
    if (s->placed[other] || s->low[other] >= top) continue;
    if (!gr_pack_lift(s, other, top, s->depth, gr_pack_enough(s, other, s->low[at]))) return GR_ERR_OUT_OF_MEMORY;
    gr_pack_touch(s, other);
    if (fits) fits = gr_pack_buffer_fits(s, other);
  }
  gr_pack_refresh(s);
  return fits && gr_pack_sections_fit(s);
}

/* The lowest top of what an unplaced buffer could lie on but for those already placed. */
static int64_t lowest_top(const search *s, int32_t at) {
  int64_t top = INT64_MAX / 2;
  for (int32_t k = s->in->near_ptr[at]; k < s->in->near_ptr[at + 1]; ++k) {
    int32_t other = s->in->near[k];
    if (!s->placed[other] && s->low[other] + s->in->size[other] < top) top = s->low[other] + s->in->size[other];
  }
  return top;
}

/* Adds the decisions behind lowest_top(at): the bounds of unplaced buffers and the places of placed ones. */
static void explain_top(const search *s, int32_t at, int64_t top, uint64_t *set) {
  for (int32_t k = s->in->near_ptr[at]; k < s->in->near_ptr[at + 1]; ++k) {
    int32_t other = s->in->near[k];
    if (s->placed[other]) gr_pack_add(set, s->decided[other]);
    else gr_pack_explain(s, other, top - s->in->size[other], set);
  }
}

/* Decides that none of the open level's answers lies on the floor: each lies on an unplaced buffer. Returns as
 * place. */
static int32_t place_none(search *s, const level *l) {
  uint64_t *relied = s->lifted + (int64_t)s->depth * s->words;
  int32_t fits = 1;
  memset(relied, 0, (size_t)s->words * sizeof *relied);
  gr_pack_begin_touch(s);
  for (int32_t k = l->begin; k < l->end; ++k) {
    int32_t at = s->answers[k];
    int64_t top = lowest_top(s, at);
    gr_pack_explain(s, at, l->floor, relied);
    explain_top(s, at, top, relied);
    if (!gr_pack_lift(s, at, top, s->depth, NEVER)) return GR_ERR_OUT_OF_MEMORY;
    gr_pack_touch(s, at);
  }
  for (int32_t k = l->begin; fits && k < l->end; ++k) fits = gr_pack_buffer_fits(s, s->answers[k]);
  gr_pack_refresh(s);
  return fits && gr_pack_sections_fit(s);
}

/* Takes the level's answer back. */
static void take_back(search *s, const level *l) {
  const gr_pack_instance *in = s->in;
  gr_pack_begin_touch(s);
  while (s->trail_count > l->trail) {
    struct undo u = s->trail[--s->trail_count];
    s->low[u.at] = u.low;
    s->why[u.at] = u.why;
    gr_pack_touch(s, u.at);
  }
  s->cause_count = l->causes;
  if (l->placed != NEVER) {
    s->placed[l->placed] = 0;
    for (int64_t k = in->of_ptr[l->placed]; k < in->of_ptr[l->placed + 1]; ++k)
      s->rest[in->of[k]] += in->size[l->placed];
    gr_pack_touch(s, l->placed);
  }
  gr_pack_refresh(s);
}

/* **************** the search **************** */

/* The section to branch on: fewest answers by weight; the lowest floor of equals. NEVER: all is placed. Only floors
 * below every top of an unplaced buffer come into question: nothing fits below an answer then. */
static int32_t choose(const search *s) {
  const gr_pack_instance *in = s->in;
  int64_t ceiling = INT64_MAX;
  for (int32_t i = 0; i < in->count; ++i)
    if (!s->placed[i] && s->low[i] + in->size[i] < ceiling) ceiling = s->low[i] + in->size[i];
  int32_t best = NEVER;
  int64_t best_answers = 0;
  for (int32_t t = 0; t < in->sections; ++t) {
    if (!s->answers_of[t] || s->floor[t] >= ceiling) continue;
    int64_t answers = s->answers_of[t] + (s->floor[t] + s->rest[t] < in->capacity);
    if (best != NEVER) {
      int64_t mine = answers * s->weight[best], its = best_answers * s->weight[t];
      if (mine > its || (mine == its && s->floor[t] >= s->floor[best])) continue;
    }
    best = t;
    best_answers = answers;
  }
  return best;
}

/* Opens a level on a section, its answers by rank. */
static void open_level(search *s, int32_t t) {
  const gr_pack_instance *in = s->in;
  level *l = &s->levels[s->depth];
  int32_t begin = s->depth ? s->levels[s->depth - 1].end : 0, end = begin;
  for (int64_t k = in->alive_ptr[t]; k < in->alive_ptr[t + 1]; ++k) {
    int32_t at = in->alive[k], j = end;
    if (s->placed[at] || s->low[at] > s->floor[t]) continue;
    for (; j > begin && s->rank[s->answers[j - 1]] > s->rank[at]; --j) s->answers[j] = s->answers[j - 1];
    s->answers[j] = at;
    ++end;
  }
  int32_t none = s->floor[t] + s->rest[t] < in->capacity ? UNTRIED : NO_SLACK;
  *l = (level){s->floor[t], t, begin, begin, end, none, NEVER, s->trail_count, s->cause_count};
  memset(s->conflicts + (int64_t)s->depth * s->words, 0, (size_t)s->words * sizeof *s->conflicts);
}

/* Adds the decisions that make one of a level's answers right in a section without slack, whose buffers must fill it
 * from the floor on. */
static void explain_answers(search *s, const level *l) {
  const gr_pack_instance *in = s->in;
  for (int64_t k = in->alive_ptr[l->section]; k < in->alive_ptr[l->section + 1]; ++k) {
    int32_t at = in->alive[k];
    if (!s->placed[at]) gr_pack_explain(s, at, s->low[at] > l->floor ? l->floor + 1 : l->floor, s->conflict);
  }
}

/* Closes levels, from the last on, until one has an answer left that may help: the conflict says which. 0: none has,
 * there is no solution. Every level that is looked at had its answer taken back. */
static int jump_back(search *s) {
  for (; s->depth >= 0; --s->depth) {
    level *l = &s->levels[s->depth];
    take_back(s, l);
    uint64_t *known = s->conflicts + (int64_t)s->depth * s->words;
    if (!has(s->conflict, s->depth)) continue;       /* whatever is answered here, the same conflict stays */
    s->conflict[s->depth / 64] &= ~(1ull << s->depth % 64);
    gr_pack_add_all(s, known, s->conflict);
    if (l->next < l->end || l->none == UNTRIED) return 1;
    memcpy(s->conflict, known, (size_t)s->words * sizeof *known);
    if (l->none == NO_SLACK) explain_answers(s, l);
  }
  return 0;
}

/* Tries the next answer of the open level. Returns as place. */
static int32_t answer(search *s) {
  level *l = &s->levels[s->depth];
  memset(s->conflict, 0, (size_t)s->words * sizeof *s->conflict);
  if (l->next < l->end) {
    l->placed = s->answers[l->next++];
    return place(s, l->placed);
  }
  l->placed = NEVER;
  l->none = TRIED;
  return place_none(s, l);
}

static int is_over(const search *s, const gr_pack_limit *limit) {
  if (s->nodes == limit->max_nodes) return 1;
  if (atomic_load_explicit(limit->found, memory_order_relaxed) < limit->number) return 1;
  return s->nodes % CLOCK_EVERY == 0 && (gr_pack_stopped(limit->stop) || gr_now_ns() > limit->deadline_ns);
}

static int32_t run(search *s, const gr_pack_limit *limit) {
  for (;;) {
    int32_t t = choose(s);
    if (t == NEVER) return GR_PACK_FITS;
    if (s->depth == s->max_depth) return GR_PACK_UNKNOWN;
    open_level(s, t);
    for (;;) {
      if (is_over(s, limit)) return GR_PACK_UNKNOWN;
      ++s->nodes;
      int32_t result = answer(s);
      if (result == GR_ERR_OUT_OF_MEMORY) return result;
      if (result) break;
      if (!jump_back(s)) return GR_PACK_IMPOSSIBLE;
    }
    ++s->depth;
  }
}

int32_t gr_pack_attempt(const gr_pack_instance *instance, const int32_t *rank, int32_t *weight,
                        const gr_pack_limit *limit, int64_t *offset) {
  search s = {.in = instance, .rank = rank, .weight = weight};
  int32_t result = GR_ERR_OUT_OF_MEMORY;
  if (gr_pack_make(&s)) {
    result = gr_pack_sections_fit(&s) ? run(&s, limit) : GR_PACK_IMPOSSIBLE;
    if (result == GR_PACK_FITS) memcpy(offset, s.low, (size_t)instance->count * sizeof *offset);
  }
  gr_pack_drop(&s);
  return result;
}
