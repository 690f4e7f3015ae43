/* cores.c: circular-buffer space for kernels. A host thread is one core at a time, so the space belongs to
 * the thread: it stays until the device is closed, and its contents from one core_open to the thread's
 * next.
 *
 * Called by kernels, on any thread.
 * defines: gr_tt_core_open, gr_tt_core_counts, gr_tt_core_expose, gr_tt_core_close
 */
#include <string.h>
#include <sys/mman.h>

#include "status.h"
#include "tt.h"

enum { RECORD_BYTES = 1 << 16 }; /* a page of any host, so that mprotect of the L1 leaves the record alone */

/* The last arena this thread used; its address is the thread's token. */
static _Thread_local struct {
  uint64_t serial;
  gr_tt_arena *arena;
} last;

/* The record lies in the mapping, a page before the L1: a worker thread's first malloc would reserve 64 MiB of
 * addresses for a heap of its own, which a process under ulimit -v may not have. */
static gr_tt_arena *map_arena(const gr_memory_desc *l1) {
  uint64_t bytes = l1->bank_bytes - l1->base;
  char *space = mmap(NULL, RECORD_BYTES + bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return NULL;
  gr_tt_arena *arena = (gr_tt_arena *)space;
  arena->bytes = bytes;
  arena->thread = &last;
  arena->l1 = (void *)(space + RECORD_BYTES);
  return arena;
}

/* This thread's arena: found again, taken over from a thread that is gone (its token came back), or new. */
static gr_tt_arena *arena_of_thread(gr_device *device, const gr_memory_desc *l1) {
  gr_tt_device *tt = gr_tt_of(device);
  if (last.serial == tt->serial) return last.arena;
  pthread_mutex_lock(&device->lock);
  gr_tt_arena *arena = tt->arenas;
  while (arena && arena->thread != &last) arena = arena->next;
  if (!arena && (arena = map_arena(l1))) {
    arena->next = tt->arenas;
    tt->arenas = arena;
  }
  pthread_mutex_unlock(&device->lock);
  if (arena) {
    last.serial = tt->serial;
    last.arena = arena;
  }
  return arena;
}

static void count_core(gr_tt_device *tt, gr_tt_arena *arena, int64_t index, uint64_t cb_bytes) {
  uint64_t most = atomic_load_explicit(&tt->most_cb, memory_order_relaxed);
  while (most < cb_bytes &&
         !atomic_compare_exchange_weak_explicit(&tt->most_cb, &most, cb_bytes, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
  atomic_fetch_or_explicit(&tt->cores_used[index / 64 % GR_TT_CORE_WORDS], (uint64_t)1 << index % 64,
                           memory_order_relaxed);
  ++arena->opened;
}

int32_t gr_tt_core_open(const gr_env *env, int64_t index, uint64_t cb_bytes, gr_core *core) {
  gr_device *device = gr_env_device(env);
  const gr_device_memory *m = gr_device_memory_of(device, GR_L1);
  if (!m) return gr_fail(GR_ERR_ARGUMENT, "%s has no L1 for circular buffers", device->name);
  if (index < 0 || index >= env->num_cores)
    return gr_fail(GR_ERR_BOUNDS, "core %lld is not one of the %d cores of %s", (long long)index,
                   env->num_cores, device->name);
  uint64_t base = m->desc.base,
           floor = atomic_load_explicit(&gr_tt_of(device)->l1_floor, memory_order_relaxed);
  if (cb_bytes > m->desc.bank_bytes - base)
    return gr_fail(GR_ERR_OUT_OF_MEMORY,
                   "Statically allocated circular buffers on core %lld of %s grow to %llu B which is "
                   "beyond max L1 size of %llu B",
                   (long long)index, device->name, (unsigned long long)(base + cb_bytes),
                   (unsigned long long)m->desc.bank_bytes);
  if (base + cb_bytes > floor)
    return gr_fail(GR_ERR_OUT_OF_MEMORY,
                   "Statically allocated circular buffers clash with L1 buffers on core %lld of %s. "
                   "L1 buffer allocated at %llu and static circular buffer region ends at %llu; keep fewer or "
                   "smaller tensors in l1",
                   (long long)index, device->name, (unsigned long long)floor,
                   (unsigned long long)(base + cb_bytes));
  gr_tt_arena *arena = arena_of_thread(device, &m->desc);
  if (!arena)
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "the host has no memory for the L1 of a core of %s", device->name);
  count_core(gr_tt_of(device), arena, index, cb_bytes);
  if (device->guard) memset(arena->l1, 0xFF, cb_bytes); /* what another core left there must not be of use */
  *core = (gr_core){.index = (int32_t)index, .l1 = arena->l1, .l1_bytes = cb_bytes};
  return GR_OK;
}

void gr_tt_core_counts(gr_device *device, int32_t reset, uint64_t *out) {
  gr_tt_device *tt = gr_tt_of(device);
  for (int i = 0; i < GR_TT_CORE_WORDS; ++i) {
    uint64_t used = atomic_load_explicit(&tt->cores_used[i], memory_order_relaxed);
    for (; used; used &= used - 1) ++out[1];
    if (reset) atomic_store_explicit(&tt->cores_used[i], 0, memory_order_relaxed);
  }
  out[2] = atomic_load_explicit(&tt->most_cb, memory_order_relaxed);
  if (reset) atomic_store_explicit(&tt->most_cb, 0, memory_order_relaxed);
  for (gr_tt_arena *arena = tt->arenas; arena; arena = arena->next) {
    out[0] += arena->opened;
    out[3] += arena->opened > 0;
    if (reset) arena->opened = 0;
  }
}

void gr_tt_core_expose(gr_device *device, int on) {
  for (gr_tt_arena *arena = gr_tt_of(device)->arenas; arena; arena = arena->next)
    mprotect(arena->l1, arena->bytes, on ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void gr_tt_core_close(gr_device *device) {
  gr_tt_device *tt = gr_tt_of(device);
  while (tt->arenas) {
    gr_tt_arena *arena = tt->arenas;
    tt->arenas = arena->next;
    munmap(arena, RECORD_BYTES + arena->bytes);
  }
}
