/* remainder.h: mod and the shifts: pairs of elements whose result depends on the type or that may fail.
 *
 * The contract is that of ir/ops/elements/arithmetic.py. Thread: any; a core makes a panel of the output.
 * defines: gr_tt_wide, gr_tt_mod, gr_tt_shift_left, gr_tt_shift_right
 */
#ifndef GR_TT_REMAINDER_H
#define GR_TT_REMAINDER_H

#include <math.h>

#include "tt/elementwise.h"
#include "tt/scan.h"

typedef struct gr_tt_remainder_job gr_tt_remainder_job;

/* a[i] = of a[i] and b[i] */
typedef void (*gr_tt_remainder_row)(const gr_tt_remainder_job *job, uint32_t *a, const uint32_t *b, int64_t n);

struct gr_tt_remainder_job {
  gr_tt_view in[2];
  gr_tt_remainder_row apply;
  int of_dividend;           /* mod: the sign is the dividend's */
  uint32_t bits;             /* of the type */
  int is_signed;
};

/* ---------------------------------------------------------------- rows */

/* The remainder with the divisor's sign, as in Python, also for -0.0 and infinities. */
static inline float gr_tt_floor_mod(float a, float b) {
  float rest = fmodf(a, b);
  if (rest == 0.0f) return copysignf(0.0f, b);
  return (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

static inline void gr_tt_mod_floats(const gr_tt_remainder_job *job, uint32_t *a, const uint32_t *b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float x = gr_float_of(a[i]), y = gr_float_of(b[i]);
    a[i] = gr_bits_of(job->of_dividend ? fmodf(x, y) : gr_tt_floor_mod(x, y));
  }
}

/* In 64 bits: the least integer % -1 would trap, and uint32 goes beyond int32. */
static inline int64_t gr_tt_wide(const gr_tt_remainder_job *job, uint32_t x) {
  return job->is_signed ? (int64_t)(int32_t)x : (int64_t)x;
}

/* No divisor is 0: gr_tt_mod has looked at all of them. */
static inline void gr_tt_mod_ints(const gr_tt_remainder_job *job, uint32_t *a, const uint32_t *b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t x = gr_tt_wide(job, a[i]), y = gr_tt_wide(job, b[i]);
    int64_t rest = y != 0 ? x % y : 0;                 /* unless its tensor is written meanwhile */
    a[i] = (uint32_t)(!job->of_dividend && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
  }
}

/* A count that is below zero or not below the type's bits shifts everything out. Narrowing is the store's. */
static inline void gr_tt_shifted_left(const gr_tt_remainder_job *job, uint32_t *a, const uint32_t *b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] >= job->bits ? 0u : a[i] << b[i];
}

static inline void gr_tt_shifted_right(const gr_tt_remainder_job *job, uint32_t *a, const uint32_t *b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    a[i] = (uint32_t)(gr_tt_wide(job, a[i]) >> (b[i] >= job->bits ? 63u : b[i]));
  }
}

/* ---------------------------------------------------------------- panels */

static inline int32_t gr_tt_remainder_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                            gr_tt_rect at) {
  const gr_tt_remainder_job *job = (const gr_tt_remainder_job *)ctx;
  uint32_t *a = (uint32_t *)(void *)c->space, *b = a + cut->height * cut->width;
  GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[0], &cut->view, at, a, cut->width));
  GR_TT_TRY(gr_tt_load_broadcast(c, &job->in[1], &cut->view, at, b, cut->width));
  for (int64_t r = 0; r < at.nr; ++r) job->apply(job, a + r * cut->width, b + r * cut->width, at.nc);
  return gr_tt_store(c, &cut->view, at, a, cut->width, 0);
}

static inline int32_t gr_tt_remainder(const gr_call *call, gr_tt_remainder_row apply, int of_dividend) {
  gr_tt_panels cut = gr_tt_cut(call, &call->args[2], 2);
  uint8_t dtype = call->args[0].dtype;
  gr_tt_remainder_job job = {{gr_tt_view_of(&call->args[0]), gr_tt_view_of(&call->args[1])}, apply, of_dividend,
                             8u * (uint32_t)gr_format_bytes(dtype),
                             dtype == GR_I8 || dtype == GR_I16 || dtype == GR_I32};
  return gr_tt_run_panels(call, &cut, 2 * gr_tt_bytes(cut.height, cut.width), gr_tt_remainder_panel, &job);
}

static inline int32_t gr_tt_no_zero(const gr_tt_core *c, const void *job, const uint32_t *row, int64_t c0,
                                    int64_t n) {
  (void)job, (void)c0;
  for (int64_t j = 0; j < n; ++j)
    if (row[j] == 0) return gr_tt_refuse(c->env, "mod: integer division by zero");
  return GR_OK;
}

/* gr-kernel: tt/mod */
static inline int32_t gr_tt_mod(const gr_call *call) {
  int floats = gr_tt_is_float(call->args[0].format);
  gr_tt_view out = gr_tt_view_of(&call->args[2]);
  if (!floats && out.outer * out.rows * out.cols) GR_TT_TRY(gr_tt_scan(call, &call->args[1], gr_tt_no_zero, NULL));
  if (floats && call->attrs[1])
    return call->attrs[0] ? GR_TTNN_BINARY(call, fmod) : GR_TTNN_BINARY(call, remainder);
  return gr_tt_remainder(call, floats ? gr_tt_mod_floats : gr_tt_mod_ints, call->attrs[0] != 0);
}

/* gr-kernel: tt/shift_left */
static inline int32_t gr_tt_shift_left(const gr_call *call) { return gr_tt_remainder(call, gr_tt_shifted_left, 0); }

/* gr-kernel: tt/shift_right */
static inline int32_t gr_tt_shift_right(const gr_call *call) { return gr_tt_remainder(call, gr_tt_shifted_right, 0); }

#endif
