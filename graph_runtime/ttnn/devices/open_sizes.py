"""The memories that open_device's sizes leave of a board."""

from __future__ import annotations

from dataclasses import replace

from ...base.machine.devices import Device
from ...base.machine.layout import DRAM, L1
from ..errors import check

# what programs keep of a core below the room of tensors, which worker_l1_size may ask for
# (tt_metal/llrt/hal/tt-1xx: MEM_MAP_END to DEFAULT_UNRESERVED)
_KERNEL_CONFIG = 69 * 1024
MOST_QUEUES = 2  # dispatch_core_manager::MAX_NUM_HW_CQS


def sized(chip: Device, l1_small: int, trace: int, worker: int) -> Device:
    """The chip with the memories that open_device's sizes leave: L1_SMALL is the end of each core's L1, the
    trace region that of each bank of DRAM; ``worker``, where given, is the room of L1 above programs."""
    op, descriptor = "ttnn.open_device", chip.descriptor
    dram, l1 = descriptor.memory(DRAM), descriptor.memory(L1)
    step = dram.alignment
    base = l1.base
    if worker:
        most = l1.usable + _KERNEL_CONFIG
        check(worker <= most, op, f"Worker L1 size {worker} is larger than max size {most}")
        base = -(-(l1.bank_bytes - worker) // step) * step
    small, region = -(-l1_small // step) * step, -(-trace // step) * step
    room = l1.bank_bytes - base
    text = f"Reserved size must be less than bank size: l1_small_size is {l1_small} B, the bank {room} B"
    check(small < room, op, text)
    text = f"trace_region_size {trace} B must be less than a bank of DRAM, {dram.usable} B"
    check(region < dram.usable, op, text)
    made = {DRAM: replace(dram, bank_bytes=dram.bank_bytes - region)}
    made[L1] = replace(l1, base=base, bank_bytes=l1.bank_bytes - small)
    memories = tuple(made.get(m.name, m) for m in descriptor.memories)
    if memories == descriptor.memories:
        return chip
    return replace(chip, descriptor=replace(descriptor, memories=memories))
