/* requant.h: sums of quantized products to elements, one at a time: what the kernels of plain weights use. The
 * arithmetic is that of gr_requant (byte_panels.h).
 *
 * Included by: quantized_linear.h, quantized_conv.h. Thread: any.
 * defines: gr_plain_requant, gr_plain_requant_of, gr_plain_store, gr_plain_byte, gr_plain_zero, gr_round_to_byte
 */
#ifndef GR_CPU_REQUANT_H
#define GR_CPU_REQUANT_H

#include "cpu/common.h"

/* x, rounded to nearest, ties to even, kept in least .. most, which lie within +-2^22; a NaN becomes the least. */
GR_INLINE int32_t gr_round_within(float x, float least, float most) {
  x = x > least ? x : least;
  x = x < most ? x : most;
  x += 12582912.0f;                    /* 1.5 * 2^23: what is left is an integer in the low bits */
  int32_t bits;
  memcpy(&bits, &x, 4);
  return bits - 0x4b400000;
}

typedef struct gr_plain_requant {
  void *out;
  int32_t dtype, zero;
  const float *scale;                  /* NULL: sums as they are */
  int64_t scale_step;
  const void *bias;                    /* NULL, int32 where results are integers, or float */
  float least, most;
} gr_plain_requant;

/* own: inputs of the call before those of its epilogue: x, w, x's zero point, scale, bias. end: the result's zero
 * point, least and greatest. */
static inline gr_plain_requant gr_plain_requant_of(const gr_call *call, int32_t own, const int64_t *end) {
  const gr_arg *out = &call->args[call->nargs - 1];
  return (gr_plain_requant){gr_ptr(out), out->dtype, (int32_t)end[0], own > 3 ? gr_ptr(&call->args[3]) : NULL,
                            own > 3 && gr_size(&call->args[3]) > 1, own > 4 ? gr_ptr(&call->args[4]) : NULL,
                            (float)(end[1] - end[0]), (float)(end[2] - end[0])};
}

/* The sum of a channel becomes the element at ``at``. */
GR_INLINE void gr_plain_store(const gr_plain_requant *s, int32_t sum, int64_t channel, int64_t at) {
  if (s->bias && s->dtype != GR_F32) sum = (int32_t)((uint32_t)sum + (uint32_t)((const int32_t *)s->bias)[channel]);
  if (s->dtype == GR_I32) {
    ((int32_t *)s->out)[at] = sum;
    return;
  }
  float x = (float)sum * s->scale[s->scale_step * channel];
  if (s->dtype == GR_F32) {
    ((float *)s->out)[at] = s->bias ? x + ((const float *)s->bias)[channel] : x;
    return;
  }
  ((uint8_t *)s->out)[at] = (uint8_t)(gr_round_within(x, s->least, s->most) + s->zero);
}

/* An element of a tensor of bytes, signed or not. */
GR_INLINE int32_t gr_plain_byte(const gr_arg *x, int64_t at) {
  return x->dtype == GR_I8 ? ((const int8_t *)gr_ptr(x))[at] : ((const uint8_t *)gr_ptr(x))[at];
}

GR_INLINE int32_t gr_plain_zero(const gr_arg *zero) { return gr_plain_byte(zero, 0); }

#endif
