"""RemoteTensor: an output on another machine. Its values are fetched when they are first needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...base import dtypes
from ...base.errors import InputError
from ...ir.graph import TensorType
from ...run.tensors.transfers import Elsewhere


class _Origin(Protocol):
    """The parts of a session that its outputs need."""

    def ready(self, flight: Any) -> None: ...
    def came(self, flight: Any, machine: str | None, value: str) -> np.ndarray | None: ...
    def fetch(self, tensors: Sequence[RemoteTensor]) -> None: ...


class RemoteTensor(Elsewhere):
    """An output of a run, on another machine. ``machine``: name of that machine; ``place``: (run, value);
    ``type``: logical type; ``origin``: the output's session; ``flight``: the output's run. The machine keeps
    the values while ``token`` lives."""

    _value: np.ndarray | None

    def __init__(
        self,
        origin: _Origin,
        machine: str | None,
        place: tuple[int, str],
        type_: TensorType,
        flight: Any,
        token: object,
    ):
        self.origin, self.machine, self.place, self.type = origin, machine, place, type_
        self._flight, self._token, self._value = flight, token, None

    def __repr__(self) -> str:
        where = "here" if self._value is not None else f"on {self.machine or 'the caller'}"
        return f"<RemoteTensor {self.type}, {where}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape of the output."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """numpy dtype of the output."""
        return dtypes.to_numpy(self.type.dtype)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.type.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values on a host."""
        return self.type.nbytes

    @property
    def is_here(self) -> bool:
        """Whether the values have been fetched."""
        return self._value is not None

    def ready(self) -> None:
        """Wait for the run of the output; the values of a small output are here afterwards. Raises the run's
        error."""
        if self._value is None:
            self.origin.ready(self._flight)
            if (value := self.origin.came(self._flight, self.machine, self.place[1])) is not None:
                self.bring(value)

    def bring(self, value: np.ndarray) -> None:
        """Store the fetched values, in the shape of the output."""
        self._value = value.reshape(self.type.shape)

    def numpy(self) -> np.ndarray:
        """The values, awaited and fetched if they are not here yet; do not write to the array. Raises the
        run's error, WorkerLost, WaitTimeoutError."""
        return self.gathered([self])[0]

    asnumpy = numpy  # TVM's name of this method

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self.numpy()
        if copy is False and dtype is not None and value.dtype != dtype:
            raise ValueError("another dtype needs a copy")
        return value.astype(value.dtype if dtype is None else dtype, copy=bool(copy))

    @classmethod
    def gathered(cls, tensors: Sequence[Any]) -> list[np.ndarray]:
        """The values of several tensors, fetched with one message per machine."""
        for tensor in tensors:
            tensor.ready()
        left = [tensor for tensor in tensors if tensor._value is None]
        for origin in {id(tensor.origin): tensor.origin for tensor in left}.values():
            origin.fetch([tensor for tensor in left if tensor.origin is origin])
        values = [tensor._value for tensor in tensors]
        if any(value is None for value in values):
            raise InputError("the values of an output did not arrive")
        return values
