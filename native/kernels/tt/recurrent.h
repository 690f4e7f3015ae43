/* recurrent.h: lstm, gru and rnn over all steps of a sequence: a direction of up to 32 rows of the batch a core.
 *
 * The contract is that of ir/ops/products/recurrent.py and numerics.py. States stay in the core's L1 in
 * float32 from the first step to the last, and so do the weights where they fit; else each step reads them anew, some
 * columns at a time. What the inputs give begins the sums of a step, the product of the state is added as the
 * fidelity says (operand.h), the gates' functions are the vector unit's. With a 16-bit Dst each of these is rounded.
 * Thread: any; steps depend on each other, directions and blocks of rows do not.
 * defines: gr_tt_lstm, gr_tt_gru, gr_tt_rnn
 */
#ifndef GR_TT_RECURRENT_H
#define GR_TT_RECURRENT_H

#include "cells.h"
#include "tt/operand.h"
#include "tt/scalars.h"

#define GR_TT_CELL_BYTES 655360 /* L1 of one core, as ir/ops/products/cells.py knows it */
#define GR_TT_CELL_ROWS 32      /* a tile: two cores never write one page */

typedef struct gr_tt_recurrence {
  const gr_call *call;
  enum gr_cell cell;
  gr_tt_view projected, weights, h, c, late, peepholes, lengths, y, last_h, last_c; /* arg NULL: there is none */
  gr_tt_arithmetic how;
  int64_t steps, hidden, width, functions, flags;
  int64_t rows, blocks;            /* of a core; of a direction */
  int64_t depth, columns, more;    /* the hidden size, all gates, a gru's hidden gate apart: multiples of 32 */
  int64_t held;                    /* columns of the weights in L1 at a time */
} gr_tt_recurrence;

/* L1 of one core: states [rows][depth], `a` their parts, sums [rows][columns], `apart` [rows][more]; weights in
 * stripes [held / STRIPE][depth][STRIPE], 32 rows as a row-major argument is read. */
typedef struct gr_tt_recurrence_l1 {
  float *h, *c, *a, *sums, *apart, *weights, *strip, *late, *peepholes;
  int32_t *lengths;
} gr_tt_recurrence_l1;

/* Floats that it takes; l1, unless NULL, says where they are. */
static inline int64_t gr_tt_recurrence_layout(const gr_tt_recurrence *job, float *at, gr_tt_recurrence_l1 *l1) {
  const int32_t *parts = job->how.passes.parts;
  int64_t state = job->rows * job->depth;
  int64_t size[10] = {state, job->cell == GR_LSTM ? state : 0, state * parts[job->how.sides[0]],
                      job->rows * job->columns, job->cell == GR_GRU ? job->rows * job->more : 0,
                      job->depth * job->held * parts[job->how.sides[1]], 32 * job->depth,
                      job->late.arg != NULL ? job->depth : 0, job->peepholes.arg != NULL ? 3 * job->depth : 0,
                      job->lengths.arg != NULL ? 32 : 0};
  int64_t total = 0, begin[10];
  for (int i = 0; i < 10; ++i) begin[i] = total, total += size[i];
  if (l1 != NULL)
    *l1 = (gr_tt_recurrence_l1){at + begin[0], at + begin[1], at + begin[2], at + begin[3], at + begin[4],
                                at + begin[5], at + begin[6], at + begin[7], at + begin[8],
                                (int32_t *)(void *)(at + begin[9])};
  return total;
}

/* ---------------------------------------------------------------- functions of gates */

#define GR_TT_OVER(value)                   \
  for (int64_t i = 0; i < n; ++i) {         \
    float a = x[i];                         \
    x[i] = (value);                         \
  }                                         \
  break;

/* x = the function of words (its code and two numbers) of x. */
GR_TT_APART void gr_tt_activate(const int64_t *words, int32_t dst_bits, float *x, int64_t n) {
  double p, q;
  memcpy(&p, &words[1], sizeof p);
  memcpy(&q, &words[2], sizeof q);
  switch ((enum gr_activation)words[0]) {
    case GR_ACT_SIGMOID: GR_TT_OVER(gr_tt_fn_sigmoid(a, 0, 0))
    case GR_ACT_TANH: GR_TT_OVER(gr_tt_fn_tanh(a, 0, 0))
    case GR_ACT_RELU: GR_TT_OVER(gr_tt_fn_relu(a, 0, 0))
    case GR_ACT_AFFINE: GR_TT_OVER((float)p * a + (float)q)
    case GR_ACT_LEAKY_RELU: GR_TT_OVER(gr_tt_fn_leaky_relu(a, p, 0))
    case GR_ACT_THRESHOLDED_RELU: GR_TT_OVER(gr_tt_fn_thresholded_relu(a, p, 0))
    case GR_ACT_SCALED_TANH: GR_TT_OVER((float)p * gr_tt_fn_tanh((float)q * a, 0, 0))
    case GR_ACT_HARD_SIGMOID: GR_TT_OVER(gr_tt_fn_hard_sigmoid(a, p, q))
    case GR_ACT_ELU: GR_TT_OVER(gr_tt_fn_elu(a, p, 0))
    case GR_ACT_SOFTSIGN: GR_TT_OVER(gr_tt_fn_softsign(a, 0, 0))
    case GR_ACT_SOFTPLUS: GR_TT_OVER(gr_tt_fn_softplus(a, 0, 0))
  }
  for (int64_t i = 0; i < n && dst_bits == 16; ++i) x[i] = gr_dst16_round(x[i]);
}
#undef GR_TT_OVER

/* The cell's `index`-th function of direction d. */
static inline void gr_tt_function(const gr_tt_recurrence *job, int64_t d, int64_t index, float *x, int64_t n) {
  const int64_t *words = job->call->attrs + GR_CELL_WORDS + 3 * (d * job->functions + index);
  gr_tt_activate(words, job->how.words.dst_bits, x, n);
}

/* The same of a gate, which is clipped before. */
static inline void gr_tt_gate(const gr_tt_recurrence *job, int64_t d, int64_t index, float *x, int64_t n) {
  double clip;
  memcpy(&clip, &job->call->attrs[1], sizeof clip);
  float most = (float)clip;
  for (int64_t i = 0; i < n && most < INFINITY; ++i) x[i] = x[i] < -most ? -most : x[i] > most ? most : x[i];
  gr_tt_function(job, d, index, x, n);
}

/* ---------------------------------------------------------------- the product of the state */

/* Columns n0 .. n0+n-1 of a direction's weights. */
static inline int32_t gr_tt_recurrence_load(const gr_tt_core *c, const gr_tt_recurrence *job, int64_t d, int64_t n0,
                                            int64_t n, const gr_tt_recurrence_l1 *l1) {
  gr_tt_panel to = gr_tt_panel_stripes(l1->weights, job->depth);
  gr_tt_rect from = {d, n0, n, 0, job->hidden};
  GR_TT_TRY(gr_tt_panel_load(c, &job->weights, from, 1, &to, l1->strip));
  if (!job->how.words.exact)
    gr_tt_parts_take(&job->how.passes, job->how.sides[1], l1->weights, job->held * job->depth);
  return GR_OK;
}

/* Factor of a product: `rows` of x, ld apart. */
static inline void gr_tt_recurrence_take(const gr_tt_recurrence *job, const float *x, int64_t rows, int64_t ld,
                                         const gr_tt_recurrence_l1 *l1) {
  for (int64_t r = 0; r < rows; ++r) memcpy(l1->a + r * job->depth, x + r * ld, (size_t)job->hidden * 4);
  if (!job->how.words.exact)
    gr_tt_parts_take(&job->how.passes, job->how.sides[0], l1->a, job->rows * job->depth);
}

/* to[rows][ld] += a times the columns n0 (a multiple of 32) .. end-1 of all gates. */
static inline int32_t gr_tt_recurrence_product(const gr_tt_core *c, const gr_tt_recurrence *job, int64_t d,
                                               int64_t rows, int64_t n0, int64_t end, float *to, int64_t ld,
                                               const gr_tt_recurrence_l1 *l1) {
  int whole = job->held == job->columns;
  for (int64_t n = 0; n0 < end; n0 += n, to += n) {
    n = gr_tt_lesser(job->held, end - n0);
    if (!whole) GR_TT_TRY(gr_tt_recurrence_load(c, job, d, n0, n, l1));
    gr_gemm g = {.rows = rows, .stripes = gr_tt_ceil_div(n, GR_STRIPE), .k = job->hidden, .a = l1->a,
                 .a_row = job->depth, .b = l1->weights + (whole ? n0 * job->depth : 0),
                 .b_stripe = GR_STRIPE * job->depth, .c = to, .c_row = ld};
    if (job->how.words.exact)
      gr_tt_exact_products(&job->how.words, &g, n, GR_F32, job->weights.arg->format);
    else
      gr_tt_products(&job->how, g, job->rows * job->depth, job->held * job->depth);
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- cells */

/* One row: gates are of input, output, forget and cell, peepholes of input, output and forget. */
static inline void gr_tt_lstm_row(const gr_tt_recurrence *job, int64_t d, float *g, float *h, float *c,
                                  const float *peep) {
  int64_t n = job->hidden;
  float *in = g, *out = g + n, *forget = g + 2 * n, *cell = g + 3 * n;
  for (int64_t j = 0; j < n && peep != NULL; ++j) in[j] += peep[j] * c[j], forget[j] += peep[2 * n + j] * c[j];
  gr_tt_gate(job, d, 0, in, n);
  if (job->flags & GR_COUPLED)
    for (int64_t j = 0; j < n; ++j) forget[j] = 1 - in[j];
  else
    gr_tt_gate(job, d, 0, forget, n);
  gr_tt_gate(job, d, 1, cell, n);
  for (int64_t j = 0; j < n; ++j) c[j] = forget[j] * c[j] + in[j] * cell[j];
  for (int64_t j = 0; j < n && peep != NULL; ++j) out[j] += peep[n + j] * c[j];
  gr_tt_gate(job, d, 0, out, n);
  memcpy(cell, c, (size_t)n * 4);
  gr_tt_function(job, d, 2, cell, n);
  for (int64_t j = 0; j < n; ++j) h[j] = out[j] * cell[j];
}

/* The hidden gate's sums, in `apart` from `skip` on in each row: what the inputs give, and the product of the reset
 * state; or, where that is late, the reset product, which the sums have then. */
static inline int32_t gr_tt_gru_hidden(const gr_tt_core *core, const gr_tt_recurrence *job, int64_t d, int64_t rows,
                                       int64_t first, int64_t skip, const gr_tt_recurrence_l1 *l1) {
  int64_t n = job->hidden;
  for (int64_t r = 0; r < rows; ++r) {
    float *g = l1->sums + r * job->columns, *reset = g + n, *apart = l1->apart + r * job->more + skip;
    gr_tt_gate(job, d, 0, g, 2 * n);
    for (int64_t j = 0; j < n && (job->flags & GR_LATE); ++j) apart[j] += reset[j] * g[2 * n + j];
    for (int64_t j = 0; j < n && !(job->flags & GR_LATE); ++j) reset[j] *= l1->h[r * job->depth + j];
  }
  if (!(job->flags & GR_LATE)) {
    gr_tt_recurrence_take(job, l1->sums + n, rows, job->columns, l1);
    GR_TT_TRY(gr_tt_recurrence_product(core, job, d, rows, first, 3 * n, l1->apart, job->more, l1));
  }
  for (int64_t r = 0; r < rows; ++r) gr_tt_gate(job, d, 1, l1->apart + r * job->more + skip, n);
  return GR_OK;
}

/* A gru's sums before its product: the hidden gate's inputs go apart, their place has the late bias. */
static inline void gr_tt_gru_begin(const gr_tt_recurrence *job, int64_t rows, int64_t skip,
                                   const gr_tt_recurrence_l1 *l1) {
  for (int64_t r = 0; r < rows; ++r) {
    float *own = l1->sums + r * job->columns + 2 * job->hidden, *apart = l1->apart + r * job->more;
    memset(apart, 0, (size_t)job->more * 4);
    memcpy(apart + skip, own, (size_t)job->hidden * 4);
    if (job->late.arg != NULL) memcpy(own, l1->late, (size_t)job->hidden * 4);
  }
}

/* Step t of a core's rows; y comes to the sums. A row whose sequence has ended keeps its state, its y is 0. */
static inline int32_t gr_tt_recurrence_step(const gr_tt_core *core, const gr_tt_recurrence *job, gr_tt_rect rows,
                                            int64_t d, int64_t t, const gr_tt_recurrence_l1 *l1) {
  int64_t n = job->hidden, ld = job->columns, first = 2 * n / 32 * 32, skip = 2 * n - first;
  gr_tt_rect at = {t, rows.r0, rows.nr, d * job->width, job->width};
  GR_TT_TRY(gr_tt_load(core, &job->projected, at, l1->sums, ld));
  if (job->cell == GR_GRU) gr_tt_gru_begin(job, at.nr, skip, l1);
  gr_tt_recurrence_take(job, l1->h, at.nr, job->depth, l1);
  int64_t end = job->cell == GR_GRU && !(job->flags & GR_LATE) ? 2 * n : job->width;
  GR_TT_TRY(gr_tt_recurrence_product(core, job, d, at.nr, 0, end, l1->sums, ld, l1));
  if (job->cell == GR_GRU) GR_TT_TRY(gr_tt_gru_hidden(core, job, d, at.nr, first, skip, l1));
  for (int64_t r = 0; r < at.nr; ++r) {
    float *g = l1->sums + r * ld, *h = l1->h + r * job->depth, *apart = l1->apart + r * job->more + skip;
    if (job->lengths.arg != NULL && t >= l1->lengths[r]) {
      memset(g, 0, (size_t)n * 4);
      continue;
    }
    if (job->cell == GR_LSTM) {
      gr_tt_lstm_row(job, d, g, h, l1->c + r * job->depth, job->peepholes.arg != NULL ? l1->peepholes : NULL);
    } else if (job->cell == GR_RNN) {
      gr_tt_gate(job, d, 0, g, n);
      memcpy(h, g, (size_t)n * 4);
    } else {
      for (int64_t j = 0; j < n; ++j) h[j] = apart[j] + g[j] * (h[j] - apart[j]);
    }
    memcpy(g, h, (size_t)n * 4);
  }
  gr_tt_rect to = {t * job->h.outer + d, rows.r0, rows.nr, 0, n};
  return gr_tt_store(core, &job->y, to, l1->sums, ld, 0);
}

/* A direction of some rows: all steps. */
static inline int32_t gr_tt_recurrence_unit(const gr_tt_core *core, const void *ctx, int64_t unit) {
  const gr_tt_recurrence *job = (const gr_tt_recurrence *)ctx;
  int64_t d = unit / job->blocks, r0 = unit % job->blocks * GR_TT_CELL_ROWS, n = job->hidden;
  gr_tt_rect at = {d, r0, gr_tt_lesser(GR_TT_CELL_ROWS, job->h.rows - r0), 0, n};
  int backward = job->call->attrs[0] == GR_REVERSE || d == 1;
  gr_tt_recurrence_l1 l1;
  gr_tt_recurrence_layout(job, (float *)(void *)core->space, &l1);
  GR_TT_TRY(gr_tt_load(core, &job->h, at, l1.h, job->depth));
  if (job->cell == GR_LSTM) GR_TT_TRY(gr_tt_load(core, &job->c, at, l1.c, job->depth));
  if (job->late.arg != NULL) GR_TT_TRY(gr_tt_load(core, &job->late, (gr_tt_rect){0, d, 1, 0, n}, l1.late, n));
  if (job->peepholes.arg != NULL)
    GR_TT_TRY(gr_tt_load(core, &job->peepholes, (gr_tt_rect){0, d, 1, 0, 3 * n}, l1.peepholes, 3 * n));
  if (job->lengths.arg != NULL)
    GR_TT_TRY(gr_tt_load(core, &job->lengths, (gr_tt_rect){0, 0, 1, r0, at.nr}, l1.lengths, at.nr));
  if (job->held == job->columns && job->steps > 0)
    GR_TT_TRY(gr_tt_recurrence_load(core, job, d, 0, job->width, &l1));
  for (int64_t s = 0; s < job->steps; ++s)
    GR_TT_TRY(gr_tt_recurrence_step(core, job, at, d, backward ? job->steps - 1 - s : s, &l1));
  GR_TT_TRY(gr_tt_store(core, &job->last_h, at, l1.h, job->depth, 0));
  return job->cell == GR_LSTM ? gr_tt_store(core, &job->last_c, at, l1.c, job->depth, 0) : GR_OK;
}

static inline int32_t gr_tt_recurrent(const gr_call *call, enum gr_cell cell, int64_t functions) {
  const gr_arg *args = call->args, *outs = args + call->nargs - (cell == GR_LSTM ? 3 : 2);
  int64_t flags = call->attrs[2], next = cell == GR_LSTM ? 4 : 3;
  gr_tt_recurrence job = {.call = call, .cell = cell, .flags = flags, .functions = functions,
                          .projected = gr_tt_view_of(&args[0]), .weights = gr_tt_view_of(&args[1]),
                          .h = gr_tt_view_of(&args[2]), .y = gr_tt_view_of(&outs[0]),
                          .last_h = gr_tt_view_of(&outs[1]), .steps = args[0].shape[0]};
  if (cell == GR_LSTM) job.c = gr_tt_view_of(&args[3]), job.last_c = gr_tt_view_of(&outs[2]);
  if (flags & GR_LATE) job.late = gr_tt_view_of(&args[next++]);
  if (flags & GR_PEEPHOLES) job.peepholes = gr_tt_view_of(&args[next++]);
  if (flags & GR_LENGTHS) job.lengths = gr_tt_view_of(&args[next++]);
  gr_tt_words words = gr_tt_words_of(call->attrs + GR_CELL_WORDS + 3 * functions * job.h.outer);
  job.how = gr_tt_arithmetic_of(words, GR_SRC_B);
  job.hidden = job.h.cols, job.width = job.weights.rows;
  job.rows = gr_tt_lesser(GR_TT_CELL_ROWS, job.h.rows), job.blocks = gr_tt_ceil_div(job.h.rows, GR_TT_CELL_ROWS);
  job.depth = gr_tt_up(job.hidden, 32), job.columns = gr_tt_up(job.width, 32), job.more = job.depth + 32;
  job.held = job.columns;
  while (job.held > 32 && gr_tt_bytes(1, gr_tt_recurrence_layout(&job, NULL, NULL)) > GR_TT_CELL_BYTES)
    job.held -= 32;
  return gr_tt_run(call, job.h.outer * job.blocks, gr_tt_bytes(1, gr_tt_recurrence_layout(&job, NULL, NULL)),
                   gr_tt_recurrence_unit, &job);
}

/* gr-kernel: tt/lstm */
static inline int32_t gr_tt_lstm(const gr_call *call) { return gr_tt_recurrent(call, GR_LSTM, 3); }

/* gr-kernel: tt/gru */
static inline int32_t gr_tt_gru(const gr_call *call) { return gr_tt_recurrent(call, GR_GRU, 2); }

/* gr-kernel: tt/rnn */
static inline int32_t gr_tt_rnn(const gr_call *call) { return gr_tt_recurrent(call, GR_RNN, 1); }

#endif
