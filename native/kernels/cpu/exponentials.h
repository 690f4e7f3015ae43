/* exponentials.h: exp expm1 log1p logistic tanh erf erfc gelu of floats. Without branches, tables or calls, so that loops
 * over them become vector code. Template, of
 *   GR_FUSED         0: each operation rounds, so that every machine gives the same bits; 1: multiply-adds round once,
 *                    which is faster and as accurate, for code of machines that have them
 *   GR_FLOATS(name)  the name of a function
 * both of which end here. exp, expm1, log1p and tanh are within 2 ulp of the exact value, erf within 3, logistic and
 * gated by its own argument (silu) within 4, erfc and gelu within 8.
 *
 * Included by: common.h, twice. Thread: any.
 * defines: GR_FLOATS({exp expm1 log1p logistic gated tanh erf erfc gelu})
 */
#if GR_FUSED
#define GR_PLUS(a, b, c) __builtin_fmaf(a, b, c)
#else
#define GR_PLUS(a, b, c) ((a) * (b) + (c))
#endif
#define GR_ROUND 12582912.0f /* 1.5 * 2^23: adding it leaves an integer in the low bits */
#define GR_LOG2E 1.44269504f
#define GR_LN2_HIGH 0.693359375f /* few bits: products with small integers are exact */
#define GR_LN2_LOW 2.12194440e-4f /* high - low = ln 2 */

GR_INLINE uint32_t GR_FLOATS(bits)(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

GR_INLINE float GR_FLOATS(of_bits)(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

/* e^r - 1 for |r| <= ln 2 / 2: a polynomial, in pairs of terms (Estrin), because a loop over it waits for its longest
 * chain of sums. */
GR_INLINE float GR_FLOATS(exp_rest)(float r) {
  float square = r * r;
  float high = GR_PLUS(1.9875691500e-4f, r, 1.3981999507e-3f);
  float middle = GR_PLUS(8.3334519073e-3f, r, 4.1665795894e-2f);
  float low = GR_PLUS(1.6666665459e-1f, r, 5.0000001201e-1f);
  float y = GR_PLUS(GR_PLUS(high, square, middle), square, low);
  return GR_PLUS(y, square, r);
}

/* e^r for |r| <= ln 2 / 2, within 1e-7 of it and exact of 0: where two units in the last place are enough. */
GR_INLINE float GR_FLOATS(exp_near)(float r) {
  float square = r * r;
  float high = GR_PLUS(8.290282139e-3f, r, 4.189815714e-2f);
  float middle = GR_PLUS(1.666763793e-1f, r, 4.999914786e-1f);
  float low = GR_PLUS(9.999997064e-1f, r, 1.0f);
  return GR_PLUS(GR_PLUS(high, square, middle), square, low);
}

/* x - n ln 2 */
GR_INLINE float GR_FLOATS(exp_reduced)(float x, float n) {
  return GR_PLUS(n, GR_LN2_LOW, GR_PLUS(n, -GR_LN2_HIGH, x));
}

/* e^x: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r, then 2^n in two factors (n = -149 .. 128). */
GR_INLINE float GR_FLOATS(exp)(float x) {
  float clamped = gr_select(x > 89.0f, 89.0f, gr_select(x < -104.0f, -104.0f, x));
  float shifted = GR_PLUS(clamped, GR_LOG2E, GR_ROUND), n = shifted - GR_ROUND;
  float y = GR_FLOATS(exp_rest)(GR_FLOATS(exp_reduced)(clamped, n)) + 1.0f;
  int32_t power = (int32_t)(GR_FLOATS(bits)(shifted) - GR_FLOATS(bits)(GR_ROUND)), half = power >> 1;
  float a = GR_FLOATS(of_bits)((uint32_t)(half + 127) << 23);
  float b = GR_FLOATS(of_bits)((uint32_t)(power - half + 127) << 23);
  return y * a * b; /* a NaN is in y, whatever the powers are then */
}

/* e^-z 2^100 of 0 <= z <= 157.3 or NaN, a normal number or 0: what it is multiplied with reaches the least numbers by
 * 2^-100 and rounds once there. z of 157.3 makes 2^n of an exponent that is 0, which is 0. */
GR_INLINE float GR_FLOATS(exp_raised)(float z) {
  float shifted = GR_PLUS(z, -GR_LOG2E, GR_ROUND), n = shifted - GR_ROUND;
  float y = GR_FLOATS(exp_near)(GR_FLOATS(exp_reduced)(-z, n));
  return y * GR_FLOATS(of_bits)((GR_FLOATS(bits)(shifted) << 23) + (227u << 23)); /* a NaN is in y */
}

/* |x|, but 157.3 at most; a NaN stays one. */
GR_INLINE float GR_FLOATS(size)(float x) {
  float z = fabsf(x);
  return gr_select(z > 157.3f, 157.3f, z);
}

/* a / (1 + e^-x) by e^-z, z = size(x), times 2^100, so that nothing overflows. Of x below 0 both parts of the quotient
 * are 2^100 times as large, so that it rounds once, where it is small, too. */
GR_INLINE float GR_FLOATS(gated_by)(float a, float x, float raised) {
  float one = gr_select(x >= 0, 1.0f, 0x1p100f), part = gr_select(x >= 0, 0x1p-100f, 1.0f);
  return a * gr_select(x >= 0, 1.0f, raised) / GR_PLUS(raised, part, one);
}

GR_INLINE float GR_FLOATS(logistic)(float x) {
  return GR_FLOATS(gated_by)(1.0f, x, GR_FLOATS(exp_raised)(GR_FLOATS(size)(x)));
}

/* a / (1 + e^-x), of an a that is NaN where x is: so bits of the size are compared, which takes less time. */
GR_INLINE float GR_FLOATS(gated)(float a, float x) {
  uint32_t z = GR_FLOATS(bits)(x) & 0x7fffffffu, most = GR_FLOATS(bits)(157.3f);
  return GR_FLOATS(gated_by)(a, x, GR_FLOATS(exp_raised)(GR_FLOATS(of_bits)(z < most ? z : most)));
}

/* e^x - 1: as exp, but 1 is taken from the power, which is exact where the result is small. */
GR_INLINE float GR_FLOATS(expm1)(float x) {
  float clamped = gr_select(x > 89.0f, 89.0f, gr_select(x < -18.0f, -18.0f, x));
  float shifted = GR_PLUS(clamped, GR_LOG2E, GR_ROUND), n = shifted - GR_ROUND;
  float rest = GR_FLOATS(exp_rest)(GR_FLOATS(exp_reduced)(clamped, n));
  int32_t power = (int32_t)(GR_FLOATS(bits)(shifted) - GR_FLOATS(bits)(GR_ROUND)), half = power >> 1;
  float a = GR_FLOATS(of_bits)((uint32_t)(half + 127) << 23);
  float b = GR_FLOATS(of_bits)((uint32_t)(power - half + 127) << 23);
  float one = GR_FLOATS(of_bits)((uint32_t)(half - power + 127) << 23); /* 1 / b, which b makes 1 */
  return GR_PLUS(rest, a, a - one) * b;
}

/* log(1 + t), of 0 <= t <= 1 or NaN only: 2 artanh(s) with s = t / (2 + t) <= 1/3, its series. */
GR_INLINE float GR_FLOATS(log1p)(float t) {
  float s = t / (2.0f + t), z = s * s;
  float p = 0.153846154f;
  p = GR_PLUS(p, z, 0.181818182f);
  p = GR_PLUS(p, z, 0.222222222f);
  p = GR_PLUS(p, z, 0.285714286f);
  p = GR_PLUS(p, z, 0.4f);
  p = GR_PLUS(p, z, 0.666666667f);
  return GR_PLUS(s * z, p, 2.0f * s);
}

GR_INLINE float GR_FLOATS(tanh)(float x) {
  float z = x * x, small = -5.70498872745e-3f;
  small = GR_PLUS(small, z, 2.06390887954e-2f);
  small = GR_PLUS(small, z, -5.37397155531e-2f);
  small = GR_PLUS(small, z, 1.33314422036e-1f);
  small = GR_PLUS(small, z, -3.33332819422e-1f);
  small = GR_PLUS(small * z, x, x);
  float e = GR_FLOATS(exp_raised)(GR_FLOATS(size)(2.0f * x)) * 0x1p-100f, large = 1.0f - 2.0f * e / (1.0f + e);
  return copysignf(gr_select(fabsf(x) < 0.625f, small, large), x); /* -0, too */
}

/* Formula for |x| < 0.85: x P(x^2). */
GR_INLINE float GR_FLOATS(erf_near)(float x) {
  float z = x * x;
  float p = 8.83625471e-05f;
  p = GR_PLUS(p, z, -0.000824429095f);
  p = GR_PLUS(p, z, 0.0052092988f);
  p = GR_PLUS(p, z, -0.0268624816f);
  p = GR_PLUS(p, z, 0.112837471f);
  p = GR_PLUS(p, z, -0.376126379f);
  p = GR_PLUS(p, z, 1.12837923f);
  return x * p;
}

/* The upper half of z, whose square is exact. */
GR_INLINE float GR_FLOATS(upper_half)(float z) {
  return GR_FLOATS(of_bits)(GR_FLOATS(bits)(z) & 0xfffff000u);
}

/* erfc(z) = t P(t) e^(-z^2) with t = 1 / (1 + z / 2), z = |x|. What squaring drops of z is made good by a few
 * terms of its exponential. */
GR_INLINE float GR_FLOATS(erfc)(float x) {
  float size = fabsf(x), z = gr_select(size > 10.1f, 10.1f, size); /* there it is 0 */
  float high = GR_FLOATS(upper_half)(z), t = 1.0f / GR_PLUS(0.5f, z, 1.0f);
  float q = 0.0357671455f;
  q = GR_PLUS(q, t, -0.191033587f);
  q = GR_PLUS(q, t, 0.381420046f);
  q = GR_PLUS(q, t, -0.289592415f);
  q = GR_PLUS(q, t, -0.021959994f);
  q = GR_PLUS(q, t, 0.0354058221f);
  q = GR_PLUS(q, t, 0.0548779443f);
  q = GR_PLUS(q, t, 0.185594946f);
  q = GR_PLUS(q, t, 0.245179161f);
  q = GR_PLUS(q, t, 0.282252401f);
  q = GR_PLUS(q, t, 0.282088518f);
  float low = (high - z) * (high + z);
  float rest = GR_PLUS(low, GR_PLUS(low, GR_PLUS(low, GR_PLUS(low, 0.0416666667f, 0.166666667f), 0.5f), 1.0f), 1.0f);
  float y = t * q * rest * GR_FLOATS(exp)(-high * high);
  return gr_select(z < 0.5f, 1.0f - GR_FLOATS(erf_near)(x), gr_select(x < 0.0f, 2.0f - y, y));
}

GR_INLINE float GR_FLOATS(erf)(float x) {
  float z = fabsf(x);
  return gr_select(z < 0.85f, GR_FLOATS(erf_near)(x), copysignf(1.0f - GR_FLOATS(erfc)(z), x));
}

/* gelu(x) = max(x, 0) - z Q(z), z = |x|, Q the upper tail of the normal distribution: nothing cancels, neither near 0
 * nor far below it. In a = z / 2, Q = e^(-2 a^2) P(a) / S(a), whose quotient is within 6e-9 (a minimax fit on z of
 * 0 .. 13.5). The exponent is a square and what rounding it drops: of the upper half of a, whose square is exact, or by
 * a fused product. 2^(n + 100) and the product by 2^-100 reach the least numbers. x / 2 and its size add up to
 * max(x, 0), and to NaN of -infinity, as 0 times it is. */
GR_INLINE float GR_FLOATS(gelu)(float x) {
  float side = 0.5f * x, size = fabsf(side), a = gr_select(size < 7.25f, size, 7.25f); /* there Q is 0 */
#if GR_FUSED
  float twice = -(a + a), square = twice * a, rest = __builtin_fmaf(twice, a, -square);
  float shifted = __builtin_fmaf(square, GR_LOG2E, GR_ROUND), n = shifted - GR_ROUND;
  float r = __builtin_fmaf(n, -GR_LN2_HIGH, square) + __builtin_fmaf(n, GR_LN2_LOW, rest);
#else
  float high = GR_FLOATS(upper_half)(a), square = -2.0f * high * high, rest = 2.0f * (high - a) * (high + a);
  float shifted = (square + rest) * GR_LOG2E + GR_ROUND, n = shifted - GR_ROUND;
  float r = square - n * GR_LN2_HIGH + (rest + n * GR_LN2_LOW);
#endif
  float y = GR_FLOATS(exp_near)(r);
  uint32_t power = (GR_FLOATS(bits)(shifted) << 23) + (100u << 23);
  y = GR_FLOATS(of_bits)(GR_FLOATS(bits)(y) + power); /* a product: exponents are added */
  float above = 0.06459125136f;
  above = GR_PLUS(above, a, 0.320782244f);
  above = GR_PLUS(above, a, 0.726580144f);
  above = GR_PLUS(above, a, 0.872290432f);
  above = GR_PLUS(above, a, 0.5f);
  float below = 0.323808064f;
  below = GR_PLUS(below, a, 1.608279104f);
  below = GR_PLUS(below, a, 3.722184896f);
  below = GR_PLUS(below, a, 4.78357172f);
  below = GR_PLUS(below, a, 3.34035062f);
  below = GR_PLUS(below, a, 1.0f);
  return GR_PLUS(above / below * y * a, -0x1p-99f, side + size);
}

#undef GR_PLUS
#undef GR_ROUND
#undef GR_LOG2E
#undef GR_LN2_HIGH
#undef GR_LN2_LOW
#undef GR_FUSED
#undef GR_FLOATS
