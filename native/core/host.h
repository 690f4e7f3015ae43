/* host.h: device operations of kinds whose tensors are host pointers.
 *
 * defines: gr_host_alloc, gr_host_release, gr_host_discard
 */
#ifndef GR_HOST_H
#define GR_HOST_H

#include "device.h"

GR_PUBLIC int32_t gr_host_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder, uint64_t *addr);
GR_PUBLIC void gr_host_release(gr_device *device, int32_t memory, const gr_holding *holding);
GR_PUBLIC void gr_host_discard(uint64_t addr, uint64_t bytes);

#endif
