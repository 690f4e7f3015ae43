/* status.h: this thread's error text.
 *
 * Called by everything in native/, on any thread.
 * defines: gr_fail, gr_kernel_status, gr_error_clear, gr_error_text, GR_ERROR_BYTES
 */
#ifndef GR_STATUS_H
#define GR_STATUS_H

#include "gr_abi.h"
#include "public.h"

#define GR_ERROR_BYTES 2048   /* longest error text, the terminating 0 counted */

/* Records the text, cut to fit, and returns status, so that a check reads `return gr_fail(GR_ERR_...,
 * "...")`. */
GR_PUBLIC int32_t gr_fail(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Forgets the text, so that a later failure without a text of its own does not show an older one. */
void gr_error_clear(void);

/* The status of a kernel's non-zero result, for the caller: GR_ERR_BOUNDS, _OUT_OF_MEMORY and _ARGUMENT keep their
 * meaning, any other value is the kernel's own. Gives it a text if it has none. */
int32_t gr_kernel_status(int32_t status);

/* This thread's text, "" if there is none. */
const char *gr_error_text(void);

#endif
