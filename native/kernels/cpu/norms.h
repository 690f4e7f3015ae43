/* norms.h: log_softmax rms_norm lrn of floats. Template. Sums are in double; out may be x, but not of lrn.
 *
 * Attribute words: graph_runtime/ops/normalize.py.
 *
 * defines: gr_cpu_{log_softmax rms_norm lrn}__<suffix>
 */
#include "cpu/broadcast.h"

#define GR_AXIS_STRIP 16 /* neighbouring columns that walk down the axis together */
#define GR_EXP_COST 8
#define GR_LANES 8

/* ---------------------------------------------------------------- log_softmax */

typedef struct GR_FN(logs) {
  const GR_T *x;
  GR_T *out;
  int64_t n, inner, strips;    /* x is [outer, n, inner]; strips of columns in inner */
} GR_FN(logs);

static int32_t GR_FN(log_softmax_strips)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(logs) *p = ctx;
  for (int64_t i = first; i < last; i++) {
    int64_t column = i % p->strips * GR_AXIS_STRIP, at = i / p->strips * p->n * p->inner + column;
    int64_t width = gr_min(GR_AXIS_STRIP, p->inner - column);
    const GR_T *x = p->x + at;
    GR_C top[GR_AXIS_STRIP];
    double sum[GR_AXIS_STRIP] = {0};
    for (int64_t c = 0; c < width; c++) top[c] = GR_LOAD(x[c]);
    for (int64_t k = 1; k < p->n; k++) {
      for (int64_t c = 0; c < width; c++) {
        GR_C a = GR_LOAD(x[k * p->inner + c]);
        top[c] = a > top[c] ? a : top[c];
      }
    }
    for (int64_t k = 0; k < p->n; k++) {
      for (int64_t c = 0; c < width; c++) sum[c] += GR_EXP(GR_LOAD(x[k * p->inner + c]) - top[c]);
    }
    for (int64_t c = 0; c < width; c++) sum[c] = log(sum[c]);
    for (int64_t k = 0; k < p->n; k++) {
      for (int64_t c = 0; c < width; c++) {
        double a = (double)(GR_LOAD(x[k * p->inner + c]) - top[c]);
        p->out[at + k * p->inner + c] = GR_STORE((GR_C)(a - sum[c]));
      }
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/log_softmax : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(log_softmax)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  if (gr_size(x) == 0) return GR_OK;
  GR_FN(logs) p = {gr_ptr(x), gr_ptr(&call->args[1]), x->shape[axis], gr_span(x, axis + 1, x->ndim), 0};
  p.strips = gr_ceil_div(p.inner, GR_AXIS_STRIP);
  int64_t cost = GR_EXP_COST * p.n * gr_min(p.inner, GR_AXIS_STRIP);
  return gr_parallel(call->env, gr_span(x, 0, axis) * p.strips, gr_ceil_div(GR_GRAIN, cost),
                     GR_FN(log_softmax_strips), &p);
}
#undef GR_AXIS_STRIP
#undef GR_EXP_COST

/* ---------------------------------------------------------------- rms_norm */

typedef struct GR_FN(rms) {
  const GR_T *x, *scale;
  GR_T *out;
  int64_t n;
  double epsilon;
} GR_FN(rms);

static int32_t GR_FN(rms_rows)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(rms) *p = ctx;
  for (int64_t row = first; row < last; row++) {
    const GR_T *x = p->x + row * p->n;
    GR_T *out = p->out + row * p->n;
    double lane[GR_LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + GR_LANES <= p->n; i += GR_LANES) {
      for (int l = 0; l < GR_LANES; l++) lane[l] += (double)GR_LOAD(x[i + l]) * (double)GR_LOAD(x[i + l]);
    }
    for (; i < p->n; i++) sum += (double)GR_LOAD(x[i]) * (double)GR_LOAD(x[i]);
    for (int l = 0; l < GR_LANES; l++) sum += lane[l];
    double factor = 1 / sqrt(sum / (double)p->n + p->epsilon);
    GR_INDEPENDENT
    for (i = 0; i < p->n; i++) {
      out[i] = GR_STORE((GR_C)((double)GR_LOAD(x[i]) * factor * (double)GR_LOAD(p->scale[i])));
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/rms_norm : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(rms_norm)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  if (gr_size(x) == 0) return GR_OK;
  GR_FN(rms) p = {gr_ptr(x), gr_ptr(&call->args[1]), gr_ptr(&call->args[2]), gr_span(x, axis, x->ndim),
                  gr_word(call->attrs[1])};
  return gr_parallel(call->env, gr_span(x, 0, axis), gr_ceil_div(GR_GRAIN, 4 * p.n), GR_FN(rms_rows), &p);
}
#undef GR_LANES

/* ---------------------------------------------------------------- lrn */

/* Channels (n, c) first .. last-1. */
static int32_t GR_FN(lrn_channels)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const gr_arg *arg = &call->args[0];
  int64_t channels = arg->shape[1], n = gr_span(arg, 2, arg->ndim), size = call->attrs[0];
  double alpha = gr_word(call->attrs[1]) / (double)size, beta = gr_word(call->attrs[2]);
  double bias = gr_word(call->attrs[3]);
  for (int64_t i = first; i < last; i++) {
    int64_t c = i % channels, before = (size - 1) / 2;
    int64_t from = gr_max(-c, -before), to = gr_min(channels - c, size - before);
    const GR_T *x = (const GR_T *)gr_ptr(arg) + i * n;
    GR_T *out = (GR_T *)gr_ptr(&call->args[1]) + i * n;
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t d = from; d < to; d++) sum += (double)GR_LOAD(x[d * n + j]) * (double)GR_LOAD(x[d * n + j]);
      out[j] = GR_STORE((GR_C)((double)GR_LOAD(x[j]) / pow(bias + alpha * sum, beta)));
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/lrn : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(lrn)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  if (gr_size(x) == 0) return GR_OK;
  int64_t cost = (2 * gr_min(call->attrs[0], x->shape[1]) + 32) * gr_span(x, 2, x->ndim);
  return gr_parallel(call->env, x->shape[0] * x->shape[1], gr_ceil_div(GR_GRAIN, cost), GR_FN(lrn_channels),
                     (void *)(uintptr_t)call);
}
