/* byte_panels_amx.h: byte_panels.h where the machine has AMX (isa/amx.h); included by byte_panels.h only.
 *
 * A block is 32 rows by 32 columns, four tiles of sums over all of k, two of A and two of B: a step of 64 bytes of k is
 * four loads and four products. A is gathered row by row, zeros behind k, for some rows, a turn: few where all panels
 * stay in the second cache, so that A stays in the nearest, else as many as GR_AMX_BYTES_A holds.
 *
 * defines: gr_bytes_block_amx
 */
#include "isa/amx_block.h"

#define GR_AMX_TURN 512                /* rows of a turn, at most */
#define GR_AMX_NEAR 24576              /* bytes of A and C of a short turn: half of the nearest cache */
#define GR_AMX_AHEAD 16384             /* bytes that B is asked for before its use */

typedef struct gr_amx_bytes {
  int64_t row, row_end;
  int64_t line;                        /* bytes from row to row of A */
  uint8_t *a;                          /* whole tiles of rows */
  int32_t sums[GR_AMX_TURN];           /* of each row of A, where columns are shifted */
} gr_amx_bytes;

static __attribute__((noinline)) GR_ISA_TARGET void gr_amx_gather_bytes(const gr_bytes *p, gr_amx_bytes *t) {
  const int64_t k = p->k, padded = gr_ceil_div(k, 64) * 64, rows = t->row_end - t->row;
  const uint8_t flip = p->flip;
  const int shifted = p->shift != NULL;
  (p->gather ? p->gather : gr_gather_bytes)(p, t->row, rows, 0, k, t->a, t->line);
  for (int64_t i = 0; i < rows; ++i) {
    uint8_t *line = t->a + i * t->line;
    uint32_t sum = 0;
    if (flip)
      for (int64_t j = 0; j < k; ++j) line[j] ^= flip;
    memset(line + k, 0, (size_t)(padded - k));
    if (shifted)
      for (int64_t j = 0; j < k; ++j) sum += line[j];
    t->sums[i] = (int32_t)sum;
  }
}

/* All rows of a turn times one panel. */
static __attribute__((noinline)) GR_ISA_TARGET void gr_amx_bytes_column(const gr_bytes *p, const gr_amx_bytes *t,
                                                                        int64_t panel) {
  _Alignas(64) int32_t sums[GR_AMX_ROWS * GR_PANEL];
  _Alignas(64) uint8_t rest[GR_AMX_STEP];
  int64_t column = panel * GR_PANEL, columns = gr_min(GR_PANEL, p->n - column), steps = p->k / 64;
  int64_t size = p->made.dtype == GR_F32 || p->made.dtype == GR_I32 ? 4 : 1;
  const uint8_t *b = p->b + panel * gr_bytes_panel(p->k), *a = t->a, *tail = p->k % 64 ? rest : NULL;
  if (tail) {
    int64_t bytes = gr_bytes_units(p->k % 64) * 4 * GR_PANEL;
    memcpy(rest, b + steps * GR_AMX_STEP, (size_t)bytes);
    memset(rest + bytes, 0, (size_t)(GR_AMX_STEP - bytes));
  }
  for (int64_t row = t->row; row < t->row_end; row += GR_AMX_ROWS, a += GR_AMX_ROWS * t->line) {
    int64_t rows = gr_min(GR_AMX_ROWS, t->row_end - row);
    int ask = row == t->row;
    gr_amx_steps all = {a, t->line, 64, 16 * t->line, b, tail, steps, ask ? GR_AMX_AHEAD : 0};
    gr_amx_block(&all, sums, rows, columns, 1);
    for (int64_t v = 0; v < columns; v += GR_ISA_LANES)
      GR_ISA(gr_bytes_store)(&p->made, p->shift, t->sums + (row - t->row), sums + v, GR_PANEL, rows, column + v,
                             columns - v, (uint8_t *)p->c + (row * p->c_row + column + v) * size, p->c_row * size);
  }
}

static __attribute__((noinline)) GR_ISA_TARGET void gr_bytes_block_amx(const gr_bytes *p, int64_t row, int64_t row_end,
                                                                       int64_t panel, int64_t panel_end) {
  _Alignas(64) uint8_t a[GR_AMX_BYTES_A];
  int64_t tiles = gr_ceil_div(p->k, 64), column = panel * GR_PANEL;
  int64_t columns = gr_min(p->n, panel_end * GR_PANEL) - column, all = (panel_end - panel) * gr_bytes_panel(p->k);
  gr_amx_bytes t = {.line = 64 * (tiles | 1), .a = a};     /* odd: rows lie in different sets of the cache */
  int64_t most = gr_min(GR_AMX_TURN, GR_AMX_BYTES_A / t.line / GR_AMX_ROWS * GR_AMX_ROWS);
  int64_t turn = all <= 2 * GR_BYTES_CACHED ? GR_AMX_NEAR / (t.line + columns) : row_end - row;
  turn = gr_min(most, gr_max(1, turn / GR_AMX_ROWS) * GR_AMX_ROWS);
  gr_amx_open();
  for (t.row = row; t.row < row_end; t.row = t.row_end) {
    t.row_end = gr_min(row_end, t.row + turn);
    gr_amx_gather_bytes(p, &t);
    for (int64_t at = panel; at < panel_end; ++at) gr_amx_bytes_column(p, &t, at);
    if (p->after) p->after(p, t.row, t.row_end - t.row, column, columns);
  }
  gr_amx_close();
}

#undef GR_AMX_TURN
#undef GR_AMX_NEAR
#undef GR_AMX_AHEAD
#include "isa/end_bytes.h"
