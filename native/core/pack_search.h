/* pack_search.h: one attempt of the packer: a depth-first search in one order, up to a number of nodes.
 *
 * Used by pack.c, which makes the instance once and runs attempts over it on one or two threads.
 * defines: gr_pack_instance, gr_pack_limit, gr_pack_attempt
 */
#ifndef GR_PACK_SEARCH_H
#define GR_PACK_SEARCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "gr_core.h"

/* The packing problem; attempts only read it. No two buffers of a section may share a byte: sections are spans of time,
 * or whatever sets of buffers the caller's groups are. */
typedef struct gr_pack_instance {
  int32_t count;            /* buffers */
  int32_t sections;
  int64_t capacity;
  const int64_t *size;      /* [count] at least 1 */
  const int64_t *alive_ptr; /* [sections + 1] into alive: the buffers that live in a section */
  const int32_t *alive;
  int64_t *of_ptr;          /* [count + 1] into of: the sections that a buffer lives in, ascending */
  int32_t *of;
  int32_t *near_ptr;        /* [count + 1] into near: the other buffers of its sections, ascending */
  int32_t *near;
  int64_t *total;           /* [sections] bytes alive */
} gr_pack_instance;

/* When an attempt ends without a result. */
typedef struct gr_pack_limit {
  int64_t max_nodes, deadline_ns;
  const int32_t *stop;        /* as gr_pack_problem's */
  int32_t number;             /* the attempt's own: it ends when found is smaller */
  const atomic_int *found;
} gr_pack_limit;

static inline int gr_pack_stopped(const int32_t *stop) { return stop && __atomic_load_n(stop, __ATOMIC_RELAXED); }

/* Tries to fit the instance into its capacity. rank [count] is a permutation that says which of two buffers is tried
 * first; weight [sections], 1 and more, which section is branched on: 1 is added where a branch dies, for the next
 * attempt to begin there. Offsets [count] are written where the result is GR_PACK_FITS. Returns a gr_pack_result or
 * GR_ERR_OUT_OF_MEMORY. */
int32_t gr_pack_attempt(const gr_pack_instance *instance, const int32_t *rank, int32_t *weight,
                        const gr_pack_limit *limit, int64_t *offset);

#endif
