/* random.c: tvm.contrib.random.*: a Mersenne twister a thread (Matsumoto and Nishimura, 1998), drawn from as
 * libstdc++ draws for TVM, so that equal seeds give TVM's numbers.
 *
 * Called by operators (TVMFuncCall), on any thread.
 * defines: tvm.contrib.random.{seed, randint, uniform, normal, random_fill, random_fill_for_measure}
 */
#define _GNU_SOURCE
#include <math.h>
#include <time.h>

#include "arguments.h"
#include "tvm_backend.h"

#define STATE 624
#define MIDDLE 397

static _Thread_local struct {
  uint32_t state[STATE];
  int32_t at;
  int seeded;
} twister;

static void seed_with(uint32_t seed) {
  twister.state[0] = seed;
  for (uint32_t i = 1; i < STATE; ++i)
    twister.state[i] = 1812433253u * (twister.state[i - 1] ^ twister.state[i - 1] >> 30) + i;
  twister.at = STATE;
  twister.seeded = 1;
}

static uint32_t draw(void) {
  if (!twister.seeded) seed_with((uint32_t)time(NULL));
  uint32_t *s = twister.state;
  if (twister.at == STATE) {
    for (int32_t i = 0; i < STATE; ++i) {
      uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % STATE] & 0x7fffffffu);
      s[i] = s[(i + MIDDLE) % STATE] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    twister.at = 0;
  }
  uint32_t y = s[twister.at++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

/* From 0 to below 1, of one draw and of two. */
static float draw_float(void) {
  float value = (float)draw() / 4294967296.0f;
  return value < 1 ? value : nextafterf(1, 0);
}

static double draw_double(void) {
  double low = draw(), value = (low + (double)draw() * 4294967296.0) / 18446744073709551616.0;
  return value < 1 ? value : nextafter(1, 0);
}

/* By the polar method (Marsaglia and Bray, 1964); of a pair the first, the second serves the next call. */
static float draw_normal(float *kept, int *has) {
  if (*has) {
    *has = 0;
    return *kept;
  }
  float x, y, square;
  do {
    x = 2.0f * draw_float() - 1.0f;
    y = 2.0f * draw_float() - 1.0f;
    square = x * x + y * y;
  } while (square > 1.0f || square == 0.0f);
  float factor = sqrtf(-2 * logf(square) / square);
  *kept = x * factor;
  *has = 1;
  return y * factor;
}

/* ---------------------------------------------------------------- the functions */

static int32_t seed(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.random.seed");
  int64_t value;
  if (!tvm_int_arg(&call, 0, &value)) return -1;
  seed_with((uint32_t)value);
  return 0;
}

/* (low, high, out): integers of 8 to 32 bits from low to below high, as far as the type has them. */
static int32_t integers(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.random.randint");
  int64_t low, high;
  if (!tvm_int_arg(&call, 0, &low) || !tvm_int_arg(&call, 1, &high)) return -1;
  tvm_tensor *out = tvm_tensor_arg(&call, 2);
  if (!out) return -1;
  int32_t bits = out->dtype_bits, sign = out->dtype_code == TVM_DL_INT;
  if (out->dtype_code > TVM_DL_UINT || out->dtype_lanes != 1 || (bits != 8 && bits != 16 && bits != 32))
    return gr_fail(GR_ERR_KERNEL, "%s: the output has integers of 8, 16 or 32 bits", call.name), -1;
  int64_t least = sign ? -((int64_t)1 << (bits - 1)) : 0, beyond = (int64_t)1 << (bits - sign);
  low = low < least ? least : low;
  high = high > beyond ? beyond : high;
  if (high <= low) return gr_fail(GR_ERR_KERNEL, "%s: high must be bigger than low", call.name), -1;
  void *data = tvm_data(out);
  for (int64_t i = 0, size = tvm_size(out); i < size; ++i) {
    int64_t value = low + draw() % (high - low);
    if (bits == 8) ((int8_t *)data)[i] = (int8_t)value;
    else if (bits == 16) ((int16_t *)data)[i] = (int16_t)value;
    else ((int32_t *)data)[i] = (int32_t)value;
  }
  return 0;
}

/* Two numbers and an output of f32. */
static float *two_and_floats(const tvm_call *call, double *a, double *b, int64_t *size) {
  if (!tvm_float_arg(call, 0, a) || !tvm_float_arg(call, 1, b)) return NULL;
  tvm_tensor *out = tvm_tensor_arg(call, 2);
  if (!out) return NULL;
  if (!tvm_is(out, TVM_DL_FLOAT, 32))
    return gr_fail(GR_ERR_KERNEL, "%s: the output is float32", call->name), NULL;
  *size = tvm_size(out);
  return tvm_data(out);
}

static int32_t uniform(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.random.uniform");
  double low, high;
  int64_t size;
  float *out = two_and_floats(&call, &low, &high, &size);
  if (!out) return -1;
  if (!(high > low)) return gr_fail(GR_ERR_KERNEL, "%s: high must be bigger than low", call.name), -1;
  float from = (float)low, width = (float)high - from;
  for (int64_t i = 0; i < size; ++i) out[i] = draw_float() * width + from;
  return 0;
}

static int32_t normal(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.random.normal");
  double mean, deviation;
  int64_t size;
  float *out = two_and_floats(&call, &mean, &deviation, &size), kept = 0;
  int has = 0;
  if (!out) return -1;
  if (!(deviation > 0)) return gr_fail(GR_ERR_KERNEL, "%s: standard deviation must be positive", call.name), -1;
  for (int64_t i = 0; i < size; ++i) out[i] = draw_normal(&kept, &has) * (float)deviation + (float)mean;
  return 0;
}

/* The bits of a number from 1 to 10 as float16: halves go to even. */
static uint16_t half_of(float value) {
  int32_t exponent = value >= 8 ? 3 : value >= 4 ? 2 : value >= 2;
  int32_t mantissa = (int32_t)nearbyintf((value / (float)(1 << exponent) - 1) * 1024);   /* 1024: the next power */
  return (uint16_t)(((exponent + 15) << 10) + mantissa);
}

/* Numbers from 1 to 10, in floats of the element's width, whole ones in elements of 8 bits and less; of 4 bits a byte
 * has two that are not 0. */
static int32_t fill(TVM_PARAMETERS) {
  TVM_CALL("tvm.contrib.random.random_fill");
  tvm_tensor *out = tvm_tensor_arg(&call, 0);
  if (!out) return -1;
  int32_t bits = out->dtype_bits;
  void *data = tvm_data(out);
  if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return gr_fail(GR_ERR_KERNEL, "%s: cannot fill elements of %d bits", call.name, bits), -1;
  for (int64_t i = 0, size = tvm_size(out) * out->dtype_lanes; i < size; ++i) {
    double drawn = draw_double(), value = drawn * 9 + 1;
    if (bits == 1) ((uint8_t *)data)[i] = 1;
    else if (bits == 4) ((uint8_t *)data)[i] = (uint8_t)(drawn * 13 + 17);
    else if (bits == 8) ((uint8_t *)data)[i] = (uint8_t)value;
    else if (bits == 16) ((uint16_t *)data)[i] = half_of((float)value);
    else if (bits == 32) ((float *)data)[i] = (float)value;
    else ((double *)data)[i] = value;
  }
  return 0;
}

__attribute__((constructor)) static void register_randoms(void) {
  gr_tvm_provide("tvm.contrib.random.seed", seed);
  gr_tvm_provide("tvm.contrib.random.randint", integers);
  gr_tvm_provide("tvm.contrib.random.uniform", uniform);
  gr_tvm_provide("tvm.contrib.random.normal", normal);
  gr_tvm_provide("tvm.contrib.random.random_fill", fill);
  gr_tvm_provide("tvm.contrib.random.random_fill_for_measure", fill);
}
