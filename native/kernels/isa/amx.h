/* amx.h: AMX, eight registers of 16 rows of 64 bytes each, and whether this process may use them.
 *
 * GR_AMX_BF16, GR_AMX_BYTES       bits of gr_amx(): products of bf16, of bytes
 * gr_amx_open(), gr_amx_close()   around a thread's use of tiles: all of them 16 rows of 64 bytes, all zero
 * GR_AMX_ZERO(t)                  tile t, a number that is written out, becomes zero
 * GR_AMX_LOAD(t, from, step)      16 rows of 64 bytes, ``step`` bytes from row to row
 * GR_AMX_STORE(t, to, step)
 * GR_AMX_DOT_BF16(c, a, b)        c[i][j] += a[i][2 k] b[k][2 j] + a[i][2 k + 1] b[k][2 j + 1], c in float32
 * GR_AMX_DOT_BYTES(c, a, b)       c[i][j] += sum of 4 bytes a[i][4 k ..] b[k][4 j ..]: a unsigned, b signed, c int32
 *
 * Products of bf16 sum even and odd k apart, then both and c, rounded to nearest; denormals are zero. Sums of bytes are
 * exact modulo 2^32.
 *
 * Linux saves these registers only for a process that asked for them, which is done when a kernel first could use them.
 * Where the kernel or the CPU has none, a hypervisor or a tool (valgrind, qemu) hides them, GR_AMX=0 is in the
 * environment, or a sanitizer is compiled in, which does not see what tiles read and write, gr_amx() is 0. GR_PLAY_AMX
 * plays them in C, for tests.
 *
 * They are written as assembly, because compilers before gcc 11 know no builtins of them.
 */
#ifndef GR_ISA_AMX_H
#define GR_ISA_AMX_H

#include <stdint.h>
#include <string.h>

#define GR_AMX_BF16 1
#define GR_AMX_BYTES 2

#ifdef GR_PLAY_AMX
/* ---------------------------------------------------------------- played */

static _Thread_local uint8_t gr_amx_tiles[8][16][64];

#define GR_AMX_PLAYED static __attribute__((noinline, unused))

static inline int gr_amx(void) { return GR_AMX_BF16 | GR_AMX_BYTES; }
GR_AMX_PLAYED void gr_amx_open(void) { memset(gr_amx_tiles, 0, sizeof gr_amx_tiles); }
/* A tile that is not open holds no number. */
GR_AMX_PLAYED void gr_amx_close(void) { memset(gr_amx_tiles, 0xff, sizeof gr_amx_tiles); }

GR_AMX_PLAYED void gr_amx_load(int t, const void *from, int64_t step) {
  for (int i = 0; i < 16; ++i) memcpy(gr_amx_tiles[t][i], (const char *)from + i * step, 64);
}

GR_AMX_PLAYED void gr_amx_store(int t, void *to, int64_t step) {
  for (int i = 0; i < 16; ++i) memcpy((char *)to + i * step, gr_amx_tiles[t][i], 64);
}

/* An element of bf16, a denormal as zero. */
GR_AMX_PLAYED float gr_amx_bf16(int t, int row, int at) {
  uint16_t half;
  memcpy(&half, gr_amx_tiles[t][row] + 2 * at, 2);
  uint32_t bits = (uint32_t)half << 16;
  if (!(bits & 0x7f800000)) bits &= 0x80000000;
  float made;
  memcpy(&made, &bits, 4);
  return made;
}

GR_AMX_PLAYED void gr_amx_dot_bf16(int c, int a, int b) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      float sums[2] = {0, 0}, old;
      for (int k = 0; k < 32; ++k)
        sums[k & 1] = __builtin_fmaf(gr_amx_bf16(a, i, k), gr_amx_bf16(b, k / 2, 2 * j + (k & 1)), sums[k & 1]);
      memcpy(&old, gr_amx_tiles[c][i] + 4 * j, 4);
      old += sums[0] + sums[1];
      memcpy(gr_amx_tiles[c][i] + 4 * j, &old, 4);
    }
}

GR_AMX_PLAYED void gr_amx_dot_bytes(int c, int a, int b) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      uint32_t sum;
      memcpy(&sum, gr_amx_tiles[c][i] + 4 * j, 4);
      for (int k = 0; k < 64; ++k)
        sum += (uint32_t)(gr_amx_tiles[a][i][k] * (int8_t)gr_amx_tiles[b][k / 4][4 * j + k % 4]);
      memcpy(gr_amx_tiles[c][i] + 4 * j, &sum, 4);
    }
}

#define GR_AMX_ZERO(t) memset(gr_amx_tiles[t], 0, sizeof gr_amx_tiles[t])
#define GR_AMX_LOAD(t, from, step) gr_amx_load(t, from, step)
#define GR_AMX_STORE(t, to, step) gr_amx_store(t, to, step)
#define GR_AMX_DOT_BF16(c, a, b) gr_amx_dot_bf16(c, a, b)
#define GR_AMX_DOT_BYTES(c, a, b) gr_amx_dot_bytes(c, a, b)

#elif defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(GR_NO_AMX)
/* ---------------------------------------------------------------- the instructions */

#include <cpuid.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GR_AMX_ASK 0x1023              /* ARCH_REQ_XCOMP_PERM of Linux's asm/prctl.h */
#define GR_AMX_STATE 18                /* the registers' number in what XSAVE saves */

/* glibc's syscall, which unistd.h hides from strict C */
extern long syscall(long number, ...);

/* Products that this process may make. The first call asks the kernel for the whole process, all its threads. */
static int gr_amx(void) {
  static int known;                    /* each thread would find the same; 4: it is known */
  int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (found) return found & 3;
  unsigned a, b, c, d = 0;
  const char *wanted = getenv("GR_AMX");
  if ((!wanted || strcmp(wanted, "0")) && __builtin_cpu_supports("avx512bf16") &&
      __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1)
    found = (d >> 22 & 1 ? GR_AMX_BF16 : 0) | (d >> 25 & 1 ? GR_AMX_BYTES : 0);
  if (found && syscall(SYS_arch_prctl, GR_AMX_ASK, GR_AMX_STATE)) found = 0;
  __atomic_store_n(&known, found | 4, __ATOMIC_RELAXED);
  return found;
}

static inline void gr_amx_open(void) {
  static const struct {
    uint8_t palette, start, none[14];
    uint16_t bytes[16];                /* of a row of each tile */
    uint8_t rows[16];
  } config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

static inline void gr_amx_close(void) { __asm__ volatile("tilerelease"); }

#define GR_AMX_ZERO(t) __asm__ volatile("tilezero %%tmm" #t : :)
#define GR_AMX_LOAD(t, from, step) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"((const void *)(from)), "r"((int64_t)(step)) : "memory")
#define GR_AMX_STORE(t, to, step) \
  __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"((void *)(to)), "r"((int64_t)(step)) : "memory")
#define GR_AMX_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#define GR_AMX_DOT_BYTES(c, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)

#else
#define GR_AMX_NONE                    /* no code for them */
static inline int gr_amx(void) { return 0; }
#endif

#endif
