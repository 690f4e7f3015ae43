/* words.h: how a tt kernel was asked to compute: the words that follow an op's own, as
 * ir/ops/numerics.py lists them. Those of the matrix unit are thirteen; a kernel of the vector unit has
 * one, whether functions are those of ttnn.
 *
 * Included by: the bodies of this folder. Static inline and without state.
 * defines: gr_tt_direction, gr_tt_words, gr_tt_words_of, gr_tt_phases
 */
#ifndef GR_TT_WORDS_H
#define GR_TT_WORDS_H

#include "gr_abi.h"

enum gr_tt_direction { GR_TT_R = 1, GR_TT_C = 2, GR_TT_RZ = 3, GR_TT_CZ = 4 };

typedef struct gr_tt_words {
  int32_t fidelity;        /* 1 LoFi .. 4 HiFi4; 0 none named */
  int32_t dst_bits;        /* 16 or 32 */
  int exact, ttnn;         /* how: see ir/ops/numerics.py */
  int64_t grid[2], t, direction, mblock[2], ublock[2], u_kt, l1; /* all 0: the kernel chooses */
} gr_tt_words;

static inline gr_tt_words gr_tt_words_of(const int64_t *w) {
  gr_tt_words words = {.fidelity = (int32_t)w[0], .dst_bits = (int32_t)w[1], .exact = w[2] == 1, .ttnn = w[2] == 2,
                       .grid = {w[3], w[4]}, .t = w[5], .direction = w[6], .mblock = {w[7], w[8]},
                       .ublock = {w[9], w[10]}, .u_kt = w[11], .l1 = w[12]};
  return words;
}

/* Phases of the multiplier; nothing named is full products. */
static inline int32_t gr_tt_phases(const gr_tt_words *words) { return words->fidelity ? words->fidelity : 4; }

#endif
