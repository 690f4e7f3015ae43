/* noc.c: movement of pages between a simulated device's banks and a core's L1 or the host. Page p of an
 * interleaved tensor lies in bank p % banks, at its address + (p / banks) * gr_page_stride; those of sharded
 * ones are sharded.c's.
 *
 * Called by kernels through gr_env and by the copy engine, on any thread; nothing is locked: the plan
 * says which kernel writes what.
 * defines: gr_tt_copy_in, gr_tt_copy_out, gr_tt_locate, gr_tt_count, gr_tt_page_read, gr_tt_page_write
 */
#include <string.h>

#include "status.h"
#include "stream.h"
#include "tt.h"

/* The position of a walk over consecutive pages. */
typedef struct walk {
  uint8_t *row;              /* the part of the page wanted, were it in bank 0 */
  uint64_t bank_stride;
  uint64_t page_stride;
  int32_t bank;
  int32_t banks;
  gr_tt_cut cut;             /* with a shard: the walk is over its units, and the above is not used */
} walk;

static int32_t out_of_bounds(const gr_device *device, const gr_arg *arg, gr_pages pages) {
  return gr_fail(
      GR_ERR_BOUNDS,
      "%s: bytes %llu to %llu of pages %lld to %lld are not in a tensor of %u pages of %u B at address %llu",
      device->name, (unsigned long long)pages.offset, (unsigned long long)(pages.offset + pages.bytes),
      (long long)pages.first, (long long)(pages.first + pages.count), arg->num_pages, arg->page_bytes,
      (unsigned long long)arg->addr);
}

/* Checks that the pages are the tensor's, and the tensor is inside its banks. One without any byte lies
 * nowhere: it has no address, and its device perhaps no memory yet. */
static int32_t begin(gr_device *device, const gr_arg *arg, gr_pages pages, gr_device_memory **memory,
                     walk *at) {
  gr_device_memory *m = gr_device_memory_of(device, arg->memory);
  const gr_shard *shard;
  if (!m || gr_shard_of(&device->shards, arg, &shard)) return out_of_bounds(device, arg, pages);
  const gr_tt_banks *banks = &gr_tt_of(device)->banks[m - device->memories];
  uint64_t count = (uint64_t)m->desc.banks, addr = gr_bank_address(arg), extent, end;
  if (pages.first < 0 || pages.count < 0 || pages.first > (int64_t)arg->num_pages - pages.count ||
      pages.offset > arg->page_bytes || pages.bytes > arg->page_bytes - pages.offset ||
      !gr_bank_extent(&m->desc, arg, shard, &extent) || __builtin_add_overflow(addr, extent, &end) ||
      end > m->desc.bank_bytes || (extent && (!banks->space || addr < m->desc.base)))
    return out_of_bounds(device, arg, pages);
  *memory = m;
  if (!extent) {
    static uint8_t nothing;
    *at = (walk){.row = &nothing, .banks = 1};
    return GR_OK;
  }
  uint64_t header = arg->layout == GR_TILE ? m->desc.tile_header : 0;
  if (shard) {
    *at = (walk){.cut = {.shard = shard,
                         .base = banks->space + addr + header,
                         .bank_stride = banks->bank_stride,
                         .unit_stride = gr_page_stride(&m->desc, arg, (uint64_t)shard->unit_bytes),
                         .banks = m->desc.banks,
                         .traffic = m->traffic}};
    return GR_OK;
  }
  uint64_t stride = gr_page_stride(&m->desc, arg, arg->page_bytes);
  *at = (walk){.row = banks->space + addr + header + (uint64_t)pages.first / count * stride + pages.offset,
               .bank_stride = banks->bank_stride,
               .page_stride = stride,
               .bank = (int32_t)((uint64_t)pages.first % count),
               .banks = m->desc.banks};
  return GR_OK;
}

static inline uint8_t *next_page(walk *at) {
  uint8_t *page = at->row + (uint64_t)at->bank * at->bank_stride;
  if (++at->bank == at->banks) {
    at->bank = 0;
    at->row += at->page_stride;
  }
  return page;
}

/* Rounds of all banks that are moved a bank at a time. Banks lie at equal places of the host's pages, so that one line of
 * each does not fit a cache that has fewer ways than there are banks; and one stream after the other is followed. */
#define ROUNDS 64

/* `rounds` rounds from bank 0 on, a bank at a time; the next rounds are asked for. */
static inline __attribute__((always_inline)) void move_rounds(const walk *at, uint8_t *l1, int64_t rounds,
                                                              uint32_t bytes, int in) {
  for (int64_t bank = 0; bank < at->banks; ++bank) {
    uint8_t *page = at->row + (uint64_t)bank * at->bank_stride, *to = l1 + bank * bytes;
    for (int64_t i = 0; i < rounds; ++i, page += at->page_stride, to += (int64_t)at->banks * bytes) {
      if (in)      /* the builtin wants a constant, which `in` is in optimized builds only */
        __builtin_prefetch(page + ROUNDS * at->page_stride, 1, 2);
      else
        __builtin_prefetch(page + ROUNDS * at->page_stride, 0, 2);
      memcpy(in ? page : to, in ? to : page, bytes);
    }
  }
}

/* Moves `pages` pages of `bytes`: out of the banks to l1, or with `in` from l1 into them. Inlined for a size that is
 * known, so that a short page costs no call. */
static inline __attribute__((always_inline)) void move_pages(walk *at, uint8_t *l1, int64_t pages, uint32_t bytes,
                                                             int in) {
  while (pages > 0) {
    int64_t rounds = at->bank == 0 && bytes <= 64 ? pages / at->banks : 0;
    if (rounds > 0) {
      rounds = rounds < ROUNDS ? rounds : ROUNDS;
      move_rounds(at, l1, rounds, bytes, in);
      at->row += (uint64_t)rounds * at->page_stride;
      pages -= rounds * at->banks;
      l1 += rounds * at->banks * bytes;
      continue;
    }
    int64_t n = at->banks - at->bank < pages ? at->banks - at->bank : pages;
    uint8_t *page = at->row + (uint64_t)at->bank * at->bank_stride;
    for (int64_t i = 0; i < n; ++i, page += at->bank_stride, l1 += bytes) memcpy(in ? page : l1, in ? l1 : page, bytes);
    pages -= n;
    at->bank = 0;
    at->row += at->page_stride;
  }
}

/* Weights of convolutions have a page for each row of their taps: most of these are of few bytes. */
static inline __attribute__((always_inline)) void move_all(walk *at, uint8_t *l1, int64_t pages, uint32_t bytes,
                                                           int in) {
  switch (bytes) {
    case 2: move_pages(at, l1, pages, 2, in); break;
    case 4: move_pages(at, l1, pages, 4, in); break;
    case 6: move_pages(at, l1, pages, 6, in); break;
    case 8: move_pages(at, l1, pages, 8, in); break;
    case 12: move_pages(at, l1, pages, 12, in); break;
    case 16: move_pages(at, l1, pages, 16, in); break;
    case 20: move_pages(at, l1, pages, 20, in); break;
    case 28: move_pages(at, l1, pages, 28, in); break;
    default: move_pages(at, l1, pages, bytes, in);
  }
}

static void count(_Atomic uint64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Bytes out of (0) or into (1) each bank that holds some of an interleaved tensor's pages. */
static void count_banks(gr_device_memory *memory, gr_pages pages, int32_t into) {
  int64_t banks = memory->desc.banks, rounds = pages.count / banks, rest = pages.count % banks;
  int64_t bank = pages.first % banks;
  if (rounds) count(memory->traffic + 2 * banks + into, (uint64_t)rounds * pages.bytes);
  for (int64_t i = 0; i < rest; ++i) {
    count(memory->traffic + 2 * bank + into, pages.bytes);
    if (++bank == banks) bank = 0;
  }
}

/* ---------------------------------------------------------------- the host's side */

int32_t gr_tt_copy_in(gr_device *device, const gr_arg *arg, gr_pages pages, const uint8_t *host,
                      uint64_t stride) {
  gr_device_memory *memory;
  walk at;
  int32_t status = begin(device, arg, pages, &memory, &at);
  if (status) return status;
  if (at.cut.shard) {
    if (!gr_tt_cut_move(&at.cut, arg, pages, NULL, host, stride)) return out_of_bounds(device, arg, pages);
  } else {
    for (int64_t i = 0; i < pages.count; ++i, host += stride)
      gr_move(next_page(&at), host, pages.bytes, pages.streaming);
    count_banks(memory, pages, 1);
  }
  count(&memory->bytes_in, (uint64_t)pages.count * pages.bytes);
  return GR_OK;
}

int32_t gr_tt_copy_out(gr_device *device, const gr_arg *arg, gr_pages pages, uint8_t *host, uint64_t stride) {
  gr_device_memory *memory;
  walk at;
  int32_t status = begin(device, arg, pages, &memory, &at);
  if (status) return status;
  if (at.cut.shard) {
    if (!gr_tt_cut_move(&at.cut, arg, pages, host, NULL, stride)) return out_of_bounds(device, arg, pages);
  } else {
    for (int64_t i = 0; i < pages.count; ++i, host += stride)
      gr_move(host, next_page(&at), pages.bytes, pages.streaming);
    count_banks(memory, pages, 0);
  }
  count(&memory->bytes_out, (uint64_t)pages.count * pages.bytes);
  return GR_OK;
}

/* Only whole pages of one unit stand in one piece: tiles. */
int32_t gr_tt_locate(gr_device *device, const gr_arg *arg, gr_pages pages, uint8_t **at) {
  gr_device_memory *memory;
  walk next;
  int32_t status = begin(device, arg, pages, &memory, &next);
  if (status) return status;
  for (int64_t i = 0; i < pages.count; ++i) {
    at[i] = next.cut.shard ? gr_tt_cut_at(&next.cut, pages.first + i) : next_page(&next);
    if (!at[i]) return out_of_bounds(device, arg, pages);
  }
  return GR_OK;
}

void gr_tt_count(gr_device *device, const gr_arg *arg, gr_pages pages, int32_t into) {
  gr_device_memory *memory;
  walk at;
  if (begin(device, arg, pages, &memory, &at)) return;
  count(into ? &memory->bytes_in : &memory->bytes_out, (uint64_t)pages.count * pages.bytes);
  if (at.cut.shard) gr_tt_cut_count(&at.cut, pages, into);
  else count_banks(memory, pages, into);
}

/* ---------------------------------------------------------------- a core's side */

static int32_t check_l1(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t pages,
                        const void *l1) {
  const gr_device *device = gr_env_device(env);
  uint64_t offset = (uint64_t)((uintptr_t)l1 - (uintptr_t)core->l1), bytes;
  if (pages < 0 || __builtin_mul_overflow((uint64_t)pages, (uint64_t)arg->page_bytes, &bytes) ||
      (uintptr_t)l1 < (uintptr_t)core->l1 || offset > core->l1_bytes || bytes > core->l1_bytes - offset)
    return gr_fail(GR_ERR_BOUNDS,
                   "%s: %lld pages of %u B do not fit at offset %lld of the %llu B that core %d opened",
                   device->name, (long long)pages, arg->page_bytes, (long long)offset,
                   (unsigned long long)core->l1_bytes, core->index);
  return GR_OK;
}

static gr_pages whole_pages(const gr_arg *arg, int64_t first, int64_t pages) {
  return (gr_pages){.first = first, .count = pages, .bytes = arg->page_bytes};
}

/* The walk over whole pages from first on, once l1 is known to have room for them. */
static int32_t begin_core(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first,
                          int64_t pages, const void *l1, gr_device_memory **memory, walk *at) {
  int32_t status = check_l1(env, core, arg, pages, l1);
  if (status) return status;
  return begin(gr_env_device(env), arg, whole_pages(arg, first, pages), memory, at);
}

int32_t gr_tt_page_read(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first,
                        int64_t pages, void *l1) {
  gr_device_memory *memory;
  walk at;
  int32_t status = begin_core(env, core, arg, first, pages, l1, &memory, &at);
  if (status) return status;
  gr_pages whole = whole_pages(arg, first, pages);
  if (at.cut.shard) {
    if (!gr_tt_cut_move(&at.cut, arg, whole, l1, NULL, arg->page_bytes))
      return out_of_bounds(gr_env_device(env), arg, whole);
  } else {
    move_all(&at, l1, pages, arg->page_bytes, 0);
    count_banks(memory, whole, 0);
  }
  count(&memory->pages_read, (uint64_t)pages);
  return GR_OK;
}

int32_t gr_tt_page_write(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first,
                         int64_t pages, const void *l1) {
  gr_device_memory *memory;
  walk at;
  int32_t status = begin_core(env, core, arg, first, pages, l1, &memory, &at);
  if (status) return status;
  gr_pages whole = whole_pages(arg, first, pages);
  if (at.cut.shard) {
    if (!gr_tt_cut_move(&at.cut, arg, whole, NULL, l1, arg->page_bytes))
      return out_of_bounds(gr_env_device(env), arg, whole);
  } else {
    move_all(&at, (uint8_t *)(uintptr_t)l1, pages, arg->page_bytes, 1);    /* only read */
    count_banks(memory, whole, 1);
  }
  count(&memory->pages_written, (uint64_t)pages);
  return GR_OK;
}
