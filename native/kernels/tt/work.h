/* work.h: spreading a tt kernel over cores: units dealt round, each core with its L1 laid out; and outputs
 * cut into panels that fit there.
 *
 * Included by: the bodies of this folder. Thread: the caller's, units run on pool threads.
 * defines: gr_tt_run, gr_tt_panels, gr_tt_cut, gr_tt_cut_elements, gr_tt_runs, gr_tt_run_panels
 */
#ifndef GR_TT_WORK_H
#define GR_TT_WORK_H

#include "tt/panel.h"

#define GR_TT_PANEL_BYTES 262144      /* L1 that all panels of an op take: leaves room for tensors in L1 */
#define GR_TT_PANEL_ELEMENTS 16384    /* of a panel of whole rows, at most: more would leave threads without one */

/* ---------------------------------------------------------------- units */

/* A unit of work on one core; job is the op's own. */
typedef int32_t (*gr_tt_unit)(const gr_tt_core *core, const void *job, int64_t unit);

static inline uint64_t gr_tt_page_space(const gr_call *call) {
  uint64_t most = 0;
  for (int32_t i = 0; i < call->nargs; ++i)
    if (call->args[i].page_bytes > most) most = call->args[i].page_bytes;
  return (most + 63) / 64 * 64;
}

typedef struct gr_tt_work {
  const gr_call *call;
  gr_tt_unit unit;
  const void *job;
  int64_t units, cores;
  uint64_t bytes;
} gr_tt_work;

static inline int32_t gr_tt_task(void *ctx, int64_t index) {
  const gr_tt_work *w = (const gr_tt_work *)ctx;
  uint64_t page = gr_tt_page_space(w->call), tile = GR_TILE_ELEMENTS * 4;
  gr_tt_core c = {.env = w->call->env};
  GR_TT_TRY(c.env->core_open(c.env, index, page + tile + w->bytes, &c.core));
  c.page = c.core.l1;
  c.tile = (uint32_t *)(void *)(c.page + page);
  c.space = c.page + page + tile;
  for (int64_t u = index; u < w->units; u += w->cores) GR_TT_TRY(w->unit(&c, w->job, u));
  return GR_OK;
}

/* Runs unit(core, job, 0 .. units-1), dealt round to the cores, each with `bytes` of L1 at core->space. */
static inline int32_t gr_tt_run(const gr_call *call, int64_t units, uint64_t bytes, gr_tt_unit unit,
                                const void *job) {
  gr_tt_work work = {call, unit, job, units, gr_tt_lesser(units, call->env->num_cores), bytes};
  if (units <= 0) return GR_OK;
  return call->env->parallel_for(call->env, work.cores, gr_tt_task, &work);
}

/* ---------------------------------------------------------------- panels of an output */

typedef struct gr_tt_panels gr_tt_panels;

/* Makes one panel of the output; job is the op's own. */
typedef int32_t (*gr_tt_panel_fn)(const gr_tt_core *core, const void *job, const gr_tt_panels *cut,
                                  gr_tt_rect at);

/* An output cut into panels of at most height x width. */
struct gr_tt_panels {
  gr_tt_view view;
  int64_t height, width, down, across;
  gr_tt_panel_fn panel;
  const void *job;
};

/* Height and width such that `count` panels fit their share of L1. Row-major tensors alone need no 32 rows
 * together, so wide rows stay whole. */
static inline gr_tt_panels gr_tt_cut(const gr_call *call, const gr_arg *out, int32_t count) {
  gr_tt_panels cut = {.view = gr_tt_view_of(out)};
  int64_t elements = GR_TT_PANEL_BYTES / 4 / count, wide = gr_tt_up(cut.view.cols, 32);
  int tiled = 0;
  for (int32_t i = 0; i < call->nargs; ++i) tiled |= call->args[i].layout == GR_TILE;
  cut.height = tiled ? 32 : gr_tt_greater(1, gr_tt_lesser(32, elements / gr_tt_greater(wide, 32)));
  cut.width = gr_tt_greater(32, gr_tt_lesser(wide, elements / cut.height / 32 * 32));
  cut.down = gr_tt_ceil_div(cut.view.rows, cut.height);
  cut.across = gr_tt_ceil_div(cut.view.cols, cut.width);
  return cut;
}

/* As gr_tt_cut, for ops that make an element of those in its place: where all arguments are in rows, a panel is whole
 * rows one behind the other, and the planes of the view are one. So planes of few elements are done many at a time. */
static inline gr_tt_panels gr_tt_cut_elements(const gr_call *call, const gr_arg *out, int32_t count) {
  gr_tt_panels cut = gr_tt_cut(call, out, count);
  int64_t elements = gr_tt_lesser(GR_TT_PANEL_ELEMENTS, GR_TT_PANEL_BYTES / 4 / count);
  for (int32_t i = 0; i < call->nargs; ++i)
    if (call->args[i].layout == GR_TILE) return cut;
  if (cut.view.cols == 0 || cut.view.cols > elements) return cut;
  cut.view.rows *= cut.view.outer;
  cut.view.outer = 1;
  cut.width = cut.view.cols;
  cut.height = gr_tt_greater(1, gr_tt_lesser(elements / cut.width, cut.view.rows));
  cut.down = gr_tt_ceil_div(cut.view.rows, cut.height);
  cut.across = 1;
  return cut;
}

/* The rows of a panel as runs that lie one behind the other: *length elements each, cut->width apart. */
static inline int64_t gr_tt_runs(const gr_tt_panels *cut, gr_tt_rect at, int64_t *length) {
  int together = at.nc == cut->width;
  *length = together ? at.nr * at.nc : at.nc;
  return together ? 1 : at.nr;
}

/* A unit is one panel of a tiled output, one row of panels of a row-major one (see gr_tt_store). */
static inline int32_t gr_tt_panel_unit(const gr_tt_core *c, const void *job, int64_t unit) {
  const gr_tt_panels *cut = (const gr_tt_panels *)job;
  const gr_tt_view *v = &cut->view;
  int tiled = v->arg->layout == GR_TILE;
  int64_t line = tiled ? unit / cut->across : unit;
  int64_t first = tiled ? unit % cut->across : 0, last = tiled ? first + 1 : cut->across;
  gr_tt_rect at = {.plane = line / cut->down, .r0 = line % cut->down * cut->height};
  at.nr = gr_tt_lesser(cut->height, v->rows - at.r0);
  for (int64_t p = first; p < last; ++p) {
    at.c0 = p * cut->width;
    at.nc = gr_tt_lesser(cut->width, v->cols - at.c0);
    GR_TT_TRY(cut->panel(c, cut->job, cut, at));
  }
  return GR_OK;
}

/* Runs panel(core, job, cut, rect) for every panel of the cut's output, with `bytes` of L1 at core->space. */
static inline int32_t gr_tt_run_panels(const gr_call *call, gr_tt_panels *cut, uint64_t bytes,
                                       gr_tt_panel_fn panel, const void *job) {
  int64_t lines = cut->view.outer * cut->down;
  cut->panel = panel;
  cut->job = job;
  return gr_tt_run(call, cut->view.arg->layout == GR_TILE ? lines * cut->across : lines, bytes,
                   gr_tt_panel_unit, cut);
}

#endif
