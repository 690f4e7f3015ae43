"""The machine that a benchmark runs on, as fields of its JSON lines."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from graph_runtime.base.machine import isa

__all__ = ["machine"]

_FIELDS = {"model name": "cpu", "cpu family": "family", "model": "model"}


def machine(*packages: str) -> dict[str, object]:
    """CPU name, family and model, the highest level of its instruction set (our fast kernels take what there
    is), cores that this process may use, load of one minute, and the versions of ``packages`` that are
    installed."""
    line: dict[str, object] = {name: "" for name in _FIELDS.values()}
    for text in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = text.partition(":")
        if key.strip() in _FIELDS:
            line[_FIELDS[key.strip()]] = value.strip()
    line |= {
        "isa": _level(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "versions": {name: found for name in packages if (found := _version(name))},
    }
    return line


def _level() -> str:
    features = isa.host_features() or frozenset()
    if not isa.best_level():
        return isa.host_arch()
    return next(level for level in isa.LEVELS if features.issuperset(isa.LEVELS[level]))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
