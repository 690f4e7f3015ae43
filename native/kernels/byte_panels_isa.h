/* byte_panels_isa.h: byte_panels.h for one instruction set; included once for each, and by byte_panels.h only.
 *
 * A register tile is up to GR_ISA_ROWS rows of two vectors of GR_ISA_LANES sums. Bytes and float32 are made of sums in
 * registers where nothing has to be known of the rows of A; other results by way of memory.
 *
 * defines: GR_ISA(gr_bytes_block), GR_ISA(gr_bytes_store), GR_ISA(gr_bytes_load)
 */
#define GR_WIDTH (2 * GR_ISA_LANES)    /* columns of a tile */
#define GR_LINE (GR_BYTES_HALVES * GR_BYTES_DEPTH + 64) /* bytes from row to row of a block of A */

/* ---------------------------------------------------------------- sums to results */

/* The first n of GR_BYTES, zeros behind; in memory nothing else is touched. */
GR_ALWAYS GR_BYTES GR_ISA(gr_bytes_load)(const uint8_t *from, int64_t n) {
#ifdef GR_ISA_LOAD_BYTES
  return (GR_BYTES)GR_ISA_LOAD_BYTES(from, n);
#else
  GR_BYTES made = {0};
  memcpy(&made, from, (size_t)n);
  return made;
#endif
}

GR_ALWAYS void GR_ISA(gr_bytes_keep)(uint8_t *to, GR_BYTES x, int64_t n) {
#ifdef GR_ISA_STORE_BYTES
  GR_ISA_STORE_BYTES(to, x, n);
#else
  memcpy(to, &x, (size_t)n);
#endif
}

/* The sums of GR_ISA_LANES columns from ``column`` on become ``columns`` elements at ``to``; int32 and float32. */
GR_ALWAYS void GR_ISA(gr_bytes_words_out)(const gr_requant *s, GR_VI sum, int64_t column, int64_t columns, void *to) {
  GR_VI made = sum;
  if (s->dtype == GR_F32) {
    GR_V x = __builtin_convertvector(sum, GR_V) * *(const GR_V *)(s->scale + column);
    if (s->bias && columns >= GR_ISA_LANES) x += *(const GR_V *)(s->bias + column);
    for (int64_t j = 0; s->bias && columns < GR_ISA_LANES && j < columns; ++j) x[j] += s->bias[column + j];
    made = (GR_VI)x;
  }
  if (columns >= GR_ISA_LANES) *(GR_VI *)to = made;
  else memcpy(to, &made, (size_t)columns * 4);
}

/* Factors that turn GR_ISA_LANES columns of sums into bytes. */
typedef struct GR_ISA(gr_bytes_grid) {
  GR_V scale, least, most;
  GR_VI zero;
} GR_ISA(gr_bytes_grid);

GR_ALWAYS GR_ISA(gr_bytes_grid) GR_ISA(gr_bytes_grid_of)(const gr_requant *s, int64_t column) {
  GR_ISA(gr_bytes_grid) made = {*(const GR_V *)(s->scale + column), GR_ISA_SPLAT(s->least), GR_ISA_SPLAT(s->most),
                                {0}};
  made.zero += s->zero - 0x4b400000;
  return made;
}

/* The same of bytes. */
GR_ALWAYS void GR_ISA(gr_bytes_out)(GR_VI sum, const GR_ISA(gr_bytes_grid) *grid, int64_t columns, uint8_t *to) {
  GR_V x = __builtin_convertvector(sum, GR_V) * grid->scale;
  x = GR_ISA_MAX(x, grid->least);      /* a NaN is the least */
  x = GR_ISA_MIN(x, grid->most);
  x += 12582912.0f;                    /* 1.5 * 2^23: what is left is an integer in the low bits, ties to even */
  GR_BYTES made = GR_BYTES_LOWEST((GR_VI)x + grid->zero);
  if (columns >= GR_ISA_LANES) *(GR_BYTES *)to = made;
  else GR_ISA(gr_bytes_keep)(to, made, columns);
}

/* The sums of ``rows`` rows, sums[row * sums_row], become elements at to + row * to_row bytes. row_sums: NULL, or of
 * each row of A, for the shifts. */
GR_ALWAYS void GR_ISA(gr_bytes_store)(const gr_requant *s, const int32_t *shift, const int32_t *row_sums,
                                      const int32_t *sums, int64_t sums_row, int64_t rows, int64_t column,
                                      int64_t columns, uint8_t *to, int64_t to_row) {
  typedef GR_ISA(gr_bytes_words) words;
  GR_ISA(gr_bytes_grid) grid = GR_ISA(gr_bytes_grid_of)(s, column);
  words offset = *(const words *)(s->offset + column);
  int bytes = s->dtype != GR_F32 && s->dtype != GR_I32;
  for (int64_t i = 0; i < rows; ++i, sums += sums_row, to += to_row) {
    words sum = *(const words *)sums + offset;
    if (shift) sum -= *(const words *)(shift + column) * (uint32_t)row_sums[i];
    if (bytes) GR_ISA(gr_bytes_out)((GR_VI)sum, &grid, columns, to);
    else GR_ISA(gr_bytes_words_out)(s, (GR_VI)sum, column, columns, to);
  }
}

/* ---------------------------------------------------------------- results of a register tile
 * acc[2 i + v] is vector v of row i. */

#ifdef GR_ISA_FOUR
/* Factors that turn four vectors of sums into bytes. */
typedef struct GR_ISA(gr_bytes_ends) {
  GR_V scale[4], most;
  GR_VI zero, least, turn;
} GR_ISA(gr_bytes_ends);

/* scale is left to be set. */
GR_ALWAYS GR_ISA(gr_bytes_ends) GR_ISA(gr_bytes_ends_of)(const gr_requant *s) {
  int turned = (int)s->least + s->zero < 0 ? 0x80 : 0; /* words are packed as unsigned bytes */
  GR_ISA(gr_bytes_ends) made = {.most = GR_ISA_SPLAT(s->most), .zero = {0}, .least = {0}, .turn = {0}};
  made.zero += (s->zero + turned) * 0x10001;
  made.least += ((int)s->least + s->zero + turned) * 0x10001;
  made.turn += turned * 0x01010101;
  return made;
}

/* Sums of four vectors, scaled; no more than the greatest. */
GR_ALWAYS void GR_ISA(gr_bytes_scaled)(const GR_VI *sums, const GR_ISA(gr_bytes_ends) *ends, int vectors, GR_V *x) {
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    x[j] = __builtin_convertvector(sums[j], GR_V) * ends->scale[j % vectors];
    x[j] = GR_ISA_MIN(ends->most, x[j]); /* a NaN stays one */
  }
}

/* The sums of a tile, which have their offsets, as bytes. */
GR_ALWAYS void GR_ISA(gr_bytes_tile_out)(const gr_requant *s, const GR_VI *acc, int rows, int vectors, int64_t column,
                                         int64_t columns, uint8_t *to, int64_t to_row) {
  GR_ISA(gr_bytes_ends) ends = GR_ISA(gr_bytes_ends_of)(s);
  for (int v = 0; v < vectors; ++v) ends.scale[v] = *(const GR_V *)(s->scale + column + v * GR_ISA_LANES);
  int step = 4 / vectors, size = vectors * GR_ISA_LANES;
#pragma GCC unroll 8
  for (int i = 0; i < rows; i += step) {
    uint8_t *row = to + i * to_row;
    GR_VI x[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      x[j] = i + j / vectors < rows ? acc[2 * (i + j / vectors) + j % vectors] : ends.zero;
    GR_V scaled[4];
    GR_ISA(gr_bytes_scaled)(x, &ends, vectors, scaled);
    GR_VI made = GR_ISA(gr_four)(scaled, ends.zero, ends.least, ends.turn);
#pragma GCC unroll 4
    for (int j = 0; j < step; ++j) {
      if (i + j >= rows) break;
      if (columns >= size) GR_ISA(gr_store_part)(row + j * to_row, made, j, size);
      else gr_copy_bytes(row + j * to_row, (const uint8_t *)&made + j * size, columns);
    }
  }
}
#else
GR_ALWAYS void GR_ISA(gr_bytes_tile_out)(const gr_requant *s, const GR_VI *acc, int rows, int vectors, int64_t column,
                                         int64_t columns, uint8_t *to, int64_t to_row) {
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    GR_ISA(gr_bytes_grid) grid = GR_ISA(gr_bytes_grid_of)(s, column + v * GR_ISA_LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
      GR_ISA(gr_bytes_out)(acc[2 * i + v], &grid, columns - v * GR_ISA_LANES, to + i * to_row + v * GR_ISA_LANES);
  }
}
#endif

/* The same as float32; all columns are there. */
GR_ALWAYS void GR_ISA(gr_bytes_tile_floats)(const gr_requant *s, const GR_VI *acc, int rows, int vectors,
                                            int64_t column, float *to, int64_t to_row) {
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    GR_V scale = *(const GR_V *)(s->scale + column + v * GR_ISA_LANES), bias = {0};
    if (s->bias) bias = *(const GR_V *)(s->bias + column + v * GR_ISA_LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      GR_V x = __builtin_convertvector(acc[2 * i + v], GR_V) * scale;
      if (s->bias) x += bias;          /* -0 keeps its sign where there is none */
      *(GR_V *)(to + i * to_row + v * GR_ISA_LANES) = x;
    }
  }
}

/* ---------------------------------------------------------------- a register tile */

typedef struct GR_ISA(gr_bytes_tile) {
  const uint8_t *a;                    /* units of 4 GR_BYTES_HALVES bytes */
  int64_t a_row, units;
  const uint8_t *b;
  int32_t *sums;                       /* [rows][GR_PANEL * GR_BYTES_GROUP]: of k before, and for k behind */
  int first, last;                     /* parts of k */
  const int32_t *row_sums;             /* NULL, or of each row of A, for the shifts */
  int64_t row, column;
  int stays;                           /* in registers until results are made of them, behind all of k */
} GR_ISA(gr_bytes_tile);

#define GR_SUMS_ROW (GR_PANEL * GR_BYTES_GROUP)

static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_bytes_finish)(const gr_bytes *p,
                                                                            const GR_ISA(gr_bytes_tile) *t, int rows) {
  int64_t size = p->made.dtype == GR_F32 || p->made.dtype == GR_I32 ? 4 : 1;
  for (int64_t v = 0; v < GR_WIDTH; v += GR_ISA_LANES) {
    int64_t column = t->column + v;
    if (column >= p->n) break;
    GR_ISA(gr_bytes_store)(&p->made, p->shift, t->row_sums, t->sums + v, GR_SUMS_ROW, rows, column, p->n - column,
                           (uint8_t *)p->c + (t->row * p->c_row + column) * size, p->c_row * size);
  }
}

GR_ALWAYS void GR_ISA(gr_bytes_multiply)(const gr_bytes *p, const GR_ISA(gr_bytes_tile) *t, int rows, int vectors) {
  GR_VI acc[GR_ISA_ROWS * 2], begin[2] = {{0}, {0}};
  const uint8_t *a = t->a, *b = t->b;
  const int64_t column = t->column;
  if (t->stays) {                      /* the offset comes first: sums are modulo 2^32 */
    for (int v = 0; v < vectors; ++v) begin[v] = *(const GR_VI *)(p->made.offset + column + v * GR_ISA_LANES);
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      acc[i * 2 + v] =
          t->first ? begin[v] : *(const GR_VI *)(t->sums + i * GR_SUMS_ROW + v * GR_ISA_LANES);
  }
  for (int64_t u = t->units; u > 0; --u, a += 4 * GR_BYTES_HALVES, b += 4 * GR_PANEL) {
    __builtin_prefetch(b + 24 * 4 * GR_PANEL);
    __builtin_prefetch(b + 24 * 4 * GR_PANEL + 64);
#pragma GCC unroll 2
    for (int half = 0; half < GR_BYTES_HALVES; ++half) {
      GR_VI in[2];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) in[v] = GR_BYTES_LOAD(b + 4 * v * GR_ISA_LANES, half);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        int32_t x;
        memcpy(&x, a + i * t->a_row + 4 * half, 4);
        GR_VI all = GR_ISA_SPLAT(x);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) {
          acc[i * 2 + v] = GR_BYTES_TERM(all, in[v], acc[i * 2 + v]);
          GR_ISA_KEEP(acc[i * 2 + v]);
        }
      }
    }
  }
  if (t->stays && t->last) {
    int64_t at = t->row * p->c_row + column;
    if (p->made.dtype == GR_F32)
      GR_ISA(gr_bytes_tile_floats)(&p->made, acc, rows, vectors, column, (float *)p->c + at, p->c_row);
    else
      GR_ISA(gr_bytes_tile_out)(&p->made, acc, rows, vectors, column, p->n - column, (uint8_t *)p->c + at, p->c_row);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) *(GR_VI *)(t->sums + i * GR_SUMS_ROW + v * GR_ISA_LANES) = acc[i * 2 + v];
  }
}

#define GR_TILE(rows)                                                       \
  case rows:                                                                \
    if (vectors == 2) GR_ISA(gr_bytes_multiply)(p, t, rows, 2);             \
    else GR_ISA(gr_bytes_multiply)(p, t, rows, 1);                          \
    break;

static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_bytes_rows)(const gr_bytes *p,
                                                                          const GR_ISA(gr_bytes_tile) *t, int rows,
                                                                          int vectors) {
#ifdef GR_TILES_ONCE                   /* under sanitizers: build_native.py */
  if (vectors == 2) GR_ISA(gr_bytes_multiply)(p, t, rows, 2);
  else GR_ISA(gr_bytes_multiply)(p, t, rows, 1);
#else
  switch (rows) {
    GR_TILE(1)
    GR_TILE(2)
    GR_TILE(3)
    GR_TILE(4)
#if GR_ISA_ROWS > 4
    GR_TILE(5)
    GR_TILE(6)
#endif
#if GR_ISA_ROWS > 6
    GR_TILE(7)
    GR_TILE(8)
    GR_TILE(9)
    GR_TILE(10)
    GR_TILE(11)
    GR_TILE(12)
    GR_TILE(13)
    GR_TILE(14)
#endif
  }
#endif
}
#undef GR_TILE

/* ---------------------------------------------------------------- rows of A */

/* ``depth`` bytes as they were gathered become what tiles read, in place: turned, padded to whole units, and where
 * halves are multiplied apart the even and the odd bytes of each unit as 16 bits, which were gathered behind. Returns
 * their sum. */
GR_ALWAYS int32_t GR_ISA(gr_bytes_ready)(uint8_t *row, int64_t depth, uint8_t flip, int wanted) {
  uint8_t *bytes = row + (GR_BYTES_HALVES - 1) * GR_BYTES_DEPTH;
  int32_t sum = 0;
  if (flip)
    for (int64_t i = 0; i < depth; ++i) bytes[i] ^= 0x80;
  for (int64_t i = depth; i % 4; ++i) bytes[i] = 0;
  for (int64_t i = 0; wanted && i < depth; ++i) sum += bytes[i];
#if defined(GR_BYTES_SPREAD)
  for (int64_t i = 0; i < depth; i += GR_BYTES_SPAN) GR_BYTES_SPREAD(row + 2 * i, bytes + i);
#elif GR_BYTES_HALVES == 2
  for (int64_t i = 0; i < depth; i += 4) {
    uint32_t all, halves[2];
    memcpy(&all, bytes + i, 4);
    halves[0] = all & 0x00ff00ff;
    halves[1] = all >> 8 & 0x00ff00ff;
    memcpy(row + 2 * i, halves, 8);
  }
#endif
  return sum;
}

/* Panels panel .. panel_end-1 of rows, of k from ``first`` on. */
GR_ALWAYS void GR_ISA(gr_bytes_strip)(const gr_bytes *p, GR_ISA(gr_bytes_tile) t, int64_t rows, int64_t first,
                                      int64_t panel, int64_t panel_end, int32_t *sums) {
  int stays = !p->shift && p->made.dtype != GR_I32;
  for (int64_t at = panel; at < panel_end; ++at) {
    for (int64_t half = 0; half < GR_PANEL; half += GR_WIDTH) {
      t.column = at * GR_PANEL + half;
      if (t.column >= p->n) break;
      t.b = p->b + at * gr_bytes_panel(p->k) + (first / 4 * GR_PANEL + half) * 4;
      t.sums = sums + (at - panel) % GR_BYTES_GROUP * GR_PANEL + half;
      int vectors = p->n - t.column > GR_ISA_LANES ? 2 : 1;
      t.stays = stays && (p->made.dtype != GR_F32 || p->n - t.column >= vectors * GR_ISA_LANES);
      GR_ISA(gr_bytes_rows)(p, &t, (int)rows, vectors);
      if (t.last && !t.stays) GR_ISA(gr_bytes_finish)(p, &t, (int)rows);
    }
  }
}

static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_bytes_block)(const gr_bytes *p, int64_t row,
                                                                           int64_t row_end, int64_t panel,
                                                                           int64_t panel_end) {
  _Alignas(64) uint8_t a[GR_ISA_ROWS * GR_LINE];
  _Alignas(64) int32_t sums[GR_ISA_ROWS * GR_SUMS_ROW];
  int32_t row_sums[GR_ISA_ROWS];
  int whole = p->k <= GR_BYTES_DEPTH;  /* all of k at once: no sum waits, and all panels are one group */
  int in_place = GR_BYTES_HALVES == 1 && !p->gather && !p->flip && p->k % 4 == 0 && !p->shift;
  int64_t group = gr_max(1, GR_BYTES_CACHED / gr_bytes_panel(p->k));
  if (!whole) group = gr_min(group, GR_BYTES_GROUP);
  for (int64_t from = panel; from < panel_end; from += group) {
    int64_t to = gr_min(panel_end, from + group), column = from * GR_PANEL;
    for (int64_t top = row; top < row_end; top += GR_ISA_ROWS) {
      int64_t rows = gr_min(GR_ISA_ROWS, row_end - top), first = 0;
      memset(row_sums, 0, sizeof row_sums);
      do {
        int64_t depth = gr_min(GR_BYTES_DEPTH, p->k - first);
        GR_ISA(gr_bytes_tile) t = {.a = a, .a_row = GR_LINE, .units = gr_bytes_units(depth), .first = first == 0,
                                   .last = first + depth == p->k, .row_sums = row_sums, .row = top};
        if (in_place) {
          t.a = p->a + top * p->a_row + first;
          t.a_row = p->a_row;
        } else {
          uint8_t *behind = a + (GR_BYTES_HALVES - 1) * GR_BYTES_DEPTH;
          (p->gather ? p->gather : gr_gather_bytes)(p, top, rows, first, first + depth, behind, GR_LINE);
          for (int64_t i = 0; i < rows; ++i)
            row_sums[i] += GR_ISA(gr_bytes_ready)(a + i * GR_LINE, depth, p->flip, p->shift != NULL);
        }
        GR_ISA(gr_bytes_strip)(p, t, rows, first, from, to, sums);
        first += depth;
      } while (first < p->k);
      if (p->after) p->after(p, top, rows, column, gr_min(p->n, to * GR_PANEL) - column);
    }
  }
}

#undef GR_WIDTH
#undef GR_LINE
#undef GR_SUMS_ROW
#undef GR_ISA_ROWS
#include "isa/end_bytes.h"
