/* gr_handles.h: memory of a device as another framework's storage.
 *
 * A framework that keeps a pointer for each storage gets an address that means nothing: it lies in a range that is
 * mapped without any access, as many bytes as the storage has, so that offsets of views stay inside and a read by
 * the host faults. What stands for that address is the caller's business: a table keyed by it.
 *
 * The framework drops a storage through DLPack's deleter, from any thread, with or without Python's lock, also
 * while an exception is on its way. So the deleter only notes the address; the caller collects what was dropped
 * (gr_handles_collect) when it comes by, and only then may the address be used again.
 *
 * defines: the functions of graph_runtime._core behind graph_runtime/torch/
 */
#ifndef GR_HANDLES_H
#define GR_HANDLES_H

#include "gr_core.h"

/* cdef-begin */
/* Where a DLManagedTensor of DLPack 0.x (the capsule "dltensor") on device {kDLExtDev, device} lies, which the consumer
 * of the capsule drops by its deleter: as a number, which Python needs for a capsule. code, bits: its DLDataType.
 * strides in elements, NULL: row-major. 0 on failure. */
uint64_t gr_handle_export(int32_t device, int32_t code, int32_t bits, int32_t ndim, const int64_t *shape,
                          const int64_t *strides);
uint64_t gr_handle_address(uint64_t managed);
/* Frees a capsule that was not consumed. */
void gr_handle_drop(uint64_t managed);
/* Addresses of up to `most` handles that were dropped, each told once; returns how many. */
int32_t gr_handles_collect(uint64_t *addresses, int32_t most);
int64_t gr_handles_live(void);              /* made and not yet dropped */
/* cdef-end */

#endif
