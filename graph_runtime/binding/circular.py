"""Circular buffers: the bytes of a core's L1 that kernels take for them. A kernel that is called without data
answers with these bytes.

    Plan --planned--> Plan                       with the bytes of each node, refused without room
    Program --measured--> Program                with the bytes of each instruction, which runs keep free

For a device that computes as ttnn, a plan has the bytes of the buffers of ttnn's programs
(plan/card_programs.py), but a program that runs always has those of this package's kernels. Only built-in
kernels are asked: a kernel compiled for a node has the same body. A library's function without gr.op counts
as 0 bytes; its buffers are checked when the function runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ..base.errors import LibraryError, UnsupportedOpError
from ..base.machine.devices import NO_KERNELS, Device
from ..base.machine.layout import L1, Layout
from ..ir.graph import COPY, Func, Graph, TensorType
from ..ir.ops.numerics import Numerics
from ..plan.types import Plan
from . import core
from .core import ffi, lib
from .programs.program import ARG, INSTR, Kernel, Program, arg_record, chosen, generic_kernel, lower


def planned(plan: Plan) -> Plan:
    """The plan, with the bytes of circular buffers of each node. Raises CapacityError if these buffers have
    no room beside the plan's tensors."""
    needs = of_plan(plan)
    _require_room(plan, needs)
    return replace(plan, circular=needs)


def of_plan(plan: Plan) -> np.ndarray:
    """int64 [nodes]: the most bytes of circular buffers that each node opens on a core."""
    found = np.zeros(plan.graph.num_nodes, np.int64)
    if any(device.circular_cores for device in plan.devices):
        program = lower(plan, _built_in)
        found[program.nid] = _asked(program)
        if plan.as_ttnn:
            from ..plan.card_programs import program_of_node  # few plans need the cost models of cards

            for nid in program.nid.tolist():
                made = program_of_node(plan, plan.graph.node(nid))
                if made is not None:
                    found[nid] = made.nbytes
    return found


def of_node(graph: Graph, nid: int, device: Device, layouts: Sequence[Layout], numerics: Numerics) -> int:
    """The bytes of circular buffers of one node on any device. ``layouts``: layouts of the node's inputs,
    then of its outputs, on that device."""
    view = graph.node(nid)
    assert view.func is not None  # the node is a call, so it has a function
    words = Numerics.of(view.func.attrs).over(numerics)
    if words.numerics == "ttnn":
        from ..plan.card_programs import card_program  # imported late, as above

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
    """The program with ``circular`` filled in. Raises CapacityError if a node's circular buffers have no room
    beside the plan's tensors; this is not checked again if planning has checked it."""
    plan = program.plan
    if program.circular is not None:
        return program
    if not any(device.circular_cores for device in plan.devices):
        return replace(program, circular=np.zeros(program.count, np.int64))
    own = all(kernel.fn in _not_libraries() for kernel in program.kernels)
    found = _asked(program if own else lower(plan, _built_in))
    needs = np.zeros(plan.graph.num_nodes, np.int64)
    needs[program.nid] = found
    _require_room(plan, needs)
    return replace(program, circular=found)


def of_kernel(device: Device, kernel: Kernel, args: np.ndarray, words: np.ndarray) -> int:
    """The bytes of circular buffers of one call. ``args`` ARG [args], whose shapes are pointers."""
    cores = np.array([device.circular_cores], np.int32)
    if not cores[0] or kernel.packed or kernel.fn == core.copy_kernel():
        return 0
    instr = np.zeros(1, INSTR)
    instr["fn"], instr["call"]["abi"], instr["call"]["nargs"] = kernel.fn, core.lib.GR_ABI_VERSION, len(args)
    instr["call"]["args"], instr["call"]["attrs"] = args.ctypes.data, words.ctypes.data
    return int(_needs(instr, cores)[0])


def l1_number(device: Device) -> int:
    """Index of L1 among a device's memories. Raises DeviceError for a device without L1."""
    return device.descriptor.memories.index(device.descriptor.memory(L1))


def peak(handle: Any, memory: int) -> int:
    """The most bytes of a bank that any run so far has kept free of tensors for circular buffers."""
    out = ffi.new("uint64_t[3]")
    lib.gr_circular_stats(handle.pointer, memory, out)
    return out[1]


# **************** asking the kernels ****************


def _require_room(plan: Plan, needs: np.ndarray) -> None:
    from ..plan.storage.memory import check_circular  # a plan that is read from a bundle needs no passes

    check_circular(plan, needs)


@cache
def _bodies() -> frozenset[int]:
    return frozenset(core.generic_kernels().values())


@cache
def _not_libraries() -> frozenset[int]:
    return _bodies() | {core.copy_kernel(), core.null_kernel()}


def _built_in(func: Func, kind: str, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> Kernel:
    """The kernel to ask about circular buffers: the one built into the wheel, or one that opens none."""
    if func.op is not None and func.name != COPY and kind != NO_KERNELS:
        try:
            return generic_kernel(func, kind, inputs, outputs)
        except (UnsupportedOpError, LibraryError):  # the error is raised where kernels are bound
            pass
    return Kernel(func.name, core.null_kernel())


def _asked(program: Program) -> np.ndarray:
    """int64 [instrs]: the bytes of circular buffers that each built-in kernel answers, 0 for other
    kernels."""
    plan = program.plan
    cores = np.array([device.circular_cores for device in plan.devices], np.int32)[plan.did[program.nid]]
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
