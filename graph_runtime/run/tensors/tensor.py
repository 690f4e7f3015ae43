"""Tensor: a handle on values that stay where they are, on whatever device that is.

Two kinds of memory hang on one class. A free tensor has memory of its own (a Buffer: made by to(), scatter(),
submit(), eager operations). A session's tensors are live views of its entries: the next run writes into them.
Everything but the values is known without waiting; whatever needs the values waits for their writers.

    Session --tensor(eid)--> Tensor --numpy()--> array on the host
    Session --submit()--> Run --outputs--> Tensor --to("tt:1")--> Tensor
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import InputError
from ...base.machine.layout import HOST
from ...base.showable import Showable
from ...binding import core
from ..device_handles import DeviceHandle
from .copies import Copied
from .dlpack import HOST_DEVICE, export
from .handle import moves
from .host_values import aligned_empty, checked
from .lineage import before_write
from .operators import Operators
from .traffic import record, refuse_hidden

__all__ = ["Tensor"]


class Tensor(Copied, Operators, Showable):
    """A tensor on a device: ``device`` where it lives, ``layout`` how its elements are stored there, ``type``
    the shape and dtype that the host sees, ``readonly`` whether it is a constant. It keeps the memory that
    it shows alive, also when its session is gone. Two handles may show the same memory (``to`` where it
    is): see ``deallocate``.

    Using a handle that was deallocated or donated raises HandleError, which says where that was. A donated
    one whose run failed before it wrote there leads to its values again (donated.py).
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == is elementwise, as numpy's: use .id as a key

    def __repr__(self) -> str:
        gone = self._went()
        return f"Tensor({self.type}, {self.device}, {self.layout}{'' if gone is None else f', {gone}'})"

    def __enter__(self) -> Tensor:
        return self

    def __exit__(self, *_: object) -> None:
        """The end of a with block gives the memory back, as deallocate() does."""
        self.deallocate()

    @property
    def nbytes(self) -> int:
        """Bytes of the values on the host: elements times itemsize, whatever the device pads or packs."""
        return self.type.nbytes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    # **************** to the host ****************

    def numpy(self) -> np.ndarray:
        """A copy on the host, row-major, in the logical dtype.

        Raises DocumentError for a dtype that has no array form, and as wait.
        """
        values, _kept = self._written()
        if isinstance(values, np.ndarray):
            return values.copy()
        array = aligned_empty(self.shape, dtypes.to_numpy(self.dtype))
        core.copy(self._handle, values, None, core.host_arg(array, self.dtype))
        return array

    def __dlpack__(self, **options: Any) -> Any:
        """See dlpack.export. Raises BufferError."""
        return export(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.layout.memory == HOST:
            return HOST_DEVICE
        return self.device.dl_type, self.device.ordinal

    # **************** writing ****************

    def copy_from(self, source: Any, what: str = "value") -> None:
        """Overwrite the values with those of a Tensor or of anything numpy takes, called ``what`` in errors.

        Raises InputError where the shape differs, or the dtype (of an array: beyond a same_kind cast, or for
        a value that it does not hold), and for a constant.
        """
        if self.readonly:
            raise InputError(f"this {self.type} is a constant of the library: it cannot be written")
        values = self._source(source, what)
        if self._events is not None:
            before_write(self)
        (self if self._origin is None else self._origin)._version = None
        self._overwrite(*values)

    def _source(self, source: Any, what: str) -> tuple[Any, DeviceHandle | None, object]:
        """The arguments of _overwrite. Raises InputError, and what failed to write a Tensor."""
        if not isinstance(source, Tensor):
            return checked(source, self.type, what), None, None
        if source.type != self.type:
            raise InputError(
                f"{what} is {source.type}, the graph says {self.type}",
                got=str(source.type),
                wanted=str(self.type),
            )
        values, kept = source._written()
        return values, source._handle, kept

    def asnumpy(self) -> np.ndarray:
        """TVM's name of numpy."""
        return self.numpy()

    def copyfrom(self, source: Any) -> None:
        """TVM's name of copy_from."""
        self.copy_from(source)

    def copyto(self, target: Tensor) -> Tensor:
        """Copy the values into ``target``, which is returned. Raises as copy_from."""
        target.copy_from(self)
        return target

    # **************** fetched unasked ****************

    # Each is counted, and refused inside of no_implicit_transfer(). They raise what numpy() raises, and
    # ImplicitTransferError.

    def item(self) -> Any:
        """The value of a tensor of one element. Raises ValueError for any other."""
        return self._fetched("item()").item()

    def tolist(self) -> Any:
        """The values as nested lists."""
        return self._fetched("tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            view = self._written()[0]
            if not isinstance(view, np.ndarray) or (
                dtype is not None and dtypes.as_numpy(dtype) != view.dtype
            ):
                raise ValueError(f"{self!r} needs a copy to become an array: use copy=None or copy=True")
            exported = None if self.readonly else self._exported()
            return view if exported is None else exported
        array = self._fetched("an array of the tensor") if copy is None else self._fetched("np.array")
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a tensor without dimensions")
        return iter(self._fetched("iteration"))

    def __bool__(self) -> bool:
        return bool(self._fetched("bool()"))

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return self._fetched("an index").__index__()

    def _fetched(self, what: str) -> np.ndarray:
        """numpy(), for ``what`` did not ask for a transfer by name."""
        if self.layout.memory != HOST:
            refuse_hidden(self, what)
            record("implicit", self.device, self.nbytes)
        return self.numpy()

    # **************** lifetime ****************

    @property
    def is_allocated(self) -> bool:
        """Whether the handle still leads to memory."""
        if self._went() is not None:
            return False
        buffer = self.buffer
        return buffer is None or buffer.pointer is not None

    @property
    def retain(self) -> bool:
        """Whether deallocate() and donations leave this handle alone."""
        return self._retained

    @retain.setter
    def retain(self, on: bool) -> None:
        self.alive()._retained = bool(on)

    def deallocate(self, force: bool = False) -> bool:
        """Give the memory back, without waiting: it is used again when queued work that reads it is over.

        The handle cannot be used any more. Memory that several handles show goes with the last of them,
        with ``force`` at once: then the others raise, too. A retained handle stays, whatever ``force`` says,
        with a warning; host memory stays, as in tt-mlir. Returns whether the handle was given up. Raises
        HandleError for one that is gone already, InputError for a session's view.
        """
        buffer = self.alive().buffer
        on_host = self.layout.memory == HOST
        if buffer is None or not (on_host or buffer.owner is None):
            raise InputError(f"{self!r} shows memory of a session: it goes with the session")
        if self._retained:
            warnings.warn(
                f"tensor {self.id} is retained and was not deallocated: set retain to False first",
                stacklevel=2,
            )
            return False
        if on_host:
            return False
        if not force:
            self.give_up("was deallocated")
            return True
        with moves:  # an eviction moves all handles, or none
            buffer = self.alive().buffer
            self.give_up("was deallocated")
            if buffer is not None:
                buffer.free(force=True)
        return True

    def __reduce__(self) -> Any:
        raise TypeError("a Tensor is a handle on memory of this process: pickle tensor.numpy() instead")
