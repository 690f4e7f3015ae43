/* panel.h: how tt kernels see tensors: rectangles of a [outer, rows, cols] view, whatever its layout and
 * format, as plain row-major matrices of four-byte elements in a core's L1.
 *
 * An element is a float for f32, bf16 and block formats, an int32 (u32: its bits) for integers and bool. Only
 * whole pages move, through env; loads skip padding and stores write zeros there, so padding never reaches a
 * logical value.
 *
 * Included by: the bodies of this folder. Thread: a pool thread, one task per simulated core at a time.
 * defines: GR_TT_APART, GR_TT_TRY, gr_tt_view, gr_tt_rect, gr_tt_core, gr_tt_bytes, gr_tt_load, gr_tt_load_planes,
 * gr_tt_store, gr_tt_store_planes
 */
#ifndef GR_TT_PANEL_H
#define GR_TT_PANEL_H

#include <string.h>

#include "gr_abi.h"
#include "tile.h"

/* For functions that convert pages or walk over panels: a copy in every caller would more than double a kernel's time
 * to compile. */
#define GR_TT_APART static __attribute__((noinline))

#define GR_TT_PLANE_VALUES 512    /* of an argument with one element a plane, that are read at a time */

#define GR_TT_TRY(expression)                    \
  do {                                           \
    int32_t status_ = (expression);              \
    if (status_ != GR_OK) return status_;        \
  } while (0)

static inline int64_t gr_tt_lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t gr_tt_greater(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int64_t gr_tt_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* a rounded up to a multiple of `to` */
static inline int64_t gr_tt_up(int64_t a, int64_t to) { return gr_tt_ceil_div(a, to) * to; }

/* ---------------------------------------------------------------- an argument as planes of rows x cols */

typedef struct gr_tt_view {
  const gr_arg *arg;
  int64_t outer, rows, cols;
  int64_t down, across;       /* tiles of a plane */
} gr_tt_view;

/* Size of dimension d of ndim, the shape filled up with ones from the left. */
static inline int64_t gr_tt_dim(const gr_arg *arg, int32_t ndim, int32_t d) {
  int32_t at = d - (ndim - arg->ndim);
  return at < 0 ? 1 : arg->shape[at];
}

/* The plane of `in` that numpy's broadcasting pairs with a plane of `out`. */
static inline int64_t gr_tt_broadcast_plane(const gr_arg *in, const gr_arg *out, int64_t plane) {
  int64_t at = 0, stride = 1;
  for (int32_t d = out->ndim - 3; d >= 0; --d) {
    int64_t n = gr_tt_dim(in, out->ndim, d);
    if (n != 1) at += plane % out->shape[d] * stride;
    plane /= out->shape[d];
    stride *= n;
  }
  return at;
}

static inline gr_tt_view gr_tt_view_of(const gr_arg *arg) {
  gr_tt_view v = {.arg = arg, .outer = 1, .rows = 1, .cols = 1};
  for (int32_t d = 0; d + 2 < arg->ndim; ++d) v.outer *= arg->shape[d];
  if (arg->ndim >= 2) v.rows = arg->shape[arg->ndim - 2];
  if (arg->ndim >= 1) v.cols = arg->shape[arg->ndim - 1];
  v.down = gr_tt_ceil_div(v.rows, GR_TILE_DIM);
  v.across = gr_tt_ceil_div(v.cols, GR_TILE_DIM);
  return v;
}

static inline int gr_tt_is_float(uint8_t format) {
  return gr_format_converts(format);
}

/* nr x nc elements of one plane */
typedef struct gr_tt_rect {
  int64_t plane, r0, nr, c0, nc;
} gr_tt_rect;

/* ---------------------------------------------------------------- a core's L1 */

typedef struct gr_tt_core {
  const gr_env *env;
  gr_core core;
  uint8_t *page;      /* one page of any argument of the call */
  uint32_t *tile;     /* one unpacked tile, row-major */
  uint8_t *space;     /* what the op asked for, 64-byte aligned */
} gr_tt_core;

/* Bytes of a rows x ld matrix, a multiple of 64; more than any core has where the product would overflow. */
static inline uint64_t gr_tt_bytes(int64_t rows, int64_t ld) {
  uint64_t most = (uint64_t)1 << 40;
  if (ld > 0 && (uint64_t)rows > most / (uint64_t)ld) return most;
  return ((uint64_t)rows * (uint64_t)ld * 4 + 63) / 64 * 64;
}

/* ---------------------------------------------------------------- pages <-> four-byte elements */

static inline void gr_tt_unpack_tile(uint8_t format, const void *page, uint32_t *out) {
  if (gr_tt_is_float(format))
    gr_tile_unpack(format, page, (float *)out);
  else
    gr_tile_unpack_i32(format, page, (int32_t *)out);
}

/* keep: the values come from this same format, so bf16 takes their bits as they are (the packer would flush
 * and round). */
static inline void gr_tt_pack_tile(uint8_t format, int keep, uint32_t *in, void *page) {
  if (format == GR_BF16 && keep) {
    uint16_t *half = (uint16_t *)page;
    for (int32_t k = 0; k < 64; ++k)
      for (int32_t i = 0, at = gr_tile_half_row(k / 2, k % 2); i < 16; ++i)
        half[at + i] = (uint16_t)(in[16 * k + i] >> 16);
  } else if (gr_tt_is_float(format)) {
    gr_tile_pack(format, (const float *)in, page);
  } else {
    gr_tile_pack_i32(format, (const int32_t *)in, page);
  }
}

/* n elements of a row-major page, from element `first` on. */
static inline void gr_tt_unpack_row(uint8_t format, const uint8_t *page, int64_t first, int64_t n,
                                    uint32_t *out) {
#define GR_TT_EACH(T, VALUE)                                              \
  do {                                                                    \
    const T *in = (const T *)(const void *)page + first;                  \
    for (int64_t i = 0; i < n; ++i) out[i] = (VALUE);                     \
  } while (0)
  switch (format) {
    case GR_BF16: GR_TT_EACH(uint16_t, (uint32_t)in[i] << 16); break;
    case GR_I16: GR_TT_EACH(int16_t, (uint32_t)in[i]); break;
    case GR_U16: GR_TT_EACH(uint16_t, in[i]); break;
    case GR_I8: GR_TT_EACH(int8_t, (uint32_t)in[i]); break;
    case GR_U8: case GR_BOOL: GR_TT_EACH(uint8_t, in[i]); break;
    default: memcpy(out, page + first * 4, (size_t)n * 4); break;
  }
#undef GR_TT_EACH
}

static inline void gr_tt_pack_row(uint8_t format, int keep, const uint32_t *in, int64_t first, int64_t n,
                                  uint8_t *page) {
#define GR_TT_EACH(T, VALUE)                                              \
  do {                                                                    \
    T *out = (T *)(void *)page + first;                                   \
    for (int64_t i = 0; i < n; ++i) out[i] = (T)(VALUE);                  \
  } while (0)
  switch (format) {
    case GR_BF16:
      if (keep)
        GR_TT_EACH(uint16_t, in[i] >> 16);
      else
        GR_TT_EACH(uint16_t, gr_bf16_pack(gr_float_of(in[i])));
      break;
    case GR_I16: case GR_U16: GR_TT_EACH(uint16_t, in[i]); break;
    case GR_I8: case GR_U8: case GR_BOOL: GR_TT_EACH(uint8_t, in[i]); break;
    default: memcpy(page + first * 4, in, (size_t)n * 4); break;
  }
#undef GR_TT_EACH
}

/* ---------------------------------------------------------------- rectangles */

static inline int32_t gr_tt_read(const gr_tt_core *c, const gr_arg *arg, int64_t page) {
  return c->env->page_read(c->env, &c->core, arg, page, 1, c->page);
}

static inline int32_t gr_tt_write(const gr_tt_core *c, const gr_arg *arg, int64_t page) {
  return c->env->page_write(c->env, &c->core, arg, page, 1, c->page);
}

/* The same part of a tile whose elements are kept as they are. */
static inline void gr_tt_take_part(const uint32_t *tile, int64_t top, int64_t bottom, int64_t left, int64_t right,
                                   uint32_t *out, int64_t ld) {
  for (int64_t r = top; r < bottom; ++r, out += ld) {
    const uint32_t *a = tile + gr_tile_half_row((int32_t)r, 0), *b = tile + gr_tile_half_row((int32_t)r, 1);
    if (left == 0 && right == 32) {
      memcpy(out, a, 64);
      memcpy(out + 16, b, 64);
    } else if (left == 0 && right == 16) {
      memcpy(out, a, 64);
    } else {
      for (int64_t j = left; j < right && j < 16; ++j) out[j - left] = a[j];
      for (int64_t j = gr_tt_greater(left, 16); j < right; ++j) out[j - left] = b[j - 16];
    }
  }
}

/* Rows top .. bottom-1, columns left .. right-1 of the tile in c->page, counted inside of it. */
static inline void gr_tt_unpack_part(const gr_tt_core *c, uint8_t format, int64_t top, int64_t bottom,
                                     int64_t left, int64_t right, uint32_t *out, int64_t ld) {
  if (format == GR_F32) {
    gr_tt_take_part((const uint32_t *)(const void *)c->page, top, bottom, left, right, out, ld);
    return;
  }
  int whole = bottom - top > 8 || gr_format_bytes(format) == 0;     /* few rows: not worth unpacking a tile */
  if (whole) gr_tt_unpack_tile(format, c->page, c->tile);
  for (int64_t r = top; r < bottom; ++r, out += ld) {
    if (!whole)
      for (int32_t h = 0; h < 2; ++h)
        gr_tt_unpack_row(format, c->page, gr_tile_half_row((int32_t)r, h), 16, c->tile + r * 32 + h * 16);
    memcpy(out, c->tile + r * 32 + left, (size_t)(right - left) * 4);
  }
}

static inline int32_t gr_tt_load_tiles(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at, uint32_t *out,
                                       int64_t ld) {
  for (int64_t tr = at.r0 / 32; tr * 32 < at.r0 + at.nr; ++tr)
    for (int64_t tc = at.c0 / 32; tc * 32 < at.c0 + at.nc; ++tc) {
      GR_TT_TRY(gr_tt_read(c, v->arg, (at.plane * v->down + tr) * v->across + tc));
      int64_t top = gr_tt_greater(tr * 32, at.r0), bottom = gr_tt_lesser(tr * 32 + 32, at.r0 + at.nr);
      int64_t left = gr_tt_greater(tc * 32, at.c0), right = gr_tt_lesser(tc * 32 + 32, at.c0 + at.nc);
      gr_tt_unpack_part(c, v->arg->format, top - tr * 32, bottom - tr * 32, left - tc * 32, right - tc * 32,
                        out + (top - at.r0) * ld + left - at.c0, ld);
    }
  return GR_OK;
}

/* Row-major pages that one move takes: as many as fit where a tile is unpacked, for a move costs more than a short
 * page. */
static inline int64_t gr_tt_rows_at_once(const gr_arg *arg) {
  return gr_tt_greater(1, GR_TILE_ELEMENTS * 4 / gr_tt_greater(1, arg->page_bytes));
}

/* Pages of a row-major argument follow each other without a gap once they are in L1. */
static inline int gr_tt_is_dense(const gr_tt_view *v) {
  return (int64_t)v->arg->page_bytes == v->cols * gr_format_bytes(v->arg->format);
}

/* Whether n rows of ld elements at x, in the core's L1, are those pages as they are: nothing is to be converted. */
static inline int gr_tt_are_pages(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at, const void *x, int64_t ld) {
  uint64_t offset = (uint64_t)((uintptr_t)x - (uintptr_t)c->core.l1);
  return at.nc == v->cols && ld == v->cols && gr_format_bytes(v->arg->format) == 4 && gr_tt_is_dense(v) &&
         (uintptr_t)x >= (uintptr_t)c->core.l1 && offset < c->core.l1_bytes;
}

/* The rectangle as out[nr][ld]; what lies beyond nc in a row is left alone. Any rectangle inside of the plane
 * will do; row-major, it may go on in the planes that follow. */
GR_TT_APART int32_t gr_tt_load(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at, void *out,
                               int64_t ld) {
  uint32_t *to = (uint32_t *)out;
  if (v->arg->layout == GR_TILE) return gr_tt_load_tiles(c, v, at, to, ld);
  int64_t first = at.plane * v->rows + at.r0, most = gr_tt_rows_at_once(v->arg);
  if (gr_tt_are_pages(c, v, at, out, ld)) return c->env->page_read(c->env, &c->core, v->arg, first, at.nr, out);
  int whole = at.nc == v->cols && ld == v->cols && gr_tt_is_dense(v);
  uint8_t *pages = most > 1 ? (uint8_t *)c->tile : c->page;
  for (int64_t r = 0; r < at.nr; r += most) {
    int64_t n = gr_tt_lesser(most, at.nr - r);
    GR_TT_TRY(c->env->page_read(c->env, &c->core, v->arg, first + r, n, pages));
    if (whole) gr_tt_unpack_row(v->arg->format, pages, 0, n * ld, to + r * ld);
    for (int64_t i = 0; i < n && !whole; ++i)
      gr_tt_unpack_row(v->arg->format, pages + i * v->arg->page_bytes, at.c0, at.nc, to + (r + i) * ld);
  }
  return GR_OK;
}

/* The same rectangle of `count` planes, from at.plane on, as out[count][nr][nc]. */
static inline int32_t gr_tt_load_planes(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at, int64_t count,
                                        float *out) {
  if (v->arg->layout != GR_TILE && at.nr == v->rows && at.nc == v->cols) {
    at.nr *= count;
    count = 1;
  }
  for (int64_t i = 0; i < count; ++i, ++at.plane)
    GR_TT_TRY(gr_tt_load(c, v, at, out + i * at.nr * at.nc, at.nc));
  return GR_OK;
}

/* The part of `in` that belongs to a rectangle in one plane of `out`, repeated along its dimensions of size 1. */
static inline int32_t gr_tt_load_in_plane(const gr_tt_core *c, const gr_tt_view *in, const gr_tt_view *out,
                                          gr_tt_rect at, uint32_t *to, int64_t ld) {
  gr_tt_rect from = at;
  from.plane = gr_tt_broadcast_plane(in->arg, out->arg, at.plane);
  if (in->rows == 1) from.r0 = 0, from.nr = 1;
  if (in->cols == 1) from.c0 = 0, from.nc = 1;
  GR_TT_TRY(gr_tt_load(c, in, from, to, ld));
  for (int64_t r = 0; r < from.nr && from.nc < at.nc; ++r)
    for (int64_t j = 1; j < at.nc; ++j) to[r * ld + j] = to[r * ld];
  for (int64_t r = from.nr; r < at.nr; ++r) memcpy(to + r * ld, to, (size_t)at.nc * 4);
  return GR_OK;
}

/* The same of whole rows of several planes, of arguments in rows. Of what has one element a plane many are read at a
 * time: a move costs more than they. */
GR_TT_APART int32_t gr_tt_load_in_planes(const gr_tt_core *c, const gr_tt_view *in, const gr_tt_view *out,
                                         gr_tt_rect at, uint32_t *to, int64_t ld) {
  int64_t rows = gr_tt_dim(out->arg, out->arg->ndim, out->arg->ndim - 2), held = 0, first = 0;
  uint32_t window[GR_TT_PLANE_VALUES];
  for (int64_t r = at.r0, n; r < at.r0 + at.nr; r += n, to += n * ld) {
    int64_t plane = gr_tt_broadcast_plane(in->arg, out->arg, r / rows);
    n = gr_tt_lesser(rows - r % rows, at.r0 + at.nr - r);
    if (in->rows != 1 || in->cols != 1) {
      GR_TT_TRY(gr_tt_load_in_plane(c, in, out, (gr_tt_rect){r / rows, r % rows, n, 0, at.nc}, to, ld));
      continue;
    }
    if (plane < first || plane >= first + held) {
      first = plane, held = gr_tt_lesser(GR_TT_PLANE_VALUES, in->outer - plane);
      GR_TT_TRY(gr_tt_load(c, in, (gr_tt_rect){plane, 0, held, 0, 1}, window, 1));
    }
    for (int64_t i = 0; i < n * ld; ++i) to[i] = window[plane - first];
  }
  return GR_OK;
}

/* Whether arguments have one shape, but for ones in front. */
static inline int gr_tt_have_one_shape(const gr_arg *a, const gr_arg *b) {
  int32_t ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int32_t d = 0; d < ndim; ++d)
    if (gr_tt_dim(a, ndim, d) != gr_tt_dim(b, ndim, d)) return 0;
  return 1;
}

/* The part of `in` that belongs to a rectangle of `out`, repeated along its dimensions of size 1, as
 * to[nr][ld]. Where the planes of `out` are one (gr_tt_cut_elements), the rectangle is of whole rows. */
static inline int32_t gr_tt_load_broadcast(const gr_tt_core *c, const gr_tt_view *in, const gr_tt_view *out,
                                           gr_tt_rect at, uint32_t *to, int64_t ld) {
  int joined = out->arg->ndim > 2 && out->rows != out->arg->shape[out->arg->ndim - 2];
  if (!joined) return gr_tt_load_in_plane(c, in, out, at, to, ld);
  if (gr_tt_have_one_shape(in->arg, out->arg)) return gr_tt_load(c, in, at, to, ld);
  return gr_tt_load_in_planes(c, in, out, at, to, ld);
}

static inline int32_t gr_tt_store_tiles(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at,
                                        const uint32_t *in, int64_t ld, int keep) {
  for (int64_t r = 0; r < at.nr; r += 32)
    for (int64_t col = 0; col < at.nc; col += 32) {
      int64_t nr = gr_tt_lesser(32, at.nr - r), nc = gr_tt_lesser(32, at.nc - col);
      if (v->arg->format == GR_F32) {
        gr_tile_tilize(4, in + r * ld + col, (uint64_t)ld * 4, (int32_t)nr, (int32_t)nc, c->page);
        GR_TT_TRY(gr_tt_write(c, v->arg,
                              (at.plane * v->down + (at.r0 + r) / 32) * v->across + (at.c0 + col) / 32));
        continue;
      }
      if (nr < 32 || nc < 32) memset(c->tile, 0, GR_TILE_ELEMENTS * 4);
      for (int64_t i = 0; i < nr; ++i) memcpy(c->tile + i * 32, in + (r + i) * ld + col, (size_t)nc * 4);
      gr_tt_pack_tile(v->arg->format, keep, c->tile, c->page);
      GR_TT_TRY(gr_tt_write(c, v->arg,
                            (at.plane * v->down + (at.r0 + r) / 32) * v->across + (at.c0 + col) / 32));
    }
  return GR_OK;
}

/* Writes in[nr][ld] to the rectangle. Tiled: it starts at multiples of 32 and ends at one or at the plane's
 * edge. Row-major: a part of a row is read, changed and written, so one core owns a row; whole rows may go on in
 * the planes that follow. */
GR_TT_APART int32_t gr_tt_store(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at, const void *in,
                                int64_t ld, int keep) {
  const uint32_t *from = (const uint32_t *)in;
  if (v->arg->layout == GR_TILE) return gr_tt_store_tiles(c, v, at, from, ld, keep);
  int64_t first = at.plane * v->rows + at.r0, most = at.nc < v->cols ? 1 : gr_tt_rows_at_once(v->arg);
  if (gr_tt_are_pages(c, v, at, in, ld)) return c->env->page_write(c->env, &c->core, v->arg, first, at.nr, in);
  uint8_t *pages = most > 1 ? (uint8_t *)c->tile : c->page;
  for (int64_t r = 0; r < at.nr; r += most) {
    int64_t n = gr_tt_lesser(most, at.nr - r);
    if (at.nc < v->cols) GR_TT_TRY(gr_tt_read(c, v->arg, first + r));
    for (int64_t i = 0; i < n; ++i)
      gr_tt_pack_row(v->arg->format, keep, from + (r + i) * ld, at.c0, at.nc, pages + i * v->arg->page_bytes);
    GR_TT_TRY(c->env->page_write(c->env, &c->core, v->arg, first + r, n, pages));
  }
  return GR_OK;
}

/* Writes in[count][nr][nc] to the same rectangle of `count` planes, from at.plane on. */
static inline int32_t gr_tt_store_planes(const gr_tt_core *c, const gr_tt_view *v, gr_tt_rect at, int64_t count,
                                         const float *in) {
  if (v->arg->layout != GR_TILE && at.nr == v->rows && at.nc == v->cols) {
    at.nr *= count;
    count = 1;
  }
  for (int64_t i = 0; i < count; ++i, ++at.plane)
    GR_TT_TRY(gr_tt_store(c, v, at, in + i * at.nr * at.nc, at.nc, 0));
  return GR_OK;
}

#endif
