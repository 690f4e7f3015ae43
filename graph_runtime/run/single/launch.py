"""Launcher: a program of one kernel, made once for the specs of its inputs and output, then queued for any
tensors of these specs."""

from __future__ import annotations

from functools import partial

from ...base.errors import DeviceMemoryError
from ...binding.core import ffi, lib
from ...binding.programs.program import Kernel
from ..queues.buffer import Buffer
from ..queues.template import one_kernel
from ..tensors.eviction import Need, block_need, evicting
from ..tensors.handle import moves
from ..tensors.lineage import Maker, replace, settle_all, watch
from ..tensors.spec import TensorSpec, spec_args, spec_of
from ..tensors.tensor import Tensor

_submit_op, _addr, _NULL = lib.gr_submit_op, lib.gr_buffer_addr, ffi.NULL
_MOST_INPUTS = 3  # most inputs that gr_submit_op takes
LARGE = 1 << 18  # bytes of an op's inputs and output: it takes a device some 100 us, longer than a launch


class Moved(LookupError):
    """Error: an input has left the place for which the call was selected, because another thread evicted it.
    Select the call again."""


class Launcher:
    """``launch(inputs)`` enqueues ``kernel`` on tensors of the specs ``inputs`` and returns the output
    tensor, whose values are ready later. The call waits only if too much is queued or memory is short.
    ``maker`` makes a failed output again. ``circular``: bytes of circular buffers that the kernel opens on a
    core."""

    __slots__ = ("_large", "_maker", "_template", "circular", "inputs", "kernel", "output", "pointer")

    inputs: tuple[TensorSpec, ...]
    circular: int
    kernel: Kernel
    output: TensorSpec

    def __init__(self, kernel: Kernel, inputs: tuple[TensorSpec, ...], output: TensorSpec, maker: Maker):
        self.kernel, self.inputs, self.output, self._maker = kernel, inputs, output, maker
        specs = (*inputs, output)
        self._large = sum(p.type.nbytes for p in specs) >= LARGE
        self._template = one_kernel(output.handle, kernel, *spec_args(specs), output.memory, output.extent)
        self.pointer, self.circular = self._template.pointer, self._template.circular

    def launch(self, inputs: tuple[Tensor, ...], evict: bool = True) -> Tensor:
        """Enqueue the kernel. Raises HandleError for a tensor that is gone, Moved, DeviceMemoryError; later
        failures are raised when the output is waited for. ``evict``: whether other tensors may leave L1 to
        make room."""
        try:
            made: Tensor | None = self._launched(inputs)
        except DeviceMemoryError:
            made = None  # try again when this try's frames, which hold the inputs' blocks, are gone
        if made is None:
            settle_all()  # recipes keep tensors that have no other use
            needs = partial(self._needs, inputs) if evict else list
            made = evicting(lambda: self._launched(inputs), needs)
        if any(tensor.buffer is None for tensor in inputs):
            made.wait()  # because the session's next run does not wait for this op
        return made

    def launch_pair(self, a: Tensor, b: Tensor) -> Tensor:
        """As launch((a, b)), for two tensors with buffers. Raises AttributeError or TypeError for a tensor
        that has no buffer or is gone, and the errors of launch."""
        first, second = a._owner.pointer, b._owner.pointer
        # the specs are read after the buffers, because settle changes them in the opposite order; no other
        # thread runs between here and the call
        at, beside = self.inputs
        if a._spec is not at or b._spec is not beside:
            raise Moved
        made = _submit_op(self.pointer, first, second, _NULL)
        return self.adopt(made, (a, b)) if made else self.launch((a, b))

    def _launched(self, inputs: tuple[Tensor, ...]) -> Tensor:
        buffers = [_buffer_at(at, tensor) for at, tensor in zip(self.inputs, inputs, strict=True)]
        return self.adopt(self._enqueue(buffers), inputs)

    def _needs(self, inputs: tuple[Tensor, ...]) -> list[Need]:
        """A launch's needs of L1. Inputs in the way are evicted, too; the next try then raises Moved."""
        to, reads = self.output, dict(enumerate(inputs))
        return block_need(to.handle, to.memory, to.extent, self.circular, reads)

    def _enqueue(self, buffers: list[Buffer]) -> object:
        pointers = [buffer.live() for buffer in buffers]
        if len(pointers) <= _MOST_INPUTS:
            return self._template.call(*pointers)
        slots = ffi.new("gr_buffer *[]", [*pointers, _NULL])
        lib.gr_run_release(self._template.submit(slots))
        return slots[len(pointers)]

    def adopt(self, pointer: object, inputs: tuple[Tensor, ...]) -> Tensor:
        """The output tensor of a submission of these inputs, which returned the ``gr_buffer *``
        ``pointer``."""
        to = self.output
        buffer = Buffer(to.handle, to.memory, to.extent, pointer)
        made = Tensor(to.device, to.handle, to.type, to.layout, _addr(pointer), buffer)
        made._spec, made._recipe = to, (self._maker, inputs)
        watch(made, self._large)
        return made


def _buffer_at(at: TensorSpec, tensor: Tensor) -> Buffer:
    """The Buffer of a tensor's memory, with the memory's events. The memory of a session's view is borrowed
    for the call. Raises Moved if the tensor does not have the spec ``at``."""
    owner = tensor.alive()._owner
    # the spec is read after the owner, because settle changes them in the opposite order; the owner is
    # compared again, so that it is not older than the spec
    if tensor.spec is not at or tensor._owner is not owner:
        raise Moved
    if isinstance(owner, Buffer):
        return owner
    return Buffer.borrow(at.handle, tensor.wait()._addr, at.extent, tensor._owner, at.memory)


def alias(tensor: Tensor, to: TensorSpec) -> Tensor:
    """A handle on the same memory with the type of the spec ``to``. Raises Moved if the tensor no longer has
    the layout of ``to``."""
    with moves:
        owner, addr = tensor._owner, tensor._addr
        if tensor.layout != to.layout or tensor._owner is not owner:
            raise Moved
        made = Tensor(to.device, to.handle, to.type, to.layout, addr, owner, tensor.readonly)
    tensor.alive()  # checked last, because another thread may have given up the tensor
    if tensor._recipe is not None:
        made._recipe = (_Aliases(), (tensor,))
        watch(made)
    return made


def rebind(tensor: Tensor, made: Tensor) -> None:
    """Let a handle lead to ``made``, new values of the handle's own spec. Does not wait: work queued with the
    old values reads the old memory."""
    replace(tensor, tensor.alias())
    with moves:
        tensor.settle(made)
        tensor._recipe, tensor._version, tensor._origin = made._recipe, None, None
    if tensor._recipe is not None:
        watch(tensor)


class _Aliases:
    """Maker of aliases of eager results: an alias shows the memory of the source tensor."""

    def make_again(self, tensor: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        (source,) = inputs
        now = source.wait().alias()  # the source may have been evicted, with or without its aliases
        return alias(now, spec_of(now.device, tensor.type, now.layout))
