/* softmax_isa.h: softmax_rows.h for the instruction set whose header (isa/) was included before; once for each, by
 * softmax_rows.h only. Ends with isa/end.h.
 *
 * Some rows go through each pass together: greatest, exponentials and their sums, products. What a row ends with waits
 * for all its lanes; so it is done while the next row is on its way.
 *
 * defines: GR_ISA(gr_softmax_rows), GR_ISA(gr_softmax_columns)
 */
#define GR_VECTORS (GR_SUMS / GR_ISA_LANES)
#define GR_EACH_VECTOR _Pragma("GCC unroll 4") for (int v = 0; v < GR_VECTORS; ++v)
#define GR_AT(x, v) (*(GR_V *)((x) + (v) * GR_ISA_LANES))
#define GR_READ(x, v) (*(const GR_V *)((x) + (v) * GR_ISA_LANES))

/* gr_exp_below of a vector. */
GR_ALWAYS GR_V GR_ISA(gr_exp_below)(GR_V x) {
  const GR_V round = GR_ISA_SPLAT(12582912.0f), least = GR_ISA_SPLAT(-88.0f), one = GR_ISA_SPLAT(1.0f);
  const GR_V log2e = GR_ISA_SPLAT(1.44269504f), high = GR_ISA_SPLAT(-0.693359375f), low = GR_ISA_SPLAT(2.12194440e-4f);
  const GR_V p0 = GR_ISA_SPLAT(8.290282139e-3f), p1 = GR_ISA_SPLAT(4.189815714e-2f);
  const GR_V p2 = GR_ISA_SPLAT(1.666763793e-1f), p3 = GR_ISA_SPLAT(4.999914786e-1f);
  const GR_V p4 = GR_ISA_SPLAT(9.999997064e-1f);
  GR_V clamped = GR_ISA_MAX(least, x), shifted = GR_ISA_FUSED(clamped, log2e, round), n = shifted - round;
  GR_V r = GR_ISA_FUSED(n, low, GR_ISA_FUSED(n, high, clamped)), y = GR_ISA_FUSED(p0, r, p1);
  y = GR_ISA_FUSED(y, r, p2);
  y = GR_ISA_FUSED(y, r, p3);
  y = GR_ISA_FUSED(y, r, p4);
  y = GR_ISA_FUSED(y, r, one);
  return y * (GR_V)(((GR_VI)shifted << 23) + 0x3f800000);
}

/* ---------------------------------------------------------------- rows */

/* A row's last GR_SUMS elements; of a shorter row all, behind -infinities. */
GR_ALWAYS const float *GR_ISA(gr_softmax_last)(const float *x, int64_t n, float *room) {
  if (n >= GR_SUMS) return x + n - GR_SUMS;
  for (int l = 0; l < GR_SUMS; ++l) room[l] = -INFINITY;
  for (int64_t j = 0; j < n; ++j) room[GR_SUMS - n + j] = x[j];
  return room;
}

/* Row i of what softmax is of, into out. */
GR_ALWAYS void GR_ISA(gr_softmax_scale)(const gr_softmax *s, int64_t i, int64_t n) {
  const float *x = s->x + i * s->x_row, *bias = s->bias ? s->bias + i * s->bias_row : NULL;
  float *out = s->out + i * s->out_row;
  GR_V scale = GR_ISA_SPLAT(s->scale);
  int64_t j = 0;
  if (bias && s->bias_step == 1) {
    for (; j + GR_ISA_LANES <= n; j += GR_ISA_LANES) GR_AT(out + j, 0) = GR_READ(x + j, 0) * scale + GR_READ(bias + j, 0);
  } else if (!bias) {
    for (; j + GR_ISA_LANES <= n; j += GR_ISA_LANES) GR_AT(out + j, 0) = GR_READ(x + j, 0) * scale;
  }
  for (; j < n; ++j) out[j] = bias ? x[j] * s->scale + bias[j * s->bias_step] : x[j] * s->scale;
}

/* A NaN need not be seen: it shows in the sum. */
GR_ALWAYS float GR_ISA(gr_softmax_greatest)(const float *x, int64_t n) {
  float room[GR_SUMS], lanes[GR_SUMS];
  const float *last = GR_ISA(gr_softmax_last)(x, n, room);
  GR_V top[GR_VECTORS];
  GR_EACH_VECTOR top[v] = GR_READ(last, v);
  for (int64_t j = 0; j + GR_SUMS < n; j += GR_SUMS) GR_EACH_VECTOR top[v] = GR_ISA_MAX(GR_READ(x + j, v), top[v]);
  GR_EACH_VECTOR GR_AT(lanes, v) = top[v];
  return gr_lanes_max(lanes);
}

/* Exponentials of x scale - most, of a row into out, unless it is NULL; their sum. The last GR_SUMS elements are read first, as out may be
 * x, and count as far as they are not in whole lanes, too. */
GR_ALWAYS double GR_ISA(gr_softmax_raise)(const float *x, float *out, int64_t n, float scale, float most) {
  static const int32_t counted[2 * GR_SUMS] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                               -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  float room[GR_SUMS], lanes[GR_SUMS];
  int64_t whole = (n - 1) / GR_SUMS * GR_SUMS, first = 0;
  const float *last = GR_ISA(gr_softmax_last)(x, n, room);
  const int32_t *mask = counted + GR_SUMS - (n >= GR_SUMS ? whole + GR_SUMS - n : 0);
  GR_V top = GR_ISA_SPLAT(-most), times = GR_ISA_SPLAT(scale), rest[GR_VECTORS], sums[GR_VECTORS];
  double total = 0;
  GR_EACH_VECTOR rest[v] = GR_ISA(gr_exp_below)(GR_ISA_FUSED(GR_READ(last, v), times, top));
  GR_EACH_VECTOR sums[v] = (GR_V)((GR_VI)rest[v] & *(const GR_VI *)(mask + v * GR_ISA_LANES));
  do {
    int64_t end = gr_min(whole, first + GR_SUMMED);
    for (int64_t j = first; j < end; j += GR_SUMS) {
      GR_EACH_VECTOR {
        GR_V e = GR_ISA(gr_exp_below)(GR_ISA_FUSED(GR_READ(x + j, v), times, top));
        if (out) GR_AT(out + j, v) = e;
        sums[v] += e;
      }
    }
    GR_EACH_VECTOR GR_AT(lanes, v) = sums[v];
    GR_EACH_VECTOR sums[v] = (GR_V){0};
    total += gr_lanes_sum(lanes);
    first = end;
  } while (first < whole);
  if (!out) return total;
  if (n >= GR_SUMS) {
    GR_EACH_VECTOR GR_AT(out + n - GR_SUMS, v) = rest[v];
  } else {
    GR_EACH_VECTOR GR_AT(room, v) = rest[v];
    for (int64_t j = 0; j < n; ++j) out[j] = room[GR_SUMS - n + j];
  }
  return total;
}

GR_ALWAYS void GR_ISA(gr_softmax_shrink)(float *out, int64_t n, float part) {
  GR_V all = GR_ISA_SPLAT(part), rest[GR_VECTORS];
  if (n < GR_SUMS) {
    for (int64_t j = 0; j < n; ++j) out[j] *= part;
    return;
  }
  GR_EACH_VECTOR rest[v] = GR_READ(out + n - GR_SUMS, v) * all;
  for (int64_t j = 0; j + GR_SUMS < n; j += GR_SUMS) GR_EACH_VECTOR GR_AT(out + j, v) = GR_READ(out + j, v) * all;
  GR_EACH_VECTOR GR_AT(out + n - GR_SUMS, v) = rest[v];
}

/* Rows first .. first+rows-1, at most GR_ROWS_AT_ONCE, from x, which is s->x or, scaled, s->out; what is left to scale
 * them with is above 0. */
GR_ALWAYS void GR_ISA(gr_softmax_turn)(const gr_softmax *s, const float *x, int64_t x_row, float scale, int64_t first,
                                       int64_t rows) {
  float most[GR_ROWS_AT_ONCE], *out = s->out + first * s->out_row;
  double total[GR_ROWS_AT_ONCE];
  x += first * x_row;
  for (int64_t i = 0; i < rows; ++i)
    most[i] = GR_ISA(gr_softmax_greatest)(x + i * x_row, gr_softmax_seen(s, first + i)) * scale;
  if (s->logs) {
    for (int64_t i = 0; i < rows; ++i) total[i] = GR_ISA(gr_softmax_raise)(x + i * x_row, NULL, s->n, 1, most[i]);
    for (int64_t i = 0; i < rows; ++i) {
      float logarithm = (float)log(total[i]);
      GR_INDEPENDENT
      for (int64_t j = 0; j < s->n; ++j) out[i * s->out_row + j] = x[i * x_row + j] - most[i] - logarithm;
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    total[i] = GR_ISA(gr_softmax_raise)(x + i * x_row, out + i * s->out_row, gr_softmax_seen(s, first + i), scale,
                                        most[i]);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t seen = gr_softmax_seen(s, first + i);
    GR_ISA(gr_softmax_shrink)(out + i * s->out_row, seen, (float)(1 / total[i])); /* a product, not a quotient */
    for (int64_t j = seen; j < s->n; ++j) out[i * s->out_row + j] = 0;
  }
}

static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_softmax_rows)(const gr_softmax *s) {
  int64_t turn = gr_max(1, gr_min(GR_ROWS_AT_ONCE, GR_ROWS_FLOATS / s->n));
  int scaled = s->bias || !(s->scale > 0 && s->scale < INFINITY);
  for (int64_t first = 0; first < s->rows; first += turn) {
    int64_t rows = gr_min(turn, s->rows - first);
    for (int64_t i = first; scaled && i < first + rows; ++i) GR_ISA(gr_softmax_scale)(s, i, gr_softmax_seen(s, i));
    if (scaled)
      GR_ISA(gr_softmax_turn)(s, s->out, s->out_row, 1, first, rows);
    else
      GR_ISA(gr_softmax_turn)(s, s->x, s->x_row, s->scale, first, rows);
  }
}

/* ---------------------------------------------------------------- columns */

/* Result of a pass for a vector of elements, whose columns have these tops and sums. */
GR_ALWAYS GR_V GR_ISA(gr_softmax_step)(GR_V x, float *top, float *sums, int pass) {
  GR_V t = GR_READ(top, 0), s = GR_READ(sums, 0);
  if (pass == GR_LINE_GREATEST) return GR_AT(top, 0) = GR_ISA_MAX(x, t);
  if (pass == GR_LINE_SHRINK) return x * s;
  if (pass == GR_LINE_LOGS) return x - t - s;
  GR_V e = GR_ISA(gr_exp_below)(x - t);
  GR_AT(sums, 0) = s + e;
  return e;
}

/* A line of n elements. What fills no vector goes by way of one whose other lanes have no share in their columns; top
 * and sums have a whole one there. */
GR_ALWAYS void GR_ISA(gr_softmax_line)(const float *x, float *out, int64_t n, float *top, float *sums, int pass) {
  float room[GR_ISA_LANES];
  int64_t j = 0;
  for (; j + GR_ISA_LANES <= n; j += GR_ISA_LANES) {
    GR_V made = GR_ISA(gr_softmax_step)(GR_READ(x + j, 0), top + j, sums + j, pass);
    if (out) GR_AT(out + j, 0) = made;
  }
  if (j == n) return;
  for (int64_t l = 0; l < GR_ISA_LANES; ++l) room[l] = l < n - j ? x[j + l] : -INFINITY;
  GR_AT(room, 0) = GR_ISA(gr_softmax_step)(GR_READ(room, 0), top + j, sums + j, pass);
  for (int64_t l = 0; out && l < n - j; ++l) out[j + l] = room[l];
}

GR_ALWAYS void GR_ISA(gr_softmax_lines)(const gr_lines *c, const float *x, float *out, int64_t first, int64_t last,
                                        float *top, float *sums, int pass) {
  for (int64_t i = first; i < last; ++i)
    GR_ISA(gr_softmax_line)(x + i * c->step, out ? out + i * c->step : NULL, i < c->lines ? c->width : c->rest, top,
                            sums, pass);
}

/* Down `width` columns, at most GR_FEW_COLUMNS, of n rows that are `stride` elements apart. Few columns beside nothing
 * else are walked GR_SUMS rows at a time: of such a line element p is always of column p % width. */
static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_softmax_columns)(const float *x, float *out, int64_t n,
                                                                               int64_t stride, int64_t width, int logs) {
  float top[GR_SUMS * GR_FEW_COLUMNS + GR_SUMS], sums[GR_SUMS * GR_FEW_COLUMNS + GR_SUMS];
  double total[GR_FEW_COLUMNS] = {0};
  int64_t folds = stride == width && width < GR_FEW_COLUMNS ? gr_min(GR_SUMS, n) : 1;
  gr_lines c = {n / folds, stride * folds, width * folds, n % folds * width};
  int64_t all = c.lines + (c.rest > 0), part = GR_SUMMED / GR_SUMS; /* lines that are summed in float */
  for (int64_t p = 0; p < c.width + GR_SUMS; ++p) top[p] = -INFINITY, sums[p] = 0;
  GR_ISA(gr_softmax_lines)(&c, x, NULL, 0, all, top, sums, GR_LINE_GREATEST);
  for (int64_t f = width; f < c.width; f += width)
    for (int64_t p = 0; p < width; ++p) top[p] = top[f + p] > top[p] ? top[f + p] : top[p];
  for (int64_t f = width; f < c.width; f += width) memcpy(top + f, top, (size_t)width * sizeof(float));
  for (int64_t first = 0; first < all; first += part) {
    for (int64_t p = 0; p < c.width + GR_SUMS; ++p) sums[p] = 0;
    GR_ISA(gr_softmax_lines)(&c, x, logs ? NULL : out, first, gr_min(all, first + part), top, sums, GR_LINE_RAISE);
    for (int64_t f = 0; f < c.width; f += width)
      for (int64_t p = 0; p < width; ++p) total[p] += sums[f + p];
  }
  for (int64_t p = 0; p < width; ++p) sums[p] = (float)(logs ? log(total[p]) : 1 / total[p]);
  for (int64_t f = width; f < c.width; f += width) memcpy(sums + f, sums, (size_t)width * sizeof(float));
  if (logs)
    GR_ISA(gr_softmax_lines)(&c, x, out, 0, all, top, sums, GR_LINE_LOGS);
  else
    GR_ISA(gr_softmax_lines)(&c, out, out, 0, all, top, sums, GR_LINE_SHRINK);
}
#undef GR_VECTORS
#undef GR_EACH_VECTOR
#undef GR_AT
#undef GR_READ
#include "isa/end.h"
