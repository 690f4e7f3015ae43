/* begin_b1.h: the templates that follow move elements of 1 byte; end.h ends it. Read by including files,
 * never alone. */
#include "cpu/common.h"

#define GR_T gr_b1
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __b1))
#define GR_BODY(op) GR_FN(op)
