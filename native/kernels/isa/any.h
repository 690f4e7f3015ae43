/* any.h: vectors of four floats, for any machine. What the headers of this folder define, for the code that is
 * included once for each instruction set (the files whose names end with _isa.h), which ends with end.h:
 *
 * GR_ISA(name)              the name of a function or type of this instruction set
 * GR_ISA_LANES              floats of a vector
 * GR_ISA_TARGET             what lets the compiler use it in a function
 * GR_ISA_SPLAT(x)           initializer of a vector of equal floats
 * GR_ISA_FUSED(x, y, z)     x * y + z, rounded once where the machine can
 * GR_ISA_MAX, GR_ISA_MIN    of two vectors; the second where either is a NaN
 * GR_ISA_SHUFFLE(x, at)     of each lane that of x which it numbers
 * GR_ISA_LOOK_UP(table, at) where it is defined: of each lane the float of the table that its lowest four bits number
 * GR_ISA_MASKED             defined where loads and stores of a part of a vector cost no more than of all of it: then
 *   GR_ISA_FIRST(n)         the mask of the first n lanes: none below 1, all above the last
 *   GR_ISA_LOAD_SOME(from, mask), GR_ISA_STORE_SOME(to, x, mask)   zeros in the other lanes; nothing there is touched
 * GR_ISA_DOT_SHORTS(x, y)   maybe: the products of both 16 bits of each lane, added; bytes.h has a plain form
 * GR_ISA_KEEP(x)            a statement: the compiler makes x here, and does not add in another order, which would
 *                           take more registers than there are; nothing where it does not
 * GR_ISA_LOWEST(x), GR_ISA_WIDEN(x), GR_ISA_SPREAD(to, from)   maybe: as GR_BYTES_LOWEST, _WIDE, _SPREAD (bytes.h)
 * GR_ISA_LOAD_BYTES(from, n), GR_ISA_STORE_BYTES(to, x, n)     maybe: the first n bytes of GR_BYTES, of many all; zeros
 *                           in the others, or nothing touched there
 * GR_ISA_SHORT              up to how many columns short_isa.h is faster; not defined: it has not been run there
 * GR_ISA(gr_wide), GR_ISA(gr_narrow), and some of them   bf16 in memory: halves.h
 * GR_V, GR_VI               vectors of floats and of int32, at any address that a float may have
 * GR_ALWAYS                 a function that is inlined whatever its size
 */
#ifndef GR_ISA_ANY_TYPES
#define GR_ISA_ANY_TYPES
#include "isa/halves.h"
typedef float gr_floats_any __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t gr_ints_any __attribute__((vector_size(16), aligned(4), may_alias));

static inline gr_floats_any gr_choose_any(gr_ints_any wanted, gr_floats_any x, gr_floats_any y) {
  return (gr_floats_any)(((gr_ints_any)x & wanted) | ((gr_ints_any)y & ~wanted));
}

static inline gr_floats_any gr_shuffle_any(gr_floats_any x, gr_ints_any at) {
  gr_floats_any made = {x[at[0]], x[at[1]], x[at[2]], x[at[3]]};
  return made;
}

GR_ISA_HALVES(any, 4, )
#endif

#define GR_ISA(name) name##_any
#define GR_ISA_LANES 4
#define GR_ISA_TARGET
#define GR_ISA_SPLAT(x) {x, x, x, x}
#define GR_ISA_FUSED(x, y, z) ((x) * (y) + (z))
#define GR_ISA_SHUFFLE(x, at) gr_shuffle_any(x, at)
#define GR_ISA_MAX(x, y) gr_choose_any((x) > (y), x, y)
#define GR_ISA_MIN(x, y) gr_choose_any((x) < (y), x, y)
#define GR_ISA_KEEP(x)
#define GR_V gr_floats_any
#define GR_VI gr_ints_any
#define GR_ALWAYS static inline __attribute__((always_inline))
