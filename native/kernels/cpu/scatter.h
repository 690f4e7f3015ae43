/* scatter.h: scatter_elements scatter_nd. Template over all types; out may be the data.
 *
 * Updates are applied one after the other, so that of several to one element the last one stays, and sums do
 * not depend on the number of threads. Attribute words: ir/ops/moving/scatter.py.
 *
 * defines: gr_cpu_{scatter_elements scatter_nd}__<suffix>
 */
#include "cpu/indices.h"

/* n updates onto n elements. */
GR_INLINE void GR_FN(scatter_join)(GR_T *out, const GR_T *updates, int64_t n, int64_t reduction) {
  if (reduction == 0) {
    memcpy(out, updates, (size_t)n * sizeof(GR_T));
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    GR_C a = GR_LOAD(out[i]), b = GR_LOAD(updates[i]);
    switch (reduction) {
      case 1: a = (GR_C)((GR_U)a + (GR_U)b); break;
      case 2: a = (GR_C)((GR_U)a * (GR_U)b); break;
      case 3: a = a >= b || GR_IS_NAN(a) ? a : b; break;
      default: a = a <= b || GR_IS_NAN(a) ? a : b; break;
    }
    out[i] = GR_STORE(a);
  }
}

GR_INLINE void GR_FN(scatter_start)(const gr_call *call) {
  const gr_arg *data = &call->args[0], *out = &call->args[3];
  if (out->addr != data->addr) memcpy(gr_ptr(out), gr_ptr(data), (size_t)gr_size(out) * sizeof(GR_T));
}

/* gr-kernel: cpu/scatter_elements : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(scatter_elements)(const gr_call *call) {
  gr_along p = gr_along_of(call, &call->args[3]);
  const GR_T *updates = gr_ptr(&call->args[2]);
  if (!gr_along_fit(&p)) return gr_refuse(call, "scatter_elements: an index is out of range");
  GR_FN(scatter_start)(call);
  int64_t size = gr_size(p.indices);
  for (int64_t i = 0; i < size; i++) {
    int64_t at = gr_along_at(&p, i);
    if (at >= 0) GR_FN(scatter_join)((GR_T *)gr_ptr(p.out) + at, updates + i, 1, call->attrs[1]);
  }
  return GR_OK;
}

/* gr-kernel: cpu/scatter_nd : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(scatter_nd)(const gr_call *call) {
  gr_tuples p = gr_tuples_of(call, 0, &call->args[3]);
  const GR_T *updates = gr_ptr(&call->args[2]);
  int empty = gr_size(&call->args[2]) == 0;
  if (!empty && !gr_tuples_fit(&p)) return gr_refuse(call, "scatter_nd: an index is out of range");
  GR_FN(scatter_start)(call);
  if (empty) return GR_OK;
  for (int64_t i = 0; i < p.count; i++) {
    int64_t at = gr_tuple_at(&p, i);
    if (at >= 0) GR_FN(scatter_join)((GR_T *)gr_ptr(p.out) + at, updates + i * p.n, p.n, call->attrs[0]);
  }
  return GR_OK;
}
