/* arguments.h: what the runtime's own packed functions read of their arguments, with an error text for what is
 * not as it has to be.
 *
 * Read by sort.c, random.c, products.c, threadpool.c and caches.c.
 * defines: TVM_PARAMETERS, TVM_CALL, tvm_tensor_arg, tvm_int_arg, tvm_float_arg, tvm_string_arg, tvm_size, tvm_data, tvm_is
 */
#ifndef GR_TVM_ARGUMENTS_H
#define GR_TVM_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "packed.h"

typedef struct tvm_call {
  const char *name;
  const tvm_value *args;
  const int32_t *codes;
  int32_t count;
} tvm_call;

enum { TVM_DL_INT = 0, TVM_DL_UINT = 1, TVM_DL_FLOAT = 2, TVM_DL_BFLOAT = 4, TVM_ARRAY_HANDLE = 13 };

/* Argument i as a compact tensor of the host; NULL, with a text, where it is none. */
tvm_tensor *tvm_tensor_arg(const tvm_call *call, int32_t i);
/* 1, or 0 with a text. */
int tvm_int_arg(const tvm_call *call, int32_t i, int64_t *out);
int tvm_float_arg(const tvm_call *call, int32_t i, double *out);
int tvm_string_arg(const tvm_call *call, int32_t i, const char **out);

/* The head of a packed function that returns nothing, and what it calls its arguments. */
#define TVM_PARAMETERS                                                                                       \
  tvm_value *args, int32_t *codes, int32_t num_args, tvm_value *ret, int32_t *ret_code, void *resource
#define TVM_CALL(name_)                      \
  (void)ret, (void)ret_code, (void)resource; \
  const tvm_call call = {name_, args, codes, num_args}

static inline int64_t tvm_size(const tvm_tensor *t) {
  int64_t size = 1;
  for (int32_t d = 0; d < t->ndim; ++d) size *= t->shape[d];
  return size;
}

static inline void *tvm_data(const tvm_tensor *t) { return (char *)t->data + t->byte_offset; }

static inline int tvm_is(const tvm_tensor *t, int32_t code, int32_t bits) {
  return t->dtype_code == code && t->dtype_bits == bits && t->dtype_lanes == 1;
}

#endif
