/* windows.h: pools over windows of three dimensions, which may be dilated, and what belongs to them:
 * max_pool3d avg_pool3d lp_pool2d, max_pool2d_indices, max_pool2d_argmax, max_pool2d_backward. Template over floats, of
 * the maxima also over some integers.
 *
 * Images [N,C,H,W] are volumes of depth 1. One task is a plane (n, c). Attribute words:
 * ir/ops/spatial/windows.py. The pools of images without dilations are in pool.h.
 *
 * defines: gr_cpu_{max_pool3d max_pool2d_dilated avg_pool3d lp_pool2d max_pool2d_indices max_pool2d_argmax
 * max_pool2d_backward}__<suffix>
 */
#include "cpu/common.h"

#define GR_KIND_MAX 0
#define GR_KIND_MEAN 1
#define GR_KIND_NORM 2

typedef struct GR_FN(volume) {
  const gr_call *call;
  int64_t in[3], out[3];       /* depth, height, width */
  int64_t planes;
} GR_FN(volume);

/* Taps that lie inside: in dimension d of output position i, those from *first to before *last. */
GR_INLINE int64_t GR_FN(window_taps)(const GR_FN(volume) *v, int d, int64_t i, int64_t *first, int64_t *last) {
  const int64_t *words = v->call->attrs;
  int64_t kernel = words[d], dilation = words[12 + d], start = i * words[3 + d] - words[6 + d];
  *first = start < 0 ? gr_ceil_div(-start, dilation) : 0;
  *last = gr_max(*first, gr_min(kernel, gr_ceil_div(v->in[d] - start, dilation)));
  return start;
}

/* Number of taps inside the padded volume. */
GR_INLINE int64_t GR_FN(window_padded)(const GR_FN(volume) *v, int d, int64_t start) {
  const int64_t *words = v->call->attrs;
  return gr_min(words[d], gr_ceil_div(v->in[d] + words[9 + d] - start, words[12 + d]));
}

/* One window: its result, and of a maximum the place in the plane (-1: there is none). */
GR_INLINE GR_WIDE GR_FN(window_of_plane)(const GR_FN(volume) *v, const GR_T *x, const int64_t *at, int kind,
                                         int64_t *place) {
  const int64_t *words = v->call->attrs;
  int64_t start[3], first[3], last[3], elements = 1, padded = 1;
  for (int d = 0; d < 3; d++) {
    start[d] = GR_FN(window_taps)(v, d, at[d], &first[d], &last[d]);
    elements *= last[d] - first[d];
    padded *= GR_FN(window_padded)(v, d, start[d]);
  }
  GR_WIDE value = 0;
  double p = 1;
  if (kind == GR_KIND_NORM) memcpy(&p, &words[15], sizeof p);
  *place = -1;
  for (int64_t i = first[0]; i < last[0]; i++) {
    for (int64_t j = first[1]; j < last[1]; j++) {
      int64_t row = ((start[0] + i * words[12]) * v->in[1] + start[1] + j * words[13]) * v->in[2] + start[2];
      for (int64_t k = first[2]; k < last[2]; k++) {
        GR_C a = GR_LOAD(x[row + k * words[14]]);
        if (kind == GR_KIND_MEAN) {
          value += a;
        } else if (kind == GR_KIND_NORM) {
          value += (GR_WIDE)pow(fabs((double)a), p);
        } else if (*place < 0 || a > (GR_C)value || GR_IS_NAN(a)) {
          value = (GR_WIDE)a;
          *place = row + k * words[14];
        }
      }
    }
  }
  if (kind == GR_KIND_MEAN) return value / (GR_WIDE)(words[15] ? padded : elements);
  return kind == GR_KIND_NORM ? (GR_WIDE)pow((double)value, 1 / p) : value;
}

/* Element `at` of indices, which are int64 or int32. */
GR_INLINE void GR_FN(window_index)(const gr_arg *indices, int64_t at, int64_t index) {
  if (indices->dtype == GR_I32)
    ((int32_t *)gr_ptr(indices))[at] = (int32_t)index;
  else
    ((int64_t *)gr_ptr(indices))[at] = index;
}

/* Planes first .. last-1. ``indices``: NULL, or where the maxima's places go. */
GR_INLINE int32_t GR_FN(window_planes)(const GR_FN(volume) *v, int64_t first, int64_t last, int kind,
                                       const gr_arg *indices) {
  int64_t in = v->in[0] * v->in[1] * v->in[2], out = v->out[0] * v->out[1] * v->out[2], at[3], place;
  for (int64_t plane = first; plane < last; plane++) {
    const GR_T *x = (const GR_T *)gr_ptr(&v->call->args[0]) + plane * in;
    GR_T *y = (GR_T *)gr_ptr(&v->call->args[1]) + plane * out;
    for (int64_t i = 0; i < out; i++) {
      at[0] = i / (v->out[1] * v->out[2]);
      at[1] = i / v->out[2] % v->out[1];
      at[2] = i % v->out[2];
      y[i] = GR_STORE((GR_C)GR_FN(window_of_plane)(v, x, at, kind, &place));
      if (!indices) continue;
      int by_columns = v->call->attrs[15] != 0;
      if (by_columns) place = place % v->in[2] * v->in[1] + place / v->in[2];
      GR_FN(window_index)(indices, plane * out + i, plane * in + place);
    }
  }
  return GR_OK;
}

/* Runs the planes of a call; x is its first argument, ``y`` what has the shape of the pool's output. */
GR_INLINE int32_t GR_FN(window_run)(const gr_call *call, const gr_arg *y, int32_t (*run)(void *, int64_t, int64_t)) {
  const gr_arg *x = &call->args[0];
  GR_FN(volume) v = {call, {1, 1, 1}, {1, 1, 1}, x->shape[0] * x->shape[1]};
  for (int32_t d = 2; d < x->ndim; d++) {
    v.in[d - x->ndim + 3] = x->shape[d];
    v.out[d - x->ndim + 3] = y->shape[d];
  }
  int64_t taps = call->attrs[0] * call->attrs[1] * call->attrs[2];
  int64_t cost = gr_max(1, 4 * taps * v.out[0] * v.out[1] * v.out[2]);
  return gr_parallel(call->env, v.planes, gr_ceil_div(GR_GRAIN, cost), run, &v);
}

static int32_t GR_FN(window_max)(void *ctx, int64_t first, int64_t last) {
  return GR_FN(window_planes)(ctx, first, last, GR_KIND_MAX, NULL);
}

/* gr-kernel: cpu/max_pool3d : f32 f64 f16 bf16 i32 i8 u8 */
static inline int32_t GR_BODY(max_pool3d)(const gr_call *call) {
  return GR_FN(window_run)(call, &call->args[1], GR_FN(window_max));
}

/* max_pool2d whose windows are dilated: its words (pool.py) as this file's. */
/* gr-kernel: cpu/max_pool2d_dilated : f32 f64 f16 bf16 i32 */
static inline int32_t GR_BODY(max_pool2d_dilated)(const gr_call *call) {
  const int64_t *w = call->attrs;
  const int64_t words[16] = {1, w[0], w[1], 1, w[2], w[3], 0, w[4], w[5], 0, w[6], w[7], 1, w[9], w[10], 0};
  gr_call inner = *call;
  inner.attrs = words;
  return GR_FN(window_run)(&inner, &call->args[1], GR_FN(window_max));
}

static int32_t GR_FN(window_max_indices)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(volume) *v = ctx;
  return GR_FN(window_planes)(v, first, last, GR_KIND_MAX, &v->call->args[2]);
}

/* gr-kernel: cpu/max_pool2d_indices : f32 f64 f16 bf16 i32 i8 u8 */
static inline int32_t GR_BODY(max_pool2d_indices)(const gr_call *call) {
  return GR_FN(window_run)(call, &call->args[1], GR_FN(window_max_indices));
}

/* Planes first .. last-1: where their windows' maxima are, counted within the plane. */
static int32_t GR_FN(window_argmax)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(volume) *v = ctx;
  int64_t in = v->in[1] * v->in[2], out = v->out[1] * v->out[2], place;
  for (int64_t plane = first; plane < last; plane++) {
    const GR_T *x = (const GR_T *)gr_ptr(&v->call->args[0]) + plane * in;
    for (int64_t i = 0; i < out; i++) {
      const int64_t at[3] = {0, i / v->out[2], i % v->out[2]};
      GR_FN(window_of_plane)(v, x, at, GR_KIND_MAX, &place);
      GR_FN(window_index)(&v->call->args[1], plane * out + i, place);
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/max_pool2d_argmax : f32 f64 f16 bf16 i32 i8 u8 */
static inline int32_t GR_BODY(max_pool2d_argmax)(const gr_call *call) {
  return GR_FN(window_run)(call, &call->args[1], GR_FN(window_argmax));
}

#if GR_FLOAT
static int32_t GR_FN(window_mean)(void *ctx, int64_t first, int64_t last) {
  return GR_FN(window_planes)(ctx, first, last, GR_KIND_MEAN, NULL);
}

/* gr-kernel: cpu/avg_pool3d : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(avg_pool3d)(const gr_call *call) {
  return GR_FN(window_run)(call, &call->args[1], GR_FN(window_mean));
}

static int32_t GR_FN(window_norm)(void *ctx, int64_t first, int64_t last) {
  return GR_FN(window_planes)(ctx, first, last, GR_KIND_NORM, NULL);
}

/* gr-kernel: cpu/lp_pool2d : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(lp_pool2d)(const gr_call *call) {
  return GR_FN(window_run)(call, &call->args[1], GR_FN(window_norm));
}

/* Planes first .. last-1 of the gradient by x; windows may overlap, so sums are kept in the output. */
static int32_t GR_FN(window_backward)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(volume) *v = ctx;
  int64_t in = v->in[1] * v->in[2], out = v->out[1] * v->out[2], place;
  for (int64_t plane = first; plane < last; plane++) {
    const GR_T *x = (const GR_T *)gr_ptr(&v->call->args[0]) + plane * in;
    const GR_T *grad = (const GR_T *)gr_ptr(&v->call->args[1]) + plane * out;
    GR_T *to = (GR_T *)gr_ptr(&v->call->args[2]) + plane * in;
    memset(to, 0, (size_t)in * sizeof(GR_T));
    for (int64_t i = 0; i < out; i++) {
      const int64_t at[3] = {0, i / v->out[2], i % v->out[2]};
      GR_FN(window_of_plane)(v, x, at, GR_KIND_MAX, &place);
      to[place] = GR_STORE((GR_C)(GR_LOAD(to[place]) + GR_LOAD(grad[i])));
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/max_pool2d_backward : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(max_pool2d_backward)(const gr_call *call) {
  return GR_FN(window_run)(call, &call->args[1], GR_FN(window_backward));
}
#endif
#undef GR_KIND_MAX
#undef GR_KIND_MEAN
#undef GR_KIND_NORM
