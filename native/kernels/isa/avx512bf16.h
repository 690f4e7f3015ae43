/* avx512bf16.h: avx512.h with products of bf16; what is defined: any.h, and
 *
 * GR_ISA(gr_dot)(x, y, z)    z + the products of both bf16 of each 4 bytes of x and y
 * GR_ISA(gr_pairs)(x, y)     the floats of x, then those of y, rounded to bf16
 *
 * The instruction rounds after each of the two products, to nearest even, and takes denormals for zero. It is written
 * as assembly, because compilers differ in the types of its builtin.
 */
#include "isa/avx512.h"
#undef GR_ISA
#define GR_ISA(name) name##_avx512bf16

#ifndef GR_ISA_AVX512BF16_TYPES
#define GR_ISA_AVX512BF16_TYPES
GR_ALWAYS GR_V GR_ISA(gr_dot)(GR_V x, GR_V y, GR_V z) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(z) : "v"(x), "v"(y));
  return z;
}

GR_ALWAYS GR_V GR_ISA(gr_pairs)(GR_V x, GR_V y) {
  GR_V made;
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(made) : "v"(y), "v"(x));
  return made;
}
#endif
