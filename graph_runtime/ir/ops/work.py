"""What the cores of a tt board do for an op: a product, or passes over tiles.

An op that is no plain elementwise op, movement, reduction or window says it by its trait ``work``, in its
family; costs/node_work.py has what follows from ``kind``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..graph import TensorType

__all__ = ["SOFTMAX", "Pass", "Passes", "Product", "Work", "each", "tiles_of", "with_bias"]


@dataclass(frozen=True, slots=True)
class Pass:
    """``tiles`` tiles through an op of costs.op_cycles, one core's kernel for each. ``cores``: the most that
    may share them, 0: all of the board."""

    op: str
    tiles: int
    cores: int = 0

    def turns(self, cores: int) -> int:
        """Tiles of the busiest of so many cores."""
        return math.ceil(self.tiles / min(self.cores or cores, cores))


@dataclass(frozen=True, slots=True)
class Product:
    """``batch`` products of m x k by k x n elements. ``gathered``: rows of the left side are windows of an
    image, read tap by tap. ``cores``: the most that may share the batch, each of them whole products; 0: all
    of the board, which cuts a single product."""

    batch: int
    m: int
    k: int
    n: int
    gathered: bool = False
    cores: int = 0

    @property
    def whole(self) -> bool:
        """Whether a core makes whole products."""
        return self.batch > 1 or self.cores > 0

    def turns(self, cores: int) -> int:
        """Products of the busiest of so many cores, where cores make whole ones."""
        return math.ceil(self.batch / min(self.cores or cores, cores))


@dataclass(frozen=True, slots=True)
class Work:
    """A product, or passes; both where a core makes tiles of windows before, or adds a bias after."""

    product: Product | None = None
    passes: tuple[Pass, ...] = ()
    known: bool = True


def tiles_of(shape: tuple[int, ...]) -> int:
    """Tiles of a tensor. An image [N, C, H, W] is counted with its channels last, [N*H*W, C], where that
    takes fewer: so both software stacks keep activations of convolutions."""
    rows, columns = (1, 1, *shape)[-2:]
    planes = math.prod(shape[:-2]) * math.ceil(rows / 32) * math.ceil(columns / 32)
    if len(shape) != 4:
        return planes
    n, c, h, w = shape
    return min(planes, math.ceil(n * h * w / 32) * math.ceil(c / 32))


def each(tiles: int, *ops: str) -> tuple[Pass, ...]:
    """The same tiles through one op after the other."""
    return tuple(Pass(op, tiles) for op in ops)


@dataclass(frozen=True, slots=True)
class Passes:
    """The work of an op that is several on tt, one after the other: ``whole`` on all tiles of the output,
    ``rows`` on one tile of each row of them."""

    whole: tuple[str, ...]
    rows: tuple[str, ...] = ()

    def __call__(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> Work:
        return Work(passes=self.passes(outputs[0].shape))

    def passes(self, shape: tuple[int, ...]) -> tuple[Pass, ...]:
        """What is done to make a tensor of that shape."""
        made = tiles_of(shape)
        rows = math.ceil(made / max(1, math.ceil((shape or (1,))[-1] / 32)))
        return each(made, *self.whole) + each(rows, *self.rows)


def with_bias(product: Product, out: TensorType, biased: bool) -> Work:
    """A product, the tiles that windows are laid out in before it, and the bias that is added after."""
    passes: tuple[Pass, ...] = ()
    if product.gathered:
        passes += (Pass("nop", math.ceil(product.m / 32) * math.ceil(product.k / 32)),)
    if biased:
        passes += (Pass("add", tiles_of(out.shape)),)
    return Work(product, passes)


SOFTMAX = Passes(("reduce", "subtract", "exp", "reduce", "multiply"), ("reciprocal",))
