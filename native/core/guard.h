/* guard.h: host memory of devices in guard mode.
 *
 * A block lies in pages of its own and counts the openings: it can be written while there is one, else the host's
 * instructions may only read it. A write without an opening ends the process, with a text on stderr that names the
 * block. Addresses in no such block mean nothing here: opening and closing them is allowed.
 *
 * defines: gr_guard_map, gr_guard_unmap, gr_guard_open, gr_guard_close, gr_guard_blocks
 */
#ifndef GR_GUARD_H
#define GR_GUARD_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic int64_t gr_guard_blocks;      /* 0: opening and closing does nothing */

/* A block of extent bytes, opened once; NULL where there is no memory. */
void *gr_guard_map(uint64_t extent, const char *holder);
/* 1: the block at addr was one of these, and is gone. */
int gr_guard_unmap(uint64_t addr);
/* addr: anywhere in the block. Any thread. */
void gr_guard_open(uint64_t addr);
void gr_guard_close(uint64_t addr);

#endif
