/* exact_linear.h: matmul and dense to the last bit (native/ttsim/exact.h): one 32x32 tile of the output after
 * the other, K ascending by tiles.
 *
 * As the machine's kernels do: in0 lies in SrcB, in1 in SrcA; after every u_kt tiles of K Dst is packed
 * to the intermediate format and loaded again; a bias is added by ELWADD to the packed sums.
 *
 * Included by: linear.h, conv.h. Thread: any; a core makes a tile.
 * defines: gr_tt_exact_source, gr_tt_exact_spill, gr_tt_exact_bias, gr_tt_exact_store, gr_tt_exact_matmul
 */
#ifndef GR_TT_EXACT_LINEAR_H
#define GR_TT_EXACT_LINEAR_H

#include "exact.h"
#include "tt/program.h"
#include "tt/words.h"
#include "tt/work.h"

/* ---------------------------------------------------------------- shared with conv2d */

/* A decoded 32x32 tile as source registers. */
static inline void gr_tt_exact_source(uint8_t format, uint32_t *tile) {
  for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i) tile[i] = gr_exact_source(format, tile[i]);
}

/* Sums between two K blocks are kept as wide as Dst; those of a 16-bit Dst in the output's format. */
static inline uint8_t gr_tt_exact_intermediate(uint8_t output, int32_t dst_bits) {
  return dst_bits == 32 ? GR_F32 : output;
}

static inline void gr_tt_exact_spill(uint8_t output, int32_t dst_bits, uint32_t *dst) {
  gr_exact_spill_tile(gr_tt_exact_intermediate(output, dst_bits), dst_bits, dst);
}

/* dst = dst + bias, the sums having gone through L1 into SrcA; bias[32] is one number a column. */
static inline void gr_tt_exact_bias(uint8_t output, uint8_t format, int32_t dst_bits, const uint32_t *bias,
                                    uint32_t *dst) {
  uint8_t intermediate = gr_tt_exact_intermediate(output, dst_bits);
  gr_exact_spill_tile(intermediate, dst_bits, dst);
  for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i) {
    uint32_t sum = gr_exact_source(intermediate, dst[i]), add = gr_exact_source(format, bias[i % 32]);
    dst[i] = gr_exact_add(sum, add, 0, dst_bits);
  }
}

/* Runs the epilogue, whose inputs take what follows dst as `panels` says, and packs dst to the rectangle of at
 * most 32x32; padding counts for no block's exponent. */
static inline int32_t gr_tt_exact_store(const gr_tt_core *c, const gr_tt_view *out, gr_tt_rect at,
                                        const gr_tt_program *program, uint32_t *dst, uint32_t *panels) {
  for (int32_t i = 0; i < GR_TILE_ELEMENTS; ++i) dst[i] = gr_exact_packed(dst[i], program->dst_bits);
  float *x = (float *)(void *)dst;
  GR_TT_TRY(gr_tt_program_run(c, program, out, at, x, 32, (float *)(void *)panels));
  return gr_tt_store(c, out, at, dst, 32, 0);
}

/* ---------------------------------------------------------------- matmul and dense */

typedef struct gr_tt_exact_job {
  gr_tt_view a, b, bias;        /* bias.arg is NULL where there is none */
  int transpose_a, transpose_b;
  int64_t k;
  gr_tt_words words;
  gr_tt_program program;        /* the epilogue */
} gr_tt_exact_job;

/* nr x nc elements from r0, c0 on as a tile of source registers, 0 around them; transposed: the tile of the
 * swapped rectangle. spare: a tile. */
static inline int32_t gr_tt_exact_operand(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at,
                                          int transposed, uint32_t *tile, uint32_t *spare) {
  uint32_t *to = transposed ? spare : tile;
  if (transposed) at = (gr_tt_rect){at.plane, at.c0, at.nc, at.r0, at.nr};
  memset(to, 0, GR_TILE_ELEMENTS * 4);
  GR_TT_TRY(gr_tt_load(c, v, at, to, 32));
  for (int32_t i = 0; transposed && i < GR_TILE_ELEMENTS; ++i) tile[i] = spare[i % 32 * 32 + i / 32];
  gr_tt_exact_source(v->arg->format, tile);
  return GR_OK;
}

static inline int32_t gr_tt_exact_panel(const gr_tt_core *c, const void *ctx, const gr_tt_panels *cut,
                                        gr_tt_rect at) {
  const gr_tt_exact_job *job = (const gr_tt_exact_job *)ctx;
  const gr_tt_words *words = &job->words;
  uint8_t output = cut->view.arg->format;
  uint32_t *dst = (uint32_t *)(void *)c->space, *a = dst + GR_TILE_ELEMENTS, *b = a + GR_TILE_ELEMENTS;
  uint32_t *spare = b + GR_TILE_ELEMENTS;
  int64_t a_plane = gr_tt_broadcast_plane(job->a.arg, cut->view.arg, at.plane);
  int64_t b_plane = gr_tt_broadcast_plane(job->b.arg, cut->view.arg, at.plane);
  gr_exact_clear(dst);
  for (int64_t k = 0; k < job->k; k += 32) {
    int64_t n = gr_tt_lesser(32, job->k - k);
    if (k > 0 && words->u_kt > 0 && k / 32 % words->u_kt == 0)
      gr_tt_exact_spill(output, words->dst_bits, dst);
    GR_TT_TRY(gr_tt_exact_operand(c, &job->a, (gr_tt_rect){a_plane, at.r0, at.nr, k, n}, job->transpose_a, a,
                                  spare));
    GR_TT_TRY(gr_tt_exact_operand(c, &job->b, (gr_tt_rect){b_plane, k, n, at.c0, at.nc}, job->transpose_b, b,
                                  spare));
    gr_exact_matmul_tile(dst, a, b, gr_tt_phases(words), words->dst_bits);
  }
  if (job->bias.arg != NULL) {
    memset(spare, 0, 32 * sizeof *spare);
    GR_TT_TRY(gr_tt_load(c, &job->bias, (gr_tt_rect){0, 0, 1, at.c0, at.nc}, spare, 32));
    gr_tt_exact_bias(output, job->bias.arg->format, words->dst_bits, spare, dst);
  }
  return gr_tt_exact_store(c, &cut->view, at, &job->program, dst, spare + GR_TILE_ELEMENTS);
}

static inline int32_t gr_tt_exact_matmul(const gr_call *call, const gr_arg *out, const gr_tt_exact_job *job) {
  gr_tt_panels cut = {.view = gr_tt_view_of(out), .height = 32, .width = 32};
  cut.down = gr_tt_ceil_div(cut.view.rows, 32);
  cut.across = gr_tt_ceil_div(cut.view.cols, 32);
  uint64_t bytes = gr_tt_bytes(4 + job->program.inputs, GR_TILE_ELEMENTS);
  return gr_tt_run_panels(call, &cut, bytes, gr_tt_exact_panel, job);
}

#endif
