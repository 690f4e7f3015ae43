/* gr_abi.h: the contract between the executor and a kernel.
 *
 * Included by: native/core (the executor), native/kernels (the bodies), every generated module library, and
 * gr_kernel.h, for kernels of others. C11, and C++11 or later. Change policy, as dlpack's: a change of any
 * layout below raises GR_ABI_VERSION; a library built for another version is refused when it is loaded, both
 * numbers in the text. New enum values and new trailing gr_env slots keep the version (gr_env.size tells
 * which slots are there).
 *
 * defines: GR_STATIC_ASSERT, gr_format, gr_layout, gr_memory, gr_status, gr_arg, gr_call, gr_core, gr_env,
 * gr_task, gr_kernel_fn
 */
#ifndef GR_ABI_H
#define GR_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define GR_STATIC_ASSERT static_assert
#else
#define GR_STATIC_ASSERT _Static_assert
#endif

/* cdef-begin */
#define GR_ABI_VERSION 1

/* How one element is stored. Logical dtypes are the values below GR_BFP8_B; a tt tensor may store a
 * logical float32 as GR_F32, GR_BF16 or a block float. */
enum gr_format {
  GR_F32 = 0,
  GR_F64 = 1,
  GR_F16 = 2,
  GR_BF16 = 3,
  GR_I8 = 4,
  GR_I16 = 5,
  GR_I32 = 6,
  GR_I64 = 7,
  GR_U8 = 8,
  GR_U16 = 9,
  GR_U32 = 10,
  GR_U64 = 11,
  GR_BOOL = 12,    /* one byte, 0 or 1 */
  GR_BFP8_B = 32,  /* 16 elements share an 8-bit exponent; sign + 7 bits each; tile layout only */
  GR_BFP4_B = 33,  /* the same with sign + 3 bits */
  GR_BFP2_B = 34,  /* the same with sign + 1 bit */
  GR_OPAQUE = 255  /* a dtype that no built-in kernel computes with; copied as bytes */
};

enum gr_layout {
  GR_ROW_MAJOR = 0, /* page = one row of the last dimension (cpu: the whole tensor is one page) */
  GR_TILE = 1       /* page = one 32x32 tile of four 16x16 faces; the last two dimensions are padded to 32 */
};

/* The meaning of an address; the index into the memories of a device's descriptor is another number. */
enum gr_memory {
  GR_HOST = 0,      /* addr is a pointer */
  GR_DRAM = 1,      /* addr is a bank address, pages interleaved over the device's DRAM banks, or sharded */
  GR_L1 = 2         /* addr is a bank address, pages interleaved over the cores' L1, or sharded */
};

enum gr_status {
  GR_OK = 0,
  GR_ERR_KERNEL = 1,      /* a kernel failed; gr_last_error has its text */
  GR_ERR_ARGUMENT = 2,    /* the caller passed an invalid argument */
  GR_ERR_OUT_OF_MEMORY = 3,
  GR_ERR_BUSY = 4,        /* another thread is running this program */
  GR_ERR_BOUNDS = 5,      /* a page outside of its tensor or bank */
  GR_INTERRUPTED = 6,     /* the time budget is used up; call again from *stopped_at */
  GR_ERR_CANCELLED = 7,   /* the caller cancelled it before it began */
  GR_ERR_REFUSED = 8      /* as GR_ERR_KERNEL, and the kernel has written to no output */
};

typedef struct gr_env gr_env;

typedef struct gr_arg {
  uint64_t addr;          /* host pointer (GR_HOST) or bank address (GR_DRAM, GR_L1); upper 16 bits of a bank
                           * address, if any, number the way in which the tensor is sharded: the device's affair */
  const int64_t *shape;   /* [ndim] logical shape */
  int32_t ndim;
  uint8_t dtype;          /* gr_format below GR_BFP8_B: what the values mean */
  uint8_t format;         /* gr_format: how they are stored; equal to dtype on cpu */
  uint8_t layout;         /* gr_layout */
  uint8_t memory;         /* gr_memory */
  uint32_t page_bytes;    /* payload bytes of one page; 0 on cpu, but the bytes of one element of a GR_OPAQUE tensor */
  uint32_t num_pages;     /* 0 on cpu */
} gr_arg;

typedef struct gr_call {
  uint32_t abi;           /* GR_ABI_VERSION */
  int32_t nargs;
  const gr_arg *args;     /* [nargs] the inputs, then the outputs */
  const int64_t *attrs;   /* the op's attribute words, in the order its registry entry packs them */
  void *scratch;          /* host bytes, 64-byte aligned, as many as the manifest asked for; NULL if none */
  const gr_env *env;
} gr_call;

typedef int32_t (*gr_kernel_fn)(const gr_call *call);
typedef int32_t (*gr_task)(void *ctx, int64_t index);

/* One simulated Tensix core for the time of one task. */
typedef struct gr_core {
  int32_t index;
  uint8_t *l1;            /* [l1_bytes] circular-buffer space, 64-byte aligned; contents are undefined at open */
  uint64_t l1_bytes;
} gr_core;

struct gr_env {
  uint32_t abi;
  uint32_t size;          /* sizeof(gr_env) of the executor */
  int32_t num_cores;      /* tt: cores of the grid; cpu: threads that parallel_for may use */
  int32_t reserved;
  void *impl;             /* the executor's own */
  /* Runs task(ctx, 0 .. n-1) over the intra-op pool, the caller taking part; returns the first non-zero
   * result. Calls from inside a task run inline. */
  int32_t (*parallel_for)(const gr_env *env, int64_t n, gr_task task, void *ctx);
  /* Records message as this thread's error text and returns GR_ERR_KERNEL. */
  int32_t (*set_error)(const gr_env *env, const char *message);
  /* tt only (NULL elsewhere). core_open: circular-buffer space of one core for this task. */
  int32_t (*core_open)(const gr_env *env, int64_t index, uint64_t cb_bytes, gr_core *core);
  /* Move count whole pages, first .. first+count-1 of arg, between device memory and l1, packed at
   * page_bytes apart. GR_ERR_BOUNDS where a page is not the tensor's or l1 .. is not inside core->l1. */
  int32_t (*page_read)(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first,
                       int64_t count, void *l1);
  int32_t (*page_write)(const gr_env *env, const gr_core *core, const gr_arg *arg, int64_t first,
                        int64_t count, const void *l1);
};
/* cdef-end */

GR_STATIC_ASSERT(sizeof(gr_arg) == 32, "gr_arg is shared with graph_runtime/binding/programs/program.py");
GR_STATIC_ASSERT(sizeof(gr_call) == 40, "gr_call is shared with graph_runtime/binding/programs/program.py");

#ifdef __cplusplus
}
#endif

#endif
