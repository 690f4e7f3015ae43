"""What commands show on stderr while they work: what is done now, with a bar and the time left
where its steps are known."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ...base.progress import Tell, silent

__all__ = ["progress"]


@contextmanager
def progress(shown: bool = True) -> Iterator[Tell]:
    """A Tell that draws a bar, which is gone when the block ends.

    It shows nothing where stderr is no terminal: a log gets results and warnings only.
    """
    if not (shown and sys.stderr.isatty()):
        yield silent
        return
    from rich.console import Console  # a terminal's alone: it takes 50 ms
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True) as bars:

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bars.update(task, visible=False)
                tasks[what] = bars.add_task(what, total=None)
            bars.update(tasks[what], completed=done, total=total or None)

        yield tell
