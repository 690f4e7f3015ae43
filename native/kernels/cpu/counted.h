/* counted.h: nonzero and unique: ops that find how much they make. Template over numbers and bool.
 *
 * Attribute words and outputs: ir/ops/counted.py. What follows the last element is zero.
 *
 * defines: gr_cpu_{nonzero unique}__<suffix>
 */

GR_INLINE int64_t *GR_FN(counted_out)(const gr_call *call, int32_t arg) {
  return (int64_t *)gr_ptr(&call->args[arg]);
}

/* gr-kernel: cpu/nonzero : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(nonzero)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  const GR_T *values = (const GR_T *)gr_ptr(x);
  int64_t n = gr_size(x), found = 0, at[GR_MAX_DIMS] = {0};
  int64_t *positions = GR_FN(counted_out)(call, 1);
  for (int64_t i = 0; i < n; i++) {
    if (GR_LOAD(values[i]) != 0) {
      for (int32_t d = 0; d < x->ndim; d++) positions[d * n + found] = at[d];
      found++;
    }
    for (int32_t d = x->ndim - 1; d >= 0 && ++at[d] == x->shape[d]; d--) at[d] = 0;
  }
  for (int32_t d = 0; d < x->ndim; d++)
    memset(positions + d * n + found, 0, (size_t)(n - found) * sizeof *positions);
  *GR_FN(counted_out)(call, 2) = found;
  return GR_OK;
}

/* ---------------------------------------------------------------- unique */

typedef struct GR_FN(rows) {
  const GR_T *x;
  int64_t m;
} GR_FN(rows);

/* -1, 0 or 1: the order of two rows; NaN is the greatest. */
GR_INLINE int GR_FN(row_order)(const GR_FN(rows) *r, int64_t i, int64_t j) {
  for (int64_t k = 0; k < r->m; k++) {
    GR_C a = GR_LOAD(r->x[i * r->m + k]), b = GR_LOAD(r->x[j * r->m + k]);
    if (a < b || (GR_IS_NAN(b) && !GR_IS_NAN(a))) return -1;
    if (b < a || (GR_IS_NAN(a) && !GR_IS_NAN(b))) return 1;
  }
  return 0;
}

/* Equal rows in the order in which they come, so that a heap sort is stable. */
GR_INLINE int GR_FN(row_before)(const GR_FN(rows) *r, int64_t i, int64_t j) {
  int order = GR_FN(row_order)(r, i, j);
  return order ? order < 0 : i < j;
}

GR_INLINE void GR_FN(row_sift)(const GR_FN(rows) *r, int64_t *heap, int64_t root, int64_t n) {
  int64_t moved = heap[root];
  for (int64_t child; (child = 2 * root + 1) < n; root = child) {
    if (child + 1 < n && GR_FN(row_before)(r, heap[child], heap[child + 1])) child++;
    if (!GR_FN(row_before)(r, moved, heap[child])) break;
    heap[root] = heap[child];
  }
  heap[root] = moved;
}

GR_INLINE void GR_FN(row_sort)(const GR_FN(rows) *r, int64_t *order, int64_t n) {
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t root = n / 2 - 1; root >= 0; root--) GR_FN(row_sift)(r, order, root, n);
  for (int64_t last = n - 1; last > 0; last--) {
    int64_t greatest = order[0];
    order[0] = order[last];
    order[last] = greatest;
    GR_FN(row_sift)(r, order, 0, last);
  }
}

/* gr-kernel: cpu/unique : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(unique)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  GR_FN(rows) rows = {(const GR_T *)gr_ptr(x), x->shape[1]};
  int64_t n = x->shape[0], found = 0;
  GR_T *values = (GR_T *)gr_ptr(&call->args[1]);
  int64_t *first = GR_FN(counted_out)(call, 2), *inverse = GR_FN(counted_out)(call, 3),
          *counts = GR_FN(counted_out)(call, 4);
  GR_FN(row_sort)(&rows, first, n); /* the order lies in `first`, which is written behind what is read */
  for (int64_t k = 0; k < n; k++) {
    int64_t row = first[k];
    if (!k || GR_FN(row_order)(&rows, first[found - 1], row)) first[found++] = row;
    inverse[row] = found - 1;
  }
  if (!call->attrs[0]) { /* counts holds the new number of each, then all are numbered anew */
    int64_t next = 0;
    for (int64_t g = 0; g < found; g++) counts[g] = -1;
    for (int64_t i = 0; i < n; i++) {
      int64_t *number = &counts[inverse[i]];
      if (*number < 0) *number = next++;
      inverse[i] = *number;
    }
  }
  memset(counts, 0, (size_t)n * sizeof *counts);
  for (int64_t i = 0; i < n; i++)
    if (!counts[inverse[i]]++) first[inverse[i]] = i;
  for (int64_t g = 0; g < found; g++)
    memcpy(values + g * rows.m, rows.x + first[g] * rows.m, (size_t)rows.m * sizeof *values);
  memset(values + found * rows.m, 0, (size_t)((n - found) * rows.m) * sizeof *values);
  memset(first + found, 0, (size_t)(n - found) * sizeof *first);
  *GR_FN(counted_out)(call, 5) = found;
  return GR_OK;
}
