"""Public names of a package that are imported when they are first used.

A package writes each of them once, where type checkers and editors read it: as ``from .home import name as
name`` below ``if TYPE_CHECKING:``. Here those lines are read, when the first of the names is asked for.
"""

from __future__ import annotations

import sys
from functools import cached_property
from importlib import import_module
from typing import Any

from .errors import no_attribute


class LateNames:
    """The names of a package, whose ``__getattr__`` and ``__dir__`` ask it. ``__all__`` is among them."""

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def homes(self) -> dict[str, str]:
        """public name -> the module that defines it, or that it is in, relative to the package."""
        spec = sys.modules[self._package].__spec__
        text = spec.loader.get_data(spec.origin).decode()  # type: ignore[union-attr]
        lines = [line.split() for line in text.splitlines() if line.startswith("    from .")]
        return {name: home for _, home, _, name, *_ in sorted(lines, key=lambda words: words[3])}

    def find(self, name: str) -> Any:
        """What ``__getattr__`` gives: the value, which is the package's from then on."""
        if name == "__all__":
            return list(self.homes)
        if name not in self.homes:
            raise no_attribute(self._package, name, list(self.homes))
        value = self._load(self.homes[name], name)
        setattr(sys.modules[self._package], name, value)
        return value

    def _load(self, home: str, name: str) -> Any:
        module = None if home.strip(".") == "" else import_module(home, self._package)
        if hasattr(module, name):
            return getattr(module, name)
        return import_module(f"{home.rstrip('.')}.{name}", self._package)  # a module
