"""What a program needs of L1: circular buffers, its own tensors, and its inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...base.machine.layout import L1
from ...binding.programs.program import Program
from ...binding.programs.slots import assign_slots
from ...plan.types import Plan
from ..device_handles import DeviceHandle
from ..tensors.eviction import Need, block_need, has_l1
from ..tensors.tensor import Tensor
from .bind import Bound
from .staging import find_input, to_write


def of_submission(
    program: Program, handles: Sequence[DeviceHandle], values: Mapping[int, Any], stay: Sequence[Tensor] = ()
) -> Iterator[Need]:
    """Needs of a queued run. ``values`` {graph input: its value}; ``stay``: tensors that the run writes."""
    plan, circular = program.plan, program.circular_of()
    for did, handle in enumerate(handles):
        if has_l1(handle):
            reads = {index: value for index, value in values.items() if _is_read(plan, did, index, value)}
            yield Need(handle, circular.get(did, 0), partial(_taken, plan, did, values), reads, stay)


def of_queued_run(bound: Bound, inputs: Mapping[int | str, Any], out: Any) -> Iterator[Need]:
    """Needs of a session's queued run, from the arguments of Session.submit."""
    graph = bound.program.plan.graph
    values = {find_input(key, graph, bound.holder): value for key, value in inputs.items()}
    return of_submission(bound.program, bound.handles, values, [*to_write(out).values()])


def of_inline_run(program: Program, handles: Sequence[DeviceHandle]) -> Iterator[Need]:
    """Needs of a run in the session's own memory: only circular buffers."""
    for did, nbytes in program.circular_of(slice(0, program.main)).items():
        yield Need(handles[did], nbytes, lambda read: 0)


def of_region(program: Program, handles: Sequence[DeviceHandle]) -> Iterator[Need]:
    """Needs of the session's own memory, which must leave room for its circular buffers."""
    circular = program.circular_of(slice(0, program.main))
    for (did, number), extent in program.plan.peak.items():
        yield from block_need(handles[did], number, int(extent), circular.get(did, 0))


def _is_read(plan: Plan, did: int, index: int, value: Any) -> bool:
    """Whether a run may read graph input ``index``, a tensor in the L1 of device ``did``, in place."""
    eid = int(plan.graph.input_eids[index])
    there = isinstance(value, Tensor) and int(plan.entry_did()[eid]) == did
    return there and value.layout == plan.layout(eid) and value.layout.memory == L1


def _taken(plan: Plan, did: int, given: Collection[int], read: Collection[Any]) -> int:
    """Bytes of each bank of the device's L1 for a run's own tensors, and for ``given`` inputs that are not
    read in place."""
    slots, taken = assign_slots(plan), 0
    memories = plan.devices[did].descriptor.memories
    made = {int(slots.slot[plan.graph.input_eids[index]]) for index in given if index not in read}
    for slot, extent in enumerate(slots.extent.tolist()):
        memory = memories[int(slots.memory[slot])] if slots.did[slot] == did else None
        if memory is not None and memory.name == L1 and (not slots.kept[slot] or slot in made):
            taken += -(-extent // memory.alignment) * memory.alignment
    return taken
