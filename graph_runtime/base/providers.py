"""Objects of higher layers, which lower layers get by name because they must not import higher layers.

``graph_runtime/__init__.py`` names the module of each object, which is imported at the first
``provided(name)``. A table of docs/architecture.md has all names, the modules that ask, and why
(tests/system/test_layers.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_providers: dict[str, Callable[[], Any]] = {}


def provide(providers: Mapping[str, Callable[[], Any]]) -> None:
    """Register ``{name: function that imports and returns the object}``."""
    _providers.update(providers)


def provided(name: str) -> Any:
    """The object registered as ``name``."""
    return _providers[name]()
