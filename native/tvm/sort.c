/* sort.c: tvm.contrib.sort.*, which operators of sort, argsort, topk, unique and non-maximum suppression call.
 *
 * Equal elements stay in their order, ascending and descending, as std::stable_sort leaves them for TVM; where
 * a NaN goes is undefined there and here. All dtypes of 8 to 64 bits are taken, TVM takes some. Called by operators
 * (TVMFuncCall), on any thread.
 * defines: tvm.contrib.sort.{sort, argsort, topk, argsort_nms}
 */
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "tvm_backend.h"

typedef union key {
  double f;
  int64_t i;
} key;

typedef struct item {
  key key;
  int64_t at;
} item;

/* Lines along an axis: element k of line (i, j) is at (i * n + k) * after + j. */
typedef struct lines {
  const tvm_tensor *tensor;
  int64_t before, n, after;
  int floats;
} lines;

static double half(uint16_t bits) {
  int32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent == 31 ? (mantissa ? 0.0 / 0.0 : 1.0 / 0.0)
                 : exponent     ? (1024 + mantissa) * (1.0 / 1024)
                                : mantissa * (1.0 / 1024);
  for (int32_t e = exponent ? exponent : 1; exponent != 31 && e < 15; ++e) value *= 0.5;
  for (int32_t e = 15; exponent != 31 && e < exponent; ++e) value *= 2;
  return bits >> 15 ? -value : value;
}

static double brain(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static key key_of(const tvm_tensor *t, int64_t at) {
  const void *data = tvm_data(t);
  switch (t->dtype_code * 100 + t->dtype_bits) {
    case 8: return (key){.i = ((const int8_t *)data)[at]};
    case 16: return (key){.i = ((const int16_t *)data)[at]};
    case 32: return (key){.i = ((const int32_t *)data)[at]};
    case 64: return (key){.i = ((const int64_t *)data)[at]};
    case 101: case 108: return (key){.i = ((const uint8_t *)data)[at]};
    case 116: return (key){.i = ((const uint16_t *)data)[at]};
    case 132: return (key){.i = ((const uint32_t *)data)[at]};
    case 164: return (key){.i = (int64_t)(((const uint64_t *)data)[at] ^ 1ull << 63)};  /* in the order of int64 */
    case 216: return (key){.f = half(((const uint16_t *)data)[at])};
    case 232: return (key){.f = ((const float *)data)[at]};
    case 264: return (key){.f = ((const double *)data)[at]};
    default: return (key){.f = brain(((const uint16_t *)data)[at])};
  }
}

static int is_known(const tvm_tensor *t) {
  int32_t bits = t->dtype_bits, whole = bits == 8 || bits == 16 || bits == 32 || bits == 64;
  if (t->dtype_lanes != 1) return 0;
  switch (t->dtype_code) {
    case TVM_DL_INT: return whole;
    case TVM_DL_UINT: return whole || bits == 1;
    case TVM_DL_FLOAT: return whole && bits > 8;
    default: return t->dtype_code == TVM_DL_BFLOAT && bits == 16;
  }
}

static int find_lines(const tvm_call *call, const tvm_tensor *t, int64_t axis, lines *out) {
  if (axis < 0) axis += t->ndim;
  if (axis < 0 || axis >= t->ndim)
    return gr_fail(GR_ERR_KERNEL, "%s: axis %lld is out of range for %d dimensions", call->name, (long long)axis,
                   t->ndim), 0;
  if (!is_known(t))
    return gr_fail(GR_ERR_KERNEL, "%s: cannot sort elements of type code %d and %d bits", call->name, t->dtype_code,
                   t->dtype_bits), 0;
  *out = (lines){t, 1, t->shape[axis], 1, t->dtype_code == TVM_DL_FLOAT || t->dtype_code == TVM_DL_BFLOAT};
  for (int32_t d = 0; d < t->ndim; ++d) *(d < axis ? &out->before : &out->after) *= d == axis ? 1 : t->shape[d];
  return 1;
}

/* Whether b, which comes after a, has to come before it. */
static inline int goes_first(item b, item a, int floats, int ascend) {
  if (floats) return ascend ? b.key.f < a.key.f : b.key.f > a.key.f;
  return ascend ? b.key.i < a.key.i : b.key.i > a.key.i;
}

/* Bottom-up merges between two arrays of n; the sorted one. */
static item *merge_sort(item *items, item *other, int64_t n, int floats, int ascend) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      int64_t middle = low + width < n ? low + width : n, high = middle + width < n ? middle + width : n;
      int64_t a = low, b = middle;
      for (int64_t at = low; at < high; ++at)
        other[at] = b < high && (a == middle || goes_first(items[b], items[a], floats, ascend)) ? items[b++] : items[a++];
    }
    item *swapped = items;
    items = other;
    other = swapped;
  }
  return items;
}

/* The first `count` elements of line (i, j), sorted into one of two arrays of n. */
static item *sorted_line(const lines *l, int64_t i, int64_t j, int64_t count, int ascend, item *room) {
  for (int64_t k = 0; k < count; ++k) room[k] = (item){key_of(l->tensor, (i * l->n + k) * l->after + j), k};
  return merge_sort(room, room + l->n, count, l->floats, ascend);
}

static void put(const tvm_tensor *t, int64_t at, int64_t value) {
  void *data = tvm_data(t);
  if (t->dtype_code == TVM_DL_FLOAT) {
    if (t->dtype_bits == 32) ((float *)data)[at] = (float)value;
    else ((double *)data)[at] = (double)value;
  } else if (t->dtype_bits == 8) {
    ((int8_t *)data)[at] = (int8_t)value;
  } else if (t->dtype_bits == 16) {
    ((int16_t *)data)[at] = (int16_t)value;
  } else if (t->dtype_bits == 32) {
    ((int32_t *)data)[at] = (int32_t)value;
  } else {
    ((int64_t *)data)[at] = value;
  }
}

/* Whether indices can be written there: integers, f32, f64. */
static int takes_indices(const tvm_call *call, const tvm_tensor *t) {
  if (is_known(t) && t->dtype_bits > 1 && t->dtype_code <= TVM_DL_FLOAT && !tvm_is(t, TVM_DL_FLOAT, 16)) return 1;
  return gr_fail(GR_ERR_KERNEL, "%s: cannot write indices as type code %d of %d bits", call->name, t->dtype_code,
                 t->dtype_bits), 0;
}

static int same_size(const tvm_call *call, const tvm_tensor *t, int64_t size) {
  if (tvm_size(t) == size) return 1;
  return gr_fail(GR_ERR_KERNEL, "%s: an output has %lld elements, wanted %lld", call->name, (long long)tvm_size(t),
                 (long long)size), 0;
}

/* ---------------------------------------------------------------- lines, one after another */

typedef struct job {
  lines lines;
  const tvm_tensor *values, *indices, *valid;   /* NULL: not wanted; valid: all count */
  int64_t k;                                    /* how many of each line */
  int ascend;
} job;

static int32_t run_job(const tvm_call *call, const job *job) {
  const lines *l = &job->lines;
  if (!l->before || !l->after || !job->k) return 0;
  size_t width = (size_t)(l->tensor->dtype_bits + 7) / 8;
  item *room = malloc((size_t)(l->n ? l->n : 1) * (2 * sizeof *room + width));
  if (!room) return gr_fail(GR_ERR_KERNEL, "%s: no memory for a line of %lld", call->name, (long long)l->n), -1;
  char *line = (char *)(room + 2 * l->n);       /* values of a line: the output may be the input */
  for (int64_t i = 0; i < l->before; ++i)
    for (int64_t j = 0; j < l->after; ++j) {
      int64_t count = l->n;
      if (job->valid) {
        count = ((const int32_t *)tvm_data(job->valid))[i * l->after + j];
        count = count < 0 ? 0 : count > l->n ? l->n : count;
      }
      const item *sorted = sorted_line(l, i, j, count, job->ascend, room);
      const char *from = tvm_data(l->tensor);
      for (int64_t k = 0; job->values && k < job->k && k < count; ++k)
        memcpy(line + (size_t)k * width, from + (size_t)((i * l->n + sorted[k].at) * l->after + j) * width, width);
      for (int64_t k = 0; k < job->k && k < l->n; ++k) {
        int64_t at = (i * job->k + k) * l->after + j;
        if (job->values) memcpy((char *)tvm_data(job->values) + (size_t)at * width, line + (size_t)k * width, width);
        if (job->indices) put(job->indices, at, k < count ? sorted[k].at : k);
      }
    }
  free(room);
  return 0;
}

/* ---------------------------------------------------------------- the functions */

static int32_t sort_values(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.sort.sort");
  job job = {0};
  int64_t axis, ascend;
  const tvm_tensor *in = tvm_tensor_arg(&call, 0), *out = in ? tvm_tensor_arg(&call, 1) : NULL;
  if (!out || !tvm_int_arg(&call, 2, &axis) || !tvm_int_arg(&call, 3, &ascend) ||
      !find_lines(&call, in, axis, &job.lines) || !same_size(&call, out, tvm_size(in)))
    return -1;
  if (!tvm_is(out, in->dtype_code, in->dtype_bits))
    return gr_fail(GR_ERR_KERNEL, "%s: the output has another dtype than the input", call.name), -1;
  job.values = out, job.k = job.lines.n, job.ascend = ascend != 0;
  return run_job(&call, &job);
}

static int32_t sort_indices(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.sort.argsort");
  job job = {0};
  int64_t axis, ascend;
  const tvm_tensor *in = tvm_tensor_arg(&call, 0), *out = in ? tvm_tensor_arg(&call, 1) : NULL;
  if (!out || !tvm_int_arg(&call, 2, &axis) || !tvm_int_arg(&call, 3, &ascend) ||
      !find_lines(&call, in, axis, &job.lines) || !same_size(&call, out, tvm_size(in)) || !takes_indices(&call, out))
    return -1;
  job.indices = out, job.k = job.lines.n, job.ascend = ascend != 0;
  return run_job(&call, &job);
}

/* (data, valid counts int32, indices int32, axis, ascending): of each line its first `count`; behind them k. */
static int32_t sort_valid(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.sort.argsort_nms");
  job job = {0};
  int64_t axis, ascend;
  const tvm_tensor *in = tvm_tensor_arg(&call, 0), *valid = in ? tvm_tensor_arg(&call, 1) : NULL;
  const tvm_tensor *out = valid ? tvm_tensor_arg(&call, 2) : NULL;
  if (!out || !tvm_int_arg(&call, 3, &axis) || !tvm_int_arg(&call, 4, &ascend) ||
      !find_lines(&call, in, axis, &job.lines) || !same_size(&call, out, tvm_size(in)) ||
      !same_size(&call, valid, job.lines.before * job.lines.after))
    return -1;
  if (!tvm_is(valid, TVM_DL_INT, 32) || !tvm_is(out, TVM_DL_INT, 32))
    return gr_fail(GR_ERR_KERNEL, "%s: counts and indices are int32", call.name), -1;
  job.valid = valid, job.indices = out, job.k = job.lines.n, job.ascend = ascend != 0;
  return run_job(&call, &job);
}

/* (data, one or two outputs, k, axis, "both" "values" or "indices", ascending); k below 1: all. */
static int32_t sort_first(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.sort.topk");
  job job = {0};
  int64_t k, axis, ascend;
  const char *wanted;
  const tvm_tensor *in = tvm_tensor_arg(&call, 0);
  if (!in || !tvm_int_arg(&call, num_args - 4, &k) || !tvm_int_arg(&call, num_args - 3, &axis) ||
      !tvm_string_arg(&call, num_args - 2, &wanted) || !tvm_int_arg(&call, num_args - 1, &ascend) ||
      !find_lines(&call, in, axis, &job.lines))
    return -1;
  int values = strcmp(wanted, "indices") != 0, indices = strcmp(wanted, "values") != 0;
  if (values && indices && strcmp(wanted, "both") != 0)
    return gr_fail(GR_ERR_KERNEL, "%s: what is wanted is both, values or indices, not %s", call.name, wanted), -1;
  job.k = k < 1 ? job.lines.n : k, job.ascend = ascend != 0;
  int64_t size = job.lines.before * job.k * job.lines.after;
  if (values && (!(job.values = tvm_tensor_arg(&call, 1)) || !same_size(&call, job.values, size))) return -1;
  if (values && !tvm_is(job.values, in->dtype_code, in->dtype_bits))
    return gr_fail(GR_ERR_KERNEL, "%s: values have another dtype than the input", call.name), -1;
  if (indices && (!(job.indices = tvm_tensor_arg(&call, values ? 2 : 1)) || !same_size(&call, job.indices, size) ||
                  !takes_indices(&call, job.indices)))
    return -1;
  return run_job(&call, &job);
}

__attribute__((constructor)) static void register_sorts(void) {
  gr_tvm_provide("tvm.contrib.sort.sort", sort_values);
  gr_tvm_provide("tvm.contrib.sort.argsort", sort_indices);
  gr_tvm_provide("tvm.contrib.sort.argsort_nms", sort_valid);
  gr_tvm_provide("tvm.contrib.sort.topk", sort_first);
}
