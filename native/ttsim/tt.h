/* tt.h: the inside of a simulated TT device: banked memories in one range of addresses each, and the
 * circular-buffer space of its cores.
 *
 * Used by native/ttsim only.
 * defines: gr_tt_device, gr_tt_bank_*, gr_tt_core_*, gr_tt_copy_*, gr_tt_locate, gr_tt_count, gr_tt_page_*, gr_tt_cut_*
 */
#ifndef GR_TT_H
#define GR_TT_H

#include "device.h"

#define GR_TT_CORE_WORDS 4    /* no board has more than 256 cores */

/* One memory: bank b's address a is at space + b * bank_stride + a. */
typedef struct gr_tt_banks {
  uint8_t *space;            /* NULL before the first allocation */
  uint64_t bank_stride;      /* bank_bytes in whole host pages, and some between */
  uint64_t mapped_begin;     /* of each bank the host has pages, or would give them, for these addresses */
  uint64_t mapped_end;
} gr_tt_banks;

/* Circular-buffer space of the core that one host thread is at a time. */
typedef struct gr_tt_arena {
  const void *thread;        /* a token: no two living threads have the same */
  uint8_t *l1;
  uint64_t bytes;
  uint64_t opened;           /* cores since the counts began; by its thread, or between two runs */
  struct gr_tt_arena *next;
} gr_tt_arena;

typedef struct gr_tt_device {
  gr_tt_banks banks[GR_MAX_MEMORIES];
  gr_tt_arena *arenas;       /* under the device's lock */
  uint64_t serial;           /* never used twice, so a thread knows a device of the same address apart */
  _Atomic uint64_t l1_floor; /* lowest L1 address that a tensor holds: circular buffers end below it */
  /* relaxed: only counts. Core c is bit c % 64 of word c / 64 % GR_TT_CORE_WORDS. */
  _Atomic uint64_t cores_used[GR_TT_CORE_WORDS], most_cb;
} gr_tt_device;

static inline gr_tt_device *gr_tt_of(const gr_device *device) { return (gr_tt_device *)device->impl; }

/* banks.c: under the device's lock. */
int32_t gr_tt_bank_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder,
                         uint64_t *addr);
void gr_tt_bank_release(gr_device *device, int32_t memory, const gr_holding *holding);
void gr_tt_bank_expose(gr_device *device, int on);
void gr_tt_bank_close(gr_device *device);

/* cores.c */
int32_t gr_tt_core_open(const gr_env *env, int64_t index, uint64_t cb_bytes, gr_core *core);
void gr_tt_core_expose(gr_device *device, int on);   /* under the device's lock */
void gr_tt_core_close(gr_device *device);
void gr_tt_core_counts(gr_device *device, int32_t reset, uint64_t *out);   /* under the device's lock */

/* sharded.c: a sharded tensor in its banks */
typedef struct gr_tt_cut {
  const gr_shard *shard;
  uint8_t *base;             /* its first unit's payload, were it in bank 0 */
  uint64_t bank_stride;
  uint64_t unit_stride;
  int32_t banks;
  _Atomic uint64_t *traffic; /* as gr_device_memory's */
} gr_tt_cut;

/* Address of a unit; NULL if its core is not the device's. */
uint8_t *gr_tt_cut_at(const gr_tt_cut *cut, int64_t unit);
/* Moves and counts parts of pages `stride` apart at host: to `to`, or where that is NULL from `from`. 0 where a page lies
 * on no core. */
int gr_tt_cut_move(const gr_tt_cut *cut, const gr_arg *arg, gr_pages pages, uint8_t *to, const uint8_t *from,
                   uint64_t stride);
/* Counts whole tiles that other code has moved. */
void gr_tt_cut_count(const gr_tt_cut *cut, gr_pages pages, int32_t into);

/* noc.c */
int32_t gr_tt_copy_in(gr_device *device, const gr_arg *arg, gr_pages pages, const uint8_t *host,
                      uint64_t stride);
int32_t gr_tt_copy_out(gr_device *device, const gr_arg *arg, gr_pages pages, uint8_t *host, uint64_t stride);
int32_t gr_tt_locate(gr_device *device, const gr_arg *arg, gr_pages pages, uint8_t **at);
void gr_tt_count(gr_device *device, const gr_arg *arg, gr_pages pages, int32_t into);
int32_t gr_tt_page_read(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first,
                        int64_t count, void *l1);
int32_t gr_tt_page_write(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first,
                         int64_t count, const void *l1);

#endif
