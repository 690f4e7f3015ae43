/* linear.h: matmul (batched, broadcast, transposed), dense and bias_add.
 *
 * The contract is that of graph_runtime/ops/linear.py. A core makes one block of the output at a time: blocks
 * of A and B are unpacked once per block into L1, and products are summed in float32, k ascending.
 * Thread: any.
 * defines: gr_tt_matmul, gr_tt_dense, gr_tt_bias_add
 */
#ifndef GR_TT_LINEAR_H
#define GR_TT_LINEAR_H

#include "tt/exact_linear.h"
#include "tt/work.h"

#define GR_TT_BLOCK 128                /* most rows and columns of an output block */
#define GR_TT_MATMUL_ELEMENTS 131072   /* L1 of a core's blocks, in floats */

/* A register tile is 4 rows of two vectors: as many accumulators as the registers hold. */
#ifdef __AVX__
#define GR_TT_LANES 8
#else
#define GR_TT_LANES 4
#endif
#define GR_TT_STRIPE (2 * GR_TT_LANES)

typedef float gr_tt_vector __attribute__((vector_size(GR_TT_LANES * 4), aligned(4), may_alias));

typedef struct gr_tt_matmul_job {
  gr_tt_view a, b, bias;        /* bias.arg is NULL where there is none */
  int transpose_a, transpose_b;
  int64_t k, depth;             /* depth: elements of K that are in L1 at a time */
} gr_tt_matmul_job;

/* L1 of one core: sums [height][width], a [height][depth], b in stripes [width / STRIPE][depth][STRIPE], and
 * 32 rows as they are read. */
typedef struct gr_tt_blocks {
  float *sums, *a, *b, *rows;
} gr_tt_blocks;

/* c[4][width] += a[4][depth] * stripe[depth][STRIPE] over n of K. */
static inline void gr_tt_multiply_tile(const float *a, int64_t depth, const float *stripe, int64_t n,
                                       float *c, int64_t width) {
  gr_tt_vector sum[4][2];
  for (int i = 0; i < 4; ++i)
    for (int h = 0; h < 2; ++h) sum[i][h] = *(const gr_tt_vector *)(c + i * width + h * GR_TT_LANES);
  for (int64_t k = 0; k < n; ++k) {
    gr_tt_vector b0 = *(const gr_tt_vector *)(stripe + k * GR_TT_STRIPE);
    gr_tt_vector b1 = *(const gr_tt_vector *)(stripe + k * GR_TT_STRIPE + GR_TT_LANES);
    for (int i = 0; i < 4; ++i) {
      float x = a[i * depth + k];
      sum[i][0] += b0 * x;
      sum[i][1] += b1 * x;
    }
  }
  for (int i = 0; i < 4; ++i)
    for (int h = 0; h < 2; ++h) *(gr_tt_vector *)(c + i * width + h * GR_TT_LANES) = sum[i][h];
}

/* A's rows r0 .. r0+nr-1 and n of K from k0 on, as a[nr][depth]; rows up to a multiple of 4 are zero. */
static inline int32_t gr_tt_load_a(const gr_tt_core *c, const gr_tt_matmul_job *job, int64_t plane,
                                   gr_tt_rect at, int64_t k0, int64_t n, const gr_tt_blocks *to) {
  int64_t depth = job->depth;
  memset(to->a + at.nr * depth, 0, (size_t)((gr_tt_up(at.nr, 4) - at.nr) * depth) * 4);
  if (!job->transpose_a)
    return gr_tt_load(c, &job->a, (gr_tt_rect){plane, at.r0, at.nr, k0, n}, to->a, depth);
  for (int64_t k = 0; k < n; k += 32) {
    int64_t nk = gr_tt_lesser(32, n - k);
    GR_TT_TRY(gr_tt_load(c, &job->a, (gr_tt_rect){plane, k0 + k, nk, at.r0, at.nr}, to->rows, at.nr));
    for (int64_t r = 0; r < at.nr; ++r)
      for (int64_t j = 0; j < nk; ++j) to->a[r * depth + k + j] = to->rows[j * at.nr + r];
  }
  return GR_OK;
}

static inline float *gr_tt_stripe_at(const gr_tt_blocks *to, int64_t depth, int64_t k, int64_t col) {
  return to->b + col / GR_TT_STRIPE * depth * GR_TT_STRIPE + k * GR_TT_STRIPE + col % GR_TT_STRIPE;
}

/* n of K from k0 on and B's columns c0 .. c0+nc-1, in stripes; columns up to a whole stripe are zero. */
static inline int32_t gr_tt_load_b(const gr_tt_core *c, const gr_tt_matmul_job *job, int64_t plane,
                                   gr_tt_rect at, int64_t k0, int64_t n, const gr_tt_blocks *to) {
  int64_t depth = job->depth, end = gr_tt_up(at.nc, GR_TT_STRIPE);
  if (at.nc < end)
    memset(gr_tt_stripe_at(to, depth, 0, end - GR_TT_STRIPE), 0, (size_t)(n * GR_TT_STRIPE) * 4);
  for (int64_t first = 0; first < (job->transpose_b ? at.nc : n); first += 32) {
    int64_t count = gr_tt_lesser(32, (job->transpose_b ? at.nc : n) - first);
    gr_tt_rect from = {plane, k0 + first, count, at.c0, at.nc};
    if (job->transpose_b) from = (gr_tt_rect){plane, at.c0 + first, count, k0, n};
    GR_TT_TRY(gr_tt_load(c, &job->b, from, to->rows, from.nc));
    if (job->transpose_b) {
      for (int64_t k = 0; k < n; ++k)
        for (int64_t j = 0; j < count; ++j) *gr_tt_stripe_at(to, depth, k, first + j) = to->rows[j * n + k];
      continue;
    }
    for (int64_t k = 0; k < count; ++k)
      for (int64_t j = 0; j < at.nc; j += GR_TT_STRIPE)
        memcpy(gr_tt_stripe_at(to, depth, first + k, j), to->rows + k * at.nc + j,
               (size_t)gr_tt_lesser(GR_TT_STRIPE, at.nc - j) * 4);
  }
  return GR_OK;
}

/* sums[nr][width] = bias or 0 */
static inline int32_t gr_tt_first_sums(const gr_tt_core *c, const gr_tt_view *bias, gr_tt_rect at,
                                       float *sums, int64_t width) {
  int64_t rows = gr_tt_up(at.nr, 4);
  memset(sums, 0, (size_t)(rows * width) * 4);
  if (bias->arg == NULL || at.nr == 0) return GR_OK;
  GR_TT_TRY(gr_tt_load(c, bias, (gr_tt_rect){0, 0, 1, at.c0, at.nc}, sums, width));
  for (int64_t r = 1; r < at.nr; ++r) memcpy(sums + r * width, sums, (size_t)at.nc * 4);
  return GR_OK;
}

static inline int32_t gr_tt_matmul_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                         gr_tt_rect at) {
  const gr_tt_matmul_job *job = (const gr_tt_matmul_job *)ctx;
  int64_t height = gr_tt_up(cut->height, 4), width = cut->width, depth = job->depth;
  gr_tt_blocks l1 = {.sums = (float *)(void *)c->space};
  l1.a = l1.sums + height * width;
  l1.b = l1.a + height * depth;
  l1.rows = l1.b + width * depth;
  int64_t a_plane = gr_tt_broadcast_plane(job->a.arg, cut->view.arg, at.plane);
  int64_t b_plane = gr_tt_broadcast_plane(job->b.arg, cut->view.arg, at.plane);
  GR_TT_TRY(gr_tt_first_sums(c, &job->bias, at, l1.sums, width));
  for (int64_t k0 = 0; k0 < job->k; k0 += depth) {
    int64_t n = gr_tt_lesser(depth, job->k - k0);
    GR_TT_TRY(gr_tt_load_a(c, job, a_plane, at, k0, n, &l1));
    GR_TT_TRY(gr_tt_load_b(c, job, b_plane, at, k0, n, &l1));
    for (int64_t j = 0; j < at.nc; j += GR_TT_STRIPE)
      for (int64_t r = 0; r < at.nr; r += 4)
        gr_tt_multiply_tile(l1.a + r * depth, depth, l1.b + j * depth, n, l1.sums + r * width + j, width);
  }
  return gr_tt_store(c, &cut->view, at, l1.sums, width, 0);
}

static inline int32_t gr_tt_matmul_run(const gr_call *call, const gr_arg *out, gr_tt_matmul_job *job) {
  gr_tt_panels cut = {.view = gr_tt_view_of(out)};
  int64_t rows = gr_tt_greater(1, cut.view.rows), cols = gr_tt_greater(1, cut.view.cols);
  cut.height = gr_tt_lesser(GR_TT_BLOCK, out->layout == GR_TILE ? gr_tt_up(rows, 32) : rows);
  cut.width = gr_tt_lesser(GR_TT_BLOCK, gr_tt_up(cols, 32));
  cut.down = gr_tt_ceil(cut.view.rows, cut.height);
  cut.across = gr_tt_ceil(cut.view.cols, cut.width);
  int64_t height = gr_tt_up(cut.height, 4), rows_width = gr_tt_greater(cut.height, cut.width);
  /* the rows being read are 32 x depth of a transposed B, 32 x an output block's side of the others */
  int64_t room = GR_TT_MATMUL_ELEMENTS - height * cut.width - 32 * rows_width;
  int64_t steps = gr_tt_greater(1, gr_tt_ceil(job->k, room / (height + cut.width + 32) / 32 * 32));
  job->depth = gr_tt_greater(32, gr_tt_up(gr_tt_ceil(job->k, steps), 32));
  int64_t elements = height * cut.width + (height + cut.width) * job->depth;
  elements += 32 * gr_tt_greater(rows_width, job->depth);
  return gr_tt_run_panels(call, &cut, gr_tt_bytes(1, elements), gr_tt_matmul_panel, job);
}

/* How the node was asked to compute; exact is another road. */
static inline int32_t gr_tt_matmul_any(const gr_call *call, gr_tt_matmul_job *job, const int64_t *numerics) {
  const gr_arg *out = &call->args[call->nargs - 1];
  gr_tt_words words = gr_tt_words_of(numerics);
  if (!words.exact) return gr_tt_matmul_run(call, out, job);
  gr_tt_exact_job exact = {job->a, job->b, job->bias, job->transpose_a, job->transpose_b, job->k, words};
  return gr_tt_exact_matmul(call, out, &exact);
}

/* gr-kernel: tt/matmul */
static inline int32_t gr_tt_matmul(const gr_call *call) {
  gr_tt_matmul_job job = {.a = gr_tt_view_of(&call->args[0]), .b = gr_tt_view_of(&call->args[1])};
  job.transpose_a = call->attrs[0] != 0;
  job.transpose_b = call->attrs[1] != 0;
  job.k = job.transpose_a ? job.a.rows : job.a.cols;
  return gr_tt_matmul_any(call, &job, call->attrs + 2);
}

/* gr-kernel: tt/dense */
static inline int32_t gr_tt_dense(const gr_call *call) {
  gr_tt_matmul_job job = {.a = gr_tt_view_of(&call->args[0]), .b = gr_tt_view_of(&call->args[1]),
                          .transpose_b = 1};
  job.k = job.a.cols;
  if (call->nargs == 4) job.bias = gr_tt_view_of(&call->args[2]);
  return gr_tt_matmul_any(call, &job, call->attrs);
}

/* ---------------------------------------------------------------- bias_add */

typedef struct gr_tt_bias_job {
  gr_tt_view x, bias;
  int32_t axis;            /* counted from the back: 0 columns, 1 rows, more: planes */
  int64_t inner;           /* planes that share an element of the bias */
} gr_tt_bias_job;

static inline int32_t gr_tt_bias_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                       gr_tt_rect at) {
  const gr_tt_bias_job *job = (const gr_tt_bias_job *)ctx;
  int64_t ld = cut->width;
  float *x = (float *)(void *)c->space, *bias = x + cut->height * ld;
  gr_tt_rect from = {0, 0, 1, at.c0, at.nc};
  if (job->axis == 1) from = (gr_tt_rect){0, 0, 1, at.r0, at.nr};
  if (job->axis > 1) from = (gr_tt_rect){0, 0, 1, at.plane / job->inner % job->bias.cols, 1};
  GR_TT_TRY(gr_tt_load(c, &job->x, at, x, ld));
  GR_TT_TRY(gr_tt_load(c, &job->bias, from, bias, from.nc));
  for (int64_t r = 0; r < at.nr; ++r)
    for (int64_t j = 0; j < at.nc; ++j) x[r * ld + j] += bias[job->axis == 0 ? j : job->axis == 1 ? r : 0];
  return gr_tt_store(c, &cut->view, at, x, ld, 0);
}

/* gr-kernel: tt/bias_add */
static inline int32_t gr_tt_bias_add(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  gr_tt_panels cut = gr_tt_cut(call, &call->args[2], 2);
  gr_tt_bias_job job = {gr_tt_view_of(x), gr_tt_view_of(&call->args[1]),
                        x->ndim - 1 - (int32_t)call->attrs[0], 1};
  for (int32_t d = (int32_t)call->attrs[0] + 1; d < x->ndim - 2; ++d) job.inner *= x->shape[d];
  uint64_t bytes = gr_tt_bytes(cut.height, cut.width) + gr_tt_bytes(1, gr_tt_greater(cut.height, cut.width));
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_bias_panel, &job);
}

#endif
