"""RemoteTensor: an output that another machine holds. It comes here when its values are asked for, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...base import dtypes
from ...base.errors import InputError
from ...ir.graph import TensorType
from ...run.tensors.elsewhere import Elsewhere

__all__ = ["RemoteTensor"]


class _Origin(Protocol):
    """The session that outputs are of."""

    def ready(self, flight: Any) -> None: ...
    def came(self, flight: Any, machine: str | None, value: str) -> np.ndarray | None: ...
    def fetch(self, tensors: Sequence[RemoteTensor]) -> None: ...


class RemoteTensor(Elsewhere):
    """``machine`` holds it, ``place`` (run, value) there; ``type`` is its logical type, ``origin`` the
    session that it is of, ``flight`` its run. ``token``: what its machine keeps it for."""

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
        """Its logical shape."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """As numpy has it."""
        return dtypes.to_numpy(self.type.dtype)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.type.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its values on a host."""
        return self.type.nbytes

    @property
    def is_here(self) -> bool:
        """Whether its values have come."""
        return self._value is not None

    def ready(self) -> None:
        """Wait for its run; a small output is here then. Raises what the run raised."""
        if self._value is None:
            self.origin.ready(self._flight)
            if (value := self.origin.came(self._flight, self.machine, self.place[1])) is not None:
                self.bring(value)

    def bring(self, value: np.ndarray) -> None:
        """Its values, which have come; in the shape that the output has."""
        self._value = value.reshape(self.type.shape)

    def numpy(self) -> np.ndarray:
        """The values, waited for and fetched if they are not here; do not write into them. Raises what the
        run raised, WorkerLost, WaitTimeoutError."""
        return self.gathered([self])[0]

    asnumpy = numpy  # TVM's name

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self.numpy()
        if copy is False and dtype is not None and value.dtype != dtype:
            raise ValueError("another dtype needs a copy")
        return value.astype(value.dtype if dtype is None else dtype, copy=bool(copy))

    @classmethod
    def gathered(cls, tensors: Sequence[Any]) -> list[np.ndarray]:
        """The values of several, in one message a machine."""
        for tensor in tensors:
            tensor.ready()
        left = [tensor for tensor in tensors if tensor._value is None]
        for origin in {id(tensor.origin): tensor.origin for tensor in left}.values():
            origin.fetch([tensor for tensor in left if tensor.origin is origin])
        values = [tensor._value for tensor in tensors]
        if any(value is None for value in values):
            raise InputError("an output did not come")
        return values
