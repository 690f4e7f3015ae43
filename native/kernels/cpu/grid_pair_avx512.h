/* grid_pair_avx512.h: the sum or the product of two tensors of bytes (gr_grid_pair of grid.h), 64 elements at a time.
 *
 * What dequantize, one op and quantize make lies next to a * (scale of a / scale of the result) + b * (...) + a number,
 * which is two fused products. It is rounded to the same number unless a tie is as near as both may be apart: those
 * elements are made step by step. The margin: a, b and the number have at most 255 units, each with four roundings in
 * either way of computing, of 2^-24 of that; a product, which has one operand more and no sum, has less.
 *
 * Included by: grid.h, where the compiler's target is x86-64. Thread: any.
 * defines: gr_grid_pair_near, gr_grid_pair_near_of, gr_grid_pair_near_avx512
 */
#ifndef GR_CPU_GRID_PAIR_AVX512_H
#define GR_CPU_GRID_PAIR_AVX512_H

#include <immintrin.h>

typedef struct gr_grid_pair_near {
  float a, b, number;                  /* a x + b y + number; of a product (x - number) (y - b) a */
  float tie;                           /* how far from an integer is no tie; 0 or less: nothing is known */
  float most;
  int zero, least;                     /* words; less the turn of signed results */
  int turn;
} gr_grid_pair_near;

static inline gr_grid_pair_near gr_grid_pair_near_of(const gr_grid_pair *g) {
  float scale = g->to.scale, least = rintf(g->to.least / scale), most = rintf(g->to.most / scale);
  int zero = g->to.zero + 0x4b400000, turn = least + (float)zero < 0 ? 0x80 : 0;
  gr_grid_pair_near made = {.most = most, .zero = zero + turn, .least = (int)least + zero + turn, .turn = turn};
  if (g->multiplies) {
    made.a = g->a_scale * g->b_scale / scale;
    made.number = (float)g->a_zero;
    made.b = (float)g->b_zero;
    made.tie = 0.5f - 512 * 0x1p-20f;  /* of what is kept: a quotient of at most 511 */
    return made;
  }
  made.a = g->a_scale / scale;
  made.b = g->b_scale / scale;
  made.number = (float)-(g->a_zero * (double)made.a + g->b_zero * (double)made.b);
  made.tie = 0.5f - 255 * 0x1p-20f * (made.a + made.b);
  return made;
}

#define GR_NEAR_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,fma")))

static inline __attribute__((always_inline)) GR_NEAR_TARGET __m512 gr_near_floats(const uint8_t *x, uint8_t flip) {
  __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const __m128i *)x), _mm_set1_epi8((char)flip));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

/* Two vectors of quotients as words; adds to ``ties`` those next to one. */
static inline __attribute__((always_inline)) GR_NEAR_TARGET __m512i gr_near_words(const gr_grid_pair_near *s, __m512 x,
                                                                                  __m512 y, __mmask16 *ties) {
  __m512 tie = _mm512_set1_ps(s->tie), most = _mm512_set1_ps(s->most);
  __m512 apart = _mm512_sub_ps(x, _mm512_roundscale_ps(x, 8)), other = _mm512_sub_ps(y, _mm512_roundscale_ps(y, 8));
  *ties |= _mm512_cmp_ps_mask(_mm512_abs_ps(apart), tie, _CMP_GT_OQ);
  *ties |= _mm512_cmp_ps_mask(_mm512_abs_ps(other), tie, _CMP_GT_OQ);
  __m512i words = _mm512_packs_epi32(_mm512_cvtps_epi32(_mm512_min_ps(x, most)),
                                     _mm512_cvtps_epi32(_mm512_min_ps(y, most)));
  words = _mm512_add_epi16(words, _mm512_set1_epi16((short)s->zero));
  return _mm512_max_epi16(words, _mm512_set1_epi16((short)s->least));
}

/* Elements 0 .. 63; whether none is next to a tie, and all are made. b_step: 0 where b is one number. */
static inline __attribute__((always_inline)) GR_NEAR_TARGET int gr_near_block(const gr_grid_pair *g,
                                                                              const gr_grid_pair_near *s,
                                                                              const uint8_t *a, const uint8_t *b,
                                                                              int b_step, int multiplies, __m512 one,
                                                                              uint8_t *out) {
  __m512 made[4], by = _mm512_set1_ps(s->a), other = _mm512_set1_ps(s->b), number = _mm512_set1_ps(s->number);
  __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __mmask16 ties = 0;
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    __m512 x = gr_near_floats(a + 16 * v, g->a_flip), y = one;
    if (b_step) y = gr_near_floats(b + 16 * v, g->b_flip);
    if (multiplies) made[v] = _mm512_mul_ps(_mm512_mul_ps(_mm512_sub_ps(x, number), _mm512_sub_ps(y, other)), by);
    else made[v] = _mm512_fmadd_ps(x, by, b_step ? _mm512_fmadd_ps(y, other, number) : y);
  }
  __m512i bytes = _mm512_packus_epi16(gr_near_words(s, made[0], made[1], &ties),
                                      gr_near_words(s, made[2], made[3], &ties));
  bytes = _mm512_xor_si512(_mm512_permutexvar_epi32(order, bytes), _mm512_set1_epi8((char)s->turn));
  if (ties) return 0;
  _mm512_storeu_si512(out, bytes);
  return 1;
}

/* Elements that are made, in blocks of 64; ``steps`` makes those next to ties. */
static GR_NEAR_TARGET int64_t gr_grid_pair_near_avx512(const gr_grid_pair *g, const uint8_t *a, const uint8_t *b,
                                                       int b_step, uint8_t *out, int64_t n,
                                                       void (*steps)(const gr_grid_pair *g, const uint8_t *a,
                                                                     const uint8_t *b, int b_step, uint8_t *out,
                                                                     int64_t n)) {
  gr_grid_pair_near s = gr_grid_pair_near_of(g);
  if (!(s.tie > 0.25f)) return 0;
  float single = (float)(b[0] ^ g->b_flip);
  __m512 one = _mm512_set1_ps(g->multiplies ? single : s.b * single + s.number);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    int done;
    if (b_step && g->multiplies) done = gr_near_block(g, &s, a + i, b + i, 1, 1, one, out + i);
    else if (b_step) done = gr_near_block(g, &s, a + i, b + i, 1, 0, one, out + i);
    else done = gr_near_block(g, &s, a + i, b, 0, g->multiplies, one, out + i);
    if (!done) steps(g, a + i, b + (b_step ? i : 0), b_step, out + i, 64);
  }
  return i;
}

#endif
