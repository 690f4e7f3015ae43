/* cores.c: circular-buffer space for kernels. A host thread is one core at a time, so the space belongs to
 * the thread: it stays until the device is closed, and its contents from one core_open to the thread's
 * next.
 *
 * Called by kernels, on any thread.
 * defines: gr_tt_core_open, gr_tt_core_expose, gr_tt_core_close
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "status.h"
#include "tt.h"

/* The last arena this thread used; its address is the thread's token. */
static _Thread_local struct {
  uint64_t serial;
  gr_tt_arena *arena;
} last;

static gr_tt_arena *map_arena(const gr_memory_desc *l1) {
  gr_tt_arena *arena = calloc(1, sizeof *arena);
  if (!arena) return NULL;
  arena->bytes = l1->bank_bytes - l1->base;
  void *space = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
  if (space == MAP_FAILED) {
    free(arena);
    return NULL;
  }
  arena->thread = &last;
  arena->l1 = space;
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
                   "L1 buffer allocated at %llu and static circular buffer region ends at %llu",
                   (long long)index, device->name, (unsigned long long)floor,
                   (unsigned long long)(base + cb_bytes));
  gr_tt_arena *arena = arena_of_thread(device, &m->desc);
  if (!arena)
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "the host has no memory for the L1 of a core of %s", device->name);
  if (device->guard) memset(arena->l1, 0xFF, cb_bytes); /* what another core left there must not be of use */
  *core = (gr_core){.index = (int32_t)index, .l1 = arena->l1, .l1_bytes = cb_bytes};
  return GR_OK;
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
    munmap(arena->l1, arena->bytes);
    free(arena);
  }
}
