/* end_bytes.h: what bytes.h and the header before it define, no longer. */
#undef GR_BYTES
#undef GR_BYTES_HALVES
#undef GR_BYTES_LOAD
#undef GR_BYTES_TERM
#undef GR_BYTES_ONES
#undef GR_BYTES_LOWEST
#undef GR_BYTES_WIDE
#undef GR_BYTES_SPAN
#undef GR_BYTES_SPREAD
#undef GR_BYTES_HALF
#undef GR_BYTES_LOW
#undef GR_ISA_DOTS
#undef GR_ISA_FOUR
#include "isa/end.h"
