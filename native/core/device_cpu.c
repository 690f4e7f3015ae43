/* device_cpu.c: the host itself: kernels get pointers, parallel_for is the pool.
 *
 * defines: the device kind "cpu"
 */
#include "host.h"

static const gr_device_ops cpu_ops = {.kind = "cpu",
                                      .alloc = gr_host_alloc,
                                      .release = gr_host_release,
                                      .discard = gr_host_discard};

GR_REGISTER_DEVICE(cpu_ops)
