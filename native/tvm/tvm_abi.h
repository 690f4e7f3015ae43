/* tvm_abi.h: the binary interface of operator libraries that TVM 0.5 to 0.20 compiled, as far as running
 * them needs it. Written from the layout of the data, not from TVM's headers; the sizes are checked below.
 *
 * Included by: native/tvm (the services a library calls, the loader, calls of packed functions).
 * defines: tvm_tensor, tvm_value, tvm_type_code, tvm_packed_fn, tvm_parallel_lambda, tvm_parallel_env
 */
#ifndef GR_TVM_ABI_H
#define GR_TVM_ABI_H

#include <stdint.h>

enum tvm_type_code {
  TVM_INT = 0,
  TVM_FLOAT = 2,
  TVM_HANDLE = 3,
  TVM_NULL = 4,
  TVM_DTYPE = 5,
  TVM_DEVICE = 6,
  TVM_TENSOR = 7,     /* DLTensor * */
  TVM_STRING = 11
};

typedef struct tvm_tensor {   /* DLTensor */
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  int64_t *shape;             /* [ndim] */
  int64_t *strides;           /* [ndim] in elements; NULL: compact */
  uint64_t byte_offset;
} tvm_tensor;

typedef union tvm_value {
  int64_t i;
  double f;
  void *handle;
  const char *string;
} tvm_value;

/* Releases before 0.7 used the first three or five of these; in the calling conventions of x86-64 and
 * AArch64 the further register arguments do no harm, so all six are always passed. */
typedef int32_t (*tvm_packed_fn)(tvm_value *args, int32_t *codes, int32_t num_args, tvm_value *ret, int32_t *ret_code,
                                 void *resource);

typedef struct tvm_parallel_env {
  void *sync_handle;
  int32_t num_task;
} tvm_parallel_env;

typedef int32_t (*tvm_parallel_lambda)(int32_t task, tvm_parallel_env *env, void *cdata);

_Static_assert(sizeof(tvm_tensor) == 48, "DLTensor");
_Static_assert(sizeof(tvm_value) == 8, "TVMValue");
_Static_assert(sizeof(tvm_parallel_env) == 16, "TVMParallelGroupEnv");

#endif
