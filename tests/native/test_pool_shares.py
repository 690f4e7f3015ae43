"""Programs that run at the same time have as many of the pool's threads each; of a pool compiled here."""

from __future__ import annotations

import ctypes

import pytest

SOURCE = """
#define _GNU_SOURCE
#include <time.h>
#include "parallel.c"
#include "status.c"
#include "threads.c"
#include "workers.c"

/* work of so many us that needs no core, so that shares do not depend on how many there are */
static void nap(long us) { struct timespec t = {0, us * 1000}; nanosleep(&t, 0); }

static _Atomic int64_t active, most, pieces[16];
static _Atomic int32_t ready, over;

static int32_t piece(void *ctx, int64_t index) {
  (void)index;
  int64_t now = atomic_fetch_add(&active, 1) + 1, seen = atomic_load(&most);
  while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now)) {}
  nap(200);
  atomic_fetch_sub(&active, 1);
  if (!atomic_load(&over)) atomic_fetch_add((_Atomic int64_t *)ctx, 1);
  return GR_OK;
}

static _Atomic int32_t met;
static int32_t meet(void *ctx, int64_t index) {      /* all of a team are there at once */
  (void)index;
  atomic_fetch_add(&met, 1);
  while (atomic_load(&met) < *(int32_t *)ctx) nap(50);
  return GR_OK;
}

typedef struct program { int32_t number, programs, jobs, teams; } program;

static void *run_program(void *arg) {
  program *p = arg;
  gr_pool_enter();
  atomic_fetch_add(&ready, 1);
  while (atomic_load(&ready) < p->programs) nap(20);
  for (int32_t i = 0; i < p->jobs && !atomic_load(&over); ++i) {
    gr_pool_run(16, piece, &pieces[p->number]);
    static int32_t team;                             /* of program 0 alone */
    if (p->number == 0 && i < p->teams) {
      atomic_store(&met, 0);
      gr_pool_run_team(0, &team, meet, &team);
    }
  }
  if (p->number == 0) atomic_store(&over, 1);        /* as long as the first has work */
  atomic_fetch_add(&ready, 1);
  while (atomic_load(&ready) < 2 * p->programs) nap(20);     /* none leaves before */
  gr_pool_leave();
  return NULL;
}

/* done[p]: pieces of program p until program 0 has done `jobs`. Returns the most pieces that ran at once. */
int64_t run(int32_t threads, int32_t programs, int32_t jobs, int32_t teams, int64_t *done) {
  pthread_t started[16];
  program all[16];
  gr_pool_set_threads(threads);
  active = most = ready = over = 0;
  for (int32_t p = 0; p < programs; ++p) {
    pieces[p] = 0;
    all[p] = (program){p, programs, p ? 1 << 30 : jobs, teams};
    pthread_create(&started[p], NULL, run_program, &all[p]);
  }
  for (int32_t p = 0; p < programs; ++p) pthread_join(started[p], NULL);
  for (int32_t p = 0; p < programs; ++p) done[p] = pieces[p];
  return most;
}
"""


@pytest.fixture(scope="module")
def run(compile_c):
    library = ctypes.CDLL(str(compile_c(SOURCE, "-pthread")))
    library.run.restype = ctypes.c_int64

    def shares(threads: int, programs: int, jobs: int, teams: int = 0) -> tuple[int, list[int]]:
        done = (ctypes.c_int64 * programs)()
        return library.run(threads, programs, jobs, teams, done), list(done)

    return shares


@pytest.mark.parametrize(("threads", "programs"), [(2, 2), (4, 2), (8, 3), (3, 2), (2, 5)])
def test_each_program_gets_as_much_and_no_more_threads_work_than_the_pool_has(run, threads, programs):
    for _ in range(3):  # a loaded machine may leave one of them without a core for a while
        most, done = run(threads, programs, 40)
        assert most <= max(threads, programs)
        if max(done) < 2 * min(done):
            return
    raise AssertionError(f"pieces that each program did in the time of the first: {done}")


def test_a_program_alone_gets_all_threads_again(run):
    run(4, 2, 5)
    most, _ = run(4, 1, 40)
    assert most == 4


def test_a_team_gathers_while_other_programs_run(run):
    _, done = run(6, 3, 40, teams=20)
    assert min(done) > 0
