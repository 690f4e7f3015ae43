/* kernels.c: the kernels built into the wheel, by number and name, and the one that does nothing.
 *
 * Called by graph_runtime/binding/core.py.
 * defines: gr_generic_count, gr_generic_name, gr_generic_fn, gr_generic_plain_fn, gr_null_kernel_fn
 */
#include "generic.h"
#include "gr_core.h"

int32_t gr_generic_count(void) { return gr_generic_entry_count; }

static int known(int32_t i) { return i >= 0 && i < gr_generic_entry_count; }

const char *gr_generic_name(int32_t i) { return known(i) ? gr_generic_entries[i].name : NULL; }

gr_kernel_fn gr_generic_plain_fn(int32_t i) { return known(i) ? gr_generic_entries[i].fn : NULL; }

static int has_avx2(void) {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
  return 0;
#endif
}

gr_kernel_fn gr_generic_fn(int32_t i) {
  return known(i) && gr_generic_entries[i].avx2 && has_avx2() ? gr_generic_entries[i].avx2 : gr_generic_plain_fn(i);
}

static int32_t null_kernel(const gr_call *call) {
  (void)call;
  return GR_OK;
}

gr_kernel_fn gr_null_kernel_fn(void) { return null_kernel; }
