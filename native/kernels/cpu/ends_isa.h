/* ends_isa.h: ends.h for one instruction set; included once for each, and by ends.h only.
 *
 * defines: GR_ISA(gr_ends_of)
 */

/* The least and the greatest of n numbers and of those given; NaN where one of them is a NaN. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_ends_of)(const float *x, int64_t n, float *low,
                                                                       float *high) {
  const int64_t step = 4 * GR_ISA_LANES;
  GR_V least[4], most[4], odd[4], none = {0};
  int64_t i = 0;
  float a = *low, b = *high, strange = 0;
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    least[v] = none + a;
    most[v] = none + b;
    odd[v] = none;
  }
  for (; i + step <= n; i += step) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      GR_V here = *(const GR_V *)(x + i + v * GR_ISA_LANES);
      least[v] = GR_ISA_MIN(here, least[v]);
      most[v] = GR_ISA_MAX(here, most[v]);
      odd[v] += here - here;             /* 0, but NaN of a NaN or an infinity */
    }
  }
  for (int v = 0; v < 4; ++v) {
    for (int lane = 0; lane < GR_ISA_LANES; ++lane) {
      a = least[v][lane] < a ? least[v][lane] : a;
      b = most[v][lane] > b ? most[v][lane] : b;
      strange += odd[v][lane];
    }
  }
  for (int64_t j = strange == 0 ? i : 0; j < n; ++j) {
    a = x[j] < a || x[j] != x[j] ? x[j] : a;
    b = x[j] > b || x[j] != x[j] ? x[j] : b;
    if (x[j] != x[j]) break;
  }
  *low = a;
  *high = b;
}

#include "isa/end.h"
