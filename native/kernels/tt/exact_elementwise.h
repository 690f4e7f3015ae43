/* exact_elementwise.h: add, subtract and multiply of floats by the matrix unit, to the last bit
 * (native/ttsim/exact.h): a in SrcA, b in SrcB, Dst cleared before.
 *
 * Included by: elementwise.h. Thread: any; a core makes a panel of the output.
 * defines: gr_tt_is_exact, gr_tt_exact_binary
 */
#ifndef GR_TT_EXACT_ELEMENTWISE_H
#define GR_TT_EXACT_ELEMENTWISE_H

#include "exact.h"
#include "tt/words.h"
#include "tt/work.h"

typedef struct gr_tt_exact_pair {
  gr_tt_view in[2];
  int32_t op;
  gr_tt_words words;
} gr_tt_exact_pair;

/* Whether an op whose words are those of numerics alone shall be exact. Integers have one way only. */
static inline int gr_tt_is_exact(const gr_call *call) {
  return gr_tt_words_of(call->attrs).exact && gr_tt_is_float(call->args[2].format);
}

static inline int32_t gr_tt_exact_pair_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                             gr_tt_rect at) {
  const gr_tt_exact_pair *job = (const gr_tt_exact_pair *)ctx;
  int64_t size = cut->height * cut->width, bits = job->words.dst_bits;
  uint32_t *dst = (uint32_t *)(void *)c->space, *source[2] = {dst + size, dst + 2 * size};
  for (int i = 0; i < 2; ++i) {
    GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[i], &cut->view, at, source[i], cut->width));
    for (int64_t r = 0; r < at.nr; ++r)
      for (int64_t j = r * cut->width; j < r * cut->width + at.nc; ++j)
        source[i][j] = gr_exact_source(job->in[i].arg->format, source[i][j]);
  }
  for (int64_t r = 0; r < at.nr; ++r) {
    int64_t row = r * cut->width;
    memset(dst + row, 0, (size_t)at.nc * 4);
    gr_exact_elementwise(job->op, dst + row, source[0] + row, source[1] + row, at.nc,
                         gr_tt_phases(&job->words), (int32_t)bits);
    for (int64_t j = row; j < row + at.nc; ++j) dst[j] = gr_exact_packed(dst[j], (int32_t)bits);
  }
  return gr_tt_store(c, &cut->view, at, dst, cut->width, 0);
}

static inline int32_t gr_tt_exact_binary(const gr_call *call, int32_t op) {
  gr_tt_panels cut = gr_tt_cut(call, &call->args[2], 3);
  gr_tt_exact_pair job = {{gr_tt_view_of(&call->args[0]), gr_tt_view_of(&call->args[1])}, op,
                          gr_tt_words_of(call->attrs)};
  return gr_tt_run_panels(call, &cut, 3 * gr_tt_bytes(cut.height, cut.width), gr_tt_exact_pair_panel, &job);
}

#endif
