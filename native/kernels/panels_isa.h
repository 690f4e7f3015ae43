/* panels_isa.h: panels.h for one instruction set and one form of B; included once for each, and by panels.h only.
 *
 * GR_OF(name) names the functions. A register tile is up to GR_ISA_ROWS rows of two vectors of GR_ISA_LANES
 * floats: as many sums as the registers hold beside two vectors of B and one splat of A.
 *
 * The forms: GR_B_FLOATS, GR_B_PAIRS, whose elements are shifted out of their pair, and GR_B_DOTS, where the
 * instruction set multiplies pairs (GR_ISA_DOT). Each is B in units of four bytes; a unit is a float of B or two
 * bf16 of k, one after the other. GR_B_LEVELS are few bits, which tiles read as floats (levels_isa.h).
 *
 * defines: GR_OF(gr_panels_block)
 */

#define GR_WIDTH (2 * GR_ISA_LANES)    /* columns of a tile */

#if GR_B_FORM == GR_B_FLOATS || GR_B_FORM == GR_B_LEVELS
#if GR_B_FORM == GR_B_FLOATS
#define GR_OF(name) GR_ISA(name)
#else
#define GR_OF_(name) GR_ISA(name)
#define GR_OF(name) GR_OF_(name##_levels)
#endif
#define GR_UNIT 1                      /* elements of k of a unit of B */
#define GR_HALVES 1                    /* steps that multiply a unit, each with a float of A */
#define GR_B_LOAD(b, half) (*(const GR_V *)(b))
#define GR_TERM(x, y, z) GR_ISA_FUSED(x, y, z)
#else
#define GR_OF_(name) GR_ISA(name)
#define GR_OF(name) GR_OF_(name##_pairs)
#define GR_UNIT 2
#if GR_B_FORM == GR_B_DOTS
#define GR_HALVES 1
#define GR_B_LOAD(b, half) (*(const GR_V *)(b))
#define GR_TERM(x, y, z) GR_ISA(gr_dot)(x, y, z)
#else
#define GR_HALVES 2
#define GR_B_LOAD(b, half) GR_OF(gr_panels_half)(b, half)
#define GR_TERM(x, y, z) GR_ISA_FUSED(x, y, z)
#endif
#endif

#define GR_AHEAD 24                    /* rows of B that are asked for before their use */

/* ---------------------------------------------------------------- bf16 */

#if GR_B_FORM == GR_B_PAIRS
/* The first or the second bf16 of each pair, as a float. */
GR_ALWAYS GR_V GR_OF(gr_panels_half)(const float *b, int half) {
  GR_VI bits = *(const GR_VI *)b;
  return half ? (GR_V)(bits & ~0xffff) : (GR_V)(bits << 16);
}
#endif

#if GR_B_FORM == GR_B_PAIRS || GR_B_FORM == GR_B_DOTS
/* A row of A to what the steps multiply: each float rounded to bf16, and for GR_B_DOTS two of them in the place of
 * one; of bf16 (halves) they are that already, or become floats. Behind ``depth`` elements lies room for a vector or
 * two. */
GR_ALWAYS void GR_OF(gr_panels_round)(float *a, int64_t depth, int halves) {
  if (halves) {
    ((gr_half *)a)[depth] = 0;
#if GR_B_FORM == GR_B_PAIRS
    for (int64_t i = depth / GR_ISA_LANES * GR_ISA_LANES; i >= 0; i -= GR_ISA_LANES) /* from behind: in place */
      *(GR_V *)(a + i) = GR_ISA(gr_wide)((const gr_half *)a + i);
#endif
    return;
  }
  a[depth] = 0;                        /* the second of the last pair */
#if GR_B_FORM == GR_B_DOTS
  for (int64_t i = 0; i < depth; i += 2 * GR_ISA_LANES)
    *(GR_V *)(a + i / 2) = GR_ISA(gr_pairs)(*(const GR_V *)(a + i), *(const GR_V *)(a + i + GR_ISA_LANES));
#else
  for (int64_t i = 0; i < depth; i += GR_ISA_LANES) {
    GR_VI bits = *(const GR_VI *)(a + i), nan = (bits & 0x7fffffff) > 0x7f800000;
    GR_VI near = bits + 0x7fff + (bits >> 16 & 1);      /* ties to even */
    *(GR_VI *)(a + i) = ((near & ~nan) | ((bits | 0x400000) & nan)) & ~0xffff;
  }
#endif
}
#endif

#if GR_B_FORM == GR_B_DOTS
/* Floats as pairs of bf16, where they lie; a zero beside the last of an odd number. */
GR_ALWAYS void GR_OF(gr_panels_pairs_of)(const float *from, int64_t depth, float *to) {
  int64_t i = 0;
  for (; i + 2 * GR_ISA_LANES <= depth; i += 2 * GR_ISA_LANES)
    *(GR_V *)(to + i / 2) = GR_ISA(gr_pairs)(*(const GR_V *)(from + i), *(const GR_V *)(from + i + GR_ISA_LANES));
  if (i < depth)
    *(GR_V *)(to + i / 2) =
        GR_ISA(gr_pairs)(GR_ISA_LOAD_SOME(from + i, GR_ISA_FIRST(depth - i)),
                         GR_ISA_LOAD_SOME(from + i + GR_ISA_LANES, GR_ISA_FIRST(depth - i - GR_ISA_LANES)));
}
#endif

/* Rows first_row .. of A, elements first .. last-1, as tiles read them. */
GR_ALWAYS void GR_OF(gr_panels_take)(const gr_panels *p, int64_t first_row, int64_t rows, int64_t first, int64_t last,
                                     float *a) {
#if GR_B_FORM == GR_B_DOTS
  if (!p->gather && !p->halves) {      /* twice as many as there is room for floats */
    for (int64_t i = 0; i < rows; ++i, a += GR_A_ROW)
      GR_OF(gr_panels_pairs_of)(p->a + (first_row + i) * p->a_row + first, last - first, a);
    return;
  }
#endif
  (p->gather ? p->gather : gr_gather_rows)(p, first_row, rows, first, last, a);
#if GR_B_FORM == GR_B_PAIRS || GR_B_FORM == GR_B_DOTS
  for (int64_t i = 0; i < rows; ++i) GR_OF(gr_panels_round)(a + i * GR_A_ROW, last - first, p->halves);
#endif
}

/* ---------------------------------------------------------------- a register tile */

/* A NaN stays one. */
GR_ALWAYS GR_V GR_OF(gr_panels_clamp)(GR_V x, float least, float most) {
  GR_V low = GR_ISA_SPLAT(least), high = GR_ISA_SPLAT(most);
  return GR_ISA_MIN(high, GR_ISA_MAX(low, x));
}

/* The target of a tile's results takes long to come from memory: it is prefetched before the sums are made. */
GR_ALWAYS void GR_OF(gr_panels_ask)(const gr_tile *t, int rows) {
  for (int64_t i = 0; i < rows; ++i) {
    __builtin_prefetch(gr_element(t->c, i * t->c_row, t->halves), 1);
    __builtin_prefetch(gr_element(t->c, i * t->c_row + GR_WIDTH - 1, t->halves), 1);
  }
  for (int64_t i = 0; t->extra && i < rows; ++i) {
    __builtin_prefetch(gr_element(t->extra, i * t->c_row, t->halves));
    __builtin_prefetch(gr_element(t->extra, i * t->c_row + GR_WIDTH - 1, t->halves));
  }
}

/* Vectors of a tile's columns. Where a vector's part costs as much as all of it, the last may be less than whole. */
#ifdef GR_ISA_MASKED
#define GR_TILE_LOAD(from, v) GR_ISA_LOAD_SOME((from) + (v) * GR_ISA_LANES, some[v])
#define GR_TILE_STORE(to, v, x) GR_ISA_STORE_SOME((to) + (v) * GR_ISA_LANES, x, some[v])
#define GR_TILE_WIDE(from, v) GR_ISA(gr_wide_some)((const gr_half *)(from) + (v) * GR_ISA_LANES, some[v])
#define GR_TILE_NARROW(to, v, x) GR_ISA(gr_narrow_some)((gr_half *)(to) + (v) * GR_ISA_LANES, x, some[v])
#else
#define GR_TILE_LOAD(from, v) (*(const GR_V *)((from) + (v) * GR_ISA_LANES))
#define GR_TILE_STORE(to, v, x) (*(GR_V *)((to) + (v) * GR_ISA_LANES) = (x))
#define GR_TILE_WIDE(from, v) GR_ISA(gr_wide)((const gr_half *)(from) + (v) * GR_ISA_LANES)
#define GR_TILE_NARROW(to, v, x) GR_ISA(gr_narrow)((gr_half *)(to) + (v) * GR_ISA_LANES, x)
#endif

#if GR_B_FORM == GR_B_DOTS
/* The sums of a tile of two whole vectors of columns as rows of bf16: one conversion and one store a row. */
GR_ALWAYS void GR_OF(gr_panels_store_halves)(const GR_V *acc, int rows, GR_V low, GR_V high, const gr_half *extra,
                                              gr_half *c, int64_t c_row) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    GR_V x = acc[i * 2], y = acc[i * 2 + 1];
    if (extra) {
      x += GR_ISA(gr_wide)(extra + i * c_row);
      y += GR_ISA(gr_wide)(extra + i * c_row + GR_ISA_LANES);
    }
    x = GR_ISA_MIN(high, GR_ISA_MAX(low, x));      /* a NaN stays one */
    y = GR_ISA_MIN(high, GR_ISA_MAX(low, y));
    GR_ISA(gr_put_pairs)(c + i * c_row, GR_ISA(gr_pairs)(x, y));
  }
}
#endif

/* gathered: the distance of the rows of A is known, and they have one run. */
GR_ALWAYS void GR_OF(gr_panels_tile)(const gr_tile *t, int rows, int vectors, int gathered) {
  GR_V acc[GR_ISA_ROWS * 2], zero = {0};
  const float *a = t->a.a, *b = t->b, *ahead = t->ahead;
  int64_t a_row = gathered ? GR_A_ROW : t->a.row;
#ifdef GR_ISA_MASKED
  unsigned short some[2] = {GR_ISA_FIRST(t->columns), GR_ISA_FIRST(t->columns - GR_ISA_LANES)};
#endif
  GR_OF(gr_panels_ask)(t, rows);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      const float *from = t->sums ? t->sums + i * t->sums_row : t->bias;
      acc[i * 2 + v] = from ? GR_TILE_LOAD(from, v) : zero;
    }
  }
  for (int64_t lines = gathered ? 1 : t->a.lines; lines > 0; --lines, a += t->a.line - t->a.runs * t->a.step) {
    for (int64_t runs = gathered ? 1 : t->a.runs; runs > 0; --runs, a += t->a.step - t->a.run) {
      for (int64_t p = t->a.run; p > 0; --p, a += GR_HALVES, b += GR_PANEL, ahead += t->ahead_step) {
        __builtin_prefetch(b + GR_AHEAD * GR_PANEL);   /* which few rows use comes from memory */
        __builtin_prefetch(b + GR_AHEAD * GR_PANEL + 16);
        __builtin_prefetch(ahead, 0, 2);
#pragma GCC unroll 2
        for (int half = 0; half < GR_HALVES; ++half) {
          GR_V in[2];
#pragma GCC unroll 2
          for (int v = 0; v < vectors; ++v) in[v] = GR_B_LOAD(b + v * GR_ISA_LANES, half);
#pragma GCC unroll 16
          for (int i = 0; i < rows; ++i) {
            float x = a[i * a_row + half];
            GR_V all = GR_ISA_SPLAT(x);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; ++v) acc[i * 2 + v] = GR_TERM(all, in[v], acc[i * 2 + v]);
          }
        }
      }
    }
  }
#if GR_B_FORM == GR_B_DOTS
  if (t->halves && vectors == 2 && t->columns >= GR_WIDTH) {
    const float least = t->clamp ? t->least : -INFINITY, most = t->clamp ? t->most : INFINITY;
    const GR_V low = GR_ISA_SPLAT(least), high = GR_ISA_SPLAT(most);
    GR_OF(gr_panels_store_halves)(acc, rows, low, high, (const gr_half *)t->extra, (gr_half *)t->c, t->c_row);
    return;
  }
#endif
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      GR_V x = acc[i * 2 + v];
#if GR_B_FORM == GR_B_PAIRS || GR_B_FORM == GR_B_DOTS
      if (t->halves) {
        if (t->extra) x += GR_TILE_WIDE(gr_element(t->extra, i * t->c_row, 1), v);
        if (t->clamp) x = GR_OF(gr_panels_clamp)(x, t->least, t->most);
        GR_TILE_NARROW(gr_element(t->c, i * t->c_row, 1), v, x);
        continue;
      }
#endif
      if (t->extra) x += GR_TILE_LOAD(t->extra + i * t->c_row, v);
      if (t->clamp) x = GR_OF(gr_panels_clamp)(x, t->least, t->most);
      GR_TILE_STORE(t->c + i * t->c_row, v, x);
    }
  }
}
#undef GR_TILE_LOAD
#undef GR_TILE_STORE
#undef GR_TILE_WIDE
#undef GR_TILE_NARROW

#define GR_TILE_ROWS(r)                        \
  case r:                                      \
    if (vectors == 2)                          \
      GR_OF(gr_panels_tile)(t, r, 2, 1);      \
    else                                       \
      GR_OF(gr_panels_tile)(t, r, 1, 1);      \
    return;

/* Not inlined: it holds the loop for every number of rows. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_panels_rows)(const gr_tile *t, int64_t rows,
                                                                           int vectors) {
#ifdef GR_TILES_ONCE                   /* under sanitizers: build_native.py */
  if (vectors == 2)
    GR_OF(gr_panels_tile)(t, (int)rows, 2, 1);
  else
    GR_OF(gr_panels_tile)(t, (int)rows, 1, 1);
#else
  switch (rows) {
    GR_TILE_ROWS(1)
    GR_TILE_ROWS(2)
    GR_TILE_ROWS(3)
    GR_TILE_ROWS(4)
#if GR_ISA_ROWS > 4
    GR_TILE_ROWS(5)
    GR_TILE_ROWS(6)
#endif
#if GR_ISA_ROWS > 6
    GR_TILE_ROWS(7)
    GR_TILE_ROWS(8)
    GR_TILE_ROWS(9)
    GR_TILE_ROWS(10)
    GR_TILE_ROWS(11)
    GR_TILE_ROWS(12)
#endif
#if GR_ISA_ROWS > 12
    GR_TILE_ROWS(13)
    GR_TILE_ROWS(14)
#endif
  }
#endif
}
#undef GR_TILE_ROWS

/* A whole tile whose A lies where it is. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_panels_in_place)(const gr_tile *t, int vectors) {
  if (vectors == 2)
    GR_OF(gr_panels_tile)(t, GR_ISA_ROWS, 2, 0);
  else
    GR_OF(gr_panels_tile)(t, GR_ISA_ROWS, 1, 0);
}

#ifndef GR_ISA_MASKED
/* A tile of less columns than its vectors hold: by way of buffers that are wide enough. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_panels_edge)(const gr_tile *t, int64_t rows,
                                                                           int64_t columns, int in_place) {
  float c[GR_ISA_ROWS * GR_WIDTH], extra[GR_ISA_ROWS * GR_WIDTH], bias[GR_WIDTH] = {0};
  gr_tile tile = *t;
  if (t->sums) memset(c, 0, sizeof c);
  if (t->extra) memset(extra, 0, sizeof extra);
  for (int64_t i = 0; i < rows; ++i) {
    if (t->sums) memcpy(c + i * GR_WIDTH, t->sums + i * t->sums_row, (size_t)columns * 4);
    if (!t->extra) continue;
    const float *from = gr_element(t->extra, i * t->c_row, t->halves);
    for (int64_t j = 0; t->halves && j < columns; ++j)
      extra[i * GR_WIDTH + j] = gr_bf16_to_float(((const gr_half *)from)[j]);
    if (!t->halves) memcpy(extra + i * GR_WIDTH, from, (size_t)columns * 4);
  }
  if (t->bias) memcpy(bias, t->bias, (size_t)columns * 4);
  tile.c = c;
  tile.c_row = tile.sums_row = GR_WIDTH;
  tile.sums = t->sums ? c : NULL;
  tile.halves = 0;
  tile.bias = bias;
  tile.extra = t->extra ? extra : NULL;
  int vectors = columns > GR_ISA_LANES ? 2 : 1;
  if (in_place)
    GR_OF(gr_panels_in_place)(&tile, vectors);
  else
    GR_OF(gr_panels_rows)(&tile, rows, vectors);
  for (int64_t i = 0; i < rows; ++i) {
    float *to = gr_element(t->c, i * t->c_row, t->halves);
    for (int64_t j = 0; t->halves && j < columns; ++j) ((gr_half *)to)[j] = gr_float_to_bf16(c[i * GR_WIDTH + j]);
    if (!t->halves) gr_copy_floats(to, c + i * GR_WIDTH, columns);
  }
}
#endif

/* ---------------------------------------------------------------- one row: a walk through B */

#if GR_B_FORM == GR_B_LEVELS
GR_ALWAYS void GR_OF(gr_panels_line)(const gr_panels *p, const float *row, int64_t panel, GR_V *sums);
#define GR_WALK(p, row, panel, sums) GR_OF(gr_panels_line)(p, row, panel, sums)
#else
#define GR_LINES 4                     /* sums side by side, or each would wait for the one before */

/* Sums over ``units`` of the only row of as many columns of one panel as ``vectors`` hold, and zeros. */
GR_ALWAYS void GR_OF(gr_panels_line)(const float *a, const float *b, int64_t units, int vectors, GR_V *sums) {
  GR_V acc[GR_LINES][GR_PANEL / GR_ISA_LANES] = {{{0}}};
  int64_t p = 0;
  for (; p + GR_LINES <= units; p += GR_LINES) {
#pragma GCC unroll 4
    for (int l = 0; l < GR_LINES; ++l) {
      /* memory is far: far enough ahead to hide it, within a page so that the address is mapped mostly */
      __builtin_prefetch(b + (p + l) * GR_PANEL + 1024);
      if (vectors * GR_ISA_LANES > 16) __builtin_prefetch(b + (p + l) * GR_PANEL + 1024 + 16);
#pragma GCC unroll 2
      for (int half = 0; half < GR_HALVES; ++half) {
        float x = a[(p + l) * GR_HALVES + half];
        GR_V all = GR_ISA_SPLAT(x);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v)
          acc[l][v] = GR_TERM(all, GR_B_LOAD(b + (p + l) * GR_PANEL + v * GR_ISA_LANES, half), acc[l][v]);
      }
    }
  }
  for (; p < units; ++p) {
#pragma GCC unroll 2
    for (int half = 0; half < GR_HALVES; ++half) {
      float x = a[p * GR_HALVES + half];
      GR_V all = GR_ISA_SPLAT(x);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v)
        acc[0][v] = GR_TERM(all, GR_B_LOAD(b + p * GR_PANEL + v * GR_ISA_LANES, half), acc[0][v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < GR_PANEL / GR_ISA_LANES; ++v)
    sums[v] = (acc[0][v] + acc[1][v]) + (acc[2][v] + acc[3][v]);
}

#if GR_B_FORM == GR_B_FLOATS
/* The last panel is often half empty: then half of it is read. */
GR_ALWAYS void GR_OF(gr_panels_whole_line)(const gr_panels *p, const float *row, int64_t panel, GR_V *sums) {
  const float *b = p->b + panel * p->k * GR_PANEL;
  if (p->n - panel * GR_PANEL > GR_PANEL / 2)
    GR_OF(gr_panels_line)(row, b, p->k, GR_PANEL / GR_ISA_LANES, sums);
  else
    GR_OF(gr_panels_line)(row, b, p->k, GR_PANEL / GR_ISA_LANES / 2, sums);
}
#define GR_WALK(p, row, panel, sums) GR_OF(gr_panels_whole_line)(p, row, panel, sums)
#else
#define GR_WALK(p, row, panel, sums) \
  GR_OF(gr_panels_rounded_line)(row, p->b + (panel) * gr_ceil_div(p->k, GR_UNIT) * GR_PANEL, p->k, p->halves, sums)
/* The same over k elements that are still to be rounded, or widened. */
GR_ALWAYS void GR_OF(gr_panels_rounded_line)(const float *a, const float *b, int64_t k, int halves, GR_V *sums) {
  _Alignas(64) float part[GR_A_ROW];
  GR_V more[GR_PANEL / GR_ISA_LANES], zero = {0};
  for (int v = 0; v < GR_PANEL / GR_ISA_LANES; ++v) sums[v] = zero;
  for (int64_t first = 0; first < k; first += GR_DEPTH) {
    int64_t depth = gr_min(GR_DEPTH, k - first);
    if (halves) gr_copy_halves((gr_half *)part, (const gr_half *)a + first, depth);
    else gr_copy_floats(part, a + first, depth);
    GR_OF(gr_panels_round)(part, depth, halves);
    GR_OF(gr_panels_line)(part, b + first / GR_UNIT * GR_PANEL, gr_ceil_div(depth, GR_UNIT), GR_PANEL / GR_ISA_LANES,
                          more);
#pragma GCC unroll 8
    for (int v = 0; v < GR_PANEL / GR_ISA_LANES; ++v) sums[v] += more[v];
  }
}
#endif
#endif

static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_panels_vector)(const gr_panels *p, int64_t row,
                                                                            int64_t first, int64_t last) {
  const float *a = gr_element(p->a, row * p->a_row, p->halves);
  for (int64_t panel = first; panel < last; ++panel) {
    GR_V sums[GR_PANEL / GR_ISA_LANES];
    float line[GR_PANEL];
    GR_WALK(p, a, panel, sums);
    memcpy(line, sums, sizeof line);
    int64_t column = panel * GR_PANEL, columns = gr_min(GR_PANEL, p->n - column);
    float *c = gr_element(p->c, row * p->c_row + column, p->halves);
    const float *extra = p->extra ? gr_element(p->extra, row * p->c_row + column, p->halves) : NULL;
    for (int64_t j = 0; j < columns; ++j) {
      float x = line[j];
      if (p->bias) x += p->bias[column + j];
      if (extra) x += p->halves ? gr_bf16_to_float(((const gr_half *)extra)[j]) : extra[j];
      if (p->clamp) x = x < p->least ? p->least : x > p->most ? p->most : x;
      line[j] = x;
    }
    if (!p->halves) memcpy(c, line, (size_t)columns * 4);
    else if (p->after) p->after(p, row, 1, column, columns, line, GR_PANEL);
    else for (int64_t j = 0; j < columns; ++j) ((gr_half *)c)[j] = gr_float_to_bf16(line[j]);
  }
  int64_t column = first * GR_PANEL;
  if (p->after && !p->halves)
    p->after(p, row, 1, column, gr_min(p->n, last * GR_PANEL) - column, p->c + row * p->c_row + column, p->c_row);
}

/* ---------------------------------------------------------------- blocks */

/* Rows of the next strip of ``left``: as many as a tile has, but not so that the last have too few sums to hide their
 * latency. */
GR_ALWAYS int64_t GR_OF(gr_panels_strip_rows)(int64_t left) {
  return left > GR_ISA_ROWS && left < GR_ISA_ROWS + 4 ? left - left / 2 : gr_min(GR_ISA_ROWS, left);
}

/* A depth of k, elements first .. last-1 of all, of which from .. to-1 are multiplied. */
typedef struct GR_OF(gr_depth) {
  int64_t first, last, from, to;
} GR_OF(gr_depth);

/* Elements of k that a block of A has at a time. */
GR_ALWAYS int64_t GR_OF(gr_panels_deep)(const gr_panels *p) {
  return GR_B_FORM == GR_B_DOTS && (p->halves || !p->gather) ? 2 * GR_DEPTH : GR_DEPTH;
}

/* Elements of a depth that are not zero in these rows. */
GR_ALWAYS GR_OF(gr_depth) GR_OF(gr_panels_depth)(const gr_panels *p, int64_t row, int64_t rows, int64_t first) {
  int64_t last = gr_min(p->k, first + GR_OF(gr_panels_deep)(p)), from = first, to = last;
  if (p->extent) {
    p->extent(p, row, rows, &from, &to);
    from = gr_min(last, gr_max(first, from / GR_UNIT * GR_UNIT));
    to = gr_max(from, gr_min(last, to));
  }
  return (GR_OF(gr_depth)){first, last, from, to};
}

/* The part of a panel's next B that a tile at column ``half`` asks for. */
GR_ALWAYS void GR_OF(gr_panels_look)(gr_tile *t, const gr_ahead *next, int64_t panel, int64_t half, int64_t units) {
  if (next->strips < 2 || panel >= next->end) return;
  int64_t each = GR_PANEL / GR_WIDTH, part = next->strip * each + half / GR_WIDTH;
  int64_t step = gr_max(2, gr_ceil_div(GR_PANEL, next->strips * each));
  if (part * step >= GR_PANEL) return;
  t->ahead = t->b - half + next->jump + part * step * units;
  t->ahead_step = step;
}

/* Rows of A, a depth of k, times panels panel .. panel_end-1; b: the first of those elements of the first panel.
 * kept: NULL, or where the sums of these rows and panels are kept until C, which is bf16, is made of them. */
GR_ALWAYS void GR_OF(gr_panels_strip)(const gr_panels *p, gr_a_rows a, int in_place, int64_t row, int64_t rows,
                                       GR_OF(gr_depth) d, int64_t panel, int64_t panel_end, const float *b,
                                       const gr_ahead *next, float *kept) {
  int last = d.last == p->k;
  int64_t step = gr_ceil_div(p->k, GR_UNIT) * GR_PANEL;
  for (; panel < panel_end; ++panel, b += step) {
    for (int64_t half = 0; half < GR_PANEL; half += GR_WIDTH, kept += kept ? GR_WIDTH : 0) {
      int64_t column = panel * GR_PANEL + half, columns = gr_min(GR_WIDTH, p->n - column);
      if (columns <= 0) break;
      gr_tile t = {.a = a, .b = b + half, .c_row = p->c_row, .columns = columns, .halves = p->halves,
                   .bias = p->bias && d.first == 0 ? p->bias + column : NULL,
                   .extra = p->extra && last ? gr_element(p->extra, row * p->c_row + column, p->halves) : NULL,
                   .c = gr_element(p->c, row * p->c_row + column, p->halves), .clamp = p->clamp && last,
                   .least = p->least, .most = p->most, .ahead = b + half};
      t.sums = d.first == 0 ? NULL : kept ? kept : t.c;
      t.sums_row = kept ? GR_SUMS_ROW : p->c_row;
      if (kept && (!last || p->after)) {
        t.c = kept;
        t.c_row = GR_SUMS_ROW;
        t.halves = 0;
      }
      GR_OF(gr_panels_look)(&t, next, panel, half, gr_ceil_div(d.to - d.from, GR_UNIT));
      int vectors = columns > GR_ISA_LANES ? 2 : 1;
#ifndef GR_ISA_MASKED
      if (columns % GR_ISA_LANES != 0) {
        GR_OF(gr_panels_edge)(&t, rows, columns, in_place);
        continue;
      }
#endif
      if (in_place)
        GR_OF(gr_panels_in_place)(&t, vectors);
      else
        GR_OF(gr_panels_rows)(&t, rows, vectors);
    }
  }
}

#if GR_B_FORM == GR_B_LEVELS
#include "levels_isa.h"
#else
/* Whether a tile can read these rows where they lie: then how. Not where they would drive each other out of the
 * cache. */
GR_ALWAYS int GR_OF(gr_panels_lies)(const gr_panels *p, int64_t row, int64_t rows, GR_OF(gr_depth) d, gr_a_rows *found) {
  gr_a_rows lies;
  if (p->gather && (!p->in_place || d.to - d.from < p->k)) return 0;
  if ((p->gather ? p->in_place : gr_rows_lie)(p, row, rows, &lies) < rows || lies.row % GR_A_CROWDED == 0) return 0;
  if (!p->gather) {
    int unit = p->halves ? 2 : 1;
    lies.a += d.from / unit;
    lies.run = (d.to - d.from) / unit;
  }
  *found = lies;
  return 1;
}

#if (GR_B_FORM == GR_B_FLOATS || GR_B_FORM == GR_B_DOTS) && defined(GR_ISA_SHORT)
#include "short_isa.h"
#define GR_ROWS_DONE(p, row, row_end, from, to) GR_OF(gr_short_rows)(p, row, row_end, from, to)
#else
#define GR_ROWS_DONE(p, row, row_end, from, to) (row)
#endif

static __attribute__((noinline)) GR_ISA_TARGET void GR_OF(gr_panels_block)(const gr_panels *p, int64_t row,
                                                                            int64_t row_end, int64_t panel,
                                                                            int64_t panel_end) {
  if (p->rows == 1 && p->gather == NULL) {
    GR_OF(gr_panels_vector)(p, row, panel, panel_end);
    return;
  }
  _Alignas(64) float a[GR_ISA_ROWS * GR_A_ROW];
#if GR_B_FORM == GR_B_FLOATS
  float *kept = NULL;
#else
  _Alignas(64) float sums[GR_ISA_ROWS * GR_SUMS_ROW], *kept = NULL;
  if (p->halves && (p->after || p->k > GR_OF(gr_panels_deep)(p))) kept = sums;
#endif
  /* If enough panels of all of k fit into the second cache, k is the inner loop and C is written once; else a depth of
   * k passes all rows before the next. */
  int64_t bytes = gr_group_bytes();
  int64_t group = gr_max(1, bytes / (4 * GR_PANEL * gr_max(gr_ceil_div(p->k, GR_UNIT), 1)));
  int inside = group >= gr_min(4, panel_end - panel);
  if (p->halves) inside = 1;           /* sums are kept of one strip at a time */
  if (!inside) group = gr_max(1, bytes / (4 * GR_PANEL * GR_OF(gr_panels_deep)(p) / GR_UNIT));
  if (kept) group = gr_min(group, GR_SUMS_PANELS);
  int64_t strips = gr_ceil_div(row_end - row, GR_ISA_ROWS), units = gr_ceil_div(p->k, GR_UNIT);
  for (int64_t from = panel; from < panel_end; from += group) {
    int64_t to = gr_min(panel_end, from + group), column = from * GR_PANEL;
    for (int64_t top = row, bottom; top < row_end; top = bottom) {
      bottom = GR_ROWS_DONE(p, top, row_end, from, to);
      if (bottom > top) continue;
      bottom = inside ? top + GR_OF(gr_panels_strip_rows)(row_end - top) : row_end;
      int64_t first = 0;
      do {
        int64_t rows, more = gr_min(GR_OF(gr_panels_deep)(p), p->k - first);
        for (int64_t i = top; i < bottom; i += rows) {
          rows = GR_OF(gr_panels_strip_rows)(bottom - i);
          GR_OF(gr_depth) d = GR_OF(gr_panels_depth)(p, i, rows, first);
          gr_a_rows found = {a, GR_A_ROW, 1, 0, 1, 0, gr_ceil_div(d.to - d.from, GR_UNIT)};
          int in_place = (GR_B_FORM == GR_B_FLOATS || (GR_B_FORM == GR_B_DOTS && p->halves)) &&
                         rows == GR_ISA_ROWS && GR_OF(gr_panels_lies)(p, i, rows, d, &found);
          if (!in_place) GR_OF(gr_panels_take)(p, i, rows, d.from, d.to, a);
          const float *b = p->b + (from * units + d.from / GR_UNIT) * GR_PANEL;
          gr_ahead next = {group * units * GR_PANEL, panel_end - group, (i - row) / GR_ISA_ROWS, strips};
          if (!inside && first + more < p->k)
            next = (gr_ahead){more / GR_UNIT * GR_PANEL, to, next.strip, strips};
          else if (!inside)
            next.jump -= first / GR_UNIT * GR_PANEL;
          GR_OF(gr_panels_strip)(p, found, in_place, i, rows, d, from, to, b, &next, kept);
          if (p->after && d.last == p->k)
            p->after(p, i, rows, column, gr_min(p->n, to * GR_PANEL) - column,
                     kept ? kept : p->c + i * p->c_row + column, kept ? GR_SUMS_ROW : p->c_row);
        }
        first += more;
      } while (first < p->k);
    }
  }
}
#endif

#undef GR_WIDTH
#undef GR_LINES
#undef GR_AHEAD
#undef GR_WALK
#undef GR_ROWS_DONE
#undef GR_OF
#undef GR_OF_
#undef GR_UNIT
#undef GR_HALVES
#undef GR_B_LOAD
#undef GR_TERM
#undef GR_B_FORM
#undef GR_ISA_ROWS
#include "isa/end.h"
