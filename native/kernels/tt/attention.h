/* attention.h: softmax(q k^T scale + bias) v, a block of queries a core, a block of keys at a time.
 *
 * The contract is that of ir/ops/products/attention.py and numerics.py. The scores of a block stay in L1: each
 * query keeps the greatest score and the sum of exponentials so far, and when a greater score comes, what was
 * summed is scaled down. So keys and values are read once a block of queries, and the scores never leave the
 * core. Both products are as the fidelity says (operand.h); between them all is float32, as the vector unit has
 * it. With `exact` each tile's product is exact.h's, and sums of several blocks meet in float32.
 * Thread: any; a core makes some rows of an output plane.
 * defines: gr_tt_attention
 */
#ifndef GR_TT_ATTENTION_H
#define GR_TT_ATTENTION_H

#include <math.h>

#include "tt/blocking.h"
#include "tt/operand.h"

#define GR_TT_KEYS 128       /* most keys at a time */

typedef struct gr_tt_attention_job {
  gr_tt_view q, k, v, bias, out;        /* bias.arg is NULL where there is none */
  gr_tt_arithmetic scores, sums;        /* of q with k, of the weights with v */
  float scale;
  int causal;                           /* query i sees keys 0 .. i */
  int64_t blocks;                       /* of queries in a plane */
  int64_t rows, keys, depth, width;     /* queries, keys, columns of q, columns of v at a time: multiples of 32 */
} gr_tt_attention_job;

/* L1 of one core: parts of q [rows][depth], of k in stripes [keys / STRIPE][depth][STRIPE], of the weights
 * [rows][keys], of v in stripes [width / STRIPE][keys][STRIPE]; sums [rows][width], bias [rows][keys], 32 rows as a
 * row-major argument is read; a query's greatest score and its sum of exponentials. */
typedef struct gr_tt_attention_l1 {
  double *total;
  float *q, *k, *weights, *v, *sums, *bias, *strip, *most;
} gr_tt_attention_l1;

/* Floats that it takes; l1, unless NULL, says where they are. */
static inline int64_t gr_tt_attention_layout(const gr_tt_attention_job *job, float *at, gr_tt_attention_l1 *l1) {
  const int32_t *of_scores = job->scores.passes.parts, *of_sums = job->sums.passes.parts;
  int64_t size[9] = {2 * job->rows, job->rows * job->depth * of_scores[GR_SRC_B],
                     job->depth * job->keys * of_scores[GR_SRC_A], job->rows * job->keys * of_sums[GR_SRC_B],
                     job->keys * job->width * of_sums[GR_SRC_A], job->rows * job->width,
                     job->bias.arg != NULL ? job->rows * job->keys : 0,
                     32 * gr_tt_greater(job->depth, job->width), job->rows};
  int64_t total = 0, begin[9];
  for (int i = 0; i < 9; ++i) begin[i] = total, total += size[i];
  if (l1 != NULL)
    *l1 = (gr_tt_attention_l1){(double *)(void *)at, at + begin[1], at + begin[2], at + begin[3], at + begin[4],
                               at + begin[5], at + begin[6], at + begin[7], at + begin[8]};
  return total;
}

/* ---------------------------------------------------------------- products */

/* C += A B; a_size, b_size: floats of a part of A, of B, in whose parts they are cut here. */
static inline void gr_tt_attention_product(const gr_tt_arithmetic *how, gr_gemm g, int64_t cols, float *a,
                                           int64_t a_size, int cut_a, float *b, int64_t b_size) {
  if (cut_a) gr_tt_parts_take(&how->passes, how->sides[0], a, a_size);
  gr_tt_parts_take(&how->passes, how->sides[1], b, b_size);
  g.a = a;
  g.b = b;
  g.stripes = gr_tt_ceil_div(cols, GR_STRIPE);
  gr_tt_products(how, g, a_size, b_size);
}

/* weights = q k^T of `rows` queries from r0 on with `keys` keys from t0 on; q is loaded unless it is there. */
static inline int32_t gr_tt_attention_scores(const gr_tt_core *c, const gr_tt_attention_job *job, gr_tt_rect at,
                                             int64_t t0, int64_t keys, int loaded, const gr_tt_attention_l1 *l1) {
  int64_t q_plane = gr_tt_broadcast_plane(job->q.arg, job->out.arg, at.plane), d = job->q.cols;
  int64_t k_plane = gr_tt_broadcast_plane(job->k.arg, job->out.arg, at.plane);
  gr_tt_panel q = gr_tt_panel_rows(l1->q, job->depth), k = gr_tt_panel_stripes(l1->k, job->depth);
  memset(l1->weights, 0, (size_t)(job->rows * job->keys) * 4);
  for (int64_t d0 = 0; d0 < d; d0 += job->depth) {
    int64_t n = gr_tt_lesser(job->depth, d - d0);
    gr_gemm g = {.rows = at.nr, .k = n, .a = l1->q, .a_row = job->depth, .b = l1->k,
                 .b_stripe = GR_STRIPE * job->depth, .c = l1->weights, .c_row = job->keys};
    int anew = !loaded || job->depth < d;
    if (anew)
      GR_TT_TRY(gr_tt_panel_load(c, &job->q, (gr_tt_rect){q_plane, at.r0, at.nr, d0, n}, 0, &q, l1->strip));
    GR_TT_TRY(gr_tt_panel_load(c, &job->k, (gr_tt_rect){k_plane, t0, keys, d0, n}, 1, &k, l1->strip));
    if (job->scores.words.exact)
      gr_tt_exact_products(&job->scores.words, &g, keys, job->q.arg->format, job->k.arg->format);
    else
      gr_tt_attention_product(&job->scores, g, keys, l1->q, job->rows * job->depth, anew, l1->k,
                              job->depth * job->keys);
  }
  return GR_OK;
}

/* sums += weights v of the keys from t0 on, in the columns of the rectangle. */
static inline int32_t gr_tt_attention_sums(const gr_tt_core *c, const gr_tt_attention_job *job, gr_tt_rect at,
                                           int64_t t0, int64_t keys, const gr_tt_attention_l1 *l1) {
  int64_t plane = gr_tt_broadcast_plane(job->v.arg, job->out.arg, at.plane);
  gr_tt_panel v = gr_tt_panel_stripes(l1->v, job->keys);
  gr_gemm g = {.rows = at.nr, .k = keys, .a = l1->weights, .a_row = job->keys, .b = l1->v,
               .b_stripe = GR_STRIPE * job->keys, .c = l1->sums, .c_row = job->width};
  GR_TT_TRY(gr_tt_panel_load(c, &job->v, (gr_tt_rect){plane, t0, keys, at.c0, at.nc}, 0, &v, l1->strip));
  if (job->sums.words.exact)
    gr_tt_exact_products(&job->sums.words, &g, at.nc, GR_F32, job->v.arg->format);
  else
    gr_tt_attention_product(&job->sums, g, at.nc, l1->weights, job->rows * job->keys, 1, l1->v,
                            job->keys * job->width);
  return GR_OK;
}

/* ---------------------------------------------------------------- softmax, a block of keys after the other */

/* Scores x[seen] of a query become exponentials, x[seen .. keys-1] nothing; its sums[n] and total are brought to
 * the new greatest score. */
static inline void gr_tt_attention_weigh(float *x, int64_t seen, int64_t keys, float *most, double *total,
                                         float *sums, int64_t n) {
  float best = *most;
  double added = 0.0;
  for (int64_t j = 0; j < seen; ++j) best = x[j] > best ? x[j] : best;      /* a NaN shows in the total */
  int hidden = best == -INFINITY;                 /* all so far is masked: there is nothing to compare with */
  for (int64_t j = 0; j < seen; ++j) {
    x[j] = hidden && x[j] == x[j] ? 0.0f : expf(x[j] - best);
    added += x[j];
  }
  for (int64_t j = seen; j < keys; ++j) x[j] = 0.0f;
  float factor = hidden || best == *most ? 1.0f : expf(*most - best);
  for (int64_t i = 0; i < n && factor != 1.0f; ++i) sums[i] *= factor;
  *total = *total * factor + added;
  *most = best;
}

static inline int32_t gr_tt_attention_softmax(const gr_tt_core *c, const gr_tt_attention_job *job, gr_tt_rect at,
                                              int64_t t0, int64_t keys, const gr_tt_attention_l1 *l1) {
  gr_tt_rect of_bias = {at.plane, at.r0, at.nr, t0, keys};
  if (job->bias.arg != NULL)
    GR_TT_TRY(gr_tt_load_broadcast(c, &job->bias, &job->out, of_bias, (uint32_t *)(void *)l1->bias, job->keys));
  for (int64_t r = 0; r < at.nr; ++r) {
    float *x = l1->weights + r * job->keys;
    int64_t seen = job->causal ? gr_tt_lesser(keys, gr_tt_greater(0, at.r0 + r + 1 - t0)) : keys;
    for (int64_t j = 0; j < seen; ++j) x[j] *= job->scale;
    for (int64_t j = 0; j < seen && job->bias.arg != NULL; ++j) x[j] += l1->bias[r * job->keys + j];
    gr_tt_attention_weigh(x, seen, keys, &l1->most[r], &l1->total[r], l1->sums + r * job->width, at.nc);
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- a block of queries */

/* Some columns of its output: all keys that any of its queries sees. */
static inline int32_t gr_tt_attention_block(const gr_tt_core *c, const gr_tt_attention_job *job, gr_tt_rect at) {
  gr_tt_attention_l1 l1;
  int64_t end = job->causal ? gr_tt_lesser(job->k.rows, at.r0 + at.nr) : job->k.rows;
  gr_tt_attention_layout(job, (float *)(void *)c->space, &l1);
  memset(l1.sums, 0, (size_t)(job->rows * job->width) * 4);
  for (int64_t r = 0; r < at.nr; ++r) l1.most[r] = -INFINITY, l1.total[r] = 0.0;
  for (int64_t t0 = 0; t0 < end; t0 += job->keys) {
    int64_t keys = gr_tt_lesser(job->keys, job->k.rows - t0);
    GR_TT_TRY(gr_tt_attention_scores(c, job, at, t0, keys, t0 > 0, &l1));
    GR_TT_TRY(gr_tt_attention_softmax(c, job, at, t0, keys, &l1));
    GR_TT_TRY(gr_tt_attention_sums(c, job, at, t0, keys, &l1));
  }
  for (int64_t r = 0; r < at.nr; ++r)
    for (int64_t j = 0; j < at.nc; ++j) {
      float *sum = l1.sums + r * job->width + j;
      *sum = (float)(*sum / l1.total[r]);
    }
  return gr_tt_store(c, &job->out, at, l1.sums, job->width, 0);
}

static inline int32_t gr_tt_attention_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_attention_job *job = (const gr_tt_attention_job *)ctx;
  gr_tt_rect at = {.plane = unit / job->blocks, .r0 = unit % job->blocks * job->rows};
  at.nr = gr_tt_lesser(job->rows, job->out.rows - at.r0);
  for (at.c0 = 0; at.c0 < job->out.cols; at.c0 += job->width) {
    at.nc = gr_tt_lesser(job->width, job->out.cols - at.c0);
    GR_TT_TRY(gr_tt_attention_block(c, job, at));
  }
  return GR_OK;
}

/* Fewer keys, then queries, then columns at a time, until L1 holds them: each query block reads all keys anew. */
static inline uint64_t gr_tt_attention_fit(gr_tt_attention_job *job) {
  uint64_t bytes;
  while ((bytes = gr_tt_bytes(1, gr_tt_attention_layout(job, NULL, NULL))) > GR_TT_BLOCK_BYTES) {
    int64_t *side = job->keys > 32 ? &job->keys : job->rows > 32 ? &job->rows : &job->depth;
    if (side == &job->depth && job->width > job->depth) side = &job->width;
    if (*side <= 32) break;
    *side -= 32;
  }
  return bytes;
}

/* gr-kernel: tt/attention */
static inline int32_t gr_tt_attention(const gr_call *call) {
  const gr_arg *args = call->args;
  gr_tt_words words = gr_tt_words_of(call->attrs + 3);
  gr_tt_attention_job job = {.q = gr_tt_view_of(&args[0]), .k = gr_tt_view_of(&args[1]),
                             .v = gr_tt_view_of(&args[2]), .out = gr_tt_view_of(&args[call->nargs - 1]),
                             .scores = gr_tt_arithmetic_of(words, GR_SRC_B),
                             .sums = gr_tt_arithmetic_of(words, GR_SRC_B),
                             .causal = call->attrs[1] != 0, .keys = GR_TT_KEYS};
  double scale;
  memcpy(&scale, &call->attrs[0], sizeof scale);
  job.scale = (float)scale;
  if (call->nargs == 5) job.bias = gr_tt_view_of(&args[3]);
  if (job.out.outer * job.out.rows * job.out.cols == 0) return GR_OK;
  gr_tt_words own = {0};       /* a model's blocks are of a product, not of these two */
  job.rows = gr_tt_blocks_of(call, &own, &job.out, 1).height;
  job.keys = gr_tt_lesser(job.keys, gr_tt_up(job.k.rows, 32));
  job.depth = gr_tt_up(job.q.cols, 32);
  job.width = gr_tt_up(job.out.cols, 32);
  uint64_t bytes = gr_tt_attention_fit(&job);
  job.blocks = gr_tt_ceil_div(job.out.rows, job.rows);
  return gr_tt_run(call, job.out.outer * job.blocks, bytes, gr_tt_attention_unit, &job);
}

#endif
