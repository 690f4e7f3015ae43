/* steps.h: programs of elementwise steps, the body of `fused` and the epilogues of products.
 *
 * A program runs on a block of results while it is in cache: rows x columns of the output, whose dimensions
 * the kernel cuts into planes, rows and columns. How a product's kernel calls it, once a call
 *
 *     gr_steps steps;
 *     gr_steps_open(&steps, call, words, first_row, first_column);
 *
 * with words those behind the op's own (ir/ops/steps.py) and the two dimensions of the output
 * where rows and columns begin (dense: 0, ndim-1; matmul: ndim-2, ndim-1; conv2d: 1, 2, with the channels
 * last: 0, 3); nothing is to be done if steps.count is 0. Then for each block, on any thread,
 *
 *     GR_STEPS(block)(&steps, plane, row, column, rows, columns, in, in_row, out, out_row);
 *
 * of cpu/steps_block.h: `in` the products (in[i * in_row + j], compute type), `out` where the results go
 * (stored type; may be `in`), element (row, column) of that plane first. A bias is added before.
 * gr_steps_own tells how many inputs are the op's own: those behind belong to the program.
 *
 * Included by: kernel bodies. Thread: any.
 * defines: gr_step_code, gr_steps, gr_steps_end, gr_steps_own, gr_steps_open, gr_steps_offset
 */
#ifndef GR_STEPS_H
#define GR_STEPS_H

#include "cpu/common.h"

#define GR_STEPS_REGISTERS 12        /* MOST_REGISTERS of steps.py */
#define GR_STEPS_ARGS 14             /* a node's inputs: those of an op and MOST_INPUTS more */
#define GR_STEPS_STRIP 512           /* elements of a register: all of them stay in the nearest cache */
#define GR_STEPS_LANES 16            /* elements at a time: a vector or some, of any instruction set */
#define GR_STEPS_WORDS 6             /* of an instruction: code, result, operand, operand, two doubles */

enum gr_step_code {
  GR_STEP_LOAD = 0,
  GR_STEP_ADD = 1,
  GR_STEP_SUBTRACT = 2,
  GR_STEP_MULTIPLY = 3,
  GR_STEP_DIVIDE = 4,
  GR_STEP_MAXIMUM = 5,
  GR_STEP_MINIMUM = 6,
  GR_STEP_GELU = 17,
  GR_STEP_GELU_TANH = 18,
/* GR_STEP_exp and so on */
#define GR_STEP_FUNCTION(name, code, words, cost, formula) GR_STEP_##name = code,
#define GR_STEP_NUMBER(name, code, words, formula) GR_STEP_##name = code,
#include "functions.h"
};

/* An input as planes of rows and columns; strides in elements, `column` 0 or 1. */
typedef struct gr_steps_input {
  const gr_arg *arg;
  int64_t row, column, plane[GR_MAX_DIMS];
} gr_steps_input;

typedef struct gr_steps {
  int64_t count;                     /* instructions */
  const int64_t *words;              /* [count][GR_STEPS_WORDS] */
  const int64_t *shape;              /* of the output */
  int32_t planes;                    /* dimensions before the rows */
  gr_steps_input inputs[GR_STEPS_ARGS];
} gr_steps;

/* The word behind a program. */
GR_INLINE const int64_t *gr_steps_end(const int64_t *words) { return words + 2 + GR_STEPS_WORDS * words[0]; }

/* Number of the op's own inputs in a call with this program. */
GR_INLINE int32_t gr_steps_own(const gr_call *call, const int64_t *words) {
  return call->nargs - 1 - (int32_t)words[1];
}

/* A parameter of an instruction: 0 or 1. */
GR_INLINE double gr_steps_parameter(const int64_t *instruction, int which) { return gr_word(instruction[4 + which]); }

/* Elements of arg in dimensions first .. last-1 of an output of ndim, to which it is broadcast. */
GR_INLINE int64_t gr_steps_span(const gr_arg *arg, int32_t ndim, int32_t first, int32_t last) {
  int32_t before = ndim - arg->ndim;
  return gr_span(arg, (int32_t)gr_max(first - before, 0), (int32_t)gr_max(last - before, 0));
}

static inline void gr_steps_open(gr_steps *s, const gr_call *call, const int64_t *words, int32_t first_row,
                                 int32_t first_column) {
  const gr_arg *out = &call->args[call->nargs - 1];
  s->count = words[0];
  s->words = words + 2;
  s->shape = out->shape;
  s->planes = first_row;
  for (int64_t i = 0; i < s->count; i++) {
    const int64_t *w = s->words + i * GR_STEPS_WORDS;
    if (w[0] != GR_STEP_LOAD) continue;
    gr_steps_input *input = &s->inputs[w[2]];
    int64_t strides[GR_MAX_DIMS];
    input->arg = &call->args[w[2]];
    gr_strides(input->arg, out->ndim, strides);
    for (int32_t d = 0; d < first_row; d++) input->plane[d] = strides[d];
    int64_t columns = gr_steps_span(input->arg, out->ndim, first_column, out->ndim);
    input->column = columns > 1;
    input->row = gr_steps_span(input->arg, out->ndim, first_row, first_column) > 1 ? columns : 0;
  }
}

/* Offset of an input's element for (plane, row, column) of the output. */
GR_INLINE int64_t gr_steps_offset(const gr_steps *s, const gr_steps_input *input, int64_t plane, int64_t row,
                                  int64_t column) {
  int64_t at = row * input->row + column * input->column;
  for (int32_t d = s->planes - 1; d >= 0; d--) {
    at += plane % s->shape[d] * input->plane[d];
    plane /= s->shape[d];
  }
  return at;
}

#endif
