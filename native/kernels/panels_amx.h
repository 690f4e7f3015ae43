/* panels_amx.h: panels.h where B is pairs of bf16, or levels that may be rounded to bf16, and the machine has AMX
 * (isa/amx.h); included by panels.h only.
 *
 * A block is 32 rows by 32 columns, four tiles of sums, two of A and two of B: a step of 32 elements of k is four loads
 * and four products. Two rows of k lie beside each other in a panel as a tile of B wants them. A is rounded to bf16 and
 * laid out tile behind tile, for some rows, a turn: few where all panels stay in the second cache, so that A stays in
 * the nearest; else many, so that each panel comes from further on once a turn, a depth of k at a time. Levels become
 * pairs of bf16 panel by panel, once a turn and depth.
 *
 * defines: gr_panels_block_amx
 */
#include "isa/amx_block.h"

#define GR_AMX_DEPTH 32                /* elements of k of a tile */
#define GR_AMX_TILE 1024               /* bytes */
#define GR_AMX_A 262144                /* bytes of A of a turn, at most: a part of the second cache */
#define GR_AMX_NEAR 24576              /* of a short turn: half of the nearest cache */
#define GR_AMX_TURN 512                /* rows of a turn, at most */
#define GR_AMX_LEVELS 512              /* of k that are written out at a time */
#define GR_AMX_AHEAD 8192              /* bytes that B is asked for before its use */

typedef struct gr_amx_turn {
  int64_t row, row_end, first, last;   /* rows, and elements of k */
  int64_t panel, panel_end;
  int64_t tiles;                       /* of a row of A: room for all of first .. last-1 */
  int64_t from[GR_AMX_TURN / GR_AMX_ROWS], to[GR_AMX_TURN / GR_AMX_ROWS]; /* of each block, what is not zero of k */
  uint8_t *a;                          /* [blocks][2][tiles] tiles */
} gr_amx_turn;

/* ---------------------------------------------------------------- A */

/* ``depth`` floats as bf16 in tiles' rows, with zeros to the end of the last. */
GR_ALWAYS void gr_amx_round(const float *from, int64_t depth, uint8_t *to) {
  int64_t i = 0;
  for (; i + GR_AMX_DEPTH <= depth; i += GR_AMX_DEPTH, to += GR_AMX_TILE)
    *(GR_V *)to = GR_ISA(gr_pairs)(*(const GR_V *)(from + i), *(const GR_V *)(from + i + 16));
  if (i < depth)
    *(GR_V *)to = GR_ISA(gr_pairs)(GR_ISA_LOAD_SOME(from + i, GR_ISA_FIRST(depth - i)),
                                   GR_ISA_LOAD_SOME(from + i + 16, GR_ISA_FIRST(depth - i - 16)));
}

/* The same of elements of A that may be bf16 (halves). */
GR_ALWAYS void gr_amx_take(const float *from, int64_t depth, uint8_t *to, int halves) {
  if (!halves) {
    gr_amx_round(from, depth, to);
    return;
  }
  const gr_half *at = (const gr_half *)from;
  for (; depth >= GR_AMX_DEPTH; depth -= GR_AMX_DEPTH, at += GR_AMX_DEPTH, to += GR_AMX_TILE) memcpy(to, at, 64);
  if (depth <= 0) return;
  memset(to, 0, 64);
  memcpy(to, at, (size_t)depth * 2);
}

/* Converts by way of floats. */
GR_ALWAYS void gr_amx_staged(const gr_panels *p, int64_t row, int64_t rows, int64_t from, int64_t to, uint8_t *tiles) {
  _Alignas(64) float some[16 * GR_A_ROW];
  for (; from < to; from += GR_DEPTH, tiles += GR_DEPTH / GR_AMX_DEPTH * GR_AMX_TILE) {
    int64_t end = gr_min(to, from + GR_DEPTH);
    p->gather(p, row, rows, from, end, some);
    for (int64_t i = 0; i < rows; ++i) gr_amx_take(some + i * GR_A_ROW, end - from, tiles + i * 64, p->halves);
  }
}

/* Up to 16 rows of A, elements from .. to-1 of k, as a row of tiles. Runs of whole tiles are read where they lie. */
GR_ALWAYS void gr_amx_gather(const gr_panels *p, int64_t row, int64_t rows, int64_t from, int64_t to, uint8_t *tiles) {
  if (p->gather == NULL) {
    for (int64_t i = 0; i < rows; ++i)
      gr_amx_take(gr_element(p->a, (row + i) * p->a_row + from, p->halves), to - from, tiles + i * 64, p->halves);
    return;
  }
  if (from > 0 || to < p->k || !p->in_place) {
    gr_amx_staged(p, row, rows, from, to, tiles);
    return;
  }
  for (int64_t end = row + rows; row < end; ++row, tiles += 64) {
    gr_a_rows lies;
    uint8_t *next = tiles;
    int there = p->in_place(p, row, 1, &lies) == 1, unit = p->halves ? 2 : 1;
    int whole = there && lies.run * unit % GR_AMX_DEPTH == 0;
    if (!whole) {
      int64_t some = there ? end - row : 1;                /* of runs that fill no tiles there are no others */
      gr_amx_staged(p, row, some, from, to, tiles);
      row += some - 1;
      tiles += (some - 1) * 64;
      continue;
    }
    for (int64_t l = 0; l < lies.lines; ++l)
      for (int64_t r = 0; r < lies.runs; ++r, next += lies.run * unit / GR_AMX_DEPTH * GR_AMX_TILE)
        gr_amx_take(lies.a + l * lies.line + r * lies.step, lies.run * unit, next, p->halves);
  }
}

static __attribute__((noinline)) GR_ISA_TARGET void gr_amx_turn_rows(const gr_panels *p, gr_amx_turn *t) {
  uint8_t *a = t->a;
  for (int64_t row = t->row; row < t->row_end; row += GR_AMX_ROWS) {
    int64_t from = t->first, to = t->last, block = (row - t->row) / GR_AMX_ROWS;
    if (p->extent) {
      p->extent(p, row, gr_min(GR_AMX_ROWS, t->row_end - row), &from, &to);
      from = gr_min(t->last, gr_max(t->first, from / 2 * 2));
      to = gr_max(from, gr_min(t->last, to));
    }
    t->from[block] = from;
    t->to[block] = to;
    for (int64_t i = row; i < row + GR_AMX_ROWS; i += 16, a += t->tiles * GR_AMX_TILE)
      if (i < t->row_end) gr_amx_gather(p, i, gr_min(16, t->row_end - i), from, to, a);
  }
}

/* ---------------------------------------------------------------- a block */

/* The sums of a block become results: ``vectors`` of 16 columns, the last maybe less. */
GR_ALWAYS void gr_amx_results(const gr_tile *t, const float *sums, int64_t rows, int vectors) {
  const GR_V low = GR_ISA_SPLAT(t->least), high = GR_ISA_SPLAT(t->most);
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    unsigned short some = GR_ISA_FIRST(t->columns - 16 * v);
    GR_V bias = {0};
    if (t->bias) bias = GR_ISA_LOAD_SOME(t->bias + 16 * v, some);
    for (int64_t i = 0; i < rows; ++i) {
      float *c = gr_element(t->c, i * t->c_row + 16 * v, t->halves);
      const float *extra = gr_element(t->extra, i * t->c_row + 16 * v, t->halves);
      GR_V x = *(const GR_V *)(sums + i * GR_PANEL + 16 * v);
      if (t->sums) x += GR_ISA_LOAD_SOME(c, some);
      else x += bias;
      if (t->extra) x += t->halves ? GR_ISA(gr_wide_some)(extra, some) : GR_ISA_LOAD_SOME(extra, some);
      if (t->clamp) x = GR_ISA_MIN(high, GR_ISA_MAX(low, x));
      if (t->halves) GR_ISA(gr_narrow_some)(c, x, some);
      else GR_ISA_STORE_SOME(c, x, some);
    }
  }
}

/* The last lines of a panel, which fill no tile, with zeros behind them. */
GR_ALWAYS void gr_amx_rest(const uint8_t *b, int64_t lines, uint8_t *rest) {
  memcpy(rest, b, (size_t)lines * 128);
  memset(rest + lines * 128, 0, (size_t)(16 - lines) * 128);
}

/* All rows of a turn times one panel; ``b``: from element t->first of k on, there are ``lines`` of it. */
static __attribute__((noinline)) GR_ISA_TARGET void gr_amx_column(const gr_panels *p, const gr_amx_turn *t,
                                                                  int64_t panel, const uint8_t *b, int64_t lines) {
  _Alignas(64) float sums[GR_AMX_ROWS * GR_PANEL];
  _Alignas(64) uint8_t rest[GR_AMX_STEP];
  int64_t kept = -1, column = panel * GR_PANEL, columns = gr_min(GR_PANEL, p->n - column);
  const uint8_t *a = t->a;
  int last = t->last == p->k;
  for (int64_t row = t->row; row < t->row_end; row += GR_AMX_ROWS, a += 2 * t->tiles * GR_AMX_TILE) {
    int64_t block = (row - t->row) / GR_AMX_ROWS, rows = gr_min(GR_AMX_ROWS, t->row_end - row);
    int64_t from = t->from[block], to = t->to[block], steps = gr_ceil_div(to - from, GR_AMX_DEPTH);
    int64_t line = (from - t->first) / 2;
    const uint8_t *tail = NULL, *at = b + line * 128;
    int ask = row == t->row && !p->bits;
    if (steps && line + steps * 16 > lines) {
      int64_t left = line + --steps * 16;
      if (left != kept) gr_amx_rest(b + left * 128, lines - (kept = left), rest);
      tail = rest;
    }
    gr_amx_steps all = {a, 64, GR_AMX_TILE, t->tiles * GR_AMX_TILE, at, tail, steps, ask ? GR_AMX_AHEAD : 0};
    gr_amx_block(&all, sums, rows, columns, 0);
    gr_tile made = {.c_row = p->c_row, .bias = p->bias && t->first == 0 ? p->bias + column : NULL,
                    .extra = p->extra && last ? gr_element(p->extra, row * p->c_row + column, p->halves) : NULL,
                    .c = gr_element(p->c, row * p->c_row + column, p->halves), .columns = columns,
                    .halves = p->halves, .clamp = p->clamp && last, .least = p->least, .most = p->most};
    if (t->first > 0) made.sums = made.c;
    if (p->halves && p->after) {       /* of sums with their bias */
      made.c = sums;
      made.c_row = GR_PANEL;
      made.halves = 0;
    }
    gr_amx_results(&made, sums, rows, columns > 16 ? 2 : 1);
    if (p->halves && p->after) p->after(p, row, rows, column, columns, sums, GR_PANEL);
  }
}

/* ---------------------------------------------------------------- levels */

/* Floats as pairs of bf16, ``first`` in the low halves: rounded to nearest, ties away from zero. */
GR_ALWAYS GR_VI gr_amx_pair(GR_V first, GR_V second) {
  typedef uint32_t words __attribute__((vector_size(64), aligned(4), may_alias));
  return (GR_VI)(((words)first + 0x8000) >> 16 | (((words)second + 0x8000) & 0xffff0000));
}

/* Elements first .. last-1 of k of a panel as pairs, zeros to the end of the last tile. */
GR_ALWAYS void gr_amx_write_levels(const gr_panels *p, int64_t panel, int64_t first, int64_t last, uint8_t *to,
                                   int bits, int zeros) {
  GR_V table = gr_levels_look_up_levels_avx512();
  const int each = 32 / bits;
  int64_t k = first;
  while (k < last) {
    gr_levels_block_levels_avx512 b = gr_levels_at_levels_avx512(p, panel, k, bits);
    int64_t stop = gr_min(last, (k / p->block + 1) * p->block);
    GR_V zero[2], scale[2];
    for (int v = 0; v < 2; ++v) {
      zero[v] = gr_levels_zero_levels_avx512(b.zeros, v, bits);
      scale[v] = *(const GR_V *)(b.scales + v * 16);
    }
    for (; k < stop; k += each, b.words += GR_PANEL, to += each * 64)
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        GR_VI words = *(const GR_VI *)(b.words + v * 16);
#pragma GCC unroll 4
        for (int j = 0; j < each; j += 2)
          *(GR_VI *)(to + j * 64 + v * 64) =
              gr_amx_pair(gr_levels_of_levels_avx512(words, j, bits, zeros, table, zero[v]) * scale[v],
                          gr_levels_of_levels_avx512(words, j + 1, bits, zeros, table, zero[v]) * scale[v]);
      }
  }
  for (; (k - first) % GR_AMX_DEPTH; k += each, to += each * 64) memset(to, 0, (size_t)each * 64);
}

/* The same, all rows of a turn times it. */
static __attribute__((noinline)) GR_ISA_TARGET void gr_amx_level_column(const gr_panels *p, const gr_amx_turn *t,
                                                                        int64_t panel) {
  _Alignas(64) uint8_t b[GR_AMX_LEVELS * 64];
  if (p->bits == 8) gr_amx_write_levels(p, panel, t->first, t->last, b, 8, 1);
  else if (p->zeros) gr_amx_write_levels(p, panel, t->first, t->last, b, 4, 1);
  else gr_amx_write_levels(p, panel, t->first, t->last, b, 4, 0);
  gr_amx_column(p, t, panel, b, gr_ceil_div(t->last - t->first, GR_AMX_DEPTH) * 16);
}

/* ---------------------------------------------------------------- turns */

static __attribute__((noinline)) GR_ISA_TARGET void gr_panels_block_amx(const gr_panels *p, int64_t row,
                                                                        int64_t row_end, int64_t panel,
                                                                        int64_t panel_end) {
  _Alignas(64) uint8_t a[GR_AMX_A];
  int64_t padded = gr_max(gr_ceil_div(p->k, GR_AMX_DEPTH), 1) * GR_AMX_DEPTH, bytes = 2 * gr_group_bytes();
  int64_t all = (panel_end - panel) * 64 * padded, depth = padded, group = panel_end - panel, turn;
  if (p->bits) {
    turn = gr_min(gr_ceil_div(row_end - row, GR_AMX_ROWS) * GR_AMX_ROWS, GR_AMX_TURN);
    depth = gr_min(gr_min(padded, GR_AMX_LEVELS), GR_AMX_A / (2 * turn) / GR_AMX_DEPTH * GR_AMX_DEPTH);
  } else if (all <= bytes && GR_AMX_ROWS * 2 * padded <= GR_AMX_A) {
    turn = gr_max(GR_AMX_NEAR / (2 * padded + 4 * GR_PANEL * group) / GR_AMX_ROWS, 1) * GR_AMX_ROWS;
  } else if (p->halves) {              /* sums of all of k, because they are written once */
    turn = GR_AMX_A / (2 * padded) / GR_AMX_ROWS * GR_AMX_ROWS;
  } else {
    turn = gr_min(gr_ceil_div(row_end - row, GR_AMX_ROWS) * GR_AMX_ROWS, 256);
    depth = gr_min(padded, GR_AMX_A / (2 * turn) / GR_AMX_DEPTH * GR_AMX_DEPTH);
  }
  gr_amx_turn t = {.tiles = depth / GR_AMX_DEPTH, .panel = panel, .panel_end = panel_end, .a = a};
  turn = gr_min(gr_min(turn, GR_AMX_TURN), GR_AMX_A / (2 * depth) / GR_AMX_ROWS * GR_AMX_ROWS);
  int64_t column = panel * GR_PANEL, columns = gr_min(p->n, panel_end * GR_PANEL) - column;
  gr_amx_open();
  for (t.row = row; t.row < row_end; t.row = t.row_end) {
    t.row_end = gr_min(row_end, t.row + turn);
    t.first = 0;
    do {
      t.last = gr_min(p->k, t.first + depth);
      gr_amx_turn_rows(p, &t);
      int64_t lines = gr_ceil_div(p->k, 2);
      for (int64_t at = panel; at < panel_end; ++at) {
        if (p->bits) gr_amx_level_column(p, &t, at);
        else gr_amx_column(p, &t, at, (const uint8_t *)p->b + (at * lines + t.first / 2) * 128, lines - t.first / 2);
      }
      t.first = t.last;
    } while (t.first < p->k);
    if (p->after && !p->halves)
      p->after(p, t.row, t.row_end - t.row, column, columns, p->c + t.row * p->c_row + column, p->c_row);
  }
  gr_amx_close();
}
#undef GR_AMX_DEPTH
#undef GR_AMX_TILE
#undef GR_AMX_A
#undef GR_AMX_NEAR
#undef GR_AMX_TURN
#undef GR_AMX_AHEAD
#undef GR_AMX_LEVELS
#include "isa/end.h"
