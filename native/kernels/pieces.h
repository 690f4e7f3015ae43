/* pieces.h: how a product with weights in panels is cut over the pool, whatever its elements are: blocks of rows by
 * panels of columns.
 *
 * Included by: panels.h, byte_panels.h. Thread: any.
 * defines: GR_PANEL, GR_AMX_ROWS, GR_AMX_FASTER, GR_BLOCK_ROWS, gr_pieces, gr_piece, gr_cut, gr_piece_at
 */
#ifndef GR_PIECES_H
#define GR_PIECES_H

#include "cpu/common.h"

#define GR_PANEL 32                    /* columns */
#define GR_AMX_ROWS 32                 /* of a block of AMX's tiles */
#define GR_AMX_FASTER 4                /* are these than vectors, at least */
#define GR_BLOCK_ROWS 14               /* at most, of vectors of any instruction set */

typedef struct gr_pieces {
  int64_t rows, n;                     /* of the product */
  int64_t block;                       /* rows that a piece has a multiple of, but for the last */
  int64_t down, across;                /* so many pieces */
} gr_pieces;

typedef struct gr_piece {
  int64_t row, row_end, panel, panel_end;
} gr_piece;

/* Two pieces a thread, but none of less than ``grain`` of the ``work``. A piece reads all of its A and B: so the longer
 * side is cut, rows rather than columns, because most layers before and after are cut so, and their rows lie in the
 * thread's cache. */
static inline gr_pieces gr_cut(int64_t rows, int64_t n, int64_t block, int64_t threads, int64_t work, int64_t grain) {
  int64_t blocks = gr_ceil_div(rows, block), panels = gr_ceil_div(n, GR_PANEL);
  int64_t wanted = threads == 1 ? 1 : gr_max(1, gr_min(2 * threads, work / grain));
  gr_pieces made = {rows, n, block, 1, 1};
  if (wanted > threads) wanted = wanted / threads * threads;
  if (n <= 2 * rows && blocks >= threads) {
    made.down = gr_min(blocks, wanted);
    made.across = gr_min(panels, wanted / made.down);
  } else {
    made.across = gr_min(panels, wanted);
    made.down = gr_min(blocks, wanted / made.across);
  }
  return made;
}

static inline gr_piece gr_piece_at(const gr_pieces *c, int64_t index) {
  int64_t i = index / c->across, j = index % c->across;
  int64_t blocks = gr_ceil_div(c->rows, c->block), panels = gr_ceil_div(c->n, GR_PANEL);
  return (gr_piece){blocks * i / c->down * c->block,
                    gr_min(c->rows, blocks * (i + 1) / c->down * c->block), panels * j / c->across,
                    panels * (j + 1) / c->across};
}

#endif
