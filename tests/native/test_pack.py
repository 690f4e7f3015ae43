"""The packer in C: never overlapping, perfect packings found, small instances equal to brute force, the same
on one thread and on two."""

from __future__ import annotations

import time
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import GraphRuntimeError, InputError
from graph_runtime.binding.packing import pack
from graph_runtime.plan.columns import most_live
from graph_runtime.plan.storage.offsets import FITS, IMPOSSIBLE, UNKNOWN, Groups, pack_conflicts, pack_offsets

NOT_PROVED = 200_000


def fit(lower, upper, size, capacity: int, **options) -> tuple[str, np.ndarray | None]:
    return pack(Groups.of_times(lower, upper), size, capacity, **options)


def columns(rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def overlapping(lower, upper, size, offset) -> list[tuple[int, int]]:
    """Pairs that share a byte at some time; written out, not as anybody else computes it."""
    return [
        (a, b)
        for a in range(len(size))
        for b in range(a)
        if lower[a] < upper[b]
        and lower[b] < upper[a]
        and offset[a] < offset[b] + size[b]
        and offset[b] < offset[a] + size[a]
    ]


def least_peak(lower, upper, size) -> int:
    """By trying every order, each buffer on top of those before it that live at the same time: the packings
    that are pushed down are among these."""
    best = int(size.sum())
    for order in permutations(range(len(size))):
        top: dict[int, int] = {}
        for a in order:
            top[a] = max(
                (top[b] + int(size[b]) for b in top if lower[a] < upper[b] and lower[b] < upper[a]), default=0
            )
        best = min(best, max(top[a] + int(size[a]) for a in order))
    return best


def cut(rng, count: int, width: int = 300, height: int = 1024) -> np.ndarray:
    """A rectangle cut into ``count`` others at random: they fit without a gap."""
    rows = [(0, width, 0, height)]
    while len(rows) < count:
        at = max(
            rng.integers(0, len(rows), 4).tolist(),
            key=lambda i: (rows[i][1] - rows[i][0]) * (rows[i][3] - rows[i][2]),
        )
        a, b, low, high = rows[at]
        if rng.random() < 0.5 and b - a > 1:
            x = int(rng.integers(a + 1, b))
            rows[at] = (a, x, low, high)
            rows.append((x, b, low, high))
        elif high - low > 1:
            y = int(rng.integers(low + 1, high))
            rows[at] = (a, b, low, y)
            rows.append((a, b, y, high))
    rng.shuffle(rows)
    return np.array([(a, b, high - low) for a, b, low, high in rows], np.int64)


BUFFERS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5), st.integers(1, 9)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(BUFFERS)
def test_small_instances_are_solved_exactly(rows):
    lower, width, size = columns(rows)
    upper = lower + width
    least = least_peak(lower, upper, size)
    status, offset = fit(lower, upper, size, least, max_nodes=NOT_PROVED)
    assert status == FITS
    assert offset.min() >= 0
    assert (offset + size).max() <= least
    assert not overlapping(lower, upper, size, offset)
    assert fit(lower, upper, size, least - 1, max_nodes=NOT_PROVED) == (IMPOSSIBLE, None)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, 1000)), min_size=1, max_size=60
    ),
    st.booleans(),
)
def test_buffers_never_overlap_and_peak_and_bound_are_true(rows, search):
    lower, width, size = columns(rows)
    upper = lower + width
    packed = pack_offsets(lower, upper, size, pack if search else None)
    live = max(int(size[(lower <= t) & (t < upper)].sum()) for t in lower)
    assert packed.bound == most_live(lower, upper, size) == live
    assert packed.peak >= packed.bound
    assert (packed.offset + size).max() == packed.peak
    assert packed.offset.min() >= 0
    assert not overlapping(lower, upper, size, packed.offset)


@pytest.mark.parametrize("seed", range(6))
def test_rectangles_cut_from_one_fit_into_it_again(seed):
    rng = np.random.default_rng(seed)
    lower, upper, size = columns(cut(rng, 40 + 10 * seed))
    assert most_live(lower, upper, size) == 1024
    status, offset = fit(lower, upper, size, 1024, max_nodes=1_000_000)
    assert status == FITS
    assert not overlapping(lower, upper, size, offset)
    assert (offset + size).max() == 1024
    assert fit(lower, upper, size, 1023)[0] == IMPOSSIBLE  # below the bound


def test_the_result_is_the_same_on_one_thread_and_on_two():
    lower, upper, size = columns(cut(np.random.default_rng(9), 120))
    results = [fit(lower, upper, size, 1024, max_nodes=400_000, threads=threads) for threads in (1, 2, 2)]
    assert {status for status, _ in results} == {FITS}
    assert all(np.array_equal(results[0][1], offset) for _, offset in results[1:])


def test_it_ends_after_as_many_nodes_or_seconds_as_it_may_take():
    lower, upper, size = columns(cut(np.random.default_rng(1), 300, 200))
    assert fit(lower, upper, size, 1024, max_nodes=400)[0] == UNKNOWN
    assert fit(lower, upper, size, 1024, max_nodes=10**9, seconds=0)[0] == UNKNOWN
    many = columns([(0, 1, 1)] * 3000)
    assert fit(*many, 3000)[0] == UNKNOWN  # too many for its tables
    assert pack_offsets(*many, pack).peak == 3000


def test_no_buffers_fit_anywhere_and_impossible_ones_are_refused():
    empty = np.zeros(0, np.int64)
    assert fit(empty, empty, empty, 0)[0] == FITS
    for rows, says in (([(3, 3, 1)], "lives from 3 to 3"), ([(0, 1, 1), (0, 1, 0)], "buffer 1 .* has 0 B")):
        with pytest.raises(InputError, match=says):
            fit(*columns(rows), 8)
    with pytest.raises(InputError, match="2 and 1 elements"):
        fit(np.arange(2), np.arange(2) + 1, np.ones(1, np.int64), 8)
    one = np.ones(2, np.int64)
    for member, says in (
        ([0, 0], "buffer 0 twice"),
        ([0, 2], "buffer 2 twice, or it is none"),
        ([0], "1 buffers of a packing are in no group"),
    ):
        groups = Groups(np.array([0, len(member)]), np.array(member, np.int32), one)
        with pytest.raises(GraphRuntimeError, match=says):
            pack(groups, one, 8)
    with pytest.raises(GraphRuntimeError, match=r"2\^50"):
        fit(*columns([(0, 1, 1 << 60)]), 8)


# **************** conflicts that no order of lifetimes explains ****************


def random_conflicts(rng, count: int, share: float) -> np.ndarray:
    conflict = np.triu(rng.random((count, count)) < share, 1)
    return conflict | conflict.T


def share_bytes(conflict, size, offset) -> list[tuple[int, int]]:
    return [
        (a, b)
        for a, b in combinations(range(len(size)), 2)
        if conflict[a, b] and offset[a] < offset[b] + size[b] and offset[b] < offset[a] + size[a]
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0, 1))
def test_conflicts_of_any_shape_are_solved_exactly(seed, count, share):
    rng = np.random.default_rng(seed)
    conflict, size = random_conflicts(rng, count, share), rng.integers(1, 10, count)
    best = int(size.sum())
    for order in permutations(range(count)):
        top: dict[int, int] = {}
        for a in order:
            top[a] = max((top[b] + int(size[b]) for b in top if conflict[a, b]), default=0)
        best = min(best, max(top[a] + int(size[a]) for a in order))
    groups = Groups.of_conflicts(conflict, size)
    status, offset = pack(groups, size, best, max_nodes=NOT_PROVED)
    assert status == FITS
    assert not share_bytes(conflict, size, offset)
    assert (offset + size).max() <= best
    assert pack(groups, size, best - 1, max_nodes=NOT_PROVED) == (IMPOSSIBLE, None)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0, 1), st.booleans())
def test_packings_of_conflicts_keep_them_and_their_bound_is_true(seed, count, share, search):
    rng = np.random.default_rng(seed)
    conflict, size = random_conflicts(rng, count, share), rng.integers(1, 1000, count)
    packed = pack_conflicts(conflict, rng.permutation(count), size, pack if search else None)
    assert not share_bytes(conflict, size, packed.offset)
    assert (packed.offset + size).max() == packed.peak >= packed.bound
    groups = Groups.of_conflicts(conflict, size)
    for a, b in zip(groups.ptr[:-1], groups.ptr[1:], strict=True):
        members = groups.member[a:b].tolist()
        assert all(conflict[pair] for pair in combinations(members, 2))
        assert size[members].sum() <= packed.bound
    together = {
        frozenset(pair)
        for a, b in zip(groups.ptr[:-1], groups.ptr[1:], strict=True)
        for pair in combinations(groups.member[a:b].tolist(), 2)
    }
    assert together == {frozenset((a, b)) for a, b in combinations(range(count), 2) if conflict[a, b]}


def test_a_long_search_hears_ctrl_c(ctrl_c_after):
    lower, upper, size = columns(cut(np.random.default_rng(1), 300, 200))
    start = time.monotonic()
    with ctrl_c_after(0.3):
        fit(lower, upper, size, 1024, max_nodes=10**12, threads=2)
    assert time.monotonic() - start < 30  # it would be 60 s, the guard
