/* blocking.h: which block of a matrix output is made on which core and when: as a balancer chose, or by the
 * kernel's own choice.
 *
 * Chosen: core (r, c) of the grid makes, one after the other, `t` macroblocks of mblock_m x mblock_n ublocks
 * of ublock_rt x ublock_ct tiles, K in steps of u_kt tiles with a spill between two (Buda's op model:
 * direction R cuts the rows into t pieces, C the columns; planes are part of t). Own choice: blocks dealt
 * round to the cores, no spills. Order and place of blocks never change a sum, only the steps of K do.
 *
 * Included by: linear.h, conv.h, elementwise.h. Thread: the caller's, blocks run on pool threads.
 * defines: gr_tt_blocks, gr_tt_blocks_of, gr_tt_blocks_share, gr_tt_blocks_room,
 * gr_tt_blocks_less, gr_tt_blocks_shrink,
 * gr_tt_run_blocks, gr_tt_run_pairs
 */
#ifndef GR_TT_BLOCKING_H
#define GR_TT_BLOCKING_H

#include "tt/words.h"
#include "tt/work.h"

#define GR_TT_BLOCK 128              /* most rows and columns of a block of the kernel's own choice */
#define GR_TT_BLOCK_LEAST 64         /* not halved below this: each block reads its operands anew */
#define GR_TT_BLOCK_BYTES 524288     /* L1 of a block that fits any board */

/* In elements, multiples of 32. */
typedef struct gr_tt_blocks {
  int64_t height, width;     /* of sums that are kept at a time */
  int64_t strip;             /* rows of A at a time */
  int64_t depth;             /* of K at a time */
  int64_t spill;             /* of K between two spills; 0: none */
} gr_tt_blocks;

/* Makes one block of the output, at most height x width; job is the op's own. */
typedef int32_t (*gr_tt_block_fn)(const gr_tt_core *core, const void *job, gr_tt_rect at);

static inline gr_tt_blocks gr_tt_blocks_of(const gr_call *call, const gr_tt_words *n, const gr_tt_view *out,
                                           int64_t k) {
  int64_t whole_k = gr_tt_up(gr_tt_greater(k, 1), 32);
  if (n->grid[0] > 0) {
    int64_t strip = 32 * n->ublock[0];
    return (gr_tt_blocks){.height = n->mblock[0] * strip, .width = 32 * n->mblock[1] * n->ublock[1],
                          .strip = strip, .depth = gr_tt_lesser(32 * n->u_kt, whole_k),
                          .spill = 32 * n->u_kt};
  }
  int64_t rows = gr_tt_up(gr_tt_greater(out->rows, 1), 32), cols = gr_tt_up(gr_tt_greater(out->cols, 1), 32);
  gr_tt_blocks b = {.height = gr_tt_lesser(GR_TT_BLOCK, rows), .width = gr_tt_lesser(GR_TT_BLOCK, cols),
                    .depth = whole_k};
  while (out->outer * gr_tt_ceil_div(rows, b.height) * gr_tt_ceil_div(cols, b.width) < call->env->num_cores) {
    int64_t *side = b.height >= b.width ? &b.height : &b.width;
    if (*side <= GR_TT_BLOCK_LEAST) break;
    *side = gr_tt_up(*side / 2, 32);
  }
  b.strip = b.height;
  return b;
}

/* L1 at core->space of a chosen op model: all its buffers take but what gr_tt_run adds; 0 for the kernel's own
 * choice. The buffers themselves (tiles with headers, twice) are not laid out: what lies there instead are
 * floats. */
static inline uint64_t gr_tt_blocks_share(const gr_call *call, const gr_tt_words *n) {
  int64_t added = (int64_t)gr_tt_page_space(call) + GR_TILE_ELEMENTS * 4;
  return n->grid[0] > 0 && n->l1 > added ? (uint64_t)(n->l1 - added) : 0;
}

/* L1 that a block is cut for: the op model's where it says one, else what fits any board. */
static inline uint64_t gr_tt_blocks_room(const gr_tt_words *n, uint64_t share) {
  return n->grid[0] > 0 && n->l1 > 0 ? share : GR_TT_BLOCK_BYTES;
}

/* The next smaller step of K that divides what lies between two spills. 0: none. */
static inline int64_t gr_tt_blocks_less(int64_t depth, int64_t spill) {
  depth -= 32;
  while (depth >= 32 && spill % depth != 0) depth -= 32;
  return gr_tt_greater(0, depth);
}

/* Smaller, with the same sums: fewer rows, less of K between two spills, fewer columns. 0: no. */
static inline int gr_tt_blocks_shrink(gr_tt_blocks *b) {
  int64_t depth = b->spill > 0 ? gr_tt_blocks_less(b->depth, b->spill) : b->depth - 32;
  if (b->spill > 0 && b->height > b->strip) {
    b->height -= b->strip;
    return 1;
  }
  if (depth >= 32) {
    b->depth = depth;
  } else if (b->spill > 0 && b->width > 32) {
    b->width = gr_tt_up(b->width / 2, 32);
  } else if (b->spill > 0 && b->height > 32) {
    b->height = b->strip = b->height - 32;
  } else {
    return 0;
  }
  return 1;
}

/* ---------------------------------------------------------------- running */

typedef struct gr_tt_block_run {
  const gr_tt_words *n;
  const gr_tt_blocks *blocks;
  const gr_tt_view *out;
  int64_t pieces_r, pieces_c;    /* chosen: t of one plane, by rows and by columns */
  gr_tt_block_fn make;
  const void *job;
} gr_tt_block_run;

/* Rows r0 .. r1-1, columns c0 .. c1-1 of a plane, block by block. */
static inline int32_t gr_tt_block_span(const gr_tt_core *c, const gr_tt_block_run *run, int64_t plane,
                                       int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
  gr_tt_rect at = {.plane = plane};
  for (at.r0 = r0; at.r0 < r1; at.r0 += run->blocks->height) {
    at.nr = gr_tt_lesser(run->blocks->height, r1 - at.r0);
    for (at.c0 = c0; at.c0 < c1; at.c0 += run->blocks->width) {
      at.nc = gr_tt_lesser(run->blocks->width, c1 - at.c0);
      GR_TT_TRY(run->make(c, run->job, at));
    }
  }
  return GR_OK;
}

/* A core of the chosen grid: its macroblock of each piece of each plane. */
static inline int32_t gr_tt_block_core(const gr_tt_core *c, const void *ctx, int64_t core) {
  const gr_tt_block_run *run = (const gr_tt_block_run *)ctx;
  const gr_tt_words *n = run->n;
  const gr_tt_view *v = run->out;
  int64_t height = 32 * n->mblock[0] * n->ublock[0], width = 32 * n->mblock[1] * n->ublock[1];
  int64_t pieces = run->pieces_r * run->pieces_c;
  for (int64_t t = 0; t < v->outer * pieces; ++t) {
    int64_t piece = t % pieces;
    int64_t r0 = (piece / run->pieces_c * n->grid[0] + core / n->grid[1]) * height;
    int64_t c0 = (piece % run->pieces_c * n->grid[1] + core % n->grid[1]) * width;
    GR_TT_TRY(gr_tt_block_span(c, run, t / pieces, r0, gr_tt_lesser(r0 + height, v->rows), c0,
                               gr_tt_lesser(c0 + width, v->cols)));
  }
  return GR_OK;
}

/* A block of the kernel's own choice; of a row-major output all blocks of a row, which one core owns. */
static inline int32_t gr_tt_block_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_block_run *run = (const gr_tt_block_run *)ctx;
  const gr_tt_view *v = run->out;
  int64_t height = run->blocks->height, width = run->blocks->width;
  int64_t down = gr_tt_ceil_div(v->rows, height), across = gr_tt_ceil_div(v->cols, width);
  int tiled = v->arg->layout == GR_TILE;
  int64_t line = tiled ? unit / across : unit, first = tiled ? unit % across : 0;
  int64_t last = tiled ? first + 1 : across, r0 = line % down * height;
  for (int64_t s = first; s < last; ++s)
    GR_TT_TRY(gr_tt_block_span(c, run, line / down, r0, gr_tt_lesser(r0 + height, v->rows), s * width,
                               gr_tt_lesser((s + 1) * width, v->cols)));
  return GR_OK;
}

/* NULL, or why the words are no blocking of this output. */
static inline const char *gr_tt_blocking_fault(const gr_call *call, const gr_tt_block_run *run, int64_t k) {
  const gr_tt_words *n = run->n;
  if (n->grid[1] < 1 || n->t < 1 || n->mblock[0] < 1 || n->mblock[1] < 1 || n->ublock[0] < 1 ||
      n->ublock[1] < 1 || n->u_kt < 1)
    return "the chosen op model has a size below 1";
  if (n->grid[0] * n->grid[1] > call->env->num_cores)
    return "the chosen op model has more cores than the device";
  if (run->out->arg->layout != GR_TILE) return "a chosen op model needs an output in tiles";
  if (n->t % gr_tt_greater(run->out->outer, 1))
    return "t of the chosen op model is no multiple of the planes";
  if (run->pieces_r * n->grid[0] * n->mblock[0] * n->ublock[0] < run->out->down ||
      run->pieces_c * n->grid[1] * n->mblock[1] * n->ublock[1] < run->out->across)
    return "the chosen op model does not cover the output";
  return gr_tt_ceil_div(k, 32) % n->u_kt ? "u_kt of the chosen op model does not divide K" : NULL;
}

/* Runs make(core, job, rectangle) over all of the output, with `bytes` of L1 at core->space. */
static inline int32_t gr_tt_run_blocks(const gr_call *call, const gr_tt_words *n, const gr_tt_blocks *blocks,
                                       const gr_tt_view *out, int64_t k, uint64_t bytes, gr_tt_block_fn make,
                                       const void *job) {
  gr_tt_block_run run = {n, blocks, out, 1, 1, make, job};
  if (out->outer * out->rows * out->cols == 0) return GR_OK;
  if (n->grid[0] > 0) {
    int64_t pieces = n->t / gr_tt_greater(out->outer, 1);
    int by_columns = n->direction == GR_TT_C || n->direction == GR_TT_CZ;
    *(by_columns ? &run.pieces_c : &run.pieces_r) = pieces;
    const char *fault = gr_tt_blocking_fault(call, &run, k);
    if (fault != NULL) return call->env->set_error(call->env, fault);
    return gr_tt_run(call, n->grid[0] * n->grid[1], bytes, gr_tt_block_core, &run);
  }
  int64_t lines = out->outer * gr_tt_ceil_div(out->rows, blocks->height);
  return gr_tt_run(call, out->arg->layout == GR_TILE ? lines * gr_tt_ceil_div(out->cols, blocks->width) : lines,
                   bytes, gr_tt_block_unit, &run);
}

/* ---------------------------------------------------------------- panels by a chosen op model */

/* A macroblock as panels of the cut. */
static inline int32_t gr_tt_panels_block(const gr_tt_core *c, const void *ctx, gr_tt_rect at) {
  const gr_tt_panels *cut = (const gr_tt_panels *)ctx;
  for (int64_t r = 0; r < at.nr; r += cut->height)
    for (int64_t col = 0; col < at.nc; col += cut->width) {
      gr_tt_rect part = {at.plane, at.r0 + r, gr_tt_lesser(cut->height, at.nr - r), at.c0 + col,
                         gr_tt_lesser(cut->width, at.nc - col)};
      GR_TT_TRY(cut->panel(c, cut->job, cut, part));
    }
  return GR_OK;
}

/* gr_tt_run_panels of an element-wise op with two inputs and `count` panels in L1, on the cores and with the L1 of the
 * op model where one is chosen. A row-major output has no tiles to cut and is dealt round as ever. */
static inline int32_t gr_tt_run_pairs(const gr_call *call, const gr_tt_words *n, gr_tt_panels *cut,
                                      uint64_t count, gr_tt_panel_fn panel, const void *job) {
  if (n->grid[0] <= 0 || cut->view.arg->layout != GR_TILE)
    return gr_tt_run_panels(call, cut, count * gr_tt_bytes(cut->height, cut->width), panel, job);
  uint64_t share = gr_tt_blocks_share(call, n);
  while (count * gr_tt_bytes(cut->height, cut->width) > share && cut->width > 32)
    cut->width = gr_tt_up(cut->width / 2, 32);
  uint64_t bytes = count * gr_tt_bytes(cut->height, cut->width);
  gr_tt_blocks blocks = {.height = 32 * n->mblock[0] * n->ublock[0],
                         .width = 32 * n->mblock[1] * n->ublock[1]};
  cut->panel = panel;
  cut->job = job;
  return gr_tt_run_blocks(call, n, &blocks, &cut->view, 0, bytes > share ? bytes : share, gr_tt_panels_block,
                          cut);
}

#endif
