/* device_load.c: device kinds of other packages: a shared object whose constructor registers one
 * (GR_REGISTER_DEVICE).
 *
 * Called by graph_runtime/binding/core.py before the first device of such a kind is made (any thread, its own lock).
 * defines: gr_device_load
 */
#include <dlfcn.h>

#include "device.h"
#include "library.h"
#include "status.h"

int32_t gr_device_load(const char *kind, const char *path) {
  if (gr_device_is_kind(kind)) return GR_OK;
  if (!gr_publish()) return gr_fail(GR_ERR_ARGUMENT, "kind %s: %s", kind, gr_dlerror(path));
  if (!gr_dlopen(path, RTLD_NOW | RTLD_LOCAL))       /* stays open: devices hold its functions */
    return gr_fail(GR_ERR_ARGUMENT, "kind %s: %s", kind, gr_dlerror(path));
  if (gr_device_is_kind(kind)) return GR_OK;
  return gr_fail(GR_ERR_ARGUMENT, "%s registers no device kind %s: end it with GR_REGISTER_DEVICE", path, kind);
}
