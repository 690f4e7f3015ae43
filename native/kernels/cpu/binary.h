/* binary.h: add subtract multiply divide maximum with numpy broadcasting, and bias_add. Template; out may be
 * a or b.
 *
 * Called by: the executor through a kernel. Flat where shapes are equal, else row by row over merged
 * dimensions.
 *
 * defines: gr_cpu_{add,subtract,multiply,divide,maximum,bias_add}__<suffix>
 */

/* An op on n elements; sa and sb are 1 for a row and 0 for one element that stands for a row. Never inlined into the
 * walks below: they share its loops, or compiling twelve dtypes of five ops takes three times as long. */
typedef void (*GR_FN(binary_op))(GR_T *out, const GR_T *a, int64_t sa, const GR_T *b, int64_t sb, int64_t n);

GR_INLINE void GR_FN(binary_row)(GR_T *out, const GR_T *a, int64_t sa, const GR_T *b, int64_t sb, int64_t n,
                                 GR_T (*op)(GR_T, GR_T)) {
  if (sa && sb) {
    GR_INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i] = op(a[i], b[i]);
  } else if (sa) {
    GR_T y = *b;
    GR_INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i] = op(a[i], y);
  } else if (sb) {
    GR_T x = *a;
    GR_INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i] = op(x, b[i]);
  } else {
    GR_T value = op(*a, *b);
    for (int64_t i = 0; i < n; i++) out[i] = value;
  }
}

/* The output as rows of n elements under an odometer of ndim dimensions. */
typedef struct GR_FN(pair) {
  GR_T *out;
  const GR_T *a, *b;
  int64_t n, sa, sb;
  int32_t ndim;
  int64_t shape[GR_MAX_DIMS], outer_a[GR_MAX_DIMS], outer_b[GR_MAX_DIMS];
} GR_FN(pair);

GR_INLINE int32_t GR_FN(binary_flat)(void *ctx, int64_t first, int64_t last, GR_FN(binary_op) op) {
  const GR_FN(pair) *p = ctx;
  op(p->out + first, p->a + first * p->sa, p->sa, p->b + first * p->sb, p->sb, last - first);
  return GR_OK;
}

GR_INLINE int32_t GR_FN(binary_rows)(void *ctx, int64_t first, int64_t last, GR_FN(binary_op) op) {
  const GR_FN(pair) *p = ctx;
  int64_t count[GR_MAX_DIMS], a, b;
  gr_seek(first, p->ndim, p->shape, count, &a, p->outer_a, &b, p->outer_b);
  for (int64_t row = first; row < last; row++) {
    op(p->out + row * p->n, p->a + a, p->sa, p->b + b, p->sb, p->n);
    gr_advance(p->ndim, p->shape, count, &a, p->outer_a, &b, p->outer_b);
  }
  return GR_OK;
}

/* Merge dimensions through which both inputs walk as through one; the last one becomes the row. */
GR_INLINE void GR_FN(binary_merge)(GR_FN(pair) *p, const gr_arg *out, const gr_arg *a, const gr_arg *b) {
  int64_t sa[GR_MAX_DIMS], sb[GR_MAX_DIMS];
  gr_strides(a, out->ndim, sa);
  gr_strides(b, out->ndim, sb);
  int32_t top = -1;
  for (int32_t d = 0; d < out->ndim; d++) {
    int64_t n = out->shape[d];
    if (n == 1) continue;
    if (top >= 0 && p->outer_a[top] == n * sa[d] && p->outer_b[top] == n * sb[d]) {
      p->shape[top] *= n;
    } else {
      p->shape[++top] = n;
    }
    p->outer_a[top] = sa[d];
    p->outer_b[top] = sb[d];
  }
  p->ndim = top < 0 ? 0 : top;
  p->n = top < 0 ? 1 : p->shape[top];
  p->sa = top < 0 ? 0 : p->outer_a[top];
  p->sb = top < 0 ? 0 : p->outer_b[top];
}

/* Not GR_INLINE: all ops of a dtype share it. */
static int32_t GR_FN(binary)(const gr_call *call, GR_FN(binary_op) op, int32_t (*flat)(void *, int64_t, int64_t),
                             int32_t (*rows)(void *, int64_t, int64_t)) {
  const gr_arg *a = &call->args[0], *b = &call->args[1], *out = &call->args[2];
  int64_t size = gr_size(out);
  int same_a = gr_same_shape(a, out), same_b = gr_same_shape(b, out);
  if (same_a && same_b && size <= GR_GRAIN) {
    op(gr_ptr(out), gr_ptr(a), 1, gr_ptr(b), 1, size);
    return GR_OK;
  }
  GR_FN(pair) p;
  p.out = gr_ptr(out);
  p.a = gr_ptr(a);
  p.b = gr_ptr(b);
  if ((same_a || gr_size(a) == 1) && (same_b || gr_size(b) == 1)) {
    p.sa = same_a;
    p.sb = same_b;
    return gr_parallel(call->env, size, GR_GRAIN, flat, &p);
  }
  if (size == 0) return GR_OK;
  GR_FN(binary_merge)(&p, out, a, b);
  return gr_parallel(call->env, size / p.n, gr_ceil_div(GR_GRAIN, p.n), rows, &p);
}

#define GR_BINARY(name, value)                                                                      \
  GR_INLINE GR_T GR_FN(name##_one)(GR_T x, GR_T y) {                                                \
    GR_C a = GR_LOAD(x), b = GR_LOAD(y);                                                            \
    return GR_STORE(value);                                                                         \
  }                                                                                                 \
  static __attribute__((noinline, noclone)) void GR_FN(name##_row)(                                 \
      GR_T *out, const GR_T *a, int64_t sa, const GR_T *b, int64_t sb, int64_t n) {                 \
    GR_FN(binary_row)(out, a, sa, b, sb, n, GR_FN(name##_one));                                     \
  }                                                                                                 \
  static int32_t GR_FN(name##_flat)(void *ctx, int64_t first, int64_t last) {                       \
    return GR_FN(binary_flat)(ctx, first, last, GR_FN(name##_row));                                 \
  }                                                                                                 \
  static int32_t GR_FN(name##_rows)(void *ctx, int64_t first, int64_t last) {                       \
    return GR_FN(binary_rows)(ctx, first, last, GR_FN(name##_row));                                 \
  }                                                                                                 \
  GR_INLINE int32_t GR_FN(name##_any)(const gr_call *call) {                                        \
    return GR_FN(binary)(call, GR_FN(name##_row), GR_FN(name##_flat), GR_FN(name##_rows));          \
  }

/* Integers wrap: the arithmetic is done on GR_U, unsigned and at least 32 bits wide. */
GR_BINARY(add, (GR_C)((GR_U)a + (GR_U)b))
GR_BINARY(subtract, (GR_C)((GR_U)a - (GR_U)b))
GR_BINARY(multiply, (GR_C)((GR_U)a * (GR_U)b))
#if GR_FLOAT
GR_BINARY(divide, a / b)
#else
/* The least integer / -1 traps on x86: it wraps here. */
GR_BINARY(divide, GR_SIGNED && b == (GR_C)-1 ? (GR_C)((GR_U)0 - (GR_U)a) : (GR_C)(a / b))
#endif
GR_BINARY(maximum, a >= b || GR_IS_NAN(a) ? a : b)
#undef GR_BINARY

/* gr-kernel: cpu/add : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(add)(const gr_call *call) { return GR_FN(add_any)(call); }

/* gr-kernel: cpu/subtract : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(subtract)(const gr_call *call) { return GR_FN(subtract_any)(call); }

/* gr-kernel: cpu/multiply : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(multiply)(const gr_call *call) { return GR_FN(multiply_any)(call); }

/* gr-kernel: cpu/maximum : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(maximum)(const gr_call *call) { return GR_FN(maximum_any)(call); }

/* gr-kernel: cpu/divide : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(divide)(const gr_call *call) {
#if !GR_FLOAT
  const GR_T *b = gr_ptr(&call->args[1]);
  int64_t size = gr_size(&call->args[2]) ? gr_size(&call->args[1]) : 0;
  for (int64_t i = 0; i < size; i++) {
    if (b[i] == 0) return gr_refuse(call, "divide: integer division by zero");
  }
#endif
  return GR_FN(divide_any)(call);
}

/* gr-kernel: cpu/bias_add : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(bias_add)(const gr_call *call) {
  const gr_arg *x = &call->args[0];
  int32_t axis = (int32_t)call->attrs[0];
  /* as x [outer, channels, inner] + bias [channels, 1] */
  const int64_t shape[3] = {gr_span(x, 0, axis), x->shape[axis], gr_span(x, axis + 1, x->ndim)};
  const int64_t column[2] = {x->shape[axis], 1};
  gr_arg args[3] = {call->args[0], call->args[1], call->args[2]};
  args[0].shape = args[2].shape = shape;
  args[0].ndim = args[2].ndim = 3;
  args[1].shape = column;
  args[1].ndim = 2;
  gr_call inner = *call;
  inner.args = args;
  return GR_FN(add_any)(&inner);
}
