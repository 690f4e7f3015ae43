/* tvm_backend.h: the services that operators of TVM-made libraries call. LLVM-target libraries reach them
 * through pointer variables (__TVMFuncCall ...) that the loader fills in, C-target and system libraries as
 * plain externs, so they have default visibility and the loader makes _core's symbols global before it
 * opens such a library.
 *
 * defines: gr_tvm_provide, TVMFuncCall, TVMAPISetLastError, TVMGetLastError, TVMBackend*
 */
#ifndef GR_TVM_BACKEND_H
#define GR_TVM_BACKEND_H

#include "public.h"
#include "tvm_abi.h"

GR_PUBLIC int32_t TVMFuncCall(void *func, tvm_value *args, int32_t *codes, int32_t num_args, tvm_value *ret,
                              int32_t *ret_code);
GR_PUBLIC void TVMAPISetLastError(const char *message);
GR_PUBLIC const char *TVMGetLastError(void);
GR_PUBLIC int32_t TVMBackendGetFuncFromEnv(void *module_ctx, const char *name, void **func);
GR_PUBLIC void *TVMBackendAllocWorkspace(int32_t device_type, int32_t device_id, uint64_t nbytes,
                                         int32_t dtype_code, int32_t dtype_bits);
GR_PUBLIC int32_t TVMBackendFreeWorkspace(int32_t device_type, int32_t device_id, void *data);
GR_PUBLIC int32_t TVMBackendParallelLaunch(tvm_parallel_lambda lambda, void *cdata, int32_t num_task);
GR_PUBLIC int32_t TVMBackendParallelBarrier(int32_t task, tvm_parallel_env *env);
GR_PUBLIC int32_t TVMBackendRegisterSystemLibSymbol(const char *name, void *symbol);

/* A packed function of the runtime's own, while the library is loaded (no lock, no other thread). */
void gr_tvm_provide(const char *name, tvm_packed_fn fn);

#endif
