"""Tensor: a handle on values that stay where they are, on whatever device that is.

Two kinds of memory hang on one class. A free tensor has memory of its own (a Buffer: made by to(), scatter(),
submit(), eager operations). A session's tensors are live views of its entries: the next run writes into them.
Everything but the values is known without waiting; whatever needs the values waits for their writers.

    Session --tensor(eid)--> Tensor --numpy()--> array on the host
    Session --submit()--> Run --outputs--> Tensor --to("tt:1")--> Tensor
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from weakref import ref

import numpy as np

from ...base import dtypes
from ...base.errors import HandleError, InputError, KernelError
from ...base.locks import new_rlock
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, Layout
from ...base.providers import provided
from ...ir.graph import TensorType
from .. import core
from ..queues.buffer import Buffer, check_timeout
from .dlpack import HOST_DEVICE, export
from .donated import Failed, unchanged
from .host_values import aligned_empty, as_array
from .implicit import Fetching
from .lifetime import Lifetime
from .lineage import before_write, recover
from .operators import Operators
from .shown import Shown
from .spec import spec_of

__all__ = ["Tensor"]

_numbers = itertools.count(1)  # of ids and versions; next() is one step
_naming = new_rlock()


class Tensor(Operators, Fetching, Lifetime, Shown):
    """A tensor on a device: ``device`` where it lives, ``layout`` how its elements are stored there, ``type``
    the shape and dtype that the host sees, ``readonly`` whether it is a constant. It keeps the memory that
    it shows alive, also when its session is gone. Two handles may show the same memory (``to`` where it
    is): see ``deallocate``. One that is not ``known`` to the device is of this moment only: no other
    thread lets it lead elsewhere.

    Using a handle that was deallocated or donated raises HandleError, which says where that was. A donated
    one whose run failed before it wrote there leads to its values again (donated.py).
    """

    __slots__ = (
        "__weakref__",
        "_addr",
        "_copy_arg",
        "_gone",
        "_handle",
        "_id",
        "_origin",
        "_owner",
        "_recipe",
        "_retained",
        "_spec",
        "_target_view",
        "_version",
        "_view",
        "device",
        "layout",
        "readonly",
        "type",
    )

    def __init__(
        self,
        device: Device,
        handle: core.DeviceHandle,
        type_: TensorType,
        layout: Layout,
        addr: int,
        owner: object,
        readonly: bool = False,
        known: bool = True,
    ):
        self.device, self.layout, self.type, self.readonly = device, layout, type_, readonly
        self._handle, self._addr, self._owner = handle, addr, owner
        self._copy_arg = self._view = self._target_view = self._spec = self._gone = self._recipe = None
        self._origin = self._id = self._version = None
        self._retained = False
        if known:
            tensors = handle.tensors
            tensors.append(ref(self))
            if len(tensors) > tensors.most:
                tensors.sweep()

    # **************** what is known without waiting ****************

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        """The logical dtype's name, as "float32"; ``layout`` says in which format a device stores it."""
        return self.type.dtype

    @property
    def id(self) -> int:
        """A number that no other handle of this process has."""
        if self._id is None:
            with _naming:  # two threads get one number
                self._id = self._id or next(_numbers)
        return self._id

    @property
    def version(self) -> tuple[int, int]:
        """What no other contents have: new with every copy_from and every submission that writes the memory,
        on all its handles; not with a session's inline runs."""
        origin = self if self._origin is None else self._origin
        if origin._version is None:
            origin._version = next(_numbers)
        buffer = self.alive().buffer
        return origin._version, 0 if buffer is None else buffer.version

    @property
    def buffer(self) -> Buffer | None:
        """The block of memory with its events; None for a view of a session's memory."""
        return self._owner if self._owner.__class__ is Buffer else None

    @property
    def _events(self) -> Buffer | None:
        return getattr(self.alive()._owner, "events", None)

    @property
    def spec(self) -> Any:
        """Device, type and layout as one object, the same for all tensors that agree in them."""
        found = self._spec
        while found is None:  # another thread may evict the tensor meanwhile
            owner = self._owner
            made = spec_of(self.device, self.type, self.layout)
            if self._owner is owner:
                self._spec = found = made
        return found

    def __repr__(self) -> str:
        gone = self._went()
        return f"Tensor({self.type}, {self.device}, {self.layout}{'' if gone is None else f', {gone}'})"

    # **************** waiting ****************

    @property
    def ready(self) -> bool:
        """Whether the values are there: wait() would return, or raise, at once."""
        buffer = self._events
        return buffer is None or buffer.ready

    def wait(self, timeout: float | None = None) -> Tensor:
        """Wait until the values are there, ``timeout`` seconds at most, and return the handle itself.

        Raises HandleError, WaitTimeoutError, InputError for what is no timeout, and what the run or copy
        raised that was to write them. What an eager op should have written is made again
        (run/tensors/lineage.py).
        """
        if timeout is not None:
            check_timeout(timeout)
        buffer = self._events
        while buffer is not None:
            try:
                buffer.wait(timeout)
                break
            except KernelError:
                if recover(self):
                    break
                if not unchanged(buffer, self, wait=True) and self._events is buffer:
                    raise
            buffer = self._events  # another of the same block, whose contents are right
        self._recipe = None
        return self

    def __await__(self) -> Iterator[Any]:
        return provided("transfers").waiting(self).__await__()

    # **************** to the host ****************

    def numpy(self) -> np.ndarray:
        """A copy on the host, row-major, in the logical dtype.

        Raises DocumentError for a dtype that has no array form, and as wait.
        """
        view, arg, _kept = self._written()
        if view is not None:
            return view.copy()
        array = aligned_empty(self.shape, dtypes.to_numpy(self.dtype))
        core.copy(self._handle, arg, None, core.host_arg(array, self.dtype))
        return array

    def __dlpack__(self, **options: Any) -> Any:
        """See dlpack.export. Raises BufferError."""
        return export(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.layout.memory == HOST:
            return HOST_DEVICE
        return self.device.dl_type, self.device.ordinal

    # **************** moving and writing ****************

    def to(
        self,
        device: Device | str | None = None,
        layout: Layout | str | None = None,
        format: str | None = None,
    ) -> Tensor:
        """A handle on the values elsewhere: see transfers.to."""
        return provided("transfers").to(self, device, layout, format)

    def copy_from(self, source: Any, what: str = "value") -> None:
        """Overwrite the values with those of a Tensor or of anything numpy takes, called ``what`` in errors.

        Raises InputError where the shape differs, or the dtype (of an array: beyond a same_kind cast), and
        for a constant.
        """
        if self.readonly:
            raise InputError(f"this {self.type} is a constant of the library: it cannot be written")
        values = self._source(source, what)
        if self._events is not None:
            before_write(self)
        (self if self._origin is None else self._origin)._version = None
        self._overwrite(*values)

    def _source(self, source: Any, what: str) -> tuple[Any, ...]:
        """The arguments of _overwrite. Raises InputError, and what failed to write a Tensor."""
        if not isinstance(source, Tensor):
            return as_array(source, self.type, what), None, None, None
        if source.type != self.type:
            raise InputError(
                f"{what} is {source.type}, the graph says {self.type}",
                got=str(source.type),
                wanted=str(self.type),
            )
        view, arg, kept = source._written()
        return view, arg, source._handle, kept

    asnumpy, copyfrom = numpy, copy_from  # TVM's names

    def copyto(self, target: Tensor) -> Tensor:
        """Copy the values into ``target``, which is returned. Raises as copy_from."""
        target.copy_from(self)
        return target

    # **************** lifetime ****************

    def alive(self) -> Tensor:
        """The handle itself. Raises HandleError for one that leads nowhere, and for an output whose values
        never came what its run raises."""
        why, owner = self._gone, self._owner
        if why is not None:
            why, owner = self._went(wait=True), self._owner
        if isinstance(why, Failed):
            raise why.failure()
        if why is None and owner.__class__ is Buffer and owner.pointer is None:
            why = "was freed by force, through another handle"
        if why is not None:
            raise HandleError(
                f"tensor {self.id} ({self.type} on {self.device}) {why}: it cannot be used any more",
                tensor=self.id,
                device=str(self.device),
            )
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return provided("transfers").duplicate(self)

    def __reduce__(self) -> Any:
        raise TypeError("a Tensor is a handle on memory of this process: pickle tensor.numpy() instead")
