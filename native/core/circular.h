/* circular.h: the end of a memory that queued work keeps free of tensors, for the circular buffers of its kernels.
 *
 * defines: gr_circular, gr_circular_clear, gr_circular_forget
 */
#ifndef GR_CIRCULAR_H
#define GR_CIRCULAR_H

#include "gr_core.h"

typedef struct gr_circular_hold_of {
  uint64_t bytes;
  int64_t count;              /* holds of so many bytes */
} gr_circular_hold_of;

/* Of one memory; under its device's lock. */
typedef struct gr_circular {
  uint64_t most;              /* bytes from the memory's base on that no allocation takes now */
  uint64_t peak;              /* the most that was held so far */
  uint64_t dropped;           /* holds that ended so far */
  gr_circular_hold_of *items; /* [capacity] */
  int32_t count, capacity;
} gr_circular;

/* For a device that is no longer used; under no lock of it. */
void gr_circular_clear(gr_circular *circular);

/* In a child of fork, under the device's lock: nothing will end what is held. */
void gr_circular_forget(gr_circular *circular);

#endif
