/* cells.h: the words of lstm, gru and rnn, as ir/ops/products/recurrent.py lists them.
 *
 * Included by: cpu/recurrent.h, tt/recurrent.h.
 * defines: gr_cell, gr_activation, GR_CELL_WORDS
 */
#ifndef GR_CELLS_H
#define GR_CELLS_H

#define GR_CELL_WORDS 4 /* before those of the functions, three each */

enum gr_cell { GR_LSTM, GR_GRU, GR_RNN };
enum { GR_REVERSE = 1, GR_BOTH = 2, GR_PEEPHOLES = 1, GR_LENGTHS = 2, GR_COUPLED = 4, GR_LATE = 8,
       GR_IN_BYTES = 16 };
enum gr_activation {
  GR_ACT_SIGMOID, GR_ACT_TANH, GR_ACT_RELU, GR_ACT_AFFINE, GR_ACT_LEAKY_RELU, GR_ACT_THRESHOLDED_RELU,
  GR_ACT_SCALED_TANH, GR_ACT_HARD_SIGMOID, GR_ACT_ELU, GR_ACT_SOFTSIGN, GR_ACT_SOFTPLUS
};

#endif
