/* public.h: what libraries that are opened later may use of this shared object, as undefined symbols of theirs,
 * once gr_publish (library.h) has made it visible.
 *
 * defines: GR_PUBLIC
 */
#ifndef GR_PUBLIC_H
#define GR_PUBLIC_H

#define GR_PUBLIC __attribute__((visibility("default")))

#endif
