/* ranges.h: ranges of addresses that are kept for one use without being mapped: a range takes nothing of the
 * process's memory or of its limit of addresses (ulimit -v) until parts of it are mapped.
 *
 * The system gives mappings that name no address from the top of the address space; ranges are cut from the
 * middle, where it puts nothing of its own accord.
 *
 * Called by the device kinds and handles.c, on any thread.
 * defines: gr_range_claim, gr_range_drop, gr_range_map, gr_range_unmap
 */
#ifndef GR_RANGES_H
#define GR_RANGES_H

#include <stdint.h>

/* The address of `bytes` that have no other use until gr_range_drop; 0 where there is no such range. */
uint64_t gr_range_claim(uint64_t bytes);
/* Gives a range back, all of whose parts are unmapped. */
void gr_range_drop(uint64_t address);
/* Maps whole pages of a claimed range, without access: mprotect gives that. 0 where the system refuses. */
int gr_range_map(uint64_t address, uint64_t bytes);
void gr_range_unmap(uint64_t address, uint64_t bytes);

#endif
