/* bitcast.h: the same bits as elements of another dtype. Template over element sizes.
 *
 * Rules: ir/ops/elements/codes.py.
 *
 * defines: gr_cpu_bitcast__<suffix>
 */
static int32_t GR_FN(bitcast_flat)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = (const gr_call *)ctx;
  const GR_T *x = (const GR_T *)gr_ptr(&call->args[0]);
  GR_T *out = (GR_T *)gr_ptr(&call->args[1]);
  int truth = call->args[1].dtype == GR_BOOL;
  for (int64_t i = first; i < last; i++) out[i] = truth ? x[i] != 0 : x[i];
  return GR_OK;
}

/* gr-kernel: cpu/bitcast : b1 b2 b4 b8 */
static inline int32_t GR_BODY(bitcast)(const gr_call *call) { return gr_each(call, GR_GRAIN, GR_FN(bitcast_flat)); }
