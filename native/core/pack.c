/* pack.c: packs buffers, some of which may share no byte, into a capacity: a portfolio of searches in several orders.
 *
 * Called by graph_runtime/binding/core.py with the GIL released, on any thread; no state is kept.
 * defines: gr_pack, gr_pack_stop
 *
 * The time of one search varies wildly with its order of values; so many are tried, each with a few more nodes than the
 * one before. They run in two lanes, whose attempts learn from the ones before in the same lane where branches die. Of
 * two lanes that end, the attempt that comes first in the list of attempts counts, and the other lane goes on up to
 * that number, so that the result is the same on one thread and on two.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "pack_search.h"
#include "status.h"
#include "threads.h"

enum {
  LANES = 2,
  ORDERS = 6,
  FIRST_NODES = 1000,       /* of an attempt; each round of orders has a tenth more */
  SWAPPED = 10,             /* percent of the buffers that change places in a later round ... */
  REACH = 20,               /* ... with one at most count / 20 further on */
  NOT_FOUND = INT32_MAX,
  MOST = 2048,              /* buffers: tables of pairs and sections stay below 100 MB */
};

static const int64_t LARGEST = (int64_t)1 << 50;   /* so that no sum of sizes overflows */

/* Sort keys of buffers, largest first: W lifetime, A lifetime x size, T the most bytes alive beside it. */
typedef struct keys { int64_t width, area, total; int32_t at; } keys;

typedef struct lane {
  const gr_pack_instance *instance;
  const keys *keys;         /* [count] */
  int64_t deadline_ns;
  const int32_t *stop;
  atomic_int *found;        /* the number of the first attempt with a result, NOT_FOUND */
  int32_t index, tried;     /* its next attempt has number tried * LANES + index */
  int64_t nodes, left;      /* of that attempt, and of all to come */
  int32_t *weight;          /* [sections] */
  keys *sorted;             /* [count] scratch */
  int32_t *rank;            /* [count] */
  int64_t *offset;          /* [count] of its result */
  int32_t result, number;   /* the result, of which attempt; GR_PACK_UNKNOWN */
} lane;

/* **************** the instance **************** */

/* of and total. 0 if memory is out. */
static int list_sections(gr_pack_instance *in) {
  size_t count = (size_t)in->count, members = (size_t)in->alive_ptr[in->sections];
  in->of_ptr = calloc(count + 2, sizeof *in->of_ptr);
  in->of = malloc((members + 1) * sizeof *in->of);
  in->total = calloc((size_t)in->sections + 1, sizeof *in->total);
  if (!in->of_ptr || !in->of || !in->total) return 0;
  for (size_t k = 0; k < members; ++k) ++in->of_ptr[in->alive[k] + 2];
  for (size_t i = 2; i < count + 2; ++i) in->of_ptr[i] += in->of_ptr[i - 1];
  for (int32_t t = 0; t < in->sections; ++t)   /* the next free place of i is one further on, until i is full */
    for (int64_t k = in->alive_ptr[t]; k < in->alive_ptr[t + 1]; ++k) {
      in->of[in->of_ptr[in->alive[k] + 1]++] = t;
      in->total[t] += in->size[in->alive[k]];
    }
  return 1;
}

/* near, from a table of pairs as bits. 0 if memory is out. */
static int list_near(gr_pack_instance *in) {
  size_t count = (size_t)in->count, words = (count + 63) / 64;
  uint64_t *pairs = calloc(count * words, sizeof *pairs), *row = malloc(words * sizeof *row);
  int64_t total = 0;
  if (!pairs || !row) goto out_of_memory;
  for (int32_t t = 0; t < in->sections; ++t) {
    memset(row, 0, words * sizeof *row);
    const int32_t *first = in->alive + in->alive_ptr[t], *last = in->alive + in->alive_ptr[t + 1];
    for (const int32_t *at = first; at < last; ++at) row[*at / 64] |= 1ull << *at % 64;
    for (const int32_t *at = first; at < last; ++at)
      for (size_t w = 0; w < words; ++w) pairs[(size_t)*at * words + w] |= row[w];
  }
  for (size_t w = 0; w < count * words; ++w) total += __builtin_popcountll(pairs[w]);
  in->near_ptr = malloc((count + 1) * sizeof *in->near_ptr);
  in->near = malloc((size_t)(total + 1) * sizeof *in->near);
  if (!in->near_ptr || !in->near) goto out_of_memory;
  int32_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    in->near_ptr[i] = next;
    for (size_t j = 0; j < count; ++j)
      if (i != j && pairs[i * words + j / 64] >> j % 64 & 1) in->near[next++] = (int32_t)j;
  }
  in->near_ptr[count] = next;
  free(pairs);
  free(row);
  return 1;
out_of_memory:
  free(pairs);
  free(row);
  return 0;
}

static int make_instance(gr_pack_instance *in, const gr_pack_problem *p) {
  *in = (gr_pack_instance){.count = (int32_t)p->count, .sections = (int32_t)p->groups, .capacity = p->capacity,
                           .size = p->size, .alive_ptr = p->group_ptr, .alive = p->member};
  return list_sections(in) && list_near(in);
}

static void drop_instance(gr_pack_instance *in) {
  free(in->of_ptr);
  free(in->of);
  free(in->near_ptr);
  free(in->near);
  free(in->total);
}

/* **************** orders **************** */

static void make_keys(const gr_pack_instance *in, const gr_pack_problem *p, keys *k) {
  for (int32_t i = 0; i < in->count; ++i) {
    int64_t width = p->width[i], total = 0;
    for (int64_t j = in->of_ptr[i]; j < in->of_ptr[i + 1]; ++j)
      if (in->total[in->of[j]] > total) total = in->total[in->of[j]];
    double area = (double)width * (double)in->size[i];
    k[i] = (keys){width, area < 4e18 ? (int64_t)area : INT64_MAX, total, i};
  }
}

static int64_t key(const keys *k, char name) { return name == 'W' ? k->width : name == 'A' ? k->area : k->total; }

/* qsort has no argument to say the order by: one function each. */
static int compare(const keys *a, const keys *b, const char *order) {
  for (; *order; ++order) {
    int64_t x = key(a, *order), y = key(b, *order);
    if (x != y) return x > y ? -1 : 1;
  }
  return a->at < b->at ? -1 : 1;
}
static int by_wat(const void *a, const void *b) { return compare(a, b, "WAT"); }
static int by_taw(const void *a, const void *b) { return compare(a, b, "TAW"); }
static int by_twa(const void *a, const void *b) { return compare(a, b, "TWA"); }
static int by_awt(const void *a, const void *b) { return compare(a, b, "AWT"); }
static int by_atw(const void *a, const void *b) { return compare(a, b, "ATW"); }
static int by_wta(const void *a, const void *b) { return compare(a, b, "WTA"); }

static uint32_t draw(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

/* The rank of each buffer in the lane's next attempt: an order of its own, from the second round on with some buffers
 * swapped. */
static void rank_buffers(lane *l) {
  static int (*const by[ORDERS])(const void *, const void *) = {by_wat, by_taw, by_twa, by_awt, by_atw, by_wta};
  int32_t n = l->instance->count;
  uint64_t state = ((uint64_t)l->tried * LANES + (uint64_t)l->index) * 0x9E3779B97F4A7C15u + 1;
  memcpy(l->sorted, l->keys, (size_t)n * sizeof *l->sorted);
  qsort(l->sorted, (size_t)n, sizeof *l->sorted, by[(l->tried + l->index * (ORDERS / LANES)) % ORDERS]);
  for (int32_t i = 0; l->tried >= ORDERS && i < n; ++i) {
    if (draw(&state) % 100 >= SWAPPED) continue;
    int32_t j = i + (int32_t)(draw(&state) % (uint32_t)(1 + n / REACH));
    if (j >= n) continue;
    keys other = l->sorted[i];
    l->sorted[i] = l->sorted[j];
    l->sorted[j] = other;
  }
  for (int32_t i = 0; i < n; ++i) l->rank[l->sorted[i].at] = i;
}

/* **************** lanes **************** */

static int make_lane(lane *l, int32_t index, const gr_pack_instance *in, const keys *k, const gr_pack_problem *p,
                     atomic_int *found) {
  size_t n = (size_t)in->count, sections = (size_t)in->sections;
  *l = (lane){.instance = in, .keys = k, .deadline_ns = gr_now_ns() + p->budget_ns, .stop = p->stop,
              .found = found, .index = index,
              .nodes = FIRST_NODES, .left = p->max_nodes / LANES, .result = GR_PACK_UNKNOWN, .number = NOT_FOUND};
  l->weight = malloc(sections * sizeof *l->weight);
  l->sorted = malloc(n * sizeof *l->sorted);
  l->rank = malloc(n * sizeof *l->rank);
  l->offset = malloc(n * sizeof *l->offset);
  if (!l->weight || !l->sorted || !l->rank || !l->offset) return 0;
  for (size_t t = 0; t < sections; ++t) l->weight[t] = 1;
  return 1;
}

static void drop_lane(lane *l) {
  free(l->weight);
  free(l->sorted);
  free(l->rank);
  free(l->offset);
}

/* Makes the lane's next attempt. 0: the lane ends, because there is a result, or nothing is left to spend. */
static int step(lane *l) {
  int64_t nodes = l->nodes < l->left ? l->nodes : l->left;
  gr_pack_limit limit = {nodes, l->deadline_ns, l->stop, l->tried * LANES + l->index, l->found};
  if (limit.max_nodes <= 0 || gr_now_ns() > l->deadline_ns || gr_pack_stopped(l->stop)) return 0;
  if (atomic_load(l->found) < limit.number) return 0;
  rank_buffers(l);
  int32_t result = gr_pack_attempt(l->instance, l->rank, l->weight, &limit, l->offset);
  l->left -= limit.max_nodes;
  if (++l->tried % ORDERS == 0) l->nodes += l->nodes / 10;
  if (result == GR_PACK_UNKNOWN) return 1;
  l->result = result;
  l->number = limit.number;
  int before = atomic_load(l->found);
  while (before > l->number && !atomic_compare_exchange_weak(l->found, &before, l->number)) continue;
  return 0;
}

static void *run_lane(void *argument) {
  while (step(argument)) continue;
  return NULL;
}

/* Runs both lanes to their ends: each in a thread, or in turn. */
static void run_lanes(lane *lanes, int32_t threads) {
  pthread_t helper;
  if (threads > 1 && gr_thread_start(&helper, run_lane, &lanes[1]) == 0) {
    run_lane(&lanes[0]);
    pthread_join(helper, NULL);
    return;
  }
  for (int more = 1; more;) more = step(&lanes[0]) | step(&lanes[1]);
}

static int32_t solve(const gr_pack_problem *p, const gr_pack_instance *in, keys *k, int64_t *offset, int32_t *result) {
  lane lanes[LANES] = {{0}};
  atomic_int found = NOT_FOUND;
  int made = 1;
  make_keys(in, p, k);
  for (int32_t i = 0; i < LANES; ++i) made &= make_lane(&lanes[i], i, in, k, p, &found);
  if (made) run_lanes(lanes, p->threads);
  const lane *first = lanes[1].number < lanes[0].number ? &lanes[1] : &lanes[0];
  *result = made ? first->result : GR_ERR_OUT_OF_MEMORY;
  if (*result == GR_PACK_FITS) memcpy(offset, first->offset, (size_t)p->count * sizeof *offset);
  for (int32_t i = 0; i < LANES; ++i) drop_lane(&lanes[i]);
  if (*result != GR_ERR_OUT_OF_MEMORY) return GR_OK;
  return gr_fail(GR_ERR_OUT_OF_MEMORY, "no memory to pack %d buffers", in->count);
}

static int32_t check_groups(const gr_pack_problem *p, int64_t *seen) {
  int64_t left = p->count;
  for (int64_t i = 0; i < p->count; ++i) seen[i] = -1;
  for (int64_t t = 0; t < p->groups; ++t)
    for (int64_t k = p->group_ptr[t]; k < p->group_ptr[t + 1]; ++k) {
      int32_t at = p->member[k];
      if (at < 0 || at >= p->count || seen[at] == t)
        return gr_fail(GR_ERR_ARGUMENT, "group %lld of a packing has buffer %d twice, or it is none", (long long)t, at);
      left -= seen[at] < 0;
      seen[at] = t;
    }
  return left ? gr_fail(GR_ERR_ARGUMENT, "%lld buffers of a packing are in no group", (long long)left) : GR_OK;
}

static int32_t check(const gr_pack_problem *p) {
  for (int64_t i = 0; i < p->count; ++i)
    if (p->size[i] < 1 || p->size[i] > LARGEST)
      return gr_fail(GR_ERR_ARGUMENT, "buffer %lld of a packing has a size beyond 1 to 2^50 bytes", (long long)i);
  int64_t *seen = malloc((size_t)p->count * sizeof *seen);
  int32_t status = seen ? check_groups(p, seen) : gr_fail(GR_ERR_OUT_OF_MEMORY, "no memory to check a packing");
  free(seen);
  return status;
}

void gr_pack_stop(int32_t *stop) { __atomic_store_n(stop, 1, __ATOMIC_RELAXED); }

int32_t gr_pack(const gr_pack_problem *problem, int64_t *offset, int32_t *result) {
  *result = problem->count ? GR_PACK_UNKNOWN : GR_PACK_FITS;
  if (problem->count <= 0 || problem->count > MOST || problem->groups > 2 * MOST) return GR_OK;
  int32_t status = check(problem);
  if (status) return status;
  gr_pack_instance instance;
  keys *k = malloc((size_t)problem->count * sizeof *k);
  if (make_instance(&instance, problem) && k) status = solve(problem, &instance, k, offset, result);
  else status = gr_fail(GR_ERR_OUT_OF_MEMORY, "no memory to pack %lld buffers", (long long)problem->count);
  drop_instance(&instance);
  free(k);
  return status;
}
