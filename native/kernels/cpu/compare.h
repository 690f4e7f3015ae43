/* compare.h: comparisons, which give bool, and minimum. Template over all types; minimum's out may be an input.
 *
 * defines: gr_cpu_{minimum equal not_equal less less_equal greater greater_equal}__<suffix>
 */
#include "cpu/broadcast.h"

GR_BINARY_ROW(minimum, GR_T, 1, GR_STORE(a <= b || GR_IS_NAN(a) ? a : b))
GR_BINARY_ROW(equal, uint8_t, 1, a == b)
GR_BINARY_ROW(not_equal, uint8_t, 1, a != b)
GR_BINARY_ROW(less, uint8_t, 1, a < b)
GR_BINARY_ROW(less_equal, uint8_t, 1, a <= b)
GR_BINARY_ROW(greater, uint8_t, 1, a > b)
GR_BINARY_ROW(greater_equal, uint8_t, 1, a >= b)

/* gr-kernel: cpu/minimum : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(minimum)(const gr_call *call) { return GR_FN(minimum_any)(call); }

/* gr-kernel: cpu/equal : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(equal)(const gr_call *call) { return GR_FN(equal_any)(call); }

/* gr-kernel: cpu/not_equal : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(not_equal)(const gr_call *call) { return GR_FN(not_equal_any)(call); }

/* gr-kernel: cpu/less : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(less)(const gr_call *call) { return GR_FN(less_any)(call); }

/* gr-kernel: cpu/less_equal : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(less_equal)(const gr_call *call) { return GR_FN(less_equal_any)(call); }

/* gr-kernel: cpu/greater : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(greater)(const gr_call *call) { return GR_FN(greater_any)(call); }

/* gr-kernel: cpu/greater_equal : f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(greater_equal)(const gr_call *call) { return GR_FN(greater_equal_any)(call); }
