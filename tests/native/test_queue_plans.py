"""Random plans on queues: whatever the interleaving, several runs in flight equal the inline order, bit by
bit. Under ThreadSanitizer (tests/tools/sanitize.sh) this is also where the queues' own races show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph_runtime.binding import core
from graph_runtime.plan import plan
from graph_runtime.run.sessions.session import Session
from graph_runtime.testing.graphs import random_graph

DEVICES = ["cpu:0", "cpu:1", "tt:0"]
JITTER = """
#include <time.h>
#include "gr_abi.h"

typedef struct { gr_kernel_fn fn; const int64_t *attrs; uint64_t state; } inner;

/* Sleeps up to 255 us, a time of its own at each call, then calls the kernel that attrs lead to. */
int32_t jitter(const gr_call *call) {
  inner *in = (inner *)call->attrs;
  uint64_t state = __atomic_add_fetch(&in->state, 0x9E3779B97F4A7C15ull, __ATOMIC_RELAXED);
  struct timespec t = {0, (long)(((state ^ state >> 29) * 0xBF58476D1CE4E5B9ull >> 56) * 1000)};
  if (state >> 13 & 1) nanosleep(&t, 0);
  gr_call with = *call;
  with.attrs = in->attrs;
  return in->fn(&with);
}
"""
INNER = np.dtype([("fn", "<u8"), ("attrs", "<u8"), ("state", "<u8")])


@pytest.fixture(scope="module")
def jitter(load_c):
    """jitter(session, seed): every kernel of the session sleeps now and then before it runs."""
    address = load_c(JITTER)("jitter")

    def shake(session: Session, seed: int) -> np.ndarray:
        instrs = session.bound.instrs
        inner = np.zeros(len(instrs), INNER)
        inner["fn"], inner["attrs"] = instrs["fn"], instrs["call"]["attrs"]
        inner["state"] = np.random.default_rng(seed).integers(0, 2**63, len(inner))
        instrs["fn"] = address
        instrs["call"]["attrs"] = inner.ctypes.data + INNER.itemsize * np.arange(len(inner))
        return inner

    return shake


def values(session: Session, rng: np.random.Generator) -> dict[int, np.ndarray]:
    types = [session.graph.entry_type(int(eid)) for eid in session.graph.input_eids]
    return {i: (4 * rng.standard_normal(t.shape)).astype(t.dtype) for i, t in enumerate(types)}


def inline(session: Session, given: dict[int, np.ndarray]) -> list[np.ndarray]:
    for index, value in given.items():
        session.set_input(index, value)
    session.run()
    return [session.output(i).numpy() for i in range(len(session.graph.outputs))]


def check(run, wanted: list[np.ndarray]) -> None:
    run.wait(60)
    for got, want in zip(run.outputs, wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_runs_in_flight_equal_inline_runs(jitter, seed, columns):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, DEVICES, nodes=int(rng.integers(4, 24)), columns=columns)
    pins = None if columns else {name: str(rng.choice(DEVICES)) for name in graph.names}
    session = Session(plan(graph, DEVICES, place=pins))
    session.max_in_flight = 4
    sets = [values(session, rng) for _ in range(6)]
    wanted = [inline(session, each) for each in sets]  # the last set stays in the session
    kept = jitter(session, seed)
    runs = []
    for at, each in enumerate(sets):
        some = {i: v for i, v in each.items() if at + 1 < len(sets) or rng.random() < 0.5}
        runs.append(session.submit(some))  # what the last leaves out is the session's
    for run, want in zip(runs, wanted, strict=True):
        check(run, want)
    assert len(kept) == session.program.count


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_outputs_feed_other_runs_without_waiting(jitter, seed):
    """Two sessions of one graph, each fed by the other's outputs, where types and places agree."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, DEVICES, nodes=14)
    plans = plan(graph, DEVICES)
    first, second = Session(plans), Session(plans)
    given = values(first, rng)
    wanted = inline(first, given)
    feeds = {
        i: o
        for i, eid in enumerate(graph.input_eids.tolist())
        for o, head in enumerate(graph.outputs)
        if first.graph.entry_type(int(first.graph.input_eids[i]))
        == first.graph.entry_type(int(first.graph.outputs[o]))
        and graph.entry_type(int(eid)).size
    }
    again = {**given, **{i: wanted[o] for i, o in feeds.items()}}
    expected = inline(second, again)
    kept = [jitter(first, seed), jitter(second, seed + 1)]
    one = first.submit(given)
    two = second.submit({**given, **{i: one.outputs[o] for i, o in feeds.items()}})
    check(two, expected)
    check(one, wanted)
    assert kept


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_run_in_queues_equals_run_inline(jitter, seed):
    rng = np.random.default_rng(seed)
    planned = plan(random_graph(rng, DEVICES, nodes=16), DEVICES)
    serial, queued = Session(planned), Session(planned, queues="threads")
    kept = jitter(queued, seed)
    for _ in range(3):
        given = values(serial, rng)
        for got, want in zip(inline(queued, given), inline(serial, given), strict=True):
            np.testing.assert_array_equal(got, want)
    assert len(kept) == queued.program.count


def test_template_records_equal_the_c_structs():
    from graph_runtime.binding.programs.program import LANE, SLOT, STEP

    for name, dtype in (("gr_step", STEP), ("gr_lane", LANE), ("gr_slot", SLOT)):
        assert core.ffi.sizeof(name) == dtype.itemsize
        for field, info in core.ffi.typeof(name).fields:
            assert dtype.fields[field][1] == info.offset
