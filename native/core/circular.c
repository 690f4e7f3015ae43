/* circular.c: circular buffers of kernels: the bytes of a core's L1 that each call takes, found by a dry call of the
 * kernel itself, and the part of L1 that work in flight keeps free of tensors for them.
 *
 * Called by graph_runtime/binding/circular.py, device.c, idle.c, submit.c, worker.c and executor.c, on any thread.
 * Lock: the device's.
 * defines: gr_circular_needs, gr_circular_hold, gr_circular_drop, gr_circular_stats, gr_circular_clear,
 * gr_circular_forget
 */
#include "circular.h"

#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "status.h"

#define NAMED_HOLDERS 5

/* ---------------------------------------------------------------- dry calls */

/* The first core stands for all: gr_tt_run opens each with as many bytes. The task returns the refusal of dry_open, so
 * the kernel goes on to the next buffer that it opens. */
static int32_t dry_for(const gr_env *env, int64_t n, gr_task task, void *ctx) {
  (void)env;
  if (n > 0) task(ctx, 0);
  return GR_OK;
}

static int32_t dry_open(const gr_env *env, int64_t index, uint64_t cb_bytes, gr_core *core) {
  uint64_t *most = env->impl;
  (void)index;
  (void)core;
  if (*most < cb_bytes) *most = cb_bytes;
  return GR_ERR_KERNEL;        /* no core was opened: the task ends before it touches data */
}

static int32_t dry_error(const gr_env *env, const char *message) {
  (void)env;
  (void)message;
  return GR_ERR_KERNEL;
}

static int32_t dry_read(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first, int64_t count,
                        void *l1) {
  (void)env, (void)core, (void)arg, (void)first, (void)count, (void)l1;
  return GR_ERR_KERNEL;
}

static int32_t dry_write(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first, int64_t count,
                         const void *l1) {
  (void)env, (void)core, (void)arg, (void)first, (void)count, (void)l1;
  return GR_ERR_KERNEL;
}

void gr_circular_needs(const gr_instr *instrs, int64_t count, const int32_t *cores, uint64_t *out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = 0;
    if (cores[i] <= 0) continue;
    gr_env env = {.abi = GR_ABI_VERSION, .size = sizeof env, .num_cores = cores[i], .impl = out + i,
                  .parallel_for = dry_for, .set_error = dry_error, .core_open = dry_open,
                  .page_read = dry_read, .page_write = dry_write};
    gr_call call = instrs[i].call;
    call.env = &env;
    instrs[i].fn(&call);       /* a call that the kernel refuses opens nothing, and says why when it is run */
  }
}

/* ---------------------------------------------------------------- what is kept free */

/* Writes "a 123 B at 456, ...", the blocks below `end`, into text. */
static void name_what_is_below(const gr_ledger *ledger, uint64_t end, char *text, size_t bytes) {
  size_t used = 0;
  int64_t i = 0;
  text[0] = 0;
  for (; i < ledger->count && ledger->items[i].addr < end; ++i) {
    const gr_holding *item = ledger->items + i;
    if (i >= NAMED_HOLDERS || used >= bytes) continue;
    int n = snprintf(text + used, bytes - used, "%s%s %llu B at %llu", i ? ", " : "", item->holder,
                     (unsigned long long)item->extent, (unsigned long long)item->addr);
    used += n > 0 ? (size_t)n : 0;
  }
  if (i > NAMED_HOLDERS && used < bytes)
    snprintf(text + used, bytes - used, " and %lld more", (long long)(i - NAMED_HOLDERS));
}

static int32_t count_hold(gr_circular *c, uint64_t bytes) {
  int32_t at = 0;
  while (at < c->count && c->items[at].bytes != bytes) ++at;
  if (at == c->count) {
    if (c->count == c->capacity) {
      int32_t capacity = c->capacity ? 2 * c->capacity : 8;
      gr_circular_hold_of *items = realloc(c->items, (size_t)capacity * sizeof *items);
      if (!items) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for the list of circular buffers");
      c->items = items;
      c->capacity = capacity;
    }
    c->items[c->count++] = (gr_circular_hold_of){bytes, 0};
  }
  c->items[at].count += 1;
  if (c->most < bytes) c->most = bytes;
  if (c->peak < bytes) c->peak = bytes;
  return GR_OK;
}

int32_t gr_circular_hold(gr_device *device, uint64_t bytes, const char *holder) {
  gr_device_memory *m = gr_device_memory_of(device, GR_L1);
  if (!bytes || !m) return GR_OK;
  uint64_t usable = m->desc.bank_bytes - m->desc.base, end = m->desc.base + bytes;
  if (bytes > usable)
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "circular buffers of %s need %llu B of each core's L1 on %s, which has "
                   "%llu B", holder, (unsigned long long)bytes, device->name, (unsigned long long)usable);
  pthread_mutex_lock(&device->lock);
  int32_t status;
  if (m->ledger.count && m->ledger.items[0].addr < end) {
    char below[NAMED_HOLDERS * 112];
    name_what_is_below(&m->ledger, end, below, sizeof below);
    status = gr_fail(GR_ERR_OUT_OF_MEMORY,
                     "Out of Memory: circular buffers of %s need %llu B of each core's L1 on %s, up to address %llu, "
                     "where tensors are: %s",
                     holder, (unsigned long long)bytes, device->name, (unsigned long long)end, below);
  } else {
    status = count_hold(&m->circular, bytes);
  }
  pthread_mutex_unlock(&device->lock);
  return status;
}

void gr_circular_drop(gr_device *device, uint64_t bytes) {
  gr_device_memory *m = gr_device_memory_of(device, GR_L1);
  if (!bytes || !m) return;
  pthread_mutex_lock(&device->lock);
  gr_circular *c = &m->circular;
  for (int32_t i = 0; i < c->count; ++i) {
    if (c->items[i].bytes != bytes) continue;
    c->dropped += 1;
    if (--c->items[i].count == 0) {
      c->items[i] = c->items[--c->count];
      c->most = 0;
      for (int32_t k = 0; k < c->count; ++k)
        if (c->most < c->items[k].bytes) c->most = c->items[k].bytes;
    }
    break;
  }
  pthread_mutex_unlock(&device->lock);
}

void gr_circular_stats(gr_device *device, int32_t memory, uint64_t *out) {
  out[0] = out[1] = out[2] = 0;
  if (memory < 0 || memory >= device->num_memories) return;
  gr_circular *c = &device->memories[memory].circular;
  pthread_mutex_lock(&device->lock);
  out[0] = c->most;
  out[1] = c->peak;
  out[2] = c->dropped;
  pthread_mutex_unlock(&device->lock);
}

void gr_circular_forget(gr_circular *circular) { circular->most = 0, circular->count = 0; }

void gr_circular_clear(gr_circular *circular) {
  free(circular->items);
  *circular = (gr_circular){0};
}
