/* movement.h: transpose concatenate slice slice_update take. Template over the element's size: the bits are
 * only moved.
 *
 * Attribute words: ir/ops/moving/movement.py.
 *
 * defines: gr_cpu_{transpose,concatenate,slice,slice_update,take}__<b1|b2|b4|b8>
 */
#include "cpu/fours.h"

/* ---------------------------------------------------------------- transpose */

#define GR_TILE_EDGE (64 / (int64_t)sizeof(GR_T)) /* whole cache lines on both sides */

typedef struct GR_FN(plane) {
  GR_T *out;
  const GR_T *x;
  int64_t n, step;             /* the output's last dimension and its stride in x */
  int64_t m, m_out;            /* the output dimension contiguous in x (m = 1: none), its stride in out */
  int32_t ndim;                /* the other output dimensions */
  int64_t shape[GR_MAX_DIMS], to[GR_MAX_DIMS], from[GR_MAX_DIMS];
} GR_FN(plane);

/* n rows of x -> m rows of n elements, side by side. */
GR_INLINE void GR_FN(interleave)(GR_T *out, const GR_T *x, int64_t m, int64_t n, int64_t step) {
  int64_t whole = 0;
  if (sizeof(GR_T) == 4 && n == 3)
    for (; whole + 4 <= m; whole += 4) gr_turn_three(out + whole * 3, x + whole, step);
  GR_INDEPENDENT
  for (int64_t i = whole; i < m; i++) {
    for (int64_t j = 0; j < n; j++) out[i * n + j] = x[i + j * step];
  }
}

/* Elements i0 .. i1-1 of rows j0 .. j1-1 of x, at most a tile. Blocks that vectors turn cover it; the last of them
 * moves some of the one before again. */
GR_INLINE void GR_FN(turn_tile)(const GR_FN(plane) *p, GR_T *out, const GR_T *x, int64_t i0, int64_t i1, int64_t j0,
                                int64_t j1) {
  const int64_t block = 16 / (int64_t)sizeof(GR_T);
  if ((sizeof(GR_T) == 4 || sizeof(GR_T) == 2) && i1 >= block && j1 >= block) {
    for (int64_t j = j0; j < j1; j += block) {
      int64_t row = gr_min(j, j1 - block);
      for (int64_t i = i0; i < i1; i += block) {
        int64_t column = gr_min(i, i1 - block);
        GR_T *to = out + column * p->m_out + row;
        const GR_T *from = x + column + row * p->step;
        if (sizeof(GR_T) == 4) gr_turn_four(to, p->m_out, from, p->step);
        else gr_turn_eight(to, p->m_out, from, p->step);
      }
    }
    return;
  }
  for (int64_t i = i0; i < i1; i++)
    for (int64_t j = j0; j < j1; j++) out[i * p->m_out + j] = x[i + j * p->step];
}

static int32_t GR_FN(transpose_planes)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(plane) *p = ctx;
  int64_t count[GR_MAX_DIMS], to, from;
  gr_seek(first, p->ndim, p->shape, count, &to, p->to, &from, p->from);
  for (int64_t index = first; index < last; index++) {
    GR_T *out = p->out + to;
    const GR_T *x = p->x + from;
    if (p->step == 1) {
      gr_copy_row(out, x, p->n * (int64_t)sizeof(GR_T));
    } else if (p->n == 3 && p->m_out == 3) { /* images of three colours */
      GR_FN(interleave)(out, x, p->m, 3, p->step);
    } else if (p->n == 4 && p->m_out == 4) { /* and of one more */
      GR_FN(interleave)(out, x, p->m, 4, p->step);
    } else if (p->n == 2 && p->m_out == 2) { /* two halves, in turn */
      GR_FN(interleave)(out, x, p->m, 2, p->step);
    } else {
      for (int64_t i0 = 0; i0 < p->m; i0 += GR_TILE_EDGE) {
        int64_t i1 = gr_min(p->m, i0 + GR_TILE_EDGE);
        for (int64_t j0 = 0; j0 < p->n; j0 += GR_TILE_EDGE)
          GR_FN(turn_tile)(p, out, x, i0, i1, j0, gr_min(p->n, j0 + GR_TILE_EDGE));
      }
    }
    gr_advance(p->ndim, p->shape, count, &to, p->to, &from, p->from);
  }
  return GR_OK;
}
#undef GR_TILE_EDGE

/* gr-kernel: cpu/transpose : b1 b2 b4 b8 */
static inline int32_t GR_BODY(transpose)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *out = &call->args[1];
  int32_t ndim = out->ndim, d;
  int64_t own[GR_MAX_DIMS], from[GR_MAX_DIMS], to[GR_MAX_DIMS];
  int64_t size = gr_size(out);
  if (size == 0) return GR_OK;
  gr_strides(x, ndim, own);
  gr_strides(out, ndim, to);
  for (d = 0; d < ndim; d++) from[d] = own[call->attrs[d]];
  while (ndim > 0 && out->shape[ndim - 1] == 1) ndim--; /* the last dimension shall be a real one */
  GR_FN(plane) p = {.out = gr_ptr(out), .x = gr_ptr(x), .n = 1, .step = 1, .m = 1};
  if (ndim > 0) {
    p.n = out->shape[ndim - 1];
    p.step = from[ndim - 1];
  }
  for (d = 0; d < ndim - 1; d++) {
    if (from[d] == 1 && p.step != 1) {
      p.m = out->shape[d];
      p.m_out = to[d];
    } else {
      p.shape[p.ndim] = out->shape[d];
      p.to[p.ndim] = to[d];
      p.from[p.ndim++] = from[d];
    }
  }
  int64_t plane = p.n * p.m;
  return gr_parallel(call->env, size / plane, gr_ceil_div(GR_GRAIN, plane), GR_FN(transpose_planes), &p);
}

/* ---------------------------------------------------------------- concatenate */

/* Rows of the result: an element of the dimensions before the axis each. */
static int32_t GR_FN(concatenate_rows)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const gr_arg *out = &call->args[call->nargs - 1];
  int32_t axis = (int32_t)call->attrs[0];
  int64_t row = gr_span(out, axis, out->ndim);
  GR_T *to = (GR_T *)gr_ptr(out) + first * row;
  for (int32_t k = 0; k < call->nargs - 1; k++) {
    const gr_arg *x = &call->args[k];
    int64_t n = gr_span(x, axis, x->ndim);
    const GR_T *from = (const GR_T *)gr_ptr(x) + first * n;
    if (n == 0) continue;
    for (int64_t i = 0; i < last - first; i++) gr_copy_row(to + i * row, from + i * n, n * (int64_t)sizeof(GR_T));
    to += n;
  }
  return GR_OK;
}

/* gr-kernel: cpu/concatenate : b1 b2 b4 b8 */
static inline int32_t GR_BODY(concatenate)(const gr_call *call) {
  const gr_arg *out = &call->args[call->nargs - 1];
  int32_t axis = (int32_t)call->attrs[0];
  int64_t row = gr_span(out, axis, out->ndim);
  if (gr_size(out) == 0) return GR_OK;
  return gr_parallel(call->env, gr_span(out, 0, axis), gr_ceil_div(GR_GRAIN, row), GR_FN(concatenate_rows),
                     (void *)(uintptr_t)call);
}

/* ---------------------------------------------------------------- slice and slice_update */

/* The window of `whole` that has part's shape and starts and steps as the attribute words say. */
typedef struct GR_FN(window) {
  GR_T *whole, *part;
  int64_t n, step;             /* one row of part and its stride in whole */
  int32_t ndim;                /* the dimensions before it */
  int64_t shape[GR_MAX_DIMS], in_whole[GR_MAX_DIMS], in_part[GR_MAX_DIMS];
} GR_FN(window);

GR_INLINE GR_FN(window) GR_FN(window_of)(const gr_arg *whole, const gr_arg *part, const int64_t *words) {
  GR_FN(window) w = {.whole = gr_ptr(whole), .part = gr_ptr(part), .n = 1, .step = 1};
  int64_t strides[GR_MAX_DIMS];
  int32_t ndim = part->ndim;
  gr_strides(whole, ndim, strides);
  gr_strides(part, ndim, w.in_part);
  for (int32_t d = 0; d < ndim; d++) w.whole += words[2 * d] * strides[d];
  /* trailing dimensions that are taken whole are one row */
  while (ndim > 0 && part->shape[ndim - 1] == whole->shape[ndim - 1] && words[2 * ndim - 1] == 1) {
    w.n *= part->shape[--ndim];
  }
  if (ndim > 0 && (w.n == 1 || words[2 * ndim - 1] == 1)) {
    ndim--;
    w.step = w.n == 1 ? words[2 * ndim + 1] * gr_max(strides[ndim], 1) : 1;
    w.n *= part->shape[ndim];
  }
  w.ndim = ndim;
  for (int32_t d = 0; d < ndim; d++) {
    w.shape[d] = part->shape[d];
    w.in_whole[d] = strides[d] * words[2 * d + 1];
  }
  return w;
}

/* Rows first .. last-1 of part from whole (update = 0) or of whole from part (update = 1). */
GR_INLINE int32_t GR_FN(window_move)(const GR_FN(window) *w, int64_t first, int64_t last, int update) {
  int64_t count[GR_MAX_DIMS], in_whole, in_part;
  gr_seek(first, w->ndim, w->shape, count, &in_whole, w->in_whole, &in_part, w->in_part);
  for (int64_t row = first; row < last; row++) {
    GR_T *whole = w->whole + in_whole, *part = w->part + row * w->n;
    if (w->step == 1) {
      gr_copy_row(update ? whole : part, update ? part : whole, w->n * (int64_t)sizeof(GR_T));
    } else if (update) {
      for (int64_t i = 0; i < w->n; i++) whole[i * w->step] = part[i];
    } else {
      for (int64_t i = 0; i < w->n; i++) part[i] = whole[i * w->step];
    }
    gr_advance(w->ndim, w->shape, count, &in_whole, w->in_whole, &in_part, w->in_part);
  }
  return GR_OK;
}

static int32_t GR_FN(slice_rows)(void *ctx, int64_t first, int64_t last) {
  return GR_FN(window_move)(ctx, first, last, 0);
}

static int32_t GR_FN(update_rows)(void *ctx, int64_t first, int64_t last) {
  return GR_FN(window_move)(ctx, first, last, 1);
}

/* gr-kernel: cpu/slice : b1 b2 b4 b8 */
static inline int32_t GR_BODY(slice)(const gr_call *call) {
  int64_t size = gr_size(&call->args[1]);
  if (size == 0) return GR_OK;
  GR_FN(window) w = GR_FN(window_of)(&call->args[0], &call->args[1], call->attrs);
  return gr_parallel(call->env, size / w.n, gr_ceil_div(GR_GRAIN, w.n), GR_FN(slice_rows), &w);
}

/* gr-kernel: cpu/slice_update : b1 b2 b4 b8 */
static inline int32_t GR_BODY(slice_update)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *update = &call->args[1], *out = &call->args[2];
  int64_t size = gr_size(update);
  if (out->addr != x->addr) memcpy(gr_ptr(out), gr_ptr(x), (size_t)gr_size(out) * sizeof(GR_T));
  if (size == 0) return GR_OK;
  GR_FN(window) w = GR_FN(window_of)(out, update, call->attrs);
  return gr_parallel(call->env, size / w.n, gr_ceil_div(GR_GRAIN, w.n), GR_FN(update_rows), &w);
}

/* ---------------------------------------------------------------- take */

GR_INLINE int64_t GR_FN(index_at)(const gr_arg *indices, int64_t i) {
  return indices->dtype == GR_I64 ? ((const int64_t *)gr_ptr(indices))[i]
                                  : ((const int32_t *)gr_ptr(indices))[i];
}

/* gr-kernel: cpu/take : b1 b2 b4 b8 */
static inline int32_t GR_BODY(take)(const gr_call *call) {
  const gr_arg *data = &call->args[0], *indices = &call->args[1];
  int32_t axis = (int32_t)call->attrs[0];
  const GR_T *from = gr_ptr(data);
  GR_T *to = gr_ptr(&call->args[2]);
  int64_t outer = gr_span(data, 0, axis), n = data->shape[axis], inner = gr_span(data, axis + 1, data->ndim);
  int64_t taken = gr_size(indices);
  for (int64_t i = 0; i < taken; i++) {
    int64_t index = GR_FN(index_at)(indices, i);
    if (index < -n || index >= n) return gr_refuse(call, "take: an index is out of range");
  }
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t i = 0; i < taken; i++) {
      int64_t index = GR_FN(index_at)(indices, i);
      const GR_T *x = from + (o * n + (index < 0 ? index + n : index)) * inner;
      if (inner == 1) {
        *to = *x;
      } else {
        gr_copy_row(to, x, inner * (int64_t)sizeof(GR_T));
      }
      to += inner;
    }
  }
  return GR_OK;
}
