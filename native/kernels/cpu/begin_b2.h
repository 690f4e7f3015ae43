/* begin_b2.h: the templates that follow move elements of 2 bytes; end.h ends it. Read by including files,
 * never alone. */
#include "cpu/common.h"

#define GR_T gr_b2
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __b2))
#define GR_BODY(op) GR_FN(op)
