"""What a lower layer uses of a higher one without knowing it: a name that the package's top provides for.

``graph_runtime/__init__.py`` says which module answers to a name. It is imported at the first ``provided()``.
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
