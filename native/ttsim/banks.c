/* banks.c: DRAM and L1 of a simulated device. Address space of a whole memory is reserved by its first
 * allocation and costs nothing; host pages become usable with an allocation and are given back when it is
 * freed. An allocation is the same address range in every bank.
 *
 * Called by device.c, under the device's lock.
 * defines: gr_tt_bank_alloc, gr_tt_bank_release, gr_tt_bank_expose, gr_tt_bank_close
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "status.h"
#include "tt.h"

/* Banks of a round size would put equal addresses of all banks into the same cache and TLB sets. */
#define STAGGER_PAGES 67

static uint64_t host_page(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static int32_t reserve(gr_device *device, int32_t memory) {
  const gr_memory_desc *desc = &device->memories[memory].desc;
  gr_tt_banks *banks = &gr_tt_of(device)->banks[memory];
  if (banks->space) return GR_OK;
  uint64_t stride = ((desc->bank_bytes + host_page() - 1) / host_page() + STAGGER_PAGES) * host_page();
  uint64_t bytes = stride * (uint64_t)desc->banks;
  void *space = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED)
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "the host cannot reserve %llu B of addresses for a memory of %s",
                   (unsigned long long)bytes, device->name);
  banks->space = space;
  banks->bank_stride = stride;
  return GR_OK;
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
  if (!gr_ledger_place(&m->ledger, &m->desc, extent, &at))
    return gr_ledger_out_of_memory(&m->ledger, &m->desc, device->name, extent,
                                   gr_ledger_largest_gap(&m->ledger, &m->desc));
  int32_t status = reserve(device, memory);
  if (!status && !protect(device, memory, at, at + extent, PROT_READ | PROT_WRITE))
    status = gr_fail(GR_ERR_OUT_OF_MEMORY, "the host has no memory for %llu B in each of %d banks of %s",
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
  const gr_tt_banks *banks = &gr_tt_of(device)->banks[memory];
  uint64_t page = host_page(), begin, end;
  gr_ledger_gap(&m->ledger, &m->desc, holding->addr, &begin, &end);
  uint64_t first = holding->addr / page * page,
           last = (holding->addr + holding->extent + page - 1) / page * page;
  if (first < begin) first += page;
  if (last > end) last -= page;
  note_l1_floor(device, memory);
  if (last <= first) return;
  for (int32_t b = 0; b < m->desc.banks; ++b)
    madvise(banks->space + (uint64_t)b * banks->bank_stride + first, last - first, MADV_DONTNEED);
  protect(device, memory, first, last, PROT_NONE);
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
    if (banks->space)
      munmap(banks->space, banks->bank_stride * (uint64_t)device->memories[memory].desc.banks);
    banks->space = NULL;
  }
}
