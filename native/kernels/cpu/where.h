/* where.h: a where cond, else b. Template over the element's size; out may be a or b.
 *
 * defines: gr_cpu_where__<b1|b2|b4|b8>
 */
#include "cpu/broadcast.h"

static void GR_FN(where_row)(void *to, const void *const *in, int64_t n, const int64_t *words) {
  const gr_b1 *cond = in[0];
  const GR_T *a = in[1], *b = in[2];
  GR_T *out = to;
  (void)words;
  GR_INDEPENDENT
  for (int64_t i = 0; i < n; i++) {
    GR_T yes = a[i], no = b[i]; /* both are read, so that no branch is left */
    out[i] = cond[i] ? yes : no;
  }
}

/* gr-kernel: cpu/where : b1 b2 b4 b8 */
static inline int32_t GR_BODY(where)(const gr_call *call) {
  const int64_t sizes[3] = {1, sizeof(GR_T), sizeof(GR_T)};
  return gr_broadcast(call, 3, sizes, sizeof(GR_T), 1, GR_FN(where_row));
}
