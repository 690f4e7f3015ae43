"""The intra-op pool: every index once, not more threads than set, one error, nesting, callers, fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from graph_runtime.base.errors import GraphRuntimeError
from graph_runtime.base.machine import devices
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle

SOURCE = """
#include <stdio.h>
#include <time.h>
#include "gr_abi.h"

typedef struct {
  const gr_env *env;
  int64_t *hits, inner, active, most, *bad, num_bad;
} work;

static void pause_us(long us) { struct timespec t = {0, us * 1000}; nanosleep(&t, 0); }

static int32_t count(void *ctx, int64_t i) {
  work *w = ctx;
  const int order = __ATOMIC_SEQ_CST;
  int64_t now = __atomic_add_fetch(&w->active, 1, order), most = __atomic_load_n(&w->most, order);
  while (now > most && !__atomic_compare_exchange_n(&w->most, &most, now, 0, order, order)) {}
  __atomic_add_fetch(w->hits + i, 1, __ATOMIC_RELAXED);
  if (w->inner == 1) pause_us(200);
  __atomic_sub_fetch(&w->active, 1, __ATOMIC_SEQ_CST);
  return 0;
}
/* hits[i] += 1; inner 1: slowly. Returns the most that ran at once, or a negative status. */
int64_t run(const gr_env *env, int64_t n, int64_t *hits, int64_t slow) {
  work w = {.env = env, .hits = hits, .inner = slow};
  int32_t status = env->parallel_for(env, n, count, &w);
  return status ? -status : w.most;
}

static int32_t outer(void *ctx, int64_t i) {
  work *w = ctx;
  work mine = {.env = w->env, .hits = w->hits + i * w->inner, .inner = 0};
  int32_t status = w->env->parallel_for(w->env, w->inner, count, &mine);
  return status ? status : mine.most > 1 ? 99 : 0;       /* from inside a task it runs inline */
}
int32_t nested(const gr_env *env, int64_t n, int64_t inner, int64_t *hits) {
  work w = {.env = env, .hits = hits, .inner = inner};
  return env->parallel_for(env, n, outer, &w);
}

static int32_t maybe_fail(void *ctx, int64_t i) {
  work *w = ctx;
  __atomic_add_fetch(w->hits + i, 1, __ATOMIC_RELAXED);
  for (int64_t k = 0; k < w->num_bad; ++k)
    if (w->bad[k] == i) {
      char text[64];
      if (k == 0) pause_us(2000);                        /* the lowest is the last to be known */
      snprintf(text, sizeof text, "task %lld failed", (long long)i);
      return w->env->set_error(w->env, text);
    }
  return 0;
}
/* bad is sorted */
int32_t failing(const gr_env *env, int64_t n, int64_t *hits, int64_t *bad, int64_t num_bad) {
  work w = {.env = env, .hits = hits, .bad = bad, .num_bad = num_bad};
  return env->parallel_for(env, n, maybe_fail, &w);
}
"""


@pytest.fixture(scope="module")
def env():
    with DeviceHandle(devices.cpu()) as handle:
        yield handle.env


@pytest.fixture(scope="module")
def c(load_c):
    symbol = load_c(SOURCE)
    words = "int64_t *"
    types = {
        "run": f"int64_t (*)(const gr_env *, int64_t, {words}, int64_t)",
        "nested": f"int32_t (*)(const gr_env *, int64_t, int64_t, {words})",
        "failing": f"int32_t (*)(const gr_env *, int64_t, {words}, {words}, int64_t)",
    }

    def call(name, env, *args):
        return symbol(name, types[name])(
            env, *(core.ffi.cast(words, a.ctypes.data) if isinstance(a, np.ndarray) else a for a in args)
        )

    return call


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_every_index_once_on_at_most_that_many_threads(c, env, threads, count, n):
    core.pool_set_threads(count)
    assert core.pool_threads() == count == env.num_cores
    for _ in range(20):
        hits = np.zeros(n, np.int64)
        most = c("run", env, n, hits, 0)
        assert (hits == 1).all()
        assert most <= count


def test_all_threads_take_part(c, env, threads):
    core.pool_set_threads(4)
    assert any(
        c("run", env, 200, np.zeros(200, np.int64), 1) == 4 for _ in range(50)
    )  # a loaded machine needs some


def test_workers_that_sleep_wake_up(c, env, threads):
    core.pool_set_threads(3)
    for _ in range(5):
        threading.Event().wait(0.01)  # far beyond the time they spin
        assert any(c("run", env, 60, np.zeros(60, np.int64), 1) == 3 for _ in range(50))


def test_resizing_up_and_down(c, env, threads):
    for count in [4, 1, 3, 2, 6, 1, 2]:
        core.pool_set_threads(count)
        hits = np.zeros(100, np.int64)
        assert c("run", env, 100, hits, 0) <= count
        assert (hits == 1).all()


@pytest.mark.parametrize("count", [0, -1, 257, 2**31 - 1])
def test_impossible_sizes(count):
    with pytest.raises(GraphRuntimeError, match=f"1 to 256 threads, the caller counted, not {count}"):
        core.pool_set_threads(count)


@pytest.mark.parametrize("count", [1, 3])
def test_nested_calls_run_inline(c, env, threads, count):
    core.pool_set_threads(count)
    hits = np.zeros(40 * 25, np.int64)
    assert c("nested", env, 40, 25, hits) == 0
    assert (hits == 1).all()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("bad", [[0], [3, 4, 5], [99], [50, 51, 52, 53, 54, 99]])
def test_the_lowest_failing_index_is_the_error(c, env, threads, count, bad):
    core.pool_set_threads(count)
    for _ in range(5):
        hits = np.zeros(100, np.int64)
        status = c("failing", env, 100, hits, np.array(bad, np.int64), len(bad))
        assert status == core.lib.GR_ERR_KERNEL
        assert core.last_error() == f"task {bad[0]} failed"
        assert (hits[: bad[0] + 1] == 1).all()
        assert hits.max() == 1
    assert c("run", env, 100, np.zeros(100, np.int64), 0) >= 1  # and the pool works on


def test_many_callers_at_once(c, env, threads):
    core.pool_set_threads(3)
    wrong = []

    def work():
        for _ in range(200):
            hits = np.zeros(50, np.int64)
            if c("run", env, 50, hits, 0) < 1 or (hits != 1).any():
                wrong.append(hits)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for thread in callers:
        thread.start()
    for count in [1, 2, 4, 3] * 5:
        core.pool_set_threads(count)
    for thread in callers:
        thread.join()
    assert wrong == []


FORK = """
import os, sys
import numpy as np
from graph_runtime.base.machine import devices
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle
handle = DeviceHandle(devices.cpu())
core.pool_set_threads(3)
run = core.ffi.cast("int64_t (*)(const gr_env *, int64_t, int64_t *, int64_t)",
                    core.library_symbol(core.library_open(sys.argv[1]), "run"))
def once():
    hits = np.zeros(100, np.int64)
    most = run(handle.env, 100, core.ffi.cast("int64_t *", hits.ctypes.data), 1)
    assert (hits == 1).all()
    return most
def works():
    return any(once() == 3 for _ in range(50))
assert works()
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if works() and works() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert works()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_pool_of_its_own(compile_c, c):
    done = subprocess.run(
        [sys.executable, "-P", "-c", FORK, str(compile_c(SOURCE))], timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_interpreter_ends_while_workers_spin(compile_c):
    code = FORK.split("for _ in range(5)")[0]
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, str(compile_c(SOURCE))],
            timeout=60,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")


IDLE = """
import sys, time
import numpy as np
from graph_runtime.base.machine import devices
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle
handle = DeviceHandle(devices.cpu())
core.pool_set_threads(4)
run = core.ffi.cast("int64_t (*)(const gr_env *, int64_t, int64_t *, int64_t)",
                    core.library_symbol(core.library_open(sys.argv[1]), "run"))
hits = np.zeros(200, np.int64)
for _ in range(20):
    run(handle.env, 200, core.ffi.cast("int64_t *", hits.ctypes.data), 1)
time.sleep(0.2)
before = time.process_time()
time.sleep(0.5)
print(time.process_time() - before)
"""


def test_threads_take_no_time_of_a_core_after_a_job(compile_c):
    done = subprocess.run(
        [sys.executable, "-P", "-c", IDLE, str(compile_c(SOURCE))], timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.02  # of half a second, of all threads


PINNED = """
import os, sys, threading
import numpy as np
from graph_runtime.base.config import config
from graph_runtime.base.machine import devices
from graph_runtime.binding import core
from graph_runtime.run.device_handles import open_device
handle = open_device(devices.cpu())
core.pool_set_threads(4)
run = core.ffi.cast("int64_t (*)(const gr_env *, int64_t, int64_t *, int64_t)",
                    core.library_symbol(core.library_open(sys.argv[1]), "run"))
hits = np.zeros(200, np.int64)
first = threading.Thread(target=int)  # sanitizers and qemu start a thread of their own with the first
first.start()
first.join()
there = set(os.listdir("/proc/self/task"))
def where():
    run(handle.env, 200, core.ffi.cast("int64_t *", hits.ctypes.data), 1)
    workers = set(os.listdir("/proc/self/task")) - there
    return sorted(sorted(os.sched_getaffinity(int(t))) for t in workers)
"""


def test_workers_stay_on_the_cores_of_gr_pin_and_the_caller_is_free(compile_c):
    allowed = sorted(os.sched_getaffinity(0))
    code = PINNED + "print(where(), os.sched_getaffinity(0) == set(map(int, sys.argv[2].split(','))))\n"
    code += "with config(PIN=''):\n    core.pool_set_threads(4)\nprint(where())\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(compile_c(SOURCE)), ",".join(map(str, allowed))],
        timeout=60,
        capture_output=True,
        text=True,
        env=os.environ | {"GR_PIN": "all", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    pinned, free = done.stdout.splitlines()
    wanted = sorted([allowed[w % len(allowed)]] for w in (1, 2, 3))
    assert pinned == f"{wanted} True"
    assert free == str([allowed] * 3)


@pytest.mark.parametrize(
    ("pin", "text"),
    [("0,x", "GR_PIN='0,x' is no list of cores: 'x'"), ("1000", "core 1000, which this process may not use")],
)
def test_gr_pin_says_what_is_wrong(pin, text):
    code = "from graph_runtime.run.device_handles import open_device\n"
    code += "from graph_runtime.base.machine import devices\n"
    code += "open_device(devices.cpu())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        timeout=60,
        capture_output=True,
        text=True,
        env=os.environ | {"GR_PIN": pin},
    )
    assert done.returncode == 1
    assert text in done.stderr
