/* winograd_isa.h: winograd.h for one instruction set; included once for each, and by winograd.h only.
 *
 * defines: GR_ISA(gr_winograd_enter), GR_ISA(gr_winograd_leave)
 */

#define GR_NEAR 0.70710678118654752f   /* sqrt(1/2) */
#define GR_FAR 1.41421356237309505f    /* sqrt(2) */

/* A line of six pixels as the products take it. */
GR_ALWAYS void GR_ISA(gr_winograd_line)(const GR_V *d, GR_V *t) {
  const GR_V two = GR_ISA_SPLAT(-2.0f), half = GR_ISA_SPLAT(-0.5f), middle = GR_ISA_SPLAT(-2.5f);
  const GR_V close = GR_ISA_SPLAT(GR_NEAR), away = GR_ISA_SPLAT(GR_FAR);
  GR_V even = GR_ISA_FUSED(two, d[2], d[4]), odd = close * GR_ISA_FUSED(two, d[1], d[3]);
  t[0] = GR_ISA_FUSED(middle, d[2], d[0] + d[4]);
  t[1] = even + odd;
  t[2] = even - odd;
  even = GR_ISA_FUSED(half, d[2], d[4]);
  odd = away * GR_ISA_FUSED(half, d[1], d[3]);
  t[3] = even + odd;
  t[4] = even - odd;
  t[5] = GR_ISA_FUSED(middle, d[3], d[1] + d[5]);
}

/* Six products as a line of four pixels. */
GR_ALWAYS void GR_ISA(gr_winograd_pixels)(const GR_V *m, GR_V *y) {
  const GR_V two = GR_ISA_SPLAT(2.0f), half = GR_ISA_SPLAT(0.5f);
  const GR_V close = GR_ISA_SPLAT(GR_NEAR), away = GR_ISA_SPLAT(GR_FAR);
  GR_V near_sum = m[1] + m[2], near_rest = close * (m[1] - m[2]);
  GR_V far_sum = m[3] + m[4], far_rest = away * (m[3] - m[4]);
  y[0] = m[0] + near_sum + far_sum;
  y[1] = near_rest + far_rest;
  y[2] = GR_ISA_FUSED(two, far_sum, half * near_sum);
  y[3] = GR_ISA_FUSED(two, far_rest, GR_ISA_FUSED(half, near_rest, m[5]));
}

/* A vector of channels of a tile: its pixels at from[p * line + q * pixel], its rows at to[place * plane]. Squares of
 * the four rows of which each pixel is in one, with a factor of 1 at least, are added to ``seen``. */
GR_ALWAYS void GR_ISA(gr_winograd_vector)(const float *from, int64_t line, int64_t pixel, float *to, int64_t plane,
                                          GR_V *seen) {
  GR_V half[GR_POINTS][GR_POINTS];
#pragma GCC unroll 6
  for (int q = 0; q < GR_POINTS; ++q) {
    GR_V d[GR_POINTS], t[GR_POINTS];
#pragma GCC unroll 6
    for (int p = 0; p < GR_POINTS; ++p) d[p] = *(const GR_V *)(from + p * line + q * pixel);
    GR_ISA(gr_winograd_line)(d, t);
#pragma GCC unroll 6
    for (int p = 0; p < GR_POINTS; ++p) half[p][q] = t[p];
  }
#pragma GCC unroll 6
  for (int p = 0; p < GR_POINTS; ++p) {
    GR_V t[GR_POINTS];
    GR_ISA(gr_winograd_line)(half[p], t);
#pragma GCC unroll 6
    for (int q = 0; q < GR_POINTS; ++q) *(GR_V *)(to + (p * GR_POINTS + q) * plane) = t[q];
    if (p == 0 || p == GR_POINTS - 1) {
      GR_V *own = seen + (p ? 2 : 0);
      own[0] = GR_ISA_FUSED(t[0], t[0], own[0]);
      own[1] = GR_ISA_FUSED(t[5], t[5], own[1]);
    }
  }
}

/* Tiles first .. first+tiles-1 of the image as rows[place][tile][channel]; a bit for each that takes windows. */
static __attribute__((noinline)) GR_ISA_TARGET uint32_t GR_ISA(gr_winograd_enter)(const gr_winograd *s, int64_t first,
                                                                                  int64_t tiles, float *rows,
                                                                                  float *patch) {
  uint32_t wide = 0;
  for (int64_t i = 0; i < tiles; ++i) {
    gr_winograd_tile at = gr_winograd_at(s, first + i);
    const float *from = patch;
    int64_t pixel = s->c_row, line = GR_POINTS * s->c_row;
    if (gr_winograd_inside(s, &at)) {
      from = s->x + ((at.n * s->h + at.y - s->top) * s->w + at.x - s->left) * s->c;
      pixel = s->c;
      line = s->w * s->c;
    } else {
      gr_winograd_patch(s, &at, patch);
    }
    GR_V seen[4] = {{0}, {0}, {0}, {0}};
    float squares[4] = {0};
    for (int64_t c = 0; c < s->c; c += GR_ISA_LANES)
      GR_ISA(gr_winograd_vector)(from + c, line, pixel, rows + i * s->c_row + c, s->block * s->c_row, seen);
    for (int k = 0; k < 4; ++k)
      for (int lane = 0; lane < GR_ISA_LANES; ++lane) squares[k] += seen[k][lane];
    if (gr_winograd_doubtful(s, squares) && gr_winograd_is_wide(s, &at, patch)) wide |= (uint32_t)1 << i;
  }
  return wide;
}

/* Up to a vector of floats, zeros behind them. */
GR_ALWAYS GR_V GR_ISA(gr_winograd_some)(const float *from, int64_t count) {
  float some[GR_ISA_LANES] = {0};
  if (count >= GR_ISA_LANES) return *(const GR_V *)from;
  memcpy(some, from, (size_t)count * 4);
  return *(const GR_V *)some;
}

/* A vector of one pixel: ``count`` columns of it from ``to`` on. */
GR_ALWAYS void GR_ISA(gr_winograd_pixel)(const gr_winograd *s, GR_V y, GR_V bias, float *to, int64_t count) {
  GR_V low = GR_ISA_SPLAT(s->least), high = GR_ISA_SPLAT(s->most);
  y += bias;
  if (s->extra) y += GR_ISA(gr_winograd_some)(s->extra + (to - s->out), count);
  if (s->clamp) y = GR_ISA_MIN(high, GR_ISA_MAX(low, y));
  if (count >= GR_ISA_LANES)
    *(GR_V *)to = y;
  else
    memcpy(to, &y, (size_t)count * 4);
}

/* A vector of columns of a tile: its products at from[place * plane]. */
GR_ALWAYS void GR_ISA(gr_winograd_columns)(const gr_winograd *s, const gr_winograd_tile *at, const float *from,
                                           int64_t column, int64_t count) {
  GR_V half[GR_TILE][GR_POINTS], bias = {0};
  int64_t plane = s->block * s->o_row, rows = gr_min(GR_TILE, s->oh - at->y), pixels = gr_min(GR_TILE, s->ow - at->x);
  float *to = s->out + ((at->n * s->oh + at->y) * s->ow + at->x) * s->o + column;
  if (s->bias) bias = GR_ISA(gr_winograd_some)(s->bias + column, count);
#pragma GCC unroll 6
  for (int q = 0; q < GR_POINTS; ++q) {
    GR_V m[GR_POINTS], y[GR_TILE];
#pragma GCC unroll 6
    for (int p = 0; p < GR_POINTS; ++p) m[p] = *(const GR_V *)(from + (p * GR_POINTS + q) * plane);
    GR_ISA(gr_winograd_pixels)(m, y);
#pragma GCC unroll 4
    for (int p = 0; p < GR_TILE; ++p) half[p][q] = y[p];
  }
  for (int64_t p = 0; p < rows; ++p, to += s->ow * s->o) {
    GR_V y[GR_TILE];
    GR_ISA(gr_winograd_pixels)(half[p], y);
#pragma GCC unroll 4
    for (int q = 0; q < GR_TILE; ++q)
      if (q < pixels) GR_ISA(gr_winograd_pixel)(s, y[q], bias, to + q * s->o, count);
  }
}

/* made[place][tile][column] as the pixels of tiles first .. first+tiles-1, but for those of a bit in ``wide``. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_winograd_leave)(const gr_winograd *s, int64_t first,
                                                                              int64_t tiles, const float *made,
                                                                              uint32_t wide) {
  for (int64_t i = 0; i < tiles; ++i) {
    if (wide >> i & 1) continue;
    gr_winograd_tile at = gr_winograd_at(s, first + i);
    for (int64_t bundle = 0; bundle < s->bundles; ++bundle) {
      for (int64_t j = 0; j < s->columns; j += GR_ISA_LANES)
        GR_ISA(gr_winograd_columns)(s, &at, made + i * s->o_row + bundle * s->wide + j, bundle * s->columns + j,
                                    s->columns - j);
    }
  }
}

#undef GR_NEAR
#undef GR_FAR
#include "isa/end.h"
