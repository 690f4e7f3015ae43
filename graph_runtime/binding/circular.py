"""Circular buffers: what kernels take of a core's L1, as they say when they are called without data.

    Plan --of_plan--> bytes of each node         plan() refuses what finds no room beside the plan's tensors
    Program --measured--> Program                with the bytes of each instruction, which runs keep free

Of a device that computes as ttnn does a plan has what ttnn's programs would open (plan/card_programs.py); a
program that runs has what our kernels open, always. Only kernels that are built in are asked: one compiled
for a node is the same body. A library's function that has no gr.op counts as 0; what it opens is checked when
it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ..base.errors import LibraryError, UnsupportedOpError
from ..base.machine.devices import NO_KERNELS, Device
from ..base.machine.layout import L1, Layout
from ..base.unique import unique_values
from ..ir.graph import COPY, Func, Graph, TensorType
from ..ir.ops.numerics import Numerics
from ..plan.storage.capacity import check_circular
from ..plan.types import Plan
from . import core
from .built_in import generic_kernel
from .core import ffi, lib
from .gr_arg import ARG, arg_record
from .programs.lower import chosen, lower
from .programs.program import INSTR, Kernel, Program

__all__ = ["l1_number", "measured", "of_instructions", "of_kernel", "of_node", "of_plan", "peak"]


def of_plan(plan: Plan) -> np.ndarray:
    """int64 [nodes]: the most bytes of circular buffers that each node opens on a core."""
    found = np.zeros(plan.graph.num_nodes, np.int64)
    if any(map(_cores, plan.devices)):
        program = lower(plan, _built_in)
        found[program.nid] = _asked(program)
        if _as_ttnn(plan):
            from ..plan.card_programs import program_of  # few plans take the cost models of cards

            for nid in program.nid.tolist():
                made = program_of(plan, plan.graph.node(nid))
                if made is not None:
                    found[nid] = made.nbytes
    return found


def _as_ttnn(plan: Plan) -> bool:
    return any(numerics.numerics == "ttnn" for numerics in plan.numerics)


def of_node(graph: Graph, nid: int, device: Device, layouts: Sequence[Layout], numerics: Numerics) -> int:
    """The same of a node alone, wherever it were placed. ``layouts``: of what it reads and makes there."""
    view = graph.node(nid)
    assert view.func is not None  # it is a call
    words = Numerics.of(view.func.attrs).over(numerics)
    if words.numerics == "ttnn":
        from ..plan.card_programs import card_program  # as above

        made = card_program(view.func, view.input_types, view.output_types, device, layouts, words)
        if made is not None:
            return made.nbytes
    kernel = _built_in(view.func, device.kernels, view.input_types, view.output_types)
    kernel = chosen(kernel, view.func, device.kernels, numerics, None)
    tensors = (*view.input_types, *view.output_types)
    shapes = [np.array(type_.shape, np.int64) for type_ in tensors]
    args = np.zeros(len(tensors), ARG)
    for at, (type_, layout, shape) in enumerate(zip(tensors, layouts, shapes, strict=True)):
        args[at] = arg_record(type_, layout, type_.shape)
        args[at]["shape"] = shape.ctypes.data
    return of_kernel(device, kernel, args, np.array(kernel.words, np.int64))


def measured(program: Program) -> Program:
    """The program with ``circular``. Raises CapacityError where a node's circular buffers find no room beside
    the plan's tensors, unless planning has looked at that."""
    plan = program.plan
    if plan.circular is not None and not _as_ttnn(plan):
        return replace(program, circular=plan.circular[program.nid])
    if not any(map(_cores, plan.devices)):
        return replace(program, circular=np.zeros(program.count, np.int64))
    own = all(kernel.fn in _not_libraries() for kernel in program.kernels)
    found = _asked(program if own else lower(plan, _built_in))
    needs = np.zeros(plan.graph.num_nodes, np.int64)
    needs[program.nid] = found
    check_circular(plan, needs)
    return replace(program, circular=found)


def of_instructions(program: Program, instrs: np.ndarray | slice = slice(None)) -> dict[int, int]:
    """{did: the most that one of these instructions of a measured program opens}, without zeros."""
    assert program.circular is not None  # it is measured
    needs, did = program.circular[instrs], program.plan.did[program.nid[instrs]]
    return {int(d): int(needs[did == d].max()) for d in unique_values(did[needs > 0]).tolist()}


def of_kernel(device: Device, kernel: Kernel, args: np.ndarray, words: np.ndarray) -> int:
    """The same of one call. ``args`` ARG [args], whose shapes are pointers."""
    cores = np.array([_cores(device)], np.int32)
    if not cores[0] or kernel.packed or kernel.fn == core.copy_kernel():
        return 0
    instr = np.zeros(1, INSTR)
    instr["fn"], instr["call"]["abi"], instr["call"]["nargs"] = kernel.fn, core.lib.GR_ABI_VERSION, len(args)
    instr["call"]["args"], instr["call"]["attrs"] = args.ctypes.data, words.ctypes.data
    return int(_needs(instr, cores)[0])


def l1_number(device: Device) -> int:
    """The number of a device's L1 among its memories. Raises DeviceError where it has none."""
    return device.descriptor.memories.index(device.descriptor.memory(L1))


def peak(handle: Any, memory: int) -> int:
    """The most bytes of each bank of a memory that runs so far kept free of tensors for circular buffers."""
    out = ffi.new("uint64_t[3]")
    lib.gr_circular_stats(handle.pointer, memory, out)
    return out[1]


# **************** asking ****************


def _cores(device: Device) -> int:
    """Cores that open circular buffers; 0 where a device has no L1, or no kernels."""
    descriptor = device.descriptor
    has_l1 = any(memory.name == L1 for memory in descriptor.memories)
    return descriptor.grid[0] * descriptor.grid[1] if has_l1 and device.kernels != NO_KERNELS else 0


@cache
def _bodies() -> frozenset[int]:
    return frozenset(core.generic_kernels().values())


@cache
def _not_libraries() -> frozenset[int]:
    return _bodies() | {core.copy_kernel(), core.null_kernel()}


def _built_in(func: Func, kind: str, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> Kernel:
    """The kernel to ask: that of the wheel, or one that opens nothing."""
    if func.op is not None and func.name != COPY and kind != NO_KERNELS:
        try:
            return generic_kernel(func, kind, inputs, outputs)
        except (UnsupportedOpError, LibraryError):  # told where kernels are bound
            pass
    return Kernel(func.name, core.null_kernel())


def _asked(program: Program) -> np.ndarray:
    """int64 [instrs]: what each kernel that is built in says."""
    plan = program.plan
    cores = np.array([_cores(device) for device in plan.devices], np.int32)[plan.did[program.nid]]
    cores[~np.array([k.fn in _bodies() for k in program.kernels] or [False], bool)[program.kid]] = 0
    asked = np.flatnonzero(cores)
    found = np.zeros(program.count, np.int64)
    if not len(asked):
        return found
    args = program.args.view(np.uint64).copy().view(ARG)
    args["shape"] += np.uint64(program.shapes.ctypes.data)
    instrs = np.zeros(len(asked), INSTR)
    call = instrs["call"]
    instrs["fn"] = np.array([k.fn for k in program.kernels], np.uint64)[program.kid[asked]]
    call["abi"], call["nargs"] = core.lib.GR_ABI_VERSION, np.diff(program.arg_ptr)[asked]
    call["args"] = args.ctypes.data + ARG.itemsize * program.arg_ptr[asked]
    call["attrs"] = program.words.ctypes.data + 8 * program.word_ptr[program.kid[asked]]
    found[asked] = _needs(instrs, np.ascontiguousarray(cores[asked]))
    return found


def _needs(instrs: np.ndarray, cores: np.ndarray) -> np.ndarray:
    out = np.zeros(len(instrs), np.int64)
    lib.gr_circular_needs(
        ffi.cast("gr_instr *", instrs.ctypes.data),
        len(instrs),
        ffi.cast("int32_t *", cores.ctypes.data),
        ffi.cast("uint64_t *", out.ctypes.data),
    )
    return out
