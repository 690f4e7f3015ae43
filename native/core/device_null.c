/* device_null.c: a host whose kernels do nothing (gr_null_kernel_fn), to measure the runtime's own overhead. Refused in
 * files.
 *
 * defines: the device kind "null"
 */
#include "host.h"

static const gr_device_ops null_ops = {.kind = "null", .alloc = gr_host_alloc, .release = gr_host_release};

GR_REGISTER_DEVICE(null_ops)
