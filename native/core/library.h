/* library.h: opening shared objects.
 *
 * defines: gr_dlopen
 */
#ifndef GR_LIBRARY_H
#define GR_LIBRARY_H

/* dlopen, but what stands at path now, also where another file of that path is open already. */
void *gr_dlopen(const char *path, int flags);

#endif
