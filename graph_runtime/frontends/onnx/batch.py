"""Change of the batch that a file was written for. Open first dimensions are bound. If all are fixed to one
size, the inputs get the new size, and reshapes to constant shapes are adapted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError, InputError
from .tape import TapeValue
from .validate import Size


@dataclass(frozen=True, slots=True)
class Batch:
    """A file written for batches of ``was`` items that is read for batches of ``now``."""

    was: int
    now: int

    def shape(self, x: TapeValue, wanted: list[int]) -> list[int]:
        """Target of a Reshape of ``x``, with a first dimension for ``now`` items instead of ``was``.

        ``wanted``: the target in the file. It stays unchanged if it has as many elements as x, if its first
        dimension is open (-1) or copied (0), or if x depends on no input of the graph.
        """
        if not wanted or wanted[0] <= 0 or wanted[0] * self.now % self.was or not x.inputs():
            return wanted
        changed = [wanted[0] * self.now // self.was, *wanted[1:]]
        if -1 in wanted:
            known = math.prod(n for n in changed if n != -1)
            return changed if known and x.type.size % known == 0 else wanted
        return changed if x.type.size != math.prod(wanted) else wanted

    def check(self, info: Any, value: TapeValue, path: str) -> None:
        """Raise GraphError if an output with ``was`` items in the file does not have ``now`` after
        conversion: some node relies on the old batch."""
        declared = info.type.tensor_type.shape.dim
        if declared and declared[0].dim_value == self.was and value.shape[:1] != (self.now,):
            text = (
                f"with a batch of {self.now} instead of {self.was} output {info.name!r} would be "
                f"{value.type}: the graph relies on the old batch; export it with a symbolic first dimension"
            )
            raise GraphError(text, path=path, got=value.shape, wanted=self.now)


def set_batch(
    graph: Any, batch: int, dims: Mapping[str, Size], but: Collection[str]
) -> tuple[dict[str, Size], Batch | None]:
    """(sizes of dimensions, the change of a fixed batch). If first dimensions are open, the sizes are
    ``dims`` and ``batch`` for each open dimension, and the change is None. If all first dimensions are fixed,
    the sizes are ``dims``, and the inputs' shapes in the graph are changed to the new batch, except those of
    inputs in ``but``.

    Raises InputError if no input has a first dimension, or if fixed first dimensions differ.
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
        text = (
            f"a batch of {batch} needs inputs whose first dimensions are the batch; here they "
            f"are {fixed or 'absent'}"
        )
        raise InputError(text, got=fixed, wanted=batch)
    for first in firsts:
        first.dim_value = batch
    return dict(dims), Batch(fixed[0], batch) if fixed[0] != batch else None
