/* conv.h: conv2d on NCHW images with OIHW weights.
 *
 * The contract is that of ir/ops/products/conv.py and numerics.py. A core makes some output channels of a
 * window of an output plane (32 rows, at most 64 columns): a product of weights [channels][K] with the image
 * under the window, K = (input channel, row, column of the weight), as the fidelity says (operand.h). The
 * image is not copied for each tap: its planes lie in L1 split by stride, so that a tap is an offset, and all
 * rows of output pixels are one long row; what comes to lie between two rows is not read. Where a plane is one
 * window, the row goes on in the planes of other images, so that weights are moved once for all of them; and where
 * most of it would lie between rows, as with planes of few pixels, each tap is copied, pixels only. Where L1 is short,
 * a window's sums stay whole, for they are a page, and the image under it comes in parts.
 * Thread: any.
 * defines: gr_tt_conv2d
 */
#ifndef GR_TT_CONV_H
#define GR_TT_CONV_H

#include "tt/conv_plan.h"
#include "tt/exact_conv.h"

/* L1 of one core: sums [block][parts][area], image parts [planes][plane], weights parts [block][depth], where each
 * k of the image is, the bias, panels of the epilogue, what is read before it is put in its place, or a window whose
 * parts are put together, and the taps where they are copied [area / STRIPE][depth][STRIPE]. */
typedef struct gr_tt_conv_l1 {
  float *sums, *x, *w, *bias, *panels, *rows, *taps;
  int32_t *at;
} gr_tt_conv_l1;

/* ---------------------------------------------------------------- a window's image */

/* Input rectangle in a plane for a part of a window, the part beginning at output pixel (r0, c0), and its place in the
 * part's image. */
static inline gr_tt_rect gr_tt_conv_seen(const gr_tt_conv_job *job, int64_t r0, int64_t c0, int64_t *to) {
  const gr_tt_conv_side *h = &job->side[0], *w = &job->side[1];
  int64_t top = r0 * h->stride - h->pad, left = c0 * w->stride - w->pad;
  int64_t h0 = gr_tt_greater(top, 0), h1 = gr_tt_lesser(top + h->in, job->x.rows);
  int64_t w0 = gr_tt_greater(left, 0), w1 = gr_tt_lesser(left + w->in, job->x.cols);
  *to = (h0 - top) * w->in + w0 - left;
  return (gr_tt_rect){0, h0, gr_tt_greater(h1 - h0, 0), w0, gr_tt_greater(w1 - w0, 0)};
}

/* One image split into its phases: to[row phase][column phase][images][lines][lines]. */
static inline void gr_tt_conv_split(const gr_tt_conv_job *job, const float *image, float *to) {
  const gr_tt_conv_side *h = &job->side[0], *w = &job->side[1];
  for (int64_t p = 0; p < h->taps; ++p)
    for (int64_t q = 0; q < w->taps; ++q) {
      int64_t first_row = p * h->dilation % h->stride, first_col = q * w->dilation % w->stride;
      float *phase = to + (p % h->phases * w->phases + q % w->phases) * job->images * job->lines;
      for (int64_t i = 0, r = first_row; r < h->in; ++i, r += h->stride)
        for (int64_t j = 0, s = first_col; s < w->in; ++j, s += w->stride)
          phase[i * w->lines + j] = image[r * w->in + s];
    }
}

/* Copies a part's input of one plane, seen[nr][nc], into its image, zeros around it. image: [in][in] for what is
 * split. */
static inline void gr_tt_conv_put(const gr_tt_conv_job *job, gr_tt_rect at, int64_t first, const float *seen,
                                  float *image, float *to) {
  const gr_tt_conv_side *h = &job->side[0], *w = &job->side[1];
  int whole = h->stride == 1 && w->stride == 1;
  float *in = whole ? to : image;
  if (at.nr < h->in || at.nc < w->in) memset(in, 0, (size_t)(h->in * w->in) * 4);
  for (int64_t r = 0; r < at.nr; ++r)
    for (int64_t j = 0; j < at.nc; ++j) in[first + r * w->in + j] = seen[r * at.nc + j];
  if (!whole) gr_tt_conv_split(job, image, to);
}

/* Input channels first .. first+count-1, counted over the batch, of each of `images` images. */
static inline int32_t gr_tt_conv_planes(const gr_tt_core *c, const gr_tt_conv_job *job, int64_t first,
                                        int64_t count, int64_t images, int64_t r0, int64_t c0,
                                        const gr_tt_conv_l1 *l1) {
  int64_t place, staged = gr_tt_conv_staged(job);
  gr_tt_rect at = gr_tt_conv_seen(job, r0, c0, &place);
  float *image = l1->rows + gr_tt_conv_stage_floats(job);
  for (int64_t i = 0; i < images; ++i)
    for (int64_t ch = 0, n; ch < count; ch += n) {
      n = gr_tt_lesser(staged, count - ch);
      at.plane = first + i * job->groups * job->channels + ch;
      if (at.nr * at.nc > 0) GR_TT_TRY(gr_tt_load_planes(c, &job->x, at, n, l1->rows));
      for (int64_t k = 0; k < n; ++k)
        gr_tt_conv_put(job, at, place, l1->rows + k * at.nr * at.nc, image,
                       l1->x + (ch + k) * job->plane + i * job->lines);
    }
  gr_tt_parts_take(&job->how.passes, GR_SRC_B, l1->x, job->planes * job->plane);
  return GR_OK;
}

/* at[n]: where k0 .. k0+n-1 of K begin, in channels counted from k0's. */
static inline void gr_tt_conv_offsets(const gr_tt_conv_job *job, int64_t k0, int64_t n, int32_t *at) {
  const gr_tt_conv_side *h = &job->side[0], *w = &job->side[1];
  int64_t taps = h->taps * w->taps, first = k0 / taps;
  for (int64_t k = k0; k < k0 + n; ++k) {
    int64_t p = k % taps / w->taps, q = k % w->taps;
    int64_t phase = p % h->phases * w->phases + q % w->phases;
    at[k - k0] = (int32_t)((k / taps - first) * job->plane + phase * job->images * job->lines +
                           p * h->dilation / h->stride * w->lines + q * w->dilation / w->stride);
  }
}

/* Copies `rows` rows of `cols` pixels of each image under one tap to pixel after pixel in to[pixel / STRIPE * stripe +
 * pixel % STRIPE]. Inlined for a number that is known and divides a stripe. */
static inline __attribute__((always_inline)) void gr_tt_conv_pixels(const gr_tt_conv_job *job, const float *from,
                                                                    int64_t images, int64_t cols, int64_t stripe,
                                                                    float *to) {
  int64_t p = 0, rows = job->side[0].out, pitch = job->side[1].lines;
  for (int64_t i = 0; i < images; ++i)
    for (int64_t r = 0; r < rows; ++r) {
      const float *row = from + i * job->lines + r * pitch;
      if (GR_STRIPE % cols == 0) {
        memcpy(to + p / GR_STRIPE * stripe + p % GR_STRIPE, row, (size_t)cols * 4);
        p += cols;
      } else {
        for (int64_t j = 0; j < cols; ++j, ++p) to[p / GR_STRIPE * stripe + p % GR_STRIPE] = row[j];
      }
    }
  for (; p % GR_STRIPE != 0; ++p) to[p / GR_STRIPE * stripe + p % GR_STRIPE] = 0.0f;
}

/* n of K, which begin at l1->at, as taps that are copied. */
GR_TT_APART void gr_tt_conv_pack(const gr_tt_conv_job *job, int64_t n, int64_t images, const gr_tt_conv_l1 *l1) {
  int64_t cols = job->side[1].out, stripe = GR_STRIPE * job->depth;
  for (int64_t k = 0; k < n; ++k) {
    const float *from = l1->x + l1->at[k];
    float *to = l1->taps + k * GR_STRIPE;
    switch (cols) {
      case 1: gr_tt_conv_pixels(job, from, images, 1, stripe, to); break;
      case 2: gr_tt_conv_pixels(job, from, images, 2, stripe, to); break;
      case 4: gr_tt_conv_pixels(job, from, images, 4, stripe, to); break;
      case 8: gr_tt_conv_pixels(job, from, images, 8, stripe, to); break;
      default: gr_tt_conv_pixels(job, from, images, cols, stripe, to);
    }
  }
}

/* ---------------------------------------------------------------- weights */

/* k0 .. k0+n-1 of output channel o as to[n]. Rows of a weight are pages, one after the other. */
static inline int32_t gr_tt_conv_weight_row(const gr_tt_core *c, const gr_tt_conv_job *job, int64_t o,
                                            int64_t k0, int64_t n, float *rows, float *to) {
  const gr_tt_view *v = &job->w;
  int64_t taps = v->rows * v->cols;
  if (v->arg->layout != GR_TILE) {
    int64_t first = k0 / v->cols, pages = gr_tt_ceil_div(k0 + n, v->cols) - first;
    if (v->arg->format == GR_F32 && k0 % v->cols == 0 && n % v->cols == 0)
      return c->env->page_read(c->env, &c->core, v->arg, o * job->channels * v->rows + first, pages, to);
    GR_TT_TRY(c->env->page_read(c->env, &c->core, v->arg, o * job->channels * v->rows + first, pages, rows));
    gr_tt_unpack_row(v->arg->format, (const uint8_t *)rows, k0 - first * v->cols, n, (uint32_t *)(void *)to);
    return GR_OK;
  }
  for (int64_t ch = k0 / taps; ch * taps < k0 + n; ++ch) {
    int64_t first = gr_tt_greater(k0, ch * taps), last = gr_tt_lesser(k0 + n, (ch + 1) * taps);
    GR_TT_TRY(gr_tt_load(c, v, (gr_tt_rect){o * job->channels + ch, 0, v->rows, 0, v->cols}, rows, v->cols));
    memcpy(to + first - k0, rows + first - ch * taps, (size_t)(last - first) * 4);
  }
  return GR_OK;
}

static inline int32_t gr_tt_conv_weights(const gr_tt_core *c, const gr_tt_conv_job *job, int64_t first,
                                         int64_t count, int64_t k0, int64_t n, const gr_tt_conv_l1 *l1) {
  const gr_tt_view *v = &job->w;
  if (v->arg->layout != GR_TILE && v->arg->format == GR_F32 && n == job->k && n == job->depth) {
    int64_t pages = job->channels * v->rows;
    GR_TT_TRY(c->env->page_read(c->env, &c->core, v->arg, first * pages, count * pages, l1->w));
  } else {
    for (int64_t o = 0; o < count; ++o)
      GR_TT_TRY(gr_tt_conv_weight_row(c, job, first + o, k0, n, l1->rows, l1->w + o * job->depth));
  }
  gr_tt_parts_take(&job->how.passes, GR_SRC_A, l1->w, job->block * job->depth);
  return GR_OK;
}

/* ---------------------------------------------------------------- a window of some output channels */

typedef struct gr_tt_conv_window {
  int64_t image, images, group;
  int64_t first, count;                     /* output channels, counted in the group */
  int64_t r0, nr, c0, nc;
} gr_tt_conv_window;

/* Part p of a window: first row and column in it, rows and columns, none where the window ends before. */
static inline gr_tt_rect gr_tt_conv_part(const gr_tt_conv_job *job, const gr_tt_conv_window *at, int64_t p) {
  gr_tt_rect part = {.r0 = p / job->side[1].parts * job->side[0].out, .c0 = p % job->side[1].parts * job->side[1].out};
  part.nr = gr_tt_greater(0, gr_tt_lesser(job->side[0].out, at->nr - part.r0));
  part.nc = gr_tt_greater(0, gr_tt_lesser(job->side[1].out, at->nc - part.c0));
  return part;
}

/* The sums of a channel of an image, whose first part's begin at `sums`, to or from a window's rows ld apart. */
static inline void gr_tt_conv_join(const gr_tt_conv_job *job, const gr_tt_conv_window *at, float *sums, float *window,
                                   int64_t ld, int apart) {
  for (int64_t p = 0; p < gr_tt_conv_parts(job); ++p, sums += job->area) {
    gr_tt_rect part = gr_tt_conv_part(job, at, p);
    for (int64_t r = 0; r < part.nr; ++r) {
      float *of_part = sums + r * job->pitch, *of_window = window + (part.r0 + r) * ld + part.c0;
      memcpy(apart ? of_part : of_window, apart ? of_window : of_part, (size_t)part.nc * 4);
    }
  }
}

static inline int32_t gr_tt_conv_store(const gr_tt_core *c, const gr_tt_conv_job *job, gr_tt_conv_window at,
                                       const gr_tt_conv_l1 *l1) {
  int64_t channel = at.group * job->outputs + at.first, whole = gr_tt_conv_parts(job) == 1;
  int64_t pitch = gr_tt_conv_ld(job);
  for (int64_t o = 0; o < at.count; ++o)
    for (int64_t i = 0; i < at.images; ++i) {
      float *sums = l1->sums + o * gr_tt_conv_sums(job) + i * job->line;
      int64_t plane = (at.image + i) * job->groups * job->outputs + channel + o;
      gr_tt_rect to = {plane, at.r0, at.nr, at.c0, at.nc};
      if (!whole) {
        gr_tt_conv_join(job, &at, sums, l1->rows, pitch, 0);
        sums = l1->rows;
      }
      gr_tt_finish(&job->how, job->bias.arg != NULL ? l1->bias + o : NULL, 0, sums, at.nr * pitch);
      GR_TT_TRY(gr_tt_program_run(c, &job->program, &job->y, to, sums, pitch, l1->panels));
      GR_TT_TRY(gr_tt_store(c, &job->y, to, sums, pitch, 0));
    }
  return GR_OK;
}

/* Sums leave Dst between two steps of K: as tiles of the window. */
static inline void gr_tt_conv_spill(const gr_tt_conv_job *job, const gr_tt_conv_window *at, const gr_tt_conv_l1 *l1) {
  uint8_t format = job->y.arg->format;
  int64_t ld = job->side[1].window;
  if (!gr_tt_spills(&job->how, format)) return;
  for (int64_t o = 0; o < at->count; ++o)
    for (int64_t i = 0; i < at->images; ++i) {
      float *sums = l1->sums + o * gr_tt_conv_sums(job) + i * job->line;
      if (gr_tt_conv_parts(job) == 1) {
        gr_tt_spill(&job->how, format, sums, job->pitch, at->nr, at->nc);
        continue;
      }
      gr_tt_conv_join(job, at, sums, l1->rows, ld, 0);
      gr_tt_spill(&job->how, format, l1->rows, ld, at->nr, at->nc);
      gr_tt_conv_join(job, at, sums, l1->rows, ld, 1);
    }
}

static inline gr_tt_conv_l1 gr_tt_conv_layout(const gr_tt_core *c, const gr_tt_conv_job *job) {
  const gr_passes *p = &job->how.passes;
  gr_tt_conv_l1 l1 = {.sums = (float *)(void *)c->space};
  l1.x = l1.sums + job->block * gr_tt_conv_sums(job);
  l1.w = l1.x + p->parts[GR_SRC_B] * job->planes * job->plane + 2 * GR_STRIPE;
  l1.bias = l1.w + p->parts[GR_SRC_A] * job->block * job->depth;
  l1.at = (int32_t *)(void *)(l1.bias + job->block);
  l1.panels = (float *)(void *)(l1.at + job->depth);
  l1.rows = l1.panels + gr_tt_program_floats(&job->program, gr_tt_conv_ld(job));
  l1.taps = l1.rows + gr_tt_conv_rows_floats(job);
  return l1;
}

static inline int32_t gr_tt_conv_begin(const gr_tt_core *c, const gr_tt_conv_job *job, gr_tt_conv_window at,
                                       const gr_tt_conv_l1 *l1) {
  int64_t channel = at.group * job->outputs + at.first, sums = gr_tt_conv_sums(job);
  memset(l1->sums, 0, (size_t)(at.count * sums) * 4);
  if (job->bias.arg == NULL) return GR_OK;
  GR_TT_TRY(gr_tt_load(c, &job->bias, (gr_tt_rect){0, 0, 1, channel, at.count}, l1->bias, at.count));
  for (int64_t o = 0; o < at.count && !job->how.phases; ++o)
    for (int64_t i = 0; i < sums; ++i) l1->sums[o * sums + i] = l1->bias[o];
  return GR_OK;
}

/* n of K from k0 on, whose weights are in L1, for part p of a window. */
static inline int32_t gr_tt_conv_step(const gr_tt_core *c, const gr_tt_conv_job *job, const gr_tt_conv_window *at,
                                      int64_t p, int64_t k0, int64_t n, const gr_tt_conv_l1 *l1) {
  int64_t taps = job->side[0].taps * job->side[1].taps, first = k0 / taps, last = (k0 + n - 1) / taps;
  int64_t plane = (at->image * job->groups + at->group) * job->channels + first;
  gr_tt_rect part = gr_tt_conv_part(job, at, p);
  if (part.nr * part.nc == 0) return GR_OK;
  GR_TT_TRY(gr_tt_conv_planes(c, job, plane, last + 1 - first, at->images, at->r0 + part.r0, at->c0 + part.c0, l1));
  if (job->packed) gr_tt_conv_pack(job, n, at->images, l1);
  int64_t row = (at->images - 1) * job->line + (part.nr - 1) * job->pitch + part.nc;
  gr_gemm g = {.rows = at->count, .stripes = gr_tt_ceil_div(row, GR_STRIPE), .k = n, .a = l1->w, .a_row = job->depth,
               .b = l1->x, .b_stripe = GR_STRIPE, .b_at = l1->at, .c = l1->sums + p * job->area,
               .c_row = gr_tt_conv_sums(job)};
  if (job->packed) g.b = l1->taps, g.b_stripe = GR_STRIPE * job->depth, g.b_at = NULL;
  gr_tt_products(&job->how, g, job->block * job->depth, job->planes * job->plane);
  return GR_OK;
}

static inline int32_t gr_tt_conv_make(const gr_tt_core *c, const gr_tt_conv_job *job, gr_tt_conv_window at) {
  gr_tt_conv_l1 l1 = gr_tt_conv_layout(c, job);
  GR_TT_TRY(gr_tt_conv_begin(c, job, at, &l1));
  for (int64_t k0 = 0; k0 < job->k; k0 += job->depth) {
    int64_t n = gr_tt_lesser(job->depth, job->k - k0);
    if (k0 > 0 && job->spill > 0 && k0 % job->spill == 0) gr_tt_conv_spill(job, &at, &l1);
    gr_tt_conv_offsets(job, k0, n, l1.at);
    GR_TT_TRY(gr_tt_conv_weights(c, job, at.group * job->outputs + at.first, at.count, k0, n, &l1));
    for (int64_t p = 0; p < gr_tt_conv_parts(job); ++p) GR_TT_TRY(gr_tt_conv_step(c, job, &at, p, k0, n, &l1));
  }
  return gr_tt_conv_store(c, job, at, &l1);
}

/* Window `unit` of a tiled output, line of windows of a row-major one, whose rows one core owns. */
static inline int32_t gr_tt_conv_unit(const gr_tt_core *c, const void *ctx, int64_t unit) {
  const gr_tt_conv_job *job = (const gr_tt_conv_job *)ctx;
  int tiled = job->y.arg->layout == GR_TILE;
  int64_t height = job->side[0].window, width = job->side[1].window, across = tiled ? job->across : 1;
  gr_tt_conv_window at = {.first = unit / across / job->bands % job->blocks * job->block};
  at.group = unit / across / job->bands / job->blocks % job->groups;
  at.image = unit / across / job->bands / job->blocks / job->groups * job->images;
  at.images = gr_tt_lesser(job->images, job->y.arg->shape[0] - at.image);
  at.count = gr_tt_lesser(job->block, job->outputs - at.first);
  at.r0 = unit / across % job->bands * height;
  at.nr = gr_tt_lesser(height, job->y.rows - at.r0);
  int64_t first = tiled ? unit % across : 0, last = tiled ? first + 1 : job->across;
  for (int64_t s = first; s < last; ++s) {
    at.c0 = s * width;
    at.nc = gr_tt_lesser(width, job->y.cols - at.c0);
    GR_TT_TRY(gr_tt_conv_make(c, job, at));
  }
  return GR_OK;
}

/* A core of a chosen grid: its rows share the windows, its columns the blocks of channels. */
static inline int32_t gr_tt_conv_core(const gr_tt_core *c, const void *ctx, int64_t core) {
  const gr_tt_conv_job *job = (const gr_tt_conv_job *)ctx;
  const gr_tt_words *n = &job->how.words;
  int64_t windows = job->bands * job->across, blocks = job->rounds * job->groups * job->blocks;
  for (int64_t block = core % n->grid[1]; block < blocks; block += n->grid[1])
    for (int64_t window = core / n->grid[1]; window < windows; window += n->grid[0])
      GR_TT_TRY(gr_tt_conv_unit(c, job, block * windows + window));
  return GR_OK;
}

/* ---------------------------------------------------------------- the op */

/* gr-kernel: tt/conv2d */
static inline int32_t gr_tt_conv2d(const gr_call *call) {
  const gr_arg *x = &call->args[0], *w = &call->args[1], *y = &call->args[call->nargs - 1];
  const int64_t *words = call->attrs;
  gr_tt_conv_job job = {.x = gr_tt_view_of(x), .w = gr_tt_view_of(w), .y = gr_tt_view_of(y),
                        .how = gr_tt_arithmetic_of(gr_tt_words_of(gr_steps_end(words + 9)), GR_SRC_A),
                        .groups = words[8]};
  job.program = gr_tt_program_of(call, words + 9, job.how.words.dst_bits, job.how.words.ttnn);
  const gr_tt_words *n = &job.how.words;
  for (int d = 0; d < 2; ++d)
    job.side[d] = (gr_tt_conv_side){.stride = words[d], .pad = words[2 + d], .dilation = words[6 + d],
                                    .taps = gr_tt_greater(1, w->shape[2 + d])};
  if (gr_steps_own(call, words + 9) == 3) job.bias = gr_tt_view_of(&call->args[2]);
  job.channels = w->shape[1];
  job.outputs = y->shape[1] / job.groups;
  job.k = job.channels * w->shape[2] * w->shape[3];
  if (job.y.outer * job.y.rows * job.y.cols == 0) return GR_OK;
  if (n->exact) {
    gr_tt_exact_conv_job exact = {job.x, job.w, job.bias, job.y, {words[0], words[1]}, {words[2], words[3]},
                                  {words[6], words[7]}, job.groups, job.channels, job.outputs, *n,
                                  job.program};
    return gr_tt_exact_conv(call, &exact);
  }
  uint64_t share = gr_tt_blocks_share(call, n);
  gr_tt_conv_plan(&job, gr_tt_blocks_room(n, share));
  uint64_t floats = gr_tt_bytes(1, gr_tt_conv_floats(&job)), bytes = floats > share ? floats : share;
  int64_t units = job.bands * job.blocks * job.groups * job.rounds;
  if (n->grid[0] > 0 && n->grid[0] * n->grid[1] > call->env->num_cores)
    return call->env->set_error(call->env, "the chosen op model has more cores than the device");
  if (n->grid[0] > 0 && y->layout == GR_TILE)
    return gr_tt_run(call, n->grid[0] * n->grid[1], bytes, gr_tt_conv_core, &job);
  return gr_tt_run(call, y->layout == GR_TILE ? units * job.across : units, bytes, gr_tt_conv_unit, &job);
}

#endif
