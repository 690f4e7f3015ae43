/* begin_bf16.h: the templates that follow are for uint16_t; end.h ends it. Read by including files, never
 * alone. */
#include "cpu/common.h"

#define GR_T uint16_t
#define GR_C float
#define GR_U float
#define GR_LOAD(x) gr_bf16_to_float(x)
#define GR_STORE(x) gr_float_to_bf16(x)
#define GR_FLOAT 1
#define GR_IN_FLOATS 1 /* computes in float */
#define GR_IS_BF16 1
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __bf16))
#define GR_BODY(op) GR_FN(op)
#define GR_MATH(fn) fn##f
#define GR_WIDE double
#define GR_IS_NAN(x) ((x) != (x))
#define GR_LEAST -INFINITY
#define GR_EXP gr_expf
