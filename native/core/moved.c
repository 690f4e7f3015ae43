/* moved.c: counts of copies for each device: inline copies when they are done (copy.c), those of a submission when it
 * is queued (submit.c), so that a caller's copies are counted when the call returns.
 *
 * Called by the copy engine, by templates and submissions, and by graph_runtime/binding/core.py; any thread.
 * defines: gr_moved_of, gr_move_of, gr_moved_add, gr_moved_read
 */
#include "moved.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "formats.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* held to add to the list; it is read without */
static gr_moved *_Atomic list;

static gr_moved *find(const char *device) {
  gr_moved *at = atomic_load_explicit(&list, memory_order_acquire);
  while (at && strncmp(at->device, device, sizeof at->device - 1)) at = at->next;
  return at;
}

gr_moved *gr_moved_of(const char *device) {
  pthread_mutex_lock(&lock);
  gr_moved *found = find(device);
  if (!found && (found = calloc(1, sizeof *found))) {
    snprintf(found->device, sizeof found->device, "%s", device);
    found->next = atomic_load_explicit(&list, memory_order_relaxed);
    atomic_store_explicit(&list, found, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static uint64_t bytes_of(const gr_arg *arg) {
  uint64_t bytes = arg->dtype == GR_OPAQUE ? arg->page_bytes : gr_format_bytes(arg->dtype);
  for (int32_t d = 0; d < arg->ndim; ++d) bytes *= (uint64_t)arg->shape[d];
  return bytes;
}

/* Whether elements stay where they are in the tensor: only then does a copy on one device change nothing. */
static int is_alike(const gr_arg *a, const gr_arg *b) {
  uint64_t cut_a = a->addr - gr_bank_address(a), cut_b = b->addr - gr_bank_address(b);
  return a->memory == b->memory && a->layout == b->layout && a->format == b->format && cut_a == cut_b &&
         a->ndim == b->ndim && (!a->ndim || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape));
}

gr_moving gr_move_of(const gr_env *src_env, const gr_arg *src, const gr_env *dst_env, const gr_arg *dst) {
  const gr_device *from = src->memory == GR_HOST ? NULL : gr_env_device(src_env);
  const gr_device *to = dst->memory == GR_HOST ? NULL : gr_env_device(dst_env);
  gr_moving move = {.count = 1, .bytes = bytes_of(dst)};
  if ((!from && !to) || !move.bytes) return move;
  move.moved = (to ? to : from)->moved;
  move.kind = !from       ? GR_MOVE_H2D
              : !to       ? GR_MOVE_D2H
              : from != to ? GR_MOVE_D2D
              : is_alike(src, dst) ? GR_MOVE_COPY
                                   : GR_MOVE_CONVERSION;
  return move;
}

void gr_moved_add(const gr_moving *move) {
  if (!move->moved) return;
  atomic_fetch_add_explicit(move->moved->count + move->kind, move->count, memory_order_relaxed);
  atomic_fetch_add_explicit(move->moved->bytes + move->kind, move->bytes, memory_order_relaxed);
}

int32_t gr_moved_read(gr_moved_counts *out, int32_t most) {
  int32_t count = 0;
  for (gr_moved *at = atomic_load_explicit(&list, memory_order_acquire); at; at = at->next, ++count) {
    if (count >= most) continue;
    memcpy(out[count].device, at->device, sizeof at->device);
    for (int k = 0; k < GR_MOVEMENTS; ++k) {
      out[count].count[k] = atomic_load_explicit(at->count + k, memory_order_relaxed);
      out[count].bytes[k] = atomic_load_explicit(at->bytes + k, memory_order_relaxed);
    }
  }
  return count;
}
