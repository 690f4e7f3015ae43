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

/* What is to be packed; attempts only read it. Buffer i lives in the sections [first[i], last[i]), the spans between
 * neighbouring times at which something begins or ends. */
typedef struct gr_pack_instance {
  int32_t count;            /* buffers */
  int32_t sections;
  int64_t capacity;
  const int64_t *size;      /* [count] at least 1 */
  int32_t *first, *last;    /* [count] */
  int32_t *alive_ptr;       /* [sections + 1] into alive: who lives in a section */
  int32_t *alive;
  int32_t *near_ptr;        /* [count + 1] into near: who lives at the same time, itself left out */
  int32_t *near;
  int64_t *total;           /* [sections] bytes alive */
} gr_pack_instance;

/* When an attempt ends without a result. */
typedef struct gr_pack_limit {
  int64_t max_nodes, deadline_ns;
  int32_t number;             /* the attempt's own: it ends when found is smaller */
  const atomic_int *found;
} gr_pack_limit;

/* Tries to fit the instance into its capacity. rank [count] is a permutation that says which of two buffers is tried
 * first; weight [sections], 1 and more, which section is branched on: 1 is added where a branch dies, for the next
 * attempt to begin there. Offsets [count] are written where the result is GR_PACK_FITS. Returns a gr_pack_result or
 * GR_ERR_OUT_OF_MEMORY. */
int32_t gr_pack_attempt(const gr_pack_instance *instance, const int32_t *rank, int32_t *weight,
                        const gr_pack_limit *limit, int64_t *offset);

#endif
