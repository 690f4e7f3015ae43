/* grouped.h: NHWC convolutions of groups of 2, 4, 8 or 16 channels that make as many, in float32, for each
 * instruction set.
 *
 * A vector holds neighbouring output channels of one pixel, of several groups or a part of one. What it is multiplied
 * with is the image's channel j of each lane's own group: a shuffle of the same channels of the image, or one of them
 * in all lanes. So no product is with a zero of another group, and nothing is gathered.
 *
 * Included by: conv_packed.h. Thread: any.
 * defines: gr_takes_groups, gr_grouped_run
 */
#ifndef GR_CPU_GROUPED_H
#define GR_CPU_GROUPED_H

#include "cpu/images.h"

#include "isa/any.h"
#include "cpu/grouped_isa.h"

#if defined(__x86_64__)
#include "isa/avx2.h"
#include "cpu/grouped_isa.h"

#include "isa/avx512.h"
#include "cpu/grouped_isa.h"
#elif defined(__aarch64__)
#include "isa/neon.h"
#include "cpu/grouped_isa.h"
#endif

/* is_narrow of packed.py: groups of one channel, too */
GR_INLINE int gr_takes_groups(int64_t group, int64_t channels, int64_t made) {
  int64_t each = channels / group;
  return group > 1 && channels == made && (each == 1 || each == 2 || each == 4 || each == 8 || each == 16);
}

static int32_t gr_grouped_task(void *ctx, int64_t first, int64_t last) {
  const gr_image *s = ctx;
#if defined(__x86_64__)
  if (GR_HAS_AVX512 && s->c >= 16) return gr_grouped_rows_avx512(s, first, last);
  if (GR_HAS_AVX2 && s->c >= 8) return gr_grouped_rows_avx2(s, first, last);
#elif defined(__aarch64__)
  if (GR_NEON) return gr_grouped_rows_neon(s, first, last);
#endif
  return gr_grouped_rows_any(s, first, last);
}

GR_INLINE int32_t gr_grouped_run(const gr_call *call, gr_image *s) {
  return gr_images_run(call, s, gr_grouped_task);
}

#endif
