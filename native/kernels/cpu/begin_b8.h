/* begin_b8.h: the templates that follow move elements of 8 bytes; end.h ends it. Read by including files,
 * never alone. */
#include "cpu/common.h"

#define GR_T gr_b8
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __b8))
#define GR_BODY(op) GR_FN(op)
