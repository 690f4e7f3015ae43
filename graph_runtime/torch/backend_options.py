"""Options of torch.compile(backend="tt", options={...})."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..base.errors import InputError, did_you_mean
from ..base.machine.devices import parse

__all__ = ["BackendOptions", "read"]


@dataclass(frozen=True)
class BackendOptions:
    """``fidelity`` of products on tt ("LoFi" to "HiFi4"), ``dst`` what their sums are kept in; ``formats``
    {device or kind: format of its floats}, or one format for tt; ``placement`` {glob of op or node names:
    device}; ``trace`` a folder for the predicted timeline of each program; ``fallback``: "cpu" (operations
    without a kernel on tt run on the CPU, in the same program), "eager" (a graph that has one runs op by op)
    or "error" (neither); ``max_programs`` of one graph, one for each set of sizes: more run op by op."""

    fidelity: str | None = None
    dst: str | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    placement: Mapping[str, str] = field(default_factory=dict)
    trace: Path | None = None
    fallback: str = "cpu"
    max_programs: int = 8

    @property
    def numerics(self) -> dict[str, dict[str, str]]:
        """As plan() takes them."""
        said = {
            key: value for key, value in (("fidelity", self.fidelity), ("dst", self.dst)) if value is not None
        }
        return {"tt": said} if said else {}


_FALLBACKS = ("cpu", "eager", "error")


def read(given: Mapping[str, Any] | None) -> BackendOptions:
    """Options of what a user gave. Raises InputError, with "did you mean"."""
    known = {f.name for f in fields(BackendOptions)}
    given = dict(given or {})
    for name in given:
        if name not in known:
            raise InputError(
                f'backend "tt" has no option {name!r}{did_you_mean(name, known)}',
                got=name,
                wanted=sorted(known),
            )
    if isinstance(given.get("formats"), str):
        given["formats"] = {"tt": given["formats"]}
    for name in ("formats", "placement"):
        if name in given and not isinstance(given[name], Mapping):
            raise InputError(
                f"option {name} is a mapping, got {given[name]!r}", got=type(given[name]).__name__
            )
    if given.get("trace") is not None:
        given["trace"] = Path(given["trace"])
    made = BackendOptions(**given)
    if made.fallback not in _FALLBACKS:
        raise InputError(
            f"option fallback is one of {', '.join(_FALLBACKS)}, got {made.fallback!r}"
            f"{did_you_mean(str(made.fallback), _FALLBACKS)}",
            got=made.fallback,
            wanted=_FALLBACKS,
        )
    if not isinstance(made.max_programs, int) or made.max_programs < 1:
        raise InputError(
            f"option max_programs is 1 or more, got {made.max_programs!r}", got=made.max_programs
        )
    placed = {glob: str(parse(device)) for glob, device in made.placement.items()}
    return BackendOptions(
        **{**{f.name: getattr(made, f.name) for f in fields(BackendOptions)}, "placement": placed}
    )
