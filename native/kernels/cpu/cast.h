/* cast.h: change the element type. Template over the input's type; the output's is read from the call.
 *
 * Float to integer truncates toward zero, saturates, NaN gives 0; integer to integer wraps; to bool is x !=
 * 0.
 *
 * defines: gr_cpu_cast__<suffix>
 */
#ifndef GR_CPU_CAST_H
#define GR_CPU_CAST_H

#include "cpu/half_rows.h"

#define GR_SATURATE(name, type, least, most)                       \
  GR_INLINE type gr_to_##name(double x) {                          \
    if (x != x) return 0;                                          \
    if (x <= (double)least) return least;                          \
    if (x >= (double)most) return most;                            \
    return (type)x;                                                \
  }
GR_SATURATE(i8, int8_t, INT8_MIN, INT8_MAX)
GR_SATURATE(i16, int16_t, INT16_MIN, INT16_MAX)
GR_SATURATE(i32, int32_t, INT32_MIN, INT32_MAX)
GR_SATURATE(i64, int64_t, INT64_MIN, INT64_MAX)
GR_SATURATE(u8, uint8_t, 0, UINT8_MAX)
GR_SATURATE(u16, uint16_t, 0, UINT16_MAX)
GR_SATURATE(u32, uint32_t, 0, UINT32_MAX)
GR_SATURATE(u64, uint64_t, 0, UINT64_MAX)
#undef GR_SATURATE

#endif

#if GR_FLOAT
#define GR_TO(name, type) gr_to_##name(value)
#define GR_NARROW(value) (value)
#else
#define GR_TO(name, type) (type)(value)
#define GR_NARROW(value) (float)(value) /* to a 16-bit float through float, as numpy */
#endif

#define GR_CASE(format, type, converted)                                                    \
  case format: {                                                                            \
    type *out = gr_ptr(&call->args[1]);                                                     \
    for (int64_t i = first; i < last; i++) {                                                \
      GR_C value = GR_LOAD(x[i]);                                                           \
      out[i] = converted;                                                                   \
    }                                                                                       \
    return GR_OK;                                                                           \
  }

static int32_t GR_FN(cast_flat)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const GR_T *x = gr_ptr(&call->args[0]);
#ifdef GR_IS_BF16
  if (call->args[1].dtype == GR_F32) {
    gr_widen_row((float *)gr_ptr(&call->args[1]) + first, x + first, last - first);
    return GR_OK;
  }
#endif
#ifdef GR_IS_F32
  if (call->args[1].dtype == GR_BF16) {
    gr_narrow_row((uint16_t *)gr_ptr(&call->args[1]) + first, x + first, last - first);
    return GR_OK;
  }
#endif
  switch (call->args[1].dtype) {
    GR_CASE(GR_F32, float, (float)value)
    GR_CASE(GR_F64, double, (double)value)
    GR_CASE(GR_F16, _Float16, (_Float16)GR_NARROW(value))
    GR_CASE(GR_BF16, uint16_t, gr_float_to_bf16((float)value))
    GR_CASE(GR_I8, int8_t, GR_TO(i8, int8_t))
    GR_CASE(GR_I16, int16_t, GR_TO(i16, int16_t))
    GR_CASE(GR_I32, int32_t, GR_TO(i32, int32_t))
    GR_CASE(GR_I64, int64_t, GR_TO(i64, int64_t))
    GR_CASE(GR_U8, uint8_t, GR_TO(u8, uint8_t))
    GR_CASE(GR_U16, uint16_t, GR_TO(u16, uint16_t))
    GR_CASE(GR_U32, uint32_t, GR_TO(u32, uint32_t))
    GR_CASE(GR_U64, uint64_t, GR_TO(u64, uint64_t))
    GR_CASE(GR_BOOL, uint8_t, value != 0)
    default: return gr_refuse(call, "cast: cannot cast to this type");
  }
}
#undef GR_CASE
#undef GR_TO
#undef GR_NARROW

/* gr-kernel: cpu/cast : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(cast)(const gr_call *call) {
  return gr_parallel(call->env, gr_size(&call->args[0]), GR_GRAIN, GR_FN(cast_flat), (void *)(uintptr_t)call);
}
