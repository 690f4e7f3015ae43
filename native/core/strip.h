/* strip.h: whole tiles side by side, moved between host rows and a device's pages with nothing between.
 *
 * Used by the copy engine only.
 * defines: gr_strip_can, gr_strip_tilize, gr_strip_untilize
 */
#ifndef GR_STRIP_H
#define GR_STRIP_H

#include "image.h"

/* Whether these are host rows and device tiles of one format with whole bytes, or of f32 and bf16. */
int gr_strip_can(const gr_image *rows, const gr_image *tiles);
/* Moves blocks from first on, before last and in first's tile row; *moved says how many: 0 where block first
 * is not wholly tensor, which other code is to move. */
int32_t gr_strip_tilize(const gr_image *rows, const gr_image *tiles, int64_t first, int64_t last,
                        int32_t *moved);
int32_t gr_strip_untilize(const gr_image *tiles, const gr_image *rows, int64_t first, int64_t last,
                          int32_t *moved);

#endif
