"""A session's program in C, and room in L1 for the circular buffers of its inline runs.

A run keeps that room free of tensors as long as it takes (native/core/circular.c). Where tensors are in it,
the run waits for queued work that will give it back, and moves them to DRAM where none will. It is refused
where they cannot move: before any node has run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...base.errors import DeviceMemoryError
from ...binding import core
from ...binding.circular import l1_number, of_instructions
from ..device_handles import DeviceHandle
from ..queues.buffer import with_room
from ..queues.run import Run
from ..tensors.eviction import evicting
from .bind import Bound, Region
from .l1_needs import of_inline_run, of_queued_run, of_region

__all__ = [
    "has_no_room",
    "make_native",
    "make_way",
    "queued_with_room",
    "reserve_with_room",
    "run_with_room",
]

if TYPE_CHECKING:
    from .submission import Submitter

lib = core.lib

_SLICE_NS = 50_000_000  # C waits so long for work to end, then Python looks for a signal
_LOOKS = 200  # others may queue more and more


def make_native(bound: Bound) -> Any:
    """The ``gr_program *`` of a Bound, which must outlive it."""
    program = bound.program
    native = core.program_create(bound.instrs.ctypes.data, program.count)
    for did, nbytes in _needs(bound).items():
        core.check(
            lib.gr_program_circular(
                native, bound.handles[did].pointer, nbytes, program.main, bound.holder.encode()
            )
        )
    return native


def has_no_room(status: int, span: Any) -> bool:
    """Whether gr_program_run ran nothing of a span, because tensors are where circular buffers will be."""
    return status == lib.GR_ERR_OUT_OF_MEMORY and span.stopped_at < 0


def run_with_room(bound: Bound, native: Any, span: Any) -> int:
    """gr_program_run again, when there is room: queued work gave some back, or tensors were moved out of it.
    Raises DeviceMemoryError where there will be none."""
    status = lib.GR_ERR_OUT_OF_MEMORY

    def attempt() -> bool:
        nonlocal status
        status = lib.gr_program_run(native, span)
        return not has_no_room(status, span)

    handles = [bound.handles[did] for did in _needs(bound)]
    memories = [(handle.pointer, l1_number(handle.device)) for handle in handles]
    devices = ", ".join(str(handle.device) for handle in handles)
    make_way(bound, lambda: attempt() or with_room(attempt, memories, devices))
    return status


def make_way(bound: Bound, attempt: Callable[[], object]) -> None:
    """attempt(), a run in the session's own memory, with tensors moved out of the way of its circular
    buffers. Raises DeviceMemoryError."""
    evicting(attempt, lambda: of_inline_run(bound.program, bound.handles))


def queued_with_room(
    bound: Bound, submitter: Submitter, inputs: Mapping[int | str, Any], out: Any, *more: Any
) -> Run:
    """submitter.submit(inputs, out, *more), with tensors moved out of the way. Raises as that."""
    return evicting(lambda: submitter.submit(inputs, out, *more), lambda: of_queued_run(bound, inputs, out))


def reserve_with_room(bound: Bound) -> None:
    """Takes the session's memory, from tensors that are in the way in L1, too. Raises DeviceMemoryError where
    it has no room, or only where circular buffers of its nodes will be: the session could not run."""
    evicting(lambda: _reserve(bound), lambda: of_region(bound.program, bound.handles))


def _reserve(bound: Bound) -> None:
    """Takes the session's memory. Where other tensors leave it only room in L1 that circular buffers of its
    nodes need, it is given up and taken again, while queued work gives such tensors back."""
    bound.reserve()
    for look in range(_LOOKS):
        refused = _region_in_the_way(bound)
        if refused is None:
            return
        handle, text = refused
        bound.release()
        hope = lib.gr_reclaim(handle.pointer, l1_number(handle.device), _SLICE_NS)
        if not hope or look == _LOOKS - 1:
            raise DeviceMemoryError(text, device=str(handle.device))
        bound.reserve()


def _region_in_the_way(bound: Bound) -> tuple[DeviceHandle, str] | None:
    """The device where the session's own memory in L1 is in the way of its circular buffers, and what is then
    to be said."""
    for did, nbytes in _needs(bound).items():
        handle = bound.handles[did]
        number = l1_number(handle.device)
        region: Region | None = bound.regions.get((did, number))
        end = handle.device.descriptor.memories[number].base + nbytes
        if region is not None and region.addr < end:
            return handle, (
                f"Out of Memory: in the L1 of {handle.device} only address {region.addr} is left for "
                f"{region.extent} B of {bound.holder}, and circular buffers of its nodes need all up to "
                f"{end}: give up tensors in L1, or move them to DRAM"
            )
    return None


def _needs(bound: Bound) -> dict[int, int]:
    return of_instructions(bound.program, slice(0, bound.program.main))
