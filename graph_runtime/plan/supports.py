"""Whether a device can run a node: it has a kernel, and can hold what the node reads, makes and opens."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..base.errors import PlanError, UnsupportedOpError
from ..base.machine.devices import NO_KERNELS, Device
from ..base.machine.layout import L1
from ..ir.graph import COPY, NOP, NodeView
from ..ir.ops import registry
from ..ir.ops.select import select
from .defaults import choose

__all__ = ["Kernels", "circular_room", "no_kernel", "too_large", "unable"]

Kernels = Mapping[str, Collection[str]]  # function -> device kinds that a library has it for


def unable(node: NodeView, device: Device, kernels: Kernels) -> str | None:
    """Why a device cannot run a node; None: it can, or only a library that the caller did not name knows."""
    for type_ in (*node.input_types, *node.output_types):
        try:
            choose(type_, device.descriptor, None)
        except PlanError as error:
            return str(error)
    return no_kernel(node, device, kernels)


def no_kernel(node: NodeView, device: Device, kernels: Kernels) -> str | None:
    """Why neither a library nor the registry has a kernel for a node on a device."""
    func = node.func
    if func is None or func.name in (COPY, NOP) or device.kernels == NO_KERNELS:
        return None
    kinds = kernels.get(func.name)
    if kinds is not None and device.kind in kinds:
        return None
    op = None if func.op is None else registry.get(func.op)
    if op is None:
        return (
            None
            if kinds is None
            else (f"the libraries have function {func.name} for {', '.join(sorted(kinds))} only")
        )
    if op.is_nop:
        return None
    try:
        select(op, func.attrs, device.kernels, node.input_types, node.output_types)
    except UnsupportedOpError as error:
        return str(error)
    return None


def circular_room(device: Device) -> int:
    """Bytes of a core's L1 that circular buffers have where no tensor lies there; 0 on a device without cores
    that open any."""
    memory = next((memory for memory in device.descriptor.memories if memory.name == L1), None)
    if memory is None or device.kernels == NO_KERNELS:
        return 0
    return memory.bank_bytes // memory.alignment * memory.alignment - memory.base


def too_large(needed: int, device: Device) -> str:
    """What is said of a node that opens more than there is."""
    return f"opens {needed} B of circular buffers on a core, whose L1 has {circular_room(device)} B"
