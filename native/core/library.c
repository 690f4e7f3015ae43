/* library.c: opens libraries of kernels. A library is code: graph_runtime/library.py judges its manifest
 * before it calls this.
 *
 * defines: gr_library_open, gr_library_symbol, gr_library_close
 */
#include <dlfcn.h>

#include "gr_core.h"
#include "status.h"

int32_t gr_library_open(const char *path, void **handle) {
  *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (*handle) return GR_OK;
  const char *why = dlerror();
  return gr_fail(GR_ERR_ARGUMENT, "cannot open library %s: %s", path, why ? why : "no reason given");
}

void *gr_library_symbol(void *handle, const char *name) { return handle ? dlsym(handle, name) : NULL; }

void gr_library_close(void *handle) {
  if (handle) dlclose(handle);
}
