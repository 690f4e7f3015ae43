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

/* Where the plane lies, by those strides, that plane ``index`` of the output wants. */
GR_INLINE int64_t gr_plane_at(int64_t index, int32_t batch, const int64_t *shape, const int64_t *steps) {
  int64_t at = 0;
  for (int32_t d = batch - 1; d >= 0; --d) {
    at += index % shape[d] * steps[d];
    index /= shape[d];
  }
  return at;
}

/* Queries [.., s, d], keys [.., t, d], values [.., t, e] and a bias [.., s, t]. Attribute words:
 * graph_runtime/ir/ops/attention.py. */
typedef struct gr_heads {
  int64_t s, t, d, e, causal;
  double scale;
  int32_t batch;                                                         /* leading dimensions */
  const int64_t *shape;                                                  /* of the output */
  int64_t q_step[GR_MAX_DIMS], k_step[GR_MAX_DIMS], v_step[GR_MAX_DIMS]; /* in planes */
  const gr_arg *bias;                                                    /* NULL: none */
  int64_t bias_step[GR_MAX_DIMS + 2];                                    /* in elements */
} gr_heads;

/* Of one head: its planes, and the bias's element for its first query and key. */
typedef struct gr_head {
  int64_t q, k, v, bias;
} gr_head;

static inline gr_heads gr_heads_open(const gr_call *call) {
  const gr_arg *q = &call->args[0], *k = &call->args[1], *v = &call->args[2];
  const gr_arg *out = &call->args[call->nargs - 1];
  gr_heads h = {.s = out->shape[out->ndim - 2], .t = k->shape[k->ndim - 2], .d = k->shape[k->ndim - 1],
                .e = out->shape[out->ndim - 1], .causal = call->attrs[1], .scale = gr_word(call->attrs[0]),
                .batch = out->ndim - 2, .shape = out->shape};
  gr_plane_steps(q, h.batch, h.q_step);
  gr_plane_steps(k, h.batch, h.k_step);
  gr_plane_steps(v, h.batch, h.v_step);
  if (call->nargs == 5) {
    h.bias = &call->args[3];
    gr_strides(h.bias, h.batch + 2, h.bias_step);
  }
  return h;
}

GR_INLINE gr_head gr_heads_at(const gr_heads *h, int64_t index) {
  gr_head head = {gr_plane_at(index, h->batch, h->shape, h->q_step),
                  gr_plane_at(index, h->batch, h->shape, h->k_step),
                  gr_plane_at(index, h->batch, h->shape, h->v_step), 0};
  if (h->bias) head.bias = gr_plane_at(index, h->batch, h->shape, h->bias_step);
  return head;
}

#endif
