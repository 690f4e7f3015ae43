/* pool.h: max_pool2d avg_pool2d global_max_pool2d global_avg_pool2d over NCHW. Template over floats (maxima:
 * int32, int8 and uint8 too).
 *
 * Attribute words: ir/ops/spatial/pool.py. Averages are summed in double.
 *
 * defines: gr_cpu_{max_pool2d,avg_pool2d,global_max_pool2d,global_avg_pool2d}__<suffix>
 */
typedef struct GR_FN(pool) {
  const GR_T *x;
  GR_T *out;
  int64_t h, w, oh, ow;
  const int64_t *words;        /* kernel, stride, pads, count_include_pad */
} GR_FN(pool);

#define GR_ROW 64 /* output pixels of a row whose windows are reduced side by side */

/* Reduce one row of the image, column q of every window, into those of output pixels j0 .. j0 + width - 1. */
GR_INLINE void GR_FN(pool_tap)(GR_WIDE *row, const GR_T *x, const GR_FN(pool) *p, int64_t q, int64_t j0,
                               int64_t width, int mean) {
  int64_t step = p->words[3], shift = q - p->words[5]; /* column of output pixel j is j * step + shift */
  int64_t first = gr_max(j0, shift >= 0 ? 0 : gr_ceil_div(-shift, step));
  int64_t last = gr_min(j0 + width, p->w > shift ? gr_ceil_div(p->w - shift, step) : 0);
  for (int64_t j = first; j < last; j++) {
    GR_WIDE a = (GR_WIDE)GR_LOAD(x[j * step + shift]), top = row[j - j0];
    row[j - j0] = mean ? top + a : (GR_C)a > (GR_C)top || GR_IS_NAN(a) ? a : top; /* a NaN wins and stays */
  }
}

/* Elements of window i along one dimension: inside of the image, or of the padded image. */
GR_INLINE int64_t GR_FN(window_length)(int64_t i, int64_t size, int64_t kernel, int64_t stride, int64_t begin,
                                       int64_t end, int64_t include_pad) {
  int64_t first = i * stride - begin;
  return include_pad ? gr_min(first + kernel, size + end) - first
                     : gr_min(first + kernel, size) - gr_max(first, 0);
}

/* Planes (n, c) first .. last-1. */
GR_INLINE int32_t GR_FN(pool_planes)(const GR_FN(pool) *p, int64_t first, int64_t last, int mean) {
  const int64_t *k = p->words;
  for (int64_t plane = first; plane < last; plane++) {
    const GR_T *x = p->x + plane * p->h * p->w;
    GR_T *out = p->out + plane * p->oh * p->ow;
    for (int64_t i = 0; i < p->oh; i++) {
      int64_t h0 = gr_max(i * k[2] - k[4], 0), h1 = gr_min(i * k[2] - k[4] + k[0], p->h);
      for (int64_t j0 = 0; j0 < p->ow; j0 += GR_ROW) {
        GR_WIDE row[GR_ROW];
        int64_t width = gr_min(GR_ROW, p->ow - j0);
        for (int64_t j = 0; j < width; j++) row[j] = mean ? 0 : GR_LEAST;
        for (int64_t y = h0; y < h1; y++) {
          for (int64_t q = 0; q < gr_min(k[1], p->w + k[5]); q++) {
            GR_FN(pool_tap)(row, x + y * p->w, p, q, j0, width, mean);
          }
        }
        int64_t rows = GR_FN(window_length)(i, p->h, k[0], k[2], k[4], k[6], k[8]);
        for (int64_t j = 0; j < width; j++) {
          int64_t columns = mean ? GR_FN(window_length)(j0 + j, p->w, k[1], k[3], k[5], k[7], k[8]) : 1;
          *out++ = GR_STORE((GR_C)(mean ? row[j] / (GR_WIDE)(rows * columns) : row[j]));
        }
      }
    }
  }
  return GR_OK;
}
#undef GR_ROW

GR_INLINE int32_t GR_FN(pool_run)(const gr_call *call, const int64_t *words,
                                  int32_t (*run)(void *, int64_t, int64_t)) {
  const gr_arg *x = &call->args[0], *out = &call->args[1];
  GR_FN(pool) p = {gr_ptr(x), gr_ptr(out), x->shape[2], x->shape[3], out->shape[2], out->shape[3], words};
  int64_t cost = gr_max(1, p.oh * p.ow * gr_min(words[0], p.h) * gr_min(words[1], p.w));
  return gr_parallel(call->env, x->shape[0] * x->shape[1], gr_ceil_div(GR_GRAIN, cost), run, &p);
}

/* A window as large as the image. */
#define GR_GLOBAL_WORDS(call) \
  { (call)->args[0].shape[2], (call)->args[0].shape[3], 1, 1, 0, 0, 0, 0, 0 }

static int32_t GR_FN(max_planes)(void *ctx, int64_t first, int64_t last) {
  return GR_FN(pool_planes)(ctx, first, last, 0);
}

/* gr-kernel: cpu/max_pool2d : f32 f64 f16 bf16 i32 i8 u8 */
static inline int32_t GR_BODY(max_pool2d)(const gr_call *call) {
  return GR_FN(pool_run)(call, call->attrs, GR_FN(max_planes));
}

/* gr-kernel: cpu/global_max_pool2d : f32 f64 f16 bf16 i32 */
static inline int32_t GR_BODY(global_max_pool2d)(const gr_call *call) {
  const int64_t words[9] = GR_GLOBAL_WORDS(call);
  return GR_FN(pool_run)(call, words, GR_FN(max_planes));
}

#if GR_FLOAT
static int32_t GR_FN(mean_planes)(void *ctx, int64_t first, int64_t last) {
  return GR_FN(pool_planes)(ctx, first, last, 1);
}

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
