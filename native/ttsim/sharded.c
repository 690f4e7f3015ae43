/* sharded.c: pages of sharded tensors. A tile is one unit of its shard; a row is as many units as shards stand
 * side by side, each in another core's L1.
 *
 * Called by noc.c, on any thread; nothing is locked.
 * defines: gr_tt_cut_at, gr_tt_cut_move
 */
#include <string.h>

#include "stream.h"
#include "tt.h"

uint8_t *gr_tt_cut_at(const gr_tt_cut *cut, int64_t unit) {
  const gr_shard *s = cut->shard;
  int64_t row = unit / s->across, col = unit % s->across;
  int64_t k = row / s->rows * s->split + col / s->cols;
  int64_t bank = s->first + k / s->line * s->outer + k % s->line * s->inner;
  if (bank >= cut->banks) return NULL;
  int64_t place = row % s->rows * s->cols + col % s->cols;
  return cut->base + (uint64_t)bank * cut->bank_stride + (uint64_t)place * cut->unit_stride;
}

int gr_tt_cut_move(const gr_tt_cut *cut, const gr_arg *arg, gr_pages pages, uint8_t *to, const uint8_t *from,
                   uint64_t stride) {
  uint64_t unit = (uint64_t)cut->shard->unit_bytes;
  int64_t units = (int64_t)((arg->page_bytes + unit - 1) / unit);
  for (int64_t i = 0; i < pages.count; ++i) {
    uint64_t host = (uint64_t)i * stride, end = pages.offset + pages.bytes;
    for (uint64_t at = pages.offset, n; at < end; at += n, host += n) {
      uint64_t left = unit - at % unit;
      n = left < end - at ? left : end - at;
      uint8_t *page = gr_tt_cut_at(cut, (pages.first + i) * units + (int64_t)(at / unit));
      if (!page) return 0;
      page += at % unit;
      if (to) gr_move(to + host, page, n, pages.streaming);
      else gr_move(page, from + host, n, pages.streaming);
    }
  }
  return 1;
}
