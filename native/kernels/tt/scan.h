/* scan.h: looking through an argument before a kernel writes anything.
 *
 * An output may take the place of values that its caller needs when the kernel fails. So a kernel that refuses
 * some values looks at all of them first: a core of its own panel could refuse when another has written already.
 * Included by: bodies whose inputs may be refused. Thread: the caller's, rows are read on pool threads.
 * defines: gr_tt_refuse, gr_tt_scan_row, gr_tt_scan
 */
#ifndef GR_TT_SCAN_H
#define GR_TT_SCAN_H

#include "tt/rows.h"
#include "tt/work.h"

/* Before the first write to an output: that it kept its contents is what the result says. */
static inline int32_t gr_tt_refuse(const gr_env *env, const char *text) {
  env->set_error(env, text);
  return GR_ERR_REFUSED;
}

/* Columns c0 .. c0+n-1 of a row; job is the op's own. */
typedef int32_t (*gr_tt_scan_row)(const gr_tt_core *c, const void *job, const uint32_t *row, int64_t c0, int64_t n);

/* Rectangles of at most height x width. */
typedef struct gr_tt_scan_job {
  gr_tt_view view;
  int64_t height, width, down, across;
  gr_tt_scan_row row;
  const void *job;
} gr_tt_scan_job;

static inline int32_t gr_tt_scan_unit(const gr_tt_core *c, const void *job, int64_t unit) {
  const gr_tt_scan_job *s = (const gr_tt_scan_job *)job;
  int64_t line = unit / s->across, c0 = unit % s->across * s->width, r0 = line % s->down * s->height;
  gr_tt_rect at = {line / s->down, r0, gr_tt_lesser(s->height, s->view.rows - r0), c0,
                   gr_tt_lesser(s->width, s->view.cols - c0)};
  uint32_t *words = (uint32_t *)(void *)c->space;
  GR_TT_TRY(gr_tt_load(c, &s->view, at, words, s->width));
  for (int64_t r = 0; r < at.nr; ++r) GR_TT_TRY(s->row(c, s->job, words + r * s->width, c0, at.nc));
  return GR_OK;
}

/* Shows every element of an argument to `row`, whose first failure is the result. Each page is read once, a
 * row-major one once a cover. */
static inline int32_t gr_tt_scan(const gr_call *call, const gr_arg *arg, gr_tt_scan_row row, const void *job) {
  gr_tt_scan_job s = {.view = gr_tt_view_of(arg), .row = row, .job = job};
  s.height = arg->layout == GR_TILE ? 32 : 1;
  s.width = gr_tt_lesser(GR_TT_COVER, gr_tt_up(s.view.cols, 32));
  if (s.view.cols == 0) return GR_OK;
  s.down = gr_tt_ceil_div(s.view.rows, s.height);
  s.across = gr_tt_ceil_div(s.view.cols, s.width);
  return gr_tt_run(call, s.view.outer * s.down * s.across, gr_tt_bytes(s.height, s.width), gr_tt_scan_unit, &s);
}

#endif
