"""Rules done at once: each op is launched, its result is a tensor of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.graph import TensorType
from ..ir.ops import registry
from ..run.single import operands
from ..run.single.upload import push
from ..run.tensors.spec import default_spec
from ..run.tensors.tensor import Tensor
from . import content, several
from .counters import Unsupported
from .recording import now
from .store import devices

__all__ = ["Eager"]

_MOST_KEPT = 4096  # elements of an array that is kept as a constant
SEVERAL = frozenset({"topk"})  # ops of several outputs, which are programs of one node


class Eager:
    """The Emitter that does each op at once, on device number ``index``. ``narrow``: 64-bit integers are
    given as int32, and may be results."""

    index: int

    graph = False
    narrow = False
    integers = "int32"

    def __init__(self, index: int):
        self.index, self.device = index, devices()[index]

    def op(self, name: str, *values: Any, **attrs: Any) -> Any:
        """The result of a registry op on ``values``, launched; None for an attribute leaves it out. Raises
        Unsupported where it has no kernel for them."""
        given = tuple((key, value) for key, value in attrs.items() if value is not None)
        entry = registry.get(name)
        if entry is not None and len(values) and entry.name in SEVERAL:
            return several.launch(name, given, values)
        try:
            return content.apply(name, given, *values)
        except ValueError as error:
            raise Unsupported(f"{name}: {error}") from error

    def scalar(self, number: Any, dtype: str) -> Tensor:
        """A tensor without dimensions. Raises Unsupported for a number that the dtype does not hold."""
        return _constant(operands.on_device(_fitting(number, dtype), self.device, dtype))

    def array(self, values: Any, dtype: str) -> Tensor:
        """Values of the host, pushed in the layout that the device likes."""
        array = np.asarray(values, dtypes.to_numpy(dtype))
        made = push(array, default_spec(self.device, TensorType(dtype, array.shape)))
        return _constant(made) if array.size <= _MOST_KEPT else made

    def filled(self, shape: tuple[int, ...], number: Any, dtype: str) -> Tensor:
        """One number everywhere, spread on the device where it can be."""
        made = self.scalar(number, dtype)
        if not shape:
            return made
        try:
            return content.apply("broadcast_to", (("shape", shape),), made)
        except Unsupported:
            return self.array(np.full(shape, _fitting(number, dtype)), dtype)

    def has(self, name: str, value: Any) -> bool:
        entry = registry.get(name)
        return entry is not None and self.device.kernels in entry.bodies


def _constant(made: Tensor) -> Tensor:
    if (notes := now.notes) is not None:
        notes.constants.append(made)
    return made


def _fitting(number: Any, dtype: str) -> Any:
    """The number, as an int where the dtype is one. Raises Unsupported where it would not stay itself."""
    if dtypes.is_integer(dtype) and isinstance(number, (int, float)):
        if isinstance(number, float) and not number.is_integer():
            raise Unsupported("a fraction among integers")
        info = np.iinfo(dtypes.to_numpy(dtype))
        if not info.min <= number <= info.max:
            raise Unsupported(f"{number} is no {dtype}")
        return int(number)
    return number
