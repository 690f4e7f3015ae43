/* suppress.h: boxes by falling score, without those that overlap a chosen one. Template over float.
 *
 * Attribute words and outputs: graph_runtime/ir/ops/counted.py. Scores and areas are compared as ONNX Runtime
 * does, in float: a box of no area overlaps nothing, of equal scores the lower index comes first.
 *
 * defines: gr_cpu_non_max_suppression__f32
 */

typedef struct GR_FN(corners) {
  GR_T y1, x1, y2, x2;
} GR_FN(corners);

GR_INLINE GR_FN(corners) GR_FN(corners_of)(const GR_T *box, int64_t centered) {
  if (centered) {
    GR_T w = box[2] / 2, h = box[3] / 2;
    return (GR_FN(corners)){box[1] - h, box[0] - w, box[1] + h, box[0] + w};
  }
  return (GR_FN(corners)){box[0] < box[2] ? box[0] : box[2], box[1] < box[3] ? box[1] : box[3],
                          box[0] < box[2] ? box[2] : box[0], box[1] < box[3] ? box[3] : box[1]};
}

GR_INLINE int GR_FN(overlaps)(GR_FN(corners) a, GR_FN(corners) b, GR_T threshold) {
  GR_T y1 = a.y1 > b.y1 ? a.y1 : b.y1, y2 = a.y2 < b.y2 ? a.y2 : b.y2;
  GR_T x1 = a.x1 > b.x1 ? a.x1 : b.x1, x2 = a.x2 < b.x2 ? a.x2 : b.x2;
  GR_T h = y2 > y1 ? y2 - y1 : 0, w = x2 > x1 ? x2 - x1 : 0;
  GR_T both = h * w, first = (a.y2 - a.y1) * (a.x2 - a.x1), second = (b.y2 - b.y1) * (b.x2 - b.x1);
  GR_T all = first + second - both;
  if (!(first > 0 && second > 0 && all > 0)) return (GR_T)0 > threshold;
  return both / all > threshold;
}

GR_INLINE int GR_FN(score_before)(const GR_T *scores, int64_t i, int64_t j) {
  return scores[i] != scores[j] ? scores[i] > scores[j] : i < j;
}

/* The best one comes last in a heap sort that puts what is after the others at the root. */
GR_INLINE void GR_FN(score_sift)(const GR_T *scores, int64_t *heap, int64_t root, int64_t n) {
  int64_t moved = heap[root];
  for (int64_t child; (child = 2 * root + 1) < n; root = child) {
    if (child + 1 < n && GR_FN(score_before)(scores, heap[child], heap[child + 1])) child++;
    if (!GR_FN(score_before)(scores, moved, heap[child])) break;
    heap[root] = heap[child];
  }
  heap[root] = moved;
}

/* The boxes whose score is above the threshold, best first; returns how many there are. */
GR_INLINE int64_t GR_FN(candidates)(const gr_call *call, const GR_T *scores, int64_t n, int64_t *order) {
  int64_t count = 0;
  GR_T threshold = (GR_T)gr_word(call->attrs[2]);
  for (int64_t i = 0; i < n; i++)
    if (call->attrs[3] ? scores[i] > threshold : !GR_IS_NAN(scores[i])) order[count++] = i;
  for (int64_t root = count / 2 - 1; root >= 0; root--) GR_FN(score_sift)(scores, order, root, count);
  for (int64_t last = count - 1; last > 0; last--) {
    int64_t worst = order[0];
    order[0] = order[last];
    order[last] = worst;
    GR_FN(score_sift)(scores, order, 0, last);
  }
  return count;
}

/* gr-kernel: cpu/non_max_suppression : f32 */
static inline int32_t GR_BODY(non_max_suppression)(const gr_call *call) {
  const gr_arg *scores = &call->args[1], *out = &call->args[2];
  int64_t classes = scores->shape[1], n = scores->shape[2], groups = scores->shape[0] * classes;
  int64_t most = groups ? out->shape[0] / groups : 0, found = 0;
  int64_t *chosen = (int64_t *)gr_ptr(out), *order = (int64_t *)gr_ptr(&call->args[3]);
  GR_T threshold = (GR_T)gr_word(call->attrs[1]);
  for (int64_t g = 0; g < groups; g++) {
    const GR_T *boxes = (const GR_T *)gr_ptr(&call->args[0]) + g / classes * n * 4;
    int64_t first = found, count = GR_FN(candidates)(call, (const GR_T *)gr_ptr(scores) + g * n, n, order);
    for (int64_t k = 0; k < count && found - first < most; k++) {
      GR_FN(corners) box = GR_FN(corners_of)(boxes + 4 * order[k], call->attrs[0]);
      int clear = 1;
      for (int64_t j = first; j < found && clear; j++)
        clear = !GR_FN(overlaps)(box, GR_FN(corners_of)(boxes + 4 * chosen[3 * j + 2], call->attrs[0]), threshold);
      if (!clear) continue;
      chosen[3 * found] = g / classes;
      chosen[3 * found + 1] = g % classes;
      chosen[3 * found++ + 2] = order[k];
    }
  }
  memset(chosen + 3 * found, 0, (size_t)(groups * most - found) * 3 * sizeof *chosen);
  memset(order, 0, (size_t)(groups * n) * sizeof *order);
  *(int64_t *)gr_ptr(&call->args[4]) = found;
  return GR_OK;
}
