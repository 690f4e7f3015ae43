/* pool_nhwc.h: max_pool2d avg_pool2d global_max_pool2d global_avg_pool2d over NHWC images, float32 only.
 *
 * Attribute words: ir/ops/spatial/pool.py.
 *
 * defines: gr_cpu_{max,avg,global_max,global_avg}_pool2d_nhwc__f32
 */
#include "cpu/images.h"

GR_INLINE int32_t gr_pool_nhwc(const gr_call *call, const int64_t *k, int32_t (*rows)(void *, int64_t, int64_t)) {
  gr_image s = {.kh = k[0], .kw = k[1], .sh = k[2], .sw = k[3], .top = k[4], .left = k[5], .dh = 1, .dw = 1,
                .bottom = k[6], .right = k[7], .include_pad = k[8]};
  return gr_images_run(call, &s, rows);
}

/* A window as large as the image. */
#define GR_WHOLE_IMAGE(call) {(call)->args[0].shape[1], (call)->args[0].shape[2], 1, 1, 0, 0, 0, 0, 0}

/* gr-kernel: cpu/max_pool2d_nhwc : f32 */
static inline int32_t GR_BODY(max_pool2d_nhwc)(const gr_call *call) {
  return gr_pool_nhwc(call, call->attrs, gr_max_rows);
}

/* gr-kernel: cpu/avg_pool2d_nhwc : f32 */
static inline int32_t GR_BODY(avg_pool2d_nhwc)(const gr_call *call) {
  return gr_pool_nhwc(call, call->attrs, gr_mean_rows);
}

/* gr-kernel: cpu/global_max_pool2d_nhwc : f32 */
static inline int32_t GR_BODY(global_max_pool2d_nhwc)(const gr_call *call) {
  const int64_t words[9] = GR_WHOLE_IMAGE(call);
  return gr_pool_nhwc(call, words, gr_max_rows);
}

/* gr-kernel: cpu/global_avg_pool2d_nhwc : f32 */
static inline int32_t GR_BODY(global_avg_pool2d_nhwc)(const gr_call *call) {
  const int64_t words[9] = GR_WHOLE_IMAGE(call);
  return gr_pool_nhwc(call, words, gr_mean_rows);
}
#undef GR_WHOLE_IMAGE
