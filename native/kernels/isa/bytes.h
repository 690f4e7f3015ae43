/* bytes.h: products of bytes for the instruction set whose header is included before. It adds
 *
 * GR_BYTES                  a vector of GR_ISA_LANES bytes, at any address
 * GR_BYTES_HALVES           int32 of A for each 4 bytes: 1, or 2 where the even and the odd bytes are multiplied
 *                           apart, as 16 bits, because the one instruction that adds pairs of bytes saturates
 * GR_BYTES_LOAD(b, half)    4 bytes of B a lane, as GR_BYTES_TERM reads them
 * GR_BYTES_TERM(x, y, z)    z + the products of a half's bytes of x (unsigned) and y (signed)
 * GR_BYTES_ONES             the y of which GR_BYTES_TERM adds a half's bytes
 * GR_BYTES_LOWEST(x)        GR_BYTES of the lowest byte of each lane
 * GR_BYTES_WIDE(x)          each of GR_BYTES in a lane
 * GR_BYTES_SPREAD(to, from) maybe: GR_BYTES_SPAN bytes of A at ``from`` become twice as many at ``to``, the even and
 *                           the odd ones of each 4 apart, as 16 bits; both may overlap as far as from is behind to
 *
 * GR_ISA_DOTS says that the instruction set has gr_dot, which multiplies 4 bytes at once, GR_ISA_FOUR that it has
 * gr_four, which makes bytes of four vectors. All sums are exact modulo
 * 2^32. Ends with end_bytes.h.
 */
typedef uint8_t GR_ISA(gr_bytes_lanes) __attribute__((vector_size(GR_ISA_LANES), aligned(1), may_alias));
typedef int8_t GR_ISA(gr_bytes_signed) __attribute__((vector_size(GR_ISA_LANES), aligned(1), may_alias));
typedef int16_t GR_ISA(gr_bytes_shorts) __attribute__((vector_size(4 * GR_ISA_LANES), aligned(1), may_alias));
typedef uint32_t GR_ISA(gr_bytes_words) __attribute__((vector_size(4 * GR_ISA_LANES), aligned(4), may_alias));
#define GR_BYTES GR_ISA(gr_bytes_lanes)

#ifdef GR_ISA_DOTS
#define GR_BYTES_HALVES 1
#define GR_BYTES_LOAD(b, half) (*(const GR_VI *)(b))
#define GR_BYTES_TERM(x, y, z) GR_ISA(gr_dot)(x, y, z)
#define GR_BYTES_ONES 0x01010101
#else
#define GR_BYTES_HALVES 2
#define GR_BYTES_HALF(y, half)                                                                       \
  ((half) ? (GR_VI)((GR_ISA(gr_bytes_shorts))(y) >> 8)                                               \
          : (GR_VI)((GR_ISA(gr_bytes_shorts))((GR_ISA(gr_bytes_shorts))(y) << 8) >> 8))
#define GR_BYTES_LOAD(b, half) GR_BYTES_HALF(*(const GR_VI *)(b), half)
#define GR_BYTES_TERM(x, y, z) ((z) + GR_ISA_DOT_SHORTS(x, y))
#define GR_BYTES_ONES 0x00010001
#ifndef GR_ISA_DOT_SHORTS
#define GR_BYTES_LOW(x) ((GR_VI)((GR_ISA(gr_bytes_words))(x) << 16) >> 16)
#define GR_ISA_DOT_SHORTS(x, y) (GR_BYTES_LOW(x) * GR_BYTES_LOW(y) + ((x) >> 16) * ((y) >> 16))
#endif
#endif

#ifdef GR_ISA_LOWEST
#define GR_BYTES_LOWEST(x) ((GR_BYTES)GR_ISA_LOWEST(x))
#define GR_BYTES_WIDE(x) GR_ISA_WIDEN(x)
#else
#define GR_BYTES_WIDE(x) __builtin_convertvector(x, GR_VI)
#define GR_BYTES_LOWEST(x) __builtin_convertvector((GR_ISA(gr_bytes_words))(x), GR_BYTES)
#endif
#ifdef GR_ISA_SPREAD
#define GR_BYTES_SPAN 16
#define GR_BYTES_SPREAD(to, from) GR_ISA_SPREAD(to, from)
#endif
