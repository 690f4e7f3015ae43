/* short_isa.h: panels.h where rows of A are read where they lie and have at most GR_DEPTH elements: a convolution of
 * 1 x 1 taps, or windows of few channels; included by panels_isa.h only, where GR_ISA_SHORT is defined.
 *
 * What a tile takes beside its products, calls and addresses, is as much as the products of a short k. So tiles go
 * down the rows in one loop, by columns: B of a column stays in the nearest cache, and so does A of some rows for all
 * columns. Where a column has one vector, a tile has twice as many rows, so that as many sums hide their latency: with
 * AVX-512, whose tiles of two vectors have much to multiply, that is where it pays. Of pairs of bf16, where half as
 * many products meet as many results, it pays for any columns, but not for long rows.
 *
 * defines: GR_OF(gr_short_rows)
 */

#define GR_SHORT_ROWS (2 * GR_ISA_ROWS)
#define GR_SHORT_FLOATS 6144           /* of A and C that some rows take: three fourths of the nearest cache */
#if GR_B_FORM == GR_B_DOTS
#define GR_SHORT_E gr_half              /* an element of C */
#define GR_SHORT_DEPTH 64               /* units of k, at most */
#define GR_SHORT_COLUMNS INT64_MAX
#else
#define GR_SHORT_E float
#define GR_SHORT_DEPTH GR_DEPTH
#define GR_SHORT_COLUMNS GR_ISA_SHORT
#endif

/* A vector of sums as results: ``columns`` of them. A NaN stays one. */
GR_ALWAYS void GR_OF(gr_short_store)(GR_V x, GR_V low, GR_V high, const GR_SHORT_E *extra, GR_SHORT_E *c,
                                     int64_t columns) {
#if GR_B_FORM == GR_B_DOTS
  unsigned short some = GR_ISA_FIRST(columns);
  if (extra) x += GR_ISA(gr_wide_some)(extra, some);
  GR_ISA(gr_narrow_some)(c, GR_ISA_MIN(high, GR_ISA_MAX(low, x)), some);
#elif defined(GR_ISA_MASKED)
  unsigned short some = GR_ISA_FIRST(columns);
  if (extra) x += GR_ISA_LOAD_SOME(extra, some);
  GR_ISA_STORE_SOME(c, GR_ISA_MIN(high, GR_ISA_MAX(low, x)), some);
#else
  if (columns >= GR_ISA_LANES) {
    if (extra) x += *(const GR_V *)extra;
    *(GR_V *)c = GR_ISA_MIN(high, GR_ISA_MAX(low, x));
    return;
  }
  float some[GR_ISA_LANES] = {0};
  if (extra) {
    gr_copy_floats(some, extra, columns);
    x += *(const GR_V *)some;
  }
  *(GR_V *)some = GR_ISA_MIN(high, GR_ISA_MAX(low, x));
  gr_copy_floats(c, some, columns);
#endif
}

/* Tiles of ``rows`` rows and ``vectors`` vectors of columns, from a row down to row_end; A: of the first row. */
GR_ALWAYS void GR_OF(gr_short_column)(const gr_panels *p, gr_a_rows from, int64_t row, int64_t row_end, int64_t column,
                                      int rows, int vectors) {
  const float *b = p->b + column / GR_PANEL * gr_ceil_div(p->k, GR_UNIT) * GR_PANEL + column % GR_PANEL;
  float bias[GR_WIDTH] = {0};
  GR_SHORT_E *c = (GR_SHORT_E *)p->c + row * p->c_row + column;
  const GR_SHORT_E *extra = p->extra ? (const GR_SHORT_E *)p->extra + row * p->c_row + column : NULL;
  float least = p->clamp ? p->least : -INFINITY, most = p->clamp ? p->most : INFINITY;
  const GR_V low = GR_ISA_SPLAT(least), high = GR_ISA_SPLAT(most);
  const int64_t c_row = p->c_row, columns = gr_min(GR_WIDTH, p->n - column);
  if (p->bias) memcpy(bias, p->bias + column, (size_t)columns * 4);
  for (; row < row_end; row += rows, from.a += rows * from.row, c += rows * c_row) {
    GR_V acc[GR_SHORT_ROWS];           /* of rows by vectors: as many either way */
    const float *a = from.a, *w = b;
#pragma GCC unroll 32
    for (int i = 0; i < rows; ++i) {   /* the next tile's results, which are long in coming */
      __builtin_prefetch(c + (rows + i) * c_row, 1);
      if (vectors == 2) __builtin_prefetch(c + (rows + i) * c_row + GR_WIDTH - 1, 1);
      if (extra) __builtin_prefetch(extra + (rows + i) * c_row);
      if (extra && vectors == 2) __builtin_prefetch(extra + (rows + i) * c_row + GR_WIDTH - 1);
    }
#pragma GCC unroll 32
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) acc[i * vectors + v] = *(const GR_V *)(bias + v * GR_ISA_LANES);
    for (int64_t lines = from.lines; lines > 0; --lines, a += from.line - from.runs * from.step) {
      for (int64_t runs = from.runs; runs > 0; --runs, a += from.step - from.run) {
        for (int64_t q = from.run; q > 0; --q, ++a, w += GR_PANEL) {
          GR_V in[2];
          __builtin_prefetch(w + GR_AHEAD * GR_PANEL);
#pragma GCC unroll 2
          for (int v = 0; v < vectors; ++v) in[v] = *(const GR_V *)(w + v * GR_ISA_LANES);
#pragma GCC unroll 32
          for (int i = 0; i < rows; ++i) {
            GR_V all = GR_ISA_SPLAT(a[i * from.row]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; ++v) acc[i * vectors + v] = GR_TERM(all, in[v], acc[i * vectors + v]);
          }
        }
      }
    }
#if GR_B_FORM == GR_B_DOTS
    if (vectors == 2 && columns == GR_WIDTH) {
      GR_OF(gr_panels_store_halves)(acc, rows, low, high, extra, c, c_row);
      if (extra) extra += rows * c_row;
      continue;
    }
#endif
#pragma GCC unroll 32
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v)
        GR_OF(gr_short_store)(acc[i * vectors + v], low, high, extra ? extra + i * c_row + v * GR_ISA_LANES : NULL,
                              c + i * c_row + v * GR_ISA_LANES, columns - v * GR_ISA_LANES);
    if (extra) extra += rows * c_row;
  }
}

/* Not inlined: it holds the loops for one vector of columns and for two. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_short_columns)(const gr_panels *p, gr_a_rows from,
                                                                             int64_t row, int64_t row_end,
                                                                             int64_t column, int64_t column_end) {
  for (; column < column_end; column += GR_WIDTH) {
    if (column_end - column > GR_ISA_LANES)
      GR_OF(gr_short_column)(p, from, row, row_end, column, GR_ISA_ROWS, 2);
    else
      GR_OF(gr_short_column)(p, from, row, row_end, column, GR_SHORT_ROWS, 1);
  }
}

/* Rows from ``row`` on of panels from .. to-1, as far as they lie so and fill tiles: the first row that is left. */
GR_ALWAYS int64_t GR_OF(gr_short_rows)(const gr_panels *p, int64_t row, int64_t row_end, int64_t from, int64_t to) {
  gr_a_rows a;
  if (p->gather == gr_gather_rows) return row; /* few rows that use much of B, which comes from memory: Winograd's */
#if GR_B_FORM == GR_B_DOTS
  if (!p->halves || p->after) return row; /* A that is to be rounded, sums that are to be kept */
#endif
  if (p->k > GR_SHORT_DEPTH * GR_UNIT || p->k == 0 || row_end - row < GR_SHORT_ROWS) return row;
  if (p->gather && !p->in_place) return row;
  int64_t rows = (p->gather ? p->in_place : gr_rows_lie)(p, row, row_end - row, &a) / GR_SHORT_ROWS * GR_SHORT_ROWS;
  if (rows == 0 || a.row % GR_A_CROWDED == 0) return row;
  int64_t column = from * GR_PANEL, column_end = gr_min(p->n, to * GR_PANEL), end = row + rows;
  if (column_end - column > GR_SHORT_COLUMNS) return row;
  int64_t turn = (p->k + column_end - column) / GR_UNIT;
  turn = gr_max(1, GR_SHORT_FLOATS / gr_max(1, turn) / GR_SHORT_ROWS) * GR_SHORT_ROWS;
  while (row < end) {
    int64_t bottom = gr_min(end, row + turn);
    GR_OF(gr_short_columns)(p, a, row, bottom, column, column_end);
    if (p->after)
      p->after(p, row, bottom - row, column, column_end - column, p->c + row * p->c_row + column, p->c_row);
    a.a += (bottom - row) * a.row;
    row = bottom;
  }
  return end;
}

#undef GR_SHORT_ROWS
#undef GR_SHORT_FLOATS
#undef GR_SHORT_E
#undef GR_SHORT_DEPTH
#undef GR_SHORT_COLUMNS
