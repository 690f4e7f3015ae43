"""Another batch than the file was written with: open first dimensions are bound; where all are fixed to one
size, the inputs get the new one, and reshapes to constant shapes follow."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError, InputError
from .tape import TapeValue
from .validate import Size

__all__ = ["Batch", "set_batch"]


@dataclass(frozen=True, slots=True)
class Batch:
    """A file written for ``was`` items that is read for ``now``."""

    was: int
    now: int

    def shape(self, x: TapeValue, wanted: list[int]) -> list[int]:
        """The target of a Reshape of ``x``, with its first dimension for ``now`` items instead of ``was``.

        A target that fits as it is stays; so does one whose first dimension is open or copied (-1, 0), and
        that of a value which no input of the graph goes into.
        """
        if not wanted or wanted[0] <= 0 or wanted[0] * self.now % self.was or not x.inputs():
            return wanted
        changed = [wanted[0] * self.now // self.was, *wanted[1:]]
        if -1 in wanted:
            known = math.prod(n for n in changed if n != -1)
            return changed if known and x.type.size % known == 0 else wanted
        return changed if x.type.size != math.prod(wanted) else wanted

    def check(self, info: Any, value: TapeValue, path: str) -> None:
        """Raise GraphError where an output that had ``was`` items has not ``now``: something in the graph
        counts on the old batch."""
        declared = info.type.tensor_type.shape.dim
        if declared and declared[0].dim_value == self.was and value.shape[:1] != (self.now,):
            raise GraphError(
                f"with a batch of {self.now} instead of {self.was} output {info.name!r} would be "
                f"{value.type}: the graph counts on its batch; export it with a symbolic first dimension",
                path=path,
                got=value.shape,
                wanted=self.now,
            )


def set_batch(
    graph: Any, batch: int, dims: Mapping[str, Size], but: Collection[str]
) -> tuple[dict[str, Size], Batch | None]:
    """(``dims`` and the open first dimensions bound to ``batch``, None), or (``dims``, the change) where all
    first dimensions are fixed: the graph's inputs, ``but`` some, then have the new one.

    Raises InputError where there is no first dimension, or two different ones are fixed.
    """
    known = {tensor.name for tensor in graph.initializer} | set(but)
    firsts = [
        info.type.tensor_type.shape.dim[0]
        for info in graph.input
        if info.name not in known and info.type.tensor_type.shape.dim
    ]
    names: set[str] = {first.dim_param for first in firsts if first.dim_param}
    if names:
        return {**dict.fromkeys(names, batch), **dims}, None
    fixed = sorted({first.dim_value for first in firsts})
    if len(fixed) != 1 or fixed[0] <= 0:
        raise InputError(
            f"a batch of {batch} needs inputs whose first dimensions are the batch; here they "
            f"are {fixed or 'absent'}",
            got=fixed,
            wanted=batch,
        )
    for first in firsts:
        first.dim_value = batch
    return dict(dims), Batch(fixed[0], batch) if fixed[0] != batch else None
