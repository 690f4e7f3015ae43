"""Loop bodies of one specialization, whose states stay in the specialization's memory.

An iteration writes the changing inputs where the specialization reads them, and runs the specialization. No
step is looked up. States are copied from the specialization's outputs to its inputs, within the device if
both are on one device. Bodies of several steps run as flows instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from ...base.machine.layout import HOST
from ...binding.core import host_view, writable_view
from ..sessions.session import Session
from ..tensors.tensor import Tensor
from .flow_values import FlowValue, array_of
from .specializations import Specialization

Place = np.ndarray | Tensor  # memory of the host, or a live tensor of a device

# no other thread and no queued run may use the session while these places are read and written


def _input_place(session: Session, index: int) -> Place | None:
    """The memory from which graph input ``index`` is read, so that the caller can write it. None if the input
    has no value yet, is read-only, or lives elsewhere (zero copy, constants)."""
    if index in session.unset or index in session.sharing or session.is_bound(index):
        return None
    tensor = session.input(index)
    if tensor.readonly or tensor.layout.memory != HOST:
        return None if tensor.readonly else tensor
    return writable_view(tensor.type, *session.home(int(session.graph.input_eids[index])))


def _output_place(session: Session, index: int) -> Place:
    """The live values of graph output ``index``."""
    tensor = session.output(index)
    if tensor.layout.memory != HOST:
        return tensor
    view = host_view(tensor.type, *session.home(int(session.graph.outputs[index])))
    return tensor if view is None else view


def _runner(session: Session, written: Sequence[int]) -> Callable[[], None]:
    """A function that runs the session after these inputs were written in place; if other devices read the
    inputs, it first copies them there."""
    spans = [session.program.at_input[index] for index in written if index in session.program.at_input]
    if not spans:
        return session.run

    def run() -> None:
        for first, last in spans:
            session.run_span(first, last)
        session.run()

    return run


@dataclass(frozen=True, eq=False)
class ResidentBody:
    """The memory and the functions of one iteration. ``inputs``: memory of the specialization's inputs, by
    the body's names; ``outputs``: live or constant values, in order; ``hand_on``: function that copies states
    to the memory from which the next run reads them; ``step``: function that runs the specialization after
    inputs were written."""

    inputs: Mapping[str, Place]
    outputs: tuple[Place, ...]
    hand_on: Callable[[], None]
    step: Callable[[], None]

    def feed(self, name: str, value: Any) -> None:
        """Write an input into the specialization's memory."""
        place = self.inputs.get(name)
        if isinstance(place, np.ndarray):
            place[...] = value
        elif place is not None:
            place.copy_from(np.asarray(value, order="C"))


def _moves(
    inputs: Mapping[str, Place], outputs: Sequence[Place], states: Sequence[str], first: int
) -> Callable[[], None] | None:
    """A function that copies the outputs ``first``, ``first`` + 1, ... to the inputs called ``states``. None
    if types differ, or if a state on a device is also the target of another state. A host state that overlaps
    a target is copied before any target is written."""
    moves: list[tuple[Place, Place]] = []
    for name, source in zip(states, outputs[first:], strict=False):
        target = inputs.get(name)
        if target is None or target is source or _same(target, source):
            continue
        if (tuple(target.shape), _dtype(target)) != (tuple(source.shape), _dtype(source)):
            return None
        moves.append((target, source))
    targets = [target for target, _ in moves]
    if any(source is target for _, source in moves for target in targets if isinstance(target, Tensor)):
        return None
    memory = [target for target in targets if isinstance(target, np.ndarray)]
    staged = []
    for at, (target, source) in enumerate(moves):
        if isinstance(source, np.ndarray) and any(np.may_share_memory(source, other) for other in memory):
            staged.append((np.empty_like(source), source))
            moves[at] = target, staged[-1][0]
    if any(isinstance(place, Tensor) for move in moves for place in move):
        return partial(_move, (*staged, *moves))
    order = cast("Sequence[tuple[np.ndarray, np.ndarray]]", (*staged, *moves))

    def hand_on() -> None:
        for target, source in order:
            target[...] = source

    return hand_on


def _move(moves: Sequence[tuple[Place, Place]]) -> None:
    for target, source in moves:
        if isinstance(target, Tensor):
            target.copy_from(source)
        else:
            target[...] = array_of(source)


def _dtype(place: Place) -> str:
    return place.dtype.name if isinstance(place, np.ndarray) else place.dtype


def resident_of(
    specialization: Specialization,
    reads: Mapping[str, int],
    makes: Mapping[str, str],
    outputs: Sequence[str],
    fed: Sequence[str],
    states: Sequence[str],
    first: int,
    values: Mapping[str, FlowValue],
    known: Callable[[str], FlowValue],
) -> ResidentBody | None:
    """The ResidentBody of a specialization, after a run of it as a flow, which set all inputs. None if a
    changing value is not in the session's own memory.

    ``reads`` {name: index of the specialization's input}; ``makes`` {name: name of the specialization's
    output}; ``outputs``: names of the body's outputs; ``fed``: inputs that an iteration writes; ``states``:
    inputs whose next values are the outputs ``first``, ``first`` + 1, ...; ``values`` and ``known``: all
    other values by name."""
    changing = (*fed, *states)
    session = specialization.session
    inputs: dict[str, Place] = {}
    for name in changing:
        if name in reads:
            place = _input_place(session, reads[name])
            if place is None:
                return None
            inputs[name] = place
    at = {name: index for index, name in enumerate(session.graph.output_names)}
    found: list[Place] = []
    for name in outputs:
        if name in makes:
            found.append(_output_place(session, at[makes[name]]))
        elif name in inputs:
            found.append(inputs[name])
        elif name in changing:
            return None
        else:
            found.append(array_of(values[name] if name in values else known(name)))
    hand_on = _moves(inputs, found, states, first)
    if hand_on is None:
        return None
    return ResidentBody(inputs, tuple(found), hand_on, _runner(session, [reads[name] for name in inputs]))


def _same(a: Place, b: Place) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return False
    return a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.dtype == b.dtype
