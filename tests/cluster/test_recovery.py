"""The rule for runs when a machine is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.cluster.graphs.recovery import MOST_LOSSES, Recovery, recover


@pytest.mark.parametrize(
    ("state", "waiting", "following", "checkpoint", "expected"),
    [
        ((), [], 9, None, Recovery((), (), 9)),
        ((), [7, 5, 6], 8, None, Recovery((5, 6, 7), (), 5)),
        (("cache",), [7], 8, None, Recovery((), (7,), 8, ("cache",))),
        (("cache",), [], 8, None, Recovery((), (), 8, ("cache",))),
        (("cache",), [7], 8, 4, Recovery((5, 6, 7), (), 5)),
        (("cache",), [0, 1], 2, -1, Recovery((0, 1), (), 0)),
    ],
)
def test_what_is_run_again(state, waiting, following, checkpoint, expected) -> None:
    assert recover(state, waiting, dict.fromkeys(waiting, 1), following, checkpoint) == expected


@settings(deadline=None)  # a busy machine
@given(
    st.sets(st.integers(0, 30)),
    st.dictionaries(st.integers(0, 30), st.integers(0, MOST_LOSSES + 2)),
    st.sampled_from([(), ("a", "b")]),
    st.none() | st.integers(-1, 30),
)
def test_each_waiting_run_is_run_again_or_fails(waiting, losses, state, checkpoint) -> None:
    if waiting and checkpoint is not None:
        checkpoint = min(checkpoint, min(waiting) - 1)
    found = recover(state, waiting, losses, 31, checkpoint)
    assert waiting <= {*found.again, *found.failed}
    assert not set(found.again) & set(found.failed)
    assert list(found.again) == sorted(found.again)
    assert all(run >= found.first for run in found.again)
    if found.lost:
        assert found.failed == tuple(sorted(waiting))
        assert not found.again
