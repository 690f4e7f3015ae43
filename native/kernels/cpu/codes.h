/* codes.h: floats as codes of a format of 8 or 4 bits, one a byte. Template over floats.
 *
 * Arguments, attribute words and rules: ir/ops/elements/codes.py.
 *
 * defines: gr_cpu_encode__<suffix>
 */
#ifndef GR_CPU_CODES_H
#define GR_CPU_CODES_H

enum gr_code_word {
  GR_CODE_DIGITS,
  GR_CODE_BIAS,
  GR_CODE_MOST,
  GR_CODE_OVER,
  GR_CODE_INFINITE,
  GR_CODE_NAN,
  GR_CODE_SIGN,
  GR_CODE_NEGATIVE_ZERO,
  GR_CODE_ROUNDING
};
enum gr_code_rounding { GR_CODE_NEAREST, GR_CODE_UP, GR_CODE_DOWN };

/* The code of a size that is no NaN. Numbers below the least normal one share its exponent. */
GR_INLINE int64_t gr_code_of(const int64_t *words, double size) {
  if (isinf(size)) return words[GR_CODE_INFINITE];
  if (size == 0) return 0;
  int exponent = 0, least = 1 - (int)words[GR_CODE_BIAS];
  frexp(size, &exponent);
  exponent = exponent - 1 > least ? exponent - 1 : least;
  double steps = nearbyint(ldexp(size, (int)words[GR_CODE_DIGITS] - exponent));
  if (exponent - least > 64) return words[GR_CODE_OVER];
  int64_t code = ((int64_t)(exponent - least) << words[GR_CODE_DIGITS]) + (int64_t)steps;
  return code > words[GR_CODE_MOST] ? words[GR_CODE_OVER] : code;
}

GR_INLINE uint8_t gr_encode(const int64_t *words, double x) {
  int64_t code = x != x ? words[GR_CODE_NAN] : gr_code_of(words, fabs(x));
  int plain = !signbit(x) || (!words[GR_CODE_NEGATIVE_ZERO] && (!code || code == words[GR_CODE_NAN]));
  return (uint8_t)(plain ? code : code | 1 << words[GR_CODE_SIGN]);
}

/* A power of two: the exponent, and one more where the fraction rounds up. */
GR_INLINE uint8_t gr_encode_power(const int64_t *words, float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  uint32_t code = bits >> 23 & 0xff, fraction = bits & 0x7fffff, up = 0;
  if (code == 0xff) return 0xff;
  if (words[GR_CODE_ROUNDING] == GR_CODE_UP) up = fraction > 0;
  if (words[GR_CODE_ROUNDING] == GR_CODE_NEAREST) up = code ? fraction >= 0x400000 : fraction > 0x400000;
  code += up;
  return (uint8_t)(code > words[GR_CODE_MOST] ? words[GR_CODE_OVER] : code);
}

#endif

static int32_t GR_FN(encode_flat)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const GR_T *x = gr_ptr(&call->args[0]);
  uint8_t *out = gr_ptr(&call->args[1]);
  for (int64_t i = first; i < last; i++)
    out[i] = call->attrs[GR_CODE_SIGN] < 0 ? gr_encode_power(call->attrs, (float)GR_LOAD(x[i]))
                                           : gr_encode(call->attrs, (double)GR_LOAD(x[i]));
  return GR_OK;
}

/* gr-kernel: cpu/encode : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(encode)(const gr_call *call) {
  return gr_each(call, gr_ceil_div(GR_GRAIN, 32), GR_FN(encode_flat));
}
