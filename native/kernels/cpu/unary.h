/* unary.h: relu. Template over floats and signed integers; out may be the input. Functions of floats only are
 * in functions.h.
 *
 * defines: gr_cpu_relu__<suffix>
 */
static int32_t GR_FN(relu_flat)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const GR_T *x = gr_ptr(&call->args[0]);
  GR_T *out = gr_ptr(&call->args[1]);
  GR_INDEPENDENT
  for (int64_t i = first; i < last; i++) {
    GR_C a = GR_LOAD(x[i]);
    out[i] = GR_STORE(a < 0 ? 0 : a); /* NaN stays */
  }
  return GR_OK;
}

/* gr-kernel: cpu/relu : f32 f64 f16 bf16 i8 i16 i32 i64 */
static inline int32_t GR_BODY(relu)(const gr_call *call) {
  return gr_parallel(call->env, gr_size(&call->args[1]), GR_GRAIN, GR_FN(relu_flat), (void *)(uintptr_t)call);
}
