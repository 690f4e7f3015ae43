/* dequantized.h: integers on a grid as float32. Template over the integers.
 *
 * Arguments, attribute words and rules: ir/ops/integers/quantized.py.
 *
 * defines: gr_cpu_dequantize__<suffix>
 */
#include "cpu/grid.h"

static int32_t GR_FN(dequantize_part)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const gr_arg *arg = &call->args[0], *scales = &call->args[1];
  const GR_T *x = gr_ptr(arg), *zeros = gr_ptr(&call->args[2]);
  const float *scale = gr_ptr(scales);
  int64_t count = gr_size(scales);
  int64_t inner = count > 1 ? gr_span(arg, (int32_t)call->attrs[0] + 1, arg->ndim) : gr_max(1, gr_size(arg));
  float *out = gr_ptr(&call->args[3]);
  for (int64_t at = first; at < last;) {
    int64_t index = at / inner % count, end = gr_min(last, (at / inner + 1) * inner);
    uint32_t zero = (uint32_t)zeros[index];
    float by = scale[index];
    if (sizeof(GR_T) == 1) {
      gr_grid grid = {by, (int32_t)zero, GR_SIGNED};
      gr_from_grid(&grid, (const uint8_t *)(const void *)x + at, out + at, end - at);
      at = end;
      continue;
    }
    GR_INDEPENDENT
    for (int64_t i = at; i < end; i++) out[i] = (float)(int32_t)((uint32_t)x[i] - zero) * by;
    at = end;
  }
  return GR_OK;
}

/* gr-kernel: cpu/dequantize : i8 i16 i32 u8 u16 */
static inline int32_t GR_BODY(dequantize)(const gr_call *call) {
  return gr_parallel(call->env, gr_size(&call->args[0]), GR_GRAIN / 2, GR_FN(dequantize_part), (void *)(uintptr_t)call);
}
