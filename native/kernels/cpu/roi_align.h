/* roi_align.h: the mean or the greatest of samples of an image in each cell of boxes. Template over floats.
 *
 * Arguments, attribute words and rules: ir/ops/spatial/roi_align.py.
 *
 * defines: gr_cpu_roi_align__<suffix>
 */
#include "cpu/indices.h"

/* Samples along one axis: cells of a box, `count` samples in each. */
typedef struct GR_FN(roi_axis) {
  double start, cell;
  int64_t count, size;
} GR_FN(roi_axis);

typedef struct GR_FN(roi_point) {
  int64_t low, high;
  double above; /* weight of `high` */
} GR_FN(roi_point);

GR_INLINE GR_FN(roi_axis) GR_FN(roi_axis_of)(const gr_call *call, double from, double to, int64_t cells, int64_t size) {
  double scale = gr_word(call->attrs[2]), offset = call->attrs[3] ? 0.5 : 0.0;
  double start = from * scale - offset, side = to * scale - offset - start;
  if (!call->attrs[3] && side < 1) side = 1;
  double cell = side / (double)cells, pixels = ceil(cell);
  int64_t most = 8 * size + 8; /* of a box far larger than the image the samples get no denser */
  int64_t count = call->attrs[1] ? call->attrs[1] : !(pixels > 0) ? 0 : pixels > (double)most ? most : (int64_t)pixels;
  return (GR_FN(roi_axis)){start, cell, count, size};
}

/* Sample i of a cell; 0: it lies outside. */
GR_INLINE int GR_FN(roi_sample)(const GR_FN(roi_axis) *a, int64_t cell, int64_t i, GR_FN(roi_point) *point) {
  double at = a->start + (double)cell * a->cell + ((double)i + 0.5) * a->cell / (double)a->count;
  if (!(at >= -1.0 && at <= (double)a->size)) return 0;
  if (at < 0) at = 0;
  int64_t low = gr_min((int64_t)at, a->size - 1);
  *point = (GR_FN(roi_point)){low, gr_min(low + 1, a->size - 1), low < a->size - 1 ? at - (double)low : 0};
  return 1;
}

GR_INLINE GR_T GR_FN(roi_cell)(const gr_call *call, const GR_T *plane, const GR_FN(roi_axis) *down,
                               const GR_FN(roi_axis) *across, int64_t p, int64_t q) {
  double sum = 0, most = -INFINITY;
  GR_FN(roi_point) v, u;
  for (int64_t i = 0; i < down->count; i++) {
    for (int64_t j = 0; j < across->count; j++) {
      double parts[4] = {0};
      if (GR_FN(roi_sample)(down, p, i, &v) && GR_FN(roi_sample)(across, q, j, &u)) {
        const GR_T *upper = plane + v.low * across->size, *lower = plane + v.high * across->size;
        parts[0] = (1 - v.above) * (1 - u.above) * (double)GR_LOAD(upper[u.low]);
        parts[1] = (1 - v.above) * u.above * (double)GR_LOAD(upper[u.high]);
        parts[2] = v.above * (1 - u.above) * (double)GR_LOAD(lower[u.low]);
        parts[3] = v.above * u.above * (double)GR_LOAD(lower[u.high]);
      }
      for (int k = 0; k < 4; k++) {
        sum += parts[k];
        most = parts[k] > most ? parts[k] : most;
      }
    }
  }
  int64_t count = down->count * across->count;
  return GR_STORE((GR_C)(!count ? 0 : call->attrs[0] ? most : sum / (double)count));
}

/* The image of a box; -1 for an index that is out of range. */
GR_INLINE int64_t GR_FN(roi_image)(const gr_call *call, int64_t k) {
  return gr_index(&call->args[2], k, call->args[0].shape[0]);
}

/* A task is one channel of one box. */
static int32_t GR_FN(roi_run)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = (const gr_call *)ctx;
  const gr_arg *x = &call->args[0], *out = &call->args[3];
  int64_t channels = x->shape[1], height = x->shape[2], width = x->shape[3], rows = out->shape[2],
          columns = out->shape[3];
  for (int64_t task = first; task < last; task++) {
    int64_t k = task / channels, c = task % channels;
    const GR_T *box = (const GR_T *)gr_ptr(&call->args[1]) + 4 * k;
    GR_FN(roi_axis) down = GR_FN(roi_axis_of)(call, GR_LOAD(box[1]), GR_LOAD(box[3]), rows, height),
                    across = GR_FN(roi_axis_of)(call, GR_LOAD(box[0]), GR_LOAD(box[2]), columns, width);
    int64_t image = gr_max(0, GR_FN(roi_image)(call, k)); /* below 0: changed by another thread */
    const GR_T *plane = (const GR_T *)gr_ptr(x) + (image * channels + c) * height * width;
    GR_T *to = (GR_T *)gr_ptr(out) + task * rows * columns;
    for (int64_t p = 0; p < rows; p++)
      for (int64_t q = 0; q < columns; q++)
        to[p * columns + q] = GR_FN(roi_cell)(call, plane, &down, &across, p, q);
  }
  return GR_OK;
}

/* gr-kernel: cpu/roi_align : f32 f64 f16 bf16 */
static inline int32_t GR_BODY(roi_align)(const gr_call *call) {
  const gr_arg *images = &call->args[2], *out = &call->args[3];
  for (int64_t k = 0; k < images->shape[0]; k++) {
    if (GR_FN(roi_image)(call, k) < 0) return gr_refuse(call, "roi_align: an index of an image is out of range");
  }
  if (!gr_size(out)) return GR_OK;
  gr_call copy = *call;
  return gr_parallel(call->env, out->shape[0] * out->shape[1], gr_ceil_div(GR_GRAIN, 64 * out->shape[2] * out->shape[3]),
                     GR_FN(roi_run), &copy);
}
