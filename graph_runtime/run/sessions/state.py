"""What a run that failed did to the inputs that outputs are written into: state.

An input is unchanged where no instruction that writes its memory began, or the one that failed refused before
its first write (GR_ERR_REFUSED). Else its contents are undefined: runs ask for new ones, as for an input that
was never set (unset.py). in_place.py is the same for queued runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ...binding import core
from ...binding.programs.program import Program

__all__ = ["described", "overwritten", "state_of"]


def state_of(program: Program) -> list[int]:
    """The graph inputs that outputs are written into."""
    return sorted({into for _, into in program.plan.aliases})


def overwritten(program: Program, at: int, status: int) -> list[int]:
    """Those that a run wrote to before instruction ``at`` failed with a status, or while it did."""
    if not 0 <= at < program.main:  # nothing ran, or a copy of an input that was being set
        return []
    plan = program.plan
    graph = plan.graph
    began = program.nid[: at if status == core.lib.GR_ERR_REFUSED else at + 1]
    written = np.isin(graph.entry_nid, began)
    return [i for i in state_of(program) if (written & (plan.sid == plan.sid[graph.input_eids[i]])).any()]


def described(
    names: Sequence[str], state: Sequence[int], undefined: Collection[int], lost: Sequence[int] = ()
) -> str:
    """What an error says of it; ``names``: of the graph's inputs; ``lost``: donated, and written in part."""
    kept = [repr(names[i]) for i in state if i not in undefined]
    gone = [repr(names[i]) for i in undefined]
    said = f"; input {', '.join(kept)} is unchanged" if kept else ""
    said += (
        f"; the contents of input {', '.join(gone)} are undefined: set it before the next run" if gone else ""
    )
    given = ", ".join(repr(names[i]) for i in lost)
    return said + (f"; the contents of input {given} are lost" if lost else "")
