/* public.h: the symbols of this shared object that libraries opened later may use as undefined symbols, once gr_publish
 * (library.h) has made them visible.
 *
 * defines: GR_PUBLIC
 */
#ifndef GR_PUBLIC_H
#define GR_PUBLIC_H

#define GR_PUBLIC __attribute__((visibility("default")))

#endif
