/* status.c: this thread's error text. Each thread has its own buffer, so no lock is needed and a text
 * stays valid until the thread's next failing call.
 *
 * defines: gr_fail, gr_kernel_status, gr_error_clear, gr_error_text, gr_last_error, gr_last_status,
 * gr_abi_version
 */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

#include "gr_async.h"

static _Thread_local char text[GR_ERROR_BYTES];
static _Thread_local int32_t last_status;

int32_t gr_fail(int32_t status, const char *format, ...) {
  /* an argument may point into the buffer itself (a kernel passing on gr_last_error) */
  char fresh[GR_ERROR_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(fresh, sizeof fresh, format, args);
  va_end(args);
  __builtin_memcpy(text, fresh, sizeof text);
  last_status = status;
  return status;
}

int32_t gr_kernel_status(int32_t status) {
  if (!*gr_error_text()) gr_fail(status, "the kernel returned %d and gave no text", status);
  return status == GR_ERR_BOUNDS || status == GR_ERR_OUT_OF_MEMORY || status == GR_ERR_ARGUMENT ||
                 status == GR_ERR_REFUSED
             ? status
             : GR_ERR_KERNEL;
}

void gr_error_clear(void) { text[0] = 0; }

const char *gr_error_text(void) { return text; }

const char *gr_last_error(void) { return text; }

int32_t gr_last_status(void) { return last_status; }

int32_t gr_abi_version(void) { return GR_ABI_VERSION; }
