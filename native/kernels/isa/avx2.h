/* avx2.h: vectors of eight floats, AVX2 with FMA; what is defined: any.h. */
#ifndef GR_ISA_AVX2_TYPES
#define GR_ISA_AVX2_TYPES
typedef float gr_floats_avx2 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t gr_ints_avx2 __attribute__((vector_size(32), aligned(4), may_alias));
typedef short gr_shorts_avx2 __attribute__((vector_size(32)));
#endif

#define GR_ISA(name) name##_avx2
#define GR_ISA_LANES 8
#define GR_ISA_TARGET __attribute__((target("avx2,fma")))
#define GR_ISA_SPLAT(x) {x, x, x, x, x, x, x, x}
#define GR_ISA_FUSED(x, y, z) __builtin_ia32_vfmaddps256(x, y, z)
#define GR_ISA_MAX(x, y) __builtin_ia32_maxps256(x, y)
#define GR_ISA_MIN(x, y) __builtin_ia32_minps256(x, y)
#define GR_ISA_DOT_SHORTS(x, y) ((gr_ints_avx2)__builtin_ia32_pmaddwd256((gr_shorts_avx2)(x), (gr_shorts_avx2)(y)))
#define GR_V gr_floats_avx2
#define GR_VI gr_ints_avx2
#define GR_ALWAYS static inline __attribute__((always_inline)) GR_ISA_TARGET
