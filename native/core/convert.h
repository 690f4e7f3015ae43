/* convert.h: the copy engine's conversions between layouts and formats of one shape.
 *
 * Used by the copy engine only.
 * defines: gr_convert_block, gr_retile_block, gr_convert_rows, gr_encode_row, gr_decode_row
 */
#ifndef GR_CONVERT_H
#define GR_CONVERT_H

#include "image.h"

/* Block index between any two layouts and float formats. */
int32_t gr_convert_block(const gr_image *src, const gr_image *dst, int64_t index);
/* Block index between tiles and rows of one format. */
int32_t gr_retile_block(const gr_image *src, const gr_image *dst, int64_t index);
/* Rows first .. last - 1 of row-major images, one in f32 and one in bf16. */
int32_t gr_convert_rows(const gr_image *src, const gr_image *dst, int64_t first, int64_t last);

/* count f32 to bf16, and back; bytes stand at any address. */
void gr_encode_row(const uint8_t *in, int64_t count, uint16_t *out);
void gr_decode_row(const uint8_t *in, int64_t count, uint8_t *out);

#endif
