/* halves.c: conversions of float16 that operators call by name where their target has no instruction for them
 * (LLVM up to 14 for x86 without F16C). TVM's runtime has them under these names, with the bits in an integer.
 *
 * Called by operators, on any thread.
 * defines: __gnu_f2h_ieee, __gnu_h2f_ieee
 */
#include <stdint.h>
#include <string.h>

#include "public.h"

GR_PUBLIC uint16_t __gnu_f2h_ieee(float value);
GR_PUBLIC float __gnu_h2f_ieee(uint16_t bits);

uint16_t __gnu_f2h_ieee(float value) {
  _Float16 half = (_Float16)value;
  uint16_t bits;
  memcpy(&bits, &half, sizeof bits);
  return bits;
}

float __gnu_h2f_ieee(uint16_t bits) {
  _Float16 half;
  memcpy(&half, &bits, sizeof half);
  return (float)half;
}
