"""Launcher: a program of one kernel, made once for a signature, run on any tensors that have it."""

from __future__ import annotations

import threading

import numpy as np

from .. import core
from ..bind import COPY_ENVS, Region
from ..errors import KernelError
from ..graph import COPY
from ..lower import arg_record
from ..manifest import ABI_VERSION
from ..program import ARG, INSTR, Kernel
from ..tensor import Tensor
from .place import Place, place

__all__ = ["Launcher", "alias", "place_of"]

_SCRATCH_ALIGNMENT = 64


def place_of(tensor: Tensor) -> Place:
    """The place of a tensor's value."""
    return place(tensor.device, tensor.type, tensor.layout)


class Launcher:
    """``launch(inputs)`` runs ``kernel`` on tensors of the places it was made for; the output is a new
    tensor in the output's place."""

    def __init__(self, kernel: Kernel, inputs: tuple[Place, ...], output: Place):
        self.kernel, self.output = kernel, output
        places = (*inputs, output)
        self._shapes = np.array([d for p in places for d in p.type.shape] or [0], np.int64)
        self._args = np.stack([arg_record(p.type, p.layout, p.type.shape) for p in places]).view(ARG)
        starts = np.cumsum([0, *(len(p.type.shape) for p in places)])[:-1]
        self._args["shape"] = self._shapes.ctypes.data + 8 * starts
        self._words = np.array(kernel.words or [0], np.int64)
        self._scratch = np.empty(kernel.scratch + _SCRATCH_ALIGNMENT, np.uint8)
        self._envs = np.zeros(1, COPY_ENVS)
        env = core.address_of(output.handle.env)
        self._envs["src"] = self._envs["dst"] = env
        self._instr = np.zeros(1, INSTR)
        self._instr["fn"] = kernel.fn
        call = self._instr["call"]
        call["abi"], call["nargs"], call["env"] = ABI_VERSION, len(places), env
        call["args"] = self._args.ctypes.data
        call["attrs"] = (self._envs if kernel.name == COPY else self._words).ctypes.data
        call["scratch"] = -(-self._scratch.ctypes.data // _SCRATCH_ALIGNMENT) * _SCRATCH_ALIGNMENT
        self._program = core.program_create(self._instr.ctypes.data, 1)
        self._lock = threading.Lock()

    def launch(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run it. Raises DeviceMemoryError, KernelError."""
        made = self.output
        region = Region(made.handle, made.memory, made.extent, f"eager {self.kernel.name}")
        with self._lock:
            self._args["addr"] = [*(t._arg.pointer.addr for t in inputs), region.addr]
            span = core.ffi.new("gr_span *", {"first": 0, "last": 1, "budget_ns": 0})
            status = core.lib.gr_program_run(self._program, span)
        if status:
            raise KernelError(
                f"{self.kernel.name} on {made.device} failed: {core.last_error()}",
                op=self.kernel.name,
                device=str(made.device),
                status=status,
            )
        return Tensor(made.device, made.handle, made.type, made.layout, region.addr, region)


def alias(tensor: Tensor, to: Place) -> Tensor:
    """The same memory as another type."""
    return Tensor(
        to.device, to.handle, to.type, to.layout, tensor._arg.pointer.addr, tensor._owner, tensor.readonly
    )
