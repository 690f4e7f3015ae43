/* pool.h: max_pool2d avg_pool2d global_max_pool2d global_avg_pool2d over NCHW. Template over floats (maxima: int32 too).
 *
 * Attribute words: graph_runtime/ops/pool.py. Averages are summed in double.
 *
 * defines: gr_cpu_{max_pool2d,avg_pool2d,global_max_pool2d,global_avg_pool2d}__<suffix>
 */
typedef struct GR_FN(pool) {
  const GR_T *x;
  GR_T *out;
  int64_t h, w, oh, ow;
  const int64_t *words;        /* kernel, stride, pads, count_include_pad */
} GR_FN(pool);

GR_INLINE GR_T GR_FN(window_max)(const GR_T *x, int64_t w, int64_t h0, int64_t h1, int64_t w0, int64_t w1) {
  GR_C top = GR_LOAD(x[h0 * w + w0]);
  for (int64_t i = h0; i < h1; i++) {
    for (int64_t j = w0; j < w1; j++) {
      GR_C a = GR_LOAD(x[i * w + j]);
      top = top >= a || GR_IS_NAN(top) ? top : a; /* a NaN stays */
    }
  }
  return GR_STORE(top);
}

#if GR_FLOAT
GR_INLINE GR_T GR_FN(window_mean)(const GR_T *x, int64_t w, int64_t h0, int64_t h1, int64_t w0, int64_t w1, int64_t count) {
  double sum = 0;
  for (int64_t i = h0; i < h1; i++) {
    for (int64_t j = w0; j < w1; j++) sum += GR_LOAD(x[i * w + j]);
  }
  return GR_STORE((GR_C)(sum / (double)count));
}
#endif

/* Planes (n, c) first .. last-1. */
GR_INLINE int32_t GR_FN(pool_planes)(const GR_FN(pool) *p, int64_t first, int64_t last, int mean) {
  int64_t kh = p->words[0], kw = p->words[1], sh = p->words[2], sw = p->words[3], top = p->words[4], left = p->words[5];
  int64_t bottom = p->words[6], right = p->words[7], include = p->words[8];
  for (int64_t plane = first; plane < last; plane++) {
    const GR_T *x = p->x + plane * p->h * p->w;
    GR_T *out = p->out + plane * p->oh * p->ow;
    for (int64_t i = 0; i < p->oh; i++) {
      int64_t y = i * sh - top, h0 = gr_max(y, 0), h1 = gr_min(y + kh, p->h);
      for (int64_t j = 0; j < p->ow; j++) {
        int64_t z = j * sw - left, w0 = gr_max(z, 0), w1 = gr_min(z + kw, p->w);
        int64_t padded = (gr_min(y + kh, p->h + bottom) - y) * (gr_min(z + kw, p->w + right) - z);
#if GR_FLOAT
        if (mean) {
          *out++ = GR_FN(window_mean)(x, p->w, h0, h1, w0, w1, include ? padded : (h1 - h0) * (w1 - w0));
          continue;
        }
#else
        (void)mean, (void)include, (void)padded;
#endif
        *out++ = GR_FN(window_max)(x, p->w, h0, h1, w0, w1);
      }
    }
  }
  return GR_OK;
}

GR_INLINE int32_t GR_FN(pool_run)(const gr_call *call, const int64_t *words, int32_t (*run)(void *, int64_t, int64_t)) {
  const gr_arg *x = &call->args[0], *out = &call->args[1];
  GR_FN(pool) p = {gr_ptr(x), gr_ptr(out), x->shape[2], x->shape[3], out->shape[2], out->shape[3], words};
  int64_t cost = gr_max(1, p.oh * p.ow * gr_min(words[0], p.h) * gr_min(words[1], p.w));
  return gr_parallel(call->env, x->shape[0] * x->shape[1], gr_ceil_div(GR_GRAIN, cost), run, &p);
}

/* A window as large as the image. */
#define GR_GLOBAL_WORDS(call) \
  { (call)->args[0].shape[2], (call)->args[0].shape[3], 1, 1, 0, 0, 0, 0, 0 }

static int32_t GR_FN(max_planes)(void *ctx, int64_t first, int64_t last) { return GR_FN(pool_planes)(ctx, first, last, 0); }

/* gr-kernel: cpu/max_pool2d : f32 f64 f16 bf16 i32 */
static inline int32_t GR_BODY(max_pool2d)(const gr_call *call) {
  return GR_FN(pool_run)(call, call->attrs, GR_FN(max_planes));
}

/* gr-kernel: cpu/global_max_pool2d : f32 f64 f16 bf16 i32 */
static inline int32_t GR_BODY(global_max_pool2d)(const gr_call *call) {
  const int64_t words[9] = GR_GLOBAL_WORDS(call);
  return GR_FN(pool_run)(call, words, GR_FN(max_planes));
}

#if GR_FLOAT
static int32_t GR_FN(mean_planes)(void *ctx, int64_t first, int64_t last) { return GR_FN(pool_planes)(ctx, first, last, 1); }

/* gr-kernel: cpu/avg_pool2d : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(avg_pool2d)(const gr_call *call) {
  return GR_FN(pool_run)(call, call->attrs, GR_FN(mean_planes));
}

/* gr-kernel: cpu/global_avg_pool2d : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(global_avg_pool2d)(const gr_call *call) {
  const int64_t words[9] = GR_GLOBAL_WORDS(call);
  return GR_FN(pool_run)(call, words, GR_FN(mean_planes));
}
#endif
#undef GR_GLOBAL_WORDS
