/* pack.h: pack_panels, weights [n, ..] or [k, n] to panels of 32 columns (panels.h). float32 only: it is a move,
 * padded with zeros.
 *
 * defines: gr_cpu_pack_panels__b4
 */

typedef struct GR_FN(packing) {
  const GR_T *w;
  GR_T *out;
  int64_t n, channels, taps;           /* w is [n][channels][taps], or with transposed [channels][n] */
  int64_t transposed;
} GR_FN(packing);

/* Panels first .. last-1. Element p of k is channel p % channels of tap p / channels. */
static int32_t GR_FN(pack_some)(void *ctx, int64_t first, int64_t last) {
  const GR_FN(packing) *s = ctx;
  int64_t k = s->channels * s->taps;
  for (int64_t panel = first; panel < last; panel++) {
    GR_T *out = s->out + panel * k * 32;
    for (int64_t p = 0; p < k; p++) {
      for (int64_t j = panel * 32; j < panel * 32 + 32; j++) {
        int64_t at = s->transposed ? p * s->n + j : (j * s->channels + p % s->channels) * s->taps + p / s->channels;
        *out++ = j < s->n ? s->w[at] : 0;
      }
    }
  }
  return GR_OK;
}

/* gr-kernel: cpu/pack_panels : b4 */
static inline int32_t GR_BODY(pack_panels)(const gr_call *call) {
  const gr_arg *w = &call->args[0];
  int64_t transposed = call->attrs[0];
  GR_FN(packing) s = {gr_ptr(w), gr_ptr(&call->args[1]), w->shape[transposed], w->shape[!transposed],
                      gr_span(w, 2, w->ndim), transposed};
  int64_t cost = gr_max(1, 32 * s.channels * s.taps);
  return gr_parallel(call->env, call->args[1].shape[0], gr_ceil_div(GR_GRAIN, cost), GR_FN(pack_some), &s);
}
