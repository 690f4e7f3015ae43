/* reshape.h: copies between tensors of different shapes, at least one of them on a device.
 *
 * Used by the copy engine only.
 * defines: gr_reshape_blocks
 */
#ifndef GR_RESHAPE_H
#define GR_RESHAPE_H

#include "image.h"

/* Writes blocks first .. last-1 of dst with the elements of src in row-major order. Both have as many
 * elements, and one format of whole bytes or two that copies convert between. Any thread; blocks may be
 * spread over threads. */
int32_t gr_reshape_blocks(const gr_image *src, const gr_image *dst, int64_t first, int64_t last);

#endif
