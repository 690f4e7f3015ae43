/* byte_images_isa.h: byte_images.h for one instruction set; included once for each, and by byte_images.h only.
 *
 * defines: GR_ISA(gr_byte_image_rows)
 */

/* ``count`` channels of a pixel as bytes of lanes. */
GR_ALWAYS GR_VI GR_ISA(gr_byte_pixel)(const uint8_t *from, int64_t count, int whole) {
  return GR_BYTES_WIDE(whole ? *(const GR_BYTES *)from : GR_ISA(gr_bytes_load)(from, count));
}

/* Columns first .. last-1 of the padded image under a row of windows, which begins at row y: the taps of each, in
 * fours, to lanes[((column - first) * fours + four) * GR_BYTES_HALVES], as GR_BYTES_TERM reads them, turned where they
 * are signed. whole: all lanes are channels. */
GR_ALWAYS void GR_ISA(gr_byte_columns)(const gr_byte_image *s, const uint8_t *image, int64_t y, int64_t channel,
                                       int64_t first, int64_t last, int64_t fours, GR_VI *lanes, int whole) {
  int64_t c = s->c, w = s->w, left = s->left;
  GR_VI padding = {0}, flip = {0};
  padding += s->zero;
  flip += s->flip;
  for (int64_t four = 0; four < fours; ++four) {
    const uint8_t *rows[4];
    int64_t count = gr_byte_tap_rows(s, image + channel, y, four, rows);
    GR_VI *to = lanes + four * GR_BYTES_HALVES;
    for (int64_t x = first - left; x < last - left; ++x, to += fours * GR_BYTES_HALVES) {
      int inside = x >= 0 && x < w;
      GR_VI taps[2] = {{0}, {0}};
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) {
        uint32_t place = GR_BYTES_HALVES == 1 ? 8 * (uint32_t)t : 16 * ((uint32_t)t / 2);
        GR_VI one = padding;
        if (t >= count) break;
        if (inside && rows[t]) one = GR_ISA(gr_byte_pixel)(rows[t] + x * c, c - channel, whole) ^ flip;
        taps[t % GR_BYTES_HALVES] |= (GR_VI)((GR_ISA(gr_bytes_words))one << place);
      }
#pragma GCC unroll 2
      for (int half = 0; half < GR_BYTES_HALVES; ++half) to[half] = taps[half];
    }
  }
}

/* Output columns first .. last-1 of a row, of lanes that begin at the first one's column. */
GR_ALWAYS void GR_ISA(gr_byte_outputs)(const gr_byte_image *s, const GR_VI *lanes, int64_t channel, int64_t first,
                                       int64_t last, int64_t kw, int64_t fours, uint8_t *out, int64_t size) {
  const uint8_t *weights = s->weights + channel / GR_PANEL * gr_bytes_panel(4 * kw * fours) +
                           channel % GR_PANEL * 4;
  const gr_requant *made = &s->made;
  GR_ISA(gr_bytes_grid) grid = GR_ISA(gr_bytes_grid_of)(made, channel);
  GR_VI offset = *(const GR_VI *)(made->offset + channel), ones = {0}, kept[GR_BYTE_KEPT * GR_BYTES_HALVES];
  const int32_t *shift = s->shift;
  int64_t c = s->c, count = c - channel, all = kw * fours, step = s->sw * fours * GR_BYTES_HALVES;
  int64_t next = s->dw * fours * GR_BYTES_HALVES;
  int keeps = all <= GR_BYTE_KEPT;
  ones += GR_BYTES_ONES;
  for (int64_t i = 0; keeps && i < all; ++i)
    for (int half = 0; half < GR_BYTES_HALVES; ++half)
      kept[i * GR_BYTES_HALVES + half] = GR_BYTES_LOAD(weights + i * 4 * GR_PANEL, half);
  for (int64_t j = first; j < last; ++j) {
    GR_VI sum = offset, whole = {0};
    const GR_VI *from = lanes + (j - first) * step;
    for (int64_t q = 0; q < kw; ++q) {
      for (int64_t i = 0; i < fours * GR_BYTES_HALVES; ++i) {
        GR_VI taps = from[q * next + i];
        int64_t at = q * fours * GR_BYTES_HALVES + i;
        const uint8_t *weight = weights + at / GR_BYTES_HALVES * 4 * GR_PANEL;
        sum = GR_BYTES_TERM(taps, (keeps ? kept[at] : GR_BYTES_LOAD(weight, at % GR_BYTES_HALVES)), sum);
        if (shift) whole = GR_BYTES_TERM(taps, ones, whole);
      }
    }
    if (shift)
      sum = (GR_VI)((GR_ISA(gr_bytes_words))sum -
                    *(const GR_ISA(gr_bytes_words) *)(shift + channel) * (GR_ISA(gr_bytes_words))whole);
    uint8_t *to = out + (j * c + channel) * size;
    if (size == 1) GR_ISA(gr_bytes_out)(sum, &grid, count, to);
    else GR_ISA(gr_bytes_words_out)(made, sum, channel, count, to);
  }
}

#ifdef GR_ISA_FOUR
/* ---------------------------------------------------------------- 64 channels at a time
 * Four rows of the image under a window are woven so that the four taps of a channel are a lane (gr_weave), 64 channels
 * in four vectors; what belongs to a channel lies where its lane does, and bytes are brought back in their order. */

/* Four vectors of what 64 channels have, 4 bytes each: 32 of them at ``near``, the others at ``far``. */
GR_ALWAYS void GR_ISA(gr_byte_quad)(const void *near, const void *far, void *to) {
  for (int j = 0; j < 4; ++j)
    for (int lane = 0; lane < 4; ++lane)
      memcpy((uint8_t *)to + 64 * j + 16 * lane,
             (const uint8_t *)(lane < 2 ? near : far) + 64 * (lane % 2) + 16 * j, 16);
}

/* As gr_byte_columns: to lanes[((column - first) * fours + four) * 4 ..+3]. */
GR_ALWAYS void GR_ISA(gr_byte_quad_columns)(const gr_byte_image *s, const uint8_t *image, int64_t y, int64_t channel,
                                            int64_t first, int64_t last, int64_t fours, GR_VI *lanes, int whole) {
  int64_t c = s->c, w = s->w, left = s->left, many = gr_min(64, c - channel);
  GR_VI padding = {0}, flip = {0}, none = {0};
  padding += s->zero * 0x01010101;
  flip += s->flip * 0x01010101;
  for (int64_t four = 0; four < fours; ++four) {
    const uint8_t *rows[4];
    int64_t count = gr_byte_tap_rows(s, image + channel, y, four, rows);
    GR_VI *to = lanes + 4 * four;
    for (int64_t x = first - left; x < last - left; ++x, to += 4 * fours) {
      int inside = x >= 0 && x < w;
      GR_VI taps[4];
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) {
        taps[t] = t < count ? padding : none;
        if (inside && rows[t])
          taps[t] = (whole ? *(const GR_VI *)(rows[t] + x * c) : GR_ISA(gr_load_part)(rows[t] + x * c, many)) ^ flip;
      }
      GR_ISA(gr_weave)(taps, to);
    }
  }
}

/* As gr_byte_outputs. weights: [kw * fours][4]. */
GR_ALWAYS void GR_ISA(gr_byte_quad_outputs)(const gr_byte_image *s, const GR_VI *lanes, const GR_VI *weights,
                                            const GR_VI *offset, const GR_ISA(gr_bytes_ends) *ends, int64_t first,
                                            int64_t last, int64_t kw, int64_t fours, uint8_t *out, int64_t many) {
  int64_t step = s->sw * fours * 4, next = s->dw * fours * 4;
  for (int64_t j = first; j < last; ++j, out += s->c) {
    GR_VI sums[4] = {offset[0], offset[1], offset[2], offset[3]};
    const GR_VI *from = lanes + (j - first) * step;
#pragma GCC unroll 5
    for (int64_t q = 0; q < kw; ++q) {
#pragma GCC unroll 2
      for (int64_t i = 0; i < fours; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v)
          sums[v] = GR_BYTES_TERM(from[q * next + 4 * i + v], weights[(q * fours + i) * 4 + v], sums[v]);
      }
    }
    GR_V scaled[4];
    GR_ISA(gr_bytes_scaled)(sums, ends, 4, scaled);
    GR_VI made = GR_ISA(gr_in_turn)(scaled, ends->zero, ends->least, ends->turn);
    if (many >= 64) *(GR_VI *)out = made;
    else GR_ISA(gr_store_first)(out, made, many);
  }
}

/* Rows first .. last-1 of 64 channels from ``channel`` on. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_byte_quad_rows)(const gr_byte_image *s, int64_t first,
                                                                              int64_t last, int64_t channel,
                                                                              int64_t wide) {
  GR_VI lanes[GR_BYTE_COLUMNS], weights[GR_BYTE_COLUMNS], offset[4];
  int64_t fours = gr_ceil_div(s->kh, 4), reach = (s->kw - 1) * s->dw + 1, many = s->c - channel;
  int64_t panel = gr_bytes_panel(4 * s->kw * fours);
  const uint8_t *own = s->weights + channel / GR_PANEL * panel;
  GR_ISA(gr_bytes_ends) ends = GR_ISA(gr_bytes_ends_of)(&s->made);
  for (int64_t i = 0; i < s->kw * fours; ++i)
    GR_ISA(gr_byte_quad)(own + i * 4 * GR_PANEL, own + panel + i * 4 * GR_PANEL, weights + 4 * i);
  GR_ISA(gr_byte_quad)(s->made.offset + channel, s->made.offset + channel + GR_PANEL, offset);
  GR_ISA(gr_byte_quad)(s->made.scale + channel, s->made.scale + channel + GR_PANEL, ends.scale);
  for (int64_t row = first; row < last; ++row) {
    const uint8_t *image = s->x + row / s->oh * s->h * s->w * s->c;
    int64_t y = row % s->oh * s->sh - s->top;
    for (int64_t j = 0; j < s->ow; j += wide) {
      int64_t end = gr_min(s->ow, j + wide), column = j * s->sw, until = (end - 1) * s->sw + reach;
      uint8_t *out = (uint8_t *)s->out + (row * s->ow + j) * s->c + channel;
      if (many >= 64) GR_ISA(gr_byte_quad_columns)(s, image, y, channel, column, until, fours, lanes, 1);
      else GR_ISA(gr_byte_quad_columns)(s, image, y, channel, column, until, fours, lanes, 0);
      if (s->kw == 3 && fours == 1)
        GR_ISA(gr_byte_quad_outputs)(s, lanes, weights, offset, &ends, j, end, 3, 1, out, many);
      else if (s->kw == 5 && fours == 2)
        GR_ISA(gr_byte_quad_outputs)(s, lanes, weights, offset, &ends, j, end, 5, 2, out, many);
      else
        GR_ISA(gr_byte_quad_outputs)(s, lanes, weights, offset, &ends, j, end, s->kw, fours, out, many);
    }
  }
}

/* The channels that these made: few are made faster by themselves. */
GR_ALWAYS int64_t GR_ISA(gr_byte_quads)(const gr_byte_image *s, int64_t first, int64_t last) {
  int64_t fours = gr_ceil_div(s->kh, 4), reach = (s->kw - 1) * s->dw + 1, channel = 0;
  int64_t wide = (GR_BYTE_COLUMNS / 4 / fours - reach) / s->sw + 1;
  if (s->shift || s->made.dtype == GR_F32 || s->made.dtype == GR_I32) return 0;
  if (GR_BYTE_COLUMNS / 4 / fours < reach || s->kw * fours > GR_BYTE_COLUMNS / 4) return 0;
  for (; s->c - channel > GR_PANEL; channel += 64) GR_ISA(gr_byte_quad_rows)(s, first, last, channel, wide);
  return channel;
}
#endif

/* Rows first .. last-1 of the output, counted over all images. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_byte_image_rows)(const gr_byte_image *s, int64_t first,
                                                                               int64_t last) {
  GR_VI lanes[GR_BYTE_COLUMNS * GR_BYTES_HALVES];
  int64_t fours = gr_ceil_div(s->kh, 4), reach = (s->kw - 1) * s->dw + 1;
  int64_t wide = (GR_BYTE_COLUMNS / fours - reach) / s->sw + 1; /* windows at a time */
  int64_t size = s->made.dtype == GR_F32 || s->made.dtype == GR_I32 ? 4 : 1;
  int64_t begin = 0;
#ifdef GR_ISA_FOUR
  begin = GR_ISA(gr_byte_quads)(s, first, last);
  if (begin >= s->c) return;           /* bytes: nothing is done behind a row */
#endif
  for (int64_t row = first; row < last; ++row) {
    const uint8_t *image = s->x + row / s->oh * s->h * s->w * s->c;
    uint8_t *out = (uint8_t *)s->out + row * s->ow * s->c * size;
    int64_t y = row % s->oh * s->sh - s->top;
    for (int64_t channel = begin; channel < s->c; channel += GR_ISA_LANES) {
      for (int64_t j = 0; j < s->ow; j += wide) {
        int64_t end = gr_min(s->ow, j + wide), column = j * s->sw;
        if (s->c - channel >= GR_ISA_LANES)
          GR_ISA(gr_byte_columns)(s, image, y, channel, column, (end - 1) * s->sw + reach, fours, lanes, 1);
        else
          GR_ISA(gr_byte_columns)(s, image, y, channel, column, (end - 1) * s->sw + reach, fours, lanes, 0);
        if (s->kw == 3 && fours == 1)
          GR_ISA(gr_byte_outputs)(s, lanes, channel, j, end, 3, 1, out, size);
        else if (s->kw == 5 && fours == 2)
          GR_ISA(gr_byte_outputs)(s, lanes, channel, j, end, 5, 2, out, size);
        else
          GR_ISA(gr_byte_outputs)(s, lanes, channel, j, end, s->kw, fours, out, size);
      }
    }
    if (s->after) s->after(s, row, out);
  }
}

#include "isa/end_bytes.h"
