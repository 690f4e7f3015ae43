/* packed.c: calls functions of TVM's packed ABI (`int f(TVMValue *, int *, int, TVMValue *, int *, void
 * *)`) as kernels, with arguments that were made once.
 *
 * Called by the executor.
 * defines: gr_packed_kernel_fn
 */
#include "gr_core.h"
#include "status.h"
#include "tvm_abi.h"

static int32_t packed_kernel(const gr_call *call) {
  const gr_packed_call *packed = (const gr_packed_call *)call->attrs;
  tvm_value ret = {0};
  int32_t ret_code = TVM_NULL;
  tvm_packed_fn fn = (tvm_packed_fn)packed->fn;
  int32_t status = fn(packed->values, packed->codes, packed->nargs, &ret, &ret_code, NULL);
  if (!status) return GR_OK;
  if (*gr_error_text()) return GR_ERR_KERNEL;
  return gr_fail(GR_ERR_KERNEL, "the packed function returned %d", status);
}

gr_kernel_fn gr_packed_kernel_fn(void) { return packed_kernel; }
