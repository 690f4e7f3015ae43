/* begin_i64.h: the templates that follow are for int64_t; end.h ends it. Read by including files, never
 * alone. */
#include "cpu/common.h"

#define GR_T int64_t
#define GR_C int64_t
#define GR_U uint64_t
#define GR_LOAD(x) (x)
#define GR_STORE(x) (x)
#define GR_FLOAT 0
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __i64))
#define GR_BODY(op) GR_FN(op)
#define GR_SIGNED 1
#define GR_WIDE GR_U
#define GR_IS_NAN(x) 0
#define GR_LEAST ((GR_C)INT64_MIN)
#define GR_IS_BOOL 0
