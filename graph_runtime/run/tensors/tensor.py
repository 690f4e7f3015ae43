"""Tensor: a handle on values that stay on their device.

A tensor shows one of two kinds of memory. A free tensor has memory of its own (a Buffer: made by to(),
scatter(), submit(), eager operations). A session's tensors are live views of its entries: the next run writes
into them. Everything but the values is known without waiting; methods that need the values wait for the work
that writes them.

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
from ...base.exact import exactly, fitting
from ...base.machine.layout import HOST
from ...base.showable import Showable
from ...binding import core
from ...ir.graph import TensorType
from ..device_handles import DeviceHandle
from .copies import Copied
from .dlpack import HOST_DEVICE, export, viewed
from .handle import moves
from .lineage import before_write
from .operators import Operators
from .traffic import record, refuse_hidden


class Tensor(Copied, Operators, Showable):
    """A tensor on a device. ``layout``: how its elements are stored there; ``type``: the shape and dtype that
    the host sees; ``readonly``: whether it is a constant. The tensor keeps alive the memory that it shows,
    even when its session is gone. Two handles may show the same memory (``to`` without a change): see
    ``deallocate``.

    Using a handle that was deallocated or donated raises HandleError, which says where that happened. A
    donated handle leads to its values again if the run failed before it wrote the memory (donated.py)."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == is elementwise, as numpy's: use .id as a key

    def __repr__(self) -> str:
        gone = self._went()
        return f"Tensor({self.type}, {self.device}, {self.layout}{'' if gone is None else f', {gone}'})"

    def __enter__(self) -> Tensor:
        return self

    def __exit__(self, *_: object) -> None:
        """Give the memory back, as deallocate() does."""
        self.deallocate()

    @property
    def nbytes(self) -> int:
        """Bytes of the values on the host: number of elements times itemsize, without the padding and packing
        that a device uses."""
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
        """A copy on the host, row-major, in the logical dtype. Raises DocumentError for a dtype that has no
        array form, and the errors of wait."""
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
        """Overwrite the values with the values of ``source``, a Tensor or anything numpy takes. ``what``:
        name of the source in errors. Raises InputError if the shapes differ, if this tensor is a constant, if
        the dtype of a Tensor differs, and if the dtype of an array differs by more than a same_kind cast or
        has a value that this tensor's dtype does not hold."""
        if self.readonly:
            raise InputError(f"this {self.type} is a constant of the library: it cannot be written")
        values = self._source(source, what)
        if self._events is not None:
            before_write(self)
        (self if self._origin is None else self._origin)._version = None
        self._overwrite(*values)

    def _source(self, source: Any, what: str) -> tuple[Any, DeviceHandle | None, object]:
        """The arguments of _overwrite for ``source``. Raises InputError, and the failure of the work that
        should have written a Tensor."""
        if not isinstance(source, Tensor):
            return checked(source, self.type, what), None, None
        if source.type != self.type:
            text = f"{what} is {source.type}, the graph says {self.type}"
            raise InputError(text, got=str(source.type), wanted=str(self.type))
        values, kept = source._written()
        return values, source._handle, kept

    def asnumpy(self) -> np.ndarray:
        """TVM's name for numpy()."""
        return self.numpy()

    def copyfrom(self, source: Any) -> None:
        """TVM's name for copy_from()."""
        self.copy_from(source)

    def copyto(self, target: Tensor) -> Tensor:
        """Copy the values into ``target``, and return ``target``. Raises the errors of copy_from."""
        target.copy_from(self)
        return target

    # **************** implicit transfers ****************

    # Each of these methods is counted as an implicit transfer, and refused inside no_implicit_transfer().
    # They raise the errors of numpy(), and ImplicitTransferError.

    def item(self) -> Any:
        """The value of a tensor of one element. Raises ValueError for a tensor of another size."""
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
        """The result of numpy() for ``what``, an operation that did not ask for a transfer by name."""
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
        """Give the memory back without waiting: the memory is reused when queued work that reads it is over.

        The handle cannot be used any more. Memory that several handles show is freed with the last of them;
        with ``force`` it is freed at once, and the other handles raise, too. A retained handle stays, even
        with ``force``, and a warning is given; host memory stays, as in tt-mlir. Returns whether the handle
        was given up. Raises HandleError for a handle that is gone already, InputError for a view of a
        session's memory."""
        buffer = self.alive().buffer
        on_host = self.layout.memory == HOST
        if buffer is None or not (on_host or buffer.owner is None):
            raise InputError(f"{self!r} shows memory of a session: it goes with the session")
        if self._retained:
            text = f"tensor {self.id} is retained and was not deallocated: set retain to False first"
            warnings.warn(text, stacklevel=2)
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


# **************** callers' values as numpy arrays ****************

ALIGNMENT = 64


def aligned_empty(shape: int | tuple[int, ...], dtype: Any = "float32") -> np.ndarray:
    """An uninitialised numpy array that starts at a multiple of 64 bytes, as zero copy needs."""
    dtype = dtypes.as_numpy(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes].view(dtype).reshape(shape)


def as_host(value: Any) -> np.ndarray:
    """The array that numpy or DLPack makes of a value. Raises InputError."""
    return _from_foreign(value, np.dtype(object))


def as_array(value: Any, type_: TensorType, what: str) -> np.ndarray:
    """A host value as an array of the dtype and shape of ``type_``. Raises the errors of checked."""
    return checked(value, type_, what).astype(dtypes.to_numpy(type_.dtype), copy=False)


def checked(value: Any, type_: TensorType, what: str) -> np.ndarray:
    """A host value as an array of the shape of ``type_``, which numpy can cast to the dtype of ``type_``
    without changing a value. Raises InputError if the shape differs, if numpy would not cast "same_kind"
    (float64 to float32 is allowed, float to int is not), and for a value that the dtype does not hold."""
    wanted = dtypes.to_numpy(type_.dtype)
    array = value if isinstance(value, np.ndarray) else _from_foreign(value, wanted, what)
    if array.shape != type_.shape:
        text = f"{what} has shape {array.shape}, the graph says {type_.shape}"
        raise InputError(text, got=array.shape, wanted=type_.shape)
    if array.dtype != wanted:
        if not np.can_cast(array.dtype, wanted, "same_kind"):
            text = (
                f"{what} is {array.dtype.name}, the graph says {type_.dtype}: convert it with "
                f".astype({wanted.name!r}) if you mean to"
            )
            raise InputError(text, got=array.dtype.name, wanted=type_.dtype)
        return fitting(array, wanted, what)
    return array


def _from_foreign(value: Any, wanted: np.dtype, what: str = "the value") -> np.ndarray:
    """The array of a list, a Python scalar (in the wanted dtype, if the kind is not lost) or a DLPack owner
    (a view of its memory)."""
    if hasattr(value, "__dlpack__"):
        return viewed(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"cannot make an array of this {type(value).__name__}: {error}") from None
    if array.dtype == object:
        raise InputError(f"cannot make an array of {type(value).__name__}", got=type(value).__name__)
    plain = isinstance(value, (list, tuple, int, float, bool))
    if plain and array.size and array.dtype.kind in "iub" and wanted.kind in "iu":
        return exactly(array, wanted, what)
    return array
