"""The rule for what happens to runs when a machine with a part of their graph is lost.

Parts without state always compute equal results, so unanswered runs are repeated with their inputs, which the
caller keeps until then. The state of a lost machine is gone, unless the session keeps checkpoints. With
checkpoints, the machine's successor starts from the last checkpoint, and all later runs are repeated. Other
machines, which have done some of these runs already, send the same results again without changing their own
state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

MOST_LOSSES = 3  # most machines that a run may lose; with more, the run may be the cause, and fails


@dataclass(frozen=True, slots=True)
class Recovery:
    """The decision about runs after a loss. ``again``: numbers of the runs to repeat, in order; ``failed``:
    numbers of the runs to give up; ``first``: number of the first run that the lost part's successor sees;
    ``lost``: names of the state that is gone."""

    again: tuple[int, ...]
    failed: tuple[int, ...]
    first: int
    lost: tuple[str, ...] = ()


def recover(
    state: Collection[str],
    waiting: Collection[int],
    losses: Mapping[int, int],
    following: int,
    checkpoint: int | None,
) -> Recovery:
    """Apply the rule. ``state``: names of the state that runs of the lost part write. ``waiting``: numbers of
    the unanswered runs. ``losses`` {unanswered run: number of machines that it has lost, including this one}.
    ``following``: the number of the next run. ``checkpoint``: number of the last run whose state is kept; -1:
    the initial state is kept; None: there are no checkpoints."""
    failed = tuple(sorted(run for run in waiting if losses.get(run, 0) > MOST_LOSSES))
    again = tuple(sorted(run for run in waiting if run not in failed))
    if not state:
        return Recovery(again, failed, min(again, default=following))
    if checkpoint is None:
        return Recovery((), tuple(sorted(waiting)), following, tuple(sorted(state)))
    return Recovery(
        tuple(run for run in range(checkpoint + 1, following) if run not in failed), failed, checkpoint + 1
    )
