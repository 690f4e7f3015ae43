/* attention.h: softmax(q k^T scale + bias) v of floats, without the matrix of scores. Template.
 *
 * A task is one query. Keys come in blocks; what is summed so far is scaled down whenever a block has a greater
 * score, so that each exponential is of a number not above 0. Attribute words:
 * graph_runtime/ops/attention.py.
 *
 * defines: gr_cpu_attention__<suffix>
 */
#include "cpu/broadcast.h"

#define GR_KEYS 64     /* scores of a block */
#define GR_COLUMNS 256 /* columns of v that are summed in one walk over the keys */
#define GR_LANES 8

typedef struct GR_FN(attending) {
  const GR_T *q, *k, *v, *bias;
  GR_T *out;
  int64_t s, t, d, e, causal;
  GR_C scale;
  int32_t batch;               /* leading dimensions */
  const int64_t *shape;        /* of the output */
  int64_t q_step[GR_MAX_DIMS], k_step[GR_MAX_DIMS], v_step[GR_MAX_DIMS]; /* in planes */
  int64_t bias_step[GR_MAX_DIMS + 2];                                    /* in elements, of [.., s, t] */
} GR_FN(attending);

GR_INLINE GR_C GR_FN(score)(const GR_T *q, const GR_T *k, int64_t d) {
  GR_C lane[GR_LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + GR_LANES <= d; i += GR_LANES) {
    for (int l = 0; l < GR_LANES; l++) lane[l] += GR_LOAD(q[i + l]) * GR_LOAD(k[i + l]);
  }
  for (; i < d; i++) sum += GR_LOAD(q[i]) * GR_LOAD(k[i]);
  for (int l = 0; l < GR_LANES; l++) sum += lane[l];
  return sum;
}

/* One query against keys 0 .. keys-1 for columns 0 .. width-1 of v and out. */
static void GR_FN(attend)(const GR_FN(attending) *p, const GR_T *q, const GR_T *k, const GR_T *v,
                          const GR_T *bias, int64_t keys, GR_T *out, int64_t width) {
  GR_C sums[GR_COLUMNS] = {0}, scores[GR_KEYS], top = -INFINITY, total = 0;
  int64_t bias_step = p->bias_step[p->batch + 1];
  for (int64_t first = 0; first < keys; first += GR_KEYS) {
    int64_t count = gr_min(GR_KEYS, keys - first);
    GR_C greatest = top;
    for (int64_t j = 0; j < count; j++) {
      scores[j] = p->scale * GR_FN(score)(q, k + (first + j) * p->d, p->d);
      if (bias) scores[j] += GR_LOAD(bias[(first + j) * bias_step]);
      greatest = scores[j] > greatest || GR_IS_NAN(scores[j]) ? scores[j] : greatest;
    }
    if (greatest == -INFINITY) continue; /* all masked: exp(-inf - -inf) is no number */
    GR_C shrink = GR_EXP(top - greatest);
    total *= shrink;
    for (int64_t c = 0; c < width; c++) sums[c] *= shrink;
    for (int64_t j = 0; j < count; j++) {
      GR_C weight = GR_EXP(scores[j] - greatest);
      const GR_T *row = v + (first + j) * p->e;
      total += weight;
      for (int64_t c = 0; c < width; c++) sums[c] += weight * GR_LOAD(row[c]);
    }
    top = greatest;
  }
  for (int64_t c = 0; c < width; c++) out[c] = GR_STORE((GR_C)(sums[c] / total));
}

/* Queries first .. last-1, counted over all batches. */
static int32_t GR_FN(attend_rows)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(attending) *p = ctx;
  for (int64_t row = first; row < last; row++) {
    int64_t left = row / p->s, i = row % p->s, q = 0, k = 0, v = 0, bias = i * p->bias_step[p->batch];
    for (int32_t d = p->batch - 1; d >= 0; d--) {
      int64_t at = left % p->shape[d];
      left /= p->shape[d];
      q += at * p->q_step[d];
      k += at * p->k_step[d];
      v += at * p->v_step[d];
      bias += at * p->bias_step[d];
    }
    for (int64_t c = 0; c < p->e; c += GR_COLUMNS) {
      GR_FN(attend)(p, p->q + (q * p->s + i) * p->d, p->k + k * p->t * p->d, p->v + v * p->t * p->e + c,
                    p->bias ? p->bias + bias : NULL, p->causal ? gr_min(p->t, i + 1) : p->t,
                    p->out + row * p->e + c, gr_min(GR_COLUMNS, p->e - c));
    }
  }
  return GR_OK;
}

/* Strides of the planes of arg over the batch dimensions. */
GR_INLINE void GR_FN(plane_steps)(const gr_arg *arg, int32_t batch, int64_t *steps) {
  gr_arg planes = *arg;
  planes.ndim -= 2;
  gr_strides(&planes, batch, steps);
}

/* gr-kernel: cpu/attention : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(attention)(const gr_call *call) {
  const gr_arg *q = &call->args[0], *k = &call->args[1], *v = &call->args[2];
  const gr_arg *out = &call->args[call->nargs - 1];
  if (gr_size(out) == 0) return GR_OK;
  GR_FN(attending) p = {.q = gr_ptr(q), .k = gr_ptr(k), .v = gr_ptr(v), .out = gr_ptr(out)};
  p.batch = out->ndim - 2;
  p.shape = out->shape;
  p.s = out->shape[p.batch];
  p.e = out->shape[p.batch + 1];
  p.t = k->shape[k->ndim - 2];
  p.d = k->shape[k->ndim - 1];
  p.scale = (GR_C)gr_word(call->attrs[0]);
  p.causal = call->attrs[1];
  GR_FN(plane_steps)(q, p.batch, p.q_step);
  GR_FN(plane_steps)(k, p.batch, p.k_step);
  GR_FN(plane_steps)(v, p.batch, p.v_step);
  if (call->nargs == 5) {
    p.bias = gr_ptr(&call->args[3]);
    gr_strides(&call->args[3], p.batch + 2, p.bias_step);
  }
  return gr_parallel(call->env, gr_size(out) / p.e, gr_ceil_div(GR_GRAIN, 2 * p.t * (p.d + p.e)),
                     GR_FN(attend_rows), &p);
}
#undef GR_KEYS
#undef GR_COLUMNS
#undef GR_LANES
