/* tiles.c: the wheel's use of AMX in this process, for callers outside.
 *
 * defines: gr_host_amx
 */
#include "gr_core.h"
#include "isa/amx.h"

int32_t gr_host_amx(void) { return gr_amx(); }
