/* end.h: what the other headers of this folder define, no longer. */
#undef GR_ISA
#undef GR_ISA_LANES
#undef GR_ISA_TARGET
#undef GR_ISA_SPLAT
#undef GR_ISA_EVERY
#undef GR_ISA_FUSED
#undef GR_ISA_LOOK_UP
#undef GR_ISA_DOT_SHORTS
#undef GR_ISA_MAX
#undef GR_ISA_MIN
#undef GR_ISA_MASKED
#undef GR_ISA_FIRST
#undef GR_ISA_LOAD_SOME
#undef GR_ISA_STORE_SOME
#undef GR_V
#undef GR_VI
#undef GR_ALWAYS
