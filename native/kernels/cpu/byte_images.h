/* byte_images.h: NHWC images of bytes, channel by channel: depthwise convolution, for each instruction set.
 *
 * Work is a row of output pixels, a vector of channels at a time. Four taps of a column of the kernel are the four
 * bytes of a lane, so each column of the image is brought together once for all windows that it is in. The weight lies
 * as byte_panels.h says, k = (kernel column, kernel row, in fours).
 *
 * Included by: quantized_conv.h. Thread: any.
 * defines: gr_byte_image, gr_byte_images_run, GR_BYTE_COLUMNS
 */
#ifndef GR_CPU_BYTE_IMAGES_H
#define GR_CPU_BYTE_IMAGES_H

#include "byte_panels.h"

#define GR_BYTE_COLUMNS 256            /* lanes of taps at a time; MOST_TAPS of byte_panels.py fit */
#define GR_BYTE_KEPT 10                /* lanes of weights that are made ready once a row: 5 x 5 taps */

typedef struct gr_byte_image gr_byte_image;
struct gr_byte_image {
  const uint8_t *x;                    /* [n][h][w][c] */
  void *out;                           /* [n][oh][ow][c], of made.dtype */
  int64_t h, w, c, oh, ow;
  int64_t kh, kw, sh, sw, top, left, dh, dw;
  uint8_t flip, zero;                  /* as gr_bytes */
  const uint8_t *weights;
  const int32_t *shift;                /* NULL: all 0 */
  gr_requant made;
  void (*after)(const gr_byte_image *s, int64_t row, void *out); /* NULL, or what is done with a finished row */
  const void *steps;                   /* after's own */
};

/* The rows of the image that up to four taps of a column of the kernel are in, from tap 4 * four on, NULL for those
 * outside of it; how many taps there are. The kernel's first row is at row y of the image, maybe outside. */
GR_INLINE int64_t gr_byte_tap_rows(const gr_byte_image *s, const uint8_t *image, int64_t y, int64_t four,
                                   const uint8_t **rows) {
  int64_t count = gr_min(4, s->kh - 4 * four);
  for (int64_t t = 0; t < 4; ++t) {
    int64_t row = y + (4 * four + t) * s->dh;
    rows[t] = t < count && row >= 0 && row < s->h ? image + row * s->w * s->c : NULL;
  }
  return count;
}

#include "isa/any.h"
#include "isa/bytes.h"
#include "cpu/byte_images_isa.h"

#if defined(__x86_64__)
#include "isa/avx2.h"
#include "isa/bytes.h"
#include "cpu/byte_images_isa.h"

#include "isa/avx512vnni.h"
#include "isa/bytes.h"
#include "cpu/byte_images_isa.h"
#endif

static int32_t gr_byte_image_rows(void *ctx, int64_t first, int64_t last) {
  const gr_byte_image *s = ctx;
  switch (GR_BYTES_ISA) {
#if defined(__x86_64__)
    case GR_BYTES_AVX512VNNI: gr_byte_image_rows_avx512vnni(s, first, last); return GR_OK;
    case GR_BYTES_AVX2: gr_byte_image_rows_avx2(s, first, last); return GR_OK;
#endif
    default: gr_byte_image_rows_any(s, first, last); return GR_OK;
  }
}

static inline int32_t gr_byte_images_run(const gr_env *env, gr_byte_image *s, int64_t images) {
  int64_t cost = gr_max(1, s->ow * s->c * s->kh * s->kw / 8);
  return gr_parallel(env, images * s->oh, gr_ceil_div(GR_GRAIN, cost), gr_byte_image_rows, s);
}

#endif
