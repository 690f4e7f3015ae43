/* library.h: opening shared objects.
 *
 * defines: gr_dlopen, gr_dlerror, gr_publish
 */
#ifndef GR_LIBRARY_H
#define GR_LIBRARY_H

/* dlopen of the file that is at path now, even if another file of that path is already open. */
void *gr_dlopen(const char *path, int flags);

/* Why gr_dlopen(path) failed, for people; valid until this thread's next call of the linker. */
const char *gr_dlerror(const char *path);

/* Makes all that is GR_PUBLIC visible to libraries that are opened later: Python opens extension modules
 * RTLD_LOCAL, and opening the same file again with RTLD_GLOBAL promotes it. 0: it cannot, dlerror says why. */
int gr_publish(void);

#endif
