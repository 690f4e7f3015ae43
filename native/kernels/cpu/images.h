/* images.h: NHWC images, channel by channel: depthwise convolution and pools in float32, of images that are float32
 * or bf16, for each instruction set.
 *
 * Work is a row of output pixels. A vector holds neighbouring channels of one pixel, so that no window needs a
 * shuffle, whatever its strides.
 *
 * Included by: conv_packed.h, pool_nhwc.h. Thread: any.
 * defines: gr_image, gr_depthwise_run, gr_pool_nhwc
 */
#ifndef GR_CPU_IMAGES_H
#define GR_CPU_IMAGES_H

#include "cpu/common.h"
#include "isa/halves.h"
#include "isa/has.h"

typedef struct gr_image gr_image;
struct gr_image {
  const void *x;                 /* [n][h][w][c] */
  void *out;                     /* [n][oh][ow][c] */
  int halves;                    /* both are bf16, and extra, else float32 */
  int64_t h, w, c, oh, ow;
  int64_t kh, kw, sh, sw, top, left, dh, dw;
  int64_t begin, end;            /* channels that are made: all, or depthwise some whole vectors */
  int64_t each;                  /* channels of a group; pools: 0 */
  const float *weights, *bias;   /* of groups: [ceil(c / 32)][kh * kw * each][32]; NULL or [c] */
  const void *extra;             /* of groups: NULL, or what is added to the result, laid out as out */
  int clamp;                     /* of groups: the result is kept in least .. most */
  float least, most;
  void (*after)(const gr_image *s, int64_t row, void *out); /* NULL, or what is done with a finished row */
  const void *steps;             /* after's own */
  int64_t bottom, right, include_pad; /* pools */
};

/* Output columns first .. last-1 whose windows lie inside of the image's width. */
GR_INLINE void gr_image_inside(const gr_image *s, int64_t *first, int64_t *last) {
  int64_t reach = (s->kw - 1) * s->dw;
  *first = gr_min(s->ow, gr_ceil_div(s->left, s->sw));
  int64_t room = s->w - 1 - reach + s->left;      /* the last window that fits starts here, padding counted */
  *last = gr_max(*first, room < 0 ? 0 : gr_min(s->ow, room / s->sw + 1));
}

/* Kernel rows (or columns) first .. last-1 that lie inside of the image, of a window that starts at ``at``. */
GR_INLINE void gr_image_taps(int64_t at, int64_t size, int64_t taps, int64_t dilation, int64_t *first,
                             int64_t *last) {
  *first = at >= 0 ? 0 : gr_min(taps, gr_ceil_div(-at, dilation));
  *last = gr_max(*first, at >= size ? 0 : gr_min(taps, gr_ceil_div(size - at, dilation)));
}

enum gr_image_work { GR_DEPTHWISE, GR_MAX, GR_MEAN };

#define GR_TAIL_TAPS 64          /* of a kernel: the last channels, where they fill no vector, get weights of their own */

/* ---------------------------------------------------------------- one a machine */

#include "isa/any.h"
#define GR_IMAGE_HALVES 0
#include "cpu/images_isa.h"
#include "isa/any.h"
#define GR_IMAGE_HALVES 1
#include "cpu/images_isa.h"

#if defined(__x86_64__)
#include "isa/avx2.h"
#define GR_IMAGE_HALVES 0
#include "cpu/images_isa.h"
#include "isa/avx2.h"
#define GR_IMAGE_HALVES 1
#include "cpu/images_isa.h"

#include "isa/avx512.h"
#define GR_IMAGE_HALVES 0
#include "cpu/images_isa.h"
#include "isa/avx512.h"
#define GR_IMAGE_HALVES 1
#include "cpu/images_isa.h"
#include "isa/avx512bf16.h"
#define GR_IMAGE_HALVES 1
#define GR_IMAGE_PAIRED 1
#include "cpu/images_isa.h"
#elif defined(__aarch64__)
#include "isa/neon.h"
#define GR_IMAGE_HALVES 0
#include "cpu/images_isa.h"
#include "isa/neon.h"
#define GR_IMAGE_HALVES 1
#include "cpu/images_isa.h"
#endif

/* ---------------------------------------------------------------- which instruction set
 * The widest whose vectors the channels fill. */

#if defined(__x86_64__)
/* Rows of a depthwise convolution whose last channels fill half of a vector of 16. */
static int32_t gr_depthwise_half_vector(const gr_image *s, int64_t first, int64_t last) {
  gr_image whole = *s, half = *s;
  whole.end = half.begin = s->c - 8;
  whole.after = NULL;                  /* what follows reads all channels of a row */
  for (int64_t i = first; i < last; ++i) {
    gr_image_rows_avx512(&whole, i, i + 1, GR_DEPTHWISE);
    gr_image_rows_avx2(&half, i, i + 1, GR_DEPTHWISE);
  }
  return GR_OK;
}
#endif

static int32_t gr_float_image_rows(const gr_image *s, int64_t first, int64_t last, int work) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512 && GR_HAS_AVX2 && work == GR_DEPTHWISE && s->c > 16 && s->c % 16 == 8)
    return gr_depthwise_half_vector(s, first, last);
  if (GR_HAS_AVX512 && s->c >= 16) return gr_image_rows_avx512(s, first, last, work);
  if (GR_HAS_AVX2 && s->c >= 8)
    return gr_image_rows_avx2(s, first, last, work);
#elif defined(__aarch64__)
  if (GR_NEON && s->c >= 4) return gr_image_rows_neon(s, first, last, work);
#endif
  return gr_image_rows_any(s, first, last, work);
}

/* The same of images in bf16. */
static int32_t gr_half_image_rows(const gr_image *s, int64_t first, int64_t last, int work) {
#if defined(__x86_64__)
  if (GR_HAS_AVX512BF16 && s->c >= 16) return gr_image_rows_halves_avx512bf16(s, first, last, work);
  if (GR_HAS_AVX512 && s->c >= 16) return gr_image_rows_halves_avx512(s, first, last, work);
  if (GR_HAS_AVX2 && s->c >= 8) return gr_image_rows_halves_avx2(s, first, last, work);
#elif defined(__aarch64__)
  if (GR_NEON && s->c >= 4) return gr_image_rows_halves_neon(s, first, last, work);
#endif
  return gr_image_rows_halves_any(s, first, last, work);
}

static int32_t gr_image_rows(const gr_image *s, int64_t first, int64_t last, int work) {
  return (s->halves ? gr_half_image_rows : gr_float_image_rows)(s, first, last, work);
}

static int32_t gr_depthwise_rows(void *ctx, int64_t first, int64_t last) {
  return gr_image_rows(ctx, first, last, GR_DEPTHWISE);
}
static int32_t gr_max_rows(void *ctx, int64_t first, int64_t last) {
  return gr_image_rows(ctx, first, last, GR_MAX);
}
static int32_t gr_mean_rows(void *ctx, int64_t first, int64_t last) {
  return gr_image_rows(ctx, first, last, GR_MEAN);
}

GR_INLINE int32_t gr_images_run(const gr_call *call, gr_image *s, int32_t (*rows)(void *, int64_t, int64_t)) {
  const gr_arg *x = &call->args[0], *out = &call->args[call->nargs - 1];
  s->x = gr_ptr(x);
  s->out = gr_ptr(out);
  s->halves = x->dtype == GR_BF16;
  s->h = x->shape[1];
  s->w = x->shape[2];
  s->c = s->end = x->shape[3];
  s->begin = 0;
  s->oh = out->shape[1];
  s->ow = out->shape[2];
  if (gr_size(out) == 0) return GR_OK;
  int64_t cost = gr_max(1, s->ow * s->c * gr_min(s->kh, s->h) * gr_min(s->kw, s->w) *
                           gr_max(1, s->each) / 4);
  return gr_parallel(call->env, out->shape[0] * s->oh, gr_ceil_div(GR_GRAIN, cost), rows, s);
}

#endif
