/* fill.h: broadcast_to tile pad. Template over the element's size: the bits are only moved.
 *
 * Attribute words: ir/ops/moving/fill.py.
 *
 * defines: gr_cpu_{broadcast_to tile pad}__<b1|b2|b4|b8>
 */
#include "cpu/broadcast.h"

/* ---------------------------------------------------------------- broadcast_to */

static void GR_FN(copy_row)(void *to, const void *const *in, int64_t n, const int64_t *words) {
  (void)words;
  memcpy(to, in[0], (size_t)n * sizeof(GR_T));
}

/* gr-kernel: cpu/broadcast_to : b1 b2 b4 b8 */
static inline int32_t GR_BODY(broadcast_to)(const gr_call *call) {
  const int64_t sizes[1] = {sizeof(GR_T)};
  return gr_broadcast(call, 1, sizes, sizeof(GR_T), 1, GR_FN(copy_row));
}

/* ---------------------------------------------------------------- tile */

/* Offset in x, in elements, of the outer position `index` of out, over dimensions 0 .. last-1. */
GR_INLINE int64_t GR_FN(tile_source)(const gr_arg *x, const gr_arg *out, int32_t last, int64_t index) {
  int64_t at = 0, step = gr_span(x, last, x->ndim);
  for (int32_t d = last - 1; d >= 0; d--) {
    at += index % out->shape[d] % x->shape[d] * step;
    index /= out->shape[d];
    step *= x->shape[d];
  }
  return at;
}

/* Runs first .. last-1 of out: x from dimension `attrs[0]` on, as often as it is repeated there. */
typedef struct GR_FN(tiling) {
  const gr_arg *x, *out;
  int32_t dim;                 /* the last dimension that is repeated */
  int64_t n, repeats;
} GR_FN(tiling);

static int32_t GR_FN(tile_runs)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(tiling) *t = ctx;
  for (int64_t i = first; i < last; i++) {
    const GR_T *x = (const GR_T *)gr_ptr(t->x) + GR_FN(tile_source)(t->x, t->out, t->dim, i);
    GR_T *out = (GR_T *)gr_ptr(t->out) + i * t->n * t->repeats;
    for (int64_t r = 0; r < t->repeats; r++) gr_copy_row(out + r * t->n, x, t->n * (int64_t)sizeof(GR_T));
  }
  return GR_OK;
}

/* gr-kernel: cpu/tile : b1 b2 b4 b8 */
static inline int32_t GR_BODY(tile)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *out = &call->args[1];
  int64_t size = gr_size(out);
  if (size == 0) return GR_OK;
  int32_t dim = x->ndim - 1;
  while (dim > 0 && x->shape[dim] == out->shape[dim]) dim--;
  GR_FN(tiling) t = {x, out, gr_max(dim, 0), gr_span(x, gr_max(dim, 0), x->ndim), 1};
  if (x->ndim) t.repeats = out->shape[t.dim] / x->shape[t.dim];
  int64_t run = t.n * t.repeats;
  return gr_parallel(call->env, size / run, gr_ceil_div(GR_GRAIN, run), GR_FN(tile_runs), &t);
}

/* ---------------------------------------------------------------- pad */

#define GR_PAD_CONSTANT 0
#define GR_PAD_EDGE 1
#define GR_PAD_REFLECT 2
#define GR_PAD_WRAP 3

/* Index of the element, of n, that lies `at` elements behind the first one; -1: the fill value. */
GR_INLINE int64_t GR_FN(pad_source)(int64_t at, int64_t n, int64_t mode) {
  if (at >= 0 && at < n) return at;
  if (mode == GR_PAD_CONSTANT) return -1;
  if (mode == GR_PAD_EDGE) return at < 0 ? 0 : n - 1;
  if (mode == GR_PAD_WRAP) return (at % n + n) % n;
  if (n == 1) return 0;
  int64_t period = 2 * n - 2, turned = (at < 0 ? -at : at) % period;
  return gr_min(turned, period - turned);
}

/* Rows of groups of ``inner`` elements: the dimensions behind ``dim`` are not padded. */
typedef struct GR_FN(padding) {
  const gr_call *call;
  int32_t dim;
  int64_t inner;
} GR_FN(padding);

/* Groups first .. last-1 of a row that has its first one of n at place ``before``: none of them is copied as it lies. */
GR_INLINE void GR_FN(pad_edge)(const GR_FN(padding) *p, GR_T *to, const GR_T *row, int64_t first, int64_t last) {
  const int64_t *words = p->call->attrs;
  int64_t n = p->call->args[0].shape[p->dim], before = words[2 + p->dim], inner = p->inner;
  GR_T value = (GR_T)words[1];
  for (int64_t j = first; j < last; j++) {
    int64_t i = row ? GR_FN(pad_source)(j - before, n, words[0]) : -1;
    if (i >= 0) gr_copy_row(to + j * inner, row + i * inner, inner * (int64_t)sizeof(GR_T));
    for (int64_t e = 0; e < inner && i < 0; e++) to[j * inner + e] = value;
  }
}

/* Rows first .. last-1 of out. */
static int32_t GR_FN(pad_rows)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(padding) *p = ctx;
  const gr_arg *x = &p->call->args[0], *out = &p->call->args[1];
  const int64_t *words = p->call->attrs;
  int64_t n = x->shape[p->dim], width = out->shape[p->dim], before = words[2 + p->dim];
  for (int64_t row = first; row < last; row++) {
    int64_t left = row, at = 0, step = n * p->inner, inside = 1;
    for (int32_t d = p->dim - 1; d >= 0; d--) {
      int64_t i = GR_FN(pad_source)(left % out->shape[d] - words[2 + d], x->shape[d], words[0]);
      inside = inside && i >= 0;
      at += i * step;
      step *= x->shape[d];
      left /= out->shape[d];
    }
    GR_T *to = (GR_T *)gr_ptr(out) + row * width * p->inner;
    const GR_T *from = inside ? (const GR_T *)gr_ptr(x) + at : NULL;
    /* first .. end of the row are groups of x as they follow each other */
    int64_t begin = inside ? gr_min(gr_max(before, 0), width) : width;
    int64_t end = inside ? gr_max(begin, gr_min(width, before + n)) : width;
    GR_FN(pad_edge)(p, to, from, 0, begin);
    if (end > begin)
      gr_copy_row(to + begin * p->inner, from + (begin - before) * p->inner,
                  (end - begin) * p->inner * (int64_t)sizeof(GR_T));
    GR_FN(pad_edge)(p, to, from, end, width);
  }
  return GR_OK;
}
#undef GR_PAD_CONSTANT
#undef GR_PAD_EDGE
#undef GR_PAD_REFLECT
#undef GR_PAD_WRAP

/* gr-kernel: cpu/pad : b1 b2 b4 b8 */
static inline int32_t GR_BODY(pad)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *out = &call->args[1];
  int64_t size = gr_size(out);
  if (size == 0) return GR_OK;
  if (x->ndim == 0) {
    memcpy(gr_ptr(out), gr_ptr(x), sizeof(GR_T));
    return GR_OK;
  }
  GR_FN(padding) p = {call, x->ndim - 1, 1};
  while (p.dim > 0 && call->attrs[2 + p.dim] == 0 && out->shape[p.dim] == x->shape[p.dim]) p.inner *= x->shape[p.dim--];
  int64_t width = out->shape[p.dim] * p.inner;
  return gr_parallel(call->env, size / width, gr_ceil_div(GR_GRAIN, width), GR_FN(pad_rows), &p);
}
