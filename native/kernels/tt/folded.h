/* folded.h: each line of folds.h as a gr_tt_fold. Template: the including file defines
 *   GR_A               the type of totals
 *   GR_E, GR_LOWEST, GR_HIGHEST, GR_IS_NAN(a), GR_ABS(x)  as folds.h says
 *   GR_ELEMENT(word, is_u32)  an element's value, from its four bytes
 *   GR_MEMBER          of gr_tt_total
 *   GR_RESULT(a)       the four bytes of a result
 *   GR_NAMED(name)     the name of what is made
 *   GR_FLOAT_FOLD      GR_FOLD_PARTS where it has lines of floats
 * all of which end here.
 *
 * Included by: tt/reduce.h (double, uint64_t). Thread: any.
 * defines: GR_NAMED({names of folds.h})
 */
typedef GR_A (*GR_NAMED(element))(GR_A x);
typedef GR_A (*GR_NAMED(joined))(GR_A a, GR_A b);

/* x[n] onto a total by four others, of which none waits for another. */
static inline __attribute__((always_inline)) GR_A GR_NAMED(line)(GR_A total, const uint32_t *x, int64_t n,
                                                                 int is_u32, GR_A start,
                                                                 GR_NAMED(element) of, GR_NAMED(joined) joined) {
  GR_A part[4] = {start, start, start, start};
  (void)is_u32;
  for (int64_t i = 0; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < 4; ++k) part[k] = joined(part[k], of(GR_ELEMENT(x[i + k], is_u32)));
  for (int64_t i = n / 4 * 4; i < n; ++i) part[0] = joined(part[0], of(GR_ELEMENT(x[i], is_u32)));
  return joined(total, joined(joined(part[0], part[1]), joined(part[2], part[3])));
}

/* x[n], each onto its own total. */
static inline __attribute__((always_inline)) void GR_NAMED(row)(gr_tt_total *all, const uint32_t *x, int64_t n,
                                                                int is_u32, GR_NAMED(element) of,
                                                                GR_NAMED(joined) joined) {
  (void)is_u32;
  for (int64_t k = 0; k < n; ++k) all[k].GR_MEMBER = joined(all[k].GR_MEMBER, of(GR_ELEMENT(x[k], is_u32)));
}

#define GR_FOLD_PARTS(name, first, element, both, result)                                                         \
  static inline GR_A GR_NAMED(name##_element)(GR_A x) { return element; }                                         \
  static inline GR_A GR_NAMED(name##_joined)(GR_A a, GR_A b) { return both; }                                     \
  static inline void GR_NAMED(name##_bring)(const gr_tt_reduce_job *job, gr_tt_total *all, uint32_t *found,       \
                                            const uint32_t *x, int64_t n, int64_t at) {                           \
    int is_u32 = job->in.arg->dtype == GR_U32;                                                                    \
    (void)found, (void)at;                                                                                        \
    if (job->last)                                                                                                \
      all->GR_MEMBER = GR_NAMED(line)(all->GR_MEMBER, x, n, is_u32, first, GR_NAMED(name##_element),              \
                                      GR_NAMED(name##_joined));                                                   \
    else                                                                                                          \
      GR_NAMED(row)(all, x, n, is_u32, GR_NAMED(name##_element), GR_NAMED(name##_joined));                        \
  }                                                                                                               \
  static inline void GR_NAMED(name##_end)(uint32_t *out, const gr_tt_total *all, int64_t width, int64_t count) {  \
    GR_A n = (GR_A)count;                                                                                         \
    (void)n;                                                                                                      \
    for (int64_t k = 0; k < width; ++k) {                                                                         \
      GR_A a = all[k].GR_MEMBER;                                                                                  \
      out[k] = GR_RESULT(result);                                                                                 \
    }                                                                                                             \
  }                                                                                                               \
  static const gr_tt_fold GR_NAMED(name) = {                                                                      \
      .start = {.GR_MEMBER = first}, .bring = GR_NAMED(name##_bring), .end = GR_NAMED(name##_end)};
#define GR_FOLD GR_FOLD_PARTS
#define GR_NUMBER_FOLD GR_FOLD_PARTS
#include "folds.h"

#undef GR_A
#undef GR_E
#undef GR_LOWEST
#undef GR_HIGHEST
#undef GR_ABS
#undef GR_IS_NAN
#undef GR_ELEMENT
#undef GR_MEMBER
#undef GR_RESULT
#undef GR_NAMED
#undef GR_FOLD_PARTS
