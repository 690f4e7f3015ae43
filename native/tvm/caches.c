/* caches.c: what TVM's timing takes out of the processor's caches before it measures.
 *
 * Called by scripts (TVMFuncCall), on any thread.
 * defines: cache_flush_cpu_non_first_arg
 */
#include "arguments.h"
#include "tvm_backend.h"

#define LINE 64

static void flush_line(const char *at) {
#if defined(__x86_64__)
  __builtin_ia32_clflush(at);
#elif defined(__aarch64__)
  __asm__ volatile("dc civac, %0" : : "r"(at) : "memory");
#else
  (void)at;
#endif
}

/* (first, tensors ...): the memory of all but the first argument leaves the caches. */
static int32_t flush_others(TVM_PARAMETERS) {
  TVM_CALL("cache_flush_cpu_non_first_arg");
  for (int32_t i = 1; i < num_args; ++i) {
    tvm_tensor *t = tvm_tensor_arg(&call, i);
    if (!t) return -1;
    const char *data = tvm_data(t);
    int64_t bytes = tvm_size(t) * ((t->dtype_bits * t->dtype_lanes + 7) / 8);
    for (int64_t at = 0; at < bytes; at += LINE) flush_line(data + at);
  }
  return 0;
}

__attribute__((constructor)) static void register_caches(void) {
  gr_tvm_provide("cache_flush_cpu_non_first_arg", flush_others);
}
