/* windows.h: pools over windows of three dimensions, which may be dilated: max_pool3d, avg_pool3d, lp_pool2d,
 * max_pool2d_indices and max_pool2d_argmax.
 *
 * The contract is that of ir/ops/spatial/windows.py; images are volumes of depth 1, indices int32. A panel of the
 * output is one core's work: plane after plane of its windows' depth it loads what they look at, and folds that into
 * doubles in L1. Thread: any.
 * defines: gr_tt_max_pool3d, gr_tt_avg_pool3d, gr_tt_lp_pool2d, gr_tt_max_pool2d_indices, gr_tt_max_pool2d_argmax,
 * gr_tt_volume_run
 */
#ifndef GR_TT_WINDOWS_H
#define GR_TT_WINDOWS_H

#include <math.h>

#include "tt/work.h"

enum gr_tt_volume_kind { GR_TT_VOLUME_MAX, GR_TT_VOLUME_MEAN, GR_TT_VOLUME_NORM, GR_TT_VOLUME_ARGMAX };

typedef struct gr_tt_volume_job {
  gr_tt_panels cut;
  gr_tt_view x, places;       /* places.arg is NULL where no indices are made */
  const int64_t *words;
  int64_t size[3], planes;    /* depth, height, width of x; planes of an output volume */
  int64_t across;             /* units beside each other; 1: one core owns whole rows of the outputs */
  int64_t cols;               /* most columns of x that a panel looks at */
  int kind;                   /* enum gr_tt_volume_kind */
  double p;
} gr_tt_volume_job;

/* Along dimension d, window i begins at start; its taps first .. last-1 lie inside the volume, padded of them inside
 * the padded one. */
typedef struct gr_tt_taps {
  int64_t start, first, last, padded;
} gr_tt_taps;

static inline gr_tt_taps gr_tt_volume_taps(const gr_tt_volume_job *job, int d, int64_t i) {
  int64_t kernel = job->words[d], step = job->words[12 + d], start = i * job->words[3 + d] - job->words[6 + d];
  gr_tt_taps t = {.start = start, .first = start < 0 ? gr_tt_ceil_div(-start, step) : 0};
  t.last = gr_tt_greater(t.first, gr_tt_lesser(kernel, gr_tt_ceil_div(job->size[d] - start, step)));
  t.padded = gr_tt_lesser(kernel, gr_tt_ceil_div(job->size[d] + job->words[9 + d] - start, step));
  return t;
}

/* Input of n windows from the first-th on along dimension d: *count elements. */
static inline int64_t gr_tt_volume_seen(const gr_tt_volume_job *job, int d, int64_t first, int64_t n, int64_t *count) {
  int64_t lo = first * job->words[3 + d] - job->words[6 + d];
  int64_t end = lo + (n - 1) * job->words[3 + d] + (job->words[d] - 1) * job->words[12 + d] + 1;
  lo = gr_tt_greater(lo, 0);
  *count = gr_tt_greater(0, gr_tt_lesser(end, job->size[d]) - lo);
  return lo;
}

/* Brings the part of a window that lies in one plane into its total, and the place of a maximum, which is -1 as long as
 * there is none. x[.., cols] are the elements of `seen`; base: the place of the plane's first element. */
static inline void gr_tt_volume_fold(const gr_tt_volume_job *job, const uint32_t *x, gr_tt_rect seen, int64_t base,
                                     gr_tt_taps h, gr_tt_taps w, double *total, int32_t *place) {
  int floats = gr_tt_is_float(job->x.arg->format);
  for (int64_t p = h.first; p < h.last; ++p) {
    int64_t row = h.start + p * job->words[13];
    const uint32_t *line = x + (row - seen.r0) * job->cols - seen.c0;
    for (int64_t q = w.first; q < w.last; ++q) {
      int64_t column = w.start + q * job->words[14];
      double value = floats ? gr_float_of(line[column]) : (double)(int32_t)line[column];
      if (job->kind == GR_TT_VOLUME_MEAN) {
        *total += value;
      } else if (job->kind == GR_TT_VOLUME_NORM) {
        *total += job->p == 2.0 ? value * value : pow(fabs(value), job->p);
      } else if (*place < 0 || value > *total || value != value) {     /* the first one, but of NaNs the last */
        *total = value;
        *place = (int32_t)(base + row * job->size[2] + column);
      }
    }
  }
}

static inline uint32_t gr_tt_volume_result(const gr_tt_volume_job *job, double total, gr_tt_taps d, gr_tt_taps h,
                                           gr_tt_taps w) {
  int64_t inside = (d.last - d.first) * (h.last - h.first) * (w.last - w.first);
  if (job->kind == GR_TT_VOLUME_MEAN) total /= (double)(job->words[15] ? d.padded * h.padded * w.padded : inside);
  if (job->kind == GR_TT_VOLUME_NORM) total = pow(total, 1.0 / job->p);
  return gr_tt_is_float(job->x.arg->format) ? gr_bits_of((float)total) : (uint32_t)(int32_t)total;
}

/* A place within a volume as the index that is asked for: within x, or within the volume. */
static inline uint32_t gr_tt_volume_index(const gr_tt_volume_job *job, int64_t volume, int64_t place) {
  if (job->words[15]) place = place % job->size[2] * job->size[1] + place / job->size[2];
  if (job->kind == GR_TT_VOLUME_ARGMAX) return (uint32_t)place;
  return (uint32_t)(volume * job->size[0] * job->size[1] * job->size[2] + place);
}

/* In L1: totals, places, results, each [height][width], then what the windows look at in one plane. */
static inline int32_t gr_tt_volume_panel(const gr_tt_core *c, const gr_tt_volume_job *job, gr_tt_rect at) {
  const gr_tt_panels *cut = &job->cut;
  int64_t elements = cut->height * cut->width, volume = at.plane / job->planes;
  double *all = (double *)(void *)c->space;
  int32_t *places = (int32_t *)(void *)(all + elements);
  uint32_t *out = (uint32_t *)(void *)(places + elements), *x = out + elements;
  gr_tt_taps depth = gr_tt_volume_taps(job, 0, at.plane % job->planes);
  gr_tt_rect seen = {0};
  seen.r0 = gr_tt_volume_seen(job, 1, at.r0, at.nr, &seen.nr);
  seen.c0 = gr_tt_volume_seen(job, 2, at.c0, at.nc, &seen.nc);
  for (int64_t i = 0; i < elements; ++i) all[i] = 0.0, places[i] = -1;
  for (int64_t k = depth.first; k < depth.last; ++k) {
    int64_t slice = depth.start + k * job->words[12];
    seen.plane = volume * job->size[0] + slice;
    if (seen.nr > 0 && seen.nc > 0) GR_TT_TRY(gr_tt_load(c, &job->x, seen, x, job->cols));
    for (int64_t i = 0; i < at.nr * at.nc; ++i) {
      int64_t r = i / at.nc, j = i % at.nc, to = r * cut->width + j;
      gr_tt_volume_fold(job, x, seen, slice * job->size[1] * job->size[2], gr_tt_volume_taps(job, 1, at.r0 + r),
                        gr_tt_volume_taps(job, 2, at.c0 + j), &all[to], &places[to]);
    }
  }
  for (int64_t r = 0; r < at.nr && job->kind != GR_TT_VOLUME_ARGMAX; ++r)
    for (int64_t j = 0; j < at.nc; ++j) {
      int64_t i = r * cut->width + j;
      out[i] = gr_tt_volume_result(job, all[i], depth, gr_tt_volume_taps(job, 1, at.r0 + r),
                                   gr_tt_volume_taps(job, 2, at.c0 + j));
    }
  int keep = job->kind == GR_TT_VOLUME_MAX && job->x.arg->format == cut->view.arg->format;
  if (job->kind != GR_TT_VOLUME_ARGMAX) GR_TT_TRY(gr_tt_store(c, &cut->view, at, out, cut->width, keep));
  if (job->places.arg == NULL) return GR_OK;
  for (int64_t i = 0; i < elements; ++i) out[i] = gr_tt_volume_index(job, volume, places[i]);
  return gr_tt_store(c, &job->places, at, out, cut->width, 0);
}

/* A unit is one panel, or, where an output has rows for pages, a row of panels. */
static inline int32_t gr_tt_volume_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_volume_job *job = (const gr_tt_volume_job *)ctx;
  const gr_tt_panels *cut = &job->cut;
  int64_t line = unit / job->across, first = job->across > 1 ? unit % job->across : 0;
  int64_t last = job->across > 1 ? first + 1 : cut->across;
  gr_tt_rect at = {.plane = line / cut->down, .r0 = line % cut->down * cut->height};
  at.nr = gr_tt_lesser(cut->height, cut->view.rows - at.r0);
  for (int64_t p = first; p < last; ++p) {
    at.c0 = p * cut->width;
    at.nc = gr_tt_lesser(cut->width, cut->view.cols - at.c0);
    GR_TT_TRY(gr_tt_volume_panel(c, job, at));
  }
  return GR_OK;
}

static inline int32_t gr_tt_volume_run(const gr_call *call, int kind) {
  const int64_t *words = call->attrs;
  const gr_arg *x = &call->args[0], *y = &call->args[1];
  /* an output element has a total of two words, a place, a result, and about stride x stride elements of its own */
  gr_tt_volume_job job = {.cut = gr_tt_cut(call, y, 4 + (int32_t)gr_tt_lesser(64, words[4] * words[5])),
                          .x = gr_tt_view_of(x), .words = words, .kind = kind, .across = 1};
  int tiled = y->layout == GR_TILE, volumes = x->ndim == 5;
  job.size[0] = volumes ? x->shape[2] : 1;
  job.size[1] = job.x.rows;
  job.size[2] = job.x.cols;
  job.planes = volumes ? y->shape[2] : 1;
  if (kind == GR_TT_VOLUME_NORM) memcpy(&job.p, &words[15], sizeof job.p);
  if (kind == GR_TT_VOLUME_ARGMAX) job.places = job.cut.view;
  if (call->nargs == 3) {
    job.places = gr_tt_view_of(&call->args[2]);
    tiled = tiled && call->args[2].layout == GR_TILE;
  }
  if (job.cut.view.outer * job.cut.view.rows * job.cut.view.cols == 0) return GR_OK;
  if (tiled) job.across = job.cut.across;
  int64_t reach[2], sides[2] = {job.cut.height, job.cut.width};
  for (int d = 0; d < 2; ++d) {
    reach[d] = (sides[d] - 1) * words[4 + d] + (words[1 + d] - 1) * words[13 + d] + 1;
    reach[d] = gr_tt_lesser(job.size[1 + d], reach[d]);
  }
  job.cols = reach[1];
  uint64_t bytes = 4 * gr_tt_bytes(sides[0], sides[1]) + gr_tt_bytes(reach[0], reach[1]);
  return gr_tt_run(call, job.cut.view.outer * job.cut.down * job.across, bytes, gr_tt_volume_unit, &job);
}

/* gr-kernel: tt/max_pool3d */
static inline int32_t gr_tt_max_pool3d(const gr_call *call) { return gr_tt_volume_run(call, GR_TT_VOLUME_MAX); }

/* gr-kernel: tt/avg_pool3d */
static inline int32_t gr_tt_avg_pool3d(const gr_call *call) { return gr_tt_volume_run(call, GR_TT_VOLUME_MEAN); }

/* gr-kernel: tt/lp_pool2d */
static inline int32_t gr_tt_lp_pool2d(const gr_call *call) { return gr_tt_volume_run(call, GR_TT_VOLUME_NORM); }

/* gr-kernel: tt/max_pool2d_indices */
static inline int32_t gr_tt_max_pool2d_indices(const gr_call *call) {
  return gr_tt_volume_run(call, GR_TT_VOLUME_MAX);
}

/* gr-kernel: tt/max_pool2d_argmax */
static inline int32_t gr_tt_max_pool2d_argmax(const gr_call *call) {
  return gr_tt_volume_run(call, GR_TT_VOLUME_ARGMAX);
}

#endif
