/* neon.h: vectors of four floats, NEON, which every AArch64 machine has; what is defined: any.h.
 *
 * GR_NEON is 1, or what a test says: 0 chooses what stands for any machine.
 */
#ifndef GR_ISA_NEON_TYPES
#define GR_ISA_NEON_TYPES
#include <arm_neon.h>

#include "isa/halves.h"

#ifndef GR_NEON
#define GR_NEON 1
#endif
typedef float gr_floats_neon __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t gr_ints_neon __attribute__((vector_size(16), aligned(4), may_alias));

/* x where wanted (all bits of a lane set), else y. vmaxq_f32 would keep a NaN of either. */
static inline gr_floats_neon gr_choose_neon(gr_ints_neon wanted, gr_floats_neon x, gr_floats_neon y) {
  return (gr_floats_neon)vbslq_f32((uint32x4_t)wanted, (float32x4_t)x, (float32x4_t)y);
}

static inline gr_floats_neon gr_shuffle_neon(gr_floats_neon x, gr_ints_neon at) {
  gr_floats_neon made = {x[at[0]], x[at[1]], x[at[2]], x[at[3]]};
  return made;
}

GR_ISA_HALVES(neon, 4, )
#endif

#define GR_ISA(name) name##_neon
#define GR_ISA_LANES 4
#define GR_ISA_TARGET
#define GR_ISA_SPLAT(x) {x, x, x, x}
#define GR_ISA_FUSED(x, y, z) (gr_floats_neon)vfmaq_f32((float32x4_t)(z), (float32x4_t)(x), (float32x4_t)(y))
#define GR_ISA_SHUFFLE(x, at) gr_shuffle_neon(x, at)
#define GR_ISA_MAX(x, y) gr_choose_neon((x) > (y), x, y)
#define GR_ISA_MIN(x, y) gr_choose_neon((x) < (y), x, y)
#define GR_ISA_KEEP(x)
#define GR_V gr_floats_neon
#define GR_VI gr_ints_neon
#define GR_ALWAYS static inline __attribute__((always_inline))
