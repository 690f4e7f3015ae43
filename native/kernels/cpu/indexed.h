/* indexed.h: take_along_axis gather_nd. Template over the element's size: the bits are only moved.
 *
 * Attribute words: ir/ops/moving/scatter.py. Indices are read through cpu/indices.h.
 *
 * defines: gr_cpu_{take_along_axis gather_nd}__<b1|b2|b4|b8>
 */
#include "cpu/indices.h"

/* Results first .. last-1. */
static int32_t GR_FN(take_along_run)(void *ctx, int64_t first, int64_t last) {
  const gr_along *p = ctx;
  const GR_T *data = gr_ptr(p->data);
  GR_T *out = gr_ptr(p->out);
  int32_t inner = p->data->ndim - 1;
  int64_t width = p->indices->shape[inner], n = p->data->shape[p->axis], step = p->stride[p->axis];
  for (int64_t i = first; i < last;) {          /* a row of indices at a time */
    int64_t row = i / width * width, end = gr_min(last, row + width), at = gr_along_row(p, row);
    for (; i < end; i++) {
      int64_t index = gr_index(p->indices, i, n);
      if (index >= 0) out[i] = data[at + index * step + (p->axis == inner ? 0 : i - row)];
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/take_along_axis : b1 b2 b4 b8 */
static inline int32_t GR_BODY(take_along_axis)(const gr_call *call) {
  gr_along p = gr_along_of(call, &call->args[2]);
  if (!gr_along_fit(&p)) return gr_refuse(call, "take_along_axis: an index is out of range");
  return gr_parallel(call->env, gr_size(p.out), GR_GRAIN / 8, GR_FN(take_along_run), &p);
}

/* Tuples first .. last-1: each a slice of n elements. */
static int32_t GR_FN(gather_run)(void *ctx, int64_t first, int64_t last) {
  const gr_tuples *p = ctx;
  const GR_T *data = gr_ptr(p->data);
  GR_T *out = gr_ptr(p->out);
  for (int64_t i = first; i < last; i++) {
    int64_t at = gr_tuple_at(p, i);
    if (at >= 0) memcpy(out + i * p->n, data + at, (size_t)p->n * sizeof(GR_T));
  }
  return GR_OK;
}

/* gr-kernel: cpu/gather_nd : b1 b2 b4 b8 */
static inline int32_t GR_BODY(gather_nd)(const gr_call *call) {
  gr_tuples p = gr_tuples_of(call, call->attrs[0], &call->args[2]);
  if (gr_size(p.out) == 0) return GR_OK;
  if (!gr_tuples_fit(&p)) return gr_refuse(call, "gather_nd: an index is out of range");
  return gr_parallel(call->env, p.count, gr_ceil_div(GR_GRAIN, p.n), GR_FN(gather_run), &p);
}
