/* conv_plan.h: how conv2d is cut: windows of the output and parts of them, output channels, steps of K, and the L1
 * that all of it takes.
 *
 * A chosen op model (blocking.h) says how many cores share windows (grid rows) and output channels (grid
 * columns, mblock_n x ublock_ct tiles at a time), where sums spill, and the L1 that is taken; windows are not
 * pieces of its rows of pixels, since every plane has tiles of its own. Where L1 is short there are fewer channels,
 * smaller steps of K between two spills and smaller parts: none of them changes a sum.
 *
 * Included by: conv.h. Thread: the caller's. graph_runtime/simulation/walks/conv.py says the same.
 * defines: gr_tt_conv_side, gr_tt_conv_job, gr_tt_conv_parts, gr_tt_conv_sums, gr_tt_conv_ld, gr_tt_conv_staged,
 * gr_tt_conv_stage_floats, gr_tt_conv_floats, gr_tt_conv_plan
 */
#ifndef GR_TT_CONV_PLAN_H
#define GR_TT_CONV_PLAN_H

#include "tt/blocking.h"
#include "tt/operand.h"
#include "tt/program.h"

#define GR_TT_CONV_UNITS 4    /* units worth having: each reads weights and input anew, so not one a core */
#define GR_TT_CONV_COLS 64    /* most columns of a window */
#define GR_TT_CONV_PIXELS 1024    /* of a window of several images, what lies between rows counted */
#define GR_TT_CONV_ROWS 8         /* of a part, before fewer output channels are made at a time */
#define GR_TT_CONV_STAGE 4096     /* floats of planes on their way, where one plane has no more */

/* One dimension of the window: 0 height, 1 width. */
typedef struct gr_tt_conv_side {
  int64_t stride, pad, dilation, taps;
  int64_t window;          /* output pixels of a window at most */
  int64_t out, parts;      /* of a part of it at most; parts of a window */
  int64_t in;              /* input pixels that a part looks at */
  int64_t phases;          /* remainders of the taps' distances by the stride: tap t is of t % phases */
  int64_t lines;           /* input pixels of one phase */
} gr_tt_conv_side;

typedef struct gr_tt_conv_job {
  gr_tt_view x, w, bias, y;                 /* bias.arg is NULL where there is none */
  gr_tt_conv_side side[2];
  gr_tt_arithmetic how;
  int64_t groups, channels, outputs;        /* C and O of one group */
  int64_t k, depth;                         /* depth: elements of K in L1 at a time */
  int64_t spill;                            /* of K between two spills; 0: none */
  int64_t block;                            /* output channels at a time */
  int64_t images, rounds;                   /* images at a time, windows of them */
  int64_t lines;                            /* floats of a phase of one image's plane */
  int packed;                               /* each tap is copied */
  int64_t pitch, line;                      /* sums from a row of pixels to the next, from an image to the next */
  int64_t plane, area;                      /* floats of an input channel, of an output channel's sums of a part */
  int64_t planes;                           /* input channels in L1 at a time */
  int64_t bands, across, blocks;            /* windows down and across a plane, channel blocks of a group */
  gr_tt_program program;                    /* the epilogue */
} gr_tt_conv_job;

/* ---------------------------------------------------------------- L1 */

/* Parts of a window, and the floats of its sums of an output channel. */
static inline int64_t gr_tt_conv_parts(const gr_tt_conv_job *job) { return job->side[0].parts * job->side[1].parts; }

static inline int64_t gr_tt_conv_sums(const gr_tt_conv_job *job) { return gr_tt_conv_parts(job) * job->area; }

/* From a row of a finished window to the next, at most. */
static inline int64_t gr_tt_conv_ld(const gr_tt_conv_job *job) {
  return gr_tt_conv_parts(job) > 1 ? job->side[1].window : job->pitch;
}

/* Planes at a time on their way to the images of a part, and the floats that they take. */
static inline int64_t gr_tt_conv_staged(const gr_tt_conv_job *job) {
  if (gr_tt_conv_parts(job) > 1) return 1;
  return gr_tt_greater(1, GR_TT_CONV_STAGE / (job->side[0].in * job->side[1].in));
}

static inline int64_t gr_tt_conv_stage_floats(const gr_tt_conv_job *job) {
  int64_t plane = job->side[0].in * job->side[1].in;
  return gr_tt_conv_parts(job) > 1 ? plane : gr_tt_greater(GR_TT_CONV_STAGE, plane);
}

/* Floats read before they are put in place: planes and an image, or a row of weights; or of a window whose parts are put
 * together. */
static inline int64_t gr_tt_conv_rows_floats(const gr_tt_conv_job *job) {
  const gr_tt_conv_side *h = &job->side[0], *w = &job->side[1];
  int64_t weights = gr_tt_greater(job->depth + 2 * w->taps, h->taps * w->taps);
  int64_t image = gr_tt_conv_stage_floats(job) + h->in * w->in;
  int64_t window = gr_tt_conv_parts(job) > 1 ? h->window * w->window : 0;
  return gr_tt_up(gr_tt_greater(window, gr_tt_greater(weights, image)), GR_STRIPE);
}

/* ---------------------------------------------------------------- planning */

/* Cuts a side of the windows into parts of `out` output pixels. */
static inline void gr_tt_conv_side_of(gr_tt_conv_side *s, int64_t out) {
  s->out = out;
  s->parts = gr_tt_ceil_div(s->window, out);
  s->in = (out - 1) * s->stride + (s->taps - 1) * s->dilation + 1;
  int64_t a = s->stride, b = s->dilation;
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  s->phases = gr_tt_lesser(s->taps, s->stride / a);
  s->lines = gr_tt_ceil_div(s->in, s->stride);
}

static inline int64_t gr_tt_conv_floats(const gr_tt_conv_job *job) {
  const gr_passes *p = &job->how.passes;
  return job->block * gr_tt_conv_sums(job) + p->parts[GR_SRC_B] * job->planes * job->plane + 2 * GR_STRIPE +
         p->parts[GR_SRC_A] * job->block * job->depth + job->block + job->depth + gr_tt_conv_rows_floats(job) +
         gr_tt_program_floats(&job->program, gr_tt_conv_ld(job)) + (job->packed ? job->area * job->depth : 0);
}

static inline void gr_tt_conv_set_depth(gr_tt_conv_job *job, int64_t depth) {
  int64_t taps = job->side[0].taps * job->side[1].taps;
  job->depth = depth;
  job->planes = gr_tt_lesser(job->channels, depth % taps == 0 ? depth / taps : (depth - 1) / taps + 2);
}

/* Images at a time, in even parts: several where a plane is one window. */
static inline void gr_tt_conv_images(gr_tt_conv_job *job, int several) {
  int64_t images = job->y.arg->shape[0];
  int64_t most = several ? gr_tt_greater(1, GR_TT_CONV_PIXELS / job->lines) : 1;
  job->images = gr_tt_ceil_div(images, gr_tt_ceil_div(images, most));
  job->rounds = gr_tt_ceil_div(images, job->images);
}

/* Layout of the sums of an output channel. Taps are copied where that leaves less than two thirds of the sums, and each
 * window is a plane in one part. */
static inline void gr_tt_conv_lines(gr_tt_conv_job *job) {
  int64_t height = job->side[0].out, width = job->side[1].out;
  int64_t apart = gr_tt_up((job->images - 1) * job->lines + height * job->side[1].lines, GR_STRIPE);
  int64_t together = gr_tt_up(job->images * height * width, GR_STRIPE);
  job->packed = job->bands * job->across * gr_tt_conv_parts(job) == 1 && job->how.passes.parts[GR_SRC_B] == 1 &&
                3 * together < 2 * apart;
  job->area = job->packed ? together : apart;
  job->pitch = job->packed ? width : job->side[1].lines;
  job->line = job->packed ? height * width : job->lines;
}

/* Windows of height x width, in parts of rows x cols. */
static inline void gr_tt_conv_cut(gr_tt_conv_job *job, int64_t height, int64_t width, int64_t rows, int64_t cols) {
  job->side[0].window = height;
  job->side[1].window = width;
  job->bands = gr_tt_ceil_div(job->y.rows, height);
  job->across = gr_tt_ceil_div(job->y.cols, width);
  gr_tt_conv_side_of(&job->side[0], rows);
  gr_tt_conv_side_of(&job->side[1], cols);
  job->lines = job->side[0].lines * job->side[1].lines;
}

/* Narrower windows, or parts of half the rows, but of so many at least; of half the columns where the image under a
 * row is large, since sums of short rows take more than they are. 0: no. */
static inline int gr_tt_conv_halve(gr_tt_conv_job *job, int64_t least) {
  const gr_tt_conv_side *h = &job->side[0], *w = &job->side[1];
  if (w->window > 32)
    gr_tt_conv_cut(job, h->window, 32, h->out, 32);
  else if (h->out > least)
    gr_tt_conv_cut(job, h->window, w->window, gr_tt_greater(least, (h->out + 1) / 2), w->out);
  else if (least == 1 && w->out > 1 && h->in * w->in > GR_TT_CONV_STAGE)
    gr_tt_conv_cut(job, h->window, w->window, h->out, (w->out + 1) / 2);
  else
    return 0;
  return 1;
}

/* A smaller step of K that changes no sum: of whole channels, or, with `spill`, as many to a spill. 0: none. */
static inline int64_t gr_tt_conv_less(const gr_tt_conv_job *job, int64_t whole) {
  int64_t depth = job->depth;
  if (job->spill > 0) return gr_tt_blocks_less(depth, job->spill);
  if (depth > 4 * 32 && depth > whole) return (depth - 1) / whole * whole;
  return depth > 32 ? gr_tt_up(depth, 32) - 32 : 0;
}

/* Takes less L1, with the same sums. 0: there is no less. */
static inline int gr_tt_conv_shrink(gr_tt_conv_job *job, int64_t whole) {
  int64_t depth = gr_tt_conv_less(job, whole), deep = job->spill > 0 ? 4 * 32 : gr_tt_greater(4 * 32, whole);
  if (depth > 0 && job->depth > deep)
    gr_tt_conv_set_depth(job, depth);
  else if (job->block > 16)
    job->block = gr_tt_greater(16, job->block / 2);
  else if (depth > 0)
    gr_tt_conv_set_depth(job, depth);
  else if (gr_tt_conv_halve(job, GR_TT_CONV_ROWS))
    return 1;
  else if (job->block > 1)
    job->block = job->block / 2;
  else
    return gr_tt_conv_halve(job, 1);
  return 1;
}

/* Rows, columns and channels of a window and the step of K, so that its L1 stays in its share. K is cut at
 * multiples of 32, of whole channels where that fits: its steps then never change a sum. */
static inline void gr_tt_conv_plan(gr_tt_conv_job *job, uint64_t room) {
  const gr_tt_words *n = &job->how.words;
  int64_t height = gr_tt_lesser(32, job->y.rows), width = gr_tt_lesser(GR_TT_CONV_COLS, job->y.cols);
  int64_t taps = job->side[0].taps * job->side[1].taps, whole = taps, all = gr_tt_greater(1, job->k);
  while (whole % 32 != 0) whole += taps;
  gr_tt_conv_cut(job, height, width, height, width);
  gr_tt_conv_images(job, n->grid[0] <= 0 && job->bands * job->across == 1);
  int64_t windows = job->bands * job->across * job->groups * job->rounds;
  int64_t pieces = gr_tt_ceil_div(GR_TT_CONV_UNITS, windows);
  job->block = gr_tt_greater(gr_tt_lesser(job->outputs, 16), gr_tt_ceil_div(job->outputs, pieces));
  if (n->grid[0] > 0) {
    job->block = gr_tt_lesser(job->outputs, 32 * n->mblock[1] * n->ublock[1]);
    job->spill = 32 * n->u_kt;
    all = gr_tt_lesser(gr_tt_up(all, 32), job->spill);
  }
  gr_tt_conv_set_depth(job, all);
  do {
    job->plane = job->side[0].phases * job->side[1].phases * job->images * job->lines;
    gr_tt_conv_lines(job);
  } while (gr_tt_bytes(1, gr_tt_conv_floats(job)) > room && gr_tt_conv_shrink(job, whole));
  job->blocks = gr_tt_ceil_div(job->outputs, job->block);
}

#endif
