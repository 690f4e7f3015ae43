/* gr_program.h: a lowered program as the executor walks it. graph_runtime/binding/programs/program.py has the same records
 * as numpy dtypes; Python owns the arrays and keeps them alive as long as the gr_program.
 *
 * defines: gr_instr
 */
#ifndef GR_PROGRAM_H
#define GR_PROGRAM_H

#include "gr_abi.h"

/* cdef-begin */
typedef struct gr_instr {
  gr_kernel_fn fn;
  gr_call call;
} gr_instr;

/* attrs of a gr_copy_kernel instruction point to one of these. */
typedef struct gr_copy_envs {
  const gr_env *src;
  const gr_env *dst;
} gr_copy_envs;

/* attrs of a gr_packed_kernel instruction point to one of these: a function of TVM's packed ABI and its arguments, made
 * once. values are TVMValue (8 bytes), each pointing to a DLTensor; codes are all 7 (kTVMDLTensorHandle). */
typedef struct gr_packed_call {
  void *fn;
  void *values;            /* [nargs] */
  int32_t *codes;          /* [nargs] */
  int32_t nargs;
  int32_t reserved;
} gr_packed_call;
/* cdef-end */

_Static_assert(sizeof(gr_instr) == 48, "gr_instr is shared with graph_runtime/binding/programs/program.py");

#endif
