/* begin_u8.h: the templates that follow are for uint8_t; end.h ends it. Read by including files, never alone.
 * */
#include "cpu/common.h"

#define GR_T uint8_t
#define GR_C uint8_t
#define GR_U uint32_t
#define GR_LOAD(x) (x)
#define GR_STORE(x) (x)
#define GR_FLOAT 0
#define GR_FN(name) GR_CAT(gr_cpu_, GR_CAT(name, __u8))
#define GR_BODY(op) GR_FN(op)
#define GR_SIGNED 0
#define GR_WIDE GR_U
#define GR_IS_NAN(x) 0
#define GR_LEAST 0
#define GR_IS_BOOL 0
