/* normalize.h: softmax log_softmax layer_norm rms_norm lrn of floats. Template. Sums are in double, but for softmax of
 * float32 (softmax_rows.h) and norms of it (norm_rows.h). Out may be x, which is read for the last time before it is
 * written, but not of lrn; it may not be a scale or bias.
 *
 * Attribute words: ir/ops/reductions/normalize.py.
 *
 * defines: gr_cpu_{softmax log_softmax layer_norm rms_norm lrn}__<suffix>
 */
#include "cpu/broadcast.h"
#include "cpu/norm_rows.h"
#include "cpu/softmax_rows.h"

/* ---------------------------------------------------------------- softmax log_softmax */

/* Neighbouring columns that walk down the axis together. */
#ifdef GR_IS_F32
#define GR_CHUNK(inner) gr_min(inner, GR_FEW_COLUMNS)
#else
#define GR_CHUNK_MOST 16
#define GR_CHUNK(inner) gr_min(inner, GR_CHUNK_MOST)
#endif
#define GR_EXP_COST 8
#define GR_LANES 8

typedef struct GR_FN(columns) {
  const GR_T *x;
  GR_T *out;
  int64_t n, inner, chunks;    /* x is [outer, n, inner]; chunks of columns in inner */
  int logs;                    /* whether the logarithm of the result is asked for */
} GR_FN(columns);

#ifdef GR_IS_F32
static void GR_FN(softmax_rows)(const GR_FN(columns) *p, int64_t first, int64_t last) {
  const gr_softmax s = {.x = p->x + first * p->n, .out = p->out + first * p->n, .x_row = p->n, .out_row = p->n,
                        .rows = last - first, .n = p->n, .seen = p->n, .logs = p->logs, .scale = 1};
  gr_softmax_rows_chosen()(&s);
}

GR_INLINE void GR_FN(softmax_chunk)(const GR_T *x, GR_T *out, int64_t n, int64_t inner, int64_t width, int logs) {
  gr_softmax_columns_chosen()(x, out, n, inner, width, logs);
}
#else
GR_INLINE void GR_FN(softmax_chunk)(const GR_T *x, GR_T *out, int64_t n, int64_t inner, int64_t width, int logs) {
  GR_C top[GR_CHUNK_MOST];
  double sum[GR_CHUNK_MOST];
  for (int64_t c = 0; c < width; c++) {
    top[c] = GR_LOAD(x[c]);
    sum[c] = 0;
  }
  for (int64_t k = 1; k < n; k++) {
    for (int64_t c = 0; c < width; c++) {
      GR_C a = GR_LOAD(x[k * inner + c]);
      top[c] = a > top[c] ? a : top[c];
    }
  }
  /* The exponentials are computed twice: keeping them in out would round 16-bit types twice. */
  for (int64_t k = 0; k < n; k++) {
    for (int64_t c = 0; c < width; c++) sum[c] += GR_EXP(GR_LOAD(x[k * inner + c]) - top[c]);
  }
  for (int64_t c = 0; logs && c < width; c++) sum[c] = log(sum[c]);
  for (int64_t k = 0; k < n; k++) {
    for (int64_t c = 0; c < width; c++) {
      GR_C a = GR_LOAD(x[k * inner + c]) - top[c];
      out[k * inner + c] = GR_STORE((GR_C)(logs ? (double)a - sum[c] : GR_EXP(a) / sum[c]));
    }
  }
}

/* One contiguous row: in GR_LANES partial maxima and sums, so that the order of additions does not depend on
 * the machine. */
GR_INLINE void GR_FN(softmax_row)(const GR_T *x, GR_T *out, int64_t n, int logs) {
  GR_C lane[GR_LANES], top = GR_LOAD(x[0]);
  double sums[GR_LANES] = {0}, sum = 0;
  int64_t k = 0;
  for (int l = 0; l < GR_LANES; l++) lane[l] = top;
  for (; k + GR_LANES <= n; k += GR_LANES) {
    for (int l = 0; l < GR_LANES; l++) {
      GR_C a = GR_LOAD(x[k + l]);
      lane[l] = a > lane[l] ? a : lane[l];
    }
  }
  for (; k < n; k++) top = GR_LOAD(x[k]) > top ? GR_LOAD(x[k]) : top;
  for (int l = 0; l < GR_LANES; l++) top = lane[l] > top ? lane[l] : top;
  for (k = 0; k + GR_LANES <= n; k += GR_LANES) {
    for (int l = 0; l < GR_LANES; l++) sums[l] += GR_EXP(GR_LOAD(x[k + l]) - top);
  }
  for (; k < n; k++) sum += GR_EXP(GR_LOAD(x[k]) - top);
  for (int l = 0; l < GR_LANES; l++) sum += sums[l];
  if (logs) {
    sum = log(sum);
    GR_INDEPENDENT
    for (k = 0; k < n; k++) out[k] = GR_STORE((GR_C)((double)(GR_LOAD(x[k]) - top) - sum));
    return;
  }
  GR_INDEPENDENT
  for (k = 0; k < n; k++) out[k] = GR_STORE((GR_C)(GR_EXP(GR_LOAD(x[k]) - top) / sum));
}

static void GR_FN(softmax_rows)(const GR_FN(columns) *p, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; i++) GR_FN(softmax_row)(p->x + i * p->n, p->out + i * p->n, p->n, p->logs);
}
#endif

static int32_t GR_FN(softmax_chunks)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(columns) *p = ctx;
  int64_t chunk = GR_CHUNK(p->inner);
  if (p->inner == 1) {
    GR_FN(softmax_rows)(p, first, last);
    return GR_OK;
  }
  for (int64_t i = first; i < last; i++) {
    int64_t column = i % p->chunks * chunk, at = i / p->chunks * p->n * p->inner + column;
    int64_t width = gr_min(chunk, p->inner - column);
    GR_FN(softmax_chunk)(p->x + at, p->out + at, p->n, p->inner, width, p->logs);
  }
  return GR_OK;
}

GR_INLINE int32_t GR_FN(softmax_any)(const gr_call *call, int logs) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  if (gr_size(x) == 0) return GR_OK;
  GR_FN(columns) p = {gr_ptr(x), gr_ptr(&call->args[1]), x->shape[axis], gr_span(x, axis + 1, x->ndim), 0,
                      logs};
  p.chunks = gr_ceil_div(p.inner, GR_CHUNK(p.inner));
  int64_t cost = GR_EXP_COST * p.n * GR_CHUNK(p.inner);
  return gr_parallel(call->env, gr_span(x, 0, axis) * p.chunks, gr_ceil_div(GR_GRAIN, cost),
                     GR_FN(softmax_chunks), &p);
}
#undef GR_CHUNK
#undef GR_CHUNK_MOST
#undef GR_EXP_COST

/* gr-kernel: cpu/softmax : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(softmax)(const gr_call *call) { return GR_FN(softmax_any)(call, 0); }

/* gr-kernel: cpu/log_softmax : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(log_softmax)(const gr_call *call) { return GR_FN(softmax_any)(call, 1); }

/* ---------------------------------------------------------------- layer_norm rms_norm */

#ifdef GR_IS_F32
typedef gr_norm GR_FN(norm);
#else
typedef struct GR_FN(norm) {
  const GR_T *x, *scale, *bias; /* bias: of layer_norm */
  GR_T *out;
  int64_t n;
  double epsilon;
} GR_FN(norm);
#endif

/* The sums of x - centre and of its square over n elements. */
GR_INLINE void GR_FN(moments)(const GR_T *x, int64_t n, double centre, double *sum, double *squares) {
  double lane[GR_LANES] = {0}, square[GR_LANES] = {0};
  int64_t i = 0;
  for (; i + GR_LANES <= n; i += GR_LANES) {
    for (int l = 0; l < GR_LANES; l++) {
      double a = (double)GR_LOAD(x[i + l]) - centre;
      lane[l] += a;
      square[l] += a * a;
    }
  }
  for (int l = 0; i < n; i++, l++) {
    double a = (double)GR_LOAD(x[i]) - centre;
    lane[l] += a;
    square[l] += a * a;
  }
  for (int l = 0; l < 4; l++) lane[l] += lane[l + 4], square[l] += square[l + 4];
  for (int l = 0; l < 2; l++) lane[l] += lane[l + 2], square[l] += square[l + 2];
  *sum = lane[0] + lane[1];
  *squares = square[0] + square[1];
}

/* About its first element, which mostly is near the others, a row's moments lose less than float32 shows: one pass
 * finds both. What is stored in double has them again, about the mean. */
static void GR_FN(layer_norm_row)(const GR_FN(norm) *p, int64_t row) {
  const GR_T *x = p->x + row * p->n;
  GR_T *out = p->out + row * p->n;
  double centre = (double)GR_LOAD(x[0]), part = 1 / (double)p->n, sum, squares;
  GR_FN(moments)(x, p->n, centre, &sum, &squares);
  if (sizeof(GR_T) == sizeof(double)) GR_FN(moments)(x, p->n, centre += sum * part, &sum, &squares);
  double variance = (squares - sum * sum * part) * part, mean = centre + sum * part;
  double factor = 1 / sqrt((variance < 0 ? 0 : variance) + p->epsilon);
  GR_INDEPENDENT
  for (int64_t i = 0; i < p->n; i++) {
    double a = ((double)GR_LOAD(x[i]) - mean) * factor;
    out[i] = GR_STORE((GR_C)(a * (double)GR_LOAD(p->scale[i]) + (double)GR_LOAD(p->bias[i])));
  }
}

static void GR_FN(rms_norm_row)(const GR_FN(norm) *p, int64_t row) {
  const GR_T *x = p->x + row * p->n;
  GR_T *out = p->out + row * p->n;
  double sum, squares;
  GR_FN(moments)(x, p->n, 0, &sum, &squares);
  double factor = 1 / sqrt(squares / (double)p->n + p->epsilon);
  GR_INDEPENDENT
  for (int64_t i = 0; i < p->n; i++) {
    out[i] = GR_STORE((GR_C)((double)GR_LOAD(x[i]) * factor * (double)GR_LOAD(p->scale[i])));
  }
}

/* Rows of a norm, of float32 in vectors. */
#ifdef GR_IS_F32
#define GR_NORM_ROWS(name)                                                       \
  static int32_t GR_FN(name##_rows)(void *ctx, int64_t first, int64_t last) {    \
    GR_FN(norm) p = *(const GR_FN(norm) *)ctx;                                   \
    p.wide = GR_FN(name##_row);                                                  \
    gr_norm_rows_chosen()(&p, first, last);                                      \
    return GR_OK;                                                                \
  }
#else
#define GR_NORM_ROWS(name)                                                       \
  static int32_t GR_FN(name##_rows)(void *ctx, int64_t first, int64_t last) {    \
    for (int64_t row = first; row < last; row++) GR_FN(name##_row)(ctx, row);    \
    return GR_OK;                                                                \
  }
#endif
GR_NORM_ROWS(layer_norm)
GR_NORM_ROWS(rms_norm)
#undef GR_NORM_ROWS

/* `inputs`: 3 with a bias, else 2; `cost`: of an element, in flops. */
GR_INLINE int32_t GR_FN(norm_any)(const gr_call *call, int inputs, int64_t cost,
                                  int32_t (*rows)(void *ctx, int64_t first, int64_t last)) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  if (gr_size(x) == 0) return GR_OK;
  GR_FN(norm) p = {.x = gr_ptr(x), .scale = gr_ptr(&call->args[1]),
                   .bias = inputs == 3 ? gr_ptr(&call->args[2]) : NULL, .out = gr_ptr(&call->args[inputs]),
                   .n = gr_span(x, axis, x->ndim), .epsilon = gr_word(call->attrs[1])};
  return gr_parallel(call->env, gr_span(x, 0, axis), gr_ceil_div(GR_GRAIN, cost * p.n), rows, &p);
}

/* gr-kernel: cpu/layer_norm : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(layer_norm)(const gr_call *call) {
  return GR_FN(norm_any)(call, 3, 8, GR_FN(layer_norm_rows));
}

/* gr-kernel: cpu/rms_norm : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(rms_norm)(const gr_call *call) {
  return GR_FN(norm_any)(call, 2, 4, GR_FN(rms_norm_rows));
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
