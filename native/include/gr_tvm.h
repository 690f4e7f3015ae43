/* gr_tvm.h: loading of libraries that TVM 0.5 to 0.20 compiled. Python reads the records of an import blob
 * (graph_runtime/compat/tvm_files/blob.py); this part needs addresses: context pointers, functions, imports.
 *
 * defines: the gr_tvm_* functions of graph_runtime._core
 */
#ifndef GR_TVM_H
#define GR_TVM_H

#include "gr_core.h"

/* cdef-begin */
typedef struct gr_tvm_module gr_tvm_module;

/* Opens a shared object and gives it our services. The same file twice is the same mapping and the same
 * module; it stays open to the end of the process. externs = 1: first makes the services visible to plain
 * undefined symbols (C-target and system libraries). */
int32_t gr_tvm_open(const char *path, int32_t externs, gr_tvm_module **out);
/* Makes the services visible to libraries that something else opens later, as ctypes.CDLL. */
int32_t gr_tvm_publish(void);
/* The functions that system libraries have registered when they were opened. */
gr_tvm_module *gr_tvm_system(void);
/* child's functions become visible to parent's TVMBackendGetFuncFromEnv. GR_ERR_ARGUMENT for a circle. */
int32_t gr_tvm_import(gr_tvm_module *parent, gr_tvm_module *child);
/* The packed function of that name, NULL if there is none; with_imports: also in imports, recursively. */
void *gr_tvm_function(gr_tvm_module *module, const char *name, int32_t with_imports);
/* Bits of the seven context pointers that the library has, bit i for the i-th of gr_tvm_context_name. */
int32_t gr_tvm_contexts(const gr_tvm_module *module);
const char *gr_tvm_context_name(int32_t i);       /* NULL after the last */
/* Calls a packed function with prepared arguments; its error text is gr_last_error(). */
int32_t gr_tvm_call(void *fn, void *values, int32_t *codes, int32_t num_args, void *ret, int32_t *ret_code);
/* A packed function by name for all libraries: the user's. Handles that were given out call the new one. fn NULL:
 * removes it. GR_ERR_ARGUMENT if there is one and override is 0. */
int32_t gr_tvm_register(const char *name, void *fn, int32_t override);
/* The function of that name, NULL if there is none; the name of the i-th, NULL after the last. */
void *gr_tvm_global(const char *name);
const char *gr_tvm_global_name(int32_t i);
/* The text of the error that a function of the user's ends with. */
void gr_tvm_fail(const char *text);
/* cdef-end */

#endif
