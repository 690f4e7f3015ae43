/* tiles.c: what the wheel's kernels may do with AMX in this process, for those that ask from outside.
 *
 * defines: gr_host_amx
 */
#include "gr_core.h"
#include "isa/amx.h"

int32_t gr_host_amx(void) { return gr_amx(); }
