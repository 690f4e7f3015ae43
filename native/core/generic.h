/* generic.h: the table of kernels built into the wheel. The build writes its definition
 * (codegen/bodies.py, generic_table); gr_generic_* read it.
 *
 * defines: gr_generic_entry, gr_generic_entries, gr_generic_entry_count
 */
#ifndef GR_GENERIC_H
#define GR_GENERIC_H

#include "gr_abi.h"

typedef struct gr_generic_entry {
  const char *name;      /* "cpu/softmax/f32", "tt/softmax" */
  gr_kernel_fn fn;       /* for any machine */
  gr_kernel_fn avx2;     /* the same body compiled for AVX2, FMA, F16C, BMI; NULL: none */
} gr_generic_entry;

extern const gr_generic_entry gr_generic_entries[];   /* [gr_generic_entry_count] */
extern const int32_t gr_generic_entry_count;

#endif
