/* indices.h: where an element or a tuple of indices points to, in elements of the data. Not a template.
 *
 * Called by: indexed.h and scatter.h.
 *
 * An output may take the place of values that its caller needs when a kernel fails: so each looks at all of its
 * indices (gr_along_fit, gr_tuples_fit) before it writes.
 *
 * defines: gr_index, gr_along, gr_along_of, gr_along_fit, gr_along_at, gr_along_row, gr_tuples, gr_tuples_of,
 *          gr_tuples_fit, gr_tuple_at
 */
#ifndef GR_CPU_INDICES_H
#define GR_CPU_INDICES_H

#include "cpu/common.h"

/* The i-th number of indices, counted from the front of n; -1 where it is out of range. */
GR_INLINE int64_t gr_index(const gr_arg *indices, int64_t i, int64_t n) {
  int64_t index = indices->dtype == GR_I64 ? ((const int64_t *)gr_ptr(indices))[i]
                                           : ((const int32_t *)gr_ptr(indices))[i];
  if (index < 0) index += n;
  return index >= 0 && index < n ? index : -1;
}

/* ---------------------------------------------------------------- an index along an axis for each element */

typedef struct gr_along {
  const gr_call *call;
  const gr_arg *data, *indices, *out;
  int32_t axis;
  int64_t stride[GR_MAX_DIMS]; /* of data */
} gr_along;

/* The axis is the call's first word. */
GR_INLINE gr_along gr_along_of(const gr_call *call, const gr_arg *out) {
  gr_along p = {call, &call->args[0], &call->args[1], out, (int32_t)call->attrs[0], {0}};
  int64_t step = 1;
  for (int32_t d = p.data->ndim - 1; d >= 0; d--) {
    p.stride[d] = step;
    step *= p.data->shape[d];
  }
  return p;
}

/* Whether every index is in range. */
GR_INLINE int gr_along_fit(const gr_along *p) {
  int64_t count = gr_size(p->indices), n = p->data->shape[p->axis];
  for (int64_t i = 0; i < count; i++)
    if (gr_index(p->indices, i, n) < 0) return 0;
  return 1;
}

/* Position of the i-th index; -1 if it is out of range (after gr_along_fit: changed by another thread). */
GR_INLINE int64_t gr_along_at(const gr_along *p, int64_t i) {
  int64_t index = gr_index(p->indices, i, p->data->shape[p->axis]), at = index * p->stride[p->axis], left = i;
  if (index < 0) return -1;
  for (int32_t d = p->data->ndim - 1; d >= 0; d--) {
    int64_t n = p->indices->shape[d];
    if (d != p->axis) at += left % n * p->stride[d];
    left /= n;
  }
  return at;
}

/* Start of the row of indices whose first is the i-th, as if all of them were 0. */
GR_INLINE int64_t gr_along_row(const gr_along *p, int64_t i) {
  int64_t at = 0, left = i / p->indices->shape[p->data->ndim - 1];
  for (int32_t d = p->data->ndim - 2; d >= 0; d--) {
    int64_t n = p->indices->shape[d];
    if (d != p->axis) at += left % n * p->stride[d];
    left /= n;
  }
  return at;
}

/* ---------------------------------------------------------------- a tuple of indices for each slice */

typedef struct gr_tuples {
  const gr_call *call;
  const gr_arg *data, *indices, *out;
  int64_t count, k, n;         /* tuples, numbers of each, elements of a slice */
  int64_t batch;               /* dimensions in front that data and indices share */
  int64_t each;                /* tuples of one batch */
} gr_tuples;

GR_INLINE gr_tuples gr_tuples_of(const gr_call *call, int64_t batch, const gr_arg *out) {
  const gr_arg *data = &call->args[0], *indices = &call->args[1];
  int32_t last = indices->ndim - 1;
  int64_t k = indices->shape[last];
  return (gr_tuples){call, data, indices, out, gr_span(indices, 0, last), k,
                     gr_span(data, (int32_t)(batch + k), data->ndim), batch,
                     gr_span(indices, (int32_t)batch, last)};
}

/* Whether every index is in range. */
GR_INLINE int gr_tuples_fit(const gr_tuples *p) {
  for (int64_t i = 0; i < p->count; i++)
    for (int64_t j = 0; j < p->k; j++)
      if (gr_index(p->indices, i * p->k + j, p->data->shape[p->batch + j]) < 0) return 0;
  return 1;
}

/* Start of the slice of the i-th tuple; -1 if an index is out of range (as gr_along_at). */
GR_INLINE int64_t gr_tuple_at(const gr_tuples *p, int64_t i) {
  int64_t at = i / p->each;
  for (int64_t j = 0; j < p->k; j++) {
    int64_t n = p->data->shape[p->batch + j], index = gr_index(p->indices, i * p->k + j, n);
    if (index < 0) return -1;
    at = at * n + index;
  }
  return at * p->n;
}

#endif
