/* attention_panels.h: softmax(q k^T scale + bias) v in float32 for many queries: both products on panels
 * (panels.h), scores of a strip of queries at a time.
 *
 * A task walks over items, a strip of one head each, with a slot of scratch of its own: the head's keys and
 * values in panels, and the strip's scores (attention.py says how large). Attribute words:
 * ir/ops/products/attention.py.
 *
 * attention_pairs may round what both products read to bf16 (planes.h); the softmax between them is in float32.
 *
 * defines: gr_cpu_attention_panels__f32, gr_cpu_attention_pairs__f32
 */
#include "cpu/planes.h"
#include "cpu/softmax_rows.h"

#ifndef GR_CPU_ATTENTION_PANELS_H
#define GR_CPU_ATTENTION_PANELS_H

#define GR_STRIP 128                           /* queries: attention.py, _STRIP */
#define GR_SCORES 8                            /* their number is a multiple: a vector, of most instruction sets */
#define GR_SLOTS 16                            /* attention.py, _SLOTS */

typedef struct gr_strips {
  gr_heads heads;
  const float *q, *k, *v, *bias;
  float *out, *scratch;
  int64_t strips, items, tasks, slot;          /* strips of a head, and of all; slot: floats of scratch of a task */
  int pairs;                                   /* panels are of bf16 */
} gr_strips;

/* Queries first .. last-1 of a head whose keys and values are in panels. */
static void gr_attend_strip(const gr_strips *x, gr_head at, int64_t first, int64_t last, float *slot) {
  const gr_heads *h = &x->heads;
  float *keys = slot, *values = keys + gr_plane_floats(h->d, h->t, x->pairs);
  float *scores = values + gr_plane_floats(h->t, h->e, x->pairs);
  int64_t row = gr_ceil_div(h->t, GR_PANEL) * GR_PANEL, rows = last - first;
  /* whole vectors of scores, though no key is behind the last: panels have zeros there, and softmax does not look */
  gr_panels p = {.rows = rows, .n = gr_ceil_div(h->t, GR_SCORES) * GR_SCORES, .k = h->d, .pairs = x->pairs,
                 .a = x->q + at.q + first * h->q_row, .a_row = h->q_row, .b = keys, .c = scores, .c_row = row};
  gr_panels_serial(&p);
  const gr_softmax weights = {.x = scores, .out = scores, .x_row = row, .out_row = row, .rows = rows, .n = h->t,
                              .seen = h->causal ? first + 1 : h->t, .more = h->causal, .scale = (float)h->scale,
                              .bias = x->bias ? x->bias + at.bias + first * h->bias_step[h->batch] : NULL,
                              .bias_row = h->bias_step[h->batch], .bias_step = h->bias_step[h->batch + 1]};
  gr_softmax_rows_chosen()(&weights);
  gr_panels o = {.rows = rows, .n = h->e, .k = h->t, .pairs = x->pairs, .a = scores, .a_row = row, .b = values,
                 .c = x->out + at.out + first * h->out_row, .c_row = h->out_row};
  gr_panels_serial(&o);
}

/* Items of one task: neighbours, so that a head is packed once where it can. */
static int32_t gr_attend_task(void *ctx, int64_t index) {
  const gr_strips *x = ctx;
  const gr_heads *h = &x->heads;
  float *slot = x->scratch + index * x->slot;
  int64_t first = x->items * index / x->tasks, last = x->items * (index + 1) / x->tasks, packed = -1;
  for (int64_t item = first; item < last; ++item) {
    int64_t head = item / x->strips, strip = item % x->strips;
    gr_head at = gr_heads_at(h, head);
    if (head != packed) {
      gr_pack_plane(x->k + at.k, h->d, h->t, 1, h->k_row, slot, x->pairs);
      gr_pack_plane(x->v + at.v, h->t, h->e, h->v_row, 1, slot + gr_plane_floats(h->d, h->t, x->pairs), x->pairs);
      packed = head;
    }
    gr_attend_strip(x, at, strip * GR_STRIP, gr_min(h->s, (strip + 1) * GR_STRIP), slot);
  }
  return GR_OK;
}

static inline int32_t gr_attention_by_panels(const gr_call *call, int pairs) {
  const gr_arg *out = &call->args[call->nargs - 1];
  if (gr_size(out) == 0) return GR_OK;
  gr_strips x = {.heads = gr_heads_open(call), .q = gr_ptr(&call->args[0]), .k = gr_ptr(&call->args[1]),
                 .v = gr_ptr(&call->args[2]), .bias = call->nargs == 5 ? gr_ptr(&call->args[3]) : NULL,
                 .out = gr_ptr(out), .scratch = (float *)call->scratch, .pairs = pairs};
  const gr_heads *h = &x.heads;
  x.strips = gr_ceil_div(h->s, GR_STRIP);
  x.items = h->count * x.strips;
  x.slot = gr_plane_floats(h->d, h->t, pairs) + gr_plane_floats(h->t, h->e, pairs) +
           gr_plane_floats(gr_min(h->s, GR_STRIP), h->t, 0);
  x.tasks = gr_min(gr_min(x.items, GR_SLOTS), 2 * (int64_t)call->env->num_cores);
  return call->env->parallel_for(call->env, x.tasks, gr_attend_task, &x);
}

#endif

/* gr-kernel: cpu/attention_panels : f32 */
static inline int32_t GR_BODY(attention_panels)(const gr_call *call) { return gr_attention_by_panels(call, 0); }

/* gr-kernel: cpu/attention_pairs : f32 */
static inline int32_t GR_BODY(attention_pairs)(const gr_call *call) {
  return gr_attention_by_panels(call, gr_pairs_pay());
}
