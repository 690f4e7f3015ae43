/* threadpool.c: how TVM's scripts size the pool of parallel loops.
 *
 * Called by operators and scripts (TVMFuncCall), on any thread.
 * defines: runtime.config_threadpool
 */
#include "arguments.h"
#include "gr_core.h"
#include "tvm_backend.h"

/* (affinity mode, threads): how many threads loops get; 0 and less: as many as there are. Threads are not bound. */
static int32_t config_threadpool(TVM_PARAMETERS) {
  TVM_CALL("runtime.config_threadpool");
  int64_t threads;
  if (!tvm_int_arg(&call, 1, &threads)) return -1;
  if (threads <= 0) return 0;
  return gr_pool_set_threads((int32_t)(threads < 256 ? threads : 256)) ? -1 : 0;
}

__attribute__((constructor)) static void register_pool(void) {
  gr_tvm_provide("runtime.config_threadpool", config_threadpool);
}
