/* recurrent_bytes.h: the product of a cell's state by weights in panels of bytes (byte_panels.h).
 *
 * In each step each row of the state goes to a grid of its own, 127 steps to each side of 0, whose zero point is 128
 * so that bytes are unsigned. What an output is scaled by is the product of the row's scale and the column's.
 *
 * Included by: recurrent.h. Thread: any; rows of the state are of one thread at a time.
 * defines: gr_byte_state, gr_byte_state_open, gr_byte_state_product
 */
#ifndef GR_CPU_RECURRENT_BYTES_H
#define GR_CPU_RECURRENT_BYTES_H

#include "byte_panels.h"
#include "cpu/ends.h"
#include "cpu/grid.h"

typedef struct gr_byte_state {
  const uint8_t *panels;
  int64_t hidden;
  gr_requant made;                     /* of all columns of all panels */
  const int32_t *shift;
  float *scales;                       /* [rows] */
  uint8_t *bytes;                      /* [rows][hidden] */
} gr_byte_state;

/* scratch: three words of each column, a float and ``hidden`` bytes of each of all rows of the state. */
static inline void gr_byte_state_open(gr_byte_state *s, void *scratch, const gr_arg *weights, const gr_arg *scales,
                                      const gr_arg *out, int64_t hidden, int64_t rows) {
  static const int64_t no_grid[3] = {0, 0, 0}; /* results are floats */
  int64_t columns = weights->shape[0] * GR_PANEL;
  s->panels = gr_ptr(weights);
  s->hidden = hidden;
  const int32_t *sums = (const int32_t *)(s->panels + gr_bytes_units(hidden) * 4 * GR_PANEL);
  gr_bytes_prepare(&s->made, &s->shift, scratch, columns, sums, gr_bytes_panel(hidden) / 4, 128, scales, NULL, out,
                   no_grid);
  s->scales = (float *)scratch + 3 * columns;
  s->bytes = (uint8_t *)(s->scales + rows);
}

/* One row to bytes; its scale, NaN where the row has a NaN or an infinity. */
static inline float gr_byte_state_row(const float *x, int64_t n, uint8_t *bytes) {
  float low = 0, high = 0;
  gr_ends_chosen(x, n, &low, &high);
  float most = high > -low ? high : -low, scale = most / 127.0f;
  if (high != high || scale - scale != 0) scale = NAN;
  gr_grid grid = {scale > 0 ? scale : 1.0f, 128, 0};
  gr_to_grid(&grid, x, bytes, n);
  return scale;
}

/* out[i] = the i-th of ``rows`` rows from row ``first`` of the state on, by n columns from ``panel`` on, + extra[i].
 * env: NULL, or what spreads the columns. */
static inline int32_t gr_byte_state_product(const gr_byte_state *s, const gr_env *env, int64_t first, int64_t rows,
                                            const float *from, int64_t panel, int64_t n, float *out, int64_t out_row,
                                            const float *extra) {
  int64_t column = panel * GR_PANEL;
  uint8_t *bytes = s->bytes + first * s->hidden;
  float *scales = s->scales + first;
  for (int64_t i = 0; i < rows; ++i)
    scales[i] = gr_byte_state_row(from + i * s->hidden, s->hidden, bytes + i * s->hidden);
  gr_bytes g = {.rows = rows, .n = n, .k = s->hidden, .a = bytes, .a_row = s->hidden, .zero = 128,
                .b = s->panels + panel * gr_bytes_panel(s->hidden), .shift = s->shift ? s->shift + column : NULL,
                .c = out, .c_row = out_row, .made = s->made};
  g.made.offset += column;
  g.made.scale += column;
  int32_t status = GR_OK;
  if (env) status = gr_bytes_run(env, &g);
  else gr_bytes_block(&g, 0, rows, 0, gr_ceil_div(n, GR_PANEL));
  for (int64_t i = 0; i < rows; ++i) {
    float *y = out + i * out_row, scale = scales[i];
    const float *x = extra + i * out_row;
    GR_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) y[j] = y[j] * scale + x[j];
  }
  return status;
}

#endif
