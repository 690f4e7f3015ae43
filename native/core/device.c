/* device.c: creation, memory accounting and guard mode of devices of every kind.
 *
 * Called by graph_runtime/binding/core.py (any thread), the executor, the queues' workers and the copy engine, and by
 * parallel.c through its hook. Lock order: list, then a device's lock.
 * defines: gr_device_register, gr_device_is_kind, gr_device_on_close, gr_device_create ... gr_device_set_guard,
 * gr_device_give_back, gr_device_place_later, gr_device_enter, gr_device_leave, gr_devices_*
 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moved.h"
#include "parallel.h"
#include "status.h"

#define MOST_KINDS 16

static const gr_device_ops *kinds[MOST_KINDS];
static int num_kinds;
static pthread_mutex_t kinds_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static gr_device *list;
static _Atomic int32_t guarded;
static void (*closing)(gr_device *device);   /* gr_device_on_close */

void gr_device_register(const gr_device_ops *ops) {
  pthread_mutex_lock(&kinds_lock);
  if (num_kinds < MOST_KINDS) kinds[num_kinds++] = ops;
  pthread_mutex_unlock(&kinds_lock);
}

void gr_device_on_close(void (*hook)(gr_device *device)) { closing = hook; }

static const gr_device_ops *find_kind(const char *kind) {
  const gr_device_ops *found = NULL;
  pthread_mutex_lock(&kinds_lock);
  for (int i = 0; i < num_kinds && !found; ++i)
    if (strcmp(kinds[i]->kind, kind) == 0) found = kinds[i];
  pthread_mutex_unlock(&kinds_lock);
  return found;
}

int gr_device_is_kind(const char *kind) { return find_kind(kind) != NULL; }

/* ---------------------------------------------------------------- the env that kernels see */

static int32_t env_parallel_for(const gr_env *env, int64_t n, gr_task task, void *ctx) {
  (void)env;
  return gr_pool_run(n, task, ctx);
}

static int32_t env_set_error(const gr_env *env, const char *message) {
  (void)env;
  return gr_fail(GR_ERR_KERNEL, "%s", message ? message : "");
}

/* Devices whose tensors are host pointers run on the pool itself, so they have as many cores as it has threads. */
static void set_threads(int32_t threads) {
  pthread_mutex_lock(&list_lock);
  for (gr_device *device = list; device; device = device->next)
    if (!device->ops->copy_in) __atomic_store_n(&device->env.num_cores, threads, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&list_lock);
}

__attribute__((constructor)) static void watch_pool(void) { gr_pool_on_resize(set_threads); }

/* ---------------------------------------------------------------- create and destroy */

static int32_t check_memory(const gr_memory_desc *memory, int32_t index) {
  if (memory->kind < GR_HOST || memory->kind > GR_L1 || memory->banks < 1 || memory->alignment < 1 ||
      memory->bank_bytes <= memory->base ||
      memory->bank_bytes > (uint64_t)INT64_MAX / (uint64_t)memory->banks)
    return gr_fail(GR_ERR_ARGUMENT,
                   "memory %d: kind %d, %d banks of %llu B from %llu, alignment %u cannot be", index,
                   memory->kind, memory->banks, (unsigned long long)memory->bank_bytes,
                   (unsigned long long)memory->base, memory->alignment);
  return GR_OK;
}

static void release_all(gr_device *device) {
  for (int32_t m = 0; m < device->num_memories; ++m) {
    gr_ledger *ledger = &device->memories[m].ledger;
    gr_holding holding;
    while (ledger->count && gr_ledger_remove(ledger, ledger->items[ledger->count - 1].addr, &holding))
      device->ops->release(device, m, &holding);
    gr_ledger_clear(ledger);
  }
}

static void free_device(gr_device *device) {
  for (int32_t m = 0; m < device->num_memories; ++m) {
    free(device->memories[m].traffic);
    gr_circular_clear(&device->memories[m].circular);
  }
  free(device);
}

int32_t gr_device_create(const char *kind, const char *name, int32_t num_cores,
                         const gr_memory_desc *memories, int32_t num_memories, gr_device **out) {
  const gr_device_ops *ops = find_kind(kind);
  if (!ops) return gr_fail(GR_ERR_ARGUMENT, "no device kind '%s' is built into this core", kind);
  if (num_cores < 1 || num_memories < 1 || num_memories > GR_MAX_MEMORIES)
    return gr_fail(GR_ERR_ARGUMENT, "device %s: %d cores and %d memories (1 to %d) cannot be", name,
                   num_cores, num_memories, GR_MAX_MEMORIES);
  for (int32_t m = 0; m < num_memories; ++m)
    if (check_memory(memories + m, m)) return GR_ERR_ARGUMENT;
  gr_device *device = calloc(1, sizeof *device);
  if (!device) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for device %s", name);
  device->ops = ops;
  snprintf(device->name, sizeof device->name, "%s", name);
  device->num_memories = num_memories;
  device->moved = gr_moved_of(device->name);
  if (!device->moved) {
    free_device(device);
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for the counters of device %s", name);
  }
  for (int32_t m = 0; m < num_memories; ++m) {
    device->memories[m].desc = memories[m];
    device->memories[m].traffic = calloc(2 * ((size_t)memories[m].banks + 1), sizeof *device->memories[m].traffic);
    if (!device->memories[m].traffic) {
      free_device(device);
      return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for the counters of device %s", name);
    }
  }
  device->env = (gr_env){.abi = GR_ABI_VERSION,
                         .size = sizeof(gr_env),
                         .num_cores = num_cores,
                         .impl = device,
                         .parallel_for = env_parallel_for,
                         .set_error = env_set_error};
  int32_t status = ops->open ? ops->open(device) : GR_OK;
  if (status) {
    free_device(device);
    return status;
  }
  pthread_mutex_init(&device->lock, NULL);
  pthread_mutex_lock(&list_lock);
  device->next = list;
  list = device;
  pthread_mutex_unlock(&list_lock);
  set_threads(gr_pool_threads());
  *out = device;
  return GR_OK;
}

void gr_device_destroy(gr_device *device) {
  if (!device) return;
  if (closing) closing(device);
  gr_device_set_guard(device, 0);
  pthread_mutex_lock(&list_lock);
  for (gr_device **at = &list; *at; at = &(*at)->next)
    if (*at == device) {
      *at = device->next;
      break;
    }
  pthread_mutex_unlock(&list_lock);
  release_all(device);
  if (device->ops->close) device->ops->close(device);
  gr_shard_table_clear(&device->shards);
  pthread_mutex_destroy(&device->lock);
  free_device(device);
}

const gr_env *gr_device_env(const gr_device *device) { return &device->env; }

void gr_devices_lock(int32_t on) {
  if (on) pthread_mutex_lock(&list_lock);
  for (gr_device *device = list; device; device = device->next)
    if (on) pthread_mutex_lock(&device->lock);
    else pthread_mutex_unlock(&device->lock);
  if (!on) pthread_mutex_unlock(&list_lock);
}

void gr_devices_forget_circular(void) {
  for (gr_device *device = list; device; device = device->next)
    for (int32_t m = 0; m < device->num_memories; ++m) gr_circular_forget(&device->memories[m].circular);
}

/* ---------------------------------------------------------------- memory */

static int32_t check_index(const gr_device *device, int32_t memory) {
  if (memory >= 0 && memory < device->num_memories) return GR_OK;
  return gr_fail(GR_ERR_ARGUMENT, "device %s has memories 0 to %d, not %d", device->name,
                 device->num_memories - 1, memory);
}

/* Bytes that an allocation of extent takes. */
static uint64_t rounded_up(const gr_device_memory *m, uint64_t extent) {
  uint64_t alignment = m->desc.alignment, rounded = (extent + alignment - 1) / alignment * alignment;
  return rounded ? rounded : alignment;
}

int32_t gr_device_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder,
                        uint64_t *addr) {
  if (check_index(device, memory)) return GR_ERR_ARGUMENT;
  gr_device_memory *m = device->memories + memory;
  uint64_t usable = m->desc.bank_bytes - m->desc.base;
  pthread_mutex_lock(&device->lock);
  int32_t status;
  if (extent > usable) {           /* also keeps the rounding below from overflowing */
    status = gr_ledger_out_of_memory(
        &m->ledger, &m->desc, device->name, extent,
        m->desc.kind == GR_HOST ? usable - m->ledger.held : gr_ledger_largest_gap(&m->ledger, &m->desc), 0);
  } else {
    status = device->ops->alloc(device, memory, rounded_up(m, extent), holder, addr);
  }
  pthread_mutex_unlock(&device->lock);
  return status;
}

void gr_device_give_back(gr_device *device, int32_t memory, uint64_t addr, int on) {
  pthread_mutex_lock(&device->lock);
  gr_ledger_give_back(&device->memories[memory].ledger, addr, on);
  pthread_mutex_unlock(&device->lock);
}

int gr_device_place_later(gr_device *device, int32_t memory, uint64_t extent, uint64_t *addr, uint64_t *there) {
  const gr_device_memory *m = device->memories + memory;
  if (extent > m->desc.bank_bytes - m->desc.base) return 0;
  uint64_t rounded = rounded_up(m, extent);
  pthread_mutex_lock(&device->lock);
  const gr_holding *found = NULL;
  if (gr_ledger_place(&m->ledger, &m->desc, rounded, 1, addr))
    found = gr_ledger_given_back(&m->ledger, *addr, rounded);
  if (found) *there = found->addr;
  pthread_mutex_unlock(&device->lock);
  return found != NULL;
}

int32_t gr_device_free(gr_device *device, int32_t memory, uint64_t addr) {
  if (check_index(device, memory)) return GR_ERR_ARGUMENT;
  gr_holding holding;
  pthread_mutex_lock(&device->lock);
  int found = gr_ledger_remove(&device->memories[memory].ledger, addr, &holding);
  if (found) device->ops->release(device, memory, &holding);
  pthread_mutex_unlock(&device->lock);
  if (found) return GR_OK;
  return gr_fail(GR_ERR_ARGUMENT, "device %s, memory %d: nothing is allocated at address %llu", device->name,
                 memory, (unsigned long long)addr);
}

int32_t gr_device_discard(gr_device *device, int32_t memory, uint64_t addr, uint64_t bytes) {
  if (check_index(device, memory)) return GR_ERR_ARGUMENT;
  pthread_mutex_lock(&device->lock);
  int inside = gr_ledger_find(&device->memories[memory].ledger, addr, bytes) != NULL;
  if (inside && device->ops->discard) device->ops->discard(addr, bytes);
  pthread_mutex_unlock(&device->lock);
  if (inside) return GR_OK;
  return gr_fail(GR_ERR_BOUNDS, "device %s, memory %d: %llu bytes at %llu are not inside an allocation",
                 device->name, memory, (unsigned long long)bytes, (unsigned long long)addr);
}

int32_t gr_device_shard(gr_device *device, const gr_shard *shard, uint64_t *tag) {
  uint64_t number;
  pthread_mutex_lock(&device->lock);
  int32_t status = gr_shard_add(&device->shards, shard, device->name, &number);
  pthread_mutex_unlock(&device->lock);
  if (!status) *tag = number << GR_SHARD_SHIFT;
  return status;
}

int32_t gr_device_stats(const gr_device *device, int32_t memory, uint64_t *out) {
  if (check_index(device, memory)) return GR_ERR_ARGUMENT;
  gr_device *d = (gr_device *)device;      /* the lock is all that changes */
  gr_device_memory *m = d->memories + memory;
  pthread_mutex_lock(&d->lock);
  out[0] = m->ledger.held;
  out[1] = m->desc.bank_bytes - m->desc.base - m->ledger.held;
  out[2] = m->desc.kind == GR_HOST ? out[1] : gr_ledger_largest_gap(&m->ledger, &m->desc);
  out[3] = (uint64_t)m->ledger.count;
  pthread_mutex_unlock(&d->lock);
  out[4] = atomic_load_explicit(&m->bytes_in, memory_order_relaxed);
  out[5] = atomic_load_explicit(&m->bytes_out, memory_order_relaxed);
  out[6] = atomic_load_explicit(&m->pages_read, memory_order_relaxed);
  out[7] = atomic_load_explicit(&m->pages_written, memory_order_relaxed);
  return GR_OK;
}

int32_t gr_device_cores(gr_device *device, int32_t reset, uint64_t *out) {
  memset(out, 0, 4 * sizeof *out);
  pthread_mutex_lock(&device->lock);
  if (device->ops->cores) device->ops->cores(device, reset, out);
  pthread_mutex_unlock(&device->lock);
  return GR_OK;
}

int32_t gr_device_traffic(const gr_device *device, int32_t memory, uint64_t *out) {
  if (check_index(device, memory)) return GR_ERR_ARGUMENT;
  const gr_device_memory *m = device->memories + memory;
  const _Atomic uint64_t *all = m->traffic + 2 * (int64_t)m->desc.banks;
  for (int64_t i = 0; i < 2 * (int64_t)m->desc.banks; ++i)
    out[i] = atomic_load_explicit(m->traffic + i, memory_order_relaxed) +
             atomic_load_explicit(all + i % 2, memory_order_relaxed);
  return GR_OK;
}

/* ---------------------------------------------------------------- guard mode */

int32_t gr_devices_guarded(void) { return atomic_load_explicit(&guarded, memory_order_relaxed); }

int32_t gr_device_set_guard(gr_device *device, int32_t on) {
  on = on != 0;
  pthread_mutex_lock(&device->lock);
  if (device->guard != on) {
    device->guard = on;
    atomic_fetch_add_explicit(&guarded, on ? 1 : -1, memory_order_relaxed);
    if (device->ops->expose && device->inside == 0) device->ops->expose(device, !on);
  }
  pthread_mutex_unlock(&device->lock);
  return GR_OK;
}

void gr_device_enter(gr_device *device) {
  if (!device || !device->ops->expose) return;
  pthread_mutex_lock(&device->lock);
  if (device->inside++ == 0 && device->guard) device->ops->expose(device, 1);
  pthread_mutex_unlock(&device->lock);
}

void gr_device_leave(gr_device *device) {
  if (!device || !device->ops->expose) return;
  pthread_mutex_lock(&device->lock);
  if (--device->inside == 0 && device->guard) device->ops->expose(device, 0);
  pthread_mutex_unlock(&device->lock);
}
