/* quantized_linear.h: quantized_dense, weights as int16 or in panels of bytes (byte_panels.h). The template's type
 * is that of the epilogue, which float32 results have.
 *
 * Arguments and attribute words: ir/ops/integers/quantized_products.py.
 *
 * defines: gr_cpu_quantized_dense__f32, gr_cpu_quantized_dense_packed__f32
 */
#include "byte_panels.h"
#include "cpu/finish.h"
#include "cpu/requant.h"

static void gr_after_quantized(const gr_bytes *p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  gr_finish_block(p->steps, row, rows, column, columns, (float *)p->c + row * p->c_row + column, p->c_row);
}

/* gr-kernel: cpu/quantized_dense_packed : f32 */
static inline int32_t GR_BODY(quantized_dense_packed)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *out = &call->args[call->nargs - 1];
  int64_t k = x->shape[x->ndim - 1], n = call->attrs[0];
  const int64_t *words = call->attrs + 4;
  int32_t own = gr_steps_own(call, words);
  gr_bytes p = {.rows = gr_span(x, 0, x->ndim - 1), .n = n, .k = k, .a = gr_ptr(x), .a_row = k,
                .flip = x->dtype == GR_I8 ? 0x80 : 0, .b = gr_ptr(w), .c = gr_ptr(out), .c_row = n};
  if (gr_size(out) == 0) return GR_OK;
  p.zero = (uint8_t)(gr_bytes_zero(&call->args[2]) ^ p.flip);
  gr_bytes_prepare(&p.made, &p.shift, call->scratch, n, (const int32_t *)(p.b + gr_bytes_units(k) * 4 * GR_PANEL),
                   gr_bytes_panel(k) / 4, p.zero, own > 3 ? &call->args[3] : NULL, own > 4 ? &call->args[4] : NULL,
                   out, call->attrs + 1);
  gr_steps steps;
  gr_steps_open(&steps, call, words, 0, out->ndim - 1);
  p.after = steps.count ? gr_after_quantized : NULL;
  p.steps = &steps;
  return gr_bytes_run(call->env, &p);
}

/* ---------------------------------------------------------------- weights as they are */

typedef struct gr_quantized_rows {
  const gr_call *call;
  gr_plain_requant made;
  int64_t n, k;
} gr_quantized_rows;

static int32_t gr_quantized_dense_rows(void *ctx, int64_t first, int64_t last) {
  const gr_quantized_rows *s = ctx;
  const gr_arg *x = &s->call->args[0];
  const int16_t *w = gr_ptr(&s->call->args[1]);
  int32_t zero = gr_plain_zero(&s->call->args[2]);
  for (int64_t row = first; row < last; ++row) {
    for (int64_t j = 0; j < s->n; ++j) {
      uint32_t sum = 0;
      for (int64_t p = 0; p < s->k; ++p)
        sum += (uint32_t)((gr_plain_byte(x, row * s->k + p) - zero) * (int32_t)w[j * s->k + p]);
      gr_plain_store(&s->made, (int32_t)sum, j, row * s->n + j);
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/quantized_dense : f32 */
static inline int32_t GR_BODY(quantized_dense)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *out = &call->args[call->nargs - 1];
  gr_quantized_rows s = {.call = call, .n = call->args[1].shape[0], .k = call->args[1].shape[1]};
  if (gr_size(out) == 0) return GR_OK;
  const int64_t *words = call->attrs + 4;
  s.made = gr_plain_requant_of(call, gr_steps_own(call, words), call->attrs + 1);
  int64_t rows = gr_span(x, 0, x->ndim - 1);
  int32_t status = gr_parallel(call->env, rows, gr_ceil_div(GR_GRAIN, gr_max(1, s.n * s.k)), gr_quantized_dense_rows, &s);
  gr_steps steps;
  gr_steps_open(&steps, call, words, 0, out->ndim - 1);
  if (!status && steps.count) gr_finish_block(&steps, 0, rows, 0, s.n, gr_ptr(out), s.n);
  return status;
}
