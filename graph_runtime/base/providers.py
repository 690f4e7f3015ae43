"""Names by which a lower layer asks a higher one, which it must not import: the package's top answers.

``graph_runtime/__init__.py`` says which module that is; it is imported at the first ``provided()``. A table
of docs/architecture.md has all names, the modules that ask, and why (tests/system/test_layers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["provide", "provided"]

_providers: dict[str, Callable[[], Any]] = {}


def provide(providers: Mapping[str, Callable[[], Any]]) -> None:
    """``{name: function that imports and returns what answers to it}``."""
    _providers.update(providers)


def provided(name: str) -> Any:
    """What answers to ``name``."""
    return _providers[name]()
