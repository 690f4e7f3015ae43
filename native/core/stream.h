/* stream.h: stores that go around the cache. Writing memory that is not read soon costs a third of its
 * traffic less if the line need not be read first; below a few megabytes the next kernel finds a cached
 * copy faster.
 *
 * Used by the copy engine and the simulated device's page transfers.
 * defines: GR_STREAM_BYTES, gr_move, gr_stream_end
 */
#ifndef GR_STREAM_H
#define GR_STREAM_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define GR_STREAM_BYTES \
  (4 << 20) /* copies of at least this many bytes stream: they leave nothing in a core's cache anyway */

/* Shorter moves stream to whole cache lines only: a line written in two parts, far apart, costs two trips.
 * Longer ones go on where the one before ended, so that the parts meet on their way. */
#define GR_STREAM_RUN 512

/* memcpy, around the cache if streaming is set and the destination's alignment allows. */
static inline void gr_move(void *to, const void *from, uint64_t bytes, int streaming) {
#ifdef __SSE2__
  if (streaming && !((uintptr_t)to & (bytes < GR_STREAM_RUN ? 63u : 15u)) && !(bytes & 63u)) {
    for (uint64_t i = 0; i < bytes; i += 64)
      for (int k = 0; k < 64; k += 16)
        _mm_stream_si128((__m128i *)(void *)((uint8_t *)to + i + k),
                         _mm_loadu_si128((const __m128i *)(const void *)((const uint8_t *)from + i + k)));
    return;
  }
#endif
  (void)streaming;
  memcpy(to, from, bytes);
}

/* After streaming stores, before another thread is told that they are done: they are not ordered by
 * ordinary releases. */
static inline void gr_stream_end(void) {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

#endif
