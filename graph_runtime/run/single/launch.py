"""Launcher: a program of one kernel, made once for a signature, enqueued for any tensors that have it."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...base.errors import DeviceMemoryError
from ...binding.core import ffi, lib
from ...binding.gr_arg import ARG, arg_record
from ...binding.programs.program import Kernel
from ..queues.buffer import Buffer
from ..queues.template import one_kernel
from ..tensors.eviction import Need, block_need, evicting
from ..tensors.handle import moves
from ..tensors.lineage import Maker, replace, settle_all, watch
from ..tensors.spec import TensorSpec, spec_of
from ..tensors.tensor import Tensor

__all__ = ["Launcher", "Moved", "alias", "rebind"]

_submit_op, _addr, _NULL = lib.gr_submit_op, lib.gr_buffer_addr, ffi.NULL
_MOST_INPUTS = 3  # of gr_submit_op
LARGE = 1 << 18  # bytes of an op's inputs and output: some 100 us of a device, more than its launch takes


class Moved(LookupError):
    """An input is not where the call was selected for: another thread evicted it. Select anew."""


class Launcher:
    """``launch(inputs)`` enqueues ``kernel`` on tensors of the specs it was made for and returns the output,
    a tensor of the output's spec whose values come later. Nothing waits, but where too much is queued or
    memory is short. ``maker`` makes an output again whose kernel failed. ``circular``: the bytes of circular
    buffers that the kernel opens on a core."""

    __slots__ = ("_large", "_maker", "_template", "circular", "inputs", "kernel", "output", "pointer")

    inputs: tuple[TensorSpec, ...]
    circular: int
    kernel: Kernel
    output: TensorSpec

    def __init__(self, kernel: Kernel, inputs: tuple[TensorSpec, ...], output: TensorSpec, maker: Maker):
        self.kernel, self.inputs, self.output, self._maker = kernel, inputs, output, maker
        specs = (*inputs, output)
        self._large = sum(p.type.nbytes for p in specs) >= LARGE
        shapes = np.array([d for p in specs for d in p.type.shape] or [0], np.int64)
        args = np.stack([arg_record(p.type, p.layout, p.type.shape) for p in specs]).view(ARG)
        args["shape"] = 8 * np.cumsum([0, *(len(p.type.shape) for p in specs)])[:-1]
        args["addr"] = [p.tag for p in specs]
        self._template = one_kernel(output.handle, kernel, args, shapes, output.memory, output.extent)
        self.pointer, self.circular = self._template.pointer, self._template.circular

    def launch(self, inputs: tuple[Tensor, ...], evict: bool = True) -> Tensor:
        """Raises HandleError for a tensor that is gone, Moved, DeviceMemoryError. What goes wrong later is
        raised where the output is waited for. ``evict``: whether tensors of others may leave L1 for it."""
        try:
            made: Tensor | None = self._launched(inputs)
        except DeviceMemoryError:
            made = None  # the next try is after this one's frames have gone, which hold the inputs' blocks
        if made is None:
            settle_all()  # recipes keep tensors that have no other use
            needs = partial(self._needs, inputs) if evict else list
            made = evicting(lambda: self._launched(inputs), needs)
        if any(tensor.buffer is None for tensor in inputs):
            made.wait()  # the next run of that session does not wait
        return made

    def launch_pair(self, a: Tensor, b: Tensor) -> Tensor:
        """launch((a, b)), where both have buffers. Raises AttributeError or TypeError for one that has none
        or is gone, and as launch."""
        first, second = a._owner.pointer, b._owner.pointer
        # the specs after the buffers: settle has their order for us; no other thread comes in between here
        at, beside = self.inputs
        if a._spec is not at or b._spec is not beside:
            raise Moved
        made = _submit_op(self.pointer, first, second, _NULL)
        return self.adopt(made, (a, b)) if made else self.launch((a, b))

    def _launched(self, inputs: tuple[Tensor, ...]) -> Tensor:
        buffers = [_buffer_at(at, tensor) for at, tensor in zip(self.inputs, inputs, strict=True)]
        return self.adopt(self._enqueue(buffers), inputs)

    def _needs(self, inputs: tuple[Tensor, ...]) -> list[Need]:
        """What a launch takes of L1. Inputs that are in the way go, too: then the next try raises Moved."""
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
        """The output tensor over the ``gr_buffer *`` that a submission of these inputs gave."""
        to = self.output
        buffer = Buffer(to.handle, to.memory, to.extent, pointer)
        made = Tensor(to.device, to.handle, to.type, to.layout, _addr(pointer), buffer)
        made._spec, made._recipe = to, (self._maker, inputs)
        watch(made, self._large)
        return made


def _buffer_at(at: TensorSpec, tensor: Tensor) -> Buffer:
    """The memory of a tensor with its events; a session's view is borrowed for the time of the call. Raises
    Moved where the tensor is not of that spec."""
    owner = tensor.alive()._owner
    # after the owner: settle has its order for us; and it is not an older owner than that spec's
    if tensor.spec is not at or tensor._owner is not owner:
        raise Moved
    if isinstance(owner, Buffer):
        return owner
    return Buffer.borrow(at.handle, tensor.wait()._addr, at.extent, tensor._owner, at.memory)


def alias(tensor: Tensor, to: TensorSpec) -> Tensor:
    """The same memory as another type. Raises Moved where it has not the layout of ``to`` any more."""
    with moves:
        owner, addr = tensor._owner, tensor._addr
        if tensor.layout != to.layout or tensor._owner is not owner:
            raise Moved
        made = Tensor(to.device, to.handle, to.type, to.layout, addr, owner, tensor.readonly)
    tensor.alive()  # after the look: another thread may have given it up before
    if tensor._recipe is not None:
        made._recipe = (_Aliases(), (tensor,))
        watch(made)
    return made


def rebind(tensor: Tensor, made: Tensor) -> None:
    """Let a handle lead to the new values ``made``, of its own spec. Does not wait: what was queued with
    the old ones reads those."""
    replace(tensor, tensor.alias())
    with moves:
        tensor.settle(made)
        tensor._recipe, tensor._version, tensor._origin = made._recipe, None, None
    if tensor._recipe is not None:
        watch(tensor)


class _Aliases:
    """Maker of aliases: the memory is that of the tensor that they are aliases of."""

    def make_again(self, tensor: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        (source,) = inputs
        now = source.wait().alias()  # it may have been evicted, with or without its aliases
        return alias(now, spec_of(now.device, tensor.type, now.layout))
