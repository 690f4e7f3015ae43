/* pairs.h: functions of two or three floats that broadcast, those of functions.h. One rounding, when the result is
 * packed.
 *
 * The contracts are those of ir/ops/elements/float_pairs.py. Thread: any; a core makes a panel of the output.
 * defines: gr_tt_{pairs and triples of functions.h}
 */
#ifndef GR_TT_PAIRS_H
#define GR_TT_PAIRS_H

#include "tt/elementwise.h"
#include "tt/scalars.h"

/* a[i] = f(a[i], b[i], c[i]); p: the first attribute */
typedef void (*gr_tt_of_three)(float *a, const float *b, const float *c, int64_t n, double p);

typedef struct gr_tt_triple_job {
  gr_tt_view in[3];
  double p;
  gr_tt_of_three apply;
} gr_tt_triple_job;

static inline int32_t gr_tt_triple_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_triple_job *job = (const gr_tt_triple_job *)ctx;
  int64_t size = cut->height * cut->width;
  float *x = (float *)(void *)c->space;
  for (int i = 0; i < 3; ++i)
    GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[i], &cut->view, at, (uint32_t *)(void *)(x + i * size), cut->width));
  int64_t length, runs = gr_tt_runs(cut, at, &length);
  for (int64_t r = 0; r < runs; ++r, x += cut->width) job->apply(x, x + size, x + 2 * size, length, job->p);
  return gr_tt_store(c, &cut->view, at, c->space, cut->width, 0);
}

static inline int32_t gr_tt_ternary(const gr_call *call, double p, gr_tt_of_three apply) {
  const gr_arg *args = call->args;
  gr_tt_panels cut = gr_tt_cut_elements(call, &args[3], 3);
  gr_tt_triple_job job = {{gr_tt_view_of(&args[0]), gr_tt_view_of(&args[1]), gr_tt_view_of(&args[2])}, p, apply};
  return gr_tt_run_panels(call, &cut, 3 * gr_tt_bytes(cut.height, cut.width), gr_tt_triple_panel, &job);
}

/* gr-pairs: tt */
#define GR_PAIR(name, cost, formula)                                                                   \
  static inline void gr_tt_each_##name(void *left, const void *right, int64_t n) {                     \
    float *a = (float *)left;                                                                          \
    const float *b = (const float *)right;                                                             \
    for (int64_t i = 0; i < n; ++i) a[i] = gr_tt_fn_##name(a[i], b[i]);                                \
  }                                                                                                    \
  static inline int32_t gr_tt_##name(const gr_call *call) {                                            \
    if (call->attrs[0]) return GR_TTNN_BINARY(call, name);                                             \
    return gr_tt_binary(call, NULL, gr_tt_each_##name, NULL);                                          \
  }

#define GR_TTNN_TRIPLE_OF(name, m, bits)                                                               \
  static inline void gr_ttnn_##name##_##bits(float *a, const float *b, const float *c, int64_t n, double p) { \
    for (int64_t i = 0; i < n; ++i) a[i] = gr_ttnn_##name(a[i], b[i], c[i], (float)p, (gr_sfpu){m});   \
  }
#define GR_TRIPLE(name, words, cost, formula) \
  GR_TTNN_TRIPLE_OF(name, 0, 16)              \
  GR_TTNN_TRIPLE_OF(name, 1, 32)
#include "functions.h"
#undef GR_TTNN_TRIPLE_OF

/* gr-triples: tt */
#define GR_TRIPLE(name, words, cost, formula)                                                          \
  static inline void gr_tt_each_##name(float *a, const float *b, const float *c, int64_t n, double p) { \
    for (int64_t i = 0; i < n; ++i) a[i] = gr_tt_fn_##name(a[i], b[i], c[i], p);                       \
  }                                                                                                    \
  static inline int32_t gr_tt_##name(const gr_call *call) {                                            \
    gr_tt_of_three apply = gr_tt_each_##name;                                                          \
    if (call->attrs[words]) apply = gr_ttnn_of(call).wide ? gr_ttnn_##name##_32 : gr_ttnn_##name##_16; \
    return gr_tt_ternary(call, words > 0 ? gr_word(call->attrs[0]) : 0, apply);                        \
  }
#include "functions.h"

#endif
