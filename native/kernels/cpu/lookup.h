/* lookup.h: functions of one byte by a table. Template over bytes.
 *
 * Arguments and rules: ir/ops/integers/quantized.py.
 *
 * defines: gr_cpu_lookup__<suffix>
 */
#ifndef GR_CPU_LOOKUP_H
#define GR_CPU_LOOKUP_H

/* Bytes by a table of 256, each byte turned by ``flip`` to be a place in it. */
static inline void gr_lookup_bytes(const uint8_t *x, const uint8_t *table, uint8_t flip, uint8_t *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = table[x[i] ^ flip];
}

#if defined(__x86_64__)
typedef uint8_t gr_table_bytes __attribute__((vector_size(64), aligned(1), may_alias));
/* 64 places at a time: each half of the table by one permutation of two vectors, the upper bit of a place chooses. */
static __attribute__((target("avx512f,avx512bw,avx512vbmi"))) void gr_lookup_vbmi(const uint8_t *x,
                                                                                  const uint8_t *table, uint8_t flip,
                                                                                  uint8_t *out, int64_t n) {
  gr_table_bytes t0 = *(const gr_table_bytes *)table, t1 = *(const gr_table_bytes *)(table + 64);
  gr_table_bytes t2 = *(const gr_table_bytes *)(table + 128), t3 = *(const gr_table_bytes *)(table + 192);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    gr_table_bytes at = *(const gr_table_bytes *)(x + i) ^ flip, low = at, high = at;
    __asm__("vpermi2b %2, %1, %0" : "+v"(low) : "v"(t0), "v"(t1));
    __asm__("vpermi2b %2, %1, %0" : "+v"(high) : "v"(t2), "v"(t3));
    gr_table_bytes upper = (gr_table_bytes)(at > 127);
    *(gr_table_bytes *)(out + i) = (low & ~upper) | (high & upper);
  }
  gr_lookup_bytes(x + i, table, flip, out + i, n - i);
}
#endif

static inline void gr_lookup_run(const uint8_t *x, const uint8_t *table, uint8_t flip, uint8_t *out, int64_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw")) {
    gr_lookup_vbmi(x, table, flip, out, n);
    return;
  }
#endif
  gr_lookup_bytes(x, table, flip, out, n);
}
#endif

static int32_t GR_FN(lookup_part)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  const uint8_t *x = gr_ptr(&call->args[0]);
  uint8_t *out = gr_ptr(&call->args[2]);
  gr_lookup_run(x + first, gr_ptr(&call->args[1]), call->args[0].dtype == GR_I8 ? 0x80 : 0, out + first, last - first);
  return GR_OK;
}

/* gr-kernel: cpu/lookup : i8 u8 */
static inline int32_t GR_BODY(lookup)(const gr_call *call) {
  return gr_parallel(call->env, gr_size(&call->args[0]), 2 * GR_GRAIN, GR_FN(lookup_part), (void *)(uintptr_t)call);
}
