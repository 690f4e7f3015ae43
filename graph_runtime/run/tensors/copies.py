"""Copies of a handle's values, on its device or on another device. A copy is queued; its handle is there at
once."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ...base.machine.devices import Device, parse
from ...base.machine.layout import HOST, Layout, footprint
from ...ir.graph import TensorType
from ..device_handles import open_device
from ..queues.buffer import Buffer
from ..queues.run import when_over
from ..queues.template import copy
from .device_layouts import resolve
from .handle import Handle, moves
from .lineage import watch

if TYPE_CHECKING:
    from typing import Self


class Copied(Handle):
    """A handle with methods that copy its values."""

    __slots__ = ()

    @classmethod
    def allocated(
        cls,
        type_: TensorType,
        device: Device,
        layout: Layout,
        holder: str | None = None,
        for_host: bool = False,
    ) -> Self:
        """A tensor of undefined values in a layout that check_layout accepts. ``holder``: name in
        out-of-memory errors; ``for_host``: whether the host will write the tensor. Raises DeviceMemoryError.
        """
        descriptor = device.descriptor
        memory = descriptor.memory(layout.memory)
        nbytes = type_.nbytes if memory.name == HOST else footprint(layout, type_.shape, memory)[0]
        handle = open_device(device)
        number = descriptor.memories.index(memory)
        buffer = Buffer.alloc(handle, number, max(nbytes, 1), holder or f"tensor {type_}", for_host)
        return cls(device, handle, type_, layout, buffer.addr, buffer)

    def to(
        self,
        device: Device | str | None = None,
        layout: Layout | str | None = None,
        format: str | None = None,
    ) -> Self:
        """A handle on the values on ``device``, in ``layout``; this tensor stays as it is.

        ``layout``: a Layout, or "tile" or "row_major" for the device's main memory. None keeps the layout on
        the tensor's own device; on another device it means the layout that planning chooses. ``format``:
        format of floats, for example "bf16". If nothing changes, the result shows the same memory (an alias).
        The copy is queued. Borrowed host memory must not be written before the result is ready. Raises
        HandleError, DeviceError for a layout that the device does not have, DeviceMemoryError."""
        self.alive()
        device = self.device if device is None else parse(device)
        same = layout is None and format is None and device == self.device
        wanted = self.layout if same else resolve(self.type, device, layout, format)
        if device == self.device and wanted == self.layout:
            return self.alias()
        return self._copied(device, wanted)

    def _copied(self, device: Device, layout: Layout) -> Self:
        made = self.allocated(self.type, device, layout)
        queue_copy(self, made)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A tensor with memory of its own, of the same spec and values."""
        return self.alive()._copied(self.device, self.layout)

    def __await__(self) -> Generator[Any, None, Self]:
        return self._when_ready().__await__()

    async def _when_ready(self) -> Self:
        if not self.ready:
            await when_over(lambda: self.ready)
        return self.wait()


class _CopyMaker:
    """Maker (run/tensors/lineage.py) of copies of eager results."""

    def make_again(self, tensor: Any, inputs: tuple[Any, ...]) -> Any:
        (source,) = inputs
        again = tensor.allocated(tensor.type, tensor.device, tensor.layout)
        queue_copy(source.wait(), again)
        assert again.buffer is not None  # allocated gave it a buffer
        again.buffer.wait()
        return again


def queue_copy(source: Any, target: Any) -> None:
    """Copy the values of one tensor to another of equal type. Between free tensors the copy is queued. A view
    of a session's memory is read or written at once, because the session's next inline run does not wait."""
    if source.buffer is None or target.buffer is None:
        target.copy_from(source)
        return
    with moves:
        read, written = source.snapshot(), target.snapshot()
        # an eviction leads a free tensor to another buffer, so these tensors still have one
        copy(read._owner, read.layout, written._owner, written.layout, source.type)
        if source is not target:  # the source may still fail, and be made again
            target.overwritten(None if source._recipe is None else (_CopyMaker(), (source,)))
    if target._recipe is not None:
        watch(target)
