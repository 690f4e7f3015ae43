/* exact_conv.h: conv2d to the last bit: the matmul of its im2col rows by tiles (native/ttsim/exact.h).
 *
 * M is output positions (in0, SrcB), N output channels (in1, SrcA), K runs over kernel row, kernel column and
 * channel, channels fastest, filled up with zeros to whole tiles at its end. A tile of M is 32 columns of one
 * output row. A core makes 32 output rows of up to 32 output channels of one image and group.
 *
 * Included by: conv.h. Thread: any.
 * defines: gr_tt_exact_conv
 */
#ifndef GR_TT_EXACT_CONV_H
#define GR_TT_EXACT_CONV_H

#include "tt/exact_linear.h"

#define GR_TT_EXACT_ROWS 8           /* output rows whose im2col tiles are in L1 at a time */
#define GR_TT_EXACT_STRIP 16384      /* most elements of the input that are read at a time */

typedef struct gr_tt_exact_conv_job {
  gr_tt_view x, w, bias, y;          /* bias.arg is NULL where there is none */
  int64_t stride[2], pad[2], dilation[2];
  int64_t groups, channels, outputs; /* channels and outputs of a group */
  gr_tt_words words;
  gr_tt_program program;       /* the epilogue */
} gr_tt_exact_conv_job;

/* L1: dst [32 rows][32 columns][32 channels], im2col tiles [ROWS][32][32], one tile of weights, one more,
 * one for each input of the epilogue, and a strip of the input. */
typedef struct gr_tt_exact_conv_l1 {
  uint32_t *dst, *acts, *weights, *spare, *panels, *strip;
} gr_tt_exact_conv_l1;

/* Work of a core: image and group, its first output channel, and the corner of a 32x32 tile of y. */
typedef struct gr_tt_exact_spot {
  int64_t image, group, first, count, r0, nr, c0, nc;
} gr_tt_exact_spot;

static inline int64_t gr_tt_exact_depth(const gr_tt_exact_conv_job *job) {
  return job->w.rows * job->w.cols * job->channels;
}

/* weights[32 of K][32 channels] from k0 on */
static inline int32_t gr_tt_exact_conv_weights(const gr_tt_core *c, const gr_tt_exact_conv_job *job,
                                               const gr_tt_exact_spot *s, int64_t k0, uint32_t *weights) {
  memset(weights, 0, GR_TILE_ELEMENTS * 4);
  for (int64_t k = k0; k < gr_tt_lesser(k0 + 32, gr_tt_exact_depth(job)); ++k) {
    int64_t channel = k % job->channels, tap = k / job->channels;
    for (int64_t o = 0; o < s->count; ++o) {
      int64_t plane = (s->group * job->outputs + s->first + o) * job->channels + channel;
      gr_tt_rect at = {plane, tap / job->w.cols, 1, tap % job->w.cols, 1};
      GR_TT_TRY(gr_tt_load(c, &job->w, at, weights + (k - k0) * 32 + o, 1));
    }
  }
  gr_tt_exact_source(job->w.arg->format, weights);
  return GR_OK;
}

/* Column `column` of the im2col tiles of output rows row .. row+n-1: element k of K at every position; the
 * tiles were cleared, and what hangs over the image stays zero. */
static inline int32_t gr_tt_exact_gather(const gr_tt_core *c, const gr_tt_exact_conv_job *job,
                                         const gr_tt_exact_spot *s, int64_t k, int64_t row, int64_t n,
                                         uint32_t *strip, uint32_t *acts) {
  int64_t channel = k % job->channels, tap = k / job->channels, column = k % 32;
  int64_t plane = (s->image * job->groups + s->group) * job->channels + channel;
  int64_t top = row * job->stride[0] + tap / job->w.cols * job->dilation[0] - job->pad[0];
  int64_t left = s->c0 * job->stride[1] + tap % job->w.cols * job->dilation[1] - job->pad[1];
  int64_t h0 = gr_tt_greater(top, 0), h1 = gr_tt_lesser(top + (n - 1) * job->stride[0] + 1, job->x.rows);
  int64_t w0 = gr_tt_greater(left, 0);
  int64_t w1 = gr_tt_lesser(left + (s->nc - 1) * job->stride[1] + 1, job->x.cols), ld = w1 - w0;
  if (h0 >= h1 || w0 >= w1) return GR_OK;
  GR_TT_TRY(gr_tt_load(c, &job->x, (gr_tt_rect){plane, h0, h1 - h0, w0, ld}, strip, ld));
  for (int64_t r = 0; r < n; ++r)
    for (int64_t j = 0; j < s->nc; ++j) {
      int64_t h = top + r * job->stride[0], w = left + j * job->stride[1];
      if (h < h0 || h >= h1 || w < w0 || w >= w1) continue;
      uint32_t value = strip[(h - h0) * ld + w - w0];
      acts[r * GR_TILE_ELEMENTS + j * 32 + column] = gr_exact_source(job->x.arg->format, value);
    }
  return GR_OK;
}

/* Output rows whose part of the input fits a strip, at least one. */
static inline int64_t gr_tt_exact_rows(const gr_tt_exact_conv_job *job) {
  int64_t wide = 31 * job->stride[1] + 1, rows = GR_TT_EXACT_ROWS;
  while (rows > 1 && ((rows - 1) * job->stride[0] + 1) * wide > GR_TT_EXACT_STRIP) --rows;
  return rows;
}

/* dst += the products of one tile of K */
static inline int32_t gr_tt_exact_conv_step(const gr_tt_core *c, const gr_tt_exact_conv_job *job,
                                            const gr_tt_exact_spot *s, int64_t k0,
                                            const gr_tt_exact_conv_l1 *l1) {
  int64_t rows = gr_tt_exact_rows(job), end = gr_tt_lesser(k0 + 32, gr_tt_exact_depth(job));
  GR_TT_TRY(gr_tt_exact_conv_weights(c, job, s, k0, l1->weights));
  for (int64_t r = 0; r < s->nr; r += rows) {
    int64_t n = gr_tt_lesser(rows, s->nr - r);
    memset(l1->acts, 0, (size_t)(n * GR_TILE_ELEMENTS) * 4);
    for (int64_t k = k0; k < end; ++k)
      GR_TT_TRY(gr_tt_exact_gather(c, job, s, k, s->r0 + r, n, l1->strip, l1->acts));
    for (int64_t i = 0; i < n; ++i)
      gr_exact_matmul_tile(l1->dst + (r + i) * GR_TILE_ELEMENTS, l1->acts + i * GR_TILE_ELEMENTS, l1->weights,
                           gr_tt_phases(&job->words), job->words.dst_bits);
  }
  return GR_OK;
}

/* Bias, then each channel's 32x32 tile of y. */
static inline int32_t gr_tt_exact_conv_finish(const gr_tt_core *c, const gr_tt_exact_conv_job *job,
                                              const gr_tt_exact_spot *s, const gr_tt_exact_conv_l1 *l1) {
  int64_t first = s->group * job->outputs + s->first, bits = job->words.dst_bits;
  if (job->bias.arg != NULL) {
    memset(l1->spare, 0, 32 * sizeof *l1->spare);
    GR_TT_TRY(gr_tt_load(c, &job->bias, (gr_tt_rect){0, 0, 1, first, s->count}, l1->spare, 32));
    for (int64_t r = 0; r < s->nr; ++r)
      gr_tt_exact_bias(job->y.arg->format, job->bias.arg->format, (int32_t)bits, l1->spare,
                       l1->dst + r * GR_TILE_ELEMENTS);
  }
  for (int64_t o = 0; o < s->count; ++o) {
    for (int64_t i = 0; i < s->nr * 32; ++i) l1->spare[i] = l1->dst[i * 32 + o];
    gr_tt_rect at = {s->image * job->groups * job->outputs + first + o, s->r0, s->nr, s->c0, s->nc};
    GR_TT_TRY(gr_tt_exact_store(c, &job->y, at, &job->program, l1->spare, l1->panels));
  }
  return GR_OK;
}

static inline int32_t gr_tt_exact_conv_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_exact_conv_job *job = (const gr_tt_exact_conv_job *)ctx;
  int64_t blocks = gr_tt_ceil_div(job->outputs, 32), lines = gr_tt_ceil_div(job->y.rows, 32);
  gr_tt_exact_conv_l1 l1 = {.dst = (uint32_t *)(void *)c->space};
  l1.acts = l1.dst + 32 * GR_TILE_ELEMENTS;
  l1.weights = l1.acts + GR_TT_EXACT_ROWS * GR_TILE_ELEMENTS;
  l1.spare = l1.weights + GR_TILE_ELEMENTS;
  l1.panels = l1.spare + GR_TILE_ELEMENTS;
  l1.strip = l1.panels + job->program.inputs * GR_TILE_ELEMENTS;
  gr_tt_exact_spot s = {.r0 = unit % lines * 32, .first = unit / lines % blocks * 32};
  s.group = unit / lines / blocks % job->groups;
  s.image = unit / lines / blocks / job->groups;
  s.count = gr_tt_lesser(32, job->outputs - s.first);
  s.nr = gr_tt_lesser(32, job->y.rows - s.r0);
  for (s.c0 = 0; s.c0 < job->y.cols; s.c0 += 32) {
    s.nc = gr_tt_lesser(32, job->y.cols - s.c0);
    memset(l1.dst, 0, 32 * GR_TILE_ELEMENTS * 4);
    for (int64_t k = 0; k < gr_tt_exact_depth(job); k += 32) {
      int64_t u_kt = job->words.u_kt;
      for (int64_t r = 0; k > 0 && u_kt > 0 && k / 32 % u_kt == 0 && r < s.nr; ++r)
        gr_tt_exact_spill(job->y.arg->format, job->words.dst_bits, l1.dst + r * GR_TILE_ELEMENTS);
      GR_TT_TRY(gr_tt_exact_conv_step(c, job, &s, k, &l1));
    }
    GR_TT_TRY(gr_tt_exact_conv_finish(c, job, &s, &l1));
  }
  return GR_OK;
}

static inline int32_t gr_tt_exact_conv(const gr_call *call, const gr_tt_exact_conv_job *job) {
  int64_t strip = gr_tt_greater(GR_TT_EXACT_STRIP, 31 * job->stride[1] + 1);
  int64_t tiles = 32 + GR_TT_EXACT_ROWS + 2 + job->program.inputs, images = job->y.arg->shape[0];
  int64_t units = images * job->groups * gr_tt_ceil_div(job->outputs, 32) * gr_tt_ceil_div(job->y.rows, 32);
  return gr_tt_run(call, units, gr_tt_bytes(1, tiles * GR_TILE_ELEMENTS + strip), gr_tt_exact_conv_unit, job);
}

#endif
