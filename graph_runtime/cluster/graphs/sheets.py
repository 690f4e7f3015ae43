"""The sheet of a machine: which values each stage of the machine's part reads, makes and sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .cut import Cut


@dataclass(frozen=True, slots=True)
class StageSheet:
    """Instructions for a stage: ``program``: name of the stage's program in the bundle; ``given`` {input: the
    caller's input}; ``reads`` {input: value of another stage}; ``makes``: names of the values of the outputs.
    ``needs``: (machine, stage) of each message to wait for before the stage runs. ``sends`` {machine: {value:
    its name on that machine}}: values to send after the stage has run. ``state``: names of the inputs that
    its runs write."""

    program: str
    given: Mapping[str, str]
    reads: Mapping[str, str]
    makes: tuple[str, ...]
    needs: tuple[tuple[str, int], ...]
    sends: Mapping[str, Mapping[str, str]]
    state: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Instructions for the part of ``machine``. ``outputs``: names of the values that the caller may fetch
    from that machine."""

    machine: str
    stages: tuple[StageSheet, ...]
    outputs: tuple[str, ...]


def sheets(cut: Cut) -> dict[str, Sheet]:
    """The sheet of each machine of a cut."""
    found: dict[str, Sheet] = {}
    for machine, part in cut.parts.items():
        arrived: set[tuple[str, int]] = set()
        stages = []
        for number, stage in enumerate(part.stages):
            values = set(stage.reads.values())
            arriving = [c for c in cut.crossings if c.target == machine and c.received in values]
            needs = {(c.source, c.stage) for c in arriving}
            sends: dict[str, dict[str, str]] = {}
            for c in cut.crossings:
                if (c.source, c.stage) == (machine, number):
                    sends.setdefault(c.target, {})[c.sent] = c.received
            needed, state = tuple(sorted(needs - arrived)), tuple(sorted(stage.state))
            row = StageSheet(stage.program, stage.given, stage.reads, stage.makes, needed, sends, state)
            stages.append(row)
            arrived |= needs
        outputs = tuple(dict.fromkeys(value for at, value in cut.outputs if at == machine))
        found[machine] = Sheet(machine, tuple(stages), outputs)
    return found


def whole_sheet(
    machine: str, program: str, inputs: Sequence[str], outputs: Sequence[str], state: Sequence[str]
) -> Sheet:
    """The sheet of a machine that runs a whole program of a bundle, as a single stage."""
    given = {name: name for name in inputs}
    row = StageSheet(program, given, {}, tuple(outputs), (), {}, tuple(state))
    return Sheet(machine, (row,), tuple(outputs))
