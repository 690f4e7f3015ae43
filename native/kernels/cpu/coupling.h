/* coupling.h: probabilities of classes from those between each two of them. Template over f32 and f64.
 *
 * Arguments and rules: graph_runtime/ir/ops/coupling.py. Sums are in the element type, in libsvm's order.
 *
 * defines: gr_cpu_couple__<suffix>
 */
#ifndef GR_CPU_COUPLING_H
#define GR_CPU_COUPLING_H

#define GR_COUPLE_TOLERANCE 0.005 /* coupling.py, as the next two */
#define GR_COUPLE_ROUNDS 100
#define GR_COUPLE_SLOTS 16

#endif

typedef struct GR_FN(coupling) {
  const GR_T *between; /* [rows, classes * (classes - 1) / 2] */
  GR_T *out, *scratch; /* [rows, classes]; a slot a task: q [classes, classes] and q p [classes] */
  int64_t rows, classes, tasks;
} GR_FN(coupling);

/* q of the form p' q p that p makes least. */
GR_INLINE void GR_FN(couple_form)(const GR_T *between, int64_t n, GR_T *q) {
  for (int64_t i = 0; i < n; i++) q[i * n + i] = 0;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = i + 1; j < n; j++) {
      GR_T won = *between++, lost = 1 - won;
      q[i * n + i] += lost * lost;
      q[j * n + j] += won * won;
      q[i * n + j] = q[j * n + i] = -lost * won;
    }
  }
}

/* q p into `towards`, and how far its elements are from p' q p, `value`. */
GR_INLINE GR_T GR_FN(couple_error)(const GR_T *q, const GR_T *p, int64_t n, GR_T *towards, GR_T *value) {
  GR_T all = 0, most = 0;
  for (int64_t i = 0; i < n; i++) {
    GR_T sum = 0;
    for (int64_t j = 0; j < n; j++) sum += q[i * n + j] * p[j];
    towards[i] = sum;
    all += p[i] * sum;
  }
  for (int64_t i = 0; i < n; i++) {
    GR_T error = GR_MATH(fabs)(towards[i] - all);
    most = error > most ? error : most;
  }
  *value = all;
  return most;
}

static void GR_FN(couple_row)(const GR_T *between, GR_T *p, int64_t n, GR_T *q) {
  GR_T *towards = q + n * n, value, limit = (GR_T)GR_COUPLE_TOLERANCE / (GR_T)n;
  GR_FN(couple_form)(between, n, q);
  for (int64_t i = 0; i < n; i++) p[i] = 1 / (GR_T)n;
  for (int64_t round = gr_max(GR_COUPLE_ROUNDS, n); round > 0; round--) {
    if (GR_FN(couple_error)(q, p, n, towards, &value) < limit) return;
    for (int64_t i = 0; i < n; i++) {
      GR_T own = q[i * n + i], step = (value - towards[i]) / own, total = 1 + step;
      p[i] += step;
      value = (value + step * (step * own + 2 * towards[i])) / total / total;
      for (int64_t j = 0; j < n; j++) {
        towards[j] = (towards[j] + step * q[i * n + j]) / total;
        p[j] /= total;
      }
    }
  }
}

static int32_t GR_FN(couple_task)(void *ctx, int64_t task) {
  const GR_FN(coupling) *c = ctx;
  int64_t n = c->classes, last = c->rows * (task + 1) / c->tasks;
  for (int64_t row = c->rows * task / c->tasks; row < last; row++)
    GR_FN(couple_row)(c->between + row * (n * (n - 1) / 2), c->out + row * n, n, c->scratch + task * n * (n + 1));
  return GR_OK;
}

/* gr-kernel: cpu/couple : f32 f64 */
static inline int32_t GR_BODY(couple)(const gr_call *call) {
  const gr_arg *out = &call->args[1];
  GR_FN(coupling) c = {.between = gr_ptr(&call->args[0]), .out = gr_ptr(out), .scratch = call->scratch,
                       .rows = out->shape[0], .classes = out->shape[1]};
  int64_t grain = gr_ceil_div(GR_GRAIN, 40 * c.classes * c.classes); /* rows that pay for a thread */
  c.tasks = gr_max(1, gr_min(c.rows / grain, gr_min(GR_COUPLE_SLOTS, 2 * (int64_t)call->env->num_cores)));
  return call->env->parallel_for(call->env, c.tasks, GR_FN(couple_task), &c);
}
