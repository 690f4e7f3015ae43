"""Launcher: a program of one kernel, made once for a signature, enqueued for any tensors that have it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import core
from ..bind import COPY_ENVS
from ..buffer import Buffer, keep_until, make_room
from ..graph import COPY
from ..lower import arg_record
from ..program import ARG, Kernel
from ..tensor import Tensor
from .lineage import Maker, settle_all, watch
from .place import Place

__all__ = ["Launcher", "alias", "buffer_of"]

ffi, lib = core.ffi, core.lib
_submit, _submit_op, _run_release = lib.gr_submit, lib.gr_submit_op, lib.gr_run_release
_NULL = ffi.NULL
_MOST_INPUTS = 3  # of gr_submit_op


class Launcher:
    """``launch(inputs)`` enqueues ``kernel`` on tensors of the places it was made for and returns the output,
    a tensor in the output's place whose values come later. Nothing waits, but where too much is queued or
    memory is short. ``maker`` makes an output again whose kernel failed."""

    __slots__ = ("_kept", "_maker", "kernel", "output", "pointer")

    def __init__(self, kernel: Kernel, inputs: tuple[Place, ...], output: Place, maker: Maker):
        self.kernel, self.output, self._maker = kernel, output, maker
        desc, self._kept = _describe(kernel, inputs, output)
        self.pointer = lib.gr_template_create(desc)
        core.check(lib.gr_last_status() if self.pointer == _NULL else 0, op=kernel.name)

    def __del__(self) -> None:
        pointer = getattr(self, "pointer", _NULL)
        if pointer == _NULL:
            return
        if lib.gr_template_busy(pointer):
            keep_until(_is_idle(pointer), lambda: lib.gr_template_destroy(pointer), self._kept)
        else:
            lib.gr_template_destroy(pointer)

    def launch(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Raises HandleError for a tensor that is gone, DeviceMemoryError. What goes wrong later is raised
        where the output is waited for."""
        buffers = [buffer_of(tensor) for tensor in inputs]
        enqueue = self._enqueue_few if len(inputs) <= _MOST_INPUTS else self._enqueue_many
        pointer = enqueue([buffer.live() for buffer in buffers])
        while pointer == _NULL:
            if lib.gr_last_status() == lib.GR_ERR_OUT_OF_MEMORY:
                settle_all()
            make_room([(self.output.handle.pointer, self.output.memory)], str(self.output.device))
            pointer = enqueue([buffer.live() for buffer in buffers])
        return self.made(pointer, inputs)

    def made(self, pointer: object, inputs: tuple[Tensor, ...]) -> Tensor:
        """The output tensor over a ``gr_buffer *`` that a submission of these inputs gave."""
        to = self.output
        buffer = Buffer(to.handle, to.memory, to.extent, pointer)
        made = Tensor(to.device, to.handle, to.type, to.layout, buffer.addr, buffer)
        made._recipe = (self._maker, inputs)
        watch(made)
        return made

    def _enqueue_few(self, pointers: list[object]) -> object:
        given = (*pointers, _NULL, _NULL, _NULL)
        return _submit_op(self.pointer, given[0], given[1], given[2])

    def _enqueue_many(self, pointers: list[object]) -> object:
        slots = ffi.new("gr_buffer *[]", [*pointers, _NULL])
        run = _submit(self.pointer, slots)
        if run == _NULL:
            return _NULL
        _run_release(run)
        return slots[len(pointers)]


def _is_idle(template: object) -> Callable[[], bool]:
    return lambda: not lib.gr_template_busy(template)


def _describe(kernel: Kernel, inputs: tuple[Place, ...], output: Place) -> tuple[object, object]:
    """A ``gr_template_desc *`` of one step, and what C points into as long as the template lives."""
    places = (*inputs, output)
    shapes = np.array([d for p in places for d in p.type.shape] or [0], np.int64)
    args = np.stack([arg_record(p.type, p.layout, p.type.shape) for p in places]).view(ARG)
    starts = np.cumsum([0, *(len(p.type.shape) for p in places)])[:-1]
    args["shape"] = shapes.ctypes.data + 8 * starts
    args["addr"] = [p.tag for p in places]
    env = output.handle.env
    words = np.array(kernel.words or [0], np.int64)
    envs = np.full(1, core.address_of(env), np.uint64).repeat(2).view(COPY_ENVS)
    attrs = envs if kernel.name == COPY else words
    op = ffi.new("char[]", kernel.name.encode())
    step = ffi.new("gr_step *", {
        "fn": ffi.cast("gr_kernel_fn", kernel.fn), "attrs": ffi.cast("int64_t *", attrs.ctypes.data),
        "env": env, "scratch": kernel.scratch, "nargs": len(places), "num_inputs": len(inputs), "op": op})
    device = output.handle.pointer
    slots = ffi.new("gr_slot[]", [
        *({"device": device, "memory": p.memory} for p in inputs),
        {"device": device, "memory": output.memory, "keep": 1, "extent": output.extent}])
    lanes = ffi.new("gr_lane *", {"device": device, "role": lib.GR_COMPUTE})
    arg_slot = ffi.new("int32_t[]", list(range(len(places))))
    desc = ffi.new("gr_template_desc *", {
        "steps": step, "args": ffi.cast("gr_arg *", args.ctypes.data), "arg_slot": arg_slot, "lanes": lanes,
        "slots": slots, "num_steps": 1, "num_args": len(places), "num_lanes": 1, "num_slots": len(places)})
    return desc, (shapes, args, words, envs, op, step, slots, lanes, arg_slot, kernel)


def buffer_of(tensor: Tensor) -> Buffer:
    """The memory of a tensor with its events; a session's view is borrowed for the time of the call."""
    owner = tensor.alive()._owner
    if isinstance(owner, Buffer) and owner.addr == tensor._addr:
        return owner
    at = tensor.place
    return Buffer.borrow(at.handle, tensor.wait()._addr, at.extent, tensor._owner, at.memory)


def alias(tensor: Tensor, to: Place) -> Tensor:
    """The same memory as another type."""
    made = Tensor(to.device, to.handle, to.type, to.layout, tensor._addr, tensor._owner, tensor.readonly)
    if tensor._recipe is not None:
        made._recipe = (_Aliases(), (tensor,))
        watch(made)
    return made


class _Aliases:
    """Maker of aliases: the memory is that of the tensor that they are aliases of."""

    def make_again(self, tensor: Tensor, inputs: tuple[Tensor, ...], cause: Exception | None) -> None:
        (source,) = inputs
        tensor.settle(alias(source.wait(), tensor.place))
