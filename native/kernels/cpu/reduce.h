/* reduce.h: the reductions of folds.h over axes. Template over all types. Floats are joined in double, integers wrap.
 *
 * Dimensions are merged to runs that are kept or reduced. If the last run is kept, CHUNK totals run side by
 * side; if it is reduced, it is joined in LANES totals, so that the order of additions does not depend
 * on the machine. The innermost loops are one a fold, for float32 one for each instruction set; what walks to them is
 * shared.
 *
 * defines: gr_cpu_{names of folds.h}__<suffix>
 */
#define GR_CHUNK 64
#define GR_LANES 16
#define GR_LOWEST ((GR_WIDE)GR_LEAST)
#if GR_FLOAT
#define GR_E GR_WIDE
#define GR_CHOOSE gr_select_wide /* vector code */
#define GR_HIGHEST ((GR_WIDE)INFINITY)
#define GR_ABS(x) fabs(x)
#else
#define GR_E GR_C
#define GR_HIGHEST ((GR_WIDE)(GR_C)~GR_LEAST)
#define GR_ABS(x) (GR_SIGNED && (int64_t)(GR_C)(x) < 0 ? -(x) : (x))
#endif

#if defined(GR_IS_F32) && defined(__x86_64__)
#define GR_FORMS 3             /* of the innermost loops: any machine's, AVX2, AVX-512 */
#else
#define GR_FORMS 1
#endif

/* A line of folds.h: runs of n contiguous elements, `step` elements apart, each onto a total of its own; `rows` rows of
 * width elements, each element onto its own; and the results of width totals, each of n elements. */
typedef struct GR_FN(fold) {
  GR_WIDE start;
  void (*runs[GR_FORMS])(GR_WIDE *total, const GR_T *x, int64_t n, int64_t width, int64_t step);
  void (*rows[GR_FORMS])(GR_WIDE *total, const GR_T *x, int64_t width, int64_t rows, int64_t step);
  void (*end)(GR_T *out, const GR_WIDE *total, int64_t width, int64_t n);
} GR_FN(fold);

typedef struct GR_FN(reduction) {
  const GR_T *x;
  GR_T *out;
  int32_t kept, reduced;       /* dimensions under the two odometers */
  int64_t kept_shape[GR_MAX_DIMS], kept_step[GR_MAX_DIMS];
  int64_t reduced_shape[GR_MAX_DIMS], reduced_step[GR_MAX_DIMS];
  int64_t rows;                /* positions of the reduced odometer */
  int64_t n;                   /* the last run */
  int64_t count;               /* elements behind one result */
  const GR_FN(fold) *fold;
  int form;
} GR_FN(reduction);

typedef GR_WIDE (*GR_FN(element))(GR_WIDE x);
typedef GR_WIDE (*GR_FN(joined))(GR_WIDE a, GR_WIDE b);

GR_INLINE GR_WIDE GR_FN(reduce_run)(GR_WIDE total, const GR_T *x, int64_t n, GR_FN(element) element,
                                    GR_FN(joined) joined) {
  int64_t i = 0;
  if (n >= 2 * GR_LANES) {
    GR_WIDE lane[GR_LANES];
    for (int l = 0; l < GR_LANES; l++) lane[l] = element(GR_LOAD(x[l]));
    for (i = GR_LANES; i + GR_LANES <= n; i += GR_LANES) {
      for (int l = 0; l < GR_LANES; l++) lane[l] = joined(lane[l], element(GR_LOAD(x[i + l])));
    }
    /* by halves, in loops of constant length, so that they become vector code */
    for (int l = 0; l < 8; l++) lane[l] = joined(lane[l], lane[l + 8]);
    for (int l = 0; l < 4; l++) lane[l] = joined(lane[l], lane[l + 4]);
    for (int l = 0; l < 2; l++) lane[l] = joined(lane[l], lane[l + 2]);
    total = joined(total, joined(lane[0], lane[1]));
  }
  for (; i < n; i++) total = joined(total, element(GR_LOAD(x[i])));
  return total;
}

GR_INLINE void GR_FN(reduce_rows)(GR_WIDE *restrict total, const GR_T *x, int64_t width, int64_t rows, int64_t step,
                                  GR_FN(element) element, GR_FN(joined) joined) {
  if (width == GR_CHUNK) { /* in registers */
    GR_WIDE kept[GR_CHUNK];
    for (int c = 0; c < GR_CHUNK; c++) kept[c] = total[c];
    for (; rows > 0; rows--, x += step) {
      for (int c = 0; c < GR_CHUNK; c++) kept[c] = joined(kept[c], element(GR_LOAD(x[c])));
    }
    for (int c = 0; c < GR_CHUNK; c++) total[c] = kept[c];
    return;
  }
  for (; rows > 0; rows--, x += step) {
    for (int64_t c = 0; c < width; c++) total[c] = joined(total[c], element(GR_LOAD(x[c])));
  }
}

/* Results first .. last-1, where the last run is reduced; those along the last run that is kept some at a time. */
static int32_t GR_FN(reduce_inner)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(reduction) *r = ctx;
  int64_t kept[GR_MAX_DIMS], count[GR_MAX_DIMS], base, at, none;
  int32_t along = r->kept - 1;
  for (int64_t i = first, width = 1; i < last; i += width) {
    GR_WIDE total[GR_CHUNK];
    gr_seek(i, r->kept, r->kept_shape, kept, &base, r->kept_step, &none, r->kept_step);
    if (along >= 0) width = gr_min(GR_CHUNK, gr_min(last - i, r->kept_shape[along] - kept[along]));
    for (int64_t c = 0; c < width; c++) total[c] = r->fold->start;
    gr_seek(0, r->reduced, r->reduced_shape, count, &at, r->reduced_step, &none, r->reduced_step);
    for (int64_t row = 0; row < r->rows; row++) {
      r->fold->runs[r->form](total, r->x + base + at, r->n, width, along >= 0 ? r->kept_step[along] : 0);
      gr_advance(r->reduced, r->reduced_shape, count, &at, r->reduced_step, &none, r->reduced_step);
    }
    r->fold->end(r->out + i, total, width, r->count);
  }
  return GR_OK;
}

/* Rows of results first .. last-1, each of r->n, where the last run is kept. */
static int32_t GR_FN(reduce_outer)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(reduction) *r = ctx;
  int64_t kept[GR_MAX_DIMS], count[GR_MAX_DIMS], base, at, none;
  int32_t outer = (int32_t)gr_max(r->reduced - 1, 0); /* the last run that is reduced is walked by the fold */
  int64_t rows = r->reduced ? r->reduced_shape[outer] : 1, step = r->reduced ? r->reduced_step[outer] : 0;
  gr_seek(first, r->kept, r->kept_shape, kept, &base, r->kept_step, &none, r->kept_step);
  for (int64_t i = first; i < last; i++) {
    for (int64_t j = 0; j < r->n; j += GR_CHUNK) {
      const GR_T *x = r->x + base + j;
      int64_t width = gr_min(GR_CHUNK, r->n - j);
      GR_WIDE total[GR_CHUNK];
      for (int64_t c = 0; c < width; c++) total[c] = r->fold->start;
      gr_seek(0, outer, r->reduced_shape, count, &at, r->reduced_step, &none, r->reduced_step);
      for (int64_t row = 0; row < r->rows; row += rows) {
        r->fold->rows[r->form](total, x + at, width, rows, step);
        gr_advance(outer, r->reduced_shape, count, &at, r->reduced_step, &none, r->reduced_step);
      }
      r->fold->end(r->out + i * r->n + j, total, width, r->count);
    }
    gr_advance(r->kept, r->kept_shape, kept, &base, r->kept_step, &none, r->kept_step);
  }
  return GR_OK;
}

/* Split the dimensions of x over the two odometers, from the front; the last run stays out of both. */
static int GR_FN(reduce_split)(GR_FN(reduction) *r, const gr_arg *x, int64_t mask) {
  int64_t run[GR_MAX_DIMS], step = 1;
  int is_reduced[GR_MAX_DIMS];
  int32_t runs = 0;
  for (int32_t d = 0; d < x->ndim; d++) {
    int reduced = (int)(mask >> d & 1);
    if (x->shape[d] == 1) continue;
    if (runs > 0 && is_reduced[runs - 1] == reduced) {
      run[runs - 1] *= x->shape[d];
    } else {
      run[runs] = x->shape[d];
      is_reduced[runs++] = reduced;
    }
  }
  if (runs == 0) {
    run[0] = 1;
    is_reduced[runs++] = 1;
  }
  r->kept = r->reduced = 0;
  r->n = run[runs - 1];
  r->rows = 1;
  for (int32_t k = 0; k < runs - 1; k++) r->rows *= is_reduced[k] ? run[k] : 1;
  r->count = r->rows * (is_reduced[runs - 1] ? r->n : 1);
  for (int32_t k = 0; k < runs - 1; k++) {
    step = 1;
    for (int32_t j = k + 1; j < runs; j++) step *= run[j];
    if (is_reduced[k]) {
      r->reduced_shape[r->reduced] = run[k];
      r->reduced_step[r->reduced++] = step;
    } else {
      r->kept_shape[r->kept] = run[k];
      r->kept_step[r->kept++] = step;
    }
  }
  return is_reduced[runs - 1];
}

/* The innermost loops that this machine runs fastest. */
static inline int GR_FN(reduce_form)(void) {
#if GR_FORMS == 3
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return 2;
  if (__builtin_cpu_supports("avx2")) return 1;
#endif
  return 0;
}

/* Not GR_INLINE: all reductions of a dtype share it. */
static int32_t GR_FN(reduce)(const gr_call *call, const GR_FN(fold) *fold) {
  const gr_arg *x = &call->args[0], *out = &call->args[1];
  int64_t results = gr_size(out), size = gr_size(x);
  GR_FN(reduction) r;
  r.fold = fold;
  r.form = GR_FN(reduce_form)();
  r.x = gr_ptr(x);
  r.out = gr_ptr(out);
  if (results == 0) return GR_OK;
  if (size == 0) {
    for (int64_t i = 0; i < results; i++) fold->end(r.out + i, &fold->start, 1, 0);
    return GR_OK;
  }
  if (GR_FN(reduce_split)(&r, x, call->attrs[0])) {
    return gr_parallel(call->env, results, gr_ceil_div(GR_GRAIN, r.count), GR_FN(reduce_inner), &r);
  }
  return gr_parallel(call->env, results / r.n, gr_ceil_div(GR_GRAIN, r.count * r.n), GR_FN(reduce_outer), &r);
}

#define GR_FOLD_FORM(name, isa, attributes)                                                                   \
  static __attribute__(attributes) void GR_FN(name##_runs_##isa)(GR_WIDE *total, const GR_T *x, int64_t n,    \
                                                                 int64_t width, int64_t step) {               \
    for (int64_t c = 0; c < width; c++)                                                                       \
      total[c] = GR_FN(reduce_run)(total[c], x + c * step, n, GR_FN(name##_element), GR_FN(name##_joined));   \
  }                                                                                                           \
  static __attribute__(attributes) void GR_FN(name##_rows_##isa)(GR_WIDE *total, const GR_T *x, int64_t width, \
                                                                 int64_t rows, int64_t step) {                \
    GR_FN(reduce_rows)(total, x, width, rows, step, GR_FN(name##_element), GR_FN(name##_joined));             \
  }
#if GR_FORMS == 3
#define GR_FOLD_FORMS(name)                                                     \
  GR_FOLD_FORM(name, any, (noinline))                                           \
  GR_FOLD_FORM(name, avx2, (noinline, target("avx2")))                          \
  GR_FOLD_FORM(name, avx512, (noinline, target("avx512f,avx512dq")))
#define GR_EACH_FORM(name) {GR_FN(name##_any), GR_FN(name##_avx2), GR_FN(name##_avx512)}
#else
#define GR_FOLD_FORMS(name) GR_FOLD_FORM(name, any, (noinline))
#define GR_EACH_FORM(name) {GR_FN(name##_any)}
#endif

#define GR_FOLD_BODY(name, start, element, joined, result)                                                    \
  GR_INLINE GR_WIDE GR_FN(name##_element)(GR_WIDE x) { return element; }                                      \
  GR_INLINE GR_WIDE GR_FN(name##_joined)(GR_WIDE a, GR_WIDE b) { return joined; }                             \
  GR_FOLD_FORMS(name)                                                                                         \
  static void GR_FN(name##_end)(GR_T *out, const GR_WIDE *total, int64_t width, int64_t count) {              \
    GR_WIDE n = (GR_WIDE)count;                                                                               \
    (void)n;                                                                                                  \
    for (int64_t c = 0; c < width; c++) {                                                                     \
      GR_WIDE a = total[c];                                                                                   \
      out[c] = GR_STORE((GR_C)(result));                                                                      \
    }                                                                                                         \
  }                                                                                                           \
  static inline int32_t GR_BODY(name)(const gr_call *call) {                                                  \
    static const GR_FN(fold) fold = {start, GR_EACH_FORM(name##_runs), GR_EACH_FORM(name##_rows),              \
                                     GR_FN(name##_end)};                                                      \
    return GR_FN(reduce)(call, &fold);                                                                        \
  }

/* gr-folds: cpu : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
#define GR_FOLD GR_FOLD_BODY
#if !GR_IS_BOOL
/* gr-number-folds: cpu : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
#define GR_NUMBER_FOLD GR_FOLD_BODY
#endif
#if GR_FLOAT
/* gr-float-folds: cpu : f32 f64 f16 bf16 */
#define GR_FLOAT_FOLD GR_FOLD_BODY
#endif
#include "folds.h"

#undef GR_CHUNK
#undef GR_LANES
#undef GR_E
#undef GR_LOWEST
#undef GR_HIGHEST
#undef GR_ABS
#undef GR_FORMS
#undef GR_FOLD_FORM
#undef GR_FOLD_FORMS
#undef GR_EACH_FORM
#undef GR_FOLD_BODY
