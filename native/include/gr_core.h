/* gr_core.h: what graph_runtime/binding/core.py calls. Opaque handles, create/destroy pairs, a gr_status returned,
 * out-parameters last, gr_last_error() per thread. Nothing here exits, aborts or prints.
 *
 * defines: the public functions of graph_runtime._core
 */
#ifndef GR_CORE_H
#define GR_CORE_H

#include "gr_program.h"

/* cdef-begin */
typedef struct gr_device gr_device;
typedef struct gr_program gr_program;

/* ---------------------------------------------------------------- errors and version */
int32_t gr_abi_version(void);
const char *gr_last_error(void);            /* this thread's text; valid until its next failing call */

/* ---------------------------------------------------------------- intra-op pool, one a process */
int32_t gr_pool_set_threads(int32_t n);     /* n >= 1, the caller counted */
int32_t gr_pool_threads(void);
/* Worker w (from 1; the caller is 0) stays on cores[w % n]; n = 0: the system places it. */
int32_t gr_pool_set_cores(int32_t n, const int32_t *cores);
/* Products that AMX's tiles make in this process: 1 of bf16, 2 of bytes, 3 both; 0 none. Asks the system for them. */
int32_t gr_host_amx(void);

/* ---------------------------------------------------------------- devices */
typedef struct gr_memory_desc {
  int32_t kind;          /* gr_memory */
  int32_t banks;
  uint64_t bank_bytes;   /* capacity of one bank, reserved part included */
  uint64_t base;         /* first usable address in each bank */
  uint32_t alignment;    /* of a page and of an allocation */
  int32_t top_down;      /* 1: allocations grow from the end of the bank (tt-metal's L1) */
  uint32_t tile_header;  /* bytes before each tile in a bank (Buda: 16), within its alignment */
} gr_memory_desc;

/* The cut of a tensor over banks. Its units, row by row, are tiles, or the parts of rows that shards have. Unit u is in
 * row u / across and column u % across; shard (i, j) = (row / rows, column / cols) is number k = i * split + j and lies
 * in bank first + k / line * outer + k % line * inner, its units row by row. */
typedef struct gr_shard {
  int64_t across;        /* units of a row of the tensor */
  int64_t rows, cols;    /* units of a shard, down and across */
  int64_t unit_bytes;    /* payload; a row of the tensor is one page of `across` units, a tile one of one unit */
  int64_t split;
  int64_t first, line, outer, inner;
  /* A cut that is none of these has a table instead: (bank, place in the bank) of each of `listed` units, in memory
   * that stays until the device is destroyed; a bank has room for `slots` units. NULL, 0, 0 for all others. */
  const uint32_t *table;
  int64_t listed, slots;
} gr_shard;

/* Loads the kind of another package from a shared object that registers it; does nothing if it is registered. */
int32_t gr_device_load(const char *kind, const char *path);
int32_t gr_device_create(const char *kind, const char *name, int32_t num_cores, const gr_memory_desc *memories,
                         int32_t num_memories, gr_device **out);
void gr_device_destroy(gr_device *device);
const gr_env *gr_device_env(const gr_device *device);
/* extent = bytes per bank; the same address is taken in every bank. holder is the name in
 * out-of-memory texts. */
int32_t gr_device_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder, uint64_t *addr);
int32_t gr_device_free(gr_device *device, int32_t memory, uint64_t addr);
/* Drops the contents of these bytes of an allocation: whole pages of host memory among them go back to the system until
 * they are written again. The allocation stays as it is. */
int32_t gr_device_discard(gr_device *device, int32_t memory, uint64_t addr, uint64_t bytes);
/* out[0] bytes allocated per bank, [1] free per bank, [2] largest free block per bank, [3] allocations,
 * [4] bytes copied in, [5] bytes copied out, [6] pages read, [7] pages written */
int32_t gr_device_stats(const gr_device *device, int32_t memory, uint64_t *out);
/* Cores of a device that kernels used since it was made or last reset (reset = 1: from now on). out[0] cores opened,
 * [1] different cores among them, [2] most bytes of circular buffers on one, [3] host threads that were cores. All 0
 * where a device has no cores of its own. Between two runs. */
int32_t gr_device_cores(gr_device *device, int32_t reset, uint64_t *out);
/* out[2 * b] bytes out of bank b, [2 * b + 1] into it, by copies and by kernels' page transfers; payload only */
int32_t gr_device_traffic(const gr_device *device, int32_t memory, uint64_t *out);
/* Keeps `bytes` from the base of a device's L1 on free of tensors until gr_circular_drop, for circular buffers; where
 * tensors are there already GR_ERR_OUT_OF_MEMORY, which names them. holder names the user of that room. Nothing happens
 * on a device without L1. */
int32_t gr_circular_hold(gr_device *device, uint64_t bytes, const char *holder);
void gr_circular_drop(gr_device *device, uint64_t bytes);
/* out[0] bytes that are kept free of tensors now, [1] the most that were so far, [2] holds that ended. */
void gr_circular_stats(gr_device *device, int32_t memory, uint64_t *out);
/* *tag: the bits above the bank address in the address of a tensor cut so: addr | tag. */
int32_t gr_device_shard(gr_device *device, const gr_shard *shard, uint64_t *tag);
/* on = 1: the device's memory is PROT_NONE but while a kernel or copy of this device runs, fresh memory is
 * NaN-filled. */
int32_t gr_device_set_guard(gr_device *device, int32_t on);

/* ---------------------------------------------------------------- copies */
/* Same logical dtype and shape: converts device, layout and format. Both cpu with equal bytes:
 * reinterprets. */
int32_t gr_copy(const gr_env *src_env, const gr_arg *src, const gr_env *dst_env, const gr_arg *dst);
int32_t gr_copy_kernel(const gr_call *call);      /* args: source, destination; attrs: a gr_copy_envs */
gr_kernel_fn gr_copy_kernel_fn(void);
/* Kinds of copies; one between two places of host memory is none of these. */
enum gr_movement {
  GR_MOVE_H2D = 0,
  GR_MOVE_D2H = 1,
  GR_MOVE_D2D = 2,         /* from a device to another, counted there */
  GR_MOVE_CONVERSION = 3,  /* on one device, to another memory, layout, format, cut or shape */
  GR_MOVE_COPY = 4,        /* on one device, and nothing changes */
  GR_MOVEMENTS = 5
};
/* Movements since the process began, by the name of the device: copies, and bytes of their values. Copies of a
 * submission count when it is queued, all others when they are done. */
typedef struct gr_moved_counts {
  char device[32];
  uint64_t count[5], bytes[5];   /* by gr_movement */
} gr_moved_counts;
/* Writes up to `most` devices; returns how many there are. */
int32_t gr_moved_read(gr_moved_counts *out, int32_t most);

/* ---------------------------------------------------------------- mapped files */
/* A fault (SIGBUS) in `size` bytes from address `begin` on, which show a file, is explained on stderr before the
 * process ends; the handler that was there before is called then. `texts` has `length` bytes: the file's name and
 * those of `count` parts, each but the last with a 0 behind it; `spans` [count][2] first byte of each and the first
 * behind, from `begin`. A mapping that is known is described anew. Nothing happens where there is no memory. */
void gr_mapped_watch(uint64_t begin, uint64_t size, const char *texts, uint64_t length, const uint64_t *spans,
                     int32_t count);
void gr_mapped_forget(uint64_t begin);

/* ---------------------------------------------------------------- kernels built into the wheel */
int32_t gr_generic_count(void);
const char *gr_generic_name(int32_t i);           /* "cpu/softmax/f32", "tt/softmax" */
gr_kernel_fn gr_generic_fn(int32_t i);            /* in the form that is fastest on this machine */
gr_kernel_fn gr_generic_plain_fn(int32_t i);      /* in the one for any machine */
gr_kernel_fn gr_packed_kernel_fn(void);           /* calls a TVM packed function; see gr_packed_call */
gr_kernel_fn gr_null_kernel_fn(void);                /* does nothing: every op of a null device */

/* ---------------------------------------------------------------- what the machine can do at its best */
/* All threads of the pool at work; the caller has the clock. */
typedef enum gr_peak_kind { GR_PEAK_FLOATS, GR_PEAK_PAIRS_OF_BF16, GR_PEAK_BYTES } gr_peak_kind;
/* Products and sums in registers by the instructions that kernels of that kind use, ``rounds`` times some in each
 * thread. Returns how many operations they were, a multiply-add as two. */
double gr_peak_products(int32_t kind, int64_t rounds);
/* Copies bytes, or where ``to`` is NULL reads them, which are all 0 then, ``times`` times. */
int32_t gr_peak_moves(void *to, const void *from, int64_t bytes, int64_t times);

/* ---------------------------------------------------------------- packing */
typedef enum gr_pack_result { GR_PACK_FITS = 32, GR_PACK_IMPOSSIBLE, GR_PACK_UNKNOWN } gr_pack_result;
/* Buffers, and groups of them of which no two may share a byte: those that live at one time, say. */
typedef struct gr_pack_problem {
  int64_t count;             /* buffers; beyond 2048 the result is GR_PACK_UNKNOWN */
  const int64_t *size;       /* [count] bytes, 1 to 2^50; all offsets are sums of sizes */
  const int64_t *width;      /* [count] how long each lives: one of the sort keys of orders */
  int64_t groups;            /* at most 4096 */
  const int64_t *group_ptr;  /* [groups + 1] into member */
  const int32_t *member;     /* buffers, each once in a group and in one at least */
  int64_t capacity;
  int64_t max_nodes;         /* placements to try; the result depends on it, but not on the number of threads */
  int64_t budget_ns;         /* a guard: beyond it the result is GR_PACK_UNKNOWN */
  const int32_t *stop;       /* 0, until another thread calls gr_pack_stop to have GR_PACK_UNKNOWN soon; or NULL */
  int32_t threads;           /* 1 or 2 */
} gr_pack_problem;
/* Offsets [count] at which no two buffers of a group share a byte, and all end at the capacity or below. *result:
 * written are offsets (FITS), there are none (IMPOSSIBLE), or neither was found out (UNKNOWN). */
int32_t gr_pack(const gr_pack_problem *problem, int64_t *offset, int32_t *result);
void gr_pack_stop(int32_t *stop);

/* ---------------------------------------------------------------- programs */
int32_t gr_program_create(const gr_instr *instrs, int64_t count, gr_program **out);
void gr_program_destroy(gr_program *program);
/* A span to run, and where it stopped. One argument, because each costs a caller in Python more than a node. */
typedef struct gr_span {
  int64_t first, last;   /* instructions first .. last-1 */
  int64_t budget_ns;     /* 0: run on to the end */
  int64_t stopped_at;    /* written by gr_program_run */
} gr_span;
/* Instructions before `last` open up to `bytes` of circular buffers on each core of a device: runs of them keep so
 * much of its L1 free of tensors, in the name of `holder`. Before the first run. */
int32_t gr_program_circular(gr_program *program, gr_device *device, uint64_t bytes, int64_t last,
                            const char *holder);
/* out[i]: the most bytes of circular buffers that instruction i opens on one of cores[i] cores, as its kernel says
 * in a dry call, which touches no data; 0 where cores[i] is 0. */
void gr_circular_needs(const gr_instr *instrs, int64_t count, const int32_t *cores, uint64_t *out);
/* Runs a span. GR_INTERRUPTED after about budget_ns, with stopped_at the next to run: the program is then this
 * thread's until it has run on to the end or gr_program_release. On another failure stopped_at is the instruction
 * that failed; with GR_ERR_OUT_OF_MEMORY -1 where nothing was run, because circular buffers have no room. GR_ERR_BUSY, and nothing written, where the program is another thread's. */
int32_t gr_program_run(gr_program *program, gr_span *span);
/* Keeps other threads out until gr_program_release, also between runs; GR_ERR_BUSY where one is in. */
int32_t gr_program_hold(gr_program *program);
/* Undoes gr_program_hold and GR_INTERRUPTED; nothing happens where the program is not this thread's. */
void gr_program_release(gr_program *program);

/* ---------------------------------------------------------------- libraries of kernels */
int32_t gr_library_open(const char *path, void **handle);
void *gr_library_symbol(void *handle, const char *name);
void gr_library_close(void *handle);
/* Opens the OpenBLAS at path for the kernels of native/kernels/cpu/sgemm.h, once a process; prefix: the beginning of
 * its symbols. GR_ERR_ARGUMENT where it cannot be opened or is none. */
int32_t gr_blas_open(const char *path, const char *prefix);
/* cdef-end */

#endif
