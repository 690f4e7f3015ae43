/* panels.h: C = A B in float32, B constant and packed, the inner loop of the cpu's dense and conv2d.
 *
 * B may be stored in bf16, pairs of two rows of k: then A is rounded to bf16, too, as it is gathered, and sums are
 * float32. Machines with the instruction multiply pairs; others shift the elements of B to floats, whose products are
 * fused into the sums as ever, so that last bits differ between the two.
 *
 * A and C may be bf16, too (halves): A is then read as it lies where pairs are multiplied, else widened; sums stay
 * float32 until the last of k is in them, and are rounded once.
 *
 * B lies in panels of 32 columns, [ceil(n / 32)][k][32] padded with zeros, the same for every instruction
 * set. A is gathered block by block into rows of a fixed distance that the nearest cache holds, so that it may
 * lie anyhow: rows of a matrix, or an image under a window (cpu/conv_packed.h). The widest instruction set that
 * the machine has is chosen when it runs. Products are fused into their sums, sums run over k in order
 * (one row: in GR_LINES interleaved sums); docs/numerics.md says what that means for the last bits.
 *
 * Included by: kernel bodies. Thread: any; gr_panels_run spreads the work over the pool.
 * defines: GR_DEPTH, GR_A_ROW, gr_panels, gr_panels_run, gr_panels_serial
 */
#ifndef GR_PANELS_H
#define GR_PANELS_H

#include "isa/amx.h"
#include "isa/halves.h"
#include "isa/has.h"
#include "pieces.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define GR_DEPTH 384                   /* of a block: its rows of A take half of the nearest cache */
#define GR_A_ROW (GR_DEPTH + 16)       /* floats from row to row of a block: no power of two, so no two rows collide */
#define GR_A_CROWDED 512               /* floats: rows of A so far apart, or a multiple, share few sets of the cache */
#define GR_SUMS_PANELS 16               /* of some rows, whose sums are kept at a time where C is bf16 */
#define GR_SUMS_ROW (GR_SUMS_PANELS * GR_PANEL + 16)
#define GR_GROUP_BYTES 655360          /* of B that a second cache of 1 MB keeps while rows of A pass by; no more */
#define GR_PANELS_GRAIN 400000         /* flops of a piece of work for another thread, at least: some 4 us */
#define GR_PANELS_LOAD 8               /* rows whose arithmetic takes as long as bringing B from memory */

/* Some rows of A as a tile reads them: lines of runs of neighbours. Element (l, r, e) of row i is
 * a[i * row + l * line + r * step + e]. Of A in bf16 an element here is a pair. */
typedef struct gr_a_rows {
  const float *a;
  int64_t row, lines, line, runs, step, run;
} gr_a_rows;

typedef struct gr_panels gr_panels;
struct gr_panels {
  int64_t rows, n, k;
  const float *a;                      /* a[row * a_row + p]; what gather makes of it */
  int64_t a_row;
  int halves;                          /* A, C and extra are bf16, whatever their pointers say; b is pairs */
  /* NULL: as above. Else brings rows first_row .. first_row+rows-1 of A, elements first .. last-1, to
   * to[row * GR_A_ROW + element - first]; bf16 side by side, rows as far apart. */
  void (*gather)(const gr_panels *p, int64_t first_row, int64_t rows, int64_t first, int64_t last, float *to);
  /* NULL, or how many of these rows, all elements, lie so from the first on that a tile can read them there: how.
   * Of bf16, whole pairs only. */
  int64_t (*in_place)(const gr_panels *p, int64_t first_row, int64_t rows, gr_a_rows *found);
  /* NULL, or elements *from .. *to - 1 are all that is not zero of these rows: the others are left out. */
  void (*extent)(const gr_panels *p, int64_t first_row, int64_t rows, int64_t *from, int64_t *to);
  const void *image;                   /* of gather, in_place and extent */
  const float *b;                      /* [ceil(n / 32)][k][32] */
  int bits;                            /* 0, or b is levels of 4 or 8 bits: ir/ops/products/levels.py */
  int64_t block;                       /* of them, elements of k that share a scale */
  int zeros;                           /* and whether they share a zero beside it, that is not the middle */
  int rounded;                         /* A and what levels mean may be rounded to bf16 */
  int narrow;                          /* A may be rounded to 8 bits, whose scale is that of a block of a row */
  int digits;                          /* set by gr_panels_run: 0, or of how many A is made (levels_dots_isa.h) */
  int pairs;                           /* b is bf16 [ceil(n / 32)][ceil(k / 2)][32][2], as four bytes each */
  float *c;                            /* c[row * c_row + column] */
  int64_t c_row;
  const float *bias;                   /* NULL or [n] */
  const float *extra;                  /* NULL, or what is added to the result, laid out as c */
  int clamp;                           /* the result is kept in least .. most */
  float least, most;
  /* NULL, or what is done with a finished part of C while it is in the cache. Of C in bf16 it makes that part of the
   * sums, which lie at sums, a row of them sums_row further than the one before; else these are C's own. */
  void (*after)(const gr_panels *p, int64_t row, int64_t rows, int64_t column, int64_t columns, float *sums,
                int64_t sums_row);
  const void *steps;                   /* after's own */
  gr_pieces pieces;                    /* set by gr_panels_run */
};

/* One register tile's place. */
typedef struct gr_tile {
  gr_a_rows a;
  const float *b;
  int64_t c_row;
  const float *bias, *extra;
  float *c;
  int64_t columns;
  int halves;                          /* c and extra are bf16 */
  const float *sums;                   /* NULL, or of earlier k: c's own, or where they are kept if c is bf16 */
  int64_t sums_row;
  int clamp;
  float least, most;
  const float *ahead;                  /* what is asked for from memory for later, ahead_step floats a row of B */
  int64_t ahead_step;
} gr_tile;

/* The B that takes the place of the one that strips of rows now read in turn, each of which asks for a part of it: in
 * panels before ``end`` it lies ``jump`` floats further on. */
typedef struct gr_ahead {
  int64_t jump, end, strip, strips;
} gr_ahead;

/* ---------------------------------------------------------------- gathering */

/* memcpy of floats whose number is known late, without a call: what is left over by a move that overlaps the
 * one before. */
GR_INLINE void gr_copy_floats(float *to, const float *from, int64_t n) {
  if (n >= 16) {
    for (int64_t i = 0; i + 16 <= n; i += 16) memcpy(to + i, from + i, 64);
    memcpy(to + n - 16, from + n - 16, 64);
  } else if (n >= 8) {
    memcpy(to, from, 32);
    memcpy(to + n - 8, from + n - 8, 32);
  } else if (n >= 4) {
    memcpy(to, from, 16);
    memcpy(to + n - 4, from + n - 4, 16);
  } else {
    for (; n > 0; --n) *to++ = *from++;
  }
}

/* An element of A, C or extra as a pointer: these may be bf16. */
GR_INLINE float *gr_element(const float *from, int64_t at, int halves) {
  return (float *)((uintptr_t)from + (uintptr_t)at * (halves ? 2 : 4));
}

/* gr_copy_floats of bf16: bytes of half as many. */
GR_INLINE void gr_copy_halves(gr_half *to, const gr_half *from, int64_t n) {
  if (n >= 16) {
    for (int64_t i = 0; i + 16 <= n; i += 16) memcpy(to + i, from + i, 32);
    memcpy(to + n - 16, from + n - 16, 32);
  } else if (n >= 8) {
    memcpy(to, from, 16);
    memcpy(to + n - 8, from + n - 8, 16);
  } else if (n >= 4) {
    memcpy(to, from, 8);
    memcpy(to + n - 4, from + n - 4, 8);
  } else {
    for (; n > 0; --n) *to++ = *from++;
  }
}

/* The gather of a matrix whose rows are contiguous. */
static void gr_gather_rows(const gr_panels *p, int64_t first_row, int64_t rows, int64_t first, int64_t last,
                           float *to) {
  if (p->halves) {
    const gr_half *from = (const gr_half *)p->a + first_row * p->a_row + first;
    for (int64_t i = 0; i < rows; ++i)
      gr_copy_halves((gr_half *)(to + i * GR_A_ROW), from + i * p->a_row, last - first);
    return;
  }
  const float *a = p->a + first_row * p->a_row + first;
  for (int64_t i = 0; i < rows; ++i) gr_copy_floats(to + i * GR_A_ROW, a + i * p->a_row, last - first);
}

/* in_place of such a matrix; of one that has no gather, too. */
static int64_t gr_rows_lie(const gr_panels *p, int64_t first_row, int64_t rows, gr_a_rows *found) {
  int unit = p->halves ? 2 : 1;        /* elements of a pair */
  if (p->a_row % unit || p->k % unit) return 0;
  *found = (gr_a_rows){gr_element(p->a, first_row * p->a_row, p->halves), p->a_row / unit, 1, 0, 1, 0, p->k / unit};
  return rows;
}

/* ---------------------------------------------------------------- caches */

/* Bytes of B that this machine's second cache keeps. */
static inline int64_t gr_group_bytes(void) {
#if defined(__x86_64__)
  static int64_t known;                /* asking takes long under a hypervisor; each thread would find the same */
  int64_t bytes = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (bytes) return bytes;
  unsigned a, b, c, d;
  int64_t cache = __get_cpuid(0x80000006, &a, &b, &c, &d) ? (int64_t)(c >> 16) * 1024 : 0;
  bytes = cache ? gr_min(GR_GROUP_BYTES, gr_max(cache, 131072) / 8 * 5) : GR_GROUP_BYTES;
  __atomic_store_n(&known, bytes, __ATOMIC_RELAXED);
  return bytes;
#else
  return GR_GROUP_BYTES;
#endif
}

/* ---------------------------------------------------------------- AMX */

#define GR_AMX_DEEP 4096               /* of k: where C is bf16, all of it is summed before a row is written */
#define GR_AMX_FEW 3                   /* rows; of less, B comes no faster than vectors multiply it */

/* Whether tiles multiply. */
static inline int gr_panels_by_amx(const gr_panels *p) {
  if (p->halves && p->k > GR_AMX_DEEP) return 0;
  return (p->pairs || (p->bits && p->rounded)) && p->rows >= GR_AMX_FEW && gr_amx() & GR_AMX_BF16;
}

/* ---------------------------------------------------------------- one a machine */

#define GR_B_FLOATS 0                  /* forms of B: panels_isa.h */
#define GR_B_PAIRS 1
#define GR_B_DOTS 2
#define GR_B_LEVELS 3

#include "isa/any.h"
#define GR_ISA_ROWS 4
#define GR_B_FORM GR_B_FLOATS
#include "panels_isa.h"
#include "isa/any.h"
#define GR_ISA_ROWS 4
#define GR_B_FORM GR_B_PAIRS
#include "panels_isa.h"
#include "isa/any.h"
#define GR_ISA_ROWS 4
#define GR_B_FORM GR_B_LEVELS
#include "panels_isa.h"

#if defined(__x86_64__)
#include "isa/avx2.h"
#define GR_ISA_ROWS 6
#define GR_B_FORM GR_B_FLOATS
#include "panels_isa.h"
#include "isa/avx2.h"
#define GR_ISA_ROWS 6
#define GR_B_FORM GR_B_PAIRS
#include "panels_isa.h"
#include "isa/avx2.h"
#define GR_ISA_ROWS 6
#define GR_B_FORM GR_B_LEVELS
#include "panels_isa.h"

#include "isa/avx512.h"
#define GR_ISA_ROWS 14
#define GR_B_FORM GR_B_FLOATS
#include "panels_isa.h"
#include "isa/avx512.h"
#define GR_ISA_ROWS 14
#define GR_B_FORM GR_B_PAIRS
#include "panels_isa.h"
#include "isa/avx512.h"
#define GR_ISA_ROWS 14
#define GR_B_FORM GR_B_LEVELS
#include "panels_isa.h"
#include "isa/avx512bf16.h"
#define GR_ISA_ROWS 14
#define GR_B_FORM GR_B_DOTS
#include "panels_isa.h"
#include "isa/avx512vnni.h"
#include "isa/bytes.h"
#include "levels_dots_isa.h"
#ifndef GR_AMX_NONE
#include "isa/avx512bf16.h"
#include "panels_amx.h"
#endif
#elif defined(__aarch64__)
#include "isa/neon.h"
#define GR_ISA_ROWS 12
#define GR_B_FORM GR_B_FLOATS
#include "panels_isa.h"
#include "isa/neon.h"
#define GR_ISA_ROWS 12
#define GR_B_FORM GR_B_PAIRS
#include "panels_isa.h"
#include "isa/neon.h"
#define GR_ISA_ROWS 12
#define GR_B_FORM GR_B_LEVELS
#include "panels_isa.h"
#endif

/* ---------------------------------------------------------------- which instruction set */

/* Rows row .. row_end-1 of panels panel .. panel_end-1, B in floats. */
static inline void gr_panels_floats(const gr_panels *p, int64_t row, int64_t row_end, int64_t panel,
                                    int64_t panel_end) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512) {
    gr_panels_block_avx512(p, row, row_end, panel, panel_end);
    return;
  }
  if (GR_HAS_AVX2) {
    gr_panels_block_avx2(p, row, row_end, panel, panel_end);
    return;
  }
#elif defined(__aarch64__)
  if (GR_NEON) {
    gr_panels_block_neon(p, row, row_end, panel, panel_end);
    return;
  }
#endif
  gr_panels_block_any(p, row, row_end, panel, panel_end);
}

/* The same, B in pairs of bf16. */
static inline void gr_panels_pairs(const gr_panels *p, int64_t row, int64_t row_end, int64_t panel,
                                   int64_t panel_end) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512BF16) {
    gr_panels_block_pairs_avx512bf16(p, row, row_end, panel, panel_end);
    return;
  }
  if (GR_HAS_AVX512) {
    gr_panels_block_pairs_avx512(p, row, row_end, panel, panel_end);
    return;
  }
  if (GR_HAS_AVX2) {
    gr_panels_block_pairs_avx2(p, row, row_end, panel, panel_end);
    return;
  }
#elif defined(__aarch64__)
  if (GR_NEON) {
    gr_panels_block_pairs_neon(p, row, row_end, panel, panel_end);
    return;
  }
#endif
  gr_panels_block_pairs_any(p, row, row_end, panel, panel_end);
}

/* The same, B in levels. */
static inline void gr_panels_levels(const gr_panels *p, int64_t row, int64_t row_end, int64_t panel,
                                    int64_t panel_end) {
#if defined(__x86_64__)
  if (p->digits) {
    gr_panels_block_digits(p, row, row_end, panel, panel_end);
    return;
  }
  if (GR_HAS_AVX512) {
    gr_panels_block_levels_avx512(p, row, row_end, panel, panel_end);
    return;
  }
  if (GR_HAS_AVX2) {
    gr_panels_block_levels_avx2(p, row, row_end, panel, panel_end);
    return;
  }
#elif defined(__aarch64__)
  if (GR_NEON) {
    gr_panels_block_levels_neon(p, row, row_end, panel, panel_end);
    return;
  }
#endif
  gr_panels_block_levels_any(p, row, row_end, panel, panel_end);
}

static inline void gr_panels_block(const gr_panels *p, int64_t row, int64_t row_end, int64_t panel,
                                   int64_t panel_end) {
#ifndef GR_AMX_NONE
  if (gr_panels_by_amx(p)) {
    gr_panels_block_amx(p, row, row_end, panel, panel_end);
    return;
  }
#endif
  (p->bits ? gr_panels_levels : p->pairs ? gr_panels_pairs : gr_panels_floats)(p, row, row_end, panel, panel_end);
}

/* ---------------------------------------------------------------- all of C */

static inline void gr_panels_serial(const gr_panels *p) {
  gr_panels_block(p, 0, p->rows, 0, gr_ceil_div(p->n, GR_PANEL));
}

static int32_t gr_panels_task(void *ctx, int64_t index) {
  const gr_panels *p = ctx;
  gr_piece piece = gr_piece_at(&p->pieces, index);
  gr_panels_block(p, piece.row, piece.row_end, piece.panel, piece.panel_end);
  return GR_OK;
}

/* Over the pool. */
static inline int32_t gr_panels_run(const gr_env *env, gr_panels *p) {
  if (p->rows == 0 || p->n == 0) return GR_OK;
  int64_t flops = 2 * gr_max(p->rows, GR_PANELS_LOAD) * p->n * gr_max(p->k, 1);
  int64_t block = GR_BLOCK_ROWS, grain = GR_PANELS_GRAIN, fewest = GR_SHARED_ROWS;
  if (gr_panels_by_amx(p)) {
    block = GR_AMX_ROWS;
    grain *= GR_AMX_FASTER;
    fewest *= GR_AMX_FASTER;
  } else if (p->bits) {
    fewest *= 4;                       /* each thread makes numbers of the levels that it reads */
#if defined(__x86_64__)
    if (GR_HAS_AVX512VNNI) p->digits = gr_digits_of(p);
#endif
  } else if (p->n * p->k * (p->pairs ? 2 : 4) <= gr_group_bytes()) {
    fewest = GR_BLOCK_ROWS;            /* B comes from memory once */
  }
  p->pieces = gr_cut(p->rows, p->n, block, env->num_cores, flops, grain, fewest);
  if (p->pieces.down * p->pieces.across > 1)
    return env->parallel_for(env, p->pieces.down * p->pieces.across, gr_panels_task, p);
  gr_panels_serial(p);
  return GR_OK;
}

#endif
