/* byte_images_isa.h: byte_images.h for one instruction set; included once for each, and by byte_images.h only.
 *
 * defines: GR_ISA(gr_byte_image_rows)
 */

/* Channels channel .. of a pixel as bytes of lanes, ``count`` of them; turned where they are signed. */
GR_ALWAYS GR_VI GR_ISA(gr_byte_pixel)(const uint8_t *from, int64_t count, uint8_t flip) {
  GR_BYTES made = {0};
  if (count >= GR_ISA_LANES) made = *(const GR_BYTES *)from;
  else memcpy(&made, from, (size_t)count);
  made ^= flip;
  return __builtin_convertvector(made, GR_VI);
}

/* Columns first .. last-1 of the padded image under a row of windows, which begins at row y: the taps of each, in fours,
 * to lanes[(column - first) * fours + four]. */
GR_ALWAYS void GR_ISA(gr_byte_columns)(const gr_byte_image *s, const uint8_t *image, int64_t y, int64_t channel,
                                       int64_t first, int64_t last, int64_t fours, GR_VI *lanes) {
  int64_t count = s->c - channel;
  for (int64_t column = first; column < last; ++column) {
    int64_t x = column - s->left;
    int inside = x >= 0 && x < s->w;
    for (int64_t four = 0; four < fours; ++four) {
      GR_VI taps = {0};
      for (int64_t t = 0; t < 4 && 4 * four + t < s->kh; ++t) {
        int64_t row = y + (4 * four + t) * s->dh;
        GR_VI one = {0};
        if (inside && row >= 0 && row < s->h)
          one = GR_ISA(gr_byte_pixel)(image + (row * s->w + x) * s->c + channel, count, s->flip);
        else
          one += s->zero;
        taps |= (GR_VI)((GR_ISA(gr_bytes_words))one << (uint32_t)(8 * t));
      }
      *lanes++ = taps;
    }
  }
}

/* Output columns first .. last-1 of a row, of lanes that begin at the first one's column. */
GR_ALWAYS void GR_ISA(gr_byte_outputs)(const gr_byte_image *s, const GR_VI *lanes, int64_t channel, int64_t first,
                                       int64_t last, int64_t kw, int64_t fours, uint8_t *out, int64_t size) {
  const uint8_t *weights = s->weights + channel / GR_BYTES_PANEL * gr_bytes_panel(4 * kw * fours) +
                           channel % GR_BYTES_PANEL * 4;
  const gr_requant *made = &s->made;
  GR_V scale = *(const GR_V *)(made->scale + channel), least = GR_ISA_SPLAT(made->least);
  GR_V most = GR_ISA_SPLAT(made->most);
  GR_VI offset = *(const GR_VI *)(made->offset + channel), ones = {0};
  int64_t count = s->c - channel;
  ones += 0x01010101;
  for (int64_t j = first; j < last; ++j) {
    GR_VI sum = offset, whole = {0};
    const GR_VI *from = lanes + (j - first) * s->sw * fours;
    for (int64_t q = 0; q < kw; ++q) {
      for (int64_t four = 0; four < fours; ++four) {
        GR_VI taps = from[q * s->dw * fours + four];
        sum = GR_BYTES_DOT(taps, *(const GR_VI *)(weights + (q * fours + four) * 4 * GR_BYTES_PANEL), sum);
        if (s->shift) whole = GR_BYTES_DOT(taps, ones, whole);
      }
    }
    if (s->shift)
      sum = (GR_VI)((GR_ISA(gr_bytes_words))sum -
                    *(const GR_ISA(gr_bytes_words) *)(s->shift + channel) * (GR_ISA(gr_bytes_words))whole);
    uint8_t *to = out + (j * s->c + channel) * size;
    if (size == 1) GR_ISA(gr_bytes_out)(sum, scale, least, most, made->zero, count, to);
    else GR_ISA(gr_bytes_words_out)(made, sum, channel, count, to);
  }
}

/* Rows first .. last-1 of the output, counted over all images. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_byte_image_rows)(const gr_byte_image *s, int64_t first,
                                                                               int64_t last) {
  GR_VI lanes[GR_BYTE_COLUMNS];
  int64_t fours = gr_ceil_div(s->kh, 4), reach = (s->kw - 1) * s->dw + 1;
  int64_t wide = (GR_BYTE_COLUMNS / fours - reach) / s->sw + 1; /* windows at a time */
  int64_t size = s->made.dtype == GR_F32 || s->made.dtype == GR_I32 ? 4 : 1;
  for (int64_t row = first; row < last; ++row) {
    const uint8_t *image = s->x + row / s->oh * s->h * s->w * s->c;
    uint8_t *out = (uint8_t *)s->out + row * s->ow * s->c * size;
    int64_t y = row % s->oh * s->sh - s->top;
    for (int64_t channel = 0; channel < s->c; channel += GR_ISA_LANES) {
      for (int64_t j = 0; j < s->ow; j += wide) {
        int64_t end = gr_min(s->ow, j + wide), column = j * s->sw;
        GR_ISA(gr_byte_columns)(s, image, y, channel, column, (end - 1) * s->sw + reach, fours, lanes);
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
