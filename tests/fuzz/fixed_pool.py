"""Workers that are always there, for tests of a queue without replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from graph_runtime.cluster.batcher import Done, Outputs, RowBatch

Run = Callable[[RowBatch], Awaitable[Outputs]]


@dataclass
class FixedPool:
    """``places`` workers, always there, all by one function, which raises what Done is told."""

    run: Run
    places: int = 2

    @property
    def count(self) -> int:
        """As many as places."""
        return self.places

    def start(self, batch: RowBatch, done: Done) -> None:
        """Run it in a task."""

        def tell(task: asyncio.Future[Outputs]) -> None:
            if not task.cancelled():  # the loop ends
                done(task.exception() or task.result())

        asyncio.ensure_future(self.run(batch)).add_done_callback(tell)

    def watch(self, changed: Callable[[], None], load: Callable[[], int]) -> None:
        """Nothing changes."""
