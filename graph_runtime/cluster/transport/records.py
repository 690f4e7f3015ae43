"""Dataclasses in the headers of messages. orjson writes a dataclass as an object of its fields; this module
reads it.

connection.send({"served": served}) read_record(Served, header["served"])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from ...base.errors import DocumentError

T = TypeVar("T")


def read_record(kind: type[T], raw: Any, path: str = "$") -> T:
    """The dataclass read from ``raw``. Raises DocumentError, with the place, for values that its fields do
    not accept."""
    return cast("T", _read(kind, raw, path))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, raw: Any, path: str) -> Any:
    origin, of = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(raw, dict):
        hints = _hints(cast("Any", kind)).items()
        return cast("Any", kind)(**{n: _read(hint, raw.get(n), f"{path}.{n}") for n, hint in hints})
    if origin is UnionType and raw is None:
        return None
    if origin is UnionType:
        return _read(of[0], raw, path)
    if origin is tuple and isinstance(raw, list):
        kinds = of[:1] * len(raw) if of[1:] == (...,) else of
        if len(kinds) == len(raw):
            return tuple(_read(kinds[i], value, f"{path}[{i}]") for i, value in enumerate(raw))
    if origin is Mapping and isinstance(raw, dict):
        return {name: _read(of[1], value, f"{path}.{name}") for name, value in raw.items()}
    if type(raw) is kind or (kind is float and type(raw) is int):
        return raw
    raise DocumentError(f"a message has no {getattr(kind, '__name__', kind)} at {path}", path=path)
