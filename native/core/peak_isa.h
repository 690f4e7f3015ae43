/* peak_isa.h: products in registers, as fast as one instruction set makes them.
 *
 * Included by: peak.c, once for each instruction set, behind a header of isa/. Ends that one with isa/end.h.
 * defines: one of GR_ISA(gr_peak_pairs), where GR_PEAK_OF_PAIRS says so, GR_ISA(gr_peak_bytes), where there is GR_ISA_DOTS,
 * GR_ISA(gr_peak_floats)
 */
#define GR_PEAK_STARTS(T) \
  T sums[GR_PEAK_SUMS];   \
  for (int s = 0; s < GR_PEAK_SUMS; s++) sums[s] = (T)GR_ISA_SPLAT((float)s)

/* A sum waits for its last product, so there are as many of them as keep the units busy; all start from another
 * value, else the compiler makes one of them. */
#define GR_PEAK_LOOP(T, next)                                      \
  GR_PEAK_STARTS(T);                                               \
  for (int64_t i = 0; i < rounds; i++) {                           \
    _Pragma("GCC unroll 32")                                       \
    for (int s = 0; s < GR_PEAK_SUMS; s++) sums[s] = next;         \
  }                                                                \
  for (int s = 1; s < GR_PEAK_SUMS; s++) sums[0] += sums[s];       \
  memcpy(made, &sums[0], 4)

#if defined(GR_PEAK_OF_PAIRS)
GR_ISA_TARGET static __attribute__((noinline)) double GR_ISA(gr_peak_pairs)(int64_t rounds, float *made) {
  GR_V x = GR_ISA_SPLAT(0.5f), y = GR_ISA_SPLAT(1.0f);
  GR_PEAK_LOOP(GR_V, GR_ISA(gr_dot)(x, y, sums[s]));
  return 4.0 * GR_ISA_LANES * GR_PEAK_SUMS * (double)rounds;
}
#elif defined(GR_ISA_DOTS)
GR_ISA_TARGET static __attribute__((noinline)) double GR_ISA(gr_peak_bytes)(int64_t rounds, float *made) {
  GR_VI y = (GR_VI)(GR_V)GR_ISA_SPLAT(1.0f);
  GR_PEAK_LOOP(GR_VI, GR_ISA(gr_dot)(sums[s], y, sums[s]));
  return 8.0 * GR_ISA_LANES * GR_PEAK_SUMS * (double)rounds;
}
#else
GR_ISA_TARGET static __attribute__((noinline)) double GR_ISA(gr_peak_floats)(int64_t rounds, float *made) {
  GR_V half = GR_ISA_SPLAT(0.5f), one = GR_ISA_SPLAT(1.0f);
  GR_PEAK_LOOP(GR_V, GR_ISA_FUSED(sums[s], half, one));
  return 2.0 * GR_ISA_LANES * GR_PEAK_SUMS * (double)rounds;
}
#endif

#undef GR_PEAK_STARTS
#undef GR_PEAK_LOOP
#undef GR_PEAK_OF_PAIRS
#undef GR_ISA_DOTS
#undef GR_ISA_FOUR
#include "isa/end.h"
