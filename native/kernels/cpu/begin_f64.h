/* begin_f64.h: the templates that follow are for double; end.h ends it. Read by including files, never alone.
 * */
#include "cpu/common.h"

#define GR_T double
#define GR_C double
#define GR_U double
#define GR_LOAD(x) (x)
#define GR_STORE(x) (x)
#define GR_FLOAT 1
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __f64))
#define GR_BODY(op) GR_FN(op)
#define GR_MATH(fn) fn
#define GR_WIDE double
#define GR_IS_NAN(x) ((x) != (x))
#define GR_LEAST -INFINITY
#define GR_EXP exp
