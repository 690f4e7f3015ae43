/* heads.h: planes of batches that are broadcast to those of an output, and what attention's kernels read from their call
 * with them.
 *
 * Included by: attention.h, planes.h. Thread: any.
 * defines: gr_plane_steps, gr_plane_at, gr_heads, gr_head, gr_heads_open, gr_heads_at
 */
#ifndef GR_CPU_HEADS_H
#define GR_CPU_HEADS_H

#include "cpu/broadcast.h"

/* Strides, in planes, of arg's planes (its last two dimensions) over the batch dimensions of the output. */
static inline void gr_plane_steps(const gr_arg *arg, int32_t batch, int64_t *steps) {
  gr_arg planes = *arg;
  planes.ndim -= 2;
  gr_strides(&planes, batch, steps);
}

/* Offset, by those strides, of the plane that plane ``index`` of the output reads. */
GR_INLINE int64_t gr_plane_at(int64_t index, int32_t batch, const int64_t *shape, const int64_t *steps) {
  int64_t at = 0;
  for (int32_t d = batch - 1; d >= 0; --d) {
    at += index % shape[d] * steps[d];
    index /= shape[d];
  }
  return at;
}

/* Queries [.., s, d], keys [.., t, d], values [.., t, e] and a bias [.., s, t]; or of some of the tensors heads beside
 * each other in rows. Attribute words: ir/ops/products/attention.py. */
typedef struct gr_heads {
  int64_t s, t, d, e, causal, count;                                     /* count: of all heads */
  double scale;
  int32_t batch;                                                         /* dimensions that heads have */
  int64_t shape[GR_MAX_DIMS];                                            /* of these */
  int64_t q_step[GR_MAX_DIMS], k_step[GR_MAX_DIMS], v_step[GR_MAX_DIMS], out_step[GR_MAX_DIMS]; /* in elements */
  int64_t q_row, k_row, v_row, out_row;                                  /* from row to row, in elements */
  int64_t q_first, k_first, v_first;                                     /* the element of the first head */
  const gr_arg *bias;                                                    /* NULL: none */
  int64_t bias_step[GR_MAX_DIMS + 2];                                    /* in elements */
} gr_heads;

/* First elements of one head's queries, keys, values and results, and the bias's element for its first query and
 * key. */
typedef struct gr_head {
  int64_t q, k, v, out, bias;
} gr_head;

/* Steps of a tensor over ``batch`` dimensions of heads, the last of which lies in its rows where ``beside``: so many
 * columns from head to head. */
static inline void gr_head_steps(const gr_arg *arg, int32_t batch, int64_t beside, int64_t *steps) {
  int64_t plane = arg->shape[arg->ndim - 2] * arg->shape[arg->ndim - 1];
  if (beside) steps[--batch] = beside;
  gr_plane_steps(arg, batch, steps);
  for (int32_t d = 0; d < batch; ++d) steps[d] *= plane;
}

static inline gr_heads gr_heads_open(const gr_call *call) {
  static const int64_t planes[8] = {0};
  const gr_arg *q = &call->args[0], *k = &call->args[1], *v = &call->args[2];
  const gr_arg *out = &call->args[call->nargs - 1];
  int64_t beside = call->attrs[2];
  const int64_t *lie = beside ? call->attrs + 5 : planes;                /* of q, k, v, out: first column, step */
  gr_heads h = {.s = out->shape[out->ndim - 2], .t = k->shape[k->ndim - 2],
                .d = beside ? call->attrs[3] : k->shape[k->ndim - 1],
                .e = beside ? call->attrs[4] : out->shape[out->ndim - 1], .causal = call->attrs[1], .count = 1,
                .scale = gr_word(call->attrs[0]), .batch = out->ndim - 2 + (lie[7] != 0),
                .q_row = q->shape[q->ndim - 1], .k_row = k->shape[k->ndim - 1], .v_row = v->shape[v->ndim - 1],
                .out_row = out->shape[out->ndim - 1], .q_first = lie[0], .k_first = lie[2], .v_first = lie[4]};
  for (int32_t i = 0; i < h.batch; ++i) {
    h.shape[i] = i < out->ndim - 2 ? out->shape[i] : beside;
    h.count *= h.shape[i];
  }
  gr_head_steps(q, h.batch, lie[1], h.q_step);
  gr_head_steps(k, h.batch, lie[3], h.k_step);
  gr_head_steps(v, h.batch, lie[5], h.v_step);
  gr_head_steps(out, h.batch, lie[7], h.out_step);
  if (call->nargs == 5) {
    h.bias = &call->args[3];
    gr_strides(h.bias, h.batch + 2, h.bias_step);
  }
  return h;
}

GR_INLINE gr_head gr_heads_at(const gr_heads *h, int64_t index) {
  gr_head head = {h->q_first + gr_plane_at(index, h->batch, h->shape, h->q_step),
                  h->k_first + gr_plane_at(index, h->batch, h->shape, h->k_step),
                  h->v_first + gr_plane_at(index, h->batch, h->shape, h->v_step),
                  gr_plane_at(index, h->batch, h->shape, h->out_step), 0};
  if (h->bias) head.bias = gr_plane_at(index, h->batch, h->shape, h->bias_step);
  return head;
}

#endif
