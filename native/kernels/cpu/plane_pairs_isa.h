/* plane_pairs_isa.h: planes.h's panels in pairs of bf16, for instruction sets that multiply them (isa/avx512bf16.h);
 * included once for each, by planes.h only.
 *
 * defines: GR_ISA(gr_pack_pairs)
 */

/* Floats rounded to bf16 in the upper halves; what lies below them is of no use. Ties to even, a NaN stays one. */
GR_ALWAYS GR_VI GR_ISA(gr_plane_rounded)(GR_V x) {
  GR_VI bits = (GR_VI)x, nan = (bits & 0x7fffffff) > 0x7f800000;
  return ((bits + 0x7fff + (bits >> 16 & 1)) & ~nan) | ((bits | 0x400000) & nan);
}

/* Two rows of k, of which elements lie beside each other. */
GR_ALWAYS void GR_ISA(gr_pack_pair_of_rows)(const float *first, const float *second, int64_t columns, float *to) {
#pragma GCC unroll 2
  for (int v = 0; v < GR_PANEL; v += GR_ISA_LANES) {
    unsigned short some = GR_ISA_FIRST(columns - v);
    GR_VI low = GR_ISA(gr_plane_rounded)(GR_ISA_LOAD_SOME(first + v, some)), high = {0};
    if (second) high = GR_ISA(gr_plane_rounded)(GR_ISA_LOAD_SOME(second + v, some));
    *(GR_VI *)(to + v) = (low >> 16 & 0xffff) | (high & ~0xffff);
  }
}

/* A panel of b, whose element (p, column) is b[p * row + column * step]; either step is 1. */
GR_ALWAYS void GR_ISA(gr_pack_pairs_panel)(const float *b, int64_t k, int64_t row, int64_t step, int64_t columns,
                                           float *to) {
  int64_t units = gr_ceil_div(k, 2);
  if (step == 1) {
    for (int64_t u = 0; u < units; ++u, b += 2 * row)
      GR_ISA(gr_pack_pair_of_rows)(b, 2 * u + 1 < k ? b + row : NULL, columns, to + u * GR_PANEL);
    return;
  }
  _Alignas(64) float words[GR_PANEL * GR_ISA_LANES];      /* a vector of pairs of each column */
  if (columns < GR_PANEL) memset(to, 0, (size_t)(units * GR_PANEL) * 4);
  for (int64_t first = 0; first < units; first += GR_ISA_LANES, to += GR_ISA_LANES * GR_PANEL) {
    int64_t left = k - 2 * first, end = gr_min(units - first, GR_ISA_LANES), whole = end & ~(int64_t)3, j = 0;
    for (int64_t i = 0; i < columns; ++i) {
      const float *from = b + i * step + 2 * first;
      *(GR_V *)(words + i * GR_ISA_LANES) =
          GR_ISA(gr_pairs)(GR_ISA_LOAD_SOME(from, GR_ISA_FIRST(left)),
                           GR_ISA_LOAD_SOME(from + GR_ISA_LANES, GR_ISA_FIRST(left - GR_ISA_LANES)));
    }
    for (; j + 4 <= columns; j += 4)
      for (int64_t u = 0; u < whole; u += 4)
        gr_turn_four(to + u * GR_PANEL + j, GR_PANEL, words + j * GR_ISA_LANES + u, GR_ISA_LANES);
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t u = i < j ? whole : 0; u < end; ++u)
        memcpy(to + u * GR_PANEL + i, words + i * GR_ISA_LANES + u, 4);
  }
}

/* All panels of a plane. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_pack_pairs)(const float *b, int64_t k, int64_t n,
                                                                          int64_t row, int64_t step, float *to) {
  for (int64_t column = 0; column < n; column += GR_PANEL, to += gr_ceil_div(k, 2) * GR_PANEL)
    GR_ISA(gr_pack_pairs_panel)(b + column * step, k, row, step, gr_min(GR_PANEL, n - column), to);
}

#include "isa/end.h"
