"""What a machine is told of its part: the sheet, JSON that says what each stage reads, makes and sends.

sheets(cut) -> {machine: sheet}            read_sheet(raw) -> Sheet, where it arrives
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import DocumentError
from .cut import Cut

__all__ = ["Sheet", "StageSheet", "read_sheet", "sheets", "whole_sheet"]


@dataclass(frozen=True, slots=True)
class StageSheet:
    """A stage: its ``program`` in the bundle, ``given`` {input: the caller's input}, ``reads`` {input:
    value}, ``makes`` the value of each output, ``needs`` [(machine, stage)] whose messages come before it,
    ``sends`` {machine: {value: its name there}} after it, ``state``: inputs that its runs write."""

    program: str
    given: Mapping[str, str]
    reads: Mapping[str, str]
    makes: tuple[str, ...]
    needs: tuple[tuple[str, int], ...]
    sends: Mapping[str, Mapping[str, str]]
    state: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The part of ``machine``; ``outputs``: the values that the caller may fetch there."""

    machine: str
    stages: tuple[StageSheet, ...]
    outputs: tuple[str, ...]


def sheets(cut: Cut) -> dict[str, dict[str, Any]]:
    """The sheet of each machine of a cut, as JSON."""
    found: dict[str, dict[str, Any]] = {}
    for machine, part in cut.parts.items():
        arrived: set[tuple[str, int]] = set()
        rows = []
        for number, stage in enumerate(part.stages):
            values = set(stage.reads.values())
            needs = {
                (c.source, c.stage) for c in cut.crossings if c.target == machine and c.received in values
            }
            sends: dict[str, dict[str, str]] = {}
            for c in cut.crossings:
                if (c.source, c.stage) == (machine, number):
                    sends.setdefault(c.target, {})[c.received] = c.sent
            rows.append(
                {
                    "program": stage.program,
                    "given": dict(stage.given),
                    "reads": dict(stage.reads),
                    "makes": list(stage.makes),
                    "needs": sorted(map(list, needs - arrived)),
                    "sends": {
                        to: {sent: received for received, sent in of.items()} for to, of in sends.items()
                    },
                    "state": sorted(stage.state),
                }
            )
            arrived |= needs
        outputs = list(dict.fromkeys(value for at, value in cut.outputs if at == machine))
        found[machine] = {"machine": machine, "stages": rows, "outputs": outputs}
    return found


def whole_sheet(
    machine: str, program: str, inputs: Sequence[str], outputs: Sequence[str], state: Sequence[str]
) -> dict[str, Any]:
    """The sheet of a machine that runs a whole program of a bundle."""
    row = {
        "program": program,
        "given": {name: name for name in inputs},
        "reads": {},
        "makes": list(outputs),
        "needs": [],
        "sends": {},
        "state": list(state),
    }
    return {"machine": machine, "stages": [row], "outputs": list(outputs)}


def read_sheet(raw: Any) -> Sheet:
    """A sheet that arrived. Raises DocumentError for what is none, with the place."""
    stages = tuple(_stage(row, f"$.stages[{i}]") for i, row in enumerate(_list(raw, "stages", "$")))
    return Sheet(_text(raw, "machine", "$"), stages, tuple(_texts(raw, "outputs", "$")))


def _stage(row: Any, at: str) -> StageSheet:
    needs = []
    for pair in _list(row, "needs", at):
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not isinstance(pair[0], str)
            or type(pair[1]) is not int
        ):
            raise DocumentError("a stage needs [machine, stage]", path=f"{at}.needs")
        needs.append((pair[0], pair[1]))
    sends = row.get("sends")
    if not isinstance(sends, dict):
        raise DocumentError("what a stage sends is an object", path=f"{at}.sends")
    return StageSheet(
        _text(row, "program", at),
        _names(row.get("given"), f"{at}.given"),
        _names(row.get("reads"), f"{at}.reads"),
        tuple(_texts(row, "makes", at)),
        tuple(needs),
        {to: _names(of, f"{at}.sends") for to, of in sends.items()},
        tuple(_texts(row, "state", at)),
    )


def _list(raw: Any, name: str, at: str) -> list[Any]:
    value = raw.get(name) if isinstance(raw, dict) else None
    if not isinstance(value, list):
        raise DocumentError(f"a part's sheet has a list of {name}", path=f"{at}.{name}")
    return value


def _text(raw: Any, name: str, at: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str):
        raise DocumentError(f"{name} of a part's sheet is a text", path=f"{at}.{name}")
    return value


def _texts(raw: Any, name: str, at: str) -> list[str]:
    values = _list(raw, name, at)
    if not all(isinstance(value, str) for value in values):
        raise DocumentError(f"{name} of a part's sheet are texts", path=f"{at}.{name}")
    return values


def _names(raw: Any, at: str) -> dict[str, str]:
    if not isinstance(raw, dict) or not all(isinstance(value, str) for value in raw.values()):
        raise DocumentError("is an object of texts", path=at)
    return raw
