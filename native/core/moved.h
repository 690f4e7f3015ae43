/* moved.h: counts of copies for each device: the numbers behind gr.stats().
 *
 * Used by the copy engine and by templates of submissions.
 * defines: gr_moved, gr_moving, gr_moved_of, gr_move_of, gr_moved_add, gr_copy_queued
 */
#ifndef GR_MOVED_H
#define GR_MOVED_H

#include <stdatomic.h>

#include "gr_core.h"

/* The counters of all devices of one name, since the process began. They outlive the devices: a report may be read
 * after one was closed. */
typedef struct gr_moved {
  struct gr_moved *next;
  char device[32];
  /* relaxed: they are only counts, read for a report */
  _Atomic uint64_t count[GR_MOVEMENTS], bytes[GR_MOVEMENTS];
} gr_moved;

/* Counts that one copy, or several alike, add. */
typedef struct gr_moving {
  gr_moved *moved;           /* NULL: nothing, as where host memory is copied to host memory */
  int32_t kind;              /* gr_movement */
  int32_t reserved;
  uint64_t count, bytes;
} gr_moving;

/* The counters of a name, made at its first use; NULL where there is no memory for them. */
gr_moved *gr_moved_of(const char *device);
/* The counts of a copy between these arguments. Bytes are those of the values, whatever their formats and pages. A copy
 * of no elements moves nothing. */
gr_moving gr_move_of(const gr_env *src_env, const gr_arg *src, const gr_env *dst_env, const gr_arg *dst);
void gr_moved_add(const gr_moving *move);
/* gr_copy_kernel that counts nothing: the copies of a submission were counted as a whole (copy.c). */
int32_t gr_copy_queued(const gr_call *call);

#endif
