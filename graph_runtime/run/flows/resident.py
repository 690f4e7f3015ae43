"""Loop bodies that are one program at fixed sizes: their states stay in the program's memory.

An iteration writes what changes where the program reads it, and runs the program: no step is looked up, and
states go from where the program makes them to where it reads them, within a device where both are there. A
body that is not like that is run as a flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from ..sessions.memory import device_input, input_memory, output_memory, runner
from ..tensors.tensor import Tensor
from .flow_values import Value, array_of
from .programs import SizedProgram

__all__ = ["ResidentBody", "resident_of"]


Place = np.ndarray | Tensor  # memory of the host, or a live tensor of another device


@dataclass(frozen=True, eq=False)
class ResidentBody:
    """``inputs``: where the program reads, by the body's names; ``outputs``: what it makes, in order, live or
    constant; ``hand_on`` copies states to where the next run reads them; ``step``: a run, after inputs were
    written."""

    inputs: Mapping[str, Place]
    outputs: tuple[Place, ...]
    hand_on: Callable[[], None]
    step: Callable[[], None]

    def feed(self, name: str, value: Any) -> None:
        """Write an input, where the program reads it."""
        place = self.inputs.get(name)
        if isinstance(place, np.ndarray):
            place[...] = value
        elif place is not None:
            place.copy_from(np.asarray(value, order="C"))


def _moves(
    inputs: Mapping[str, Place], outputs: Sequence[Place], states: Sequence[str], first: int
) -> Callable[[], None] | None:
    """What hands outputs ``first``, ... on to the inputs called ``states``; None where one has another type,
    or is of a device and another state is read there. One of the host that is is copied before any is
    written."""
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
    program: SizedProgram,
    reads: Mapping[str, int],
    makes: Mapping[str, str],
    outputs: Sequence[str],
    fed: Sequence[str],
    states: Sequence[str],
    first: int,
    values: Mapping[str, Value],
    known: Callable[[str], Value],
) -> ResidentBody | None:
    """The body of a program after one run of it as a flow, which set all of its inputs; None where what
    changes has no memory of the session's own.

    ``reads`` {name: index of the program's input}; ``makes`` {name: its output}; ``outputs``: of the body;
    ``fed``: inputs that an iteration writes; ``states``: those that outputs ``first``, ... are handed on to;
    ``values``, ``known``: what the others are.
    """
    changing = (*fed, *states)
    session = program.session
    inputs: dict[str, Place] = {}
    for name in changing:
        if name in reads:
            memory = input_memory(session, reads[name])
            place = device_input(session, reads[name]) if memory is None else memory
            if place is None:
                return None
            inputs[name] = place
    at = {name: index for index, name in enumerate(session.graph.output_names)}
    found: list[Place] = []
    for name in outputs:
        if name in makes:
            view = output_memory(session, at[makes[name]])
            found.append(session.output(at[makes[name]]) if view is None else view)
        elif name in inputs:
            found.append(inputs[name])
        elif name in changing:
            return None
        else:
            found.append(array_of(values[name] if name in values else known(name)))
    hand_on = _moves(inputs, found, states, first)
    if hand_on is None:
        return None
    return ResidentBody(inputs, tuple(found), hand_on, runner(session, [reads[name] for name in inputs]))


def _same(a: Place, b: Place) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return False
    return a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.dtype == b.dtype
