/* entry.h: code that the generated entries of a module library share.
 *
 * Included by: every translation unit that codegen/render.py writes. Thread: any that calls a kernel; after loading nothing
 * here is written except __TVMAPISetLastError, which a TVM runtime sets once when it loads the library.
 *
 * defines: GR_DIRECT, GR_PACKED, gr_packed_arg, gr_packed_spec, gr_packed_run
 */
#ifndef GR_ENTRY_H
#define GR_ENTRY_H

#include <stdio.h>
#include <stdlib.h>
#include "gr_kernel.h"

/* flatten: with every helper of the body inlined, the constant shapes reach all of its loops */
#define GR_DIRECT GR_EXPORT __attribute__((flatten))
/* Begins a packed entry. The entry is exported under the func_name, which may be a keyword of C; so C has another name. */
#define GR_PACKED(name, symbol)                                                             \
  int name(void *args, int *codes, int n, void *ret, int *ret_code, void *resource)         \
      __asm__(symbol) GR_EXPORT;                                                            \
  int name(void *args, int *codes, int n, void *ret, int *ret_code, void *resource)
#define GR_PACKED_UNUSED (void)ret, (void)ret_code, (void)resource

/* Every operator library of TVM has this pointer; the runtime that loads the library stores its own function there. Weak, so
 * that the units of a library share one pointer. */
GR_EXPORT __attribute__((weak)) void (*__TVMAPISetLastError)(const char *message) = NULL;

/* DLTensor of dlpack.h, 48 bytes */
typedef struct gr_dltensor {
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  const int64_t *shape;     /* [ndim] */
  const int64_t *strides;   /* [ndim] in elements, or NULL: compact */
  uint64_t byte_offset;
} gr_dltensor;

_Static_assert(sizeof(gr_dltensor) == 48, "DLTensor's layout is TVM's");

/* The required form of one argument of a packed entry. */
typedef struct gr_packed_arg {
  const int64_t *shape;     /* [ndim] */
  int32_t ndim;
  uint8_t code;             /* DLDataTypeCode */
  uint8_t bits;
  uint8_t itemsize;         /* bytes of an element; the data must be aligned to them */
} gr_packed_arg;

typedef struct gr_packed_spec {
  const char *name;
  gr_kernel_fn direct;
  const gr_packed_arg *args; /* [nargs] */
  int32_t nargs;
  size_t scratch;            /* bytes */
} gr_packed_spec;

static int32_t gr_packed_fail(const char *message)
{
  if (__TVMAPISetLastError != NULL)
    __TVMAPISetLastError(message);
  return -1;
}

/* A check as in TVM's operators, with the same form of text: "Assert fail: <condition>, <what>". */
#define GR_PACKED_ASSERT(ok, ...)                         \
  do {                                                    \
    if (!(ok)) {                                          \
      char message_[512];                                 \
      snprintf(message_, sizeof message_, __VA_ARGS__);   \
      return gr_packed_fail(message_);                    \
    }                                                     \
  } while (0)

static int32_t gr_packed_compact(const gr_dltensor *t)
{
  int64_t expected = 1;
  if (t->strides == NULL)
    return 1;
  for (int32_t i = t->ndim - 1; i >= 0; i--) {
    if (t->shape[i] != 1 && t->strides[i] != expected)
      return 0;
    expected *= t->shape[i];
  }
  return 1;
}

static int32_t gr_packed_check(const char *f, int32_t i, const gr_packed_arg *want, const gr_dltensor *t, int32_t device_id)
{
  int64_t size = 1;
  GR_PACKED_ASSERT(t != NULL, "Assert fail: p%d != NULL, Argument %s.p%d is NULL", i, f, i);
  GR_PACKED_ASSERT(t->ndim == want->ndim, "Assert fail: %d == %d, Argument %s.p%d.ndim is expected to equal %d", want->ndim,
                   t->ndim, f, i, want->ndim);
  GR_PACKED_ASSERT(t->code == want->code && t->bits == want->bits && t->lanes == 1,
                   "Assert fail: code %d bits %d lanes 1 == code %d bits %d lanes %d, Argument %s.p%d.dtype is another",
                   want->code, want->bits, t->code, t->bits, t->lanes, f, i);
  for (int32_t d = 0; d < want->ndim; d++) {
    GR_PACKED_ASSERT(t->shape[d] == want->shape[d],
                     "Assert fail: %lld == %lld, Argument %s.p%d.shape[%d] has an unsatisfied constraint: %lld == %lld",
                     (long long)want->shape[d], (long long)t->shape[d], f, i, d, (long long)want->shape[d],
                     (long long)t->shape[d]);
    size *= want->shape[d];
  }
  GR_PACKED_ASSERT(gr_packed_compact(t), "Assert fail: strides, Argument %s.p%d.strides: expected to be compact array", f, i);
  GR_PACKED_ASSERT(t->byte_offset == 0, "Assert fail: 0 == %llu, Argument %s.p%d.byte_offset has an unsatisfied constraint",
                   (unsigned long long)t->byte_offset, f, i);
  GR_PACKED_ASSERT(t->device_type == 1, "Assert fail: 1 == %d, Argument %s.p%d.device_type has an unsatisfied constraint",
                   t->device_type, f, i);
  GR_PACKED_ASSERT(t->device_id == device_id, "Assert fail: %d == %d, Argument %s.p%d.device_id is another than p0's",
                   device_id, t->device_id, f, i);
  GR_PACKED_ASSERT(size == 0 || (t->data != NULL && (uintptr_t)t->data % want->itemsize == 0),
                   "Assert fail: data, Argument %s.p%d.data is NULL or not aligned to %d bytes", f, i, want->itemsize);
  return 0;
}

/* ---------------------------------------------------------------- the environment of a packed call: one thread */
static int32_t gr_serial_for(const gr_env *env, int64_t n, gr_task task, void *ctx)
{
  (void)env;
  for (int64_t i = 0; i < n; i++) {
    int32_t status = task(ctx, i);
    if (status != GR_OK)
      return status;
  }
  return GR_OK;
}

static int32_t gr_serial_set_error(const gr_env *env, const char *message)
{
  (void)env;
  gr_packed_fail(message);
  return GR_ERR_KERNEL;
}

static const gr_env gr_serial_env = {.abi = GR_ABI_VERSION, .size = sizeof(gr_env), .num_cores = 1,
                                     .parallel_for = gr_serial_for, .set_error = gr_serial_set_error};

/* Calls spec->direct through TVM's packed convention: values are TVMValue [n], codes their type codes.
 * Returns 0, or -1 after a call of __TVMAPISetLastError with the error's text. */
static int32_t gr_packed_run(const gr_packed_spec *spec, gr_arg *args, void *const *values, const int *codes, int n)
{
  const char *f = spec->name;
  void *scratch = NULL;
  GR_PACKED_ASSERT(n == spec->nargs, "Assert fail: (num_args == %d), %s: num_args should be %d, got %d", spec->nargs, f,
                   spec->nargs, n);
  for (int i = 0; i < n; i++) {
    const gr_dltensor *t = values[i];
    /* 3 handle, 4 null, 7 DLTensor, 13 NDArray */
    GR_PACKED_ASSERT(codes[i] == 3 || codes[i] == 4 || codes[i] == 7 || codes[i] == 13,
                     "Assert fail: type code %d, %s: Expect arg[%d] to be pointer", codes[i], f, i);
    int32_t device_id = i > 0 ? ((const gr_dltensor *)values[0])->device_id : t != NULL ? t->device_id : 0;
    if (gr_packed_check(f, i, &spec->args[i], t, device_id) != 0)
      return -1;
    args[i].addr = (uint64_t)(uintptr_t)t->data;
  }
  /* TVM's convention passes no scratch memory, so it is allocated here; the executor calls the direct entry instead. */
  if (spec->scratch > 0 && posix_memalign(&scratch, 64, spec->scratch) != 0)
    return gr_packed_fail("out of memory: the kernel's scratch buffer could not be allocated");
  const gr_call call = {.abi = GR_ABI_VERSION, .nargs = n, .args = args, .scratch = scratch, .env = &gr_serial_env};
  int32_t status = spec->direct(&call);
  free(scratch);
  return status == GR_OK ? 0 : -1;
}

#endif
