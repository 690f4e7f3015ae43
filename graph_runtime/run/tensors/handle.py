"""Handle: where the values of a tensor are, as an array and as the copy engine's argument, and when that
ends.

Another thread may let a handle lead elsewhere at any time (``x += y``, an eviction). The handle then keeps
nothing of the old memory, and a reader gets values, address and owner that belong together.

Writes are atomic with respect to moves that no user asked for. A writer holds the lock ``moves`` from the
look at where a tensor is until the write there is done or queued; an eviction holds it from the copy of the
values until all handles lead to the copy. So each write comes before the eviction's copy, or goes to the new
memory.

A handle's arrays are read-only, except those of ``_target`` and ``_exported``, which wait for queued work."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.dtypes import to_numpy
from ...base.errors import HandleError, KernelError, throw
from ...base.locks import new_rlock
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, L1, Layout
from ...binding import core
from ...binding.core import host_view, writable_view
from ...ir.graph import TensorType
from ..device_handles import DeviceHandle
from ..queues.buffer import Buffer, Writing, check_timeout
from .donated import Donated, Failed, unchanged
from .lineage import before_write, recover
from .spec import TensorSpec, spec_of

if TYPE_CHECKING:
    from typing import Self

# lock order: its holder takes neither lineage's lock nor donations, but only the lock of overwrites
# (donated.py)
moves = new_rlock()
_numbers = itertools.count(1)  # source of ids and versions; next() is atomic
_naming = new_rlock()


class Handle:
    """A handle keeps alive the memory to which it leads. A handle that is not ``known`` to the device is a
    snapshot: no other thread lets it lead elsewhere.

    ``_owner``: the object that keeps the memory, a Buffer or a session's object; ``_gone``: why the handle
    leads nowhere; ``_origin``: the handle of which this is an alias; ``_recipe``: how to make the values
    again (lineage.py)."""

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

    device: Device
    readonly: bool
    type: TensorType
    layout: Any

    def __init__(
        self,
        device: Device,
        handle: DeviceHandle,
        type_: TensorType,
        layout: Layout,
        addr: int,
        owner: object,
        readonly: bool = False,
        known: bool = True,
    ):
        self.device, self.layout, self.type, self.readonly = device, layout, type_, readonly
        self._handle, self._addr = handle, addr
        self._owner: Any = owner
        self._view: np.ndarray | None = None
        self._target_view: np.ndarray | None = None
        self._copy_arg: core.Arg | None = None
        self._spec: TensorSpec | None = None
        self._gone: str | Donated | Failed | None = None
        self._recipe: Any = None
        self._origin: Handle | None = None
        self._id: int | None = None
        self._version: int | None = None
        self._retained = False
        if known:
            handle.tensors.add(self)

    # **************** identity ****************

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        """The logical dtype's name, for example "float32"; ``layout`` says in which format a device stores
        it."""
        return self.type.dtype

    @property
    def id(self) -> int:
        """A number that no other handle of this process has."""
        if self._id is None:
            with _naming:  # locked, so that two threads get the same number
                self._id = self._id or next(_numbers)
        return self._id

    @property
    def version(self) -> tuple[int, int]:
        """A pair that no other contents have. It is new after every copy_from and every submission that
        writes the memory, through any handle, but not after a session's inline runs."""
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
    def spec(self) -> TensorSpec:
        """Device, type and layout as one object. Tensors with equal device, type and layout have the same
        object."""
        found = self._spec
        while found is None:  # another thread may evict the tensor meanwhile
            owner = self._owner
            made = spec_of(self.device, self.type, self.layout)
            if self._owner is owner:
                self._spec = found = made
        return found

    # **************** waiting ****************

    @property
    def ready(self) -> bool:
        """Whether wait() would return, or raise, at once."""
        buffer = self._events
        return buffer is None or buffer.ready

    def wait(self, timeout: float | None = None) -> Self:
        """Wait until the values are there, ``timeout`` seconds at most, and return the handle itself. Raises
        HandleError, WaitTimeoutError, InputError for an invalid timeout, and the error of the run or copy
        that should have written them. Failed results of eager ops are made again (run/tensors/lineage.py)."""
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
            buffer = self._events  # a new Buffer of the same block, with valid contents
        self._recipe = None
        return self

    # **************** when it ends ****************

    def alive(self) -> Self:
        """The handle itself. Raises HandleError for a handle that leads nowhere, and the run's error for an
        output whose values never came."""
        why, owner = self._gone, self._owner
        if why is not None:
            why, owner = self._went(wait=True), self._owner
        if isinstance(why, Failed):
            throw(why.failure())
        if why is None and owner.__class__ is Buffer and owner.pointer is None:
            why = "was freed by force, through another handle"
        if why is not None:
            text = f"tensor {self.id} ({self.type} on {self.device}) {why}: it cannot be used any more"
            raise HandleError(text, tensor=self.id, device=str(self.device))
        return self

    def give_up(self, why: str | Donated) -> None:
        """Let later uses raise HandleError, "tensor 7 <why>". The memory lives as long as others need it."""
        kept = self._owner, self._addr, self.layout, self._origin
        self._gone = why
        self._owner = self._origin = None
        self._view = self._target_view = self._copy_arg = None
        if isinstance(why, Donated):
            why.keep(self, kept)

    def come_back(self, gone: Donated, buffer: Buffer) -> None:
        """Lead to the old memory again, through ``buffer``, because the run to which the handle was donated
        failed and left the values unchanged. Does nothing if the handle has come back before."""
        if self._gone is gone and gone.kept is not None:
            self._spec = None
            _, self._addr, self.layout, self._origin = gone.kept
            self._owner, self._gone = buffer, None

    def follow(self, old: Buffer, buffer: Buffer) -> None:
        """Use another Buffer of the same block."""
        if self._owner is old:
            self._owner = buffer
            self._view = self._target_view = self._copy_arg = None

    def lose(self, failed: Failed) -> None:
        """From now on, raise the failure when the handle is used, because its values never came. The memory
        goes back to its donor."""
        if self._gone is None:
            self._gone = failed
            self._owner = self._view = self._target_view = self._copy_arg = None

    def _went(self, wait: bool = False) -> str | Donated | Failed | None:
        """Why the handle leads nowhere, or None if it leads to memory."""
        gone = self._gone
        return None if isinstance(gone, Donated) and gone.comes_back(self, wait) else gone

    # **************** where it leads ****************

    def snapshot(self) -> Self:
        """A handle on the same memory that the device does not know, so it never leads elsewhere. Raises
        HandleError."""
        now = self.alive()  # checked first: a donated handle may come back
        made = self.__class__(
            now.device, now._handle, now.type, now.layout, now._addr, now._owner, now.readonly, False
        )
        self.alive()  # checked again, because another thread may have given up the handle
        return made

    def alias(self) -> Self:
        """Another handle on the same memory, with the same retain flag and version."""
        self.alive()  # outside of the lock, because a donated handle may wait here to come back
        with moves:
            made = self.__class__(
                self.device, self._handle, self.type, self.layout, self._addr, self._owner, self.readonly
            )
        self.alive()
        made._origin = self if self._origin is None else self._origin
        made._retained, made._recipe = self._retained, self._recipe
        return made

    __copy__ = alias

    def settle(self, other: Handle, of: Buffer | None = None) -> None:
        """Lead to the memory of ``other`` from now on, which has the same values elsewhere on the device; the
        old memory is freed when queued work is over. ``of``: do this only if the handle still leads to that
        memory. Evictions use this method, so that handles stay valid."""
        if of is not None and self._owner is not of:
            return
        _kept = self._owner  # its end may let in other threads, which should find all fields new
        self._spec = None  # first: a reader of the owner, then the spec, gets no older spec
        self.layout, self._addr, self._owner = other.layout, other._addr, other._owner
        self._view = self._target_view = self._copy_arg = None

    def overwritten(self, recipe: Any = None) -> Self:
        """The handle itself, after its memory gets values other than those of its recipe: it takes another
        recipe, or none."""
        self._recipe = recipe
        return self

    def remade(self, other: Handle, recipe: object) -> None:
        """Lead to ``other``, which has the values that failed to come, made by ``recipe``. Does nothing if
        the handle got other values meanwhile."""
        with moves:
            if self._recipe is recipe:
                self.settle(other)
                self._recipe = None

    # **************** reading ****************

    def _written(self) -> tuple[np.ndarray | core.Arg, object]:
        """(live values of a host tensor or the copy engine's argument, object to keep while that memory is
        read). Waits. Raises the errors of Tensor.wait."""
        while True:
            owner = self._owner
            kept = owner, getattr(owner, "pointer", None)  # another thread may free it by force
            view = self.wait()._host_view()
            values = self._arg if view is None else view
            if self._owner is owner:
                return values, kept

    @property
    def _arg(self) -> core.Arg:
        """The memory as the copy engine's argument."""
        arg, owner = self._copy_arg, self._owner
        if arg is None:
            addr = self._addr | self._handle.shard_tag(self.layout, self.shape)
            arg = core.tensor_arg(addr, self.dtype, self.shape, self.layout)
            self._copy_arg = arg if self._owner is owner else None
        return arg

    def _host_view(self) -> np.ndarray | None:
        """The live values of a host tensor whose dtype numpy has, read-only, else None."""
        view, owner = self._view, self._owner
        if view is None and self.layout.memory == HOST:
            view = host_view(self.type, self._addr, owner)
            self._view = view if self._owner is owner else None
        return view

    def _turn(self) -> Writing | None:
        """The host's turn to write the memory, after waiting for queued work that uses it; None if no queued
        work can use it. Raises HandleError, DeviceError."""
        while True:
            owner = self.alive()._owner
            buffer = getattr(owner, "events", None)
            turn = None if buffer is None else buffer.writing()
            if self._owner is owner:
                told = getattr(owner, "on_write", None)
                if told is not None:
                    told()
                return turn
            turn = None  # another thread let the handle lead elsewhere meanwhile

    def _overwrite(self, values: np.ndarray | core.Arg, handle: DeviceHandle | None, kept: object) -> None:
        """Write the memory in the host's turn. ``values``: an array, or an Arg of memory on the device of
        ``handle``. ``kept`` keeps the source alive."""
        while True:
            turn = self._turn()
            try:
                # only evictions of L1 and remaking of failed results move a tensor unasked
                if self.layout.memory != L1 and self._recipe is None:
                    if turn is None or self._events is turn.buffer:
                        self._put(values, handle)
                        return
                    continue
                with moves:
                    if turn is None or self._events is turn.buffer:
                        self.overwritten()._put(values, handle)
                        return
            finally:
                if turn is not None:
                    turn.close()

    def _put(self, values: np.ndarray | core.Arg, handle: DeviceHandle | None) -> None:
        if isinstance(values, np.ndarray):
            target = self._target()
            if target is not None:
                np.copyto(target, values)
                return
            values = core.host_arg(np.asarray(values, to_numpy(self.dtype), order="C"), self.dtype)
        core.copy(handle, values, self._handle, self._arg)

    def _target(self) -> np.ndarray | None:
        """The values of a host tensor, for the holder of its turn to write until the turn is closed; None as
        in _host_view. Do not keep the array."""
        view, owner = self._target_view, self._owner
        if view is None and self.layout.memory == HOST:
            view = writable_view(self.type, self._addr, owner)
            self._target_view = view if self._owner is owner else None
        return view

    def _exported(self) -> np.ndarray | None:
        """An array of a host tensor that may be written as long as the array lives; None as in _host_view."""
        before_write(self)
        turn = self._turn()
        return writable_view(self.type, self._addr, self._owner if turn is None else turn)
