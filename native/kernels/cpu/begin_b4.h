/* begin_b4.h: the templates that follow move elements of 4 bytes; end.h ends it. Read by including files,
 * never alone. */
#include "cpu/common.h"

#define GR_T gr_b4
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __b4))
#define GR_BODY(op) GR_FN(op)
