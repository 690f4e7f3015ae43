/* blas.c: opens OpenBLAS, which serves a few kernels where the user installed it and asks for them.
 *
 * It stays open to the end of the process and is told to use one thread: products are spread over our own pool,
 * whose threads call it side by side. Called by graph_runtime/binding/core.py; gr_blas_sgemm by kernels, on any thread.
 *
 * defines: gr_blas_open, gr_blas_sgemm
 */
#include "gr_blas.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

#include "gr_core.h"
#include "library.h"
#include "status.h"

typedef void (*set_threads_fn)(int32_t count);

static _Atomic(gr_sgemm_fn) sgemm;

int32_t gr_blas_open(const char *path, const char *prefix) {
  if (atomic_load(&sgemm)) return GR_OK;
  char name[2][64];
  if (snprintf(name[0], sizeof name[0], "%scblas_sgemm", prefix) >= (int)sizeof name[0] ||
      snprintf(name[1], sizeof name[1], "%sopenblas_set_num_threads", prefix) >= (int)sizeof name[1])
    return gr_fail(GR_ERR_ARGUMENT, "a prefix of symbols is shorter than %s", prefix);
  void *handle = gr_dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return gr_fail(GR_ERR_ARGUMENT, "cannot open library %s: %s", path, gr_dlerror(path));
  gr_sgemm_fn found = (gr_sgemm_fn)(uintptr_t)dlsym(handle, name[0]);
  set_threads_fn set_threads = (set_threads_fn)(uintptr_t)dlsym(handle, name[1]);
  if (!found || !set_threads) {
    dlclose(handle);
    return gr_fail(GR_ERR_ARGUMENT, "library %s has no function %s", path, found ? name[1] : name[0]);
  }
  set_threads(1);
  atomic_store(&sgemm, found);
  return GR_OK;
}

gr_sgemm_fn gr_blas_sgemm(void) { return atomic_load(&sgemm); }
