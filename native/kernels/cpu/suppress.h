/* suppress.h: boxes by falling score, without those that overlap a chosen one. Template over float.
 *
 * Attribute words and outputs: ir/ops/counted.py. Scores and areas are compared as ONNX Runtime
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

/* Corners and areas of the boxes of a group that were chosen, `most` of each. */
typedef struct GR_FN(chosen) {
  GR_T *y1, *x1, *y2, *x2, *area;
  int64_t count;
} GR_FN(chosen);

enum { GR_FN(compared) = 16 }; /* chosen boxes that a box is compared with before it is looked whether one overlaps */

/* Whether a box has more than a share of its area in common with one of those chosen. */
GR_INLINE int GR_FN(overlaps)(const GR_FN(chosen) *c, GR_FN(corners) a, GR_T threshold) {
  GR_T area = (a.y2 - a.y1) * (a.x2 - a.x1);
  for (int64_t first = 0; first < c->count; first += GR_FN(compared)) {
    int64_t last = gr_min(first + GR_FN(compared), c->count);
    int more = 0;
    for (int64_t j = first; j < last; j++) {
      GR_T y1 = a.y1 > c->y1[j] ? a.y1 : c->y1[j], y2 = a.y2 < c->y2[j] ? a.y2 : c->y2[j];
      GR_T x1 = a.x1 > c->x1[j] ? a.x1 : c->x1[j], x2 = a.x2 < c->x2[j] ? a.x2 : c->x2[j];
      GR_T h = y2 > y1 ? y2 - y1 : 0, w = x2 > x1 ? x2 - x1 : 0;
      GR_T both = h * w, all = area + c->area[j] - both;
      int real = (area > 0) & (c->area[j] > 0) & (all > 0);
      more |= (real ? both : 0) / (real ? all : 1) > threshold;
    }
    if (more) return 1;
  }
  return 0;
}

GR_INLINE int GR_FN(score_before)(const GR_T *scores, int64_t i, int64_t j) {
  return scores[i] != scores[j] ? scores[i] > scores[j] : i < j;
}

/* A heap with the best box at its root: from `root` down it is one again. */
GR_INLINE void GR_FN(score_sift)(const GR_T *scores, int64_t *heap, int64_t root, int64_t n) {
  int64_t moved = heap[root];
  for (int64_t child; (child = 2 * root + 1) < n; root = child) {
    if (child + 1 < n && GR_FN(score_before)(scores, heap[child + 1], heap[child])) child++;
    if (!GR_FN(score_before)(scores, heap[child], moved)) break;
    heap[root] = heap[child];
  }
  heap[root] = moved;
}

/* A heap of the boxes whose score is above the threshold; returns how many there are. */
GR_INLINE int64_t GR_FN(candidates)(const gr_call *call, const GR_T *scores, int64_t n, int64_t *heap) {
  int64_t count = 0;
  GR_T threshold = (GR_T)gr_word(call->attrs[2]);
  for (int64_t i = 0; i < n; i++)
    if (call->attrs[3] ? scores[i] > threshold : !GR_IS_NAN(scores[i])) heap[count++] = i;
  for (int64_t root = count / 2 - 1; root >= 0; root--) GR_FN(score_sift)(scores, heap, root, count);
  return count;
}

GR_INLINE int64_t GR_FN(best)(const GR_T *scores, int64_t *heap, int64_t *count) {
  int64_t best = heap[0];
  heap[0] = heap[--*count];
  if (*count) GR_FN(score_sift)(scores, heap, 0, *count);
  return best;
}

/* Room of a group: 4 numbers of 8 bytes a box, first a heap, then the corners and areas of the chosen ones. */
static int32_t GR_FN(suppress_groups)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = (const gr_call *)ctx;
  const gr_arg *scores = &call->args[1], *out = &call->args[2];
  int64_t classes = scores->shape[1], n = scores->shape[2], most = out->shape[0] / (scores->shape[0] * classes);
  GR_T threshold = (GR_T)gr_word(call->attrs[1]);
  for (int64_t g = first; g < last; g++) {
    const GR_T *boxes = (const GR_T *)gr_ptr(&call->args[0]) + g / classes * n * 4;
    const GR_T *score = (const GR_T *)gr_ptr(scores) + g * n;
    int64_t *heap = (int64_t *)gr_ptr(&call->args[3]) + g * 4 * n, *to = (int64_t *)gr_ptr(out) + 3 * g * most;
    GR_T *room = (GR_T *)(heap + n);
    GR_FN(chosen) c = {room, room + n, room + 2 * n, room + 3 * n, room + 4 * n, 0};
    int64_t count = GR_FN(candidates)(call, score, n, heap);
    while (count && c.count < most) {
      int64_t index = GR_FN(best)(score, heap, &count);
      GR_FN(corners) box = GR_FN(corners_of)(boxes + 4 * index, call->attrs[0]);
      if (GR_FN(overlaps)(&c, box, threshold)) continue;
      int64_t at = c.count++;
      c.y1[at] = box.y1, c.x1[at] = box.x1, c.y2[at] = box.y2, c.x2[at] = box.x2;
      c.area[at] = (box.y2 - box.y1) * (box.x2 - box.x1);
      to[3 * at] = g / classes, to[3 * at + 1] = g % classes, to[3 * at + 2] = index;
    }
    for (int64_t k = 3 * c.count; k < 3 * most; k++) to[k] = -1;
  }
  return GR_OK;
}

/* gr-kernel: cpu/non_max_suppression : f32 */
static inline int32_t GR_BODY(non_max_suppression)(const gr_call *call) {
  const gr_arg *room = &call->args[3], *out = &call->args[2];
  int64_t groups = room->shape[0] * room->shape[1], found = 0, *chosen = (int64_t *)gr_ptr(out);
  gr_call copy = *call;
  int32_t status = out->shape[0] ? gr_parallel(call->env, groups, 1, GR_FN(suppress_groups), &copy) : GR_OK;
  if (status) return status;
  for (int64_t k = 0; k < out->shape[0]; k++) {
    if (chosen[3 * k] < 0) continue;
    memmove(chosen + 3 * found++, chosen + 3 * k, 3 * sizeof *chosen);
  }
  memset(chosen + 3 * found, 0, (size_t)(out->shape[0] - found) * 3 * sizeof *chosen);
  memset(gr_ptr(room), 0, (size_t)gr_size(room) * sizeof(int64_t));
  *(int64_t *)gr_ptr(&call->args[4]) = found;
  return GR_OK;
}
