"""Handle: where the values of a tensor are, as an array and as what the copy engine gets, and when that ends.

Another thread may let a handle lead elsewhere at any time (``x += y``, an eviction): nothing is kept of
memory that was left, and a reader gets values, address and owner of one time.

A write is at one time, too, for the moves that no user asked for: ``moves`` is held from the look at where a
tensor is until the write there is done or queued, and by an eviction from the copy of the values until all
handles lead to the copy. So each write comes before that copy, or goes to the new memory.

Arrays of it are read-only but those of ``_target`` and ``_exported``, which wait for queued work.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ...base.dtypes import to_numpy
from ...base.errors import HandleError, KernelError, throw
from ...base.locks import new_rlock
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, L1, Layout
from ...binding import core
from ...ir.graph import TensorType
from ..device_handles import DeviceHandle
from ..queues.buffer import Buffer, Writing, check_timeout
from .donated import Donated, Failed, unchanged
from .host_values import host_view, writable_view
from .lineage import before_write, recover
from .spec import TensorSpec, spec_of

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Handle", "moves"]

# what holds it takes neither lineage's lock nor donations; only that of overwrites (donated.py) comes after
moves = new_rlock()
_numbers = itertools.count(1)  # of ids and versions; next() is one step
_naming = new_rlock()


class Handle:
    """It keeps the memory that it leads to alive. One that is not ``known`` to the device is of this moment
    only: no other thread lets it lead elsewhere.

    ``_owner`` keeps the memory, a Buffer or what a session gives; ``_gone`` says why it leads nowhere;
    ``_origin`` is the handle that this is an alias of; ``_recipe`` makes the values again (lineage.py).
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
            tensors = handle.tensors
            tensors.append(ref(self))
            if len(tensors) > tensors.most:
                tensors.sweep()

    # **************** which it is ****************

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
    def spec(self) -> TensorSpec:
        """Device, type and layout as one object, the same for all tensors that agree in them."""
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
        """Whether the values are there: wait() would return, or raise, at once."""
        buffer = self._events
        return buffer is None or buffer.ready

    def wait(self, timeout: float | None = None) -> Self:
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

    # **************** when it ends ****************

    def alive(self) -> Self:
        """The handle itself. Raises HandleError for one that leads nowhere, and for an output whose values
        never came what its run raises."""
        why, owner = self._gone, self._owner
        if why is not None:
            why, owner = self._went(wait=True), self._owner
        if isinstance(why, Failed):
            throw(why.failure())
        if why is None and owner.__class__ is Buffer and owner.pointer is None:
            why = "was freed by force, through another handle"
        if why is not None:
            raise HandleError(
                f"tensor {self.id} ({self.type} on {self.device}) {why}: it cannot be used any more",
                tensor=self.id,
                device=str(self.device),
            )
        return self

    def give_up(self, why: str | Donated) -> None:
        """Let later uses raise HandleError, "tensor 7 <why>"; the memory lives as long as others need it."""
        kept = self._owner, self._addr, self.layout, self._origin
        self._gone = why
        self._owner = self._origin = None
        self._view = self._target_view = self._copy_arg = None
        if isinstance(why, Donated):
            why.keep(self, kept)

    def come_back(self, gone: Donated, buffer: Buffer) -> None:
        """The run that it was donated to failed, and left what it led to: it leads there again, by this
        Buffer, unless it has come back from there before."""
        if self._gone is gone and gone.kept is not None:
            self._spec = None
            _, self._addr, self.layout, self._origin = gone.kept
            self._owner, self._gone = buffer, None

    def follow(self, old: Buffer, buffer: Buffer) -> None:
        """The block that it leads to has another Buffer now."""
        if self._owner is old:
            self._owner = buffer
            self._view = self._target_view = self._copy_arg = None

    def lose(self, failed: Failed) -> None:
        """Its values never came, and its memory goes back to its donor: uses raise what failed."""
        if self._gone is None:
            self._gone = failed
            self._owner = self._view = self._target_view = self._copy_arg = None

    def _went(self, wait: bool = False) -> str | Donated | Failed | None:
        """Why the handle leads nowhere, None where it does not."""
        gone = self._gone
        return None if isinstance(gone, Donated) and gone.comes_back(self, wait) else gone

    # **************** where it leads ****************

    def snapshot(self) -> Self:
        """A handle on the same memory that no device knows: where it leads does not change. Raises
        HandleError."""
        now = self.alive()  # before the look: a donated one may come back
        made = self.__class__(
            now.device, now._handle, now.type, now.layout, now._addr, now._owner, now.readonly, False
        )
        self.alive()  # and after it: another thread may have given it up before
        return made

    def alias(self) -> Self:
        """Another handle on the same memory, with the same retain flag and version."""
        self.alive()  # a donated one may come back, which waits: not under the lock
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
        """Lead to the memory of ``other`` from now on, which has the same values elsewhere on the same
        device; the old memory goes when queued work is over. ``of``: unless it has left that memory already.
        For evictions: handles stay valid."""
        if of is not None and self._owner is not of:
            return
        _kept = self._owner  # its end may let other threads in, which should find all of it new
        self._spec = None  # first: a thread that reads the owner, then the spec, gets no older spec
        self.layout, self._addr, self._owner = other.layout, other._addr, other._owner
        self._view = self._target_view = self._copy_arg = None

    def overwritten(self, recipe: Any = None) -> Self:
        """Other values come into the memory than those that its recipe makes: they have another, or none.
        Returns the handle itself."""
        self._recipe = recipe
        return self

    def remade(self, other: Handle, recipe: object) -> None:
        """Lead to ``other``, which has the values that failed to come, made by ``recipe``; not where other
        values came meanwhile."""
        with moves:
            if self._recipe is recipe:
                self.settle(other)
                self._recipe = None

    # **************** reading ****************

    def _written(self) -> tuple[np.ndarray | core.Arg, object]:
        """Waits: the live values of a host tensor, or what the copy engine gets; and what is to be kept while
        that memory is read. Raises as Tensor.wait."""
        while True:
            owner = self._owner
            kept = owner, getattr(owner, "pointer", None)  # another thread may free it by force
            view = self.wait()._host_view()
            values = self._arg if view is None else view
            if self._owner is owner:
                return values, kept

    @property
    def _arg(self) -> core.Arg:
        """What the copy engine gets."""
        arg, owner = self._copy_arg, self._owner
        if arg is None:
            arg = core.tensor_arg(self._addr, self.dtype, self.shape, self.layout, handle=self._handle)
            self._copy_arg = arg if self._owner is owner else None
        return arg

    def _host_view(self) -> np.ndarray | None:
        """The live values of a host tensor of a dtype that numpy has, to be read, else None."""
        view, owner = self._view, self._owner
        if view is None and self.layout.memory == HOST:
            view = host_view(self.type, self._addr, owner)
            self._view = view if self._owner is owner else None
        return view

    def _turn(self) -> Writing | None:
        """The host's turn to write the memory, which waits for queued work that uses it; None where nothing
        queued can. Raises HandleError, DeviceError."""
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
        """Write the memory when the host's turn has come: values of an array, or those that an Arg names on
        the device of ``handle``. ``kept`` keeps what is read."""
        while True:
            turn = self._turn()
            try:
                # others move a tensor unasked where evictions look, and while it may fail and be made again
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
        """The values of a host tensor, to be written by the holder of its turn, until it is closed; None as
        _host_view. Not to be kept."""
        view, owner = self._target_view, self._owner
        if view is None and self.layout.memory == HOST:
            view = writable_view(self.type, self._addr, owner)
            self._target_view = view if self._owner is owner else None
        return view

    def _exported(self) -> np.ndarray | None:
        """An array of a host tensor, to be written as long as it lives; None as _host_view."""
        before_write(self)
        turn = self._turn()
        return writable_view(self.type, self._addr, self._owner if turn is None else turn)
