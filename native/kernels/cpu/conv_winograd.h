/* conv_winograd.h: conv2d of 3 x 3 taps over NHWC images, weights transformed for Winograd's tiles (winograd.h),
 * float32 only. Attribute words: ir/ops/products/conv.py. Scratch: winograd.py.
 *
 * defines: gr_cpu_conv2d_winograd__f32
 */
#include "cpu/finish.h"
#include "cpu/winograd.h"

static void gr_after_winograd(const gr_winograd *s, int64_t pixel, int64_t pixels) {
  gr_finish_block(s->steps, pixel, pixels, s->column, s->bundles * s->columns, s->out + pixel * s->o, s->o);
}

/* gr-kernel: cpu/conv2d_winograd : f32 */
static inline int32_t GR_BODY(conv2d_winograd)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  const int64_t *words = call->attrs;
  if (gr_size(out) == 0) return GR_OK;
  const float *bias = gr_steps_own(call, words + 11) == 3 ? gr_ptr(&call->args[2]) : NULL;
  gr_finish finish;
  gr_finish_open(&finish, call, words + 11, 0, 3);
  gr_winograd s = {.x = gr_ptr(x), .out = gr_ptr(out), .h = x->shape[1], .w = x->shape[2], .c = x->shape[3],
                   .oh = out->shape[1], .ow = out->shape[2], .o = out->shape[3], .top = words[2], .left = words[3],
                   .bundles = x->shape[3] / w->shape[1], .channels = w->shape[1], .weights = gr_ptr(w), .bias = bias,
                   .extra = finish.extra, .clamp = finish.clamp, .least = finish.least, .most = finish.most,
                   .after = finish.steps.count ? gr_after_winograd : NULL, .steps = &finish.steps,
                   .scratch = call->scratch};
  s.columns = s.o / s.bundles;
  return gr_winograd_run(call->env, &s, out->shape[0]);
}
