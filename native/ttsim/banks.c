/* banks.c: DRAM and L1 of a simulated device. The first allocation of a memory claims a range of addresses for
 * all of it, which costs nothing (ranges.h). Of each bank the part that holds allocations is mapped: it grows from the
 * end at which allocations begin, and is cut when much of it is over. Host pages become usable with an allocation and
 * are given back when it is freed. An allocation is the same address range in every bank.
 *
 * Called by device.c, under the device's lock.
 * defines: gr_tt_bank_alloc, gr_tt_bank_release, gr_tt_bank_expose, gr_tt_bank_close
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ranges.h"
#include "status.h"
#include "tt.h"

/* Banks of a round size would put equal addresses of all banks into the same cache and TLB sets. */
#define STAGGER_PAGES 67
/* Mapped in each bank beyond what is asked for: as long as there is some, an allocation moves the border between two
 * of the kernel's areas, which is faster than to join two and to split them again. */
#define SPARE_BYTES (UINT64_C(128) << 10)
/* Bytes of all banks together that may stay mapped without use: what is freed is mostly wanted again. */
#define SLACK_BYTES (UINT64_C(64) << 20)

static uint64_t host_page(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static uint64_t page_up(uint64_t addr) { return (addr + host_page() - 1) / host_page() * host_page(); }

static int32_t claim(gr_device *device, int32_t memory) {
  const gr_memory_desc *desc = &device->memories[memory].desc;
  gr_tt_banks *banks = &gr_tt_of(device)->banks[memory];
  if (banks->space) return GR_OK;
  uint64_t stride = page_up(desc->bank_bytes) + STAGGER_PAGES * host_page();
  uint64_t bytes = stride * (uint64_t)desc->banks, space = gr_range_claim(bytes);
  if (!space)
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "the host has no range of %llu B of addresses for a memory of %s",
                   (unsigned long long)bytes, device->name);
  banks->space = (uint8_t *)(uintptr_t)space;
  banks->bank_stride = stride;
  banks->mapped_begin = desc->top_down ? page_up(desc->bank_bytes) : desc->base / host_page() * host_page();
  banks->mapped_end = banks->mapped_begin;
  return GR_OK;
}

static uint64_t host_address(const gr_tt_banks *banks, int32_t bank, uint64_t addr) {
  return (uint64_t)(uintptr_t)banks->space + (uint64_t)bank * banks->bank_stride + addr;
}

static void unmap(const gr_tt_banks *banks, int32_t count, uint64_t begin, uint64_t end) {
  for (int32_t b = 0; b < count && begin < end; ++b) gr_range_unmap(host_address(banks, b, begin), end - begin);
}

/* Maps [begin, end), whole pages, in each bank: all of them or none. */
static int map(const gr_tt_banks *banks, int32_t count, uint64_t begin, uint64_t end) {
  for (int32_t b = 0; b < count && begin < end; ++b)
    if (!gr_range_map(host_address(banks, b, begin), end - begin)) {
      unmap(banks, b, begin, end);
      return 0;
    }
  return 1;
}

/* Makes the mapped part reach over [begin, end). */
static int reach(gr_tt_banks *banks, int32_t count, uint64_t begin, uint64_t end) {
  if (begin < banks->mapped_begin) {
    if (!map(banks, count, begin, banks->mapped_begin)) return 0;
    banks->mapped_begin = begin;
  }
  if (end > banks->mapped_end) {
    if (!map(banks, count, banks->mapped_end, end)) return 0;
    banks->mapped_end = end;
  }
  return 1;
}

/* Widens [*begin, *end) to whole pages, and where `spare` says so by spare ones inside the memory. */
static void widen(const gr_memory_desc *desc, uint64_t spare, uint64_t *begin, uint64_t *end) {
  uint64_t floor = desc->base / host_page() * host_page(), top = page_up(desc->bank_bytes);
  *begin = *begin / host_page() * host_page();
  *end = page_up(*end);
  if (desc->top_down) *begin = *begin - floor > spare ? *begin - spare : floor;
  else *end = top - *end > spare ? *end + spare : top;
}

/* Maps what is not mapped of [addr, addr + extent); with spare pages where the host gives them. */
static int grow(gr_tt_banks *banks, const gr_memory_desc *desc, uint64_t addr, uint64_t extent) {
  uint64_t begin = addr, end = addr + extent;
  widen(desc, 0, &begin, &end);
  if (begin >= banks->mapped_begin && end <= banks->mapped_end) return 1;
  uint64_t most_begin = begin, most_end = end;
  widen(desc, SPARE_BYTES, &most_begin, &most_end);
  return reach(banks, desc->banks, most_begin, most_end) || reach(banks, desc->banks, begin, end);
}

/* Unmaps what lies beyond the last holding where that is much. */
static void shrink(gr_tt_banks *banks, const gr_device_memory *m) {
  const gr_ledger *ledger = &m->ledger;
  const gr_holding *last = ledger->count ? ledger->items + (m->desc.top_down ? 0 : ledger->count - 1) : NULL;
  uint64_t begin = banks->mapped_begin, end = banks->mapped_end;
  if (m->desc.top_down) begin = last ? last->addr : end;
  else end = last ? last->addr + last->extent : begin;
  widen(&m->desc, SPARE_BYTES, &begin, &end);
  uint64_t unused = banks->mapped_end - banks->mapped_begin - (end - begin);
  if (begin < banks->mapped_begin || end > banks->mapped_end || unused * (uint64_t)m->desc.banks < SLACK_BYTES)
    return;
  unmap(banks, m->desc.banks, banks->mapped_begin, begin);
  unmap(banks, m->desc.banks, end, banks->mapped_end);
  banks->mapped_begin = begin;
  banks->mapped_end = end;
}

/* Protection of the host pages that [begin, end) of every bank touches. */
static int protect(gr_device *device, int32_t memory, uint64_t begin, uint64_t end, int protection) {
  const gr_tt_banks *banks = &gr_tt_of(device)->banks[memory];
  uint64_t page = host_page(), first = begin / page * page, last = (end + page - 1) / page * page;
  for (int32_t b = 0; b < device->memories[memory].desc.banks; ++b)
    if (mprotect(banks->space + (uint64_t)b * banks->bank_stride + first, last - first, protection)) return 0;
  return 1;
}

static void fill_with_nan(gr_device *device, int32_t memory, uint64_t addr, uint64_t extent) {
  const gr_tt_banks *banks = &gr_tt_of(device)->banks[memory];
  for (int32_t b = 0; b < device->memories[memory].desc.banks; ++b)
    memset(banks->space + (uint64_t)b * banks->bank_stride + addr, 0xFF,
           extent);   /* a NaN in every float format */
}

static void note_l1_floor(gr_device *device, int32_t memory) {
  const gr_device_memory *m = device->memories + memory;
  if (m->desc.kind != GR_L1) return;
  uint64_t floor = m->ledger.count ? m->ledger.items[0].addr : m->desc.bank_bytes;
  atomic_store_explicit(&gr_tt_of(device)->l1_floor, floor, memory_order_relaxed);
}

int32_t gr_tt_bank_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder,
                         uint64_t *addr) {
  gr_device_memory *m = device->memories + memory;
  uint64_t at;
  gr_memory_desc open = m->desc;                 /* what is not kept free for circular buffers */
  open.base += m->circular.most;
  if (!gr_ledger_place(&m->ledger, &open, extent, 0, &at))
    return gr_ledger_out_of_memory(&m->ledger, &m->desc, device->name, extent,
                                   gr_ledger_largest_gap(&m->ledger, &open), m->circular.most);
  int32_t status = claim(device, memory);
  if (!status && (!grow(&gr_tt_of(device)->banks[memory], &m->desc, at, extent) ||
                  !protect(device, memory, at, at + extent, PROT_READ | PROT_WRITE)))
    status = gr_fail(GR_ERR_OUT_OF_MEMORY,
                     "Out of Memory: the host gives no %llu B for each of %d banks of %s: it has no more, or this "
                     "process may not (ulimit -v); free tensors, or use fewer or smaller ones",
                     (unsigned long long)extent, m->desc.banks, device->name);
  if (!status) status = gr_ledger_add(&m->ledger, at, extent, holder);
  if (status) return status;
  note_l1_floor(device, memory);
  if (device->guard) {
    fill_with_nan(device, memory, at, extent);
    if (!device->inside) protect(device, memory, at, at + extent, PROT_NONE);
  }
  *addr = at;
  return GR_OK;
}

/* Host pages that the holding shared with neighbours stay; the rest go back to the host. */
void gr_tt_bank_release(gr_device *device, int32_t memory, const gr_holding *holding) {
  const gr_device_memory *m = device->memories + memory;
  gr_tt_banks *banks = &gr_tt_of(device)->banks[memory];
  uint64_t page = host_page(), begin, end;
  gr_ledger_gap(&m->ledger, &m->desc, holding->addr, &begin, &end);
  uint64_t first = holding->addr / page * page,
           last = (holding->addr + holding->extent + page - 1) / page * page;
  if (first < begin) first += page;
  if (last > end) last -= page;
  note_l1_floor(device, memory);
  if (last > first) {
    for (int32_t b = 0; b < m->desc.banks; ++b)
      madvise(banks->space + (uint64_t)b * banks->bank_stride + first, last - first, MADV_DONTNEED);
    protect(device, memory, first, last, PROT_NONE);
  }
  shrink(banks, m);
}

void gr_tt_bank_expose(gr_device *device, int on) {
  for (int32_t memory = 0; memory < device->num_memories; ++memory) {
    const gr_ledger *ledger = &device->memories[memory].ledger;
    for (int64_t i = 0; i < ledger->count; ++i)
      protect(device, memory, ledger->items[i].addr, ledger->items[i].addr + ledger->items[i].extent,
              on ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

void gr_tt_bank_close(gr_device *device) {
  for (int32_t memory = 0; memory < device->num_memories; ++memory) {
    gr_tt_banks *banks = &gr_tt_of(device)->banks[memory];
    if (!banks->space) continue;
    unmap(banks, device->memories[memory].desc.banks, banks->mapped_begin, banks->mapped_end);
    gr_range_drop((uint64_t)(uintptr_t)banks->space);
    banks->space = NULL;
  }
}
