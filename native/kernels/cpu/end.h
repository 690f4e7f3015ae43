/* end.h: ends what a begin_*.h began. */
#undef GR_T
#undef GR_C
#undef GR_U
#undef GR_LOAD
#undef GR_STORE
#undef GR_FLOAT
#undef GR_IS_F32
#undef GR_IN_FLOATS
#undef GR_SIGNED
#undef GR_MATH
#undef GR_WIDE
#undef GR_IS_NAN
#undef GR_LEAST
#undef GR_EXP
#undef GR_FN
#undef GR_BODY
#undef GR_IS_BOOL
