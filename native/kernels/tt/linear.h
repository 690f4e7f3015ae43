/* linear.h: matmul (batched, broadcast, transposed), dense and bias_add.
 *
 * The contract is that of ir/ops/products/dense.py, matmul.py and numerics.py. A core makes one block of the output
 * at a time: blocks of A and B are unpacked once per block into L1, and products are summed with K ascending,
 * as the fidelity says (operand.h). Which blocks on which core: blocking.h.
 * Thread: any.
 * defines: gr_tt_matmul, gr_tt_dense, gr_tt_bias_add
 */
#ifndef GR_TT_LINEAR_H
#define GR_TT_LINEAR_H

#include "tt/blocking.h"
#include "tt/exact_linear.h"
#include "tt/operand.h"
#include "tt/program.h"

typedef struct gr_tt_product {
  gr_tt_view a, b, bias, out;   /* bias.arg is NULL where there is none */
  int transpose_a, transpose_b;
  int64_t k;
  gr_tt_arithmetic how;
  gr_tt_blocks blocks;
  gr_tt_program program;        /* the epilogue */
} gr_tt_product;

/* L1 of one core: sums [height][width], parts of A [strip][depth], parts of B in stripes
 * [width / STRIPE][depth][STRIPE], 32 rows as a row-major argument is read, one row of bias, panels of the epilogue. */
typedef struct gr_tt_product_l1 {
  float *sums, *a, *b, *rows, *bias, *panels;
} gr_tt_product_l1;

static inline int64_t gr_tt_product_floats(const gr_tt_product *job, const gr_tt_blocks *b) {
  int64_t rows = gr_tt_greater(b->depth, gr_tt_greater(b->strip, b->width));
  return b->height * b->width + b->depth * b->strip * job->how.passes.parts[job->how.sides[0]] +
         b->depth * b->width * job->how.passes.parts[job->how.sides[1]] + 32 * rows + b->width +
         gr_tt_program_floats(&job->program, b->width);
}

static inline gr_tt_product_l1 gr_tt_product_layout(const gr_tt_core *c, const gr_tt_product *job) {
  const gr_tt_blocks *b = &job->blocks;
  gr_tt_product_l1 l1 = {.sums = (float *)(void *)c->space};
  l1.a = l1.sums + b->height * b->width;
  l1.b = l1.a + b->depth * b->strip * job->how.passes.parts[job->how.sides[0]];
  l1.rows = l1.b + b->depth * b->width * job->how.passes.parts[job->how.sides[1]];
  l1.bias = l1.rows + 32 * gr_tt_greater(b->depth, gr_tt_greater(b->strip, b->width));
  l1.panels = l1.bias + b->width;
  return l1;
}

/* A rectangle of an operand as the product sees it, before any transpose. */
static inline int32_t gr_tt_product_load(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at,
                                         int transposed, const gr_tt_panel *to, float *rows) {
  if (transposed) at = (gr_tt_rect){at.plane, at.c0, at.nc, at.r0, at.nr};
  return gr_tt_panel_load(c, v, at, transposed, to, rows);
}

/* Sums that begin with the bias, where no fidelity has it added at the end. */
static inline int32_t gr_tt_product_begin(const gr_tt_core *c, const gr_tt_product *job, gr_tt_rect at,
                                          const gr_tt_product_l1 *l1) {
  int64_t width = job->blocks.width;
  memset(l1->sums, 0, (size_t)(gr_tt_up(at.nr, 32) * width) * 4);
  if (job->bias.arg == NULL) return GR_OK;
  GR_TT_TRY(gr_tt_load(c, &job->bias, (gr_tt_rect){0, 0, 1, at.c0, at.nc}, l1->bias, at.nc));
  for (int64_t r = 0; r < at.nr && !job->how.phases; ++r)
    memcpy(l1->sums + r * width, l1->bias, (size_t)at.nc * 4);
  return GR_OK;
}

/* n of K from k0 on: B whole, A a strip of rows at a time. */
static inline int32_t gr_tt_product_step(const gr_tt_core *c, const gr_tt_product *job, gr_tt_rect at,
                                         int64_t k0, int64_t n, const gr_tt_product_l1 *l1) {
  const gr_tt_blocks *blocks = &job->blocks;
  int64_t a_plane = gr_tt_broadcast_plane(job->a.arg, job->out.arg, at.plane);
  int64_t b_plane = gr_tt_broadcast_plane(job->b.arg, job->out.arg, at.plane);
  int64_t a_part = blocks->strip * blocks->depth, b_part = blocks->width * blocks->depth;
  gr_tt_panel a = gr_tt_panel_rows(l1->a, blocks->depth), b = gr_tt_panel_stripes(l1->b, blocks->depth);
  gr_tt_rect from = {b_plane, k0, n, at.c0, at.nc};
  GR_TT_TRY(gr_tt_product_load(c, &job->b, from, job->transpose_b, &b, l1->rows));
  gr_tt_parts_take(&job->how.passes, job->how.sides[1], l1->b, b_part);
  for (int64_t r = 0; r < at.nr; r += blocks->strip) {
    int64_t rows = gr_tt_lesser(blocks->strip, at.nr - r);
    from = (gr_tt_rect){a_plane, at.r0 + r, rows, k0, n};
    GR_TT_TRY(gr_tt_product_load(c, &job->a, from, job->transpose_a, &a, l1->rows));
    gr_tt_parts_take(&job->how.passes, job->how.sides[0], l1->a, a_part);
    gr_gemm g = {.rows = rows, .stripes = gr_tt_ceil_div(at.nc, GR_STRIPE), .k = n, .a = l1->a,
                 .a_row = blocks->depth, .b = l1->b, .b_stripe = GR_STRIPE * blocks->depth,
                 .c = l1->sums + r * blocks->width, .c_row = blocks->width};
    gr_tt_products(&job->how, g, a_part, b_part);
  }
  return GR_OK;
}

/* One block of the output: gr_tt_block_fn of blocking.h. */
static inline int32_t gr_tt_product_block(const gr_tt_core *c, const void *ctx, gr_tt_rect at) {
  const gr_tt_product *job = (const gr_tt_product *)ctx;
  const gr_tt_blocks *blocks = &job->blocks;
  gr_tt_product_l1 l1 = gr_tt_product_layout(c, job);
  GR_TT_TRY(gr_tt_product_begin(c, job, at, &l1));
  for (int64_t k0 = 0; k0 < job->k; k0 += blocks->depth) {
    if (k0 > 0 && blocks->spill > 0 && k0 % blocks->spill == 0)
      gr_tt_spill(&job->how, job->out.arg->format, l1.sums, blocks->width, at.nr, at.nc);
    GR_TT_TRY(gr_tt_product_step(c, job, at, k0, gr_tt_lesser(blocks->depth, job->k - k0), &l1));
  }
  for (int64_t r = 0; r < at.nr; ++r)
    gr_tt_finish(&job->how, job->bias.arg != NULL ? l1.bias : NULL, 1, l1.sums + r * blocks->width, at.nc);
  GR_TT_TRY(gr_tt_program_run(c, &job->program, &job->out, at, l1.sums, blocks->width, l1.panels));
  return gr_tt_store(c, &job->out, at, l1.sums, blocks->width, 0);
}

/* words: those of the epilogue, then those of numerics */
static inline int32_t gr_tt_product_run(const gr_call *call, const int64_t *words, gr_tt_product *job) {
  gr_tt_words how = gr_tt_words_of(gr_steps_end(words));
  job->program = gr_tt_program_of(call, words, how.dst_bits, how.ttnn);
  if (gr_steps_own(call, words) == 3) job->bias = gr_tt_view_of(&call->args[2]);
  if (how.exact) {
    gr_tt_exact_job exact = {job->a, job->b, job->bias, job->transpose_a, job->transpose_b, job->k, how,
                             job->program};
    return gr_tt_exact_matmul(call, job->out.arg, &exact);
  }
  job->how = gr_tt_arithmetic_of(how, GR_SRC_B);
  gr_tt_blocks *blocks = &job->blocks;
  *blocks = gr_tt_blocks_of(call, &job->how.words, &job->out, job->k);
  uint64_t share = gr_tt_blocks_share(call, &job->how.words), room = gr_tt_blocks_room(&job->how.words, share);
  while (gr_tt_bytes(1, gr_tt_product_floats(job, blocks)) > room && gr_tt_blocks_shrink(blocks)) {
  }
  uint64_t bytes = gr_tt_bytes(1, gr_tt_product_floats(job, blocks));
  return gr_tt_run_blocks(call, &job->how.words, blocks, &job->out, job->k, bytes > share ? bytes : share,
                          gr_tt_product_block, job);
}

/* gr-kernel: tt/matmul */
static inline int32_t gr_tt_matmul(const gr_call *call) {
  gr_tt_product job = {.a = gr_tt_view_of(&call->args[0]), .b = gr_tt_view_of(&call->args[1]),
                       .out = gr_tt_view_of(&call->args[call->nargs - 1])};
  job.transpose_a = call->attrs[0] != 0;
  job.transpose_b = call->attrs[1] != 0;
  job.k = job.transpose_a ? job.a.rows : job.a.cols;
  return gr_tt_product_run(call, call->attrs + 2, &job);
}

/* gr-kernel: tt/dense */
static inline int32_t gr_tt_dense(const gr_call *call) {
  gr_tt_product job = {.a = gr_tt_view_of(&call->args[0]), .b = gr_tt_view_of(&call->args[1]),
                       .out = gr_tt_view_of(&call->args[call->nargs - 1]), .transpose_b = 1};
  job.k = job.a.cols;
  return gr_tt_product_run(call, call->attrs, &job);
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
