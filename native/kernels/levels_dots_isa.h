/* levels_dots_isa.h: panels.h where B is levels (levels_isa.h) and the instruction set multiplies bytes
 * (isa/bytes.h); included by panels.h only.
 *
 * A becomes whole numbers: of a segment of a row, which is a block of B or GR_SEGMENT of its elements, the greatest
 * is a number of one, two or four bytes, and the others are rounded to the same scale. Its digits, signed bytes,
 * are multiplied with the levels; sums of a segment are exact, and become floats times both scales. Of four the
 * last bit is 2^-31 of the greatest, so that elements down to 2^-7 of it keep all of theirs; of two 2^-15, of one
 * 2^-7, as MatMulNBits has it at accuracy_level 4. Levels of 4 bits are taken out of their words as they lie, even
 * and odd elements apart, so digits of A lie so, too. Segments are summed in order of k, by whichever thread:
 * threads change no bits.
 *
 * Elements that are not finite, and rows of tiny ones, have no such scale: gr_digits_of says so before.
 *
 * defines: gr_digits_of, gr_panels_block_digits
 */

#define GR_DIGITS 4                    /* at most */
#define GR_SEGMENT 128                 /* elements of k */
#define GR_DIGIT_LINE 8192             /* of k whose digits are at hand, of one row */
#define GR_DIGIT_DEPTH 512             /* and of more, */
#define GR_DIGIT_ROWS 48               /* of which so many wait for a panel's levels in the nearest caches */
#define GR_DIGIT_ROOM(depth) ((depth) / 4 + 16)          /* words of a digit: no power of two */
#define GR_DIGIT_TILE 6                /* rows of a tile, at most */
#define GR_DIGIT_FEW 4                 /* rows; of more, floats are as fast as four digits */

typedef gr_levels_block_levels_avx512 gr_digits_block;

/* Rows of A, elements ``first`` .. ``last`` - 1 of k. */
typedef struct gr_digits {
  int64_t first, last;
  int32_t *words;                      /* [row][GR_DIGITS][room], four bytes each */
  int64_t segments;                    /* of a row, room for */
  float *scales, *totals;              /* [row][segment]: the sum of its whole numbers */
  int32_t *middles;                    /* [row][segment][GR_DIGITS]: what sums begin with, as levels have a middle */
} gr_digits;

/* Elements from k on that make a segment; ``in``: of those that their block has before. */
GR_ALWAYS int64_t gr_digits_segment(const gr_panels *p, int64_t in, int64_t k, int64_t last) {
  return gr_min(gr_min(GR_SEGMENT, p->block - in), last - k);
}

/* The bits of the greatest magnitude: NaN is above infinity. */
GR_ALWAYS int32_t gr_digits_greatest(const float *x, int64_t n) {
  GR_VI most = {0};
  int32_t greatest = 0;
  for (int64_t i = 0; i < n; i += GR_ISA_LANES) {
    GR_VI size = (GR_VI)GR_ISA_LOAD_SOME(x + i, GR_ISA_FIRST(n - i)) & 0x7fffffff;
    most ^= (most ^ size) & (size > most);
  }
  for (int i = 0; i < GR_ISA_LANES; ++i)
    if (most[i] > greatest) greatest = most[i];
  return greatest;
}

/* Whether all rows of A have digits. */
static __attribute__((noinline)) GR_ISA_TARGET int gr_digits_serve(const gr_panels *p) {
  for (int64_t i = 0; i < p->rows; ++i) {
    int32_t greatest = gr_digits_greatest(p->a + i * p->a_row, p->k);
    if (greatest >= 0x7f800000 || (greatest && greatest < 0x21800000)) return 0;       /* 2^-60 */
  }
  return 1;
}

/* Number of digits of each element of A; 0: floats are multiplied. */
static inline int gr_digits_of(const gr_panels *p) {
  int digits = p->narrow ? 1 : p->rows <= GR_DIGIT_FEW ? 4 : p->rounded ? 2 : 0;
  return p->bits && digits && !p->gather && gr_digits_serve(p) ? digits : 0;
}

/* ---------------------------------------------------------------- digits of A */

/* A segment of a row to whole numbers; ``at``: of its first word. */
GR_ALWAYS void gr_digits_make(const gr_digits *d, int64_t row, int64_t segment, const float *x, int64_t n,
                              int64_t at, int64_t room, int bits, int digits) {
  static const int32_t apart[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  const float most = digits == 1 ? 127 : digits == 2 ? 127 * 256 : 127 * 0x1p24f;
  int32_t greatest = gr_digits_greatest(x, n);
  int32_t *middles = d->middles + (row * d->segments + segment) * GR_DIGITS;
  float size, raise = greatest < 0x21800000 ? 0x1p64f : 1;
  memcpy(&size, &greatest, sizeof size);
  float factor = greatest ? most / (size * raise) : 0;
  GR_V one = GR_ISA_SPLAT(raise), all = GR_ISA_SPLAT(factor);
  GR_VI sums[GR_DIGITS] = {{0}}, order;
  memcpy(&order, apart, sizeof order);
  for (int64_t i = 0; i < n; i += GR_ISA_LANES) {
    GR_V values = GR_ISA_LOAD_SOME(x + i, GR_ISA_FIRST(n - i));
    if (bits == 4) values = GR_ISA_SHUFFLE(values, order);
    values = values * one * all;
    GR_VI half = ((GR_VI)values & (int32_t)0x80000000) | 0x3f000000;
    GR_VI number = __builtin_convertvector(values + (GR_V)half, GR_VI);
#pragma GCC unroll 4
    for (int j = 0; j < digits; ++j) {
      GR_VI digit = (number + (0x808080 & ((1 << 8 * j) - 1))) >> 8 * j;
      GR_BYTES bytes = GR_BYTES_LOWEST(digit);
      memcpy(d->words + (row * GR_DIGITS + j) * room + at + i / 4, &bytes, sizeof bytes);
      sums[j] += digit << 24 >> 24;
    }
  }
  double whole = 0;
  for (int j = 0; j < digits; ++j) {
    int32_t sum = 0;
    for (int i = 0; i < GR_ISA_LANES; ++i) sum += sums[j][i];
    middles[j] = -sum * (1 << (bits - 1));
    whole += (double)sum * (1 << 8 * j);
  }
  d->scales[row * d->segments + segment] = size / most;
  d->totals[row * d->segments + segment] = (float)whole;
}

GR_ALWAYS void gr_digits_row(const gr_panels *p, const gr_digits *d, int64_t row, const float *x, int64_t room,
                             int bits, int digits) {
  const int each = 32 / bits;
  int64_t in = d->first % p->block, at = 0;
  for (int64_t k = d->first, segment = 0, n; k < d->last; k += n, in += n, ++segment) {
    if (in == p->block) in = 0;
    n = gr_digits_segment(p, in, k, d->last);
    gr_digits_make(d, row, segment, x + k, n, at, room, bits, digits);
    at += gr_ceil_div(n, each) * each / 4;
  }
}

/* ---------------------------------------------------------------- products */

/* Words of a panel, ``count`` rows of them, times digits of the rows from the word ``a`` on. */
GR_ALWAYS void gr_digits_words(const int32_t *a, int64_t room, const int32_t *b, int64_t count, int rows,
                               int bits, int digits, GR_VI (*sums)[GR_DIGITS][2]) {
  enum { AHEAD = 2048 };
  const int halves = bits == 4 ? 2 : 1;
  for (; count > 0; --count, b += GR_PANEL, a += halves) {
    GR_VI levels[2][2];
    __builtin_prefetch(b + AHEAD);
    __builtin_prefetch(b + AHEAD + 16);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      GR_VI words = *(const GR_VI *)(b + v * GR_ISA_LANES);
      levels[0][v] = words & (bits == 4 ? 0x0f0f0f0f : -1);
      levels[1][v] = words >> 4 & 0x0f0f0f0f;
    }
#pragma GCC unroll 2
    for (int half = 0; half < halves; ++half)
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < digits; ++j) {
          int32_t word = a[(i * GR_DIGITS + j) * room + half];
          GR_VI all = GR_ISA_SPLAT(word);
#pragma GCC unroll 2
          for (int v = 0; v < 2; ++v) sums[i][j][v] = GR_ISA(gr_dot)(levels[half][v], all, sums[i][j][v]);
        }
  }
}

/* Whole numbers next to zeros, as far as levels are; a NaN is the least. */
GR_ALWAYS GR_VI gr_digits_near(GR_V zeros) {
  GR_V least = GR_ISA_SPLAT(0.0f), most = GR_ISA_SPLAT(255.0f);
  return __builtin_convertvector(GR_ISA_MIN(GR_ISA_MAX(zeros, least), most) + 0.5f, GR_VI);
}

/* Sums of a segment, digit by digit, to those of the row. */
GR_ALWAYS void gr_digits_add(const gr_digits *d, gr_digits_block b, int64_t row, int64_t segment, int bits,
                             int digits, GR_VI (*found)[2], GR_V *sums) {
  int64_t at = row * d->segments + segment;
  float scale = d->scales[at], total = d->totals[at];
  GR_V step = GR_ISA_SPLAT(scale), all = GR_ISA_SPLAT(total), next = GR_ISA_SPLAT(256.0f);
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    GR_V between = {0};
    if (b.zeros) {
      GR_V zeros = *(const GR_V *)(b.zeros + v * GR_ISA_LANES);
      GR_VI near = gr_digits_near(zeros);
      between = __builtin_convertvector(near, GR_V) - zeros;
#pragma GCC unroll 4
      for (int j = 0; j < digits; ++j) /* a middle times the sum of the digits is in it */
        found[j][v] += (near - (1 << (bits - 1))) * (d->middles[at * GR_DIGITS + j] >> (bits - 1));
    }
    GR_V made = __builtin_convertvector(found[digits - 1][v], GR_V);
#pragma GCC unroll 4
    for (int j = digits - 2; j >= 0; --j) made = GR_ISA_FUSED(made, next, __builtin_convertvector(found[j][v], GR_V));
    if (b.zeros) made = GR_ISA_FUSED(between, all, made);
    sums[v] = GR_ISA_FUSED(made * step, *(const GR_V *)(b.scales + v * GR_ISA_LANES), sums[v]);
  }
}

/* The sums of rows ``first`` .. + rows - 1 of d and one panel. */
GR_ALWAYS void gr_digits_tile(const gr_panels *p, const gr_digits *d, int64_t first, int64_t room, int rows,
                              int64_t panel, int bits, int digits, GR_V (*sums)[2]) {
  const int each = 32 / bits;
  gr_digits_block b = gr_levels_at_levels_avx512(p, panel, d->first, bits);
  int64_t in = d->first % p->block;
  const int32_t *a = d->words + first * GR_DIGITS * room;
  for (int64_t k = d->first, segment = 0, n; k < d->last; k += n, in += n, ++segment) {
    if (in == p->block) {              /* the next block's head is behind these words */
      b.scales = (const float *)b.words;
      if (p->zeros) b.zeros = b.scales + GR_PANEL;
      b.words += p->zeros ? 2 * GR_PANEL : GR_PANEL;
      in = 0;
    }
    n = gr_digits_segment(p, in, k, d->last);
    GR_VI found[GR_DIGIT_TILE][GR_DIGITS][2];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < digits; ++j) {
        int32_t begin = d->middles[((first + i) * d->segments + segment) * GR_DIGITS + j];
        GR_VI all = GR_ISA_SPLAT(begin);
        found[i][j][0] = found[i][j][1] = all;
      }
    int64_t count = gr_ceil_div(n, each);
    gr_digits_words(a, room, b.words, count, rows, bits, digits, found);
    a += count * each / 4;
    b.words += count * GR_PANEL;
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) gr_digits_add(d, b, first + i, segment, bits, digits, found[i], sums[i]);
  }
}

/* ---------------------------------------------------------------- results */

/* Sums of earlier k. */
GR_ALWAYS GR_V gr_digits_begin(const gr_panels *p, const gr_digits *d, int64_t row, int64_t column) {
  GR_V zero = {0};
  return d->first ? GR_ISA_LOAD_SOME(p->c + row * p->c_row + column, GR_ISA_FIRST(p->n - column)) : zero;
}

/* Sums to C; with the last of k, what follows them. */
GR_ALWAYS void gr_digits_end(const gr_panels *p, const gr_digits *d, int64_t row, int64_t column, GR_V sum) {
  unsigned short some = GR_ISA_FIRST(p->n - column);
  if (d->last == p->k) {
    if (p->bias) sum += GR_ISA_LOAD_SOME(p->bias + column, some);
    if (p->extra) sum += GR_ISA_LOAD_SOME(p->extra + row * p->c_row + column, some);
    if (p->clamp) sum = gr_panels_clamp_levels_avx512(sum, p->least, p->most);
  }
  GR_ISA_STORE_SOME(p->c + row * p->c_row + column, sum, some);
}

/* Rows of C from ``row`` on, of d from ``first`` on, and one panel. */
GR_ALWAYS void gr_digits_strip(const gr_panels *p, const gr_digits *d, int64_t first, int64_t row, int64_t room,
                               int rows, int64_t panel, int bits, int digits) {
  GR_V sums[GR_DIGIT_TILE][2];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) sums[i][v] = gr_digits_begin(p, d, row + i, panel * GR_PANEL + v * GR_ISA_LANES);
  gr_digits_tile(p, d, first, room, rows, panel, bits, digits, sums);
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) gr_digits_end(p, d, row + i, panel * GR_PANEL + v * GR_ISA_LANES, sums[i][v]);
}

/* ---------------------------------------------------------------- rows and panels */

/* One row. */
GR_ALWAYS void gr_digits_line(const gr_panels *p, int64_t row, int64_t panel, int64_t panel_end, int bits,
                              int digits) {
  enum { ROOM = GR_DIGIT_ROOM(GR_DIGIT_LINE), SEGMENTS = GR_DIGIT_LINE / 4 };
  _Alignas(64) int32_t words[GR_DIGITS * ROOM], middles[SEGMENTS * GR_DIGITS];
  float scales[SEGMENTS], totals[SEGMENTS];
  gr_digits d = {0, 0, words, SEGMENTS, scales, totals, middles};
  do {
    d.last = gr_min(p->k, d.first + GR_DIGIT_LINE);
    gr_digits_row(p, &d, 0, p->a + row * p->a_row, ROOM, bits, digits);
    for (int64_t at = panel; at < panel_end; ++at) gr_digits_strip(p, &d, 0, row, ROOM, 1, at, bits, digits);
    d.first = d.last;
  } while (d.first < p->k);
}

/* ``rows`` of them, GR_DIGIT_ROWS at most, in tiles of ``tile``. */
GR_ALWAYS void gr_digits_turn(const gr_panels *p, int64_t row, int64_t rows, int64_t panel, int64_t panel_end,
                              int tile, int bits, int digits) {
  enum { ROOM = GR_DIGIT_ROOM(GR_DIGIT_DEPTH), SEGMENTS = GR_DIGIT_DEPTH / 4 };
  _Alignas(64) int32_t words[GR_DIGIT_ROWS * GR_DIGITS * ROOM], middles[GR_DIGIT_ROWS * SEGMENTS * GR_DIGITS];
  float scales[GR_DIGIT_ROWS * SEGMENTS], totals[GR_DIGIT_ROWS * SEGMENTS];
  gr_digits d = {0, 0, words, SEGMENTS, scales, totals, middles};
  do {
    d.last = gr_min(p->k, d.first + GR_DIGIT_DEPTH);
    for (int64_t i = 0; i < rows; ++i) gr_digits_row(p, &d, i, p->a + (row + i) * p->a_row, ROOM, bits, digits);
    for (int64_t at = panel; at < panel_end; ++at) {
      int64_t i = 0;
      for (; i + tile <= rows; i += tile) gr_digits_strip(p, &d, i, row + i, ROOM, tile, at, bits, digits);
      for (; i + 2 <= rows; i += 2) gr_digits_strip(p, &d, i, row + i, ROOM, 2, at, bits, digits);
      if (i < rows) gr_digits_strip(p, &d, i, row + i, ROOM, 1, at, bits, digits);
    }
    d.first = d.last;
  } while (d.first < p->k);
}

/* Not inlined: each holds the loops of all its tiles. */
#define GR_DIGITS_OF(bits, digits, tile)                                                                      \
  static __attribute__((noinline)) GR_ISA_TARGET void gr_digits_##bits##_##digits(                            \
      const gr_panels *p, int64_t row, int64_t rows, int64_t panel, int64_t panel_end) {                      \
    if (digits != 2 && p->rows == 1)                                                                          \
      gr_digits_line(p, row, panel, panel_end, bits, digits);                                                 \
    else                                                                                                      \
      gr_digits_turn(p, row, rows, panel, panel_end, tile, bits, digits);                                     \
  }
GR_DIGITS_OF(4, 1, 6)
GR_DIGITS_OF(4, 2, 4)
GR_DIGITS_OF(4, 4, 2)
GR_DIGITS_OF(8, 1, 6)
GR_DIGITS_OF(8, 2, 4)
GR_DIGITS_OF(8, 4, 2)
#undef GR_DIGITS_OF

static inline void gr_panels_block_digits(const gr_panels *p, int64_t row, int64_t row_end, int64_t panel,
                                          int64_t panel_end) {
  static void (*const of[2][3])(const gr_panels *, int64_t, int64_t, int64_t, int64_t) = {
      {gr_digits_4_1, gr_digits_4_2, gr_digits_4_4}, {gr_digits_8_1, gr_digits_8_2, gr_digits_8_4}};
  for (int64_t top = row; top < row_end; top += GR_DIGIT_ROWS) {
    int64_t rows = gr_min(GR_DIGIT_ROWS, row_end - top), column = panel * GR_PANEL;
    of[p->bits == 8][gr_min(p->digits, 3) - 1](p, top, rows, panel, panel_end);
    if (p->after)
      p->after(p, top, rows, column, gr_min(p->n, panel_end * GR_PANEL) - column, p->c + top * p->c_row + column,
               p->c_row);
  }
}
#undef GR_DIGITS
#undef GR_SEGMENT
#undef GR_DIGIT_LINE
#undef GR_DIGIT_DEPTH
#undef GR_DIGIT_ROWS
#undef GR_DIGIT_ROOM
#undef GR_DIGIT_TILE
#undef GR_DIGIT_FEW
#include "isa/end_bytes.h"
