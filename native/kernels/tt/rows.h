/* rows.h: reading single rows of an argument. The last panel read is kept, so neighbouring rows of a tile are
 * read once.
 *
 * Included by: bodies whose output rows come from scattered input rows. Thread: one core's task.
 * defines: GR_TT_COVER, gr_tt_rows, gr_tt_rows_bytes, gr_tt_rows_at, gr_tt_run_at
 */
#ifndef GR_TT_ROWS_H
#define GR_TT_ROWS_H

#include "tt/panel.h"

#define GR_TT_COVER 512     /* columns of an argument that are in L1 at a time */

/* Up to 32 rows of columns c0 .. c0+nc-1, in L1 at data[32][width]. */
typedef struct gr_tt_rows {
  const gr_tt_view *view;
  uint32_t *data;
  int64_t width;
  gr_tt_rect held;            /* nr = 0: nothing yet */
} gr_tt_rows;

static inline uint64_t gr_tt_rows_bytes(int64_t width) { return gr_tt_bytes(32, width); }

/* Columns c0 .. c0+nc-1 (nc <= width) of a row, counted over all planes. The pointer holds until the next
 * call. */
static inline int32_t gr_tt_rows_at(const gr_tt_core *c, gr_tt_rows *rows, int64_t row, int64_t c0,
                                    int64_t nc, const uint32_t **out) {
  const gr_tt_view *v = rows->view;
  gr_tt_rect *held = &rows->held;
  int64_t plane = row / v->rows, r = row % v->rows;
  int same_rows = held->plane == plane && r >= held->r0 && r < held->r0 + held->nr;
  if (!same_rows || held->c0 != c0 || held->nc != nc) {
    /* a row-major row is a page of its own: reading its neighbours would gain nothing */
    int64_t height = v->arg->layout == GR_TILE ? 32 : 1, r0 = r / height * height;
    *held = (gr_tt_rect){plane, r0, gr_tt_lesser(height, v->rows - r0), c0, nc};
    GR_TT_TRY(gr_tt_load(c, v, *held, rows->data, rows->width));
  }
  *out = rows->data + (r - held->r0) * rows->width;
  return GR_OK;
}

/* Elements of an argument whose width is GR_TT_COVER, from the `at`-th on in numpy's order: *n of them, which end
 * where a row or a cover does. */
static inline int32_t gr_tt_run_at(const gr_tt_core *c, gr_tt_rows *rows, int64_t at, const uint32_t **out,
                                   int64_t *n) {
  int64_t cols = rows->view->cols, col = at % cols, c0 = col / GR_TT_COVER * GR_TT_COVER;
  int64_t nc = gr_tt_lesser(GR_TT_COVER, cols - c0);
  const uint32_t *row;
  GR_TT_TRY(gr_tt_rows_at(c, rows, at / cols, c0, nc, &row));
  *out = row + col - c0;
  *n = c0 + nc - col;
  return GR_OK;
}

#endif
