/* quantized.h: numbers to an integer grid. Template over float32 and float64; bytes of float32 by grid.h.
 *
 * Arguments, attribute words and rules: ir/ops/integers/quantized.py.
 *
 * defines: gr_cpu_quantize__<suffix>, gr_cpu_dynamic_quantize__f32
 */
#include "cpu/grid.h"

#define GR_QUANTIZE_TO(format, type, low, high)                                                      \
  case format: {                                                                                     \
    type *out = gr_ptr(&call->args[3]);                                                              \
    GR_C zero = (GR_C)((const type *)gr_ptr(&call->args[2]))[index];                                 \
    for (int64_t i = first; i < last; i++) {                                                         \
      GR_C value = GR_MATH(rint)(x[i] / scale) + zero;                                               \
      out[i] = (type)(value >= (GR_C)(high) ? (high) : value > (GR_C)(low) ? (type)value : (low));   \
    }                                                                                                \
    return;                                                                                          \
  }

/* Elements first .. last-1, which share the scale and the zero point at ``index``. */
GR_INLINE void GR_FN(quantize_stretch)(const gr_call *call, int64_t index, int64_t first, int64_t last) {
  const GR_T *x = gr_ptr(&call->args[0]);
  GR_C scale = ((const GR_T *)gr_ptr(&call->args[1]))[index];
  int32_t dtype = call->args[3].dtype;
#if GR_IS_F32
  if (dtype == GR_I8 || dtype == GR_U8) {
    const uint8_t *zero = (const uint8_t *)gr_ptr(&call->args[2]) + index;
    gr_grid grid = {scale, dtype == GR_I8 ? (int8_t)*zero : *zero, dtype == GR_I8};
    gr_to_grid(&grid, x + first, (uint8_t *)gr_ptr(&call->args[3]) + first, last - first);
    return;
  }
#endif
  switch (dtype) {
    GR_QUANTIZE_TO(GR_I8, int8_t, INT8_MIN, INT8_MAX)
    GR_QUANTIZE_TO(GR_U8, uint8_t, 0, UINT8_MAX)
    GR_QUANTIZE_TO(GR_I16, int16_t, INT16_MIN, INT16_MAX)
    GR_QUANTIZE_TO(GR_U16, uint16_t, 0, UINT16_MAX)
    GR_QUANTIZE_TO(GR_I32, int32_t, INT32_MIN, INT32_MAX)
    default: return;                   /* ir/ops/integers/quantized.py has no other */
  }
}
#undef GR_QUANTIZE_TO

static int32_t GR_FN(quantize_part)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const gr_arg *x = &call->args[0];
  int64_t count = gr_size(&call->args[1]);
  int64_t inner = count > 1 ? gr_span(x, (int32_t)call->attrs[0] + 1, x->ndim) : gr_max(1, gr_size(x));
  for (int64_t at = first, end; at < last; at = end) {
    end = gr_min(last, (at / inner + 1) * inner);
    GR_FN(quantize_stretch)(call, at / inner % count, at, end);
  }
  return GR_OK;
}

/* gr-kernel: cpu/quantize : f32 f64 */
static inline int32_t GR_BODY(quantize)(const gr_call *call) {
  return gr_parallel(call->env, gr_size(&call->args[0]), GR_GRAIN / 2, GR_FN(quantize_part), (void *)(uintptr_t)call);
}

#if GR_IS_F32
/* ---------------------------------------------------------------- to the grid that fits */
#include "cpu/ends.h"

static int32_t gr_dynamic_part(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  gr_grid grid = {*(const float *)gr_ptr(&call->args[2]), *(const uint8_t *)gr_ptr(&call->args[3]), 0};
  gr_to_grid(&grid, (const float *)gr_ptr(&call->args[0]) + first, (uint8_t *)gr_ptr(&call->args[1]) + first,
             last - first);
  return GR_OK;
}

/* gr-kernel: cpu/dynamic_quantize : f32 */
static inline int32_t gr_cpu_dynamic_quantize__f32(const gr_call *call) {
  gr_ends ends = {.x = gr_ptr(&call->args[0]), .n = gr_size(&call->args[0])};
  int32_t status = gr_ends_run(call->env, &ends);
  if (status) return status;
  float low = ends.low[0], scale = (ends.high[0] - low) / 255.0f, zero = rintf((0.0f - low) / scale);
  *(float *)gr_ptr(&call->args[2]) = scale;
  *(uint8_t *)gr_ptr(&call->args[3]) = (uint8_t)(zero >= 255.0f ? 255.0f : zero > 0.0f ? zero : 0.0f);
  return gr_parallel(call->env, ends.n, GR_GRAIN / 2, gr_dynamic_part, (void *)(uintptr_t)call);
}
#endif
