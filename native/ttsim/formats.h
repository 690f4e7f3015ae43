/* formats.h: element formats of tt tensors: bf16 and block floats, their decoding and the two ways of
 * encoding.
 *
 * Two roundings, because the machine has two: the *packer* of a core writes what a kernel computed
 * (gr_pack_*, reference: Tenstorrent ISA documentation, Packers/FormatConversion.md), a *copy* converts as
 * host software does before it sends (gr_encode_*: to nearest, ties to even, once). Decoding is one: as
 * the unpacker does.
 *
 * Read by tile.h; static inline and without state.
 * defines: gr_bits_of, gr_float_of, gr_format_bytes, gr_format_converts, gr_block_bits, gr_bf16_*, gr_block_*, gr_decode_block_datum
 */
#ifndef GR_FORMATS_H
#define GR_FORMATS_H

#include <stdint.h>
#include <string.h>

#include "gr_abi.h"

static inline uint32_t gr_bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float gr_float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Bytes of one element; 0 for block formats and opaque elements. */
static inline uint32_t gr_format_bytes(uint8_t format) {
  switch (format) {
    case GR_F64:
    case GR_I64:
    case GR_U64: return 8;
    case GR_F32:
    case GR_I32:
    case GR_U32: return 4;
    case GR_F16:
    case GR_BF16:
    case GR_I16:
    case GR_U16: return 2;
    case GR_I8:
    case GR_U8:
    case GR_BOOL: return 1;
    default: return 0;
  }
}

/* Bits of an element of a block float, its sign included; 0 for other formats. */
static inline uint32_t gr_block_bits(uint8_t format) {
  switch (format) {
    case GR_BFP8_B: return 8;
    case GR_BFP4_B: return 4;
    case GR_BFP2_B: return 2;
    default: return 0;
  }
}

/* Whether copies convert between it and the others that do, and cores compute with it as floats. */
static inline int gr_format_converts(uint8_t format) {
  return format == GR_F32 || format == GR_BF16 || gr_block_bits(format) > 0;
}

/* ---------------------------------------------------------------- bf16 */

static inline float gr_bf16_decode(uint16_t x) { return gr_float_of((uint32_t)x << 16); }

/* A copy's rounding: to nearest, ties to even; NaN stays a NaN (quiet), Inf and denormals stay. */
static inline uint16_t gr_bf16_encode(float x) {
  uint32_t bits = gr_bits_of(x);
  uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40u;
  return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

/* The packer's rounding: to nearest, ties away from zero; NaN becomes Inf of its sign, denormals and -0
 * become +0 (the rounded value decides: 0x007F8000 becomes the smallest normal). */
static inline uint16_t gr_bf16_pack(float x) {
  uint32_t bits = gr_bits_of(x);
  uint32_t sign = bits & 0x80000000u, magnitude = bits & 0x7FFFFFFFu;
  magnitude = magnitude > 0x7F800000u ? 0x7F800000u : magnitude;
  uint32_t rounded = (magnitude + 0x8000u) & 0xFFFF0000u;
  return (uint16_t)(rounded < 0x00800000u ? 0u : (sign | rounded) >> 16);
}

/* Value that the packer makes of a 32-bit Dst value before it finds a shared exponent: cut to bf16, denormals to +0,
 * NaN and Inf patterns kept. */
static inline uint16_t gr_bf16_cut(float x) {
  uint32_t bits = gr_bits_of(x);
  return (uint16_t)((bits & 0x7F800000u) ? bits >> 16 : 0u);
}

/* ---------------------------------------------------------------- block floats
 * 16 data share an 8-bit exponent E; a datum is a sign and a magnitude of m = 7 (bfp8_b), 3 or 1 bits
 * without hidden bit, worth magnitude / 2^(m - 1) * 2^(E - 127). The functions speak of 7-bit magnitudes:
 * one of fewer bits is its top. */

/* As the unpacker: normalised to a float whose exponent field is (E - leading zeros) mod 256, so exponents
 * below their leading zeros wrap; magnitude 0 with a sign reads as -Inf. */
static inline float gr_decode_block_datum(uint32_t exponent, uint32_t sign, uint32_t magnitude7) {
  /* as a float, the magnitude has exponent field 133 - zeros; without branches, so that it vectorises */
  uint32_t bits = gr_bits_of((float)(int32_t)magnitude7) + ((exponent - 133u) << 23);
  uint32_t nothing = -(uint32_t)(magnitude7 == 0);
  bits = (((bits & 0x7FFFFFFFu) | sign << 31) & ~nothing) | (nothing & -sign & 0xFF800000u);
  return gr_float_of(bits);
}

/* The packer: shared exponent and sign-magnitude bytes (sign 0x80, 7 bits) of 16 values in bf16 bits. */
static inline uint8_t gr_block_pack(const uint16_t *values, uint8_t *data) {
  uint32_t most = 0;
  for (int i = 0; i < 16; ++i) {
    uint32_t exponent = (values[i] >> 7) & 0xFFu;
    most = exponent > most ? exponent : most;
  }
  for (int i = 0; i < 16; ++i) {
    uint32_t exponent = (values[i] >> 7) & 0xFFu;
    uint32_t mantissa = (values[i] & 0x7Fu) | (exponent ? 0x80u : 0u);
    uint32_t shift = most - exponent;
    shift = shift > 8u ? 9u : shift;                     /* 9 makes everything 0 and stays a legal shift */
    uint32_t magnitude = (mantissa + (1u << shift)) >> (shift + 1u);
    magnitude = shift >= 8u ? 0u : magnitude > 127u ? 127u : magnitude;
    data[i] = (uint8_t)(magnitude ? (values[i] >> 8 & 0x80u) | magnitude : 0u);
  }
  return (uint8_t)most;
}

/* A copy: the same of 16 floats, rounded once from 24 bits to `bits` magnitude bits, nearest
 * even, saturating. The magnitude is in the low bits, the sign above it. Exponent 255 counts as one
 * more binade. */
static inline uint8_t gr_block_encode(const float *values, int bits, uint8_t *data) {
  uint32_t most = 0;
  for (int i = 0; i < 16; ++i) {
    uint32_t exponent = (gr_bits_of(values[i]) >> 23) & 0xFFu;
    most = exponent > most ? exponent : most;
  }
  uint32_t limit = (1u << bits) - 1u;
  for (int i = 0; i < 16; ++i) {
    uint32_t word = gr_bits_of(values[i]), exponent = (word >> 23) & 0xFFu;
    uint32_t mantissa = exponent ? (word & 0x7FFFFFu) | 0x800000u : 0u;
    uint32_t shift = most - exponent + (uint32_t)(24 - bits);
    shift = shift > 25u ? 25u : shift;                   /* from here on everything is below one half: 0 */
    uint32_t half = (1u << (shift - 1u)) - 1u;
    uint32_t magnitude = (mantissa + half + ((mantissa >> shift) & 1u)) >> shift;
    magnitude = magnitude > limit ? limit : magnitude;
    data[i] = (uint8_t)(magnitude ? (word >> 31) << bits | magnitude : 0u);
  }
  return (uint8_t)most;
}

#endif
