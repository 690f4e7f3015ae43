/* packed.c: calls functions of TVM's packed ABI (`int f(TVMValue *, int *, int, TVMValue *, int *, void *)`) as kernels, with
 * arguments that were made once.
 *
 * Called by the executor.
 * defines: gr_packed_kernel_fn
 */
#include "gr_core.h"
#include "status.h"

#define TVM_NULLPTR 4     /* kTVMNullptr: type code of "no value returned" */

typedef int (*packed_fn)(void *values, int *codes, int nargs, void *ret_value, int *ret_code, void *resource);

static int32_t packed_kernel(const gr_call *call) {
  const gr_packed_call *packed = (const gr_packed_call *)call->attrs;
  int64_t ret_value = 0;       /* a TVMValue is 8 bytes */
  int ret_code = TVM_NULLPTR;
  packed_fn fn = (packed_fn)packed->fn;
  int status = fn(packed->values, packed->codes, packed->nargs, &ret_value, &ret_code, NULL);
  if (!status) return GR_OK;
  if (*gr_error_text()) return GR_ERR_KERNEL;
  return gr_fail(GR_ERR_KERNEL, "the packed function returned %d", status);
}

gr_kernel_fn gr_packed_kernel_fn(void) { return packed_kernel; }
