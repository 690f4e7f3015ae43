"""The rule for runs when a machine that has a part of their graph is lost.

Parts without state compute equal results whenever they are asked, so runs that are not answered are run
again, with the inputs that the caller's side keeps until then. State of the lost machine is gone with it,
unless the session asks for checkpoints: then it begins again at the last one, and all runs since then are
run again there; other machines, which have been through some of them, send the same results without
changing their own state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

__all__ = ["MOST_LOSSES", "Recovery", "recover"]

MOST_LOSSES = 3  # of machines under one run, after which it fails: it may be what ends them


@dataclass(frozen=True, slots=True)
class Recovery:
    """``again``: runs that are run again, in order; ``failed``: those that are given up; ``first``: the first
    run that the part's successor sees; ``lost``: names of the state that is gone."""

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
    """What to do. ``state``: names of what the lost part's runs write; ``waiting``: runs that are not
    answered; ``losses``: machines that each of them has lost so far, this one too; ``following``: the number
    of the next run; ``checkpoint``: the last run whose state is kept (-1: that before all runs), None: none
    is kept."""
    failed = tuple(sorted(run for run in waiting if losses.get(run, 0) > MOST_LOSSES))
    again = tuple(sorted(run for run in waiting if run not in failed))
    if not state:
        return Recovery(again, failed, min(again, default=following))
    if checkpoint is None:
        return Recovery((), tuple(sorted(waiting)), following, tuple(sorted(state)))
    return Recovery(
        tuple(run for run in range(checkpoint + 1, following) if run not in failed), failed, checkpoint + 1
    )
