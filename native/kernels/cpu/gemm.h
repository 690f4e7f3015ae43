/* gemm.h: C = A B (+ bias) on packed panels, for linear.h and conv.h. Template: GR_GEMM(name) names its
 * functions.
 *
 * A is packed to panels of ROWS rows and B to panels of COLS columns, k inside, both padded with zeros, so
 * that the inner loop is one straight walk through both; a ROWS x COLS block of C stays in registers for all
 * of k. Every sum runs over k in order with separate multiply and add, so results do not depend on vector
 * width, threads or blocking. Scratch: linear.py, gemm_scratch.
 *
 * defines: GR_GEMM(args), GR_GEMM(run)
 */
#ifndef GR_CPU_GEMM_H
#define GR_CPU_GEMM_H
#ifdef __AVX__
#define GR_GEMM_BYTES 32
#else
#define GR_GEMM_BYTES 16
#endif
/* 6 x 2 vectors of sums, 2 of B, 1 of A and 1 product: the 16 vector registers of x86; 24, 4, 1 and 1 of the 32
 * of AArch64 */
#define GR_GEMM_ROWS 6
#ifdef __aarch64__
#define GR_GEMM_VECTORS 4
#else
#define GR_GEMM_VECTORS 2
#endif
#endif
#define GR_GEMM_LANES (GR_GEMM_BYTES / (int)sizeof(GR_U))
#define GR_GEMM_COLS (GR_GEMM_VECTORS * GR_GEMM_LANES)

typedef GR_U GR_GEMM(vector) __attribute__((vector_size(GR_GEMM_BYTES), may_alias));

typedef struct GR_GEMM(args) GR_GEMM(args);
struct GR_GEMM(args) {
  int64_t m, n, k;
  const GR_T *a;               /* a[i * a_row + p * a_col] */
  int64_t a_row, a_col;
  const void *b;               /* what pack_b reads: elements for the plain one, an image for conv.h */
  int64_t b_row, b_col;        /* b[p * b_row + j * b_col] for the plain one */
  void (*pack_b)(const GR_GEMM(args) *g, int64_t first_column, int64_t columns, GR_U *to);
  GR_T *c;                     /* c[i * c_row + j] */
  int64_t c_row;
  const GR_T *bias;            /* NULL, or bias[i * bias_row + j * bias_col] */
  int64_t bias_row, bias_col;
  const gr_steps *steps;       /* the epilogue; C's first row is row first_row of its plane */
  int64_t plane, first_row;
  GR_U *packed_a, *packed_b;
  int a_is_packed;             /* by the run before, with equal m, n, k and a */
};

/* ---------------------------------------------------------------- packing */

GR_INLINE void GR_GEMM(pack)(const GR_T *from, int64_t lane_step, int64_t k_step, int64_t lanes,
                             int64_t width, int64_t k, GR_U *to) {
  for (int64_t p = 0; p < k; p++) {
    for (int64_t l = 0; l < lanes; l++) to[l] = (GR_U)GR_LOAD(from[l * lane_step + p * k_step]);
    for (int64_t l = lanes; l < width; l++) to[l] = 0;
    to += width;
  }
}

static void GR_GEMM(pack_plain)(const GR_GEMM(args) *g, int64_t first_column, int64_t columns, GR_U *to) {
  const GR_T *b = (const GR_T *)g->b + first_column * g->b_col;
  if (g->b_col == 1 && columns == GR_GEMM_COLS) {
    GR_GEMM(pack)(b, 1, g->b_row, GR_GEMM_COLS, GR_GEMM_COLS, g->k, to);
  } else {
    GR_GEMM(pack)(b, g->b_col, g->b_row, columns, GR_GEMM_COLS, g->k, to);
  }
}

/* Panels first .. last-1 of both operands: those of A (unless it is packed), then those of B. */
static int32_t GR_GEMM(pack_panels)(void *ctx, int64_t first, int64_t last) {
  const GR_GEMM(args) *g = ctx;
  int64_t a_panels = g->a_is_packed ? 0 : gr_ceil_div(g->m, GR_GEMM_ROWS);
  for (int64_t i = first; i < last; i++) {
    if (i < a_panels) {
      int64_t row = i * GR_GEMM_ROWS;
      GR_GEMM(pack)(g->a + row * g->a_row, g->a_row, g->a_col, gr_min(GR_GEMM_ROWS, g->m - row), GR_GEMM_ROWS,
                    g->k, g->packed_a + row * g->k);
    } else {
      int64_t column = (i - a_panels) * GR_GEMM_COLS;
      g->pack_b(g, column, gr_min(GR_GEMM_COLS, g->n - column), g->packed_b + column * g->k);
    }
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- one block of C */

GR_INLINE void GR_GEMM(block)(int64_t k, const GR_U *a, const GR_U *b, GR_U *sums) {
  GR_GEMM(vector) acc[GR_GEMM_ROWS][GR_GEMM_VECTORS] = {{{0}}};
  for (int64_t p = 0; p < k; p++) {
    const GR_GEMM(vector) *row = (const GR_GEMM(vector) *)(b + p * GR_GEMM_COLS);
    const GR_U *column = a + p * GR_GEMM_ROWS;
#pragma GCC unroll 6
    for (int i = 0; i < GR_GEMM_ROWS; i++) {
#pragma GCC unroll 4
      for (int v = 0; v < GR_GEMM_VECTORS; v++) acc[i][v] += column[i] * row[v];
    }
  }
  memcpy(sums, acc, sizeof acc);
}

/* A block of C with its epilogue. */
static void GR_GEMM(store_steps)(const GR_GEMM(args) *g, int64_t row, int64_t column, int64_t rows,
                                 int64_t columns, const GR_U *sums) {
  GR_C values[GR_GEMM_ROWS * GR_GEMM_COLS];
  for (int64_t i = 0; i < rows; i++) {
    const GR_T *bias = g->bias ? g->bias + (row + i) * g->bias_row + column * g->bias_col : NULL;
    for (int64_t j = 0; j < columns; j++) {
      GR_U sum = sums[i * GR_GEMM_COLS + j];
      values[i * GR_GEMM_COLS + j] = (GR_C)(bias ? sum + (GR_U)GR_LOAD(bias[j * g->bias_col]) : sum);
    }
  }
  GR_STEPS(block)(g->steps, g->plane, g->first_row + row, column, rows, columns, values, GR_GEMM_COLS,
                  g->c + row * g->c_row + column, g->c_row);
}

GR_INLINE void GR_GEMM(store)(const GR_GEMM(args) *g, int64_t row, int64_t column, const GR_U *sums) {
  int64_t rows = gr_min(GR_GEMM_ROWS, g->m - row), columns = gr_min(GR_GEMM_COLS, g->n - column);
  if (g->steps) {
    GR_GEMM(store_steps)(g, row, column, rows, columns, sums);
    return;
  }
  for (int64_t i = 0; i < rows; i++) {
    GR_T *c = g->c + (row + i) * g->c_row + column;
    const GR_U *sum = sums + i * GR_GEMM_COLS;
    if (g->bias) {
      const GR_T *bias = g->bias + (row + i) * g->bias_row + column * g->bias_col;
      for (int64_t j = 0; j < columns; j++) {
        c[j] = GR_STORE((GR_C)(sum[j] + (GR_U)GR_LOAD(bias[j * g->bias_col])));
      }
    } else {
      for (int64_t j = 0; j < columns; j++) c[j] = GR_STORE((GR_C)sum[j]);
    }
  }
}

/* Blocks first .. last-1 of C, rows of one panel of B after the other: that panel stays in the cache. */
static int32_t GR_GEMM(blocks)(void *ctx, int64_t first, int64_t last) {
  const GR_GEMM(args) *g = ctx;
  int64_t a_panels = gr_ceil_div(g->m, GR_GEMM_ROWS);
  _Alignas(64) GR_U sums[GR_GEMM_ROWS * GR_GEMM_COLS];
  for (int64_t i = first; i < last; i++) {
    int64_t row = i % a_panels * GR_GEMM_ROWS, column = i / a_panels * GR_GEMM_COLS;
    GR_GEMM(block)(g->k, g->packed_a + row * g->k, g->packed_b + column * g->k, sums);
    GR_GEMM(store)(g, row, column, sums);
  }
  return GR_OK;
}

/* ---------------------------------------------------------------- all of C */

/* Everything of g but packed_a and packed_b is set (a_is_packed is 0 for a first run); scratch is 64-byte
 * aligned. */
GR_INLINE int32_t GR_GEMM(run)(const gr_call *call, GR_GEMM(args) *g) {
  if (g->m == 0 || g->n == 0) return GR_OK;
  int64_t a_panels = gr_ceil_div(g->m, GR_GEMM_ROWS), b_panels = gr_ceil_div(g->n, GR_GEMM_COLS);
  g->packed_b = call->scratch;
  g->packed_a = g->packed_b + b_panels * GR_GEMM_COLS * g->k;
  int64_t panel = gr_max(1, g->k * GR_GEMM_COLS), block = gr_max(1, 2 * g->k * GR_GEMM_ROWS * GR_GEMM_COLS);
  int64_t panels = b_panels + (g->a_is_packed ? 0 : a_panels);
  int32_t status = gr_parallel(call->env, panels, gr_ceil_div(GR_GRAIN, panel), GR_GEMM(pack_panels), g);
  if (status) return status;
  return gr_parallel(call->env, a_panels * b_panels, gr_ceil_div(GR_GRAIN, block), GR_GEMM(blocks), g);
}
