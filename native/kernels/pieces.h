/* pieces.h: how a product with weights in panels is cut over the pool, whatever its elements are: blocks of rows by
 * panels of columns.
 *
 * Included by: panels.h, byte_panels.h. Thread: any.
 * defines: GR_PANEL, GR_AMX_ROWS, GR_AMX_FASTER, GR_BLOCK_ROWS, GR_SHARED_ROWS, gr_pieces, gr_piece, gr_cut, gr_piece_at
 */
#ifndef GR_PIECES_H
#define GR_PIECES_H

#include "cpu/common.h"

#define GR_PANEL 32                    /* columns */
#define GR_AMX_ROWS 32                 /* of a block of AMX's tiles */
#define GR_AMX_FASTER 4                /* are these than vectors, at least */
#define GR_BLOCK_ROWS 14               /* at most, of vectors of any instruction set */

#define GR_SHARED_ROWS 48              /* of a thread, for which B is brought from memory while the rows before are made */

typedef struct gr_pieces {
  int64_t rows, n;                     /* of the product */
  int64_t block;                       /* rows that a piece has a multiple of, but for the last */
  int64_t down, across;                /* so many pieces */
} gr_pieces;

typedef struct gr_piece {
  int64_t row, row_end, panel, panel_end;
} gr_piece;

/* Two pieces a thread, but none of less than ``grain`` of the ``work``. Each thread has rows of its own, as long as that
 * leaves it ``fewest``: then it reads all of B, but makes what it reads itself in the nodes that follow. Rows that two
 * threads read and one writes again later cost more than weights: the writer waits until each of their lines is taken
 * from the other, which takes 30 ns a line where they have no cache in common. Of less rows the columns are cut. */
static inline gr_pieces gr_cut(int64_t rows, int64_t n, int64_t block, int64_t threads, int64_t work, int64_t grain,
                               int64_t fewest) {
  int64_t blocks = gr_ceil_div(rows, block), panels = gr_ceil_div(n, GR_PANEL);
  int64_t wanted = threads == 1 ? 1 : gr_max(1, gr_min(2 * threads, work / grain));
  gr_pieces made = {rows, n, block, 1, 1};
  if (wanted > threads) wanted = wanted / threads * threads;
  for (int64_t down = 2; down <= gr_min(threads, wanted); ++down)
    if (wanted % down == 0 && down * fewest <= rows) made.down = down;
  if (made.down == threads && rows >= n * threads) made.down = gr_min(blocks, wanted);
  made.across = gr_min(panels, wanted / made.down);
  if (made.down == 1) made.down = gr_min(blocks, wanted / made.across);
  if (rows < made.down * block * 16) made.block = 1;      /* else what is more than even is little */
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
