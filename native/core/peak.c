/* peak.c: peak rates of the machine on all threads of the pool: products in registers, reads and copies. The caller has
 * the clock; profiles compare kernels with these rates.
 *
 * Called by graph_runtime/binding/core.py.
 * defines: gr_peak_products, gr_peak_moves
 */
#include <string.h>

#include "isa/amx.h"
#include "isa/has.h"
#include "pool.h"

#ifdef __aarch64__
#define GR_PEAK_SUMS 24          /* of 32 registers */
#else
#define GR_PEAK_SUMS 12          /* of 16 */
#endif

#ifdef __aarch64__
#include "isa/neon.h"
#else
#include "isa/any.h"
#endif
#include "peak_isa.h"
#ifdef __x86_64__
#include "isa/avx2.h"
#include "peak_isa.h"
#include "isa/avx512.h"
#include "peak_isa.h"
#include "isa/avx512bf16.h"
#define GR_PEAK_OF_PAIRS
#include "peak_isa.h"
#include "isa/avx512vnni.h"
#include "peak_isa.h"
#endif

#ifndef GR_AMX_NONE
/* Four tiles of sums, which do not wait for each other. */
#define GR_PEAK_TILES(dot)                                                  \
  gr_amx_open();                                                            \
  for (int64_t i = 0; i < rounds; i++) {                                    \
    dot(0, 4, 6); dot(1, 4, 7); dot(2, 5, 6); dot(3, 5, 7);                 \
  }                                                                         \
  gr_amx_close()
static double peak_tiles(int32_t kind, int64_t rounds) {
  if (kind == GR_PEAK_PAIRS_OF_BF16) {
    GR_PEAK_TILES(GR_AMX_DOT_BF16);
    return 4 * 2.0 * 16 * 16 * 32 * (double)rounds;
  }
  GR_PEAK_TILES(GR_AMX_DOT_BYTES);
  return 4 * 2.0 * 16 * 16 * 64 * (double)rounds;
}
#endif

static double peak_products(int32_t kind, int64_t rounds, float *made) {
#ifndef GR_AMX_NONE
  if (kind == GR_PEAK_PAIRS_OF_BF16 && gr_amx() & GR_AMX_BF16) return peak_tiles(kind, rounds);
  if (kind == GR_PEAK_BYTES && gr_amx() & GR_AMX_BYTES) return peak_tiles(kind, rounds);
#endif
#ifdef __x86_64__
  if (kind == GR_PEAK_PAIRS_OF_BF16 && GR_HAS_AVX512BF16) return gr_peak_pairs_avx512bf16(rounds, made);
  if (kind == GR_PEAK_BYTES && GR_HAS_AVX512VNNI) return gr_peak_bytes_avx512vnni(rounds, made);
  if (GR_HAS_AVX512) return gr_peak_floats_avx512(rounds, made);
  if (GR_HAS_AVX2) return gr_peak_floats_avx2(rounds, made);
#endif
#ifdef __aarch64__
  return gr_peak_floats_neon(rounds, made);
#else
  return gr_peak_floats_any(rounds, made);
#endif
}

typedef struct products {
  int32_t kind;
  int64_t rounds;
  double operations[MOST_THREADS]; /* of each piece */
} products;

static int32_t products_task(void *ctx, int64_t index) {
  products *job = ctx;
  volatile float kept;           /* so that the sums are made */
  float made = 0;
  job->operations[index] = peak_products(job->kind, job->rounds, &made);
  kept = made;
  (void)kept;
  return GR_OK;
}

double gr_peak_products(int32_t kind, int64_t rounds) {
  products job = {.kind = kind, .rounds = rounds};
  int64_t threads = gr_pool_threads();
  double all = 0;
  gr_pool_run(threads, products_task, &job);
  for (int64_t i = 0; i < threads; i++) all += job.operations[i];
  return all;
}

typedef struct moves {
  char *to;
  const char *from;
  int64_t bytes, threads, times;
} moves;

static int32_t moves_task(void *ctx, int64_t index) {
  const moves *job = ctx;
  int64_t first = gr_pool_first(job->bytes, job->threads, index);
  size_t n = (size_t)(gr_pool_first(job->bytes, job->threads, index + 1) - first);
  for (int64_t i = 0; i < job->times; i++) {
    if (job->to) memcpy(job->to + first, job->from + first, n);
    else if (memchr(job->from + first, 1, n)) return GR_ERR_ARGUMENT;
    __asm__ volatile("" : : : "memory");
  }
  return GR_OK;
}

int32_t gr_peak_moves(void *to, const void *from, int64_t bytes, int64_t times) {
  moves job = {to, from, bytes, gr_pool_threads(), times};
  return gr_pool_run(job.threads, moves_task, &job);
}
