/* fpu.h: add, subtract and multiply of floats as the matrix unit makes them, in fast arithmetic: operands cut
 * to what SrcA (a) and SrcB (b) hold, a pass for each product of parts (fidelity.h), Dst in 16 or 32 bits.
 *
 * A node that names neither fidelity nor a 16-bit Dst takes the vector unit's way instead, which keeps
 * float32. What differs from exact_elementwise.h: sums are rounded as float32, where the hardware first
 * rounds the smaller operand to the larger one's 11 bits.
 *
 * Included by: elementwise.h. Thread: any; a core makes a panel of the output.
 * defines: gr_tt_is_fpu, gr_tt_fpu_binary
 */
#ifndef GR_TT_FPU_H
#define GR_TT_FPU_H

#include "exact.h"
#include "fidelity.h"
#include "tt/blocking.h"

typedef struct gr_tt_fpu_job {
  gr_tt_view in[2];
  int32_t op;                /* enum gr_exact_op */
  int32_t dst_bits;
  gr_passes passes;
} gr_tt_fpu_job;

/* Whether an op whose words are those of numerics alone is the matrix unit's. Integers have one way. */
static inline int gr_tt_is_fpu(const gr_call *call) {
  gr_tt_words words = gr_tt_words_of(call->attrs);
  return (words.fidelity != 0 || words.dst_bits == 16) && gr_tt_is_float(call->args[2].format);
}

/* a[n] = a +- b */
static inline void gr_tt_fpu_add(const gr_tt_fpu_job *job, float *a, const float *b, int64_t n) {
  float sign = job->op == GR_EXACT_SUB ? -1.0f : 1.0f;
  for (int64_t i = 0; i < n; ++i)
    a[i] = gr_part_take(GR_PART_FULL, GR_SRC_B, a[i]) + sign * gr_part_take(GR_PART_FULL, GR_SRC_B, b[i]);
  for (int64_t i = 0; i < n && job->dst_bits == 16; ++i) a[i] = gr_dst16_round(a[i]);
}

/* dst[n] = a * b, phase by phase */
static inline void gr_tt_fpu_multiply(const gr_tt_fpu_job *job, const float *a, const float *b, int64_t n,
                                      float *dst) {
  const gr_passes *p = &job->passes;
  memset(dst, 0, (size_t)n * 4);
  for (int32_t pass = 0; pass < p->count; ++pass) {
    int of_a = p->part[GR_SRC_A][p->use[GR_SRC_A][pass]], of_b = p->part[GR_SRC_B][p->use[GR_SRC_B][pass]];
    for (int64_t i = 0; i < n; ++i)
      dst[i] += gr_part_take(of_a, GR_SRC_A, a[i]) * gr_part_take(of_b, GR_SRC_B, b[i]);
    for (int64_t i = 0; i < n && job->dst_bits == 16; ++i) dst[i] = gr_dst16_round(dst[i]);
  }
}

static inline int32_t gr_tt_fpu_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                      gr_tt_rect at) {
  const gr_tt_fpu_job *job = (const gr_tt_fpu_job *)ctx;
  int64_t ld = cut->width, size = cut->height * ld;
  float *a = (float *)(void *)c->space, *b = a + size, *dst = job->op == GR_EXACT_MUL ? b + size : a;
  GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[0], &cut->view, at, (uint32_t *)(void *)a, ld));
  GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[1], &cut->view, at, (uint32_t *)(void *)b, ld));
  for (int64_t r = 0; r < at.nr; ++r) {
    if (job->op == GR_EXACT_MUL)
      gr_tt_fpu_multiply(job, a + r * ld, b + r * ld, at.nc, dst + r * ld);
    else
      gr_tt_fpu_add(job, a + r * ld, b + r * ld, at.nc);
  }
  return gr_tt_store(c, &cut->view, at, dst, ld, 0);
}

static inline int32_t gr_tt_fpu_binary(const gr_call *call, int32_t op) {
  gr_tt_panels cut = gr_tt_cut(call, &call->args[2], 3);
  gr_tt_words words = gr_tt_words_of(call->attrs);
  gr_tt_fpu_job job = {{gr_tt_view_of(&call->args[0]), gr_tt_view_of(&call->args[1])}, op, words.dst_bits,
                       gr_passes_of(gr_tt_phases(&words), words.dst_bits)};
  return gr_tt_run_pairs(call, &words, &cut, 3, gr_tt_fpu_panel, &job);
}

#endif
