/* program.h: programs of steps (steps.h) on panels in L1, and the op fused.
 *
 * What a program reads besides the product is loaded 32 rows at a time into a panel for each input; then rows
 * go through the steps in pieces, as tiles through Dst: in float32, after each step rounded to bf16 where Dst
 * has 16 bits.
 *
 * Included by: products of this folder. Thread: a pool thread, one task per simulated core.
 * defines: gr_tt_program, gr_tt_program_of, gr_tt_program_floats, gr_tt_program_run, gr_tt_fused
 */
#ifndef GR_TT_PROGRAM_H
#define GR_TT_PROGRAM_H

#include <math.h>

#include "fidelity.h"
#include "steps.h"
#include "tt/scalars.h"
#include "tt/scalars_ttnn.h"
#include "tt/work.h"

#define GR_TT_STEP_COLUMNS 128

typedef struct gr_tt_program {
  int64_t count;                     /* instructions; 0: nothing to do */
  const int64_t *words;
  int32_t inputs, dst_bits;
  int ttnn;                          /* steps are computed as ttnn does */
  int64_t rows;                      /* of an input that are in L1 at a time: 32, where panels are as high */
  int32_t panel[GR_STEPS_ARGS];      /* of an input of the call */
  gr_tt_view in[GR_STEPS_ARGS];      /* by panel */
} gr_tt_program;

/* words: those behind the op's own; dst_bits: 16 or 32 */
static inline gr_tt_program gr_tt_program_of(const gr_call *call, const int64_t *words, int32_t dst_bits, int ttnn) {
  gr_tt_program p = {.count = words[0], .words = words + 2, .dst_bits = dst_bits, .ttnn = ttnn, .rows = 32};
  for (int64_t i = 0; i < p.count; ++i) {
    const int64_t *w = p.words + i * GR_STEPS_WORDS;
    if (w[0] != GR_STEP_LOAD) continue;
    p.in[p.inputs] = gr_tt_view_of(&call->args[w[2]]);
    p.panel[w[2]] = p.inputs++;
  }
  return p;
}

/* Floats of L1 that a program takes on panels with rows of ld elements. */
static inline int64_t gr_tt_program_floats(const gr_tt_program *p, int64_t ld) { return p->inputs * p->rows * ld; }

/* ---------------------------------------------------------------- one instruction on a part of a row */

#ifndef GR_STEP_USED
#define GR_STEP_USED(code) 1 /* a unit compiled for a graph says of which steps its programs are (codegen/render.py) */
#endif

#define GR_TT_STEP(code, value)                                                    \
  case code:                                                                       \
    if (!GR_STEP_USED(code)) break;                                                \
    GR_INDEPENDENT                                                                 \
    for (int64_t i = 0; i < n; ++i) {                                              \
      float a = x[i], b = y[i];                                                    \
      (void)a, (void)b;                                                            \
      d[i] = (value);                                                              \
    }                                                                              \
    break;

#define GR_TT_STEP_ARGS const int64_t *w, const float *x, const float *y, float *d, int64_t n
GR_INLINE void gr_tt_program_step_of(GR_TT_STEP_ARGS) {
  double p = gr_steps_parameter(w, 0), q = gr_steps_parameter(w, 1);
  switch (w[0]) {
    GR_TT_STEP(GR_STEP_ADD, a + b)
    GR_TT_STEP(GR_STEP_SUBTRACT, a - b)
    GR_TT_STEP(GR_STEP_MULTIPLY, a * b)
    GR_TT_STEP(GR_STEP_DIVIDE, a / b)
    GR_TT_STEP(GR_STEP_MAXIMUM, a > b || a != a ? a : b)
    GR_TT_STEP(GR_STEP_MINIMUM, a < b || a != a ? a : b)
    GR_TT_STEP(GR_STEP_GELU, gr_tt_gelu_erf_of(a))
    GR_TT_STEP(GR_STEP_GELU_TANH, gr_tt_gelu_tanh_of(a))
#define GR_STEP_NUMBER(name, code, words, formula) GR_TT_STEP(code, gr_tt_fn_##name(a, p, q))
#define GR_STEP_FUNCTION(name, code, words, cost, formula) GR_STEP_NUMBER(name, code, words, formula)
#include "functions.h"
    default: break;              /* ir/ops/steps.py makes no other code */
  }
}

/* As before, each step a kernel of ttnn's on a Dst of 16 bits, or of 32. */
GR_TT_APART void gr_ttnn_program_step(const int64_t *w, const float *x, const float *y, float *d, int64_t n,
                                     gr_sfpu m) {
  float p = (float)gr_steps_parameter(w, 0), q = (float)gr_steps_parameter(w, 1);
  switch (w[0]) {
    GR_TT_STEP(GR_STEP_ADD, gr_ttnn_add(a, b, m))
    GR_TT_STEP(GR_STEP_SUBTRACT, gr_ttnn_subtract(a, b, m))
    GR_TT_STEP(GR_STEP_MULTIPLY, gr_ttnn_multiply(a, b, m))
    GR_TT_STEP(GR_STEP_DIVIDE, gr_ttnn_divide(a, b, m))
    GR_TT_STEP(GR_STEP_MAXIMUM, gr_ttnn_maximum(a, b, m))
    GR_TT_STEP(GR_STEP_MINIMUM, gr_ttnn_minimum(a, b, m))
    GR_TT_STEP(GR_STEP_GELU, gr_ttnn_gelu(a, 0, 0, m))
    GR_TT_STEP(GR_STEP_GELU_TANH, gr_sfpu_result(gr_sfpu_round(gr_tt_gelu_tanh_of(a), m), m))
#define GR_STEP_NUMBER(name, code, words, formula) GR_TT_STEP(code, gr_ttnn_##name(a, p, q, m))
#define GR_STEP_FUNCTION(name, code, words, cost, formula) GR_STEP_NUMBER(name, code, words, formula)
#include "functions.h"
    default: break;
  }
}
#undef GR_TT_STEP

/* Once for each instruction set, as the host's (cpu/steps_lanes.h); all give the same bits. */
#define GR_TT_STEP_FOR(isa, attributes)                                                                  \
  static __attribute__(attributes) void gr_tt_program_step_##isa(GR_TT_STEP_ARGS) {                      \
    gr_tt_program_step_of(w, x, y, d, n);                                                                \
  }
GR_TT_STEP_FOR(any, (noinline))
#if defined(__x86_64__)
GR_TT_STEP_FOR(avx2, (noinline, target("avx2")))
GR_TT_STEP_FOR(avx512, (noinline, target("avx512f")))
#endif
#undef GR_TT_STEP_FOR

GR_INLINE void gr_tt_program_step(GR_TT_STEP_ARGS) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    gr_tt_program_step_avx512(w, x, y, d, n);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    gr_tt_program_step_avx2(w, x, y, d, n);
    return;
  }
#endif
  gr_tt_program_step_any(w, x, y, d, n);
}

/* ---------------------------------------------------------------- rows */

/* x[n], element j of a row of every panel, through all steps; the result takes its place. */
static inline void gr_tt_program_piece(const gr_tt_program *p, const float *panels, int64_t panel, int64_t j,
                                       float *x, int64_t n) {
  float buffer[GR_STEPS_REGISTERS][GR_TT_STEP_COLUMNS];
  const float *registers[GR_STEPS_REGISTERS] = {x}, *last = x;
  for (int64_t i = 0; i < p->count; ++i) {
    const int64_t *w = p->words + i * GR_STEPS_WORDS;
    if (w[0] == GR_STEP_LOAD) {
      registers[w[1]] = panels + p->panel[w[2]] * panel + j;
      continue;
    }
    float *d = buffer[w[1]];
    if (p->ttnn)
      gr_ttnn_program_step(w, registers[w[2]], registers[w[3]], d, n, (gr_sfpu){p->dst_bits == 32});
    else
      gr_tt_program_step(w, registers[w[2]], registers[w[3]], d, n);
    for (int64_t k = 0; p->dst_bits == 16 && k < n; ++k) d[k] = gr_dst16_round(d[k]);
    last = registers[w[1]] = d;
  }
  memcpy(x, last, (size_t)n * sizeof *x);
}

/* Runs a program on x[at.nr][ld], the rectangle `at` of `out`: products, or what is undefined where the
 * program reads none. panels: gr_tt_program_floats(p, ld) floats of L1. */
GR_TT_APART int32_t gr_tt_program_run(const gr_tt_core *c, const gr_tt_program *p, const gr_tt_view *out,
                                      gr_tt_rect at, float *x, int64_t ld, float *panels) {
  for (int64_t r0 = 0; r0 < at.nr && p->count > 0; r0 += p->rows) {
    gr_tt_rect part = {at.plane, at.r0 + r0, gr_tt_lesser(p->rows, at.nr - r0), at.c0, at.nc};
    for (int32_t k = 0; k < p->inputs; ++k) {
      uint32_t *to = (uint32_t *)(void *)(panels + k * p->rows * ld);
      GR_TT_TRY(gr_tt_load_broadcast(c, &p->in[k], out, part, to, ld));
    }
    int64_t rows = at.nc == ld ? 1 : part.nr, length = at.nc == ld ? part.nr * ld : at.nc;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < length; j += GR_TT_STEP_COLUMNS)
        gr_tt_program_piece(p, panels + r * ld, p->rows * ld, j, x + (r0 + r) * ld + j,
                            gr_tt_lesser(GR_TT_STEP_COLUMNS, length - j));
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- fused */

static inline int32_t gr_tt_fused_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                        gr_tt_rect at) {
  const gr_tt_program *p = (const gr_tt_program *)ctx;
  float *x = (float *)(void *)c->space;
  GR_TT_TRY(gr_tt_program_run(c, p, &cut->view, at, x, cut->width, x + cut->height * cut->width));
  return gr_tt_store(c, &cut->view, at, x, cut->width, 0);
}

/* gr-kernel: tt/fused */
static inline int32_t gr_tt_fused(const gr_call *call) {
  int ttnn = (int)*gr_steps_end(call->attrs);
  gr_tt_program p = gr_tt_program_of(call, call->attrs, ttnn && !gr_ttnn_of(call).wide ? 16 : 32, ttnn);
  gr_tt_panels cut = gr_tt_cut_elements(call, &call->args[call->nargs - 1], p.inputs + 1);
  p.rows = cut.height;
  uint64_t bytes = gr_tt_bytes(1, cut.height * cut.width + gr_tt_program_floats(&p, cut.width));
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_fused_panel, &p);
}

#endif
