/* resample.h: along an axis, each result a weighted sum of a few elements of x. Template over floats.
 *
 * Attribute words: ir/ops/spatial/resample.py. Indices are all looked at before the first write.
 *
 * defines: gr_cpu_resample__<suffix>
 */
#define GR_STRIP 64 /* results whose sums are made side by side */

typedef struct GR_FN(resampling) {
  const GR_T *x, *weights;
  const int32_t *indices;
  GR_T *out;
  int64_t n, m, k, inner;      /* x is [outer, n, inner], out [outer, m, inner] */
} GR_FN(resampling);

/* Position of element ``i`` of the indices. */
GR_INLINE int64_t GR_FN(resample_at)(const GR_FN(resampling) *p, const int32_t *i) { return *i < 0 ? *i + p->n : *i; }

/* Results of one place of the axis: rows of ``inner`` elements. */
GR_INLINE void GR_FN(resample_row)(const GR_FN(resampling) *p, const GR_T *x, const int32_t *at, const GR_T *w,
                                   GR_T *out) {
  if (p->k == 2) { /* linear */
    const GR_T *a = x + GR_FN(resample_at)(p, at) * p->inner, *b = x + GR_FN(resample_at)(p, at + 1) * p->inner;
    GR_C u = GR_LOAD(w[0]), v = GR_LOAD(w[1]);
    GR_INDEPENDENT
    for (int64_t j = 0; j < p->inner; j++) out[j] = GR_STORE(u * GR_LOAD(a[j]) + v * GR_LOAD(b[j]));
    return;
  }
  for (int64_t first = 0; first < p->inner; first += GR_STRIP) {
    GR_C sums[GR_STRIP] = {0};
    int64_t width = gr_min(GR_STRIP, p->inner - first);
    for (int64_t k = 0; k < p->k; k++) {
      const GR_T *a = x + GR_FN(resample_at)(p, at + k) * p->inner + first;
      GR_C u = GR_LOAD(w[k]);
      for (int64_t j = 0; j < width; j++) sums[j] += u * GR_LOAD(a[j]);
    }
    for (int64_t j = 0; j < width; j++) out[first + j] = GR_STORE(sums[j]);
  }
}

/* Results of a row along the axis, whose elements lie side by side. */
GR_INLINE void GR_FN(resample_line)(const GR_FN(resampling) *p, const GR_T *x, GR_T *out) {
  for (int64_t i = 0; i < p->m; i++) {
    GR_C sum = 0;
    for (int64_t k = i * p->k; k < (i + 1) * p->k; k++)
      sum += GR_LOAD(p->weights[k]) * GR_LOAD(x[GR_FN(resample_at)(p, p->indices + k)]);
    out[i] = GR_STORE(sum);
  }
}

static int32_t GR_FN(resample_lines)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(resampling) *p = ctx;
  for (int64_t o = first; o < last; o++) GR_FN(resample_line)(p, p->x + o * p->n, p->out + o * p->m);
  return GR_OK;
}

static int32_t GR_FN(resample_rows)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(resampling) *p = ctx;
  for (int64_t row = first; row < last; row++) {
    int64_t i = row % p->m;
    GR_FN(resample_row)(p, p->x + row / p->m * p->n * p->inner, p->indices + i * p->k, p->weights + i * p->k,
                        p->out + row * p->inner);
  }
  return GR_OK;
}

/* gr-kernel: cpu/resample : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(resample)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *indices = &call->args[1], *out = &call->args[3];
  int32_t axis = (int32_t)call->attrs[0];
  GR_FN(resampling) p = {gr_ptr(x), gr_ptr(&call->args[2]), gr_ptr(indices), gr_ptr(out), x->shape[axis],
                         out->shape[axis], indices->shape[1], gr_span(x, axis + 1, x->ndim)};
  if (gr_size(out) == 0) return GR_OK;
  for (int64_t i = 0; i < p.m * p.k; i++) {
    if (p.indices[i] < -p.n || p.indices[i] >= p.n) return gr_refuse(call, "resample: an index is out of range");
  }
  int64_t outer = gr_span(x, 0, axis);
  if (p.inner == 1)
    return gr_parallel(call->env, outer, gr_ceil_div(GR_GRAIN, 4 * p.m * gr_max(p.k, 1)), GR_FN(resample_lines), &p);
  return gr_parallel(call->env, outer * p.m, gr_ceil_div(GR_GRAIN, 2 * p.inner * gr_max(p.k, 1)),
                     GR_FN(resample_rows), &p);
}
#undef GR_STRIP
