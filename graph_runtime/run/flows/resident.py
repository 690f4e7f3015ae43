"""Loop bodies that are one program at fixed sizes: their states stay in the program's memory.

An iteration writes what changes where the program reads it, and runs the program: no tensors are made and no
step is looked up. A body that is not like that is run as a flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..sessions.memory import input_memory, output_memory, runner
from .flow_values import Value, array_of
from .programs import SizedProgram

__all__ = ["ResidentBody", "resident_of"]


Views = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class ResidentBody:
    """``inputs``: memory that the program reads, by the body's names; ``outputs``: what it makes, in order,
    live or constant; ``hand_on`` copies states to where the next run reads them; ``step``: a run, after
    inputs were written."""

    inputs: Views
    outputs: tuple[np.ndarray, ...]
    hand_on: Callable[[], None]
    step: Callable[[], None]


def _moves(inputs: Views, outputs: Sequence[np.ndarray], states: Sequence[str], first: int) -> Any:
    """What hands outputs ``first``, ... on to the inputs called ``states``; None where one has another type.
    An output that lies where another state is read is copied before any is written."""
    moves: list[tuple[np.ndarray, np.ndarray]] = []
    for name, source in zip(states, outputs[first:], strict=False):
        target = inputs.get(name)
        if target is None or _same(target, source):
            continue
        if (target.shape, target.dtype) != (source.shape, source.dtype):
            return None
        moves.append((target, source))
    staged = []
    for at, (target, source) in enumerate(moves):
        if any(np.may_share_memory(source, other) for other, _ in moves):
            staged.append((np.empty_like(source), source))
            moves[at] = target, staged[-1][0]
    order = (*staged, *moves)

    def hand_on() -> None:
        for target, source in order:
            target[...] = source

    return hand_on


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
    changes, or what is made, does not lie on the host.

    ``reads`` {name: index of the program's input}; ``makes`` {name: its output}; ``outputs``: of the body;
    ``fed``: inputs that an iteration writes; ``states``: those that outputs ``first``, ... are handed on to;
    ``values``, ``known``: what the others are.
    """
    changing = (*fed, *states)
    session = program.session
    inputs: dict[str, np.ndarray] = {}
    for name in changing:
        if name in reads:
            memory = input_memory(session, reads[name])
            if memory is None:
                return None
            inputs[name] = memory
    at = {name: index for index, name in enumerate(session.graph.output_names)}
    found: list[np.ndarray] = []
    for name in outputs:
        view = output_memory(session, at[makes[name]]) if name in makes else inputs.get(name)
        if view is None and (name in changing or name in makes):
            return None
        found.append(view if view is not None else array_of(values[name] if name in values else known(name)))
    hand_on = _moves(inputs, found, states, first)
    if hand_on is None:
        return None
    return ResidentBody(inputs, tuple(found), hand_on, runner(session, [reads[name] for name in inputs]))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.dtype == b.dtype
