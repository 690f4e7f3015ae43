/* pool_bytes.h: max_pool2d over NHWC images of bytes. Template over bytes.
 *
 * Attribute words: ir/ops/spatial/pool.py.
 *
 * defines: gr_cpu_max_pool2d_nhwc__<suffix>
 */
GR_INLINE void GR_FN(pool_greater)(GR_T *out, const GR_T *x, int64_t n) {
  GR_INDEPENDENT
  for (int64_t i = 0; i < n; i++) out[i] = x[i] > out[i] ? x[i] : out[i];
}

/* Rows first .. last-1 of the output, counted over all images. */
GR_INLINE void GR_FN(pool_rows)(const gr_call *call, int64_t first, int64_t last) {
  const gr_arg *x = &call->args[0], *out = &call->args[1];
  const int64_t *k = call->attrs;
  int64_t h = x->shape[1], w = x->shape[2], c = x->shape[3], oh = out->shape[1], ow = out->shape[2];
  for (int64_t row = first; row < last; row++) {
    const GR_T *image = (const GR_T *)gr_ptr(x) + row / oh * h * w * c;
    GR_T *to = (GR_T *)gr_ptr(out) + row * ow * c;
    int64_t y = row % oh * k[2] - k[4], y0 = gr_max(y, 0), y1 = gr_min(y + k[0], h);
    for (int64_t j = 0; j < ow; j++, to += c) {
      int64_t at = j * k[3] - k[5], x0 = gr_max(at, 0), x1 = gr_min(at + k[1], w);
      for (int64_t i = 0; i < c; i++) to[i] = GR_LEAST;
      for (int64_t p = y0; p < y1; p++)
        for (int64_t q = x0; q < x1; q++) GR_FN(pool_greater)(to, image + (p * w + q) * c, c);
    }
  }
}

#if defined(__x86_64__)
static __attribute__((target("avx2"))) void GR_FN(pool_rows_avx2)(const gr_call *call, int64_t first, int64_t last) {
  GR_FN(pool_rows)(call, first, last);
}
#endif

static int32_t GR_FN(pool_part)(void *ctx, int64_t first, int64_t last) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    GR_FN(pool_rows_avx2)(ctx, first, last);
    return GR_OK;
  }
#endif
  GR_FN(pool_rows)(ctx, first, last);
  return GR_OK;
}

/* gr-kernel: cpu/max_pool2d_nhwc : i8 u8 */
static inline int32_t GR_BODY(max_pool2d_nhwc)(const gr_call *call) {
  const gr_arg *out = &call->args[1];
  if (gr_size(out) == 0) return GR_OK;
  int64_t cost = gr_max(1, gr_span(out, 2, 4) * call->attrs[0] * call->attrs[1] / 8);
  return gr_parallel(call->env, gr_span(out, 0, 2), gr_ceil_div(GR_GRAIN, cost), GR_FN(pool_part),
                     (void *)(uintptr_t)call);
}
