/* winograd.h: conv2d of 3 x 3 taps at stride 1 over NHWC images by Winograd's F(4 x 4, 3 x 3): a tile of 4 x 4
 * pixels of the result takes 36 products a pair of channels, where its windows take 144.
 *
 * A tile's 6 x 6 pixels of the image become 36 rows (enter), each of which is multiplied by its own matrix of
 * weights (panels.h), and the 36 products become 4 x 4 pixels (leave). The points are 0, +-sqrt(1/2),
 * +-sqrt(2) and infinity, whose sums lose less than those of whole numbers; docs/cpu.md has the error. A task works
 * on GR_TILES of them at a time, so that rows and products stay in the second cache. Of an image of few tiles, whose
 * weights are most of what is read, each task makes some columns of all of them rather than all of some.
 *
 * Sums of a tile lose what its greatest pixel makes them lose, where windows that do not read it would not. So a tile
 * of a wide range is made by windows, from taps that the weights still hold.
 *
 * Included by: conv_winograd.h. Thread: any.
 * defines: gr_winograd, gr_winograd_run
 */
#ifndef GR_CPU_WINOGRAD_H
#define GR_CPU_WINOGRAD_H

#include "panels.h"

#define GR_TILES 28                    /* that a task works on at a time: at most the bits of a mask, 32 */
#define GR_TILE_SLOTS 64               /* tasks at most: winograd.py, _SLOTS */
#define GR_TILE_ROOM 448               /* tiles of all tasks at a time, at most: winograd.py, _ROOM */
#define GR_TILE_SHARES 2               /* tasks that make columns of the same tiles, at most: winograd.py, _SHARES */
#define GR_TILE 4                      /* pixels of the result along a side of a tile */
#define GR_POINTS 6                    /* pixels of the image that it reads along a side */
#define GR_PLACES (GR_POINTS * GR_POINTS)
#define GR_TILE_RANGE 65536.0          /* squares of a block of 2 x 2 pixels to those of another: more is wide */
#define GR_TILE_DOUBT 256.0f           /* of rows of a tile to others: fewer cannot be wide */

typedef struct gr_winograd {
  const float *x;                      /* [n][h][w][c] */
  float *out;                          /* [n][oh][ow][o] */
  int64_t h, w, c, oh, ow, o, top, left;
  int64_t down, across, tiles;         /* tiles of an image, and all */
  int64_t bundles, channels, columns;  /* of groups that share panels, and of each of them: packed.py */
  const float *weights;                /* [36][bundles][panels of columns][channels][32] */
  const float *bias, *extra;           /* NULL or [o]; NULL or what is added, laid out as out */
  int clamp;
  float least, most;
  void (*after)(const struct gr_winograd *s, int64_t pixel, int64_t pixels); /* NULL, or what is done with finished ones */
  const void *steps;                   /* after's own */
  float *scratch;
  int64_t parts, shares;               /* of the tiles, and of the columns: a task for each of both */
  int64_t slot, block;                 /* floats of scratch of a task, and tiles that it works on at a time */
  int64_t c_row, o_row, wide;          /* floats of a row and of a product; of these, those of a bundle */
  int64_t place, column;               /* floats of weights from place to place; of the result, the first column */
} gr_winograd;

/* Place of a tile: its image, and the upper left pixel of its result. */
typedef struct gr_winograd_tile {
  int64_t n, y, x;
} gr_winograd_tile;

GR_INLINE gr_winograd_tile gr_winograd_at(const gr_winograd *s, int64_t tile) {
  int64_t across = tile % s->across, down = tile / s->across;
  return (gr_winograd_tile){down / s->down, down % s->down * GR_TILE, across * GR_TILE};
}

/* The pixels of the image that a tile reads, zeros outside, channels padded to c_row. */
static void gr_winograd_patch(const gr_winograd *s, const gr_winograd_tile *at, float *to) {
  const float *image = s->x + at->n * s->h * s->w * s->c;
  for (int64_t p = 0; p < GR_POINTS; ++p) {
    for (int64_t q = 0; q < GR_POINTS; ++q, to += s->c_row) {
      int64_t y = at->y - s->top + p, x = at->x - s->left + q, read = 0;
      if (y >= 0 && y < s->h && x >= 0 && x < s->w) {
        memcpy(to, image + (y * s->w + x) * s->c, (size_t)s->c * 4);
        read = s->c;
      }
      memset(to + read, 0, (size_t)(s->c_row - read) * 4);
    }
  }
}

/* Whether a tile reads nothing outside of the image, whole vectors of channels. */
GR_INLINE int gr_winograd_inside(const gr_winograd *s, const gr_winograd_tile *at) {
  int64_t y = at->y - s->top, x = at->x - s->left;
  return s->c % 16 == 0 && y >= 0 && x >= 0 && y + GR_POINTS <= s->h && x + GR_POINTS <= s->w;
}

/* ---------------------------------------------------------------- tiles of a wide range */

/* Whether a tile may be of a wide range: by the squares of four rows, which each pixel is in one of. */
GR_INLINE int gr_winograd_doubtful(const gr_winograd *s, const float *squares) {
  float least = squares[0], most = squares[0];
  for (int k = 1; k < 4; ++k) {
    least = squares[k] < least ? squares[k] : least;
    most = squares[k] > most ? squares[k] : most;
  }
  float all = squares[0] + squares[1] + squares[2] + squares[3]; /* a NaN is in it */
  return !(all <= (float)GR_TILE_RANGE * (float)s->c) || !(most <= GR_TILE_DOUBT * least);
}

/* Whether its range is wide. Each window of 3 x 3 holds one of nine blocks of 2 x 2 pixels, so that the least of these
 * says what a result may be as small as. Zeros are no size: beside them a block's numbers may be up to 256. */
static __attribute__((noinline)) int gr_winograd_is_wide(const gr_winograd *s, const gr_winograd_tile *at,
                                                         float *patch) {
  double blocks[3][3] = {{0}}, least = HUGE_VAL, most = 0, all = 0;
  int64_t down = gr_min(GR_TILE, s->oh - at->y) / 2, across = gr_min(GR_TILE, s->ow - at->x) / 2;
  int zeros = 0;
  gr_winograd_patch(s, at, patch);
  for (int p = 0; p < GR_POINTS; ++p) {
    for (int q = 0; q < GR_POINTS; ++q) {
      const float *d = patch + (p * GR_POINTS + q) * s->c_row;
      double sum = 0;
      for (int64_t c = 0; c < s->c; ++c) sum += (double)d[c] * d[c];
      blocks[p / 2][q / 2] += sum;
    }
  }
  for (int p = 0; p < 3; ++p) {
    for (int q = 0; q < 3; ++q) {
      double sum = blocks[p][q];
      all += sum;
      if (sum > most) most = sum;
      if (p > down || q > across) continue; /* no window of a result has it */
      if (sum == 0) zeros = 1;
      else if (sum < least) least = sum;
    }
  }
  return !(all < HUGE_VAL) || most > GR_TILE_RANGE * least || (zeros && most > GR_TILE_RANGE);
}

/* A line of four places, those of 0, +-sqrt(1/2) and infinity, as its three taps; of a panel's columns. */
GR_INLINE void gr_winograd_tap(const float *zero, const float *plus, const float *minus, const float *last,
                               float (*taps)[GR_PANEL], int step) {
  for (int k = 0; k < GR_PANEL; ++k) {
    taps[0][k] = zero[k];
    taps[step][k] = (minus[k] - plus[k]) * 1.0606601717798212f; /* 3 / (4 sqrt(1/2)) */
    taps[2 * step][k] = last[k];
  }
}

/* A tile's pixels of a panel of columns, from ``column`` on of a bundle: window by window. */
static void gr_winograd_panel(const gr_winograd *s, const gr_winograd_tile *at, const float *patch, int64_t bundle,
                              int64_t column) {
  static const int PLACES[] = {0, 1, 2, 5};
  float sums[GR_TILE * GR_TILE][GR_PANEL] = {{0}}, half[12][GR_PANEL], taps[9][GR_PANEL];
  const float *w = s->weights + (bundle * gr_ceil_div(s->columns, GR_PANEL) + column / GR_PANEL) * s->channels * GR_PANEL;
  for (int64_t c = 0; c < s->channels; ++c, w += GR_PANEL) {
    const float *d = patch + bundle * s->channels + c;
    for (int q = 0; q < 4; ++q) {
      const float *from = w + PLACES[q] * s->place;
      int64_t row = GR_POINTS * s->place;
      gr_winograd_tap(from, from + row, from + 2 * row, from + 5 * row, half + q, 4);
    }
    for (int p = 0; p < 3; ++p)
      gr_winograd_tap(half[p * 4], half[p * 4 + 1], half[p * 4 + 2], half[p * 4 + 3], taps + p * 3, 1);
    for (int pixel = 0; pixel < GR_TILE * GR_TILE; ++pixel) {
      for (int tap = 0; tap < 9; ++tap) {
        int y = pixel / GR_TILE + tap / 3, x = pixel % GR_TILE + tap % 3;
        float by = d[(y * GR_POINTS + x) * s->c_row];
        for (int k = 0; k < GR_PANEL; ++k) sums[pixel][k] += by * taps[tap][k];
      }
    }
  }
  int64_t first = bundle * s->columns + column, count = gr_min(GR_PANEL, s->columns - column);
  for (int64_t pixel = 0; pixel < GR_TILE * GR_TILE; ++pixel) {
    int64_t y = at->y + pixel / GR_TILE, x = at->x + pixel % GR_TILE;
    if (y >= s->oh || x >= s->ow) continue;
    int64_t to = ((at->n * s->oh + y) * s->ow + x) * s->o + first;
    for (int64_t k = 0; k < count; ++k) {
      float made = sums[pixel][k] + (s->bias ? s->bias[first + k] : 0);
      if (s->extra) made += s->extra[to + k];
      if (s->clamp) {
        made = s->least > made ? s->least : made; /* a NaN stays */
        made = s->most < made ? s->most : made;
      }
      s->out[to + k] = made;
    }
  }
}

/* The tiles of a bit in ``wide``, from tile ``first`` on. */
static void gr_winograd_windows(const gr_winograd *s, int64_t first, uint32_t wide, float *patch) {
  for (; wide; wide >>= 1, ++first) {
    if (!(wide & 1)) continue;
    gr_winograd_tile at = gr_winograd_at(s, first);
    gr_winograd_patch(s, &at, patch);
    for (int64_t bundle = 0; bundle < s->bundles; ++bundle)
      for (int64_t column = 0; column < s->columns; column += GR_PANEL)
        gr_winograd_panel(s, &at, patch, bundle, column);
  }
}

/* ---------------------------------------------------------------- one a machine */

#include "isa/any.h"
#include "cpu/winograd_isa.h"

#if defined(__x86_64__)
#include "isa/avx2.h"
#include "cpu/winograd_isa.h"

#include "isa/avx512.h"
#include "cpu/winograd_isa.h"
#elif defined(__aarch64__)
#include "isa/neon.h"
#include "cpu/winograd_isa.h"
#endif

/* ---------------------------------------------------------------- which instruction set */

static uint32_t gr_winograd_enter(const gr_winograd *s, int64_t first, int64_t tiles, float *rows, float *patch) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) {
    return gr_winograd_enter_avx512(s, first, tiles, rows, patch);
  }
  if (GR_HAS_AVX2) {
    return gr_winograd_enter_avx2(s, first, tiles, rows, patch);
  }
#elif defined(__aarch64__)
  if (GR_NEON) {
    return gr_winograd_enter_neon(s, first, tiles, rows, patch);
  }
#endif
  return gr_winograd_enter_any(s, first, tiles, rows, patch);
}

static void gr_winograd_leave(const gr_winograd *s, int64_t first, int64_t tiles, const float *made,
                              uint32_t wide) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) {
    gr_winograd_leave_avx512(s, first, tiles, made, wide);
    return;
  }
  if (GR_HAS_AVX2) {
    gr_winograd_leave_avx2(s, first, tiles, made, wide);
    return;
  }
#elif defined(__aarch64__)
  if (GR_NEON) {
    gr_winograd_leave_neon(s, first, tiles, made, wide);
    return;
  }
#endif
  gr_winograd_leave_any(s, first, tiles, made, wide);
}

/* ---------------------------------------------------------------- all of the result */

/* Rows times weights, for each of the 36 places of a tile. They have a gather, a single one too: without, its sums
 * would be of another order, and how many a task has depends on the threads. */
static void gr_winograd_multiply(const gr_winograd *s, int64_t tiles, const float *rows, float *made) {
  int64_t panels = gr_ceil_div(s->columns, GR_PANEL);
  gr_panels p = {.rows = tiles, .n = s->wide, .k = s->channels, .a_row = s->c_row, .gather = gr_gather_rows,
                 .in_place = gr_rows_lie, .c_row = s->o_row};
  for (int64_t place = 0; place < GR_PLACES; ++place) {
    p.b = s->weights + place * s->place;
    for (int64_t bundle = 0; bundle < s->bundles; ++bundle, p.b += panels * s->channels * GR_PANEL) {
      p.a = rows + place * s->block * s->c_row + bundle * s->channels;
      p.c = made + place * s->block * s->o_row + bundle * s->wide;
      gr_panels_serial(&p);
    }
  }
}

/* The steps on the pixels of tiles first .. last-1, as far as they lie side by side. */
static void gr_winograd_follow(const gr_winograd *s, int64_t first, int64_t last) {
  while (first < last) {
    gr_winograd_tile at = gr_winograd_at(s, first);
    int64_t run = gr_min(last - first, s->across - first % s->across);
    for (int64_t y = at.y; y < gr_min(s->oh, at.y + GR_TILE); ++y)
      s->after(s, (at.n * s->oh + y) * s->ow + at.x, gr_min(s->ow - at.x, run * GR_TILE));
    first += run;
  }
}

/* Of the only bundle, one of the shares of its columns. */
static gr_winograd gr_winograd_share(const gr_winograd *s, int64_t share) {
  int64_t panels = gr_ceil_div(s->columns, GR_PANEL), first = panels * share / s->shares;
  gr_winograd own = *s;
  own.column = first * GR_PANEL;
  own.columns = gr_min(s->columns, panels * (share + 1) / s->shares * GR_PANEL) - own.column;
  own.wide = gr_ceil_div(own.columns, 16) * 16;
  own.weights += first * s->channels * GR_PANEL;
  own.out += own.column;
  if (own.bias) own.bias += own.column;
  if (own.extra) own.extra += own.column;
  return own;
}

static int32_t gr_winograd_task(void *ctx, int64_t index) {
  const gr_winograd *all = ctx;
  gr_winograd s = all->shares > 1 ? gr_winograd_share(all, index % all->shares) : *all;
  float *rows = s.scratch + index * s.slot, *made = rows + GR_PLACES * s.block * s.c_row;
  float *patch = made + GR_PLACES * s.block * s.o_row;
  int64_t part = index / s.shares, tile = s.tiles * part / s.parts, end = s.tiles * (part + 1) / s.parts;
  int64_t turns = gr_ceil_div(end - tile, s.block); /* as even as they can be */
  for (; turns > 0; --turns) {
    int64_t tiles = gr_ceil_div(end - tile, turns);
    uint32_t wide = gr_winograd_enter(&s, tile, tiles, rows, patch);
    gr_winograd_multiply(&s, tiles, rows, made);
    gr_winograd_leave(&s, tile, tiles, made, wide);
    if (wide) gr_winograd_windows(&s, tile, wide, patch);
    if (s.after) gr_winograd_follow(&s, tile, tile + tiles);
    tile += tiles;
  }
  return GR_OK;
}

/* Parts for each thread, two if there are tiles enough: each passes all of the weights. A thread whose tiles are less
 * than a block of rows shares them with another, and each reads a share of the weights. */
static void gr_winograd_cut(gr_winograd *s, int64_t threads) {
  int64_t bytes = s->place * GR_PLACES * 4;
  s->parts = threads > 1 && s->tiles >= 2 * threads * GR_TILES ? 2 * threads : threads;
  s->shares = 1;
  if (threads > 1 && s->tiles < threads * GR_BLOCK_ROWS && s->bundles == 1 && bytes > gr_group_bytes()) {
    s->shares = gr_min(GR_TILE_SHARES, gr_ceil_div(s->columns, GR_PANEL));
    s->parts = gr_ceil_div(threads, s->shares);
  }
  s->parts = gr_min(s->parts, gr_min(s->tiles, GR_TILE_SLOTS / s->shares));
}

/* Sizes are set, and what is read and written; the rest is set here. */
static inline int32_t gr_winograd_run(const gr_env *env, gr_winograd *s, int64_t images) {
  s->down = gr_ceil_div(s->oh, GR_TILE);
  s->across = gr_ceil_div(s->ow, GR_TILE);
  s->tiles = images * s->down * s->across;
  s->wide = gr_ceil_div(s->columns, 16) * 16;
  s->c_row = gr_ceil_div(s->c, 16) * 16 + 16; /* no power of two, so that no two rows collide */
  s->o_row = s->bundles * s->wide + 16;
  s->place = s->bundles * gr_ceil_div(s->columns, GR_PANEL) * s->channels * GR_PANEL;
  gr_winograd_cut(s, env->num_cores);
  s->block = gr_min(GR_TILES, gr_min(s->tiles, GR_TILE_ROOM / s->shares) / s->parts);
  s->slot = GR_PLACES * (s->block * (s->c_row + s->o_row) + s->c_row);
  return env->parallel_for(env, s->parts * s->shares, gr_winograd_task, s);
}

#endif
