/* special.h: functions that the C library has not, of one number in double: a float result is rounded once, so it is
 * the nearest float nearly always.
 *
 * Included by: cpu/scalars.h and tt/scalars.h, for the lines of functions.h. Thread: any.
 * defines: gr_bessel_i0, gr_digamma
 */
#ifndef GR_SPECIAL_H
#define GR_SPECIAL_H

#include "cpu/common.h"

/* The modified Bessel function of order 0, within 6 ulp. Below 8 its power series, of no negative term; from
 * there on e^x / sqrt(x) times a Chebyshev series of 16 / x - 1. The exponential enters by its square root, twice: it
 * is infinite before the result is. */
GR_INLINE double gr_bessel_i0(double a) {
  static const double far[] = {
      0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
      2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
      1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
      7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
      -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
      -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18,
      -7.233180487874754e-18};
  double x = fabs(a);
  if (x < 8) {
    double z = 0.25 * x * x, sum = 1, term = z;
    for (int k = 2; term > 1e-17 * sum; k++) {
      sum += term;
      term *= z / (k * k);
    }
    return sum;
  }
  if (x - x != 0) return x; /* infinite, or NaN */
  double t = 32 / x - 2, one = 0, two = 0, root = exp(0.5 * x);
  for (int k = (int)(sizeof far / sizeof *far) - 1; k > 0; k--) {
    double next = t * one - two + far[k];
    two = one;
    one = next;
  }
  return root * ((0.5 * t * one - two + far[0]) / sqrt(x)) * root;
}

/* The derivative of lgamma. Below 0 by the reflection at 1/2, whose tangent is taken of the distance to the nearest
 * pole; then up to 10 by psi(x) = psi(x + 1) - 1 / x; from there on the asymptotic series. At 0 minus infinity with the
 * sign of x, at the other poles and at minus infinity NaN, as torch has it. Within 16 ulp of double; where the result
 * is below 1/2, within 2e-15. */
GR_INLINE double gr_digamma(double x) {
  const double pi = 3.14159265358979323846;
  double sum = 0;
  if (x == 0) return copysign(INFINITY, -x);
  if (x < 0) {
    double rest = x - rint(x);
    if (rest == 0) return NAN;
    sum = -pi / tan(pi * rest);
    x = 1 - x;
  }
  for (; x < 10; x += 1) sum -= 1 / x;
  double z = 1 / (x * x), y = 1.0 / 12;
  y = 691.0 / 32760 - z * y;
  y = 1.0 / 132 - z * y;
  y = 1.0 / 240 - z * y;
  y = 1.0 / 252 - z * y;
  y = 1.0 / 120 - z * y;
  y = 1.0 / 12 - z * y;
  return sum + (log(x) - 0.5 / x - z * y);
}

#endif
