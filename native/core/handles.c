/* handles.c: addresses that stand for a device's memory in another framework (gr_handles.h).
 *
 * Called by graph_runtime/torch/ (any thread), and by the framework through DLPack's deleter (any thread, no lock
 * of anybody's held or needed).
 * defines: gr_handle_*, gr_handles_*
 */
#include "gr_handles.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ranges.h"
#include "status.h"

#define DL_EXT_DEV 12
#define MOST_DIMS 64

/* dlpack.h, version 0.x */
typedef struct dl_tensor {
  void *data;
  struct { int32_t type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct handle {
  dl_managed managed;          /* first: a deleter gets its address */
  struct handle *next;         /* in the list of dropped ones, or of free ones of a class */
  uint64_t address;
  int32_t size_class;          /* the range has 2^size_class bytes */
  int64_t dims[2 * MOST_DIMS]; /* shape, then strides */
} handle;

/* ---------------------------------------------------------------- ranges of addresses
 * One range is claimed at first use (ranges.h): nothing is ever mapped in it, so it takes neither memory nor, as
 * mappings of their own would, one of the few ten thousand mappings of a process. Ranges are powers of two and go
 * back to their class. */
#define LEAST_CLASS 6
#define CLASSES 48
#define MOST_CLAIMED (UINT64_C(1) << 42)
#define LEAST_CLAIMED (UINT64_C(1) << 32)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handle *idle[CLASSES];
static uint64_t next_address, end_address;
static _Atomic(handle *) dropped;
static _Atomic int64_t live;

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* Under the lock. Sanitizers leave less room than a plain process has, so less is tried, too. */
static int32_t claim(void) {
  if (end_address) return GR_OK;
  for (uint64_t bytes = MOST_CLAIMED; bytes >= LEAST_CLAIMED; bytes /= 4) {
    next_address = gr_range_claim(bytes);
    if (!next_address) continue;
    end_address = next_address + bytes;
    pthread_atfork(before_fork, after_fork, after_fork);
    return GR_OK;
  }
  return gr_fail(GR_ERR_OUT_OF_MEMORY, "the system gives no addresses for the device's tensors");
}

/* Under the lock: a handle with a range of 2^size_class bytes, its other fields as they were; NULL on failure. */
static handle *take(int32_t size_class) {
  if (claim()) return NULL;
  handle *found = idle[size_class];
  if (found) {
    idle[size_class] = found->next;
    return found;
  }
  uint64_t bytes = UINT64_C(1) << size_class;
  if (bytes > end_address - next_address) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "no addresses are left for a tensor of %llu bytes", (unsigned long long)bytes);
    return NULL;
  }
  found = calloc(1, sizeof *found);
  if (!found) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a tensor's handle");
    return NULL;
  }
  found->address = next_address;
  found->size_class = size_class;
  next_address += bytes;
  return found;
}

/* ---------------------------------------------------------------- dropping
 * A stack that is only pushed to, or emptied as a whole, needs no lock: a deleter may run anywhere. */

static void drop(dl_managed *managed) {
  handle *self = (handle *)managed;
  handle *head = atomic_load_explicit(&dropped, memory_order_relaxed);
  do self->next = head;
  /* release: the thread that collects sees `next` */
  while (!atomic_compare_exchange_weak_explicit(&dropped, &head, self, memory_order_release, memory_order_relaxed));
  atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);    /* a count, orders nothing */
}

int32_t gr_handles_collect(uint64_t *addresses, int32_t most) {
  /* mostly there is none, and every operation pays for this */
  if (!atomic_load_explicit(&dropped, memory_order_relaxed)) return 0;
  int32_t count = 0;
  pthread_mutex_lock(&lock);
  handle *found = atomic_exchange_explicit(&dropped, NULL, memory_order_acquire);
  while (found && count < most) {
    handle *next = found->next;
    addresses[count++] = found->address;
    found->next = idle[found->size_class];
    idle[found->size_class] = found;
    found = next;
  }
  while (found) {              /* more than the caller has room for: back to the list */
    handle *next = found->next;
    drop(&found->managed);
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    found = next;
  }
  pthread_mutex_unlock(&lock);
  return count;
}

/* ---------------------------------------------------------------- making */

/* Bytes from the first element to the end of the last; -1 if that overflows. */
static int64_t extent_of(int32_t bits, int32_t ndim, const int64_t *dims) {
  int64_t last = 0;
  for (int32_t i = 0; i < ndim; ++i) {
    int64_t size = dims[i], stride = dims[MOST_DIMS + i], step;
    if (size < 0 || stride < 0) return -1;
    if (size == 0) return 0;
    if (__builtin_mul_overflow(size - 1, stride, &step) || __builtin_add_overflow(last, step, &last)) return -1;
  }
  return __builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, bits / 8, &last) ? -1 : last;
}

static void row_major(int32_t ndim, int64_t *dims) {
  int64_t step = 1;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    dims[MOST_DIMS + i] = step;
    if (dims[i] > 0 && __builtin_mul_overflow(step, dims[i], &step)) step = -1;   /* extent_of refuses it */
  }
}

static int32_t class_of(uint64_t bytes) {
  int32_t size_class = LEAST_CLASS;
  while (size_class < CLASSES && (UINT64_C(1) << size_class) < bytes) ++size_class;
  return size_class;
}

uint64_t gr_handle_export(int32_t device, int32_t code, int32_t bits, int32_t ndim, const int64_t *shape,
                          const int64_t *strides) {
  int64_t dims[2 * MOST_DIMS];
  if (ndim < 0 || ndim > MOST_DIMS || bits < 8) {
    gr_fail(GR_ERR_ARGUMENT, "a tensor of %d dimensions and %d bits cannot be exported", ndim, bits);
    return 0;
  }
  for (int32_t i = 0; i < ndim; ++i) dims[i] = shape[i];
  if (strides) for (int32_t i = 0; i < ndim; ++i) dims[MOST_DIMS + i] = strides[i];
  else row_major(ndim, dims);
  int64_t extent = extent_of(bits, ndim, dims);
  int32_t size_class = extent < 0 ? CLASSES : class_of((uint64_t)extent);
  if (size_class >= CLASSES) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "a tensor of these extents has more bytes than there are addresses");
    return 0;
  }
  pthread_mutex_lock(&lock);
  handle *made = take(size_class);
  pthread_mutex_unlock(&lock);
  if (!made) return 0;
  for (int32_t i = 0; i < ndim; ++i) {
    made->dims[i] = dims[i];
    made->dims[MOST_DIMS + i] = dims[MOST_DIMS + i];
  }
  made->managed = (dl_managed){.tensor = {.data = (void *)(uintptr_t)made->address,
                                          .device = {DL_EXT_DEV, device},
                                          .ndim = ndim,
                                          .dtype = {(uint8_t)code, (uint8_t)bits, 1},
                                          .shape = made->dims,
                                          .strides = made->dims + MOST_DIMS},
                               .deleter = drop};
  atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
  return (uint64_t)(uintptr_t)&made->managed;
}

static handle *handle_of(uint64_t managed) { return (handle *)(uintptr_t)managed; }   /* its first member */

uint64_t gr_handle_address(uint64_t managed) { return handle_of(managed)->address; }

void gr_handle_drop(uint64_t managed) { drop(&handle_of(managed)->managed); }

int64_t gr_handles_live(void) { return atomic_load_explicit(&live, memory_order_relaxed); }
