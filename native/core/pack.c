/* pack.c: buffers with known lifetimes into a capacity: a portfolio of searches in several orders.
 *
 * Called by graph_runtime/core.py with the GIL released, on any thread; no state is kept.
 * defines: gr_pack
 *
 * How long one search takes depends on its order of values, wildly; so many are tried, each with a few more nodes
 * than the one before. They run in two lanes, whose attempts learn from the ones before in the same lane where
 * branches die. Of two lanes that end, the attempt that comes first in the list of attempts counts, and the other
 * lane goes on up to that number, so that the result is the same on one thread and on two.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "pack_search.h"
#include "status.h"

enum {
  LANES = 2,
  ORDERS = 6,
  FIRST_NODES = 1000,       /* of an attempt; each round of orders has a tenth more */
  SWAPPED = 10,             /* percent of the buffers that change places in a later round ... */
  REACH = 20,               /* ... with one at most count / 20 further on */
  NOT_FOUND = INT32_MAX,
  MOST = 2048,              /* buffers: tables of pairs and sections stay below 50 MB */
};

static const int64_t LARGEST = (int64_t)1 << 50;   /* so that no sum of sizes overflows */

/* What buffers are sorted by, largest first: W lifetime, A lifetime x size, T the most that lives beside it. */
typedef struct keys { int64_t width, area, total; int32_t at; } keys;

typedef struct lane {
  const gr_pack_instance *instance;
  const keys *keys;         /* [count] */
  int64_t deadline_ns;
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

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static int32_t section_of(const int64_t *times, int32_t count, int64_t time) {
  int32_t low = 0, high = count;
  while (high - low > 1) {
    int32_t middle = low + (high - low) / 2;
    if (times[middle] <= time) low = middle;
    else high = middle;
  }
  return low;
}

/* first, last and the number of sections. 0 if memory is out. */
static int cut_time(gr_pack_instance *in, const gr_pack_problem *p) {
  int64_t n = p->count, *times = malloc((size_t)n * 2 * sizeof *times);
  if (!times) return 0;
  for (int64_t i = 0; i < n; ++i) times[2 * i] = p->lower[i], times[2 * i + 1] = p->upper[i];
  qsort(times, (size_t)n * 2, sizeof *times, by_value);
  int32_t count = 0;
  for (int64_t i = 0; i < 2 * n; ++i)
    if (!count || times[i] != times[count - 1]) times[count++] = times[i];
  for (int64_t i = 0; i < n; ++i) {
    in->first[i] = section_of(times, count, p->lower[i]);
    in->last[i] = section_of(times, count, p->upper[i]);
  }
  in->sections = count - 1;
  free(times);
  return 1;
}

static int meet(const gr_pack_instance *in, int32_t a, int32_t b) {
  return in->first[a] < in->last[b] && in->first[b] < in->last[a];
}

/* alive and total of the sections. 0 if memory is out. */
static int list_alive(gr_pack_instance *in) {
  size_t sections = (size_t)in->sections;
  in->alive_ptr = calloc(sections + 2, sizeof *in->alive_ptr);
  in->total = calloc(sections, sizeof *in->total);
  if (!in->alive_ptr || !in->total) return 0;
  for (int32_t i = 0; i < in->count; ++i)
    for (int32_t t = in->first[i]; t < in->last[i]; ++t) {
      ++in->alive_ptr[t + 2];
      in->total[t] += in->size[i];
    }
  for (size_t t = 2; t < sections + 2; ++t) in->alive_ptr[t] += in->alive_ptr[t - 1];
  in->alive = malloc((size_t)in->alive_ptr[sections + 1] * sizeof *in->alive);
  if (!in->alive) return 0;
  for (int32_t i = 0; i < in->count; ++i)      /* the next free place of t stands one further on, until t is full */
    for (int32_t t = in->first[i]; t < in->last[i]; ++t) in->alive[in->alive_ptr[t + 1]++] = i;
  return 1;
}

static int list_near(gr_pack_instance *in) {
  int64_t pairs = 0;
  for (int32_t i = 0; i < in->count; ++i)
    for (int32_t j = 0; j < i; ++j) pairs += 2 * meet(in, i, j);
  in->near_ptr = malloc(((size_t)in->count + 1) * sizeof *in->near_ptr);
  in->near = malloc((size_t)(pairs + 1) * sizeof *in->near);
  if (!in->near_ptr || !in->near) return 0;
  int32_t next = 0;
  for (int32_t i = 0; i < in->count; ++i) {
    in->near_ptr[i] = next;
    for (int32_t j = 0; j < in->count; ++j)
      if (i != j && meet(in, i, j)) in->near[next++] = j;
  }
  in->near_ptr[in->count] = next;
  return 1;
}

static int make_instance(gr_pack_instance *in, const gr_pack_problem *p) {
  *in = (gr_pack_instance){.count = (int32_t)p->count, .capacity = p->capacity, .size = p->size};
  in->first = malloc((size_t)p->count * sizeof *in->first);
  in->last = malloc((size_t)p->count * sizeof *in->last);
  return in->first && in->last && cut_time(in, p) && list_alive(in) && list_near(in);
}

static void drop_instance(gr_pack_instance *in) {
  free(in->first);
  free(in->last);
  free(in->alive_ptr);
  free(in->alive);
  free(in->near_ptr);
  free(in->near);
  free(in->total);
}

/* **************** orders **************** */

static void make_keys(const gr_pack_instance *in, const gr_pack_problem *p, keys *k) {
  for (int32_t i = 0; i < in->count; ++i) {
    int64_t width = p->upper[i] - p->lower[i], total = 0;
    for (int32_t t = in->first[i]; t < in->last[i]; ++t)
      if (in->total[t] > total) total = in->total[t];
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
  *l = (lane){.instance = in, .keys = k, .deadline_ns = gr_now_ns() + p->budget_ns, .found = found, .index = index,
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
  gr_pack_limit limit = {nodes, l->deadline_ns, l->tried * LANES + l->index, l->found};
  if (limit.max_nodes <= 0 || gr_now_ns() > l->deadline_ns || atomic_load(l->found) < limit.number) return 0;
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

/* Both lanes to their ends: each in a thread, or in turn. */
static void run_lanes(lane *lanes, int32_t threads) {
  pthread_t helper;
  if (threads > 1 && pthread_create(&helper, NULL, run_lane, &lanes[1]) == 0) {
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

static int32_t check(const gr_pack_problem *p) {
  for (int64_t i = 0; i < p->count; ++i) {
    if (p->lower[i] >= p->upper[i])
      return gr_fail(GR_ERR_ARGUMENT, "buffer %lld of a packing ends before it begins", (long long)i);
    if (p->size[i] < 1 || p->size[i] > LARGEST)
      return gr_fail(GR_ERR_ARGUMENT, "buffer %lld of a packing has a size beyond 1 to 2^50 bytes", (long long)i);
  }
  return GR_OK;
}

int32_t gr_pack(const gr_pack_problem *problem, int64_t *offset, int32_t *result) {
  *result = problem->count ? GR_PACK_UNKNOWN : GR_PACK_FITS;
  if (problem->count <= 0 || problem->count > MOST) return GR_OK;
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
