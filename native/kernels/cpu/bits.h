/* bits.h: logic of bools, bits of integers, shifts. Template over integers and bool; out may be an input.
 *
 * defines: gr_cpu_{bitwise_not bitwise_and bitwise_or bitwise_xor}__<suffix>, gr_cpu_{shift_left shift_right}
 *          __<integer>, gr_cpu_{logical_not logical_and logical_or logical_xor}__bool
 */
#include "cpu/broadcast.h"

/* A bool is 0 or 1, and turning its bits over is turning the one. */
#define GR_ONES (GR_IS_BOOL ? (GR_C)1 : (GR_C)~(GR_C)0)
#define GR_BITS (8 * (int)sizeof(GR_T))

GR_UNARY_ROW(bitwise_not, GR_T, (GR_T)(a ^ GR_ONES))
GR_BINARY_ROW(bitwise_and, GR_T, 1, (GR_T)(a & b))
GR_BINARY_ROW(bitwise_or, GR_T, 1, (GR_T)(a | b))
GR_BINARY_ROW(bitwise_xor, GR_T, 1, (GR_T)(a ^ b))
#undef GR_ONES

/* gr-kernel: cpu/bitwise_not : i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(bitwise_not)(const gr_call *call) { return GR_FN(bitwise_not_any)(call); }

/* gr-kernel: cpu/bitwise_and : i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(bitwise_and)(const gr_call *call) { return GR_FN(bitwise_and_any)(call); }

/* gr-kernel: cpu/bitwise_or : i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(bitwise_or)(const gr_call *call) { return GR_FN(bitwise_or_any)(call); }

/* gr-kernel: cpu/bitwise_xor : i8 i16 i32 i64 u8 u16 u32 u64 bool */
static inline int32_t GR_BODY(bitwise_xor)(const gr_call *call) { return GR_FN(bitwise_xor_any)(call); }

#if GR_IS_BOOL
/* gr-kernel: cpu/logical_not : bool */
static inline int32_t GR_BODY(logical_not)(const gr_call *call) { return GR_FN(bitwise_not_any)(call); }

/* gr-kernel: cpu/logical_and : bool */
static inline int32_t GR_BODY(logical_and)(const gr_call *call) { return GR_FN(bitwise_and_any)(call); }

/* gr-kernel: cpu/logical_or : bool */
static inline int32_t GR_BODY(logical_or)(const gr_call *call) { return GR_FN(bitwise_or_any)(call); }

/* gr-kernel: cpu/logical_xor : bool */
static inline int32_t GR_BODY(logical_xor)(const gr_call *call) { return GR_FN(bitwise_xor_any)(call); }
#else

#if GR_SIGNED
#define GR_BELOW_ZERO(a) ((a) < 0)
#else
#define GR_BELOW_ZERO(a) 0
#endif

/* A negative count is as one beyond the type: everything is shifted out. */
GR_BINARY_ROW(shift_left, GR_T, 1, GR_BELOW_ZERO(b) || b >= GR_BITS ? 0 : (GR_T)((GR_U)a << b))
GR_BINARY_ROW(shift_right, GR_T, 1,
              GR_BELOW_ZERO(b) || b >= GR_BITS ? (GR_BELOW_ZERO(a) ? (GR_T)-1 : 0) : (GR_T)(a >> b))

/* gr-kernel: cpu/shift_left : i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(shift_left)(const gr_call *call) { return GR_FN(shift_left_any)(call); }

/* gr-kernel: cpu/shift_right : i8 i16 i32 i64 u8 u16 u32 u64 */
static inline int32_t GR_BODY(shift_right)(const gr_call *call) { return GR_FN(shift_right_any)(call); }
#undef GR_BELOW_ZERO
#endif
#undef GR_BITS
