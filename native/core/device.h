/* device.h: the interface of device kinds. A kind is one C file with a gr_device_ops that registers itself by
 * GR_REGISTER_DEVICE, and one descriptor in schemas/devices; nothing else knows its name.
 *
 * defines: gr_device_ops, struct gr_device, gr_device_register, gr_device_is_kind, GR_REGISTER_DEVICE, gr_env_device,
 * gr_device_memory_of, gr_device_give_back, gr_device_place_later, gr_device_enter/leave, gr_device_on_close,
 * gr_devices_*
 */
#ifndef GR_DEVICE_H
#define GR_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "circular.h"
#include "gr_core.h"
#include "ledger.h"
#include "public.h"
#include "shard.h"

#define GR_MAX_MEMORIES 8

/* Bytes [offset, offset + bytes) of each of the pages first .. first + count - 1 of a tensor. */
typedef struct gr_pages {
  int64_t first;
  int64_t count;
  uint64_t offset;
  uint64_t bytes;
  int32_t streaming;           /* part of a copy too large for caches: see stream.h */
} gr_pages;

/* Slots are called under no lock unless they say so. */
typedef struct gr_device_ops {
  const char *kind;
  /* (optional) Makes device->impl and fills in the env. Takes no tensor memory: that comes with the first
   * alloc. */
  int32_t (*open)(gr_device *device);
  /* (optional) Releases impl and all memory that is still held. */
  void (*close)(gr_device *device);
  /* Under the device's lock. extent is a positive multiple of the alignment; records the holding in the
   * memory's ledger. */
  int32_t (*alloc)(gr_device *device, int32_t memory, uint64_t extent, const char *holder, uint64_t *addr);
  /* Under the device's lock, after the holding was taken out of the ledger. */
  void (*release)(gr_device *device, int32_t memory, const gr_holding *holding);
  /* (optional) Under the device's lock: gives the system back what can be given back of a part of an
   * allocation. */
  void (*discard)(uint64_t addr, uint64_t bytes);
  /* (optional: tensors of this kind are host pointers) Moves parts of pages between the device and host,
   * consecutive pages stride bytes apart at host. GR_ERR_BOUNDS for what is not inside the tensor. */
  int32_t (*copy_in)(gr_device *device, const gr_arg *arg, gr_pages pages, const uint8_t *host,
                     uint64_t stride);
  int32_t (*copy_out)(gr_device *device, const gr_arg *arg, gr_pages pages, uint8_t *host, uint64_t stride);
  /* (with copy_in) Addresses at[pages.count] of such parts of pages, for a copy that moves and counts them itself,
   * between gr_device_enter and leave. GR_ERR_BOUNDS as above. */
  int32_t (*locate)(gr_device *device, const gr_arg *arg, gr_pages pages, uint8_t **at);
  /* (with locate) Counts parts of pages that such a copy has moved into (1) or out of (0) the device. */
  void (*count)(gr_device *device, const gr_arg *arg, gr_pages pages, int32_t into);
  /* (optional) Under the device's lock: opens (1) or closes (0) the device's memory to the host's
   * instructions. */
  void (*expose)(gr_device *device, int32_t on);
  /* (optional: no cores of its own) Under the device's lock: gr_device_cores. */
  void (*cores)(gr_device *device, int32_t reset, uint64_t *out);
} gr_device_ops;

typedef struct gr_device_memory {
  gr_memory_desc desc;
  gr_ledger ledger;
  gr_circular circular;        /* bytes from the base on that no allocation takes */
  /* relaxed: they are only counts, read for a report */
  _Atomic uint64_t bytes_in, bytes_out, pages_read, pages_written;
  /* [2 * (banks + 1)] bytes out of and into each bank, by copies and kernels; the last two: of all banks, each */
  _Atomic uint64_t *traffic;
  uint64_t idle;               /* bytes per bank of idle buffers; under gr_async_lock */
  uint64_t most_used, most_held;   /* bytes per bank at once, without idle blocks and with; under gr_async_lock */
} gr_device_memory;

struct gr_device {
  const gr_device_ops *ops;
  gr_env env;                  /* env.impl is the gr_device */
  char name[32];
  gr_device_memory memories[GR_MAX_MEMORIES];
  int32_t num_memories;
  struct gr_moved *moved;      /* counts of copies, by this name; outlives the device */
  gr_shard_table shards;       /* read without the lock */
  pthread_mutex_t lock;        /* ledgers, shards added, guard, inside, and what the slots say */
  int32_t guard;               /* gr_device_set_guard */
  int64_t inside;              /* kernels and copies of this device that run now */
  struct gr_queue *queues[3];  /* by gr_role, made at first use; under gr_async_lock */
  void *impl;                  /* the kind's own */
  gr_device *next;             /* list of all devices */
};

GR_PUBLIC void gr_device_register(const gr_device_ops *ops);

/* Whether a kind of that name is registered. */
int gr_device_is_kind(const char *kind);

/* Registers a kind when the library is loaded; kinds only need to be linked, or to be in a library of their own that
 * gr_device_load opens. */
#define GR_REGISTER_DEVICE(ops) \
  __attribute__((constructor)) static void gr_register_##ops(void) { gr_device_register(&(ops)); }

static inline gr_device *gr_env_device(const gr_env *env) { return env ? (gr_device *)env->impl : NULL; }

/* Around every kernel (where a device is guarded) and copy: keeps the device's memory open to the host's
 * instructions. Nests; any thread. */
void gr_device_enter(gr_device *device);
void gr_device_leave(gr_device *device);

/* Number of guarded devices: the executor asks once a run whether it must enter and leave. */
int32_t gr_devices_guarded(void);

/* Notes whether only queued work needs the allocation at addr. */
void gr_device_give_back(gr_device *device, int32_t memory, uint64_t addr, int on);
/* The place of extent bytes when queued work is over, and `there`, the address of the first allocation in the way that
 * only queued work needs; 0 where nothing is in the way, or there is no such place. */
int gr_device_place_later(gr_device *device, int32_t memory, uint64_t extent, uint64_t *addr, uint64_t *there);

/* The memory of a device that a gr_arg.memory means, NULL if it has none. */
static inline gr_device_memory *gr_device_memory_of(gr_device *device, int32_t kind) {
  for (int32_t m = 0; m < device->num_memories; ++m)
    if (device->memories[m].desc.kind == kind) return device->memories + m;
  return NULL;
}

/* gr_device_destroy first calls hook(device), under no lock, which ends queued work of the device. There is one hook,
 * registered while the library is loaded. */
void gr_device_on_close(void (*hook)(gr_device *device));

/* Locks (1) or unlocks (0) all devices and their list: around fork. */
void gr_devices_lock(int32_t on);

/* In a child of fork, under the devices' locks: work that is queued never ends, so nothing is kept free for it. */
void gr_devices_forget_circular(void);

#endif
