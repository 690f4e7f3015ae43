/* attention.h: softmax(q k^T scale + bias) v of floats, without the matrix of scores. Template.
 *
 * A task is one query. Keys come in blocks; what is summed so far is scaled down whenever a block has a greater
 * score, so that each exponential is of a number not above 0. Attribute words:
 * ir/ops/products/attention.py.
 *
 * defines: gr_cpu_attention__<suffix>
 */
#include "cpu/heads.h"

#define GR_KEYS 64     /* scores of a block */
#define GR_COLUMNS 256 /* columns of v that are summed in one walk over the keys */
#define GR_LANES 8

typedef struct GR_FN(attending) {
  gr_heads heads;
  const GR_T *q, *k, *v, *bias;
  GR_T *out;
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
static void GR_FN(attend)(const gr_heads *h, const GR_T *q, const GR_T *k, const GR_T *v,
                          const GR_T *bias, int64_t keys, GR_T *out, int64_t width) {
  GR_C sums[GR_COLUMNS] = {0}, scores[GR_KEYS], top = -INFINITY, total = 0;
  GR_C scale = (GR_C)h->scale;
  int64_t bias_step = h->bias_step[h->batch + 1];
  for (int64_t first = 0; first < keys; first += GR_KEYS) {
    int64_t count = gr_min(GR_KEYS, keys - first);
    GR_C greatest = top;
    for (int64_t j = 0; j < count; j++) {
      scores[j] = scale * GR_FN(score)(q, k + (first + j) * h->k_row, h->d);
      if (bias) scores[j] += GR_LOAD(bias[(first + j) * bias_step]);
      greatest = scores[j] > greatest || GR_IS_NAN(scores[j]) ? scores[j] : greatest;
    }
    if (greatest == -INFINITY) continue; /* all masked: exp(-inf - -inf) is no number */
    GR_C shrink = GR_EXP(top - greatest);
    total *= shrink;
    for (int64_t c = 0; c < width; c++) sums[c] *= shrink;
    for (int64_t j = 0; j < count; j++) {
      GR_C weight = GR_EXP(scores[j] - greatest);
      const GR_T *row = v + (first + j) * h->v_row;
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
  const gr_heads *h = &p->heads;
  for (int64_t row = first; row < last; row++) {
    int64_t i = row % h->s;
    gr_head at = gr_heads_at(h, row / h->s);
    for (int64_t c = 0; c < h->e; c += GR_COLUMNS) {
      GR_FN(attend)(h, p->q + at.q + i * h->q_row, p->k + at.k, p->v + at.v + c,
                    p->bias ? p->bias + at.bias + i * h->bias_step[h->batch] : NULL,
                    h->causal ? gr_min(h->t, i + 1) : h->t, p->out + at.out + i * h->out_row + c,
                    gr_min(GR_COLUMNS, h->e - c));
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/attention : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(attention)(const gr_call *call) {
  const gr_arg *out = &call->args[call->nargs - 1];
  if (gr_size(out) == 0) return GR_OK;
  GR_FN(attending) p = {gr_heads_open(call), gr_ptr(&call->args[0]), gr_ptr(&call->args[1]), gr_ptr(&call->args[2]),
                        call->nargs == 5 ? gr_ptr(&call->args[3]) : NULL, gr_ptr(out)};
  const gr_heads *h = &p.heads;
  return gr_parallel(call->env, h->count * h->s, gr_ceil_div(GR_GRAIN, 2 * h->t * (h->d + h->e)),
                     GR_FN(attend_rows), &p);
}
#undef GR_KEYS
#undef GR_COLUMNS
#undef GR_LANES
