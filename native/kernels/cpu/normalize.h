/* normalize.h: softmax and layer_norm of floats. Template. Sums are in double; nothing is written before it
 * was read for the last time, but out must not be the input of layer_norm's scale or bias.
 *
 * defines: gr_cpu_{softmax,layer_norm}__<suffix>
 */

/* ---------------------------------------------------------------- softmax */

#define GR_CHUNK 16 /* neighbouring columns that walk down the axis together */
#define GR_EXP_COST 8
#define GR_LANES 8

typedef struct GR_FN(columns) {
  const GR_T *x;
  GR_T *out;
  int64_t n, inner, chunks;    /* x is [outer, n, inner]; chunks of columns in inner */
} GR_FN(columns);

GR_INLINE void GR_FN(softmax_chunk)(const GR_T *x, GR_T *out, int64_t n, int64_t inner, int64_t width) {
  GR_C top[GR_CHUNK];
  double sum[GR_CHUNK];
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
  for (int64_t k = 0; k < n; k++) {
    for (int64_t c = 0; c < width; c++) {
      GR_C e = GR_EXP(GR_LOAD(x[k * inner + c]) - top[c]);
      out[k * inner + c] = GR_STORE((GR_C)(e / sum[c]));
    }
  }
}

/* One contiguous row: in GR_LANES partial maxima and sums, so that the order of additions does not depend on
 * the machine. */
GR_INLINE void GR_FN(softmax_row)(const GR_T *x, GR_T *out, int64_t n) {
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
  GR_INDEPENDENT
  for (k = 0; k < n; k++) out[k] = GR_STORE((GR_C)(GR_EXP(GR_LOAD(x[k]) - top) / sum));
}

static int32_t GR_FN(softmax_chunks)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(columns) *p = ctx;
  if (p->inner == 1) {
    for (int64_t i = first; i < last; i++) GR_FN(softmax_row)(p->x + i * p->n, p->out + i * p->n, p->n);
    return GR_OK;
  }
  for (int64_t i = first; i < last; i++) {
    int64_t column = i % p->chunks * GR_CHUNK, at = i / p->chunks * p->n * p->inner + column;
    GR_FN(softmax_chunk)(p->x + at, p->out + at, p->n, p->inner, gr_min(GR_CHUNK, p->inner - column));
  }
  return GR_OK;
}

/* gr-kernel: cpu/softmax : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(softmax)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  if (gr_size(x) == 0) return GR_OK;
  GR_FN(columns) p = {gr_ptr(x), gr_ptr(&call->args[1]), x->shape[axis], gr_span(x, axis + 1, x->ndim), 0};
  p.chunks = gr_ceil_div(p.inner, GR_CHUNK);
  int64_t cost = GR_EXP_COST * p.n * gr_min(p.inner, GR_CHUNK);
  return gr_parallel(call->env, gr_span(x, 0, axis) * p.chunks, gr_ceil_div(GR_GRAIN, cost),
                     GR_FN(softmax_chunks), &p);
}
#undef GR_CHUNK
#undef GR_EXP_COST

/* ---------------------------------------------------------------- layer_norm */

typedef struct GR_FN(norm) {
  const GR_T *x, *scale, *bias;
  GR_T *out;
  int64_t n;
  double epsilon;
} GR_FN(norm);

/* Sum of (x - centre)^power over n elements, power 1 or 2. */
GR_INLINE double GR_FN(moment)(const GR_T *x, int64_t n, double centre, int power) {
  double lane[GR_LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + GR_LANES <= n; i += GR_LANES) {
    for (int l = 0; l < GR_LANES; l++) {
      double a = (double)GR_LOAD(x[i + l]) - centre;
      lane[l] += power == 2 ? a * a : a;
    }
  }
  for (; i < n; i++) {
    double a = (double)GR_LOAD(x[i]) - centre;
    sum += power == 2 ? a * a : a;
  }
  for (int l = 0; l < GR_LANES; l++) sum += lane[l];
  return sum;
}

static int32_t GR_FN(layer_norm_rows)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(norm) *p = ctx;
  for (int64_t row = first; row < last; row++) {
    const GR_T *x = p->x + row * p->n;
    GR_T *out = p->out + row * p->n;
    double mean = GR_FN(moment)(x, p->n, 0, 1) / (double)p->n;
    double variance = GR_FN(moment)(x, p->n, mean, 2) / (double)p->n;
    double factor = 1 / sqrt(variance + p->epsilon);
    GR_INDEPENDENT
    for (int64_t i = 0; i < p->n; i++) {
      double a = ((double)GR_LOAD(x[i]) - mean) * factor;
      out[i] = GR_STORE((GR_C)(a * (double)GR_LOAD(p->scale[i]) + (double)GR_LOAD(p->bias[i])));
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/layer_norm : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(layer_norm)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  if (gr_size(x) == 0) return GR_OK;
  GR_FN(norm) p = {gr_ptr(x), gr_ptr(&call->args[1]), gr_ptr(&call->args[2]), gr_ptr(&call->args[3]),
                   gr_span(x, axis, x->ndim), 0};
  memcpy(&p.epsilon, &call->attrs[1], sizeof p.epsilon);
  return gr_parallel(call->env, gr_span(x, 0, axis), gr_ceil_div(GR_GRAIN, 8 * p.n), GR_FN(layer_norm_rows),
                     &p);
}
#undef GR_LANES
