/* host.c: memory of the cpu and null devices: 64-byte aligned heap blocks, mapped pages for large ones,
 * counted against the descriptor's capacity. In guard mode every block has pages of its own (guard.h).
 *
 * Called by device.c under the device's lock.
 * defines: gr_host_alloc, gr_host_release, gr_host_discard
 */
#include "host.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guard.h"
#include "status.h"

/* From here on memory is mapped: it comes back to the system when freed, and pages that a run never
 * touches cost nothing. */
#define MAPPED_BYTES (1u << 20)
#define LEAST_ALIGNMENT 64u

static void *obtain(uint64_t extent, uint32_t alignment) {
  if (extent >= MAPPED_BYTES) {
    void *mapped = mmap(NULL, extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return NULL;
    madvise(mapped, extent, MADV_HUGEPAGE);   /* advice only: fewer TLB misses where the kernel can */
    return mapped;
  }
  void *block = NULL;
  size_t aligned = alignment > LEAST_ALIGNMENT ? alignment : LEAST_ALIGNMENT;
  return posix_memalign(&block, aligned, extent) ? NULL : block;
}

int32_t gr_host_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder,
                      uint64_t *addr) {
  gr_device_memory *m = device->memories + memory;
  uint64_t left = m->desc.bank_bytes - m->desc.base - m->ledger.held;
  if (extent > left) return gr_ledger_out_of_memory(&m->ledger, &m->desc, device->name, extent, left, 0);
  void *block = device->guard ? gr_guard_map(extent, holder) : obtain(extent, m->desc.alignment);
  if (!block)
    return gr_fail(GR_ERR_OUT_OF_MEMORY,
                   "Out of Memory: the host gives no %llu B for %s: it has no more, or this process may not "
                   "(ulimit -v); free tensors, or use fewer or smaller ones",
                   (unsigned long long)extent, device->name);
  gr_holding holding = {.addr = (uint64_t)(uintptr_t)block, .extent = extent};
  int32_t status = gr_ledger_add(&m->ledger, holding.addr, extent, holder);
  if (status) {
    gr_host_release(device, memory, &holding);
    return status;
  }
  /* all ones is a NaN in every float format: a read before the first write shows */
  if (device->guard) memset(block, 0xFF, extent);
  *addr = holding.addr;
  return GR_OK;
}

void gr_host_release(gr_device *device, int32_t memory, const gr_holding *holding) {
  (void)device;
  (void)memory;
  void *block = (void *)(uintptr_t)holding->addr;
  if (gr_guard_unmap(holding->addr)) return;
  if (holding->extent >= MAPPED_BYTES) munmap(block, holding->extent);
  else free(block);
}

void gr_host_discard(uint64_t addr, uint64_t bytes) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t first = (addr + page - 1) / page * page, end = (addr + bytes) / page * page;
  /* advice only; pages of the heap may be given back too: they read as zeros until they are written */
  if (first < end) madvise((void *)(uintptr_t)first, end - first, MADV_DONTNEED);
}
