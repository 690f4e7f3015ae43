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
from ...plan.supports import read_formats
from ..store import devices


@dataclass(frozen=True)
class BackendOptions:
    """The options of one call of torch.compile.

    ``fidelity``: math fidelity of matrix products on tt, "LoFi" to "HiFi4".
    ``dst``: format of the sums of products.
    ``numerics``: numerics of tt's arithmetic: "fast", "exact" or "ttnn".
    ``formats``: {device or kind of device: format of its floats}, or one format for tt.
    ``placement``: {glob of op or node names: device}.
    ``trace``: folder for the predicted timeline of each program.
    ``fallback``: treatment of operations without a kernel on tt: "cpu" (they run on the CPU, in the same
    program), "eager" (a graph with such an operation runs op by op) or "error" (neither).
    ``max_programs``: greatest number of programs of one graph, each for a range of sizes. A further program
    replaces the least recently used program.
    ``buckets``: whether a program may serve smaller sizes than the sizes for which it was made, if padding is
    proven harmless.
    """

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
        """The option ``numerics`` in the form that plan() takes."""
        said = {name: getattr(self, name) for name in NAMES if getattr(self, name) is not None}
        return {"tt": said} if said else {}


_FALLBACKS = ("cpu", "eager", "error")


def read(given: Mapping[str, Any] | None) -> BackendOptions:
    """The user's options, checked. Raises InputError for an unknown name or a wrong value, with a "did you
    mean" hint; DeviceError for an unknown device."""
    known = {f.name for f in fields(BackendOptions)}
    given = dict(given or {})
    for name in given:
        if name not in known:
            text = f'backend "tt" has no option {name!r}{did_you_mean(name, known)}'
            raise InputError(text, got=name, wanted=sorted(known))
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
        text = (
            f"option fallback is one of {', '.join(_FALLBACKS)}, got {made.fallback!r}"
            f"{did_you_mean(str(made.fallback), _FALLBACKS)}"
        )
        raise InputError(text, got=made.fallback, wanted=_FALLBACKS)
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
    """The value of an option that maps names to names. Raises InputError for anything else."""
    if not isinstance(given, Mapping):
        raise InputError(f"option {option} is a mapping, got {given!r}", got=type(given).__name__)
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InputError(f"option {option} has names for names, got {key!r}: {value!r}", got=value)
    return dict(given)
