"""nd_shards: each unit of a tensor lies in one place, and in the bank whose turn its shard has."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.machine.nd_shards import NdShard, nd_cut, nd_fault, nd_places

SIZES = st.integers(1, 5)


@st.composite
def cuts(draw):
    """(shard, shape, tiled)."""
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=4)))
    rank = draw(st.integers(2, len(shape)))
    tiled = draw(st.booleans())
    own = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    if tiled:
        shape = (*shape[:-2], *(32 * n - 1 for n in shape[-2:]))
        own[-2:] = (32 * n for n in own[-2:])
    banks = draw(st.permutations(range(12)))[: draw(st.integers(1, 12))]
    return NdShard(tuple(own), tuple(banks)), shape, tiled


@given(cuts())
@settings(deadline=None)
def test_units_lie_where_their_shards_do(cut):
    shard, shape, tiled = cut
    assert nd_fault(shard, shape, tiled, 12) is None
    units, own, counts = nd_cut(shard, shape, tiled)
    banks, places, slots = nd_places(shard, shape, tiled)
    assert len(banks) == math.prod(units)
    for at, unit in enumerate(itertools.product(*map(range, units))):
        number = inside = 0
        for where, part, count in zip(unit, own, counts, strict=True):
            number, inside = number * count + where // part, inside * part + where % part
        assert banks[at] == shard.banks[number % len(shard.banks)]
        assert places[at] == number // len(shard.banks) * math.prod(own) + inside
    assert len({*zip(banks.tolist(), places.tolist(), strict=True)}) == len(banks)
    assert places.max() < slots


def test_a_line_of_shards_has_a_line_of_banks():
    banks, places, slots = nd_places(NdShard((2, 3), (5, 6, 7, 8), line=2), (4, 6), False)
    assert slots == 2
    assert banks.tolist() == [5, 6, 5, 6, 7, 8, 7, 8]
    assert places.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("shard", "text"),
    [
        (NdShard((32,), (0,)), "two dimensions"),
        (NdShard((32, 32), (0, 12)), "must be from 0 to 11"),
        (NdShard((32, 32), (1, 1)), "named twice"),
        (NdShard((16, 32), (0,)), "multiple of 32"),
        (NdShard((1, 32, 32), (0,)), "cannot cut"),
        (NdShard((32, 32), (0, 1), line=1), "do not fit"),
    ],
)
def test_what_cannot_be_is_said(shard, text):
    assert text in nd_fault(shard, (64, 64), True, 12)
