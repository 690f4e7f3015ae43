/* begin_i8.h: the templates that follow are for int8_t; end.h ends it. Read by including files, never alone.
 * */
#include "cpu/common.h"

#define GR_T int8_t
#define GR_C int8_t
#define GR_U uint32_t
#define GR_LOAD(x) (x)
#define GR_STORE(x) (x)
#define GR_FLOAT 0
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __i8))
#define GR_BODY(op) GR_FN(op)
#define GR_SIGNED 1
#define GR_WIDE GR_U
#define GR_IS_NAN(x) 0
#define GR_LEAST ((GR_C)INT8_MIN)
#define GR_IS_BOOL 0
