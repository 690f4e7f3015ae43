/* packed.c: functions of TVM's packed ABI (`int f(TVMValue *, int *, int, TVMValue *, int *, void *)`) as
 * kernels.
 *
 * Called by the executor.
 * defines: gr_packed_kernel, gr_packed_kernel_fn
 */
#include "packed.h"

int32_t gr_packed_kernel(const gr_call *call) { return gr_packed_call_run(call); }

gr_kernel_fn gr_packed_kernel_fn(void) { return gr_packed_kernel; }
