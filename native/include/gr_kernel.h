/* gr_kernel.h: the beginning of a handwritten kernel: its entry, and its arguments.
 *
 *     #include "gr_kernel.h"
 *
 *     // gr-kernel: addone : f32[n] -> f32[n]
 *     GR_KERNEL(addone) { ... return GR_OK; }
 *
 * Included by: kernel sources that `graph-runtime kernel` compiles (docs/kernels.md), and by kernels/cpu/common.h. C11,
 * and C++11 or later. Runs on: whichever thread executes the kernel.
 *
 * defines: GR_EXPORT, GR_KERNEL, GR_KERNEL_ON, GR_INLINE, gr_ptr, gr_word, gr_span, gr_size, gr_refuse
 */
#ifndef GR_KERNEL_H
#define GR_KERNEL_H

#include <string.h>

#include "gr_abi.h"

#ifdef __cplusplus
#define GR_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define GR_EXPORT __attribute__((visibility("default")))
#endif
/* Begins the kernel NAME for cpu; for another kind of device. */
#define GR_KERNEL(name) GR_ENTRY_(name##__direct)
#define GR_KERNEL_ON(kind, name) GR_ENTRY_(name##__##kind##__direct)
#define GR_ENTRY_(symbol)                          \
  GR_EXPORT int32_t symbol(const gr_call *call);   \
  int32_t symbol(const gr_call *call)

#define GR_INLINE static inline __attribute__((always_inline))

/* The elements of a host tensor, in row-major order. */
GR_INLINE void *gr_ptr(const gr_arg *arg) { return (void *)(uintptr_t)arg->addr; }

/* A double attribute word. */
GR_INLINE double gr_word(int64_t word) {
  double value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* Product of shape[first .. last-1]. */
GR_INLINE int64_t gr_span(const gr_arg *arg, int32_t first, int32_t last) {
  int64_t n = 1;
  for (int32_t d = first; d < last; d++) n *= arg->shape[d];
  return n;
}

/* The number of elements. */
GR_INLINE int64_t gr_size(const gr_arg *arg) { return gr_span(arg, 0, arg->ndim); }

/* For a refusal before the first write to an output: the result says that it kept its contents. */
static inline int32_t gr_refuse(const gr_call *call, const char *text) {
  call->env->set_error(call->env, text);
  return GR_ERR_REFUSED;
}

#endif
