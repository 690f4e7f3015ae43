/* linear.h: dense and matmul. Template over floats and int32 (which wraps).
 *
 * defines: gr_cpu_dense__<suffix>, gr_cpu_matmul__<suffix>
 */
#define GR_STEPS(name) GR_FN(GR_CAT(linear_steps_, name))
#include "cpu/steps_block.h"
#define GR_GEMM(name) GR_FN(GR_CAT(linear_, name))
#include "cpu/gemm.h"

/* ---------------------------------------------------------------- few rows: dot products, nothing to pack
 * for */

#define GR_LANES 16   /* partial sums, so that the order of additions does not depend on the machine */
#define GR_FEW_ROWS 3
#define GR_DOT_COLUMNS 64

GR_INLINE GR_U GR_FN(dot)(const GR_T *x, const GR_T *w, int64_t k) {
  GR_U lane[GR_LANES] = {0}, sum = 0;
  int64_t p = 0;
  for (; p + GR_LANES <= k; p += GR_LANES) {
    for (int l = 0; l < GR_LANES; l++) lane[l] += (GR_U)GR_LOAD(x[p + l]) * (GR_U)GR_LOAD(w[p + l]);
  }
  for (; p < k; p++) sum += (GR_U)GR_LOAD(x[p]) * (GR_U)GR_LOAD(w[p]);
  for (int width = GR_LANES / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; l++) lane[l] += lane[l + width];
  }
  return lane[0] + sum;
}

/* Columns first .. last-1 of all rows of C, where A and B have contiguous k. */
static int32_t GR_FN(dot_columns)(void *ctx, int64_t first, int64_t last) {
  const GR_GEMM(args) *g = ctx;
  GR_C values[GR_FEW_ROWS][GR_DOT_COLUMNS];
  for (int64_t at = first; at < last; at += GR_DOT_COLUMNS) {
    int64_t columns = gr_min(GR_DOT_COLUMNS, last - at);
    for (int64_t j = 0; j < columns; j++) {
      const GR_T *b = (const GR_T *)g->b + (at + j) * g->b_col;
      for (int64_t i = 0; i < g->m; i++) {
        GR_U sum = GR_FN(dot)(g->a + i * g->a_row, b, g->k);
        if (g->bias) sum += (GR_U)GR_LOAD(g->bias[at + j]);
        values[i][j] = (GR_C)sum;
      }
    }
    if (g->steps) {
      GR_STEPS(block)(g->steps, 0, 0, at, g->m, columns, values[0], GR_DOT_COLUMNS, g->c + at, g->c_row);
      continue;
    }
    for (int64_t i = 0; i < g->m; i++) {
      for (int64_t j = 0; j < columns; j++) g->c[i * g->c_row + at + j] = GR_STORE(values[i][j]);
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/dense : f32 f64 f16 bf16 i32 */
static inline int32_t GR_BODY(dense)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t n = w->shape[0], k = w->shape[1];
  GR_GEMM(args) g = {.m = gr_span(x, 0, x->ndim - 1), .n = n, .k = k, .a = gr_ptr(x), .a_row = k, .a_col = 1,
                     .b = gr_ptr(w), .b_row = 1, .b_col = k, .pack_b = GR_GEMM(pack_plain),
                     .c = gr_ptr(out), .c_row = n};
  gr_steps steps;
  gr_steps_open(&steps, call, call->attrs, 0, out->ndim - 1);
  g.steps = steps.count ? &steps : NULL;
  if (gr_steps_own(call, call->attrs) == 3) {
    g.bias = gr_ptr(&call->args[2]);
    g.bias_col = 1;
  }
  if (g.m > GR_FEW_ROWS) return GR_GEMM(run)(call, &g);
  return gr_parallel(call->env, n, gr_ceil_div(GR_GRAIN, gr_max(1, 2 * g.m * k)), GR_FN(dot_columns), &g);
}
#undef GR_LANES
#undef GR_FEW_ROWS
#undef GR_DOT_COLUMNS

/* gr-kernel: cpu/matmul : f32 f64 f16 bf16 i32 */
static inline int32_t GR_BODY(matmul)(const gr_call *call) {
  const gr_arg *a = &call->args[0], *b = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t ta = call->attrs[0], tb = call->attrs[1];
  int32_t batch = out->ndim - 2;
  int64_t a_cols = a->shape[a->ndim - 1], b_cols = b->shape[b->ndim - 1];
  int64_t m = out->shape[batch], n = out->shape[batch + 1], k = ta ? a->shape[a->ndim - 2] : a_cols;
  GR_GEMM(args) g = {.m = m, .n = n, .k = k, .a_row = ta ? 1 : a_cols, .a_col = ta ? a_cols : 1,
                     .b_row = tb ? 1 : b_cols,
                     .b_col = tb ? b_cols : 1, .pack_b = GR_GEMM(pack_plain), .c_row = n};
  gr_steps steps;
  gr_steps_open(&steps, call, call->attrs + 2, batch, batch + 1);
  g.steps = steps.count ? &steps : NULL;
  if (gr_steps_own(call, call->attrs + 2) == 3) {
    g.bias = gr_ptr(&call->args[2]);
    g.bias_col = 1;
  }
  /* the batch dimensions broadcast: an odometer in whole planes */
  gr_arg a_batch = *a, b_batch = *b;
  int64_t sa[GR_MAX_DIMS], sb[GR_MAX_DIMS], count[GR_MAX_DIMS], a_at, b_at;
  a_batch.ndim -= 2;
  b_batch.ndim -= 2;
  gr_strides(&a_batch, batch, sa);
  gr_strides(&b_batch, batch, sb);
  int64_t planes = gr_span(out, 0, batch);
  if (planes == 0 || m == 0 || n == 0) return GR_OK;
  gr_seek(0, batch, out->shape, count, &a_at, sa, &b_at, sb);
  for (int64_t i = 0; i < planes; i++) {
    g.a = (const GR_T *)gr_ptr(a) + a_at * m * k;
    g.b = (const GR_T *)gr_ptr(b) + b_at * k * n;
    g.c = (GR_T *)gr_ptr(out) + i * m * n;
    g.plane = i;
    int32_t status = GR_GEMM(run)(call, &g);
    if (status) return status;
    gr_advance(batch, out->shape, count, &a_at, sa, &b_at, sb);
  }
  return GR_OK;
}
#undef GR_STEPS
#undef GR_GEMM
#undef GR_GEMM_LANES
#undef GR_GEMM_COLS
