"""Options of torch.compile(backend="tt", options={...})."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ...base.errors import InputError, PlanError, did_you_mean
from ...base.machine.devices import cpu, parse
from ...ir.ops.numerics import NAMES, options_error
from ...ir.ops.registry import all_ops
from ...plan.defaults import read_formats
from ..store import devices

__all__ = ["BackendOptions", "read", "require_places"]


@dataclass(frozen=True)
class BackendOptions:
    """``fidelity`` of products on tt ("LoFi" to "HiFi4"), ``dst`` what their sums are kept in, ``numerics``
    "fast", "exact" or "ttnn" arithmetic there; ``formats`` {device or kind: format of its floats}, or one
    format for tt; ``placement`` {glob of op or node names: device}; ``trace`` a folder for the predicted
    timeline of each program; ``fallback``: "cpu" (operations without a kernel on tt run on the CPU, in the
    same program), "eager" (a graph that has one runs op by op) or "error" (neither); ``max_programs`` of one
    graph, one for a range of its sizes: the one that was used longest ago goes for another; ``buckets``:
    whether a program may serve smaller sizes than its own, where padding is proven harmless."""

    fidelity: str | None = None
    dst: str | None = None
    numerics: str | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    placement: Mapping[str, str] = field(default_factory=dict)
    trace: Path | None = None
    fallback: str = "cpu"
    max_programs: int = 8
    buckets: bool = True

    @property
    def arithmetic(self) -> dict[str, dict[str, str]]:
        """Numerics as plan() takes them."""
        said = {name: getattr(self, name) for name in NAMES if getattr(self, name) is not None}
        return {"tt": said} if said else {}


_FALLBACKS = ("cpu", "eager", "error")


def read(given: Mapping[str, Any] | None) -> BackendOptions:
    """Options of what a user gave. Raises InputError for a name or a value that is none, with "did you mean",
    DeviceError for a device that is none."""
    known = {f.name for f in fields(BackendOptions)}
    given = dict(given or {})
    for name in given:
        if name not in known:
            raise InputError(
                f'backend "tt" has no option {name!r}{did_you_mean(name, known)}',
                got=name,
                wanted=sorted(known),
            )
    if reason := options_error({key: given[key] for key in NAMES if given.get(key) is not None}):
        raise InputError(f"option {reason}", wanted=NAMES)
    if isinstance(given.get("formats"), str):
        given["formats"] = {"tt": given["formats"]}
    for name in ("formats", "placement"):
        given[name] = _names(name, given.get(name) or {})
    try:
        read_formats((*devices(), cpu(0)), given["formats"])
    except PlanError as error:
        raise InputError(f"option formats: {error}", got=given["formats"]) from error
    given["placement"] = {glob: str(parse(device)) for glob, device in given["placement"].items()}
    if given.get("trace") is not None:
        if not isinstance(given["trace"], (str, os.PathLike)):
            raise InputError(f"option trace is a folder's path, got {given['trace']!r}", got=given["trace"])
        given["trace"] = Path(given["trace"])
    made = BackendOptions(**given)
    if made.fallback not in _FALLBACKS:
        raise InputError(
            f"option fallback is one of {', '.join(_FALLBACKS)}, got {made.fallback!r}"
            f"{did_you_mean(str(made.fallback), _FALLBACKS)}",
            got=made.fallback,
            wanted=_FALLBACKS,
        )
    if type(made.max_programs) is not int or made.max_programs < 1:
        raise InputError(
            f"option max_programs is 1 or more, got {made.max_programs!r}", got=made.max_programs
        )
    if type(made.buckets) is not bool:
        raise InputError(f"option buckets is True or False, got {made.buckets!r}", got=made.buckets)
    return made


def require_places(placement: Mapping[str, str], nodes: Collection[str]) -> None:
    """Raise InputError for a glob that matches no op of the registry and no node of a graph."""
    known = [*all_ops(), *nodes]
    for glob in placement:
        if not fnmatch.filter(known, glob):
            close = did_you_mean(glob.rstrip("*?"), known)
            text = f"option placement: {glob!r} matches no op and no node of the graph{close}"
            raise InputError(text, got=glob)


def _names(option: str, given: Any) -> dict[str, str]:
    """An option that is a mapping of names. Raises InputError for another."""
    if not isinstance(given, Mapping):
        raise InputError(f"option {option} is a mapping, got {given!r}", got=type(given).__name__)
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InputError(f"option {option} has names for names, got {key!r}: {value!r}", got=value)
    return dict(given)
