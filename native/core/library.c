/* library.c: opens libraries of kernels. A library is code: graph_runtime/run/library.py judges its manifest
 * before it calls this.
 *
 * glibc takes a path that is spelled like that of an open library for that library, before it looks at the
 * file: one that was replaced (compiled anew to the same place) would give the old code under the new
 * manifest. So every open spells its path in a way of its own; the same file is still known by its inode.
 *
 * defines: gr_dlopen, gr_dlerror, gr_publish, gr_library_open, gr_library_symbol, gr_library_close
 */
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gr_core.h"
#include "status.h"

#define SPELLING_BITS 32

void *gr_dlopen(const char *path, int flags) {
  static _Atomic uint32_t opened;
  if (path[0] != '/') return dlopen(path, flags);
  uint32_t number = atomic_fetch_add_explicit(&opened, 1, memory_order_relaxed);
  char *spelled = malloc(2 * SPELLING_BITS + strlen(path) + 1);
  if (!spelled) return dlopen(path, flags);
  char *at = spelled;
  for (int bit = 0; bit < SPELLING_BITS; ++bit) {     /* "/." for a one, "/" for a zero: all of it means the root */
    *at++ = '/';
    if (number >> bit & 1) *at++ = '.';
  }
  strcpy(at, path);
  void *handle = dlopen(spelled, flags);
  free(spelled);
  return handle;
}

const char *gr_dlerror(const char *path) {
  const char *why = dlerror();
  if (!why) return "no reason given";
  const char *spelled = strstr(why, path);            /* the linker begins with the path as it was spelled for it */
  return spelled ? spelled : why;
}

int gr_publish(void) {
  Dl_info info;
  return dladdr((void *)gr_publish, &info) && dlopen(info.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
}

int32_t gr_library_open(const char *path, void **handle) {
  *handle = gr_dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (*handle) return GR_OK;
  return gr_fail(GR_ERR_ARGUMENT, "cannot open library %s: %s", path, gr_dlerror(path));
}

void *gr_library_symbol(void *handle, const char *name) { return handle ? dlsym(handle, name) : NULL; }

void gr_library_close(void *handle) {
  if (handle) dlclose(handle);
}
