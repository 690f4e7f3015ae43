/* levels_isa.h: the form GR_B_LEVELS of panels_isa.h, which alone includes it: B of 4 or 8 bits, as
 * ir/ops/products/levels.py lays it out. A row of A walks through the words of a panel; of more rows,
 * GR_LEVEL_TILES tiles share a panel's elements, which are written out as floats for GR_DEPTH of k at a time.
 *
 * defines: GR_OF(gr_panels_line), GR_OF(gr_panels_block)
 */

#define GR_LEVEL_TILES 4               /* of rows; their A and a panel's floats stay in the second cache */

#ifdef GR_ISA_LOOK_UP
GR_ALWAYS GR_V GR_OF(gr_levels_table)(float zero) {
  GR_V table;
  for (int i = 0; i < 16; ++i) table[i] = (float)i - zero;
  return table;
}
#endif

/* The levels at place ``at`` of each word, less ``zero``, that of each column, or without ``zeros`` less the middle:
 * such a level is a signed number whose sign bit is turned. ``table``: levels of 4 bits less the middle, where the
 * instruction set looks them up; then zeros are what they are above the middle. */
GR_ALWAYS GR_V GR_OF(gr_levels_of)(GR_VI words, int at, int bits, int zeros, GR_V table, GR_V zero) {
#ifdef GR_ISA_LOOK_UP
  if (bits == 4) {
    GR_V level = GR_ISA_LOOK_UP(table, words >> at * 4);
    if (!zeros) return level;
    return level - zero;
  }
#endif
  (void)table;
  if (!zeros) {
    GR_VI turned = words ^ (int32_t)(bits == 4 ? 0x88888888 : 0x80808080);
    return __builtin_convertvector(turned << (32 - bits - at * bits) >> (32 - bits), GR_V);
  }
  return __builtin_convertvector(words >> at * bits & ((1 << bits) - 1), GR_V) - zero;
}

/* A block of a panel: its head, and the words that hold element ``in`` of its k. */
typedef struct GR_OF(gr_levels_block) {
  const float *scales, *zeros;         /* zeros: NULL where all are the middle */
  const int32_t *words;
} GR_OF(gr_levels_block);

GR_ALWAYS GR_OF(gr_levels_block) GR_OF(gr_levels_at)(const gr_panels *p, int64_t panel, int64_t k, int bits) {
  int64_t blocks = gr_ceil_div(p->k, p->block), words = p->block * bits;     /* of four bytes, as the head is */
  int64_t head = p->zeros ? 2 * GR_PANEL : GR_PANEL;
  const float *at = p->b + (panel * blocks + k / p->block) * (head + words);
  return (GR_OF(gr_levels_block)){at, p->zeros ? at + GR_PANEL : NULL,
                                  (const int32_t *)(at + head) + k % p->block * bits};
}

/* The zero of the columns of vector v; above the middle where a table has the levels so. */
GR_ALWAYS GR_V GR_OF(gr_levels_zero)(const float *zeros, int v, int bits) {
  float middle = (float)(1 << (bits - 1));
  GR_V all = GR_ISA_SPLAT(middle);
  GR_V zero = all;
  if (zeros) zero = *(const GR_V *)(zeros + v * GR_ISA_LANES);
#ifdef GR_ISA_LOOK_UP
  if (bits == 4) return zero - all;
#endif
  return zero;
}

GR_ALWAYS GR_V GR_OF(gr_levels_look_up)(void) {
#ifdef GR_ISA_LOOK_UP
  return GR_OF(gr_levels_table)(8);
#else
  GR_V none = {0};
  return none;
#endif
}

/* ---------------------------------------------------------------- one row */

/* Sums of one panel's columns: those of each block by themselves, then times its scales. */
GR_ALWAYS void GR_OF(gr_levels_walk)(const gr_panels *p, const float *row, int64_t panel, GR_V *sums, int bits,
                                     int zeros) {
  enum { VECTORS = GR_PANEL / GR_ISA_LANES };
  GR_V table = GR_OF(gr_levels_look_up)();
  int each = 32 / bits;
  for (int v = 0; v < VECTORS; ++v) sums[v] = (GR_V){0};
  for (int64_t k = 0; k < p->k; k += p->block) {
    GR_OF(gr_levels_block) b = GR_OF(gr_levels_at)(p, panel, k, bits);
    int64_t depth = gr_min(p->block, p->k - k), whole = depth / each * each;
    GR_V acc[4][VECTORS] = {{{0}}}, zero[VECTORS];
    float last[8] = {0};               /* a word's elements of A, where k ends within it */
    if (whole < depth) memcpy(last, row + k + whole, (size_t)(depth - whole) * 4);
    for (int v = 0; v < VECTORS; ++v) zero[v] = GR_OF(gr_levels_zero)(b.zeros, v, bits);
    for (int64_t i = 0; i < depth; i += each, b.words += GR_PANEL) {
      const float *a = i < whole ? row + k + i : last;
      __builtin_prefetch(b.words + 512);
      __builtin_prefetch(b.words + 512 + 16);
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; ++v) {
        GR_VI words = *(const GR_VI *)(b.words + v * GR_ISA_LANES);
#pragma GCC unroll 8
        for (int j = 0; j < each; ++j) {
          float x = a[j];
          GR_V all = GR_ISA_SPLAT(x);
          acc[j & 3][v] = GR_ISA_FUSED(all, GR_OF(gr_levels_of)(words, j, bits, zeros, table, zero[v]), acc[j & 3][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      GR_V sum = (acc[0][v] + acc[1][v]) + (acc[2][v] + acc[3][v]);
      sums[v] = GR_ISA_FUSED(sum, *(const GR_V *)(b.scales + v * GR_ISA_LANES), sums[v]);
    }
  }
}

GR_ALWAYS void GR_OF(gr_panels_line)(const gr_panels *p, const float *row, int64_t panel, GR_V *sums) {
  if (p->bits == 8 && p->zeros)
    GR_OF(gr_levels_walk)(p, row, panel, sums, 8, 1);
  else if (p->bits == 8)
    GR_OF(gr_levels_walk)(p, row, panel, sums, 8, 0);
  else if (p->zeros)
    GR_OF(gr_levels_walk)(p, row, panel, sums, 4, 1);
  else
    GR_OF(gr_levels_walk)(p, row, panel, sums, 4, 0);
}

/* ---------------------------------------------------------------- more rows */

/* Elements first .. first+depth-1 of k of a panel, as floats. */
GR_ALWAYS void GR_OF(gr_levels_write)(const gr_panels *p, int64_t panel, int64_t first, int64_t depth, float *to,
                                      int bits) {
  GR_V table = GR_OF(gr_levels_look_up)();
  int each = 32 / bits;
  for (int64_t k = first, end = first + depth; k < end;) {
    GR_OF(gr_levels_block) b = GR_OF(gr_levels_at)(p, panel, k, bits);
    int64_t stop = gr_min(end, (k / p->block + 1) * p->block);
    for (; k < stop; k += each, b.words += GR_PANEL) {
#pragma GCC unroll 8
      for (int v = 0; v < GR_PANEL / GR_ISA_LANES; ++v) {
        GR_VI words = *(const GR_VI *)(b.words + v * GR_ISA_LANES);
        GR_V zero = GR_OF(gr_levels_zero)(b.zeros, v, bits), scale = *(const GR_V *)(b.scales + v * GR_ISA_LANES);
#pragma GCC unroll 8
        for (int j = 0; j < each; ++j)
          *(GR_V *)(to + (k - first + j) * GR_PANEL + v * GR_ISA_LANES) =
              GR_OF(gr_levels_of)(words, j, bits, 1, table, zero) * scale;
      }
    }
  }
}

static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_levels_floats)(const gr_panels *p, int64_t panel,
                                                                             int64_t first, int64_t depth,
                                                                             float *to) {
  if (p->bits == 8)
    GR_OF(gr_levels_write)(p, panel, first, depth, to, 8);
  else
    GR_OF(gr_levels_write)(p, panel, first, depth, to, 4);
}

static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_panels_block)(const gr_panels *p, int64_t row,
                                                                            int64_t row_end, int64_t panel,
                                                                            int64_t panel_end) {
  if (p->rows == 1 && p->gather == NULL) {
    GR_OF(gr_panels_vector)(p, row, panel, panel_end);
    return;
  }
  gr_ahead none = {0};
  _Alignas(64) float a[GR_LEVEL_TILES * GR_ISA_ROWS * GR_A_ROW], b[GR_DEPTH * GR_PANEL];
  for (int64_t top = row; top < row_end; top += GR_LEVEL_TILES * GR_ISA_ROWS) {
    int64_t bottom = gr_min(row_end, top + GR_LEVEL_TILES * GR_ISA_ROWS), first = 0;
    do {
      int64_t depth = gr_min(GR_DEPTH, p->k - first);
      GR_OF(gr_depth) d = {first, first + depth, first, first + depth};
      (p->gather ? p->gather : gr_gather_rows)(p, top, bottom - top, first, first + depth, a);
      for (int64_t at = panel; at < panel_end; ++at) {
        GR_OF(gr_levels_floats)(p, at, first, depth, b);
        for (int64_t i = top; i < bottom; i += GR_ISA_ROWS) {
          gr_a_rows found = {a + (i - top) * GR_A_ROW, GR_A_ROW, 1, 0, 1, 0, depth};
          GR_OF(gr_panels_strip)(p, found, 0, i, gr_min(GR_ISA_ROWS, bottom - i), d, at, at + 1, b, &none,
                                 NULL);
        }
      }
      first += depth;
    } while (first < p->k);
    int64_t column = panel * GR_PANEL;
    if (p->after)
      p->after(p, top, bottom - top, column, gr_min(p->n, panel_end * GR_PANEL) - column,
               p->c + top * p->c_row + column, p->c_row);
  }
}
#undef GR_LEVEL_TILES
