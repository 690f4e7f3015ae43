"""Submitting programs of bundles to open devices: tt-mlir's runtime stitching, as in its proposal #671.

    submit(device, bundle, "decode", [x, cache]) -> [logits, cache']

Inputs are on the device already, and outputs stay where the program left them, so outputs of one program are
inputs of the next. submit does not wait, and frees nothing. docs/runtime.md has the rules and the differences
to tt-mlir.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ...artifacts.bundles.bundle import Bundle
from ...base.errors import DeviceError, InputError, SessionBusyError, did_you_mean
from ...run.sessions.l1_needs import of_inline_run, of_submission
from ...run.tensors.arrays import allocate
from ...run.tensors.donated import donations
from ...run.tensors.eviction import Need, evict_unused, evicting, is_below
from ...run.tensors.tensor import Tensor
from ...run.tensors.traffic import record
from ...run.tensors.transfers import duplicate, to
from . import constants, hooks
from .executable import Executable, InputSpec, executable
from .open_device import OpenDevice

EVICT = ("on_pressure", "unused", "never")
_PACKAGE = __name__.split(".")[0]


def submit(
    opened: OpenDevice,
    bundle: Bundle,
    program: str | int | None,
    inputs: Sequence[Tensor] | Mapping[str, Tensor],
    *,
    donate: Collection[int] | bool = (),
    strict: bool = False,
    evict: str = "on_pressure",
) -> list[Tensor]:
    """Queue a program and return handles on its outputs. The call waits only if memory is short, or for the
    oldest of ``max_in_flight`` queued submissions of the program (8, or as set by load_program).

    ``inputs``: Tensors in the bundle's order, or by name, on the devices that the program requires. An input
    in another layout is converted and counted; with ``strict`` it is an error. ``donate``: positions of
    inputs whose memory the program may free (True: all inputs that are not retained); inputs into which the
    program writes outputs are always donated. ``evict``: rule that chooses which tensors in this device's L1
    are moved to DRAM: "on_pressure" (tensors in the way), "unused" (all tensors) or "never" (none). Inputs
    are not moved.

    Raises InputError (count, type, layout under strict), DeviceError (closed, or an input elsewhere),
    HandleError, DeviceMemoryError, and what loading the program or a hook raises. After an error nothing
    was queued or donated, unless a hook after the program raised it.
    """
    if evict not in EVICT:
        raise InputError(f"evict is one of {', '.join(EVICT)}, got {evict!r}", got=evict, wanted=list(EVICT))
    target = executable(opened, bundle, program)
    given = _checked(target, inputs)
    if strict:
        _refuse_mismatch(target, given)
    donated = _donated(target, given, donate)
    if target.const and donated:
        text = f"{target.name} is const: its results are kept with its inputs, which cannot be donated"
        raise InputError(text, got=sorted(donated))
    if target.const:
        key = constants.key_of(target, given)
        found = constants.find(target, key)
        if found is not None:
            return [opened.adopt(tensor) for tensor in found]
    if evict == "unused":
        evict_unused(opened.handle, given)
    with donations if donated else nullcontext():  # if two threads donate one tensor, one of them fails
        for at in donated:
            given[at].alive()
        outputs = _submitted(target, given, donated, pressure=evict == "on_pressure")
    if target.const:
        outputs = constants.keep(key, given, outputs)
    return [opened.adopt(tensor) for tensor in outputs]


# **************** checks ****************


def _checked(target: Executable, inputs: Sequence[Tensor] | Mapping[str, Tensor]) -> list[Tensor]:
    if isinstance(inputs, Tensor) or not isinstance(inputs, Iterable):
        text = f"inputs is a list of Tensors, or names and Tensors, got {type(inputs).__name__}"
        raise InputError(text, got=type(inputs).__name__)
    given = _in_order(target, inputs) if isinstance(inputs, Mapping) else list(inputs)
    if len(given) != len(target.inputs):
        names = ", ".join(spec.name for spec in target.inputs)
        text = f"{target.name} takes {len(target.inputs)} inputs ({names}), got {len(given)}"
        raise InputError(text, got=len(given), wanted=len(target.inputs))
    for at, (tensor, spec) in enumerate(zip(given, target.inputs, strict=True)):
        _check(tensor, spec, f"input {at} ({spec.name!r}) of {target.name}")
    return given


def _in_order(target: Executable, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    """The inputs as a list in the bundle's order, from inputs by name. Raises InputError for unknown names,
    and for missing inputs."""
    names = [spec.name for spec in target.inputs]
    for name in inputs:
        if name not in names:
            raise InputError(
                f"{target.name} has no input {name!r}{did_you_mean(name, names)}", got=name, wanted=names
            )
    missing = [name for name in names if name not in inputs]
    if missing:
        text = f"{target.name} takes {len(names)} inputs ({', '.join(names)}): {', '.join(missing)} missing"
        raise InputError(text, got=list(inputs), wanted=names)
    return [inputs[name] for name in names]


def _check(tensor: Any, spec: InputSpec, what: str) -> None:
    if not isinstance(tensor, Tensor):
        raise InputError(
            f"{what} is a {type(tensor).__name__}, not a Tensor: make one with "
            "create_borrowed_host_tensor and to_device",
            got=type(tensor).__name__,
        )
    tensor.alive()
    if tensor.type != spec.type:
        differs = "shape" if tensor.shape != spec.type.shape else "dtype"
        text = f"{what}: {differs} mismatch: expected {spec.type}, got {tensor.type}"
        raise InputError(text, got=str(tensor.type), wanted=str(spec.type))
    if tensor.device != spec.device:
        text = (
            f"{what} must be on {spec.device}, tensor {tensor.id} is on {tensor.device}: move "
            "it with to_device"
        )
        raise DeviceError(text, device=str(spec.device), got=str(tensor.device))


def _refuse_mismatch(target: Executable, given: Sequence[Tensor]) -> None:
    for at, (tensor, spec) in enumerate(zip(given, target.inputs, strict=True)):
        if tensor.layout != spec.layout:
            text = (
                f"input {at} ({spec.name!r}) of {target.name}: layout mismatch: expected "
                f"{spec.layout}, got {tensor.layout} (strict)"
            )
            raise InputError(text, got=str(tensor.layout), wanted=str(spec.layout))


def _donated(target: Executable, given: Sequence[Tensor], donate: Collection[int] | bool) -> tuple[int, ...]:
    """The positions of the donated inputs. Raises InputError for a position that is not an input's, or is
    given twice."""
    if isinstance(donate, bool):
        asked = {at for at, t in enumerate(given) if donate and not t.retain}
    elif isinstance(donate, Iterable):
        asked = set(donate)
    else:
        raise InputError(f"donate is a list of positions, True or False, got {donate!r}", got=donate)
    if not asked <= set(range(len(given))):
        text = f"donate={donate!r}: {target.name} has inputs 0 to {len(given) - 1}"
        raise InputError(text, got=donate, wanted=len(given))
    found = []
    for at in sorted(asked | set(target.aliases)):
        if given[at].retain:
            warnings.warn(
                f"input {at} of {target.name} is retained: it stays, and is not donated", stacklevel=4
            )
            continue
        if given[at].alive().buffer is None:
            raise InputError(f"input {at} of {target.name} shows memory of a session: it cannot be donated")
        twice = sum(tensor.buffer is given[at].buffer for tensor in given) > 1
        if twice and (at in target.aliases or not isinstance(donate, bool)):
            raise InputError(
                f"input {at} of {target.name} is donated, and tensor {given[at].id} is "
                "another of its inputs, too",
                got=at,
            )
        found.append(at)
    return tuple(found)


def _donation(target: Executable, at: int) -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == _PACKAGE:
        frame = frame.f_back
    return (
        f"was donated to {target.name} as input {at} ({target.inputs[at].name!r}) in "
        f"{frame.f_code.co_filename}:{frame.f_lineno}"
    )


# **************** memory ****************


def _fitting(target: Executable, at: int, tensor: Tensor) -> Tensor:
    """The input in the layout that the program needs. A retained tensor that the program would overwrite is
    copied."""
    spec = target.inputs[at]
    if tensor.layout != spec.layout:
        record("mismatch", tensor.device, tensor.nbytes)
        return to(tensor, layout=spec.layout)
    if at in target.aliases and tensor.retain:
        record("rescue", tensor.device, tensor.nbytes)
        return duplicate(tensor)
    return tensor


# **************** running ****************


def _submitted(
    target: Executable, given: Sequence[Tensor], donated: Collection[int], pressure: bool
) -> list[Tensor]:
    """The outputs of the program, which is queued and counted between the program hooks."""
    registered, level = hooks.current()
    context = hooks.ProgramContext(target, tuple(given))
    if registered.pre_program:
        registered.pre_program(target.bundle, context)
    if hooks.MemoryLog.PROGRAM in level:
        hooks.log_memory(target.opened, f"before submit of {target.name}")
    outputs = _queued(target, given, donated, context, pressure)
    record("submit", target.opened.device)
    if hooks.MemoryLog.PROGRAM in level:
        hooks.log_memory(target.opened, f"after submit of {target.name}")
    if registered.post_program:
        registered.post_program(target.bundle, context)
    return outputs


def _queued(
    target: Executable,
    given: Sequence[Tensor],
    donated: Collection[int],
    context: hooks.ProgramContext,
    pressure: bool,
) -> list[Tensor]:
    """Convert inputs and queue the program. If L1 is short and tensors in the way can be moved, move them out
    of L1."""
    fitting: dict[int, Tensor] = {}

    def attempt() -> list[Tensor]:
        _drop_unfit(target, fitting)
        return _tried(target, given, fitting, donated, context)

    def needs() -> Iterator[Need]:
        _drop_unfit(target, fitting)
        values = {spec.index: fitting.get(at, given[at]) for at, spec in enumerate(target.inputs)}
        return of_submission(target.session.program, target.session.handles, values)

    return evicting(attempt, needs) if pressure else attempt()


def _drop_unfit(target: Executable, fitting: dict[int, Tensor]) -> None:
    """Remove from ``fitting`` the inputs that have been moved meanwhile, and the inputs that lie where
    circular buffers will be. These inputs are converted anew. A copy that was converted for this program is
    not moved instead: it could be placed in the same range again, and the caller would retry for ever."""
    for at, tensor in [*fitting.items()]:
        if tensor.layout != target.inputs[at].layout or _in_the_way(target, tensor):
            del fitting[at]


def _in_the_way(target: Executable, tensor: Tensor) -> bool:
    session = target.session
    return any(
        is_below(tensor, need.handle, need.end) for need in of_inline_run(session.program, session.handles)
    )


def _tried(
    target: Executable,
    given: Sequence[Tensor],
    fitting: dict[int, Tensor],
    donated: Collection[int],
    context: hooks.ProgramContext,
) -> list[Tensor]:
    """Convert the inputs missing in ``fitting`` {position: tensor that the program reads}, and queue the
    program. If DeviceMemoryError is raised, converted inputs are held by ``fitting`` alone."""
    registered, level = hooks.current()
    for at, tensor in enumerate(given):
        if at not in fitting:
            fitting[at] = _fitting(target, at, tensor)
    why = {at: _donation(target, at) for at in donated}
    if registered.pre_op or registered.post_op or hooks.MemoryLog.OPERATION in level:
        outputs = _op_by_op(target, context, fitting, registered, level)
        for at in donated:
            given[at].give_up(why[at])
        return outputs
    inputs: dict[int | str, Any] = {target.inputs[at].index: tensor for at, tensor in fitting.items()}
    donors = {target.inputs[at].index: (given[at], why[at]) for at in donated}
    session = target.session
    run = session.submissions().submit(inputs, None, donors, session.max_in_flight, donors)
    return list(run.forget())


def _op_by_op(
    target: Executable,
    context: hooks.ProgramContext,
    fitting: dict[int, Tensor],
    registered: hooks.Hooks,
    level: hooks.MemoryLog,
) -> list[Tensor]:
    """Run the program op by op in its own memory, in this thread. The outputs are copies."""
    if not target.lock.acquire(blocking=False):
        raise SessionBusyError(f"{target.name} is running with op hooks already, in this thread or another")
    session = target.session
    try:
        live = [session.output(i) for i in range(len(session.graph.outputs))]
        outputs = [
            allocate(t.type, t.device, t.layout) for t in live
        ]  # outputs are allocated before the run, so that memory cannot run out later
        for at, spec in enumerate(target.inputs):
            session.set_input(spec.index, fitting[at])
        for at in range(session.program.main):
            op = hooks.OpContext(target, at)
            if hooks.MemoryLog.OPERATION in level:
                hooks.log_memory(target.opened, f"before operation {op.debug_str}")
            if registered.pre_op:
                registered.pre_op(target.bundle, context, op)
            session.run_span(at, at + 1)
            if registered.post_op:
                registered.post_op(target.bundle, context, op)
            op.close()
        for source, made in zip(live, outputs, strict=True):
            made.copy_from(source)
        return outputs
    finally:
        target.lock.release()
