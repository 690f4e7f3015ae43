/* compress.h: the parts of a tensor along an axis where a condition holds. Template over element sizes.
 *
 * Attribute words and outputs: ir/ops/counted.py.
 *
 * defines: gr_cpu_compress__<suffix>
 */

/* gr-kernel: cpu/compress : b1 b2 b4 b8 */
static inline int32_t GR_BODY(compress)(const gr_call *call) {
  const gr_arg *x = &call->args[0], *condition = &call->args[1], *out = &call->args[2];
  int32_t axis = (int32_t)call->attrs[0];
  const uint8_t *holds = (const uint8_t *)gr_ptr(condition);
  int64_t outer = gr_span(x, 0, axis), inner = gr_span(x, axis + 1, x->ndim), n = condition->shape[0],
          found = 0;
  for (int64_t o = 0; o < outer; o++) {
    const GR_T *from = (const GR_T *)gr_ptr(x) + o * x->shape[axis] * inner;
    GR_T *to = (GR_T *)gr_ptr(out) + o * n * inner, *end = to + n * inner;
    for (int64_t i = 0; i < n; i++) {
      if (!holds[i]) continue;
      memcpy(to, from + i * inner, (size_t)inner * sizeof *to);
      to += inner;
    }
    memset(to, 0, (size_t)(end - to) * sizeof *to);
  }
  for (int64_t i = 0; i < n; i++) found += holds[i] != 0;
  *(int64_t *)gr_ptr(&call->args[3]) = found;
  return GR_OK;
}
