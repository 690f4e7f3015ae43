/* has.h: which instruction sets of this folder the machine has.
 *
 * GR_PLAY_AVX512 says that AVX-512 is played (played.h): 1 with products of bytes, 2 with those of bf16, too.
 * A build for one machine (native/build_native.py: sanitizers) gives these as 0 or 1: so the compiler leaves out the forms
 * that would never be chosen there.
 */
#ifndef GR_ISA_HAS_H
#define GR_ISA_HAS_H

#ifndef GR_HAS_AVX2
#define GR_HAS_AVX2 (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#endif
#ifdef GR_PLAY_AVX512
#undef GR_HAS_AVX512
#undef GR_HAS_AVX512BF16
#undef GR_HAS_AVX512VNNI
#define GR_HAS_AVX512 1
#define GR_HAS_AVX512BF16 (GR_PLAY_AVX512 > 1)
#define GR_HAS_AVX512VNNI 1
#endif
#ifndef GR_HAS_AVX512
#define GR_HAS_AVX512 __builtin_cpu_supports("avx512f")
#define GR_HAS_AVX512BF16 __builtin_cpu_supports("avx512bf16")
#define GR_HAS_AVX512VNNI (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512f"))
#endif

#endif
