/* recurrent.h: lstm, gru and rnn over all steps of a sequence. Template.
 *
 * What the inputs give to the gates is made before, by one product for all steps. Here a step is the product of
 * the state by the recurrent weights, added to that, and the cell's functions of it. A task is one direction of
 * some rows of the batch, which depend on no others; where there is one task its products are spread instead.
 * float32 has its weights in panels (panels.h), maybe of bf16, or in panels of bytes (recurrent_bytes.h). Attribute
 * words: ir/ops/products/recurrent.py.
 *
 * defines: gr_cpu_{lstm gru rnn}__<suffix>
 */
#include "cells.h"
#include "cpu/steps_lanes.h"
#ifdef GR_IS_F32
#include "cpu/recurrent_bytes.h"
#include "panels.h"
#endif

#define GR_TASK_ROWS 4 /* of a task, at least: each of them reads all weights anew */

typedef struct GR_FN(recurrence) {
  const gr_call *call;
  enum gr_cell cell;
  int64_t steps, batch, directions, hidden, width; /* width: of a direction's gates together */
  int64_t way, flags, functions, rows;             /* functions: of a cell; rows: of a task */
  const GR_T *projected, *weights, *late_bias, *peepholes;
  const int32_t *lengths;
  GR_T *y, *h, *c;
  GR_T *gates, *more; /* [batch][directions][width], [batch][directions][hidden] */
  const GR_T *panels; /* of float32: of each direction, [panels][depth][32] */
  int64_t panels_of_one, depth;
  int pairs;          /* panels are bf16, two rows of hidden to a depth; else depth is hidden */
  int alone;
#ifdef GR_IS_F32
  gr_byte_state in_bytes; /* where flags say so */
#endif
} GR_FN(recurrence);

/* ---------------------------------------------------------------- functions of gates */

#define GR_OVER(value)                                                                     \
  GR_INDEPENDENT                                                                           \
  for (int64_t i = 0; i < n; i++) {                                                        \
    GR_T a = x[i];                                                                         \
    x[i] = (GR_T)(value);                                                                  \
  }                                                                                        \
  break;

/* x = the function of words (its code and two numbers) of x. */
static inline __attribute__((always_inline)) void GR_FN(activate_all)(const int64_t *words, GR_T *x, int64_t n) {
  double p = gr_word(words[1]), q = gr_word(words[2]);
  switch ((enum gr_activation)words[0]) {
    case GR_ACT_SIGMOID: GR_OVER(GR_MATH(gr_fn_sigmoid)(a, 0, 0))
    case GR_ACT_TANH: GR_OVER(GR_MATH(gr_fn_tanh)(a, 0, 0))
    case GR_ACT_RELU: GR_OVER(GR_MATH(gr_fn_relu)(a, 0, 0))
    case GR_ACT_AFFINE: GR_OVER((GR_T)p * a + (GR_T)q)
    case GR_ACT_LEAKY_RELU: GR_OVER(GR_MATH(gr_fn_leaky_relu)(a, p, 0))
    case GR_ACT_THRESHOLDED_RELU: GR_OVER(GR_MATH(gr_fn_thresholded_relu)(a, p, 0))
    case GR_ACT_SCALED_TANH: GR_OVER((GR_T)p * GR_MATH(gr_fn_tanh)((GR_T)q * a, 0, 0))
    case GR_ACT_HARD_SIGMOID: GR_OVER(GR_MATH(gr_fn_hard_sigmoid)(a, p, q))
    case GR_ACT_ELU: GR_OVER(GR_MATH(gr_fn_elu)(a, p, 0))
    case GR_ACT_SOFTSIGN: GR_OVER(GR_MATH(gr_fn_softsign)(a, 0, 0))
    case GR_ACT_SOFTPLUS: GR_OVER(GR_MATH(gr_fn_softplus)(a, 0, 0))
  }
}
#undef GR_OVER

#ifdef GR_IS_F32
/* The code of a function as a step, whose loops are made for each instruction set; 0 where it is none. */
static int64_t GR_FN(activation_step)(int64_t function) {
  switch ((enum gr_activation)function) {
    case GR_ACT_SIGMOID: return GR_STEP_sigmoid;
    case GR_ACT_TANH: return GR_STEP_tanh;
    case GR_ACT_RELU: return GR_STEP_relu;
    case GR_ACT_LEAKY_RELU: return GR_STEP_leaky_relu;
    case GR_ACT_HARD_SIGMOID: return GR_STEP_hard_sigmoid;
    case GR_ACT_ELU: return GR_STEP_elu;
    case GR_ACT_SOFTSIGN: return GR_STEP_softsign;
    case GR_ACT_SOFTPLUS: return GR_STEP_softplus;
    default: return 0;
  }
}
#endif

static __attribute__((noinline)) void GR_FN(activate)(const int64_t *words, GR_T *x, int64_t n) {
#ifdef GR_IS_F32
  int64_t step = GR_FN(activation_step)(words[0]);
  if (step) {
    gr_step_alonef(step, words + 1, 2, x, x, n);
    return;
  }
#endif
  GR_FN(activate_all)(words, x, n);
}

/* The cell's `index`-th function of a gate, which is clipped before. */
static void GR_FN(gate)(const GR_FN(recurrence) *p, int64_t d, int64_t index, GR_T *x, int64_t n) {
  GR_T most = (GR_T)gr_word(p->call->attrs[1]);
  if (most < INFINITY) {
    GR_INDEPENDENT
    for (int64_t i = 0; i < n; i++) x[i] = x[i] < -most ? -most : x[i] > most ? most : x[i];
  }
  GR_FN(activate)(p->call->attrs + GR_CELL_WORDS + 3 * (d * p->functions + index), x, n);
}

/* ---------------------------------------------------------------- products */

/* out[row][0 .. n-1] = from[row] (weights from column `first` on)^T + extra or bias; `panel` is that column's. */
static int32_t GR_FN(by_weights)(const GR_FN(recurrence) *p, int64_t d, int64_t rows, const GR_T *from,
                                 int64_t from_row, int64_t first, int64_t panel, int64_t n, GR_T *out,
                                 int64_t out_row, const GR_T *extra, const GR_T *bias) {
#ifdef GR_IS_F32
  (void)first;
  if (p->flags & GR_IN_BYTES)
    return gr_byte_state_product(&p->in_bytes, p->alone ? p->call->env : NULL, (from - p->h) / p->hidden, rows, from,
                                 d * p->panels_of_one + panel, n, out, out_row, extra);
  gr_panels g = {.rows = rows, .n = n, .k = p->hidden, .a = from, .a_row = from_row, .pairs = p->pairs,
                 .b = p->panels + (d * p->panels_of_one + panel) * p->depth * GR_PANEL,
                 .c = out, .c_row = out_row, .bias = bias, .extra = extra};
  if (p->alone) return gr_panels_run(p->call->env, &g);
  gr_panels_serial(&g);
#else
  (void)panel;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < n; j++) {
      const GR_T *w = p->weights + (d * p->width + first + j) * p->hidden, *x = from + i * from_row;
      GR_T sum = extra ? extra[i * out_row + j] : bias ? bias[j] : 0;
      for (int64_t k = 0; k < p->hidden; k++) sum += x[k] * w[k];
      out[i * out_row + j] = sum;
    }
#endif
  return GR_OK;
}

/* ---------------------------------------------------------------- a step of some rows */

/* One row: gates are of input, output, forget and cell, peepholes of input, output and forget. */
static void GR_FN(lstm_row)(const GR_FN(recurrence) *p, int64_t d, GR_T *g, GR_T *h, GR_T *c) {
  int64_t n = p->hidden;
  GR_T *in = g, *out = g + n, *forget = g + 2 * n, *cell = g + 3 * n;
  const GR_T *peep = p->peepholes ? p->peepholes + d * 3 * n : NULL;
  if (peep)
    for (int64_t j = 0; j < n; j++) in[j] += peep[j] * c[j], forget[j] += peep[2 * n + j] * c[j];
  GR_FN(gate)(p, d, 0, in, n);
  if (p->flags & GR_COUPLED)
    for (int64_t j = 0; j < n; j++) forget[j] = 1 - in[j];
  else
    GR_FN(gate)(p, d, 0, forget, n);
  GR_FN(gate)(p, d, 1, cell, n);
  GR_INDEPENDENT
  for (int64_t j = 0; j < n; j++) c[j] = forget[j] * c[j] + in[j] * cell[j];
  if (peep)
    for (int64_t j = 0; j < n; j++) out[j] += peep[n + j] * c[j];
  GR_FN(gate)(p, d, 0, out, n);
  memcpy(cell, c, (size_t)n * sizeof(GR_T));
  GR_FN(activate)(p->call->attrs + GR_CELL_WORDS + 3 * (d * p->functions + 2), cell, n);
  GR_INDEPENDENT
  for (int64_t j = 0; j < n; j++) h[j] = out[j] * cell[j];
}

/* Rows of the gates of update, reset and hidden; their reset states, or the hidden gate's own product where it is
 * late, come to `more`. */
static int32_t GR_FN(gru_rows)(const GR_FN(recurrence) *p, int64_t d, int64_t b, int64_t rows,
                               const GR_T *projected, GR_T *g, GR_T *h) {
  int64_t n = p->hidden, row = p->directions * p->width, more_row = p->directions * n;
  GR_T *more = p->more + b * more_row + d * n;
  const GR_T *bias = p->late_bias ? p->late_bias + d * n : NULL;
  int64_t panel = gr_ceil_div(2 * n, 32);
  int late = (p->flags & GR_LATE) != 0;
  int32_t status = GR_OK;
  if (late) status = GR_FN(by_weights)(p, d, rows, h, n, 2 * n, panel, n, more, more_row, NULL, bias);
  for (int64_t i = 0; i < rows; i++) {
    GR_T *update = g + i * row, *reset = update + n, *hidden = reset + n, *of = more + i * more_row;
    GR_FN(gate)(p, d, 0, update, 2 * n);
    GR_INDEPENDENT
    for (int64_t j = 0; j < n; j++) of[j] = reset[j] * (late ? of[j] : h[i * n + j]);
    if (late)
      for (int64_t j = 0; j < n; j++) hidden[j] = projected[i * row + 2 * n + j] + of[j];
  }
  if (!late && !status)
    status = GR_FN(by_weights)(p, d, rows, more, more_row, 2 * n, panel, n, g + 2 * n, row, projected + 2 * n, NULL);
  for (int64_t i = 0; i < rows; i++) GR_FN(gate)(p, d, 1, g + i * row + 2 * n, n);
  return status;
}

/* Step t of rows b .. b + rows - 1. A row whose sequence has ended keeps its state, and its output is 0. */
static int32_t GR_FN(recur_step)(const GR_FN(recurrence) *p, int64_t d, int64_t b, int64_t rows, int64_t t) {
  int64_t n = p->hidden, row = p->directions * p->width, at = (d * p->batch + b) * n;
  const GR_T *projected = p->projected + (t * p->batch + b) * row + d * p->width;
  GR_T *g = p->gates + b * row + d * p->width, *h = p->h + at, *y = p->y + t * p->directions * p->batch * n + at;
  int64_t columns = p->cell == GR_GRU ? 2 * n : p->width;
  int32_t status = GR_FN(by_weights)(p, d, rows, h, n, 0, 0, columns, g, row, projected, NULL);
  if (p->cell == GR_GRU && !status) status = GR_FN(gru_rows)(p, d, b, rows, projected, g, h);
  for (int64_t i = 0; i < rows && !status; i++) {
    GR_T *gates = g + i * row, *state = h + i * n;
    if (p->lengths && t >= p->lengths[b + i]) {
      memset(y + i * n, 0, (size_t)n * sizeof(GR_T));
      continue;
    }
    if (p->cell == GR_LSTM) {
      GR_FN(lstm_row)(p, d, gates, state, p->c + at + i * n);
    } else if (p->cell == GR_RNN) {
      GR_FN(gate)(p, d, 0, gates, n);
      memcpy(state, gates, (size_t)n * sizeof(GR_T));
    } else {
      GR_INDEPENDENT
      for (int64_t j = 0; j < n; j++) state[j] = gates[2 * n + j] + gates[j] * (state[j] - gates[2 * n + j]);
    }
    memcpy(y + i * n, state, (size_t)n * sizeof(GR_T));
  }
  return status;
}

/* Tasks first .. last-1: directions, each of them blocks of rows. */
static int32_t GR_FN(recur)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(recurrence) *p = ctx;
  int64_t blocks = gr_ceil_div(p->batch, p->rows);
  for (int64_t task = first; task < last; task++) {
    int64_t d = task / blocks, b = task % blocks * p->rows, rows = gr_min(p->rows, p->batch - b);
    int backward = p->way == GR_REVERSE || d == 1;
    for (int64_t s = 0; s < p->steps; s++) {
      int32_t status = GR_FN(recur_step)(p, d, b, rows, backward ? p->steps - 1 - s : s);
      if (status) return status;
    }
  }
  return GR_OK;
}

#ifdef GR_IS_F32
/* Panels first .. last-1 of plain weights; the update and reset gates of a gru have panels of their own. */
static int32_t gr_cpu_pack_recurrent(void *ctx, int64_t first, int64_t last) {
  const GR_FN(recurrence) *p = ctx;
  int64_t ahead = p->cell == GR_GRU ? 2 * p->hidden : p->width, split = gr_ceil_div(ahead, GR_PANEL);
  for (int64_t index = first; index < last; index++) {
    int64_t d = index / p->panels_of_one, panel = index % p->panels_of_one;
    int64_t column = panel < split ? panel * GR_PANEL : ahead + (panel - split) * GR_PANEL;
    int64_t count = gr_min(GR_PANEL, (panel < split ? ahead : p->width) - column);
    float *to = (float *)(uintptr_t)p->panels + index * p->hidden * GR_PANEL;
    for (int64_t k = 0; k < p->hidden; k++)
      for (int64_t j = 0; j < GR_PANEL; j++)
        to[k * GR_PANEL + j] = j < count ? p->weights[(d * p->width + column + j) * p->hidden + k] : 0;
  }
  return GR_OK;
}
#endif

static int32_t GR_FN(recurrent)(const gr_call *call, enum gr_cell cell, int64_t gates, int64_t functions) {
  const gr_arg *projected = &call->args[0], *weights = &call->args[1], *h = &call->args[2];
  const gr_arg *y = &call->args[call->nargs - (cell == GR_LSTM ? 3 : 2)];
  GR_FN(recurrence) p = {.call = call, .cell = cell, .steps = projected->shape[0], .batch = projected->shape[1],
                         .directions = h->shape[0], .hidden = h->shape[2], .width = gates * h->shape[2],
                         .way = call->attrs[0], .flags = call->attrs[2], .functions = functions,
                         .projected = gr_ptr(projected), .weights = gr_ptr(weights), .y = gr_ptr(y),
                         .h = gr_ptr(y + 1), .gates = call->scratch};
  int64_t next = 3, states = gr_size(h);
  if (cell == GR_LSTM) p.c = gr_ptr(y + 2), memcpy(p.c, gr_ptr(&call->args[next++]), (size_t)states * sizeof(GR_T));
  if (p.flags & GR_LATE) p.late_bias = gr_ptr(&call->args[next++]);
  if (p.flags & GR_PEEPHOLES) p.peepholes = gr_ptr(&call->args[next++]);
  const gr_arg *scales = p.flags & GR_IN_BYTES ? &call->args[next++] : NULL;
  if (p.flags & GR_LENGTHS) p.lengths = gr_ptr(&call->args[next++]);
  memcpy(p.h, gr_ptr(h), (size_t)states * sizeof(GR_T));
  if (states == 0 || p.steps == 0) return GR_OK;
  p.more = p.gates + p.batch * p.directions * p.width;
  (void)scales;
#ifdef GR_IS_F32
  int64_t split = cell == GR_GRU ? 2 * p.hidden : 0;
  p.panels_of_one = gr_ceil_div(split, GR_PANEL) + gr_ceil_div(p.width - split, GR_PANEL);
  p.pairs = weights->dtype == GR_BF16;
  p.depth = gr_ceil_div(p.hidden, p.pairs ? 2 : 1);
  if (scales) {
    gr_byte_state_open(&p.in_bytes, p.more + (cell == GR_GRU ? states : 0), weights, scales, y, p.hidden,
                       p.batch * p.directions);
  } else if (call->attrs[3]) {
    p.panels = p.weights;
  } else {
    p.panels = p.more + (cell == GR_GRU ? states : 0);
    int32_t packed = gr_parallel(call->env, p.directions * p.panels_of_one,
                                 gr_ceil_div(GR_GRAIN, GR_PANEL * p.hidden), gr_cpu_pack_recurrent, &p);
    if (packed) return packed;
  }
#endif
  int64_t pieces = gr_max(1, 2 * (int64_t)call->env->num_cores / p.directions);
  p.rows = gr_min(p.batch, gr_max(GR_TASK_ROWS, gr_ceil_div(p.batch, pieces)));
  int64_t tasks = p.directions * gr_ceil_div(p.batch, p.rows);
  p.alone = tasks == 1;
  if (p.alone) return GR_FN(recur)(&p, 0, 1);
  return gr_parallel(call->env, tasks, gr_ceil_div(GR_GRAIN, 2 * p.steps * p.rows * p.width * p.hidden),
                     GR_FN(recur), &p);
}

/* gr-kernel: cpu/lstm : f32 f64 */
static inline int32_t GR_BODY(lstm)(const gr_call *call) { return GR_FN(recurrent)(call, GR_LSTM, 4, 3); }

/* gr-kernel: cpu/gru : f32 f64 */
static inline int32_t GR_BODY(gru)(const gr_call *call) { return GR_FN(recurrent)(call, GR_GRU, 3, 2); }

/* gr-kernel: cpu/rnn : f32 f64 */
static inline int32_t GR_BODY(rnn)(const gr_call *call) { return GR_FN(recurrent)(call, GR_RNN, 1, 1); }
#undef GR_TASK_ROWS
