/* halves.h: bf16 in memory, floats in registers; included once for each instruction set by its own header, which
 * says GR_ISA_HALVES(isa, lanes, target). It defines
 *
 * gr_wide_<isa>(from)       a vector of floats from as many bf16
 * gr_narrow_<isa>(to, x)    and back, rounded to nearest, ties to even; a NaN stays one
 *
 * In templates: GR_ISA(gr_wide), GR_ISA(gr_narrow). Where parts of a vector are cheap (GR_ISA_MASKED), also
 * gr_wide_some(from, mask) and gr_narrow_some(to, x, mask), as GR_ISA_LOAD_SOME and GR_ISA_STORE_SOME are.
 */
#ifndef GR_ISA_HALVES_H
#define GR_ISA_HALVES_H
#include <stdint.h>

typedef uint16_t gr_half __attribute__((may_alias)); /* the bits of one bf16 */

#define GR_ISA_HALVES(isa, lanes, target)                                                                          \
  typedef uint16_t gr_words_##isa __attribute__((vector_size(2 * lanes), aligned(2), may_alias));              \
  typedef uint32_t gr_bits_##isa __attribute__((vector_size(4 * lanes), aligned(4), may_alias));               \
  static inline __attribute__((always_inline)) target gr_floats_##isa gr_wide_##isa(const void *from) {        \
    return (gr_floats_##isa)(__builtin_convertvector(*(const gr_words_##isa *)from, gr_bits_##isa) << 16);     \
  }                                                                                                            \
  static inline __attribute__((always_inline)) target gr_words_##isa gr_rounded_##isa(gr_floats_##isa x) {     \
    gr_bits_##isa bits = (gr_bits_##isa)x, near = bits + 0x7fff + (bits >> 16 & 1);                            \
    gr_bits_##isa nan = (gr_bits_##isa)(x != x);                                                               \
    bits = (near & ~nan) | ((bits | 0x400000) & nan);                                                          \
    return __builtin_convertvector(bits >> 16, gr_words_##isa);                                                \
  }                                                                                                            \
  static inline __attribute__((always_inline)) target void gr_narrow_##isa(void *to, gr_floats_##isa x) {      \
    *(gr_words_##isa *)to = gr_rounded_##isa(x);                                                               \
  }
#endif
