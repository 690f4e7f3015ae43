"""What a rule of buckets is given, and what it says: the regions of an op's inputs, those of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.graph import TensorType
from .regions import Axis, Region, is_plain

__all__ = ["Call", "Crosses", "Lookup", "Mask", "Ruling"]


class Crosses(Exception):
    """Padding reaches real elements; its text says where."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Input ``index`` gets ``fill`` where ``axis`` of it is padding."""

    index: int
    axis: int
    fill: float


@dataclass(frozen=True, slots=True)
class Lookup:
    """Input ``index`` has indices of elements of a padded ``axis``, as the exact graph counts them.
    ``column`` of its last axis has them, None: all of it."""

    index: int
    axis: Axis
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """``regions``: of the results. ``masks``, ``lookups``: what must be done to the inputs. ``how``: what
    the op becomes: "" itself, "mean" a masked sum over a count, "attention" with a bias that hides padding.
    ``least``: labels whose size must not be smaller."""

    regions: tuple[Region, ...]
    masks: tuple[Mask, ...] = ()
    how: str = ""
    least: tuple[tuple[str, int], ...] = ()
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True)
class Call:
    """An op at a bucket's sizes. ``inputs``: their regions; ``look(i)``: values of input i where it is a
    small constant. ``fresh(size, probed)``: the axis that an op makes anew, by its size here and in the graph
    at other sizes, ``probe``: the results' types there."""

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[Region, ...]
    types: tuple[TensorType, ...]
    made: tuple[TensorType, ...]
    probe: tuple[TensorType, ...]
    fresh: Callable[[int, int], Axis]
    look: Callable[[int], np.ndarray | None]

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """The axis that an attribute names, counted from the front."""
        return int(self.attrs[name]) % max(len(self.types[index].shape), 1)

    def over(self, index: int, axes: Sequence[int], fill: float) -> list[Mask]:
        """Masks of those axes of an input that are padded."""
        return [Mask(index, at, fill) for at in axes if not is_plain(self.inputs[index][at])]

    def need_plain(self, index: int, axes: Sequence[int] | None = None) -> None:
        """Raise Crosses unless these axes of an input (all) are real throughout."""
        region = self.inputs[index]
        for at in range(len(region)) if axes is None else axes:
            if not is_plain(region[at]):
                raise Crosses(f"{self.op} goes over axis {at} of input {index}, which is padded")

    def new(self, result: int, at: int) -> Axis:
        """An axis of a result that no axis of an input became."""
        return self.fresh(self.made[result].shape[at], self.probe[result].shape[at])
