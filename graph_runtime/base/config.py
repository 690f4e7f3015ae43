"""GR_* settings: one table, read from the environment once, overridable by ``with config(...)``.

The table is their documentation, which ``graph-runtime devices --settings`` prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .errors import GraphRuntimeError, did_you_mean


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its name without GR_, its default (whose type is the setting's type) and its meaning."""

    name: str
    default: int | str
    meaning: str


_TABLE = (
    Setting("NUM_THREADS", 0, "threads of the intra-op pool, the caller counted; 0: all the process may use"),
    Setting(
        "PIN",
        "",
        "cores that the pool's threads stay on, as 0,2,4-7, or all: those of the process; the first is left "
        "to the caller, which is not bound; empty: the system places threads",
    ),
    Setting("AMX", 1, "0: no products by AMX's tiles, on CPUs that have them; read by the first product"),
    Setting("CACHE_DIR", "", "where compiled module libraries are kept; empty: ~/.cache/graph_runtime"),
    Setting("CACHE_MB", 4096, "MiB that compiled kernels may take there; the longest unused go first"),
    Setting("CACHE_DAYS", 0, "days after which kernels that were not used go from there; 0: never"),
    Setting("TRUST_DIR", "", "where trusted libraries are written down; empty: ~/.local/share/graph_runtime"),
    Setting("TRUST_KEY", "", "the key file that signs libraries of bundles; empty: key in that folder"),
    Setting("CC", "", "the C compiler; empty: $CC, else gcc, else cc"),
    Setting("CC_TIMEOUT", 300, "seconds after which a C compiler that has not ended is killed; 0: never"),
    Setting("MAP", 1, "0: files of parameters and bundles are read into memory, not mapped"),
    Setting(
        "GUARD",
        0,
        "1: device memory is PROT_NONE outside kernels and copies, fresh memory holds NaNs, "
        "host blocks fault on writes that did not wait for queued work",
    ),
    Setting(
        "DEBUG",
        0,
        "run and bench say on stderr: 1 devices and memories, 2 also a timed line a node, "
        "3 the whole plan with its causes too",
    ),
    Setting("TORCH_DEVICES", "tt:0,tt:1", "the devices that torch knows as tt:0, tt:1, .., as tt:0=n150"),
    Setting(
        "TORCH_NATIVE",
        "auto",
        "the C++ way of torch's calls that repeat: auto compiles it beside the process, once it pays, build "
        "at the first such call, which waits; off does not use it",
    ),
    Setting(
        "TTNN_BOARD",
        "",
        "the board or machine that ttnn opens, as p150 or t3000, where --board names none; empty: n150",
    ),
)
_values: dict[str, int | str] = {}


def settings() -> tuple[Setting, ...]:
    """All settings, with defaults and meanings."""
    return _TABLE


def _find(name: str) -> Setting:
    for setting in _TABLE:
        if setting.name == name:
            return setting
    raise GraphRuntimeError(f"no setting GR_{name}{did_you_mean(name, [s.name for s in _TABLE])}", got=name)


def get(name: str) -> int | str:
    """The value of GR_<name>. Raises GraphRuntimeError for an unknown name or a value of the wrong type."""
    if name not in _values:
        setting = _find(name)
        text = os.environ.get("GR_" + name)
        _values[name] = setting.default if text is None else _convert(setting, text)
    return _values[name]


def _convert(setting: Setting, value: Any) -> int | str:
    try:
        return type(setting.default)(value)
    except ValueError:
        text = f"GR_{setting.name} must be an integer, got {value!r}: {setting.meaning}"
        raise GraphRuntimeError(text, got=value) from None


@contextmanager
def config(**overrides: int | str) -> Iterator[None]:
    """Override settings inside a with block: ``with config(NUM_THREADS=1): ...``."""
    before = {name: get(name) for name in overrides}
    _values.update({name: _convert(_find(name), value) for name, value in overrides.items()})
    try:
        yield
    finally:
        _values.update(before)
