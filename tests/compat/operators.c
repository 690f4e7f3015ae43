/* operators.c: a library as TVM's compilers would have made it, for tests. Written against the binary interface only.
 *
 * Flavours: -DLLVM   services through weak pointer variables that the loader fills in, operators check their arguments
 *           -DCTARGET services as plain undefined externs, no checks
 *           -DSYSTEM  as CTARGET, and a constructor registers every function
 *           -DOLD     (with LLVM) three-parameter functions, as releases before 0.7 made them
 *           -DHALVES an entry function that converts float16 by functions of the runtime
 *           -DABSENT an operator that calls a function that is nowhere
 *           -DFIVE    (with LLVM) five-parameter functions, as between January and July 2020
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct { void *data; int32_t device_type, device_id; int32_t ndim; uint8_t code, bits; uint16_t lanes;
                 int64_t *shape, *strides; uint64_t byte_offset; } tensor;
typedef union { int64_t i; double f; void *p; const char *s; } value;
typedef struct { void *sync; int32_t num_task; } group;
typedef int (*lambda)(int, group *, void *);

#define WEAK __attribute__((weak, visibility("default")))
#define API __attribute__((visibility("default")))

#ifdef LLVM
WEAK int (*__TVMFuncCall)(void *, value *, int *, int, value *, int *);
WEAK void (*__TVMAPISetLastError)(const char *);
WEAK int (*__TVMBackendGetFuncFromEnv)(void *, const char *, void **);
WEAK void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);
WEAK int (*__TVMBackendFreeWorkspace)(int, int, void *);
WEAK int (*__TVMBackendParallelLaunch)(lambda, void *, int);
WEAK int (*__TVMBackendParallelBarrier)(int, group *);
#define TVMFuncCall __TVMFuncCall
#define TVMAPISetLastError __TVMAPISetLastError
#define TVMBackendGetFuncFromEnv __TVMBackendGetFuncFromEnv
#define TVMBackendAllocWorkspace __TVMBackendAllocWorkspace
#define TVMBackendFreeWorkspace __TVMBackendFreeWorkspace
#define TVMBackendParallelLaunch __TVMBackendParallelLaunch
#define TVMBackendParallelBarrier __TVMBackendParallelBarrier
#else
extern int TVMFuncCall(void *, value *, int *, int, value *, int *);
extern void TVMAPISetLastError(const char *);
extern int TVMBackendGetFuncFromEnv(void *, const char *, void **);
extern void *TVMBackendAllocWorkspace(int, int, uint64_t, int, int);
extern int TVMBackendFreeWorkspace(int, int, void *);
extern int TVMBackendParallelLaunch(lambda, void *, int);
extern int TVMBackendParallelBarrier(int, group *);
extern int TVMBackendRegisterSystemLibSymbol(const char *, void *);
#endif
WEAK void *__tvm_module_ctx = NULL;

#ifdef OLD
#define PARAMS value *args, int *codes, int num_args
#elif defined FIVE
#define PARAMS value *args, int *codes, int num_args, value *ret, int *ret_code
#else
#define PARAMS value *args, int *codes, int num_args, value *ret, int *ret_code, void *resource
#endif
#define OPERATOR(name) API int name(PARAMS); API int name(PARAMS)
#define T(i) ((tensor *)args[i].p)
#define F(i) ((float *)T(i)->data)

static int fail(const char *text) { TVMAPISetLastError(text); return -1; }

/* What an LLVM operator asserts of one argument; want lists the dims, ended by -1. */
static int check(const char *f, value *args, int *codes, int i, const int64_t *want) {
#ifdef LLVM
  char text[256];
  tensor *t = T(i);
  if (codes[i] != 3 && codes[i] != 4 && codes[i] != 7 && codes[i] != 13) {
    snprintf(text, sizeof text, "Assert fail: ((((%d == 3) || (%d == 13)) || (%d == 7)) || (%d == 4)), %s: Expect arg[%d] to be pointer",
             codes[i], codes[i], codes[i], codes[i], f, i);
    return fail(text);
  }
  for (int d = 0; want[d] >= 0; ++d)
    if (d >= t->ndim || t->shape[d] != want[d]) {
      snprintf(text, sizeof text, "Assert fail: (%lld == T.Cast(\"int32\", %s_p%d_shape[%d])), Argument %s.p%d.shape[%d] has an "
               "unsatisfied constraint: %lld == T.Cast(\"int32\", %s_p%d_shape[%d])", (long long)want[d], f, i, d, f, i, d,
               (long long)want[d], f, i, d);
      return fail(text);
    }
  if (t->code != 2 || t->bits != 32 || t->lanes != 1) return fail("Assert fail: dtype is expected to be float32");
  if (t->strides) return fail("Assert fail: expected to be compact array");
  if (t->byte_offset) return fail("Assert fail: (T.uint64(0) == byte_offset), byte_offset has an unsatisfied constraint");
  if (t->device_type != 1) return fail("Assert fail: (1 == device_type), device_type has an unsatisfied constraint");
  if (t->device_id != T(0)->device_id) return fail("Assert fail: device_id has an unsatisfied constraint");
#else
  (void)f, (void)args, (void)codes, (void)i, (void)want;
#endif
  return 0;
}
#define DIMS(...) ((const int64_t[]){__VA_ARGS__, -1})
#define CHECK(i, ...) do { int rc = check(__func__, args, codes, i, DIMS(__VA_ARGS__)); if (rc) return rc; } while (0)
#define NUM_ARGS(n) do { if (num_args != (n)) return fail("Assert fail: num_args should be " #n); } while (0)

/* y[1, no*ni] = x[1, k] by w[no, k, ni] */
static void dense_pack(const float *x, const float *w, float *y, int no, int k, int ni) {
  for (int o = 0; o < no; ++o)
    for (int n = 0; n < ni; ++n) {
      float sum = 0;
      for (int j = 0; j < k; ++j) sum += x[j] * w[((int64_t)o * k + j) * ni + n];
      y[o * ni + n] = sum;
    }
}
static void add_relu(const float *b, float *y, int n, int relu) {
  for (int i = 0; i < n; ++i) { y[i] += b[i]; if (relu && y[i] < 0) y[i] = 0; }
}

/* ---------------------------------------------------------------- mlp */
#ifdef LLVM
enum { INNER = 16, LAST_OUTER = 1, LAST_INNER = 10 };
#else
enum { INNER = 8, LAST_OUTER = 2, LAST_INNER = 5 };
#endif
OPERATOR(tvmgen_default_fused_nn_contrib_dense_pack_add_nn_relu) {
  NUM_ARGS(4); CHECK(0, 1, 784); CHECK(1, 128 / INNER, 784, INNER); CHECK(2, 1, 128); CHECK(3, 1, 128);
  dense_pack(F(0), F(1), F(3), 128 / INNER, 784, INNER);
  add_relu(F(2), F(3), 128, 1);
  return 0;
}
OPERATOR(tvmgen_default_fused_nn_contrib_dense_pack_add_nn_relu_1) {
  NUM_ARGS(4); CHECK(0, 1, 128); CHECK(1, 64 / INNER, 128, INNER); CHECK(2, 1, 64); CHECK(3, 1, 64);
  dense_pack(F(0), F(1), F(3), 64 / INNER, 128, INNER);
  add_relu(F(2), F(3), 64, 1);
  return 0;
}
OPERATOR(tvmgen_default_fused_nn_contrib_dense_pack_add) {
  NUM_ARGS(4); CHECK(0, 1, 64); CHECK(1, LAST_OUTER, 64, LAST_INNER); CHECK(2, 1, 10); CHECK(3, 1, 10);
  dense_pack(F(0), F(1), F(3), LAST_OUTER, 64, LAST_INNER);
  add_relu(F(2), F(3), 10, 0);
  return 0;
}
OPERATOR(tvmgen_default_fused_nn_softmax) {
  NUM_ARGS(2); CHECK(0, 1, 10); CHECK(1, 1, 10);
  float *x = F(0), *y = F(1), most = x[0], sum = 0;
  for (int i = 1; i < 10; ++i) most = x[i] > most ? x[i] : most;
  for (int i = 0; i < 10; ++i) sum += y[i] = expf(x[i] - most);
  for (int i = 0; i < 10; ++i) y[i] /= sum;
  return 0;
}

/* ---------------------------------------------------------------- hetero_cpu_cpu; parallel, as LLVM's loops are */
typedef struct { float *x, *w, *y; } dense_job;
static int dense_lambda(int task, group *env, void *cdata) {
  dense_job *job = cdata;
  int step = (4 + env->num_task - 1) / env->num_task;
  for (int o = task * step; o < (task + 1) * step && o < 4; ++o)
    dense_pack(job->x, job->w + o * 64 * 16, job->y + o * 16, 1, 64, 16);
  return 0;
}
static int dense64(value *args, int out) {
  dense_job job = {F(0), F(1), F(out)};
  return TVMBackendParallelLaunch(dense_lambda, &job, 0);
}
OPERATOR(tvmgen_default_fused_nn_contrib_dense_pack_nn_relu) {
  NUM_ARGS(3); CHECK(0, 1, 64); CHECK(1, 4, 64, 16); CHECK(2, 1, 64);
  if (dense64(args, 2)) return -1;
  for (int i = 0; i < 64; ++i) if (F(2)[i] < 0) F(2)[i] = 0;
  return 0;
}
OPERATOR(tvmgen_default_fused_nn_contrib_dense_pack_tanh_multiply) {
  NUM_ARGS(3); CHECK(0, 1, 64); CHECK(1, 4, 64, 16); CHECK(2, 1, 64);
  if (dense64(args, 2)) return -1;
  for (int i = 0; i < 64; ++i) F(2)[i] = tanhf(F(2)[i]) * 0.5f;
  return 0;
}
OPERATOR(tvmgen_default_fused_nn_contrib_dense_pack_sigmoid_add) {
  NUM_ARGS(4); CHECK(0, 1, 64); CHECK(1, 4, 64, 16); CHECK(2, 1, 64); CHECK(3, 1, 64);
  if (dense64(args, 3)) return -1;
  for (int i = 0; i < 64; ++i) F(3)[i] = 1 / (1 + expf(-F(3)[i])) + F(2)[i];
  return 0;
}
OPERATOR(tvmgen_default_fused_nn_contrib_dense_pack) {
  NUM_ARGS(3); CHECK(0, 1, 64); CHECK(1, 4, 64, 16); CHECK(2, 1, 64);
  return dense64(args, 2);
}
OPERATOR(tvmgen_default_fused_add) {
  NUM_ARGS(3); CHECK(0, 1, 64); CHECK(1, 1, 64); CHECK(2, 1, 64);
  for (int i = 0; i < 64; ++i) F(2)[i] = F(0)[i] + F(1)[i];
  return 0;
}

/* ---------------------------------------------------------------- one service each: (x[n]) -> y[n] */
OPERATOR(myadd) {
  for (int64_t i = 0; i < T(1)->shape[0]; ++i) F(1)[i] = F(0)[i] + 1;
  return 0;
}
OPERATOR(always_fails) { return fail("this operator always fails"); }
OPERATOR(fails_silently) { return -1; }

/* y = x + 1 through a workspace */
OPERATOR(uses_workspace) {
  uint64_t bytes = (uint64_t)T(0)->shape[0] * 4;
  float *outer = TVMBackendAllocWorkspace(1, 0, bytes, 2, 32), *inner = TVMBackendAllocWorkspace(1, 0, 0, 2, 32);
  if (!outer || !inner || outer == inner || ((uintptr_t)outer | (uintptr_t)inner) & 63) return fail("bad workspace");
  memcpy(outer, F(0), bytes);
  for (int64_t i = 0; i < T(1)->shape[0]; ++i) F(1)[i] = outer[i] + 1;
  if (TVMBackendFreeWorkspace(1, 0, inner) || TVMBackendFreeWorkspace(1, 0, outer)) return fail("workspace not freed");
  return 0;
}

/* y[i] = sum(x): every task sums its share, a barrier, then every task writes its share of y */
typedef struct { float *x, *y; int64_t n; float part[256]; int used; } barrier_job;
static int barrier_lambda(int task, group *env, void *cdata) {
  barrier_job *job = cdata;
  int64_t step = (job->n + env->num_task - 1) / env->num_task, from = task * step, to = from + step < job->n ? from + step : job->n;
  job->part[task] = 0;
  for (int64_t i = from; i < to; ++i) job->part[task] += job->x[i];
  for (int round = 0; round < 3; ++round) if (TVMBackendParallelBarrier(task, env)) return -1;
  float sum = 0;
  for (int i = 0; i < env->num_task; ++i) sum += job->part[i];
  for (int64_t i = from; i < to; ++i) job->y[i] = sum;
  if (task == 0) job->used = env->num_task;
  return 0;
}
OPERATOR(uses_barrier) {
  barrier_job job = {.x = F(0), .y = F(1), .n = T(0)->shape[0]};
  return TVMBackendParallelLaunch(barrier_lambda, &job, 0);
}
/* the task with the highest number fails before the barrier that the others wait in */
static int failing_lambda(int task, group *env, void *cdata) {
  (void)cdata;
  if (task == env->num_task - 1) return fail("the last task gives up");
  return TVMBackendParallelBarrier(task, env);
}
OPERATOR(fails_in_parallel) { return TVMBackendParallelLaunch(failing_lambda, NULL, 0); }
static int nested_lambda(int task, group *env, void *cdata) {
  (void)task, (void)env;
  barrier_job *job = cdata;
  return TVMBackendParallelLaunch(barrier_lambda, job, 0);
}
OPERATOR(launches_nested) {
  barrier_job job = {.x = F(0), .y = F(1), .n = T(0)->shape[0]};
  return TVMBackendParallelLaunch(nested_lambda, &job, 0);
}
/* y[0] = the number of tasks a launch with num_task = 0 gets */
static int count_lambda(int task, group *env, void *cdata) { if (!task) *(float *)cdata = (float)env->num_task; return 0; }
OPERATOR(counts_tasks) { return TVMBackendParallelLaunch(count_lambda, F(1), 0); }

/* for benchmarks: a parallel loop that does nothing, and none */
static int empty_lambda(int task, group *env, void *cdata) { (void)task, (void)env, (void)cdata; return 0; }
OPERATOR(empty_loop) { return TVMBackendParallelLaunch(empty_lambda, NULL, 0); }
OPERATOR(no_loop) { return 0; }

/* calls "imported_add" by name, caching the handle in a static as generated code does */
OPERATOR(calls_packed) {
  static void *handle;
  if (!handle && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "imported_add", &handle)) return -1;
  value out; int code;
  return TVMFuncCall(handle, args, codes, num_args, &out, &code);
}
/* __tvm_set_device(1, 0) as device code does before a launch */
OPERATOR(sets_device) {
  void *handle; value a[2] = {{.i = 1}, {.i = 0}}, out; int c[2] = {0, 0}, code;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "__tvm_set_device", &handle)) return -1;
  if (TVMFuncCall(handle, a, c, 2, &out, &code)) return -1;
  memcpy(F(1), F(0), (size_t)T(0)->shape[0] * 4);
  return 0;
}
/* y = x * a + b of scalars, and returns their sum */
OPERATOR(scales) {
  if (num_args != 4 || codes[2] != 0 || codes[3] != 2) return -1;
  for (int64_t i = 0; i < T(1)->shape[0]; ++i) F(1)[i] = F(0)[i] * (float)args[2].i + (float)args[3].f;
#if !defined(OLD)
  ret->f = (double)args[2].i + args[3].f;
  *ret_code = 2;
#endif
  return 0;
}
/* the runtime's sort and a function of the user's, by name */
OPERATOR(argsorts) {
  static void *handle;
  value a[4] = {args[0], args[1], {.i = -1}, {.i = 0}}, out; int c[4] = {7, 7, 0, 0}, code;
  if (!handle && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "tvm.contrib.sort.argsort", &handle)) return -1;
  return TVMFuncCall(handle, a, c, 4, &out, &code);
}
#ifdef ASKS
OPERATOR(asks_user) {
  static void *handle;
  if (!handle && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "tvm.contrib.cudnn.tests.double", &handle)) return -1;
  value out; int code;
  return TVMFuncCall(handle, args, codes, num_args, &out, &code);
}
#endif
#ifdef HALVES                        /* what LLVM makes of casts where the target has no F16C; __tvm_main__ names the entry */
extern uint16_t __gnu_f2h_ieee(float);
extern float __gnu_h2f_ieee(uint16_t);
WEAK const char __tvm_main__[] = "to_half_and_back";
OPERATOR(to_half_and_back) {
  for (int64_t i = 0; i < T(0)->shape[0]; ++i) {
    ((uint16_t *)T(1)->data)[i] = __gnu_f2h_ieee(F(0)[i]);
    F(2)[i] = __gnu_h2f_ieee(((uint16_t *)T(1)->data)[i]);
  }
  return 0;
}
#endif

#ifdef ABSENT
extern int a_function_of_another_library(int);
OPERATOR(asks_another) { return a_function_of_another_library(num_args); }
#endif

#ifdef IMPORTED
OPERATOR(imported_add) {
  for (int64_t i = 0; i < T(1)->shape[0]; ++i) F(1)[i] = F(0)[i] + 10;
  return 0;
}
#endif

#ifdef SYSTEM
__attribute__((constructor)) static void register_all(void) {
  TVMBackendRegisterSystemLibSymbol("system_add", (void *)myadd);
  TVMBackendRegisterSystemLibSymbol("__tvm_module_ctx", &__tvm_module_ctx);
}
#endif
#ifdef BLOB
/* -DBLOB='"file"': the import blob, brought in as an object of its own */
__asm__(".section .rodata\n.globl __tvm_dev_mblob\n.type __tvm_dev_mblob, @object\n.balign 16\n__tvm_dev_mblob:\n.incbin " BLOB "\n"
        ".size __tvm_dev_mblob, . - __tvm_dev_mblob\n.previous\n");
#endif
