"""Arguments and results of a padding rule: an op with the regions of its inputs, and the regions of its
results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.graph import TensorType
from .regions import Axis, Region, is_plain


class Crosses(Exception):
    """Padding affects real elements; the error's text names the place."""


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask: input ``index`` gets ``fill`` where its ``axis`` is padding."""

    index: int
    axis: int
    fill: float


@dataclass(frozen=True, slots=True)
class Lookup:
    """A lookup: input ``index`` holds indices into a padded ``axis``, which count elements of the exact
    graph. ``column``: the column of the input's last axis that holds the indices; None: all columns do."""

    index: int
    axis: Axis
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """Result of a rule. ``regions``: regions of the op's results. ``masks``, ``lookups``: changes of the op's
    inputs. ``how``: kind of the op's replacement: "" (the op stays), "mean" (a masked sum divided by a count)
    or "attention" (an attention whose bias hides padding). ``least``: (label, smallest size for which the
    ruling holds)."""

    regions: tuple[Region, ...]
    masks: tuple[Mask, ...] = ()
    how: str = ""
    least: tuple[tuple[str, int], ...] = ()
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True)
class Call:
    """An op at a bucket's sizes. ``inputs``: regions of its inputs. ``made``: types of its results at the
    bucket's sizes; ``probe``: types of its results in the graph at other sizes. ``fresh(size, probed)``:
    function that gives a new axis of a result from its sizes in these two graphs. ``look(i)``: function that
    gives the values of input i if they are a small constant."""

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[Region, ...]
    types: tuple[TensorType, ...]
    made: tuple[TensorType, ...]
    probe: tuple[TensorType, ...]
    fresh: Callable[[int, int], Axis]
    look: Callable[[int], np.ndarray | None]

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """The axis that an attribute names, as an index >= 0."""
        return int(self.attrs[name]) % max(len(self.types[index].shape), 1)

    def over(self, index: int, axes: Sequence[int], fill: float) -> list[Mask]:
        """Masks for the padded axes among the given axes of an input."""
        return [Mask(index, at, fill) for at in axes if not is_plain(self.inputs[index][at])]

    def need_plain(self, index: int, axes: Sequence[int] | None = None) -> None:
        """Raise Crosses unless the given axes of an input (by default all) have no padding."""
        region = self.inputs[index]
        for at in range(len(region)) if axes is None else axes:
            if not is_plain(region[at]):
                raise Crosses(f"{self.op} goes over axis {at} of input {index}, which is padded")

    def new(self, result: int, at: int) -> Axis:
        """The region of axis ``at`` of a result, if that axis comes from no axis of an input."""
        return self.fresh(self.made[result].shape[at], self.probe[result].shape[at])
