/* fours.h: four by four elements of four bytes, three by four, and eight by eight of two, turned.
 *
 * Included by: movement.h, planes.h. Thread: any.
 * defines: gr_turn_four, gr_turn_eight, gr_turn_three
 */
#ifndef GR_CPU_FOURS_H
#define GR_CPU_FOURS_H

#include "cpu/common.h"

typedef uint32_t gr_four __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint16_t gr_eight __attribute__((vector_size(16), aligned(2), may_alias));

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define GR_SHUFFLES 1
#endif
#endif
#ifndef GR_SHUFFLES
#define GR_SHUFFLES 0
#endif

/* Four elements of four bytes of each of four rows of x, ``step`` elements apart -> the same of out, turned. */
GR_INLINE void gr_turn_four(void *out, int64_t out_step, const void *x, int64_t step) {
  const uint32_t *from = x;
  uint32_t *to = out;
#if GR_SHUFFLES
  gr_four a = *(const gr_four *)from, b = *(const gr_four *)(from + step);
  gr_four c = *(const gr_four *)(from + 2 * step), d = *(const gr_four *)(from + 3 * step);
  gr_four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  *(gr_four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  *(gr_four *)(to + out_step) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *(gr_four *)(to + 2 * out_step) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  *(gr_four *)(to + 3 * out_step) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#else
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) to[i * out_step + j] = from[i + j * step];
#endif
}

/* Eight elements of two bytes of each of eight rows of x, ``step`` elements apart -> the same of out, turned. */
GR_INLINE void gr_turn_eight(void *out, int64_t out_step, const void *x, int64_t step) {
  const uint16_t *from = x;
  uint16_t *to = out;
#if GR_SHUFFLES
  gr_eight rows[8], turned[8];
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) rows[j] = *(const gr_eight *)(from + j * step);
  /* Three times rows j and j + 4 are put in turn: then row i has element i of all. */
#pragma GCC unroll 3
  for (int pass = 0; pass < 3; ++pass) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      turned[2 * j] = __builtin_shufflevector(rows[j], rows[j + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      turned[2 * j + 1] = __builtin_shufflevector(rows[j], rows[j + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) rows[j] = turned[j];
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) *(gr_eight *)(to + i * out_step) = rows[i];
#else
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) to[i * out_step + j] = from[i + j * step];
#endif
}

/* Four elements of four bytes of each of three rows of x, ``step`` elements apart -> four threes, side by side. */
GR_INLINE void gr_turn_three(void *out, const void *x, int64_t step) {
  const uint32_t *from = x;
  uint32_t *to = out;
#if GR_SHUFFLES
  gr_four a = *(const gr_four *)from, b = *(const gr_four *)(from + step), c = *(const gr_four *)(from + 2 * step);
  gr_four ab = __builtin_shufflevector(a, b, 0, 4, 1, 3), bc = __builtin_shufflevector(b, c, 1, 5, 2, 6);
  gr_four ca = __builtin_shufflevector(c, a, 2, 7, 3, 3);
  *(gr_four *)to = __builtin_shufflevector(ab, c, 0, 1, 4, 2);
  *(gr_four *)(to + 4) = __builtin_shufflevector(bc, a, 0, 1, 6, 2);
  *(gr_four *)(to + 8) = __builtin_shufflevector(ca, b, 0, 1, 7, 2);
#else
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 3; ++j) to[i * 3 + j] = from[i + j * step];
#endif
}

#endif
