/* ledger.c: the holder of each range of one memory: first-fit placement, lookup, and the out-of-memory text.
 *
 * Called by the device kinds under their device's lock.
 * defines: gr_ledger_*
 */
#include "ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

#define NAMED_HOLDERS 5

/* Index of the first holding whose addr is greater than addr. */
static int64_t upper_bound(const gr_ledger *ledger, uint64_t addr) {
  int64_t low = 0, high = ledger->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (ledger->items[middle].addr <= addr) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* The i-th gap, 0 <= i <= count: before holding i. */
static void gap(const gr_ledger *ledger, const gr_memory_desc *memory, int64_t i, uint64_t *begin,
                uint64_t *end) {
  *begin = i > 0 ? ledger->items[i - 1].addr + ledger->items[i - 1].extent : memory->base;
  *end = i < ledger->count ? ledger->items[i].addr : memory->bank_bytes;
}

/* The aligned part of [*begin, *end); 0 if nothing is left of it. */
static int align(const gr_memory_desc *memory, uint64_t *begin, uint64_t *end) {
  uint64_t up = (*begin + memory->alignment - 1) / memory->alignment * memory->alignment;
  uint64_t down = *end / memory->alignment * memory->alignment;
  if (up < *begin || down <= up) return 0;
  *begin = up;
  *end = down;
  return 1;
}

int gr_ledger_place(const gr_ledger *ledger, const gr_memory_desc *memory, uint64_t extent, int later,
                    uint64_t *addr) {
  uint64_t edge = memory->top_down ? memory->bank_bytes : memory->base;   /* where the next gap begins */
  for (int64_t k = 0; k <= ledger->count; ++k) {
    const gr_holding *next = NULL;
    if (k < ledger->count) next = ledger->items + (memory->top_down ? ledger->count - 1 - k : k);
    if (next && later && next->given_back) continue;
    uint64_t begin = edge, end = next ? next->addr : memory->bank_bytes;
    if (memory->top_down) begin = next ? next->addr + next->extent : memory->base, end = edge;
    if (next) edge = memory->top_down ? next->addr : next->addr + next->extent;
    if (!align(memory, &begin, &end) || end - begin < extent) continue;
    *addr = memory->top_down ? end - extent : begin;
    return 1;
  }
  return 0;
}

const gr_holding *gr_ledger_given_back(const gr_ledger *ledger, uint64_t addr, uint64_t extent) {
  int64_t at = upper_bound(ledger, addr) - 1;
  if (at < 0 || ledger->items[at].addr + ledger->items[at].extent <= addr) ++at;
  for (; at < ledger->count && ledger->items[at].addr < addr + extent; ++at)
    if (ledger->items[at].given_back) return ledger->items + at;
  return NULL;
}

void gr_ledger_give_back(gr_ledger *ledger, uint64_t addr, int on) {
  int64_t at = upper_bound(ledger, addr) - 1;
  if (at >= 0 && ledger->items[at].addr == addr) ledger->items[at].given_back = on;
}

int32_t gr_ledger_add(gr_ledger *ledger, uint64_t addr, uint64_t extent, const char *holder) {
  if (ledger->count == ledger->capacity) {
    int64_t capacity = ledger->capacity ? 2 * ledger->capacity : 16;
    gr_holding *items = realloc(ledger->items, (size_t)capacity * sizeof *items);
    if (!items) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for the list of allocations");
    ledger->items = items;
    ledger->capacity = capacity;
  }
  int64_t at = upper_bound(ledger, addr);
  memmove(ledger->items + at + 1, ledger->items + at, (size_t)(ledger->count - at) * sizeof *ledger->items);
  gr_holding *item = ledger->items + at;
  item->addr = addr;
  item->extent = extent;
  item->given_back = 0;
  snprintf(item->holder, sizeof item->holder, "%s", holder && *holder ? holder : "(unnamed)");
  ledger->count += 1;
  ledger->held += extent;
  return GR_OK;
}

int gr_ledger_remove(gr_ledger *ledger, uint64_t addr, gr_holding *removed) {
  int64_t at = upper_bound(ledger, addr) - 1;
  if (at < 0 || ledger->items[at].addr != addr) return 0;
  *removed = ledger->items[at];
  ledger->count -= 1;
  ledger->held -= removed->extent;
  memmove(ledger->items + at, ledger->items + at + 1, (size_t)(ledger->count - at) * sizeof *ledger->items);
  return 1;
}

const gr_holding *gr_ledger_find(const gr_ledger *ledger, uint64_t addr, uint64_t bytes) {
  int64_t at = upper_bound(ledger, addr) - 1;
  if (at < 0) return NULL;
  const gr_holding *item = ledger->items + at;
  uint64_t inside = addr - item->addr;
  return inside <= item->extent && bytes <= item->extent - inside ? item : NULL;
}

void gr_ledger_gap(const gr_ledger *ledger, const gr_memory_desc *memory, uint64_t addr, uint64_t *begin,
                   uint64_t *end) {
  gap(ledger, memory, upper_bound(ledger, addr), begin, end);
}

uint64_t gr_ledger_largest_gap(const gr_ledger *ledger, const gr_memory_desc *memory) {
  uint64_t largest = 0;
  for (int64_t i = 0; i <= ledger->count; ++i) {
    uint64_t begin, end;
    gap(ledger, memory, i, &begin, &end);
    if (align(memory, &begin, &end) && end - begin > largest) largest = end - begin;
  }
  return largest;
}

/* Writes "; held by: name 123 B, ..." of the largest holdings into text. */
static void name_holders(const gr_ledger *ledger, char *text, size_t bytes) {
  const gr_holding *largest[NAMED_HOLDERS] = {0};
  for (int64_t i = 0; i < ledger->count; ++i) {
    const gr_holding *item = ledger->items + i;
    for (int k = 0; k < NAMED_HOLDERS && item; ++k) {
      if (!largest[k] || item->extent > largest[k]->extent) {
        const gr_holding *smaller = largest[k];
        largest[k] = item;
        item = smaller;
      }
    }
  }
  size_t used = 0;
  text[0] = 0;
  for (int k = 0; k < NAMED_HOLDERS && largest[k] && used < bytes; ++k) {
    int n = snprintf(text + used, bytes - used, "%s%s %llu B",
                     k ? ", " : "; held per bank by: ", largest[k]->holder,
                     (unsigned long long)largest[k]->extent);
    used += n > 0 ? (size_t)n : 0;
  }
  if (ledger->count > NAMED_HOLDERS && used < bytes)
    snprintf(text + used, bytes - used, " and %lld more", (long long)(ledger->count - NAMED_HOLDERS));
}

int32_t gr_ledger_out_of_memory(const gr_ledger *ledger, const gr_memory_desc *memory, const char *device,
                                uint64_t extent, uint64_t largest, uint64_t circular) {
  static const char *const kinds[] = {"host", "DRAM", "L1"};
  char holders[NAMED_HOLDERS * 96];
  name_holders(ledger, holders, sizeof holders);
  char kept[96] = "";
  if (circular)
    snprintf(kept, sizeof kept, ", kept free for circular buffers of queued work: %llu B",
             (unsigned long long)circular);
  uint64_t size, usable = memory->bank_bytes - memory->base;
  if (__builtin_mul_overflow(extent, (uint64_t)memory->banks, &size)) size = UINT64_MAX;
  return gr_fail(GR_ERR_OUT_OF_MEMORY,
                 "Out of Memory: Not enough space to allocate %llu B %s buffer across %d banks, where each "
                 "bank needs to "
                 "store %llu B, but bank size is %llu B (allocated: %llu B, free: %llu B, largest free "
                 "block: %llu B%s) on %s%s",
                 (unsigned long long)size, kinds[memory->kind], memory->banks, (unsigned long long)extent,
                 (unsigned long long)usable, (unsigned long long)ledger->held,
                 (unsigned long long)(usable - ledger->held), (unsigned long long)largest, kept, device, holders);
}

void gr_ledger_clear(gr_ledger *ledger) {
  free(ledger->items);
  *ledger = (gr_ledger){0};
}
