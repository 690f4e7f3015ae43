/* reduce.h: sum mean prod max min over axes. Template over all types. Floats are summed in double, integers wrap.
 *
 * Dimensions are merged to runs that are kept or reduced. If the last run is kept, CHUNK sums run side by
 * side; if it is reduced, it is summed in LANES partial sums, so that the order of additions does not depend
 * on the machine. The innermost loops are one a kind; what walks to them is shared.
 *
 * defines: gr_cpu_{sum,mean,prod,max,min}__<suffix>
 */
#define GR_CHUNK 32
#define GR_LANES 8
#define GR_SUM 0
#define GR_MEAN 1
#define GR_MAX 2
#define GR_MIN 3
#define GR_PROD 4

typedef struct GR_FN(reduction) {
  const GR_T *x;
  GR_T *out;
  int32_t kept, reduced;       /* dimensions under the two odometers */
  int64_t kept_shape[GR_MAX_DIMS], kept_step[GR_MAX_DIMS];
  int64_t reduced_shape[GR_MAX_DIMS], reduced_step[GR_MAX_DIMS];
  int64_t rows;                /* positions of the reduced odometer */
  int64_t n;                   /* the last run */
  int64_t total;               /* elements behind one result */
  int kind;
} GR_FN(reduction);

/* The neutral element; a maximum or minimum starts at its first element instead. */
GR_INLINE GR_WIDE GR_FN(reduce_start)(const GR_T *x, int kind) {
  return kind == GR_MAX || kind == GR_MIN ? (GR_WIDE)GR_LOAD(*x) : kind == GR_PROD;
}

GR_INLINE GR_WIDE GR_FN(reduce_step)(GR_WIDE a, GR_WIDE b, int kind) {
  if (kind == GR_PROD) return a * b;
  if (kind == GR_MAX) return (GR_C)a >= (GR_C)b || GR_IS_NAN(a) ? a : b;
  if (kind == GR_MIN) return (GR_C)a <= (GR_C)b || GR_IS_NAN(a) ? a : b;
  return a + b;
}

GR_INLINE GR_T GR_FN(reduce_end)(GR_WIDE value, int64_t total, int kind) {
  return GR_STORE((GR_C)(kind == GR_MEAN ? value / (GR_WIDE)total : value));
}

/* n contiguous elements onto `start`. */
GR_INLINE GR_WIDE GR_FN(reduce_run_of)(GR_WIDE start, const GR_T *x, int64_t n, int kind) {
  int64_t i = 0;
  if (n >= 2 * GR_LANES) {
    GR_WIDE lane[GR_LANES];
    for (int l = 0; l < GR_LANES; l++) lane[l] = GR_LOAD(x[l]);
    for (i = GR_LANES; i + GR_LANES <= n; i += GR_LANES) {
      for (int l = 0; l < GR_LANES; l++) lane[l] = GR_FN(reduce_step)(lane[l], GR_LOAD(x[i + l]), kind);
    }
    for (int l = 0; l < GR_LANES; l++) start = GR_FN(reduce_step)(start, lane[l], kind);
  }
  for (; i < n; i++) start = GR_FN(reduce_step)(start, GR_LOAD(x[i]), kind);
  return start;
}

/* width elements, each onto its own value. */
GR_INLINE void GR_FN(reduce_row_of)(GR_WIDE *restrict value, const GR_T *x, int64_t width, int kind) {
  for (int64_t c = 0; c < width; c++) value[c] = GR_FN(reduce_step)(value[c], GR_LOAD(x[c]), kind);
}

static __attribute__((noinline)) GR_WIDE GR_FN(reduce_run)(GR_WIDE start, const GR_T *x, int64_t n, int kind) {
  if (kind == GR_MAX) return GR_FN(reduce_run_of)(start, x, n, GR_MAX);
  if (kind == GR_MIN) return GR_FN(reduce_run_of)(start, x, n, GR_MIN);
  if (kind == GR_PROD) return GR_FN(reduce_run_of)(start, x, n, GR_PROD);
  return GR_FN(reduce_run_of)(start, x, n, GR_SUM);
}

static __attribute__((noinline)) void GR_FN(reduce_row)(GR_WIDE *value, const GR_T *x, int64_t width, int kind) {
  if (kind == GR_MAX)
    GR_FN(reduce_row_of)(value, x, width, GR_MAX);
  else if (kind == GR_MIN)
    GR_FN(reduce_row_of)(value, x, width, GR_MIN);
  else if (kind == GR_PROD)
    GR_FN(reduce_row_of)(value, x, width, GR_PROD);
  else
    GR_FN(reduce_row_of)(value, x, width, GR_SUM);
}

/* Results first .. last-1, where the last run is reduced. */
static int32_t GR_FN(reduce_inner)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(reduction) *r = ctx;
  int64_t kept[GR_MAX_DIMS], count[GR_MAX_DIMS], base, at, none;
  gr_seek(first, r->kept, r->kept_shape, kept, &base, r->kept_step, &none, r->kept_step);
  for (int64_t i = first; i < last; i++) {
    gr_seek(0, r->reduced, r->reduced_shape, count, &at, r->reduced_step, &none, r->reduced_step);
    GR_WIDE value = GR_FN(reduce_start)(r->x + base, r->kind);
    for (int64_t row = 0; row < r->rows; row++) {
      value = GR_FN(reduce_run)(value, r->x + base + at, r->n, r->kind);
      gr_advance(r->reduced, r->reduced_shape, count, &at, r->reduced_step, &none, r->reduced_step);
    }
    r->out[i] = GR_FN(reduce_end)(value, r->total, r->kind);
    gr_advance(r->kept, r->kept_shape, kept, &base, r->kept_step, &none, r->kept_step);
  }
  return GR_OK;
}

/* Rows of results first .. last-1, each of r->n, where the last run is kept. */
static int32_t GR_FN(reduce_outer)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(reduction) *r = ctx;
  int64_t kept[GR_MAX_DIMS], count[GR_MAX_DIMS], base, at, none;
  gr_seek(first, r->kept, r->kept_shape, kept, &base, r->kept_step, &none, r->kept_step);
  for (int64_t i = first; i < last; i++) {
    for (int64_t j = 0; j < r->n; j += GR_CHUNK) {
      const GR_T *x = r->x + base + j;
      int64_t width = gr_min(GR_CHUNK, r->n - j);
      GR_WIDE value[GR_CHUNK];
      for (int64_t c = 0; c < width; c++) value[c] = GR_FN(reduce_start)(x + c, r->kind);
      gr_seek(0, r->reduced, r->reduced_shape, count, &at, r->reduced_step, &none, r->reduced_step);
      for (int64_t row = 0; row < r->rows; row++) {
        GR_FN(reduce_row)(value, x + at, width, r->kind);
        gr_advance(r->reduced, r->reduced_shape, count, &at, r->reduced_step, &none, r->reduced_step);
      }
      for (int64_t c = 0; c < width; c++) {
        r->out[i * r->n + j + c] = GR_FN(reduce_end)(value[c], r->total, r->kind);
      }
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
  r->total = r->rows * (is_reduced[runs - 1] ? r->n : 1);
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

/* ``nothing``: the reduction of no elements. Not GR_INLINE: all reductions of a dtype share it. */
static int32_t GR_FN(reduce)(const gr_call *call, int kind, GR_T nothing) {
  const gr_arg *x = &call->args[0], *out = &call->args[1];
  int64_t results = gr_size(out), size = gr_size(x);
  GR_FN(reduction) r;
  r.kind = kind;
  r.x = gr_ptr(x);
  r.out = gr_ptr(out);
  if (results == 0) return GR_OK;
  if (size == 0) {
    for (int64_t i = 0; i < results; i++) r.out[i] = nothing;
    return GR_OK;
  }
  if (GR_FN(reduce_split)(&r, x, call->attrs[0])) {
    return gr_parallel(call->env, results, gr_ceil_div(GR_GRAIN, r.total), GR_FN(reduce_inner), &r);
  }
  return gr_parallel(call->env, results / r.n, gr_ceil_div(GR_GRAIN, r.total * r.n), GR_FN(reduce_outer), &r);
}

#if !GR_IS_BOOL
/* gr-kernel: cpu/sum : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(sum)(const gr_call *call) {
  return GR_FN(reduce)(call, GR_SUM, GR_STORE((GR_C)0));
}

/* gr-kernel: cpu/prod : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(prod)(const gr_call *call) {
  return GR_FN(reduce)(call, GR_PROD, GR_STORE((GR_C)1));
}
#endif

#if GR_FLOAT
/* gr-kernel: cpu/mean : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(mean)(const gr_call *call) {
  return GR_FN(reduce)(call, GR_MEAN, GR_STORE((GR_C)0));
}
#endif

/* Of no elements: what bools have (any: false, all: true); the ops' rules refuse numbers then. */
/* gr-kernel: cpu/max : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(max)(const gr_call *call) {
  return GR_FN(reduce)(call, GR_MAX, GR_STORE((GR_C)0));
}

/* gr-kernel: cpu/min : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(min)(const gr_call *call) {
  return GR_FN(reduce)(call, GR_MIN, GR_STORE((GR_C)1));
}

#undef GR_CHUNK
#undef GR_LANES
#undef GR_SUM
#undef GR_MEAN
#undef GR_MAX
#undef GR_MIN
#undef GR_PROD
