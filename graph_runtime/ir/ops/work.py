"""Work of the cores of a tt board for an op: a product, or passes over tiles.

The trait ``work`` has the work of an op that is no plain elementwise op, movement, reduction or window;
costs/tt.py derives the work of all other ops from ``kind``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..graph import TensorType


@dataclass(frozen=True, slots=True)
class Pass:
    """``tiles`` tiles that go through an op of costs.op_cycles, each tile by one core's kernel. ``cores``:
    most cores that share the tiles; 0: all cores of the board."""

    op: str
    tiles: int
    cores: int = 0

    def turns(self, cores: int) -> int:
        """Number of tiles for the busiest of ``cores`` cores."""
        return math.ceil(self.tiles / min(self.cores or cores, cores))


@dataclass(frozen=True, slots=True)
class Product:
    """``batch`` products of m x k by k x n elements. ``gathered``: whether rows of the left side are windows
    of an image, read tap by tap. ``cores``: most cores that share the batch, each with whole products; 0: all
    cores of the board, among which a single product is divided."""

    batch: int
    m: int
    k: int
    n: int
    gathered: bool = False
    cores: int = 0

    @property
    def whole(self) -> bool:
        """Whether each core makes whole products."""
        return self.batch > 1 or self.cores > 0

    def turns(self, cores: int) -> int:
        """Number of products for the busiest of ``cores`` cores, if cores make whole products."""
        return math.ceil(self.batch / min(self.cores or cores, cores))


@dataclass(frozen=True, slots=True)
class Work:
    """A product, or passes, or both: a core may lay windows out in tiles before the product, or add a bias
    after it."""

    product: Product | None = None
    passes: tuple[Pass, ...] = ()
    known: bool = True


def tiles_of(shape: tuple[int, ...]) -> int:
    """Number of tiles of a tensor. An image [N, C, H, W] counts as [N*H*W, C], channels last, if that takes
    fewer tiles, because both software stacks keep activations of convolutions in that form."""
    rows, columns = (1, 1, *shape)[-2:]
    planes = math.prod(shape[:-2]) * math.ceil(rows / 32) * math.ceil(columns / 32)
    if len(shape) != 4:
        return planes
    n, c, h, w = shape
    return min(planes, math.ceil(n * h * w / 32) * math.ceil(c / 32))


def each(tiles: int, *ops: str) -> tuple[Pass, ...]:
    """Passes of ``tiles`` tiles through each of ``ops``."""
    return tuple(Pass(op, tiles) for op in ops)


@dataclass(frozen=True, slots=True)
class Passes:
    """The work of an op that tt computes by several ops in a row: ops ``whole`` on all tiles of the output,
    ops ``rows`` on one tile of each row of tiles."""

    whole: tuple[str, ...]
    rows: tuple[str, ...] = ()

    def __call__(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> Work:
        return Work(passes=self.passes(outputs[0].shape))

    def passes(self, shape: tuple[int, ...]) -> tuple[Pass, ...]:
        """The passes for a result of this shape."""
        made = tiles_of(shape)
        rows = math.ceil(made / max(1, math.ceil((shape or (1,))[-1] / 32)))
        return each(made, *self.whole) + each(rows, *self.rows)


def with_bias(product: Product, out: TensorType, biased: bool) -> Work:
    """A product, with passes that lay windows out in tiles before it (``gathered``) and add a bias after it
    (``biased``)."""
    passes: tuple[Pass, ...] = ()
    if product.gathered:
        passes += (Pass("nop", math.ceil(product.m / 32) * math.ceil(product.k / 32)),)
    if biased:
        passes += (Pass("add", tiles_of(out.shape)),)
    return Work(product, passes)


SOFTMAX = Passes(("reduce", "subtract", "exp", "reduce", "multiply"), ("reciprocal",))
