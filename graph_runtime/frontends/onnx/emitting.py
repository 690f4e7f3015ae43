"""Methods by which converters emit registry ops: any op, and data movements that many converters need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops.moving.shape import exactly
from .read import check_size
from .tape import SMALL, Tape, TapeValue


class Emitting:
    """Base of contexts. Ops are added to ``tape``; ``what`` names the node in errors about constants."""

    tape: Tape
    what: str

    def emits(self, values: Iterable[Any]) -> None:
        """Make operators on these values emit on this tape."""
        self.tape.what = self.what
        for value in values:
            if isinstance(value, TapeValue):
                value.tape = self.tape

    def op(self, op: str, *inputs: TapeValue, **attrs: Any) -> Any:
        """Result of a registry op; a tuple if the op has several results."""
        made = self.tape.op(op, inputs, attrs)
        return made[0] if len(made) == 1 else made

    def const(self, array: Any, dtype: str | None = None) -> TapeValue:
        """A constant. Raises UnsupportedOpError if conversion to an integer ``dtype`` would change its
        values."""
        return self.tape.constant(array, dtype)

    def fits(self, *elements: int) -> None:
        """Raise GraphError if an array with the dimensions ``elements`` is too large to be created while the
        file is read."""
        self.tape.budget.fits(8 * math.prod(elements), self.what)

    def reshape(self, x: TapeValue, shape: tuple[int, ...] | list[int]) -> TapeValue:
        """x in a fully known shape; x itself if the shape is already that."""
        shape = tuple(int(n) for n in shape)
        if shape == x.shape:
            return x
        return self.op("reshape", x, **exactly(shape))

    def transpose(self, x: TapeValue, perm: list[int] | tuple[int, ...]) -> TapeValue:
        """Axis i of the result is axis perm[i] of x; x itself if no axis moves."""
        perm = [int(p) for p in perm]
        return x if perm == list(range(x.rank)) else self.op("transpose", x, perm=perm)

    def expand(self, x: TapeValue, shape: tuple[int, ...], weight: bool = False) -> TapeValue:
        """x broadcast to exactly this shape. ``weight``: whether x is a weight; a constant weight then stays
        a constant at any size, and is computed when it is read."""
        if x.shape == tuple(shape):
            return x
        if not weight or x.constant is None or math.prod(shape) * 8 <= SMALL:
            return self.op("broadcast_to", x, shape=tuple(shape))
        kind = TensorType(x.dtype, tuple(shape))
        check_size(kind, self.what)
        made = Constant.derived(
            kind, lambda array: np.broadcast_to(array, kind.shape), x.constant, source=self.what
        )
        return TapeValue(kind, constant=made, tape=self.tape)

    def slice(self, x: TapeValue, axis: int, start: int, end: int, step: int = 1) -> TapeValue:
        """x[start:end:step] along one axis."""
        if (start, step) == (0, 1) and end == x.shape[axis]:
            return x
        return self.op("slice", x, starts=[start], ends=[end], axes=[axis], steps=[step])

    def spread(self, x: TapeValue, axis: int, gap: int, fill: float = 0.0) -> TapeValue:
        """x with ``gap`` elements of value ``fill`` between neighbours along an axis."""
        n = x.shape[axis]
        if not gap or n < 2:
            return x
        apart = self.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
        pads = [0] * (2 * apart.rank)
        pads[apart.rank + axis + 1] = gap
        apart = self.op("pad", apart, pads=pads, value=fill)
        joined = self.reshape(apart, (*x.shape[:axis], n * (gap + 1), *x.shape[axis + 1 :]))
        return self.slice(joined, axis, 0, n * (gap + 1) - gap)

    def convolution(
        self,
        op: str,
        x: TapeValue,
        w: TapeValue,
        *more: TapeValue,
        pads: Sequence[int] = (),
        group: int = 1,
        **attrs: Any,
    ) -> TapeValue:
        """A convolution of up to three dimensions by ``op``, by default the standard one for the rank. An
        image of fewer than two dimensions gets leading dimensions of size 1. ``attrs``: lists with one number
        per dimension, and further attributes."""
        rank, missing = x.rank - 2, max(4 - x.rank, 0)
        ones, zeros = [1] * missing, [0] * missing
        if missing:
            x, w = (self.reshape(v, (*v.shape[:2], *ones, *v.shape[2:])) for v in (x, w))
            attrs = {key: [*ones, *v] if isinstance(v, list) else v for key, v in attrs.items()}
        pads = list(pads) or [0] * (2 * rank)
        attrs |= {"pads": [*zeros, *pads[:rank], *zeros, *pads[rank:]], "group": group}
        made = self.op(op or ("conv3d" if rank == 3 else "conv2d"), x, w, *more, **attrs)
        return self.reshape(made, (*made.shape[:2], *made.shape[2 + missing :]))

    def stack(self, values: Sequence[TapeValue], axis: int) -> TapeValue:
        """Values of equal shape, stacked along a new axis."""
        made = [self.op("unsqueeze", value, axes=[axis]) for value in values]
        return made[0] if len(made) == 1 else self.op("concatenate", *made, axis=axis)

    def full(self, shape: tuple[int, ...], value: Any, dtype: str) -> TapeValue:
        """A tensor filled with one value; a large tensor takes no memory before a run."""
        return self.expand(self.const(value, dtype), tuple(shape))

    def filled(
        self, shape: tuple[int, ...], make: Callable[[], np.ndarray], dtype: str, source: str
    ) -> TapeValue:
        """A constant that is computed when it is read."""
        kind = TensorType(dtype, tuple(shape))
        read = Constant.derived(
            kind, lambda: np.asarray(make()).astype(dtypes.to_numpy(dtype)), source=source
        )
        return TapeValue(kind, constant=read, tape=self.tape)
