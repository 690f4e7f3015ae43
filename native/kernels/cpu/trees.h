/* trees.h: what the leaves of decision trees that each row reaches give. Template over f32 and f64.
 *
 * Arguments, attribute words and rules: ir/ops/trees.py.
 *
 * A walk waits for memory at each node, so several go at once: rows of one tree, and where rows are few, trees
 * of one row. A tree serves a block of rows before the next one is read. Whatever the block, a row's weights
 * are added in the order of the trees.
 *
 * defines: gr_cpu_trees__<suffix>
 */
#ifndef GR_CPU_TREES_H
#define GR_CPU_TREES_H

#define GR_WALKS 8        /* that go at once */
#define GR_TREE_ROWS 256  /* rows of a block: what they read of x stays near while trees pass */
enum gr_tree_word { GR_TREE_DEPTH, GR_TREE_COMPARISON, GR_TREE_MISSING, GR_TREE_AGGREGATE };
enum gr_tree_fold { GR_TREE_SUM, GR_TREE_MEAN, GR_TREE_MIN, GR_TREE_MAX };
enum gr_tree_comparison { GR_TREE_LE, GR_TREE_LT, GR_TREE_EACH = 6 };

/* An index that is out of range counts as 0. */
GR_INLINE int32_t gr_tree_index(int32_t index, int64_t count) { return (uint32_t)index < (uint64_t)count ? index : 0; }

#endif

/* Whether a node's comparison holds. `how` is the comparison of all nodes, and known where this is compiled. */
GR_INLINE int GR_FN(tree_holds)(GR_T seen, GR_T split, int32_t own, int how, int missing) {
  int yes;
  if (how == GR_TREE_LE) {
    yes = seen <= split;
  } else if (how == GR_TREE_LT) {
    yes = seen < split;
  } else {
    int all = (seen <= split) | (seen < split) << 1 | (seen >= split) << 2 | (seen > split) << 3 |
              (seen == split) << 4 | (seen != split) << 5;
    yes = all >> (how == GR_TREE_EACH ? own & 7 : how) & 1;
  }
  return missing ? yes | (GR_IS_NAN(seen) & own >> 3 & 1) : yes;
}

/* Go down from the nodes `at`, which are in range, each for a row of its own. */
GR_INLINE void GR_FN(tree_walk)(const gr_call *call, const GR_T *const *rows, int32_t *at, int how, int missing) {
  const GR_T *splits = gr_ptr(&call->args[1]);
  const int32_t *links = gr_ptr(&call->args[2]);
  int64_t features = call->args[0].shape[1], nodes = call->args[1].shape[0];
  for (int64_t depth = call->attrs[GR_TREE_DEPTH]; depth > 0; depth--) {
    int32_t moved = 0;
    for (int k = 0; k < GR_WALKS; k++) {
      const int32_t *link = links + 4 * (int64_t)at[k];
      GR_T seen = rows[k][gr_tree_index(link[0], features)];
      int yes = GR_FN(tree_holds)(seen, splits[at[k]], link[3], how, missing);
      int32_t next = gr_tree_index(link[2 - yes], nodes);
      moved |= next ^ at[k];
      at[k] = next;
    }
    if (!moved) return;
  }
}

/* The walk by its comparison: the two that exporters write have code of their own. */
GR_INLINE void GR_FN(tree_leaves)(const gr_call *call, const GR_T *const *rows, int32_t *at) {
  int how = (int)call->attrs[GR_TREE_COMPARISON], missing = (int)call->attrs[GR_TREE_MISSING];
  if (how == GR_TREE_LE && !missing)
    GR_FN(tree_walk)(call, rows, at, GR_TREE_LE, 0);
  else if (how == GR_TREE_LE)
    GR_FN(tree_walk)(call, rows, at, GR_TREE_LE, 1);
  else if (how == GR_TREE_LT && !missing)
    GR_FN(tree_walk)(call, rows, at, GR_TREE_LT, 0);
  else if (how == GR_TREE_LT)
    GR_FN(tree_walk)(call, rows, at, GR_TREE_LT, 1);
  else
    GR_FN(tree_walk)(call, rows, at, how, missing);
}

/* Fold what a leaf gives into a row of the result; its row of the links is near, as the walk has read it. */
GR_INLINE void GR_FN(tree_give)(const gr_call *call, int32_t node, GR_T *out) {
  const int32_t *link = (const int32_t *)gr_ptr(&call->args[2]) + 4 * (int64_t)node;
  const int32_t *targets = gr_ptr(&call->args[4]);
  const GR_T *weights = gr_ptr(&call->args[5]);
  int64_t columns = call->args[6].shape[1], fold = call->attrs[GR_TREE_AGGREGATE], most = call->args[5].shape[0];
  int64_t start = link[0], count = link[3]; /* read once: another thread may write them */
  if (link[1] != node || link[2] != node) return;
  start = gr_min(gr_max(start, 0), most);
  int64_t end = start + gr_min(gr_max(count, 0), most - start);
  for (int64_t k = start; k < end; k++) {
    GR_T *to = columns == 1 ? out : out + gr_tree_index(targets[k], columns), weight = weights[k];
    if (fold == GR_TREE_MIN)
      *to = *to < weight ? *to : weight;
    else if (fold == GR_TREE_MAX)
      *to = *to > weight ? *to : weight;
    else
      *to += weight;
  }
}

/* All trees for rows [first, last), a multiple of GR_WALKS, one tree after the other. */
static void GR_FN(tree_rows)(const gr_call *call, int64_t first, int64_t last) {
  const GR_T *x = gr_ptr(&call->args[0]), *rows[GR_WALKS];
  const int32_t *roots = gr_ptr(&call->args[3]);
  GR_T *out = gr_ptr(&call->args[6]);
  int64_t features = call->args[0].shape[1], nodes = call->args[1].shape[0], trees = call->args[3].shape[0];
  int64_t columns = call->args[6].shape[1];
  int32_t at[GR_WALKS];
  for (int64_t tree = 0; tree < trees; tree++) {
    int32_t root = gr_tree_index(roots[tree], nodes);
    for (int64_t row = first; row < last; row += GR_WALKS) {
      for (int k = 0; k < GR_WALKS; k++) {
        rows[k] = x + (row + k) * features;
        at[k] = root;
      }
      GR_FN(tree_leaves)(call, rows, at);
      for (int k = 0; k < GR_WALKS; k++) GR_FN(tree_give)(call, at[k], out + (row + k) * columns);
    }
  }
}

/* All trees for one row, several at once. */
static void GR_FN(tree_row)(const gr_call *call, int64_t row) {
  const GR_T *x = (const GR_T *)gr_ptr(&call->args[0]) + row * call->args[0].shape[1], *rows[GR_WALKS];
  const int32_t *roots = gr_ptr(&call->args[3]);
  GR_T *out = (GR_T *)gr_ptr(&call->args[6]) + row * call->args[6].shape[1];
  int64_t nodes = call->args[1].shape[0], trees = call->args[3].shape[0];
  int32_t at[GR_WALKS];
  for (int k = 0; k < GR_WALKS; k++) rows[k] = x;
  for (int64_t tree = 0; tree < trees; tree += GR_WALKS) {
    int count = (int)gr_min(GR_WALKS, trees - tree);
    for (int k = 0; k < GR_WALKS; k++) at[k] = gr_tree_index(roots[tree + (k < count ? k : 0)], nodes);
    GR_FN(tree_leaves)(call, rows, at);
    for (int k = 0; k < count; k++) GR_FN(tree_give)(call, at[k], out);
  }
}

/* The result of targets that nothing was given to is 0. */
GR_INLINE void GR_FN(tree_finish)(const gr_call *call, int64_t first, int64_t last) {
  int64_t columns = call->args[6].shape[1], trees = call->args[3].shape[0], fold = call->attrs[GR_TREE_AGGREGATE];
  GR_T *out = (GR_T *)gr_ptr(&call->args[6]);
  for (int64_t i = first * columns; i < last * columns; i++) {
    if (fold == GR_TREE_MEAN && trees) out[i] /= (GR_T)trees;
    if (fold == GR_TREE_MIN || fold == GR_TREE_MAX) out[i] = isinf(out[i]) ? 0 : out[i];
  }
}

static int32_t GR_FN(tree_run)(void *ctx, int64_t first, int64_t last) {
  const gr_call *call = ctx;
  int64_t columns = call->args[6].shape[1], fold = call->attrs[GR_TREE_AGGREGATE];
  GR_T none = fold == GR_TREE_MIN ? INFINITY : fold == GR_TREE_MAX ? -INFINITY : 0, *out = gr_ptr(&call->args[6]);
  for (int64_t i = first * columns; i < last * columns; i++) out[i] = none;
  while (last - first >= GR_WALKS) {
    int64_t end = first + gr_min((last - first) / GR_WALKS * GR_WALKS, GR_TREE_ROWS);
    GR_FN(tree_rows)(call, first, end);
    GR_FN(tree_finish)(call, first, end);
    first = end;
  }
  for (int64_t row = first; row < last; row++) GR_FN(tree_row)(call, row);
  GR_FN(tree_finish)(call, first, last);
  return GR_OK;
}

/* gr-kernel: cpu/trees : f32 f64 */
static inline int32_t GR_BODY(trees)(const gr_call *call) {
  int64_t work = 32 * gr_max(1, call->args[3].shape[0]); /* of a row */
  return gr_parallel(call->env, call->args[0].shape[0], gr_max(GR_WALKS, gr_ceil_div(GR_GRAIN, work)), GR_FN(tree_run),
                     (void *)(uintptr_t)call);
}
