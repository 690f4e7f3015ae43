/* norm_isa.h: norm_rows.h for the instruction set whose header (isa/) was included before; once for each, by
 * norm_rows.h only. Ends with isa/end.h.
 *
 * Some rows go through each pass together: a row's sums wait for all its lanes, while the next row is on its way.
 *
 * defines: GR_ISA(gr_norm_rows)
 */
#define GR_VECTORS (GR_NORM_LANES / GR_ISA_LANES)
#define GR_EACH_VECTOR _Pragma("GCC unroll 8") for (int v = 0; v < GR_VECTORS; ++v)
#define GR_AT(x, v) (*(GR_V *)((x) + (v) * GR_ISA_LANES))
#define GR_READ(x, v) (*(const GR_V *)((x) + (v) * GR_ISA_LANES))

GR_ALWAYS double GR_ISA(gr_norm_total)(const GR_V *sums) {
  float lanes[GR_SUMS];
  _Pragma("GCC unroll 4") for (int v = 0; v < GR_VECTORS / 2; ++v) GR_AT(lanes, v) = sums[v] + sums[v + GR_VECTORS / 2];
  return gr_lanes_sum(lanes);
}

/* The sums of x - centre and of its square over n elements. What fills no lanes is followed by `centre`, which adds
 * nothing. */
GR_ALWAYS void GR_ISA(gr_norm_sums)(const float *x, int64_t n, float centre, double *sum, double *squares) {
  float room[GR_NORM_LANES];
  GR_V middle = GR_ISA_SPLAT(centre);
  *sum = *squares = 0;
  for (int64_t first = 0; first < n; first += GR_NORM_SUMMED) {
    int64_t end = gr_min(n, first + GR_NORM_SUMMED), j = first;
    GR_V s[GR_VECTORS] = {{0}}, q[GR_VECTORS] = {{0}};
    for (; j + GR_NORM_LANES <= end; j += GR_NORM_LANES) {
      GR_EACH_VECTOR {
        GR_V e = GR_READ(x + j, v) - middle;
        s[v] += e;
        q[v] = GR_ISA_FUSED(e, e, q[v]);
      }
    }
    if (j < end) {
      for (int64_t l = 0; l < GR_NORM_LANES; ++l) room[l] = l < end - j ? x[j + l] : centre;
      GR_EACH_VECTOR {
        GR_V e = GR_READ(room, v) - middle;
        s[v] += e;
        q[v] = GR_ISA_FUSED(e, e, q[v]);
      }
    }
    *sum += GR_ISA(gr_norm_total)(s);
    *squares += GR_ISA(gr_norm_total)(q);
  }
}

/* The mean, about. */
GR_ALWAYS float GR_ISA(gr_norm_centre)(const float *x, int64_t n) {
  double total = 0;
  for (int64_t first = 0; first < n; first += GR_NORM_SUMMED) {
    int64_t end = gr_min(n, first + GR_NORM_SUMMED), j = first;
    GR_V s[GR_VECTORS] = {{0}};
    for (; j + GR_NORM_LANES <= end; j += GR_NORM_LANES) GR_EACH_VECTOR s[v] += GR_READ(x + j, v);
    total += GR_ISA(gr_norm_total)(s);
    for (; j < end; ++j) total += (double)x[j];
  }
  return (float)(total / (double)n);
}

/* ((x - centre) factor + shift) scale + bias of a row; without a bias (x factor) scale. */
GR_ALWAYS void GR_ISA(gr_norm_write)(const gr_norm *p, int64_t row, float centre, float factor, float shift) {
  const float *x = p->x + row * p->n, *scale = p->scale, *bias = p->bias;
  float *out = p->out + row * p->n, room[3][GR_ISA_LANES] = {{0}};
  GR_V middle = GR_ISA_SPLAT(centre), all = GR_ISA_SPLAT(factor), more = GR_ISA_SPLAT(shift);
  int64_t j = 0, rest = p->n % GR_ISA_LANES, whole = p->n - rest;
  for (; bias && j < whole; j += GR_ISA_LANES)
    GR_AT(out + j, 0) = GR_ISA_FUSED(GR_ISA_FUSED(GR_READ(x + j, 0) - middle, all, more), GR_READ(scale + j, 0),
                                     GR_READ(bias + j, 0));
  for (; j < whole; j += GR_ISA_LANES) GR_AT(out + j, 0) = GR_READ(x + j, 0) * all * GR_READ(scale + j, 0);
  if (!rest) return;
  memcpy(room[0], x + j, (size_t)rest * sizeof(float));
  memcpy(room[1], scale + j, (size_t)rest * sizeof(float));
  if (bias) memcpy(room[2], bias + j, (size_t)rest * sizeof(float));
  if (bias)
    GR_AT(room[0], 0) = GR_ISA_FUSED(GR_ISA_FUSED(GR_READ(room[0], 0) - middle, all, more), GR_READ(room[1], 0),
                                     GR_READ(room[2], 0));
  else
    GR_AT(room[0], 0) = GR_READ(room[0], 0) * all * GR_READ(room[1], 0);
  memcpy(out + j, room[0], (size_t)rest * sizeof(float));
}

/* Rows first .. first+rows-1, at most GR_NORM_TURN. */
GR_ALWAYS void GR_ISA(gr_norm_turn)(const gr_norm *p, int64_t first, int64_t rows) {
  float centre[GR_NORM_TURN];
  double sum[GR_NORM_TURN], squares[GR_NORM_TURN], part = 1 / (double)p->n;
  const float *x = p->x + first * p->n;
  for (int64_t i = 0; i < rows; ++i) centre[i] = p->bias ? GR_ISA(gr_norm_centre)(x + i * p->n, p->n) : 0;
  for (int64_t i = 0; i < rows; ++i) GR_ISA(gr_norm_sums)(x + i * p->n, p->n, centre[i], &sum[i], &squares[i]);
  for (int64_t i = 0; i < rows; ++i) {
    double off = p->bias ? sum[i] * part : 0, power = gr_max_of(0, squares[i] * part - off * off) + p->epsilon;
    if (!(squares[i] < GR_NORM_MOST && power > GR_NORM_LEAST)) {
      p->wide(p, first + i);
      continue;
    }
    double factor = 1 / sqrt(power);
    GR_ISA(gr_norm_write)(p, first + i, centre[i], (float)factor, (float)(-off * factor));
  }
}

static __attribute__((noinline)) GR_ISA_TARGET void GR_ISA(gr_norm_rows)(const gr_norm *p, int64_t first,
                                                                          int64_t last) {
  int64_t turn = gr_max(1, gr_min(GR_NORM_TURN, GR_NORM_FLOATS / p->n));
  for (int64_t row = first; row < last; row += turn) GR_ISA(gr_norm_turn)(p, row, gr_min(turn, last - row));
}
#undef GR_VECTORS
#undef GR_EACH_VECTOR
#undef GR_AT
#undef GR_READ
#include "isa/end.h"
