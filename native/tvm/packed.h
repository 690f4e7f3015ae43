/* packed.h: the call of a function of TVM's packed ABI with arguments that were made once. Inline, so that
 * the executor spends no second indirect call on it.
 *
 * Read by packed.c and the executor.
 * defines: gr_packed_call_run, gr_packed_kernel
 */
#ifndef GR_PACKED_H
#define GR_PACKED_H

#include "gr_core.h"
#include "status.h"
#include "tvm_abi.h"

int32_t gr_packed_kernel(const gr_call *call);

static inline int32_t gr_packed_call_run(const gr_call *call) {
  const gr_packed_call *packed = (const gr_packed_call *)call->attrs;
  tvm_value ret;
  int32_t ret_code = TVM_NULL;
  tvm_packed_fn fn = (tvm_packed_fn)packed->fn;
  int32_t status = fn(packed->values, packed->codes, packed->nargs, &ret, &ret_code, NULL);
  if (__builtin_expect(!status, 1)) return GR_OK;
  if (*gr_error_text()) return GR_ERR_KERNEL;
  return gr_fail(GR_ERR_KERNEL, "the packed function returned %d", status);
}

#endif
