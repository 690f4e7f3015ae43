/* arguments.c: arguments of the runtime's own packed functions.
 *
 * Called by sort.c, random.c and products.c, on any thread.
 * defines: tvm_tensor_arg, tvm_int_arg, tvm_float_arg, tvm_string_arg
 */
#include "arguments.h"

static int fail(const tvm_call *call, int32_t i, const char *what) {
  if (i < 0 || i >= call->count) gr_fail(GR_ERR_KERNEL, "%s: of %d arguments %s is missing", call->name, call->count, what);
  else gr_fail(GR_ERR_KERNEL, "%s: argument %d (type code %d) is not %s", call->name, i, call->codes[i], what);
  return 0;
}

static int32_t code_of(const tvm_call *call, int32_t i) { return i >= 0 && i < call->count ? call->codes[i] : -1; }

static int is_compact(const tvm_tensor *t) {
  int64_t stride = 1;
  for (int32_t d = t->ndim - 1; t->strides && d >= 0; --d) {
    if (t->shape[d] > 1 && t->strides[d] != stride) return 0;
    stride *= t->shape[d];
  }
  return 1;
}

tvm_tensor *tvm_tensor_arg(const tvm_call *call, int32_t i) {
  int32_t code = code_of(call, i);
  if (code != TVM_TENSOR && code != TVM_ARRAY_HANDLE && code != TVM_HANDLE) return fail(call, i, "a tensor"), NULL;
  tvm_tensor *t = call->args[i].handle;
  if (!t || (t->device_type != 1 && t->device_type != 3)) return fail(call, i, "a tensor on the host"), NULL;
  if (!is_compact(t)) return fail(call, i, "a compact tensor"), NULL;
  return t;
}

int tvm_int_arg(const tvm_call *call, int32_t i, int64_t *out) {
  if (code_of(call, i) != TVM_INT) return fail(call, i, "an integer");
  *out = call->args[i].i;
  return 1;
}

int tvm_float_arg(const tvm_call *call, int32_t i, double *out) {
  int32_t code = code_of(call, i);
  if (code != TVM_INT && code != TVM_FLOAT) return fail(call, i, "a number");
  *out = code == TVM_INT ? (double)call->args[i].i : call->args[i].f;
  return 1;
}

int tvm_string_arg(const tvm_call *call, int32_t i, const char **out) {
  if (code_of(call, i) != TVM_STRING) return fail(call, i, "a string");
  *out = call->args[i].string;
  return 1;
}
