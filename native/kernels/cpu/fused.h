/* fused.h: a group of elementwise ops with broadcasting, one program of steps (steps.h). Template; out may be
 * any input of its type. Words: ir/ops/fused.py.
 *
 * defines: gr_cpu_fused__<suffix>
 */
#define GR_STEPS(name) GR_FN(GR_CAT(fused_steps_, name))
#include "cpu/steps_block.h"

/* The dimensions that end before `last` and are walked as one: the first of those over which every input has
 * either all elements of the output or one. */
GR_INLINE int32_t GR_FN(fused_group)(const gr_call *call, int32_t last) {
  const gr_arg *out = &call->args[call->nargs - 1];
  int32_t first = last;
  for (; first > 0; first--) {
    int64_t whole = gr_span(out, first - 1, last);
    for (int32_t i = 0; i < call->nargs - 1; i++) {
      int64_t span = gr_steps_span(&call->args[i], out->ndim, first - 1, last);
      if (span != 1 && span != whole) return first;
    }
  }
  return first;
}

typedef struct GR_FN(fused_job) {
  gr_steps steps;
  GR_T *out;
  int64_t rows, columns, height, width;    /* of a plane, and of a piece of it */
  int64_t down, across;                    /* pieces */
} GR_FN(fused_job);

/* Pieces first .. last-1. */
static int32_t GR_FN(fused_pieces)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(fused_job) *job = ctx;
  for (int64_t i = first; i < last; i++) {
    int64_t plane = i / (job->down * job->across), row = i / job->across % job->down * job->height;
    int64_t column = i % job->across * job->width;
    GR_T *out = job->out + (plane * job->rows + row) * job->columns + column;
    GR_STEPS(block)(&job->steps, plane, row, column, gr_min(job->height, job->rows - row),
                    gr_min(job->width, job->columns - column), NULL, 0, out, job->columns);
  }
  return GR_OK;
}

/* gr-kernel: cpu/fused : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(fused)(const gr_call *call) {
  const gr_arg *out = &call->args[call->nargs - 1];
  if (gr_size(out) == 0) return GR_OK;
  int32_t column = GR_FN(fused_group)(call, out->ndim), row = GR_FN(fused_group)(call, column);
  GR_FN(fused_job) job = {.out = gr_ptr(out), .rows = gr_span(out, row, column),
                          .columns = gr_span(out, column, out->ndim)};
  gr_steps_open(&job.steps, call, call->attrs, row, column);
  job.width = gr_min(job.columns, 8 * GR_STEPS_STRIP);
  job.height = gr_min(job.rows, gr_max(1, 8 * GR_STEPS_STRIP / job.width));
  job.down = gr_ceil_div(job.rows, job.height);
  job.across = gr_ceil_div(job.columns, job.width);
  int64_t cost = job.height * job.width * job.steps.count;
  return gr_parallel(call->env, gr_span(out, 0, row) * job.down * job.across, gr_ceil_div(GR_GRAIN, cost),
                     GR_FN(fused_pieces), &job);
}

#if GR_IS_F32
/* ---------------------------------------------------------------- on grids of bytes
 * quantized_map: inputs on grids become float32, strip by strip, the steps run, and the result goes to its grid. Words:
 * ir/ops/integers/quantized_map.py. */
#include "cpu/grid.h"

typedef struct gr_map_job {
  GR_FN(fused_job) plain;              /* out is NULL: it may be of bytes */
  const gr_call *call;
  const int64_t *grids;                /* [inputs + 1][2]: bits of a double, the scale; zero point */
  int paired;                          /* the program is a sum or a product of two inputs of bytes: a, b */
  int32_t a, b;                        /* of b a row may be one number */
  gr_grid_pair pair;
} gr_map_job;

GR_INLINE gr_grid gr_map_grid(const gr_map_job *job, int32_t i) {
  return (gr_grid){(float)gr_word(job->grids[2 * i]), (int32_t)job->grids[2 * i + 1], job->call->args[i].dtype == GR_I8};
}

/* Input i of a strip: where it lies if it is float32, else brought to ``to``. Sets how it is walked there. */
GR_INLINE void gr_map_input(const gr_map_job *job, int32_t i, const GR_STEPS(place) *at, gr_arg *seen,
                            gr_steps_input *walked, float *to) {
  const gr_steps *s = &job->plain.steps;
  const gr_steps_input *input = &s->inputs[i];
  const gr_arg *arg = &job->call->args[i];
  int64_t offset = gr_steps_offset(s, input, at->plane, at->row, at->column);
  *seen = *arg;
  *walked = *input;
  walked->arg = seen;
  if (arg->dtype == GR_F32) {
    seen->addr = (uintptr_t)((const float *)gr_ptr(arg) + offset);
    return;
  }
  const uint8_t *from = (const uint8_t *)gr_ptr(arg) + offset;
  gr_grid grid = gr_map_grid(job, i);
  int64_t columns = input->column ? at->columns : 1, rows = input->row ? at->rows : 1;
  if (input->row == columns) {
    gr_from_grid(&grid, from, to, rows * columns);
  } else {
    for (int64_t r = 0; r < rows; r++) gr_from_grid(&grid, from + r * input->row, to + r * columns, columns);
  }
  walked->row = input->row ? columns : 0;
  seen->addr = (uintptr_t)to;
}

static void gr_map_strip(const gr_map_job *job, const GR_STEPS(place) *at) {
  _Alignas(64) float in[GR_STEPS_ARGS][GR_STEPS_STRIP], made[GR_STEPS_STRIP];
  gr_arg seen[GR_STEPS_ARGS];
  const gr_call *call = job->call;
  int32_t inputs = call->nargs - 1;
  gr_steps steps = job->plain.steps;
  steps.planes = 0;
  for (int32_t i = 0; i < inputs; i++) gr_map_input(job, i, at, &seen[i], &steps.inputs[i], in[i]);
  GR_STEPS(block)(&steps, 0, 0, 0, at->rows, at->columns, NULL, 0, made, at->columns);
  const gr_arg *out = &call->args[inputs];
  int64_t first = (at->plane * job->plain.rows + at->row) * job->plain.columns + at->column;
  gr_grid grid = gr_map_grid(job, inputs);
  for (int64_t r = 0; r < at->rows; r++, first += job->plain.columns) {
    const float *row = made + r * at->columns;
    if (out->dtype == GR_F32) memcpy((float *)gr_ptr(out) + first, row, (size_t)at->columns * 4);
    else gr_to_grid(&grid, row, (uint8_t *)gr_ptr(out) + first, at->columns);
  }
}

/* Whether a program is one sum or product of two tensors of bytes whose result is bytes, which then are read and
 * written once: sets a, b and pair. */
static int gr_map_pair(gr_map_job *job) {
  const gr_steps *s = &job->plain.steps;
  const gr_call *call = job->call;
  if (!gr_grid_fuses() || call->nargs != 3 || s->count != 3) return 0;
  const int64_t *last = s->words + 2 * GR_STEPS_WORDS;
  if (last[0] != GR_STEP_ADD && last[0] != GR_STEP_MULTIPLY) return 0;
  for (int32_t i = 0; i < 3; i++) {
    float scale = gr_map_grid(job, i).scale;
    if (call->args[i].dtype == GR_F32 || !(scale >= 0x1p-30f && scale <= 0x1p30f)) return 0;
  }
  job->a = s->inputs[0].column ? 0 : 1;
  job->b = 1 - job->a;
  if (!s->inputs[job->a].column) return 0;
  gr_grid a = gr_map_grid(job, job->a), b = gr_map_grid(job, job->b), to = gr_map_grid(job, 2);
  job->pair = gr_grid_pair_of(&a, &b, &to, last[0] == GR_STEP_MULTIPLY);
  return 1;
}

#define GR_PAIR_STRIP (8 * GR_STEPS_STRIP)

/* One row of columns, ``rows`` times, one behind the other. */
GR_INLINE const uint8_t *gr_map_repeated(const uint8_t *row, int64_t columns, int64_t rows, uint8_t *to) {
  for (int64_t r = 0; r < rows; r++) memcpy(to + r * columns, row, (size_t)columns);
  return to;
}

static void gr_map_pair_strip(const gr_map_job *job, const GR_STEPS(place) *at) {
  uint8_t again[GR_PAIR_STRIP];        /* short rows by themselves end in columns that fill no vector */
  const gr_steps *s = &job->plain.steps;
  const gr_steps_input *in_a = &s->inputs[job->a], *in_b = &s->inputs[job->b];
  const uint8_t *a = (const uint8_t *)gr_ptr(&job->call->args[job->a]);
  const uint8_t *b = (const uint8_t *)gr_ptr(&job->call->args[job->b]);
  int64_t first = (at->plane * job->plain.rows + at->row) * job->plain.columns + at->column;
  uint8_t *out = (uint8_t *)gr_ptr(&job->call->args[2]) + first;
  int b_step = in_b->column != 0;
  int64_t columns = at->columns, rows = at->rows;
  a += gr_steps_offset(s, in_a, at->plane, at->row, at->column);
  b += gr_steps_offset(s, in_b, at->plane, at->row, at->column);
  int a_follows = in_a->row == columns, b_follows = in_b->row == (b_step ? columns : 0);
  if (columns == job->plain.columns && rows > 1 && a_follows != b_follows) {
    if (!a_follows && in_a->row == 0) {
      a = gr_map_repeated(a, columns, rows, again);
      a_follows = 1;
    } else if (b_step && in_b->row == 0) {
      b = gr_map_repeated(b, columns, rows, again);
      b_follows = 1;
    }
  }
  if (columns == job->plain.columns && a_follows && b_follows) {
    columns *= rows;
    rows = 1;
  }
  for (int64_t r = 0; r < rows; r++)
    gr_grid_pair_run(&job->pair, a + r * in_a->row, b + r * in_b->row, b_step, out + r * job->plain.columns, columns);
}

/* Pieces first .. last-1. */
static int32_t gr_map_pieces(void *ctx, int64_t first, int64_t last) {
  const gr_map_job *job = ctx;
  const GR_FN(fused_job) *p = &job->plain;
  for (int64_t i = first; i < last; i++) {
    GR_STEPS(place) at = {.plane = i / (p->down * p->across), .row = i / p->across % p->down * p->height,
                          .column = i % p->across * p->width};
    at.rows = gr_min(p->height, p->rows - at.row);
    at.columns = gr_min(p->width, p->columns - at.column);
    if (job->paired) gr_map_pair_strip(job, &at);
    else gr_map_strip(job, &at);
  }
  return GR_OK;
}

/* gr-kernel: cpu/quantized_map : f32 */
static inline int32_t gr_cpu_quantized_map__f32(const gr_call *call) {
  const gr_arg *out = &call->args[call->nargs - 1];
  if (gr_size(out) == 0) return GR_OK;
  int32_t column = GR_FN(fused_group)(call, out->ndim), row = GR_FN(fused_group)(call, column);
  gr_map_job job = {.plain = {.rows = gr_span(out, row, column), .columns = gr_span(out, column, out->ndim)},
                    .call = call, .grids = call->attrs};
  GR_FN(fused_job) *p = &job.plain;
  gr_steps_open(&p->steps, call, call->attrs + 2 * call->nargs, row, column);
  job.paired = gr_map_pair(&job);
  int64_t strip = job.paired ? GR_PAIR_STRIP : GR_STEPS_STRIP;
  p->width = gr_min(p->columns, strip);
  p->height = gr_min(p->rows, gr_max(1, strip / p->width));
  p->down = gr_ceil_div(p->rows, p->height);
  p->across = gr_ceil_div(p->columns, p->width);
  int64_t cost = p->height * p->width * (job.paired ? 1 : p->steps.count + 2);
  return gr_parallel(call->env, gr_span(out, 0, row) * p->down * p->across, gr_ceil_div(GR_GRAIN, cost), gr_map_pieces,
                     &job);
}
#undef GR_PAIR_STRIP
#endif
#undef GR_STEPS
