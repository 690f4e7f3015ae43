/* pack_state.h: the knowledge of an attempt of the packer: bounds of offsets, and the decisions that they follow from.
 *
 * Used by pack_search.c, which decides; an attempt is one thread's.
 * defines: cause, level, search, and the functions on them
 */
#ifndef GR_PACK_STATE_H
#define GR_PACK_STATE_H

#include "pack_search.h"

enum { NEVER = -1 };        /* no cause: the bound 0 that each buffer begins with */
enum { NO_SLACK, UNTRIED, TRIED };

typedef struct cause {      /* why a buffer lies at bound or above: decision level, given what before says */
  int64_t bound;
  int32_t level, before;    /* before: index of a cause, or NEVER */
} cause;

typedef struct level {
  int64_t floor;            /* of the section that is branched on */
  int32_t section;
  int32_t begin, next, end; /* answers left: answers[next .. end) of answers[begin .. end) */
  int32_t none;             /* the answer "none of them": NO_SLACK for it, UNTRIED, TRIED */
  int32_t placed;           /* the answer tried now, NEVER for "none" */
  int32_t trail, causes;    /* how much of both there was before it */
} level;

typedef struct search {
  const gr_pack_instance *in;
  const int32_t *rank;
  int64_t *low;             /* [count] unplaced: the lowest offset left; placed: its offset */
  int32_t *why;             /* [count] index of the cause of low, or NEVER */
  uint8_t *placed;          /* [count] */
  int32_t *decided;         /* [count] placed: the level that did it */
  int64_t *rest;            /* [sections] bytes of unplaced buffers */
  int64_t *floor;           /* [sections] */
  int32_t *answers_of;      /* [sections] unplaced buffers on the floor, 0 where all are placed */
  int32_t *weight;          /* [sections] the caller's: 1 and more, plus the dead branches found there */
  int32_t *mark;            /* [sections] stamp of the sections to look at again */
  int32_t stamp;
  int32_t *dirty;           /* [sections] those marked */
  int32_t dirty_count;
  struct undo { int64_t low; int32_t at, why; } *trail;
  int32_t trail_count, trail_room;
  cause *causes;
  int32_t cause_count, cause_room;
  level *levels;            /* [max_depth] */
  int32_t depth, max_depth, words;
  int32_t *answers;         /* [max_depth + most alive at once], a stack: each level's answers */
  uint64_t *conflict;       /* [words] the decisions that killed the branch */
  uint64_t *conflicts;      /* [max_depth][words] of the answers of a level that are dead */
  uint64_t *lifted;         /* [max_depth][words] what "none" of a level relied on */
  int64_t nodes;
} search;

/* 0 if memory is out; gr_pack_drop in any case. */
int gr_pack_make(search *s);
void gr_pack_drop(search *s);

/* Sets of decisions. explain adds to set those because of which buffer at lies at bound or above, explain_section those
 * because of which all unplaced buffers of a section do. */
static inline void gr_pack_add(uint64_t *set, int32_t decision) { set[decision / 64] |= 1ull << decision % 64; }
void gr_pack_add_all(const search *s, uint64_t *set, const uint64_t *more);
void gr_pack_explain(const search *s, int32_t at, int64_t bound, uint64_t *set);
/* The earliest cause that is enough to show that an unplaced buffer cannot lie below offset. */
int32_t gr_pack_enough(const search *s, int32_t at, int64_t offset);
/* Lifts an unplaced buffer, because of decision, given the cause before. 0 if memory is out. */
int gr_pack_lift(search *s, int32_t at, int64_t bound, int32_t decision, int32_t before);

/* Sections whose buffers changed: begin, touch each buffer, then refresh. The fits functions say whether a buffer, or
 * all that live in the touched sections, can still lie below the capacity; else why not is added to the conflict. */
void gr_pack_begin_touch(search *s);
void gr_pack_touch(search *s, int32_t at);
void gr_pack_refresh(search *s);
int gr_pack_buffer_fits(search *s, int32_t at);
int gr_pack_sections_fit(search *s);

#endif
