"""What converters emit registry ops with: an op, and the moves that many of them need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import UnsupportedOpError
from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops.moving.shape import exactly
from .read import check_size
from .tape import SMALL, Tape, TapeValue

__all__ = ["Emitting"]


class Emitting:
    """``tape`` gets the ops; ``what`` says to people whose constants they have."""

    tape: Tape
    what: str

    def op(self, op: str, *inputs: TapeValue, **attrs: Any) -> Any:
        """A registry op: its result, or a tuple where it has several."""
        made = self.tape.op(op, inputs, attrs)
        return made[0] if len(made) == 1 else made

    def const(self, array: Any, dtype: str | None = None) -> TapeValue:
        """A constant. Raises UnsupportedOpError where an integer ``dtype`` would change it."""
        made = self.tape.array(array, dtype, f"a constant of {self.what}")
        if dtypes.is_integer(made.dtype) and np.asarray(array).dtype.kind == "f":
            held = made.known()
            if held is not None and not np.array_equal(array, held):
                raise UnsupportedOpError(f"{self.what} has a number that {dtype} does not hold", got=array)
        return made

    def scalar(self, value: Any, like: TapeValue) -> TapeValue:
        """A constant of no dimensions and the dtype of ``like``."""
        return self.const(value, like.dtype)

    def cast(self, x: TapeValue, dtype: str) -> TapeValue:
        """x in a dtype; x itself where it has it."""
        return x if x.dtype == dtype else self.op("cast", x, to=dtype)

    def fits(self, *elements: int) -> None:
        """Raise GraphError unless an array of so many elements may be made while the file is read."""
        self.tape.budget.fits(8 * math.prod(elements), self.what)

    def reshape(self, x: TapeValue, shape: tuple[int, ...] | list[int]) -> TapeValue:
        """The same elements in a shape that is known in full."""
        shape = tuple(int(n) for n in shape)
        if shape == x.shape:
            return x
        return self.op("reshape", x, **exactly(shape))

    def transpose(self, x: TapeValue, perm: list[int] | tuple[int, ...]) -> TapeValue:
        """Axis i of the result is axis perm[i] of x; x itself where all stay."""
        perm = [int(p) for p in perm]
        return x if perm == list(range(x.rank)) else self.op("transpose", x, perm=perm)

    def expand(self, x: TapeValue, shape: tuple[int, ...], weight: bool = False) -> TapeValue:
        """Broadcast to exactly this shape. ``weight``: a constant stays one however large it gets, and is
        made when it is read."""
        if x.shape == tuple(shape):
            return x
        if not weight or x.constant is None or math.prod(shape) * 8 <= SMALL:
            return self.op("broadcast_to", x, shape=tuple(shape))
        kind = TensorType(x.dtype, tuple(shape))
        check_size(kind, self.what)
        made = Constant.derived(
            kind, lambda array: np.broadcast_to(array, kind.shape), x.constant, source=self.what
        )
        return TapeValue(kind, constant=made)

    def slice(self, x: TapeValue, axis: int, start: int, end: int, step: int = 1) -> TapeValue:
        """x[start:end:step] along one axis."""
        if (start, step) == (0, 1) and end == x.shape[axis]:
            return x
        return self.op("slice", x, starts=[start], ends=[end], axes=[axis], steps=[step])

    def stack(self, values: Sequence[TapeValue], axis: int) -> TapeValue:
        """Values of one shape along a new axis."""
        made = [self.op("unsqueeze", value, axes=[axis]) for value in values]
        return made[0] if len(made) == 1 else self.op("concatenate", *made, axis=axis)

    def full(self, shape: tuple[int, ...], value: Any, dtype: str) -> TapeValue:
        """A tensor of one value; no memory of its size is needed before a run where it is large."""
        return self.expand(self.const(value, dtype), tuple(shape))

    def filled(
        self, shape: tuple[int, ...], make: Callable[[], np.ndarray], dtype: str, source: str
    ) -> TapeValue:
        """A constant that is computed when it is read."""
        kind = TensorType(dtype, tuple(shape))
        read = Constant.derived(
            kind, lambda: np.asarray(make()).astype(dtypes.to_numpy(dtype)), source=source
        )
        return TapeValue(kind, constant=read)

    def each(self, op: str, *values: TapeValue, **attrs: Any) -> TapeValue:
        """Fold an op of two inputs over any number of values."""
        made = values[0]
        for value in values[1:]:
            made = self.op(op, made, value, **attrs)
        return made
