/* order.h: argmax argmin cumsum topk along one axis. Template over numbers.
 *
 * Attribute words: ir/ops/reductions/axis.py. x is seen as [outer, n, inner]; a task is a column of it, or for
 * the running ones a strip of GR_AXIS_STRIP neighbouring columns that walk down the axis together.
 *
 * defines: gr_cpu_{argmax argmin cumsum topk}__<suffix>
 */
#define GR_AXIS_STRIP 32

#ifndef GR_CPU_ORDER_H
#define GR_CPU_ORDER_H
/* An integer that floats have the order of by IEEE 754's totalOrder: -NaN, -inf, ..., -0, 0, ..., inf, NaN. */
static inline int64_t gr_total_order(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}
#endif

/* Indices are int64 or int32: from element `at` of an output on. */
GR_INLINE void *GR_FN(indices_from)(const gr_arg *out, int64_t at) {
  return (char *)gr_ptr(out) + at * (out->dtype == GR_I32 ? 4 : 8);
}

GR_INLINE int64_t GR_FN(index_at)(const void *all, int narrow, int64_t i) {
  return narrow ? ((const int32_t *)all)[i] : ((const int64_t *)all)[i];
}

GR_INLINE void GR_FN(index_put)(void *all, int narrow, int64_t i, int64_t index) {
  if (narrow)
    ((int32_t *)all)[i] = (int32_t)index;
  else
    ((int64_t *)all)[i] = index;
}

typedef struct GR_FN(axis) {
  const gr_call *call;
  const GR_T *x;
  int64_t n, inner, strips;
} GR_FN(axis);

GR_INLINE GR_FN(axis) GR_FN(axis_of)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  GR_FN(axis) p = {call, gr_ptr(x), x->shape[axis], gr_span(x, axis + 1, x->ndim), 0};
  p.strips = gr_ceil_div(p.inner, GR_AXIS_STRIP);
  return p;
}

/* All strips of x through `run`. */
GR_INLINE int32_t GR_FN(axis_run)(const gr_call *call, int32_t (*run)(void *, int64_t, int64_t)) {
  GR_FN(axis) p = GR_FN(axis_of)(call);
  int64_t cost = gr_max(1, p.n * gr_min(p.inner, GR_AXIS_STRIP));
  return gr_parallel(call->env, gr_span(&call->args[0], 0, (int32_t)call->attrs[0]) * p.strips,
                     gr_ceil_div(GR_GRAIN, cost), run, &p);
}

/* ---------------------------------------------------------------- argmax argmin */

GR_INLINE int GR_FN(beats)(GR_C a, GR_C best, int least, int last) {
  if (GR_IS_NAN(best)) return last && GR_IS_NAN(a);
  if (GR_IS_NAN(a)) return 1;
  return (least ? a < best : a > best) || (last && a == best);
}

GR_INLINE int32_t GR_FN(arg_strips)(const GR_FN(axis) *p, int64_t first, int64_t last_strip, int least,
                                    int last) {
  for (int64_t i = first; i < last_strip; i++) {
    int64_t outer = i / p->strips, column = i % p->strips * GR_AXIS_STRIP;
    int64_t width = gr_min(GR_AXIS_STRIP, p->inner - column);
    const GR_T *x = p->x + outer * p->n * p->inner + column;
    const gr_arg *out = &p->call->args[1];
    void *indices = GR_FN(indices_from)(out, outer * p->inner + column);
    int64_t found[GR_AXIS_STRIP] = {0};
    GR_C best[GR_AXIS_STRIP];
    for (int64_t c = 0; c < width; c++) best[c] = GR_LOAD(x[c]);
    for (int64_t k = 1; k < p->n; k++) {
      for (int64_t c = 0; c < width; c++) {
        GR_C a = GR_LOAD(x[k * p->inner + c]);
        if (!GR_FN(beats)(a, best[c], least, last)) continue;
        best[c] = a;
        found[c] = k;
      }
    }
    for (int64_t c = 0; c < width; c++) GR_FN(index_put)(indices, out->dtype == GR_I32, c, found[c]);
  }
  return GR_OK;
}

static int32_t GR_FN(argmax_strips)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(axis) *p = ctx;
  return GR_FN(arg_strips)(p, first, last, 0, (int)p->call->attrs[1]);
}

static int32_t GR_FN(argmin_strips)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(axis) *p = ctx;
  return GR_FN(arg_strips)(p, first, last, 1, (int)p->call->attrs[1]);
}

/* gr-kernel: cpu/argmax : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(argmax)(const gr_call *call) { return GR_FN(axis_run)(call, GR_FN(argmax_strips)); }

/* gr-kernel: cpu/argmin : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(argmin)(const gr_call *call) { return GR_FN(axis_run)(call, GR_FN(argmin_strips)); }

/* ---------------------------------------------------------------- cumsum */

static int32_t GR_FN(cumsum_strips)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(axis) *p = ctx;
  int64_t exclusive = p->call->attrs[1], reverse = p->call->attrs[2];
  for (int64_t i = first; i < last; i++) {
    int64_t column = i % p->strips * GR_AXIS_STRIP, at = i / p->strips * p->n * p->inner + column;
    int64_t width = gr_min(GR_AXIS_STRIP, p->inner - column);
    GR_T *out = (GR_T *)gr_ptr(&p->call->args[1]) + at;
    GR_WIDE sum[GR_AXIS_STRIP] = {0};
    for (int64_t step = 0; step < p->n; step++) {
      int64_t k = reverse ? p->n - 1 - step : step;
      for (int64_t c = 0; c < width; c++) {
        GR_WIDE before = sum[c];
        sum[c] += GR_LOAD(p->x[at + k * p->inner + c]);
        out[k * p->inner + c] = GR_STORE((GR_C)(exclusive ? before : sum[c]));
      }
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/cumsum : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(cumsum)(const gr_call *call) { return GR_FN(axis_run)(call, GR_FN(cumsum_strips)); }
#undef GR_AXIS_STRIP

/* ---------------------------------------------------------------- topk */

/* A column of the outputs, which is kept as a heap whose root is the worst of those kept. */
typedef struct GR_FN(heap) {
  GR_T *value;
  void *index;
  int64_t step;                /* between elements of the column */
  int largest, total, narrow;  /* total: floats in total order; narrow: indices are int32 */
} GR_FN(heap);

/* Whether a, at index ia, comes before b: of equal ones the lower index. NaN is the greatest, unless total. */
GR_INLINE int GR_FN(before)(GR_C a, int64_t ia, GR_C b, int64_t ib, int largest, int total) {
  if (total) {
    int64_t p = gr_total_order((double)a), q = gr_total_order((double)b);
    return p == q ? ia < ib : largest ? p > q : p < q;
  }
  int above = GR_IS_NAN(a) ? !GR_IS_NAN(b) : a > b, below = GR_IS_NAN(b) ? !GR_IS_NAN(a) : b > a;
  if (above || below) return largest ? above : below;
  return ia < ib;
}

GR_INLINE int64_t GR_FN(heap_index)(const GR_FN(heap) *h, int64_t i) {
  return GR_FN(index_at)(h->index, h->narrow, i * h->step);
}

GR_INLINE void GR_FN(heap_put)(const GR_FN(heap) *h, int64_t i, GR_T value, int64_t index) {
  h->value[i * h->step] = value;
  GR_FN(index_put)(h->index, h->narrow, i * h->step, index);
}

GR_INLINE int GR_FN(heap_before)(const GR_FN(heap) *h, int64_t i, int64_t j) {
  return GR_FN(before)(GR_LOAD(h->value[i * h->step]), GR_FN(heap_index)(h, i), GR_LOAD(h->value[j * h->step]),
                       GR_FN(heap_index)(h, j), h->largest, h->total);
}

GR_INLINE void GR_FN(heap_swap)(const GR_FN(heap) *h, int64_t i, int64_t j) {
  GR_T value = h->value[i * h->step];
  int64_t index = GR_FN(heap_index)(h, i);
  GR_FN(heap_put)(h, i, h->value[j * h->step], GR_FN(heap_index)(h, j));
  GR_FN(heap_put)(h, j, value, index);
}

/* Let element i of the first n sink below those that come after it. */
static inline void GR_FN(heap_sink)(const GR_FN(heap) *h, int64_t i, int64_t n) {
  for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
    if (child + 1 < n && GR_FN(heap_before)(h, child, child + 1)) child++;
    if (!GR_FN(heap_before)(h, i, child)) return;
    GR_FN(heap_swap)(h, i, child);
    i = child;
  }
}

/* Columns first .. last-1. */
static int32_t GR_FN(topk_columns)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(axis) *p = ctx;
  const gr_arg *values = &p->call->args[1], *indices = &p->call->args[2];
  int64_t k = values->shape[p->call->attrs[0]];
  for (int64_t column = first; column < last; column++) {
    int64_t outer = column / p->inner, c = column % p->inner, at = outer * k * p->inner + c;
    const GR_T *x = p->x + outer * p->n * p->inner + c;
    GR_FN(heap) h = {(GR_T *)gr_ptr(values) + at, GR_FN(indices_from)(indices, at), p->inner,
                     (int)p->call->attrs[1], (int)p->call->attrs[2], indices->dtype == GR_I32};
    for (int64_t i = 0; i < k; i++) GR_FN(heap_put)(&h, i, x[i * p->inner], i);
    for (int64_t i = k / 2 - 1; i >= 0; i--) GR_FN(heap_sink)(&h, i, k);
    for (int64_t i = k; i < p->n; i++) {
      if (!GR_FN(before)(GR_LOAD(x[i * p->inner]), i, GR_LOAD(*h.value), GR_FN(heap_index)(&h, 0),
                          h.largest, h.total))
        continue;
      GR_FN(heap_put)(&h, 0, x[i * p->inner], i);
      GR_FN(heap_sink)(&h, 0, k);
    }
    for (int64_t left = k - 1; left > 0; left--) { /* the worst of those left goes to their end */
      GR_FN(heap_swap)(&h, 0, left);
      GR_FN(heap_sink)(&h, 0, left);
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/topk : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(topk)(const gr_call *call) {
  GR_FN(axis) p = GR_FN(axis_of)(call);
  if (gr_size(&call->args[1]) == 0) return GR_OK;
  return gr_parallel(call->env, gr_span(&call->args[0], 0, (int32_t)call->attrs[0]) * p.inner,
                     gr_ceil_div(GR_GRAIN, 4 * p.n), GR_FN(topk_columns), &p);
}
