"""Rules run at once: each op is launched, and its result is a tensor of the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.graph import TensorType
from ..ir.ops import registry
from ..ir.value import Value, with_constants
from ..run.single import operands
from ..run.single.upload import push
from ..run.tensors.spec import default_spec
from ..run.tensors.tensor import Tensor
from . import content, several
from .counters import Unsupported
from .recording import now
from .store import devices

_MOST_KEPT = 4096  # maximum number of elements of an array that is kept as a constant
SEVERAL = frozenset({"topk"})  # ops with several outputs, which run as programs of one node


@dataclass(slots=True, eq=False)
class EagerValue(Value):
    """A tensor of the runtime; its operators run at once. ``emitter``: the Eager that runs them."""

    emitter: Eager
    tensor: Tensor

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.type.shape

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> Any:
        """The result of an op on ``operands``. Raises Unsupported if the device has no kernel for it, or if
        the tensor's dtype cannot hold a number among the operands."""
        return self.emitter.launch(op, with_constants(op, operands, self.emitter.scalar), attrs)

    def scalar(self, number: Any, dtype: str | None = None) -> EagerValue:
        """A tensor without dimensions. Raises Unsupported for a number that the dtype cannot hold."""
        return self.emitter.scalar(number, dtype or self.dtype)


class Eager:
    """The Emitter that runs each op at once, on device number ``index``. ``narrow``: whether 64-bit integers
    are passed as int32, and whether int32 results may stand for 64-bit integers."""

    index: int

    graph = False
    narrow = False
    integers = "int32"

    def __init__(self, index: int):
        self.index, self.device = index, devices()[index]

    def op(self, name: str, *values: Any, **attrs: Any) -> Any:
        """The result of a registry op that is launched on ``values``. An attribute of value None is left out.
        Raises Unsupported if the device has no kernel for these values."""
        return self.launch(name, values, attrs)

    def launch(self, name: str, values: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """As ``op``, with operands and attributes as sequences. The code builds lists, because for few items
        generators cost more."""
        given = (
            tuple([(key, _key(value)) for key, value in attrs.items() if value is not None]) if attrs else ()
        )
        tensors = tuple([value.tensor for value in values])
        if name in SEVERAL:
            return tuple(EagerValue(self, made) for made in several.launch(name, given, tensors))
        try:
            return EagerValue(self, content.apply(name, given, *tensors))
        except ValueError as error:
            raise Unsupported(f"{name}: {error}") from error

    def scalar(self, number: Any, dtype: str) -> EagerValue:
        """A tensor without dimensions. Raises Unsupported for a number that the dtype cannot hold."""
        return self._constant(operands.on_device(_fitting(number, dtype), self.device, dtype))

    def array(self, values: Any, dtype: str) -> EagerValue:
        """The host's ``values``, uploaded in the layout that the device's kernels prefer."""
        array = np.asarray(values, dtypes.to_numpy(dtype))
        made = push(array, default_spec(self.device, TensorType(dtype, array.shape)))
        return self._constant(made) if array.size <= _MOST_KEPT else EagerValue(self, made)

    def filled(self, shape: tuple[int, ...], number: Any, dtype: str) -> EagerValue:
        """A tensor of one number, broadcast on the device if the device can do that, else uploaded."""
        made = self.scalar(number, dtype)
        if not shape:
            return made
        try:
            return made.op("broadcast_to", shape=shape)
        except Unsupported:
            return self.array(np.full(shape, _fitting(number, dtype)), dtype)

    def has(self, name: str, value: Any) -> bool:
        entry = registry.get(name)
        return entry is not None and self.device.kernels in entry.bodies

    def _constant(self, made: Tensor) -> EagerValue:
        if (notes := now.notes) is not None:
            notes.constants.append(made)
        return EagerValue(self, made)


def _key(value: Any) -> Any:
    """An attribute in a form that can be part of a key: a tuple for a list, which compositions may give."""
    return tuple(value) if value.__class__ is list else value


def _fitting(number: Any, dtype: str) -> Any:
    """The number, as an int for an integer dtype. Raises Unsupported if the dtype cannot hold it exactly."""
    if dtypes.is_integer(dtype) and isinstance(number, (int, float)):
        if isinstance(number, float) and not number.is_integer():
            raise Unsupported("a fraction does not fit an integer dtype")
        info = np.iinfo(dtypes.to_numpy(dtype))
        if not info.min <= number <= info.max:
            raise Unsupported(f"{number} does not fit {dtype}")
        return int(number)
    return number
