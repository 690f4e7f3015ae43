"""Runs of a session in the calling thread: spans of instructions, one thread at a time, and their errors;
room in L1 for circular buffers; inputs without values, which runs refuse; and inputs that one copy sets.

A run keeps the room for circular buffers free of tensors until it ends (native/core/circular.c). If tensors
are there, the run waits for queued work that will free some, and moves the others to DRAM. If they cannot
move, the run is refused before any node has run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from ...base.errors import DeviceMemoryError, InputError, KernelError, SessionBusyError, did_you_mean, no_such
from ...binding import core
from ...binding.circular import l1_number
from ...binding.programs.program import Program
from ...ir.graph import Graph
from ..device_handles import DeviceHandle
from ..queues.buffer import SLICE_NS, with_room
from ..queues.run import Run
from ..tensors.eviction import evicting
from ..tensors.tensor import Tensor
from .bind import Bound, Lease, Region
from .l1_needs import of_inline_run, of_queued_run, of_region

_INTERRUPTED = core.lib.GR_INTERRUPTED


def span_of(first: int, last: int) -> Any:
    """A ``gr_span *`` of the instructions first .. last - 1."""
    return core.ffi.new("gr_span *", {"first": first, "last": last, "budget_ns": SLICE_NS})


def run_on(bound: Bound, native: Any, span: Any, status: int) -> tuple[int, Any]:
    """Continue a run for which gr_program_run returned ``status``, if the run's time budget was used up or
    room in L1 was short. Returns the last status, and the span that gave it."""
    if has_no_room(status, span):
        status = run_with_room(bound, native, span)
    while status == _INTERRUPTED:  # between two calls Python can handle signals
        span = span_of(span.stopped_at, span.last)
        status = core.lib.gr_program_run(native, span)
    return status, span


def failure(program: Program, at: int, status: int, said: str) -> KernelError:
    """The error of instruction ``at``. ``said``: C's text, and text on the state that is left."""
    plan = program.plan
    view = plan.graph.node(int(program.nid[at]))
    device = str(plan.devices[plan.did[view.nid]])
    text = f"node {view.name!r} ({view.op} on {device}) failed: {said}"
    return KernelError(text, node=view.name, op=view.op, device=device, status=status)


def busy_error(name: str) -> SessionBusyError:
    text = (
        f"{name} is running in another thread: make a session for each thread, or create(..., concurrent=N)"
    )
    return SessionBusyError(text)


class Held:
    """Context manager that keeps other threads out of a session's program. Raises SessionBusyError if a
    thread is in it."""

    __slots__ = ("_name", "_native")

    def __init__(self, native: Any, name: str):
        self._native, self._name = native, name

    def __enter__(self) -> None:
        if core.lib.gr_program_hold(self._native):
            raise busy_error(self._name)

    def __exit__(self, *_: object) -> None:
        core.lib.gr_program_release(self._native)


# **************** the program in C, and its room ****************

lib = core.lib

_LOOKS = 200  # most looks, because other threads may queue more and more work


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
    """Whether gr_program_run ran nothing of a span because tensors lie where circular buffers will be."""
    return status == lib.GR_ERR_OUT_OF_MEMORY and span.stopped_at < 0


def run_with_room(bound: Bound, native: Any, span: Any) -> int:
    """Call gr_program_run again when there is room, after queued work freed some or tensors were moved.
    Returns its status. Raises DeviceMemoryError if there will be no room."""
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
    """Call ``attempt()``, a run in the session's own memory. If its circular buffers have no room, move
    tensors out of the way and call again. Raises DeviceMemoryError."""
    evicting(attempt, lambda: of_inline_run(bound.program, bound.handles))


def queued_with_room(
    bound: Bound, submit: Callable[..., Run], inputs: Mapping[int | str, Any], out: Any, *more: Any
) -> Run:
    """The Run of submit(inputs, out, *more). If it has no room in L1, move tensors out of the way and call
    again. Raises the errors of submit."""
    return evicting(lambda: submit(inputs, out, *more), lambda: of_queued_run(bound, inputs, out))


def reserve_with_room(bound: Bound) -> None:
    """Take the session's memory, and move tensors that are in the way in L1. Raises DeviceMemoryError if
    there is no room, or only room that circular buffers of the session's nodes need, because then the session
    could not run."""
    if not any(handle.device.has_l1 for handle in bound.handles):
        bound.reserve()
        return
    evicting(lambda: _reserve(bound), lambda: of_region(bound.program, bound.handles))


def _reserve(bound: Bound) -> None:
    """Take the session's memory. If other tensors leave only room in L1 that the nodes' circular buffers
    need, give the memory up and take it again, as long as queued work frees such tensors."""
    bound.reserve()
    for look in range(_LOOKS):
        refused = _region_in_the_way(bound)
        if refused is None:
            return
        handle, text = refused
        bound.release()
        hope = lib.gr_reclaim(handle.pointer, l1_number(handle.device), SLICE_NS)
        if not hope or look == _LOOKS - 1:
            raise DeviceMemoryError(text, device=str(handle.device))
        bound.reserve()


def _region_in_the_way(bound: Bound) -> tuple[DeviceHandle, str] | None:
    """(device, text of the error) if the session's own memory in L1 is in the way of its circular buffers,
    else None."""
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
    return bound.program.circular_of(slice(0, bound.program.main))


# **************** inputs without values ****************

# A session looks at its set of unset inputs only while the set is not empty, so runs cost no more once all
# inputs are set. An input that no node reads needs no value.

REFUSE, ALLOW = "refuse", "allow"


def unset_of(graph: Graph, mode: str) -> set[int]:
    """The inputs that need a value before a run. No input needs a value if the mode is "allow", as in TVM:
    the value of an unset input is then what its memory happens to hold. Raises InputError for another mode.
    """
    if mode not in (REFUSE, ALLOW):
        near = did_you_mean(mode, (REFUSE, ALLOW))
        raise InputError(f"unset_inputs is {REFUSE!r} or {ALLOW!r}, not {mode!r}{near}", got=mode)
    if mode == ALLOW:
        return set()
    read = np.zeros(graph.num_entries, bool)
    read[graph.in_eid] = True
    read[graph.outputs] = True
    return {
        i for i, eid in enumerate(graph.input_eids.tolist()) if read[eid] and graph.entry_type(eid).nbytes
    }


def refuse(
    graph: Graph,
    unset: Collection[int],
    holder: str,
    aliases: Collection[tuple[int, int]],
    lost: Collection[int] = (),
) -> None:
    """Raise InputError that names the ``unset`` inputs, if there are any. ``lost``: inputs whose contents are
    undefined because a run failed while it wrote them."""
    if not unset:
        return
    names = [graph.names[graph.inputs[i]] for i in sorted(unset)]
    state = sorted({graph.names[graph.inputs[to]] for _, to in aliases if to in unset and to not in lost})
    gone = sorted(graph.names[graph.inputs[i]] for i in lost if i in unset)
    shown = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    also = f" ({', '.join(map(repr, state[:20]))}: state that runs update, which needs a first value)"
    shown += also if state else ""
    since = f" ({', '.join(map(repr, gone[:20]))}: undefined since a run failed that had begun to write it)"
    shown += since if gone else ""
    text = (
        f"{holder} has no values of {shown}: give them to run(), set_input, load_params or "
        'set_input_zero_copy, or let runs read unset inputs, as TVM does, by unset_inputs="allow"'
    )
    raise InputError(text, got=[], wanted=names)


# **************** inputs that one copy sets ****************

# Most runs set such inputs, and small models take less time than the general way of setting an input.

_hold, _release = core.lib.gr_program_hold, core.lib.gr_program_release


class _Plain:
    """An input that one copy sets: its tensor, the tensor's owner and writable memory, dtype and shape."""

    __slots__ = ("_name", "_native", "dtype", "lease", "memory", "shape", "tensor")

    def __init__(self, tensor: Tensor, lease: Lease, memory: np.ndarray, native: Any, name: str):
        self.tensor, self.lease, self.memory = tensor, lease, memory
        self.dtype, self.shape = memory.dtype, memory.shape
        self._native, self._name = native, name

    def copy(self, value: np.ndarray, of: dict[int, _Plain], index: int) -> bool:
        """Copy an array of exactly this dtype and shape, if ``of`` still has this input under ``index``.
        Returns whether it was copied. Raises SessionBusyError."""
        if value.dtype is not self.dtype or value.shape != self.shape:
            return False
        if _hold(self._native):
            raise busy_error(self._name)
        try:  # from here on no other thread moves the tensor
            memory, tensor = self.memory, self.tensor
            if (
                of.get(index) is not self
                or tensor._target_view is not memory
                or self.lease.events is not None
            ):
                return False
            memory[...] = value
            tensor._version = None
            return True
        finally:
            _release(self._native)


class Live(dict[int, Tensor]):
    """{entry: its tensor}, for tensors that lead to memory that the session uses."""

    def __init__(self) -> None:
        super().__init__()
        self._plain: dict[int, _Plain] = {}

    def clear(self) -> None:
        """Forget all tensors, because entries have other memory from now on."""
        super().clear()
        self._plain.clear()

    def copy_plain(self, index: int, value: Any) -> bool:
        """Set graph input ``index``, if one copy can set it and ``value`` is an array that fits as it is.
        Returns whether it was set."""
        plain = self._plain.get(index)
        return plain is not None and value.__class__ is np.ndarray and plain.copy(value, self._plain, index)

    def was_set(self, index: int, eid: int, native: Any, name: str) -> None:
        """Note that graph input ``index`` of session ``name``, entry ``eid``, was set, that no queued work
        uses the input, and that no other device reads it."""
        tensor = self.get(eid)
        if tensor is None or type(tensor._owner) is not Lease or tensor._target_view is None:
            return
        self._plain[index] = _Plain(tensor, tensor._owner, tensor._target_view, native, name)


def most_in_flight(count: Any) -> int:
    """A caller's ``max_in_flight``. Raises InputError unless it is a number of runs from 1."""
    if isinstance(count, int) and not isinstance(count, bool) and count >= 1:
        return count
    text = f"max_in_flight must be a number of runs from 1, got {count!r}"
    raise InputError(text, got=count)


def require_queues(queues: str) -> bool:
    """Whether runs use the devices' queues. Raises InputError unless ``queues`` is "inline" or "threads"."""
    if queues not in ("inline", "threads"):
        raise InputError(no_such("kind of queues", queues, ("inline", "threads")), got=queues)
    return queues == "threads"
