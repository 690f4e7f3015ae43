/* ledger.h: the holder of each range of one memory. The free ranges are the gaps between holdings, so freed
 * neighbours coalesce by themselves.
 *
 * Called by the device kinds under their device's lock.
 * defines: gr_holding, gr_ledger, gr_ledger_*
 */
#ifndef GR_LEDGER_H
#define GR_LEDGER_H

#include "gr_core.h"
#include "public.h"

typedef struct gr_holding {
  uint64_t addr;         /* host pointer or bank address */
  uint64_t extent;       /* bytes, per bank */
  int32_t given_back;    /* no one holds it, and queued work still needs it */
  char holder[64];       /* its holder's name, cut to fit */
} gr_holding;

typedef struct gr_ledger {
  gr_holding *items;     /* [capacity] sorted by addr, count of them in use */
  int64_t count;
  int64_t capacity;
  uint64_t held;         /* sum of extents */
} gr_ledger;

/* First fit in address order (from the other end if memory->top_down) of extent bytes, a multiple of the
 * alignment. Returns 0 where no gap is large enough. `later`: as if all that is given back were free. */
GR_PUBLIC int gr_ledger_place(const gr_ledger *ledger, const gr_memory_desc *memory, uint64_t extent, int later,
                   uint64_t *addr);
/* The first holding in [addr, addr + extent) that is given back, NULL if there is none. */
GR_PUBLIC const gr_holding *gr_ledger_given_back(const gr_ledger *ledger, uint64_t addr, uint64_t extent);
/* Notes whether the holding that begins at addr is given back. */
GR_PUBLIC void gr_ledger_give_back(gr_ledger *ledger, uint64_t addr, int on);
GR_PUBLIC int32_t gr_ledger_add(gr_ledger *ledger, uint64_t addr, uint64_t extent, const char *holder);
/* Removes the holding that begins at addr; 0 where there is none. */
GR_PUBLIC int gr_ledger_remove(gr_ledger *ledger, uint64_t addr, gr_holding *removed);
/* The holding that contains [addr, addr + bytes), NULL if none does. */
GR_PUBLIC const gr_holding *gr_ledger_find(const gr_ledger *ledger, uint64_t addr, uint64_t bytes);
/* The free range around addr: ends of the neighbouring holdings, or of the memory. */
GR_PUBLIC void gr_ledger_gap(const gr_ledger *ledger, const gr_memory_desc *memory, uint64_t addr, uint64_t *begin,
                   uint64_t *end);
GR_PUBLIC uint64_t gr_ledger_largest_gap(const gr_ledger *ledger, const gr_memory_desc *memory);
/* Records the out-of-memory text, with the largest holders by name, and returns GR_ERR_OUT_OF_MEMORY.
 * largest is the largest free block, beside `circular` bytes that are kept free. */
GR_PUBLIC int32_t gr_ledger_out_of_memory(const gr_ledger *ledger, const gr_memory_desc *memory, const char *device,
                                uint64_t extent, uint64_t largest, uint64_t circular);
GR_PUBLIC void gr_ledger_clear(gr_ledger *ledger);

#endif
