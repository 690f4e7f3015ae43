/* sharded.c: pages of sharded tensors. A tile is one unit of its shard; a row is as many units as shards stand
 * side by side, each in another core's L1.
 *
 * Called by noc.c, on any thread; nothing is locked.
 * defines: gr_tt_cut_at, gr_tt_cut_move, gr_tt_cut_count
 */
#include <string.h>

#include "stream.h"
#include "tt.h"

static int64_t bank_of(const gr_shard *s, int64_t unit) {
  if (s->table) return unit < s->listed ? s->table[2 * unit] : INT64_MAX;
  int64_t k = unit / s->across / s->rows * s->split + unit % s->across / s->cols;
  return s->first + k / s->line * s->outer + k % s->line * s->inner;
}

static void count(const gr_tt_cut *cut, int64_t unit, int32_t into, uint64_t bytes) {
  _Atomic uint64_t *counter = cut->traffic + 2 * bank_of(cut->shard, unit) + into;
  atomic_fetch_add_explicit(counter, bytes, memory_order_relaxed);
}

uint8_t *gr_tt_cut_at(const gr_tt_cut *cut, int64_t unit) {
  const gr_shard *s = cut->shard;
  int64_t row = unit / s->across, col = unit % s->across, bank = bank_of(s, unit);
  if (bank >= cut->banks) return NULL;
  int64_t place = s->table ? s->table[2 * unit + 1] : row % s->rows * s->cols + col % s->cols;
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
      int64_t which = (pages.first + i) * units + (int64_t)(at / unit);
      uint8_t *page = gr_tt_cut_at(cut, which);
      if (!page) return 0;
      count(cut, which, to == NULL, n);
      page += at % unit;
      if (to) gr_move(to + host, page, n, pages.streaming);
      else gr_move(page, from + host, n, pages.streaming);
    }
  }
  return 1;
}

void gr_tt_cut_count(const gr_tt_cut *cut, gr_pages pages, int32_t into) {
  for (int64_t i = 0; i < pages.count; ++i)
    if (gr_tt_cut_at(cut, pages.first + i)) count(cut, pages.first + i, into, pages.bytes);
}
